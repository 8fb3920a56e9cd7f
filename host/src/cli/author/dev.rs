//! `windlass dev`: plugins against an embedded API server.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use tokio_util::sync::CancellationToken;
use windlass_author::build;
use windlass_author::file::{self, BuildFile};
use windlass_author::follow::FollowedFolder;
use windlass_kube::client::{self, ConnectOptions, Connection};
use windlass_runtime::{GrantMode, LeaseMode, POLICY_SUFFIX, QUICK_COMPILE_BYTES_MIN, Settings};

use crate::cli::author::embedded::EmbeddedArgs;
use crate::cli::flags::settings::PluginArgs;
use crate::cli::run::shutdown;
use crate::telemetry::brief::BriefOptions;

/// The file of the API server's kubeconfig, relative to the plugin's folder or the current directory.
const KUBECONFIG: &str = ".windlass/kubeconfig";

/// Run a plugin from its sources, or a directory of plugins, against an embedded API server.
///
/// In a plugin's folder, which has a windlass.yaml, `dev` builds the plugin, applies crd.yaml and sample.yaml, and
/// shows what the plugin does. When you change a source, `dev` builds again, and the new plugin takes over. If a build
/// fails, `dev` shows why, and the old plugin keeps running. If the folder has NAME.policy.yaml, the plugin may do only
/// what that grants; otherwise it may do all that it asks for. With --plugins, `dev` runs the plugins of a directory
/// and builds nothing.
///
/// The API server lives in this process, on a loopback port, and keeps its state in memory. Use it with
/// `kubectl --kubeconfig .windlass/kubeconfig`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass dev                    # in the folder of a plugin\n  \
    windlass dev --plugins target/plugins\n  \
    kubectl --kubeconfig .windlass/kubeconfig apply -f examples/webapp/crd.yaml\n  \
    kubectl --kubeconfig .windlass/kubeconfig apply -f examples/webapp/webapp.yaml")]
pub(crate) struct DevArgs {
    /// The plugin's folder, which has a windlass.yaml. Default: the current directory, unless you give --plugins.
    #[arg(value_name = "DIR", conflicts_with = "plugins")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    plugins: PluginArgs,
    #[command(flatten)]
    embedded: EmbeddedArgs,
    /// Write the API server's kubeconfig to this file. Default: .windlass/kubeconfig in the plugin's folder, or here
    /// with --plugins.
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Show the commands of a build, and in the brief log also each repetition of a failure and the writes that were
    /// skipped because they would change nothing.
    #[arg(long, short)]
    verbose: bool,
}

impl DevArgs {
    /// True if this builds a plugin from its folder.
    pub(crate) fn is_in_folder(&self) -> bool {
        self.plugins.plugins.is_none()
    }

    /// The file of the audit log.
    pub(crate) fn audit_log(&self) -> Option<&Path> {
        self.plugins.audit_log()
    }

    /// How much the brief log shows.
    pub(crate) fn brief_options(&self) -> BriefOptions {
        let folder = self.folder.as_deref().unwrap_or(Path::new("."));
        let source_map = self.is_in_folder().then(|| folder.join(build::SOURCE_MAP));
        BriefOptions { verbose: self.verbose, source_map }
    }

    pub(crate) async fn run(mut self) -> anyhow::Result<()> {
        let folder = if self.is_in_folder() { Some(self.folder()?) } else { None };
        let authored = folder.as_ref().map(|(folder, file)| self.prepare(folder, file)).transpose()?;
        let mut settings = self.plugins.settings(GrantMode::Manifest, LeaseMode::None)?;
        // Authors want to see their latest build run.
        settings.rollback = false;
        let stop = shutdown::on_signal()?;
        let kubeconfig = self.kubeconfig_out.unwrap_or_else(|| match &folder {
            Some((folder, _)) => folder.join(KUBECONFIG),
            None => KUBECONFIG.into(),
        });
        let server = self.embedded.start(kubeconfig.clone(), None).await?;
        tracing::info!(
            server = server.url(),
            "embedded API server is ready: kubectl --kubeconfig {} get all",
            shortened(&kubeconfig).display()
        );
        let options = ConnectOptions { kubeconfig: Some(kubeconfig), ..ConnectOptions::default() };
        let connection = client::connect(&options).await?;
        let result = match authored {
            None => windlass_runtime::run(connection, settings, stop).await.map_err(anyhow::Error::from),
            Some(sandbox) => {
                let (folder, file) = folder.context("a sandbox is for a folder")?;
                let followed =
                    FollowedFolder { folder, file, sandbox, connection: connection.clone(), verbose: self.verbose };
                serve(followed, connection, settings, stop).await
            }
        };
        server.shutdown().await;
        result
    }

    /// The plugin's folder and its build file.
    fn folder(&self) -> anyhow::Result<(PathBuf, BuildFile)> {
        let named = self.folder.clone().unwrap_or_else(|| ".".into());
        let folder = named.canonicalize().with_context(|| format!("no folder {}", named.display()))?;
        let file = file::read(&folder).with_context(|| {
            "no plugin to run: `windlass dev` runs in a plugin's folder, `windlass dev --plugins DIR` runs plugins that are built"
        })?;
        Ok((folder, file))
    }

    /// Sets the host up to run the plugin that is built in `folder`, with the policy and configuration there.
    fn prepare(&mut self, folder: &Path, file: &BuildFile) -> anyhow::Result<windlass_wasm::Sandbox> {
        let built = folder.join("build");
        std::fs::create_dir_all(&built).with_context(|| format!("cannot make the directory {}", built.display()))?;
        let has_policy = folder.join(format!("{}{POLICY_SUFFIX}", file.name)).exists();
        let plugins = &mut self.plugins;
        plugins.plugins = Some(built);
        plugins.config_dir.get_or_insert_with(|| folder.to_owned());
        plugins.policy_dir.get_or_insert_with(|| folder.to_owned());
        // If there is a policy, try the plugin under it, as a cluster will.
        plugins.grants.get_or_insert(if has_policy { GrantMode::Policy } else { GrantMode::Manifest });
        // Compiled quickly; the host that runs it compiles better code later.
        crate::cli::author::build::sandbox(&plugins.limits, plugins.cache_dir.clone(), Some(QUICK_COMPILE_BYTES_MIN))
    }
}

/// Builds the plugin and runs it until `stop`.
async fn serve(
    followed: FollowedFolder,
    connection: Connection,
    settings: Settings,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let Some(sources) = stop.run_until_cancelled(followed.begin()).await else { return Ok(()) };
    let following = tokio::spawn(followed.run(sources, stop.clone()));
    let result = windlass_runtime::run(connection, settings, stop.clone()).await;
    // The host may have ended by itself.
    stop.cancel();
    following.await.context("the task that follows the sources has failed")?;
    Ok(result?)
}

/// The path relative to the current directory, if it is below.
pub(crate) fn shortened(path: &Path) -> PathBuf {
    let here = std::env::current_dir().ok().and_then(|here| here.canonicalize().ok());
    here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned)).unwrap_or_else(|| path.to_owned())
}
