//! The plugin that `inspect` shows: a file that was loaded, or one in a registry, which is not run.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_author::documents::CRD;
use windlass_manifest::{EntryPoint, Manifest};
use windlass_oci::{Documents, OciReference, PublishedPlugin};
use windlass_wasm::{AbiVersion, FileContents, Limits, Plugin};

use crate::cli::registry::access::RegistryArgs;
use crate::cli::registry::pull;
use crate::cli::rights::examine;

/// The facts about a plugin that are shown.
pub(super) struct Subject {
    pub(super) manifest: Manifest,
    /// The plugin's file or its name in the registry, for people.
    pub(super) place: PathBuf,
    /// The plugin's file.
    pub(super) path: PathBuf,
    pub(super) digest: String,
    pub(super) bytes: u64,
    /// The size of the machine code. `None` if the plugin was not compiled.
    pub(super) compiled_bytes: Option<u64>,
    pub(super) abi: AbiVersion,
    pub(super) entry: EntryPoint,
    pub(super) imports: Vec<String>,
    pub(super) writes: bool,
    pub(super) published: Option<PublishedPlugin>,
}

/// A plugin that was pulled into a folder of its own, which is removed afterwards.
pub(super) struct PulledFile {
    pub(super) path: PathBuf,
    reference: OciReference,
    published: PublishedPlugin,
    _folder: TempDir,
}

impl PulledFile {
    /// Pulls the plugin, and puts its definitions beside it.
    pub(super) async fn pull(
        reference: &OciReference,
        registry: &RegistryArgs,
        limits: &Limits,
    ) -> anyhow::Result<Self> {
        let registry = registry.client(reference, limits)?;
        let published = pull::look_up(&registry, reference).await?;
        let folder = tempfile::tempdir().context("cannot make a temporary directory")?;
        let name = pull::name_of(published.documents.as_ref(), reference);
        let path = folder.path().join(format!("{name}.wasm"));
        pull::component(&registry, reference, &published, &path).await?;
        if let Some(definitions) = published.documents.as_ref().and_then(|it| it.definitions.as_ref()) {
            let to = folder.path().join(CRD);
            std::fs::write(&to, definitions).with_context(|| format!("cannot write {}", to.display()))?;
        }
        Ok(Self { path, reference: reference.clone(), published, _folder: folder })
    }
}

impl Subject {
    pub(super) fn of_plugin(plugin: &Plugin) -> Self {
        Self {
            manifest: plugin.manifest().clone(),
            place: plugin.path().to_owned(),
            path: plugin.path().to_owned(),
            digest: plugin.digest().to_string(),
            bytes: plugin.size(),
            compiled_bytes: Some(plugin.compiled_size()),
            abi: plugin.abi(),
            entry: plugin.entry(),
            imports: plugin.imports().to_vec(),
            writes: plugin.writes(),
            published: None,
        }
    }

    /// The plugin in a registry, by the manifest that its publisher states.
    pub(super) fn of_pulled(pulled: &PulledFile, contents: &FileContents) -> anyhow::Result<Self> {
        let place = PathBuf::from(pulled.reference.to_string());
        let documents = pulled.published.documents.as_ref().with_context(|| {
            let shown = place.display();
            format!("{shown} has no manifest, because another tool has pushed it: pull it, and inspect the file")
        })?;
        let manifest = Manifest::from_value(documents.manifest.clone())
            .with_context(|| format!("the manifest that was pushed with {} cannot be used", place.display()))?;
        examine::accept(&place, &manifest)?;
        let (entry, abi) = contents.entry()?;
        let imports = contents.imports.clone();
        let writes = |import: &String| import.starts_with("windlass:plugin/writes");
        Ok(Self {
            manifest,
            path: pulled.path.clone(),
            place,
            digest: contents.digest.clone(),
            bytes: contents.bytes,
            compiled_bytes: None,
            abi,
            entry,
            writes: entry == EntryPoint::Composer || imports.iter().any(writes),
            imports,
            published: Some(pulled.published.clone()),
        })
    }

    /// The lines about the registry. Empty for a file.
    pub(super) fn published_text(&self) -> String {
        let Some(PublishedPlugin { manifest, documents, .. }) = &self.published else { return String::new() };
        let digest = manifest.digest();
        let names = names(documents.as_ref()).join(", ");
        format!("  pushed   {digest}, with {names}\n           as its publisher states them: the plugin was not run\n")
    }

    /// [`Self::published_text`] as JSON.
    pub(super) fn published_json(&self) -> Option<Value> {
        let PublishedPlugin { manifest, documents, .. } = self.published.as_ref()?;
        Some(json!({"digest": manifest.digest().as_str(), "documents": names(documents.as_ref())}))
    }
}

/// The documents that were pushed.
fn names(documents: Option<&Documents>) -> Vec<&'static str> {
    let Some(Documents { manifest: _, policy, definitions, readme, sbom }) = documents else { return vec![] };
    let optional = [
        ("policy draft", policy.is_some()),
        ("definitions", definitions.is_some()),
        ("README", readme.is_some()),
        ("bill of materials", sbom.is_some()),
    ];
    std::iter::once("manifest").chain(optional.into_iter().filter_map(|(name, is)| is.then_some(name))).collect()
}

/// The name of a plugin in a registry, if that is what `argument` is.
pub(super) fn reference_in(argument: &Path) -> anyhow::Result<Option<OciReference>> {
    let text = argument.to_str().filter(|text| text.starts_with(crate::cli::registry::access::OCI_PREFIX));
    Ok(text.map(str::parse).transpose()?)
}
