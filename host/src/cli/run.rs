//! `windlass run`: plugins against a cluster.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use tokio::runtime::{Builder, Runtime};
use windlass_kube::client::{self, ConnectOptions};
use windlass_runtime::{GrantMode, LeaseMode};

use super::config::HostConfig;
use super::log::LogControl;
use super::record::RecordArgs;
use super::{PluginArgs, limits, shutdown};

/// Arguments of `windlass run`.
#[derive(Debug, Args)]
#[command(mut_arg("plugins", |plugins| plugins.required(true)), mut_arg("limits", |it| it.long_help(limits::long_help())))]
pub(super) struct RunArgs {
    /// Read what flags can set from this file too, of kind `HostConfiguration`. Flags and environment variables override it.
    /// `windlass config` shows what comes of it.
    #[arg(long, value_name = "FILE", env = "WINDLASS_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    plugins: PluginArgs,
    #[command(flatten)]
    record: RecordArgs,
    /// The kubeconfig file. Default: KUBECONFIG, then ~/.kube/config, then the Pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// A thread for elections. Whatever else keeps the host busy, its leases are renewed in time.
fn lease_threads() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().thread_name("windlass-lease").worker_threads(1).build()
}

impl RunArgs {
    /// The file of the audit log.
    pub(super) fn audit_log(&self) -> Option<&Path> {
        self.plugins.audit_log()
    }

    /// Refuses the settings that a host would refuse. The plugins may not be named yet.
    pub(super) fn check(mut self) -> anyhow::Result<()> {
        self.plugins.plugins.get_or_insert_default();
        self.plugins.settings(GrantMode::Policy, LeaseMode::Shards)?;
        Ok(())
    }

    /// Runs a host until it is told to stop. `config` is what `--config` names, and has been read.
    pub(super) async fn run(self, config: Option<HostConfig>, log: LogControl) -> anyhow::Result<()> {
        if let (Some(config), Some(file)) = (config, &self.config) {
            tracing::info!(file = %file.display(), "settings come from a configuration file too");
            tokio::spawn(config.follow(log));
        }
        let mut settings = self.plugins.settings(GrantMode::Policy, LeaseMode::Shards)?;
        let stop = shutdown::on_signal()?;
        let options = ConnectOptions { kubeconfig: self.kubeconfig, context: self.context, namespace: None };
        // A kubeconfig may name a program that says who we are, and that does not answer.
        let Some(connection) = stop.run_until_cancelled(client::connect(&options)).await else {
            tracing::info!("stopped before the first controller started");
            return Ok(());
        };
        let connection = connection?;
        let threads = lease_threads().context("cannot start the thread of the leases")?;
        settings.record = self.record.start()?;
        settings.leases.threads = Some(threads.handle().clone());
        let result = windlass_runtime::run(connection, settings, stop).await;
        threads.shutdown_background();
        Ok(result?)
    }
}
