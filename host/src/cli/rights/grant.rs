//! `windlass grant`: writes a policy for review.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::Args;

use crate::cli::flags::limits::LimitArgs;
use crate::cli::rights::examine::{self, CacheArgs, ClusterArgs, ConfiguredManifest, PluginConfigArgs};
use windlass_author::file::Language;
use windlass_files::replace;
use windlass_objects::{OciSource, drafted_objects};
use windlass_policy::draft::{PolicyDraft, draft};
use windlass_policy::review::review;
use windlass_runtime::read_policy;
use windlass_wasm::FileContents;

const UNPRINTED: &str = "cannot write to standard output";

/// Write the policy that a plugin asks for, for review.
///
/// Loads NAME.wasm without running it, and writes NAME.policy.yaml. The policy grants everything that the plugin asks
/// for; each rule has the reason, and a mark if it is sensitive. Delete what you do not want to grant: the plugin may
/// do nothing else.
///
/// If there is a policy already, `grant` leaves it alone, shows what it lacks, and exits with 1 if it lacks anything.
///
/// With --image, it writes the objects of the plugin instead, for `kubectl apply` and a host with --objects: the
/// `ClusterPluginPolicy` with these rights, and the `ClusterPlugin` that runs the image.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass grant plugins/webapp.wasm            # then read plugins/webapp.policy.yaml\n  \
    windlass grant plugins/webapp.wasm -o -       # only show it\n  windlass grant webapp.wasm --image \
    registry.example.com/team/webapp:1.2.0"
)]
pub(crate) struct GrantArgs {
    /// The plugin's file.
    #[arg(value_name = "NAME.wasm")]
    plugin: PathBuf,
    /// Write the policy to this file; `-` for standard output. Default: NAME.policy.yaml beside the plugin, and with
    /// --image NAME.objects.yaml.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the objects of a plugin that `windlass push` has written there: HOST/REPOSITORY with a tag or a digest.
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// With --image: a Secret in the host's namespace with the login of the registry.
    #[arg(long, value_name = "NAME", requires = "image")]
    pull_secret: Option<String>,
    /// Replace the policy if there is one already.
    #[arg(long)]
    force: bool,
    /// Leave out `paused: true`: a host that follows the directory starts the plugin at once.
    #[arg(long)]
    in_force: bool,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    config: PluginConfigArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl GrantArgs {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let plugin = examine::load(&self.plugin, &self.limits, self.cache).await?;
        let ConfiguredManifest { manifest, unknown, .. } = self.config.manifest(&plugin);
        if let Some(unknown) = unknown {
            eprintln!("windlass: {unknown}");
        }
        let asks = self.cluster.asks(plugin.path(), &manifest).await?;
        let language = FileContents::read(&self.plugin, &self.limits.limits()?)?.language();
        let instances = language.as_deref().and_then(Language::titled).map(Language::instances).unwrap_or_default();
        let (version, digest) = (&manifest.version, plugin.short_digest());
        let origin = format!("as `windlass grant` wrote it for review: version {version}, sha256 {digest}");
        if let Some(image) = &self.image {
            let config = self.config.of_object(&plugin).await?;
            let draft = PolicyDraft::new(&manifest, &origin, &asks, self.in_force, instances);
            let image = image.strip_prefix("oci://").unwrap_or(image).to_owned();
            let source = OciSource { image, pull_secret: self.pull_secret };
            let text = drafted_objects(plugin.name(), &source, config.as_ref(), &draft)
                .map_err(|problem| anyhow!("--image {}: {problem}", source.image))?;
            let beside = || plugin.path().with_file_name(format!("{}.objects.yaml", plugin.name()));
            return write_new(&self.output.unwrap_or_else(beside), &text, self.in_force, self.force);
        }
        let text = draft(&manifest, &origin, &asks, self.in_force, instances);
        let output = self.output.unwrap_or_else(|| examine::beside(&plugin));
        if output == Path::new("-") {
            return write(&output, &text, self.in_force);
        }
        if output.exists() {
            let file = output.display();
            let mut is_narrowed = false;
            let news = match read_policy(&output, plugin.name()) {
                Ok(policy) => {
                    let review = review(&manifest, asks, &[&policy.allowance]);
                    is_narrowed = review.is_narrowed();
                    // The new policy will grant all that the plugin asks for, so list also what the old policy narrows.
                    if self.force { review.lacking() } else { review.missing() }
                }
                Err(error) if self.force => {
                    eprintln!("windlass: the existing policy cannot be read, and is replaced: {error}");
                    String::new()
                }
                Err(error) => bail!("there is a policy that cannot be read, and --force would replace it: {error}"),
            };
            let added = if news.is_empty() { String::new() } else { format!("# missing in {file}:\n{news}") };
            crate::cli::print(&added).context(UNPRINTED)?;
            if !self.force && news.is_empty() {
                let narrowed = if is_narrowed { ", narrowed to fewer namespaces or names" } else { "" };
                eprintln!("{file} already exists and grants all that {} asks for{narrowed}", plugin.name());
                return Ok(ExitCode::SUCCESS);
            }
            if !self.force {
                eprintln!(
                    "windlass: {file} already exists: add what you want of the above, or replace it with --force"
                );
                return Ok(ExitCode::FAILURE);
            }
        }
        write(&output, &text, self.in_force)
    }
}

/// Writes a draft to a file that must not exist, unless by `force`, or to standard output.
fn write_new(output: &Path, text: &str, in_force: bool, force: bool) -> anyhow::Result<ExitCode> {
    if output != Path::new("-") && output.exists() && !force {
        let file = output.display();
        bail!("{file} already exists: replace it with --force, or compare it with what `-o -` shows");
    }
    write(output, text, in_force)
}

/// Writes a draft to a file or to standard output, and says what to do with the file.
fn write(output: &Path, text: &str, in_force: bool) -> anyhow::Result<ExitCode> {
    if output == Path::new("-") {
        crate::cli::print(text).context(UNPRINTED)?;
        return Ok(ExitCode::SUCCESS);
    }
    replace(output, text.as_bytes()).with_context(|| format!("cannot write {}", output.display()))?;
    let sensitive = text.lines().filter(|line| line.trim_start().starts_with("# SENSITIVE")).count();
    eprintln!("wrote {}: read it before you rely on it; lines marked SENSITIVE: {sensitive}", output.display());
    if !in_force {
        eprintln!("it has the line `paused: true`, so the plugin is not called until you remove that line");
    }
    Ok(ExitCode::SUCCESS)
}
