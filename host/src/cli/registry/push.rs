//! `windlass push`: pushes a plugin to a registry.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use clap::Args;
use windlass_author::file::{self, Language};
use windlass_core::error::explained;
use windlass_files::read_whole;
use windlass_oci::{ComponentNames, ContentDigest, Documents, OciReference, OciVersion, PluginToPush};
use windlass_policy::asks;
use windlass_policy::draft::draft;
use windlass_wasm::{FileContents, Limits, LoadError, Plugin};

use crate::cli::flags::limits::LimitArgs;
use crate::cli::registry::access::{RegistryArgs, oci_reference};
use crate::cli::registry::{NOT_A_PLUGIN, documents, exit_code, progress};
use crate::cli::rights::examine::{self, CacheArgs};

/// Push a plugin to a registry.
///
/// Loads the plugin as a host would, pushes it, and prints the digest of its manifest in the registry. With it go what
/// `windlass inspect oci://…` shows: what the plugin asks for, a draft of its policy, crd.yaml, and from its author's
/// folder README.md and a bill of materials (NAME.cdx.json or NAME.spdx.json). A plugin that is pushed twice has the
/// same digest.
///
/// Exit codes: 0, pushed; 1, the plugin is not right; 2, it could not be pushed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass push . oci://registry.example.com/team/shop:1.2.0\n  \
    windlass push shop.wasm oci://127.0.0.1:5000/shop:dev --plain-http")]
pub(crate) struct PushArgs {
    /// The plugin's file, or its author's folder, in which `windlass build` has built it.
    #[arg(value_name = "NAME.wasm|DIR")]
    plugin: PathBuf,
    /// The place in the registry.
    #[arg(value_name = "oci://HOST/REPOSITORY:TAG", value_parser = tagged)]
    reference: OciReference,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Reads a reference with a tag.
fn tagged(text: &str) -> Result<OciReference, String> {
    let reference = oci_reference(text)?;
    if reference.names_version() && matches!(reference.version(), OciVersion::Tag(_)) {
        Ok(reference)
    } else {
        Err("name a tag to push to, such as oci://HOST/REPOSITORY:1.2.0".to_owned())
    }
}

impl PushArgs {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.push().await {
            Ok(digest) => {
                crate::cli::print(&format!("{digest}\n")).context("cannot write to standard output")?;
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => {
                eprintln!("windlass: {}", explained(&*error));
                Ok(ExitCode::from(if error.is::<LoadError>() { NOT_A_PLUGIN } else { exit_code(&error) }))
            }
        }
    }

    async fn push(&self) -> anyhow::Result<ContentDigest> {
        let (reference, limits) = (&self.reference, self.limits.limits()?);
        let path = plugin_file(&self.plugin)?;
        let plugin = examine::load(&path, &self.limits, self.cache.clone()).await?;
        let to_push = to_push(&plugin, &limits).await?;
        let (name, version) = (plugin.name(), &plugin.manifest().version);
        let client = self.registry.client(reference, &limits)?;
        let pushed = client.push(reference, to_push, progress::shown("pushing")).await;
        let digest = pushed.with_context(|| format!("cannot push {} to {reference}", path.display()))?;
        eprintln!("pushed {name} {version} to {reference}: {} bytes", plugin.size());
        Ok(digest)
    }
}

/// The plugin's file, if `path` is its author's folder.
fn plugin_file(path: &Path) -> anyhow::Result<PathBuf> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let built = path.join("build").join(format!("{}.wasm", file::read(path)?.name));
    ensure!(built.exists(), "there is no {}: run `windlass build` first", built.display());
    Ok(built)
}

/// Everything that is pushed of `plugin`.
async fn to_push(plugin: &Arc<Plugin>, limits: &Limits) -> anyhow::Result<PluginToPush> {
    let path = plugin.path();
    let unreadable = || format!("cannot read {}", path.display());
    let component = read_whole(path, limits.file_bytes).with_context(unreadable)?;
    let contents = FileContents::read(path, limits)?;
    let is_same = ContentDigest::of(&component).as_str().ends_with(&**plugin.digest());
    ensure!(is_same && contents.digest == **plugin.digest(), "{} changed while it was read: try again", path.display());
    let documents = Documents {
        manifest: plugin.describe().await.with_context(unreadable)?,
        policy: Some(policy_draft(plugin, &contents).await?),
        ..documents::beside(path, plugin.name())?
    };
    documents::check_size(&documents)?;
    let names = ComponentNames { exports: contents.exports, imports: contents.imports };
    Ok(PluginToPush { component: component.into(), names, documents })
}

/// The policy that `windlass grant` would write, without asking a cluster for names of kinds.
async fn policy_draft(plugin: &Plugin, contents: &FileContents) -> anyhow::Result<String> {
    let manifest = plugin.manifest();
    let names = examine::names_of(plugin.path(), manifest, None).await?;
    let asks = asks::asks(manifest, &names);
    let language = contents.language();
    let instances = language.as_deref().and_then(Language::titled).map(Language::instances).unwrap_or_default();
    let (version, digest) = (&manifest.version, plugin.short_digest());
    let origin = format!("as `windlass push` wrote it for review: version {version}, sha256 {digest}");
    Ok(draft(manifest, &origin, &asks, false, instances))
}
