//! `windlass pull`: pulls a plugin from a registry.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use windlass_core::error::explained;
use windlass_oci::{Documents, OciReference, PublishedPlugin, Registry};

use crate::cli::flags::limits::LimitArgs;
use crate::cli::registry::access::{RegistryArgs, oci_reference};
use crate::cli::registry::{documents, exit_code, progress};

/// Pull a plugin from a registry.
///
/// Writes NAME.wasm in one step, so that a host that follows the file never sees half of it, and prints the digest of
/// the plugin's manifest in the registry. With that digest instead of a tag you always get exactly this plugin.
/// Everything that the registry sends is bounded and checked against its digest, and nothing is unpacked or run.
///
/// Exit codes: 0, the plugin is there; 1, the registry's artefact is not a plugin, or not intact; 2, it could not be
/// pulled.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass pull oci://registry.example.com/team/shop:1.2.0\n  \
    windlass pull oci://registry.example.com/team/shop@sha256:… -o plugins/shop.wasm --documents shop")]
pub(crate) struct PullArgs {
    /// The plugin in the registry. Without tag and digest, the tag is `latest`.
    #[arg(value_name = "oci://HOST/REPOSITORY[:TAG|@DIGEST]", value_parser = oci_reference)]
    reference: OciReference,
    /// Write the plugin to this file, or into this directory. Default: NAME.wasm in the current directory.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also write the documents that were pushed with the plugin into this directory: a draft of its policy, crd.yaml,
    /// README.md and its bill of materials. Files that exist are not replaced.
    #[arg(long, value_name = "DIR")]
    documents: Option<PathBuf>,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

impl PullArgs {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.pull().await {
            Ok(digest) => {
                crate::cli::print(&digest).context("cannot write to standard output")?;
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => {
                eprintln!("windlass: {}", explained(&*error));
                Ok(ExitCode::from(exit_code(&error)))
            }
        }
    }

    async fn pull(&self) -> anyhow::Result<String> {
        let Self { reference, .. } = self;
        let registry = self.registry.client(reference, &self.limits.limits()?)?;
        let plugin = look_up(&registry, reference).await?;
        let name = name_of(plugin.documents.as_ref(), reference);
        let path = match &self.output {
            Some(folder) if folder.is_dir() => folder.join(format!("{name}.wasm")),
            Some(file) => file.clone(),
            None => PathBuf::from(format!("{name}.wasm")),
        };
        component(&registry, reference, &plugin, &path).await?;
        eprintln!("wrote {}: {} bytes", path.display(), plugin.manifest.component_bytes());
        if let Some(folder) = &self.documents {
            let of_plugin = plugin.documents.as_ref();
            let of_plugin =
                of_plugin.context("the artefact has no documents: another tool than `windlass push` made it")?;
            let files = documents::write(folder, &name, of_plugin)?;
            let files = if files.is_empty() { "nothing, as there are none".to_owned() } else { files.join(", ") };
            eprintln!("wrote into {}: {files}", folder.display());
        }
        Ok(format!("{}\n", plugin.manifest.digest()))
    }
}

/// Reads the plugin's manifest and configuration.
pub(crate) async fn look_up(registry: &Registry, reference: &OciReference) -> anyhow::Result<PublishedPlugin> {
    registry.look_up(reference).await.with_context(|| format!("cannot pull {reference}"))
}

/// Pulls the component to `path`.
pub(crate) async fn component(
    registry: &Registry,
    reference: &OciReference,
    plugin: &PublishedPlugin,
    path: &Path,
) -> anyhow::Result<()> {
    let pulled = registry.pull(reference, plugin, path, progress::shown("pulling")).await;
    pulled.with_context(|| format!("cannot pull {reference}"))
}

/// The plugin's name, as its documents or else its repository say.
pub(crate) fn name_of(documents: Option<&Documents>, reference: &OciReference) -> String {
    let stated = documents.and_then(|documents| documents.manifest["name"].as_str());
    // The name becomes the name of a file, so it must be one that a plugin can have.
    stated.filter(|name| windlass_manifest::is_dns_label(name)).unwrap_or(reference.last_name()).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_that_would_lead_out_of_the_folder_is_not_used() {
        let reference = "oci://registry.example.com/team/shop:1".parse().expect("valid");
        let named = |name: &str| {
            let documents = Documents { manifest: json!({"name": name}), ..Documents::default() };
            name_of(Some(&documents), &reference)
        };
        assert_eq!([named("cart"), named("../../etc/passwd"), named("")], ["cart", "shop", "shop"]);
        assert_eq!(name_of(None, &reference), "shop");
    }
}
