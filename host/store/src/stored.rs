//! A plugin in the store, as callers get it.

use std::path::PathBuf;
use std::sync::Arc;

use windlass_oci::{ContentDigest, PluginManifest};

/// The tag by which a plugin was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedTag {
    pub tag: String,
    /// The host of the registry or mirror that said which digest the tag has.
    pub server: String,
}

/// A plugin in the store. Its file stays there as long as any clone of this value lives.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The digest of the manifest.
    pub digest: ContentDigest,
    /// The digest of the component, which is the content of the file.
    pub file_digest: ContentDigest,
    /// The component's file. Other hosts that share the directory may remove it, so link or copy it.
    pub path: PathBuf,
    /// The size of the component in bytes.
    pub bytes: u64,
    /// `None` if the plugin was named by digest, or was not fetched just now.
    pub resolved: Option<ResolvedTag>,
    _pin: Arc<Pin>,
}

impl Stored {
    /// The plugin with this manifest, whose component is in the file at `path`.
    pub(crate) fn new(manifest: &PluginManifest, path: PathBuf, pin: Arc<Pin>) -> Self {
        Self {
            digest: manifest.digest().clone(),
            file_digest: manifest.component_digest().clone(),
            path,
            bytes: manifest.component_bytes(),
            resolved: None,
            _pin: pin,
        }
    }

    pub(crate) fn with_tag(self, resolved: Option<ResolvedTag>) -> Self {
        Self { resolved, ..self }
    }
}

/// Keeps a plugin in the store.
#[derive(Debug)]
pub(crate) struct Pin;

/// The plugins that were removed from the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    pub plugins: usize,
    /// The size of the removed components in bytes.
    pub bytes: u64,
}
