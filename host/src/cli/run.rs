//! `windlass run`: plugins against a cluster.

use std::path::PathBuf;

use clap::Args;
use windlass_kube::client::{self, ConnectOptions};
use windlass_runtime::{GrantMode, LeaseMode};

use super::{PluginArgs, shutdown};

/// Arguments of `windlass run`.
#[derive(Debug, Args)]
#[command(mut_arg("plugins", |plugins| plugins.required(true)))]
pub(super) struct RunArgs {
    #[command(flatten)]
    plugins: PluginArgs,
    /// The kubeconfig file. Default: KUBECONFIG, then ~/.kube/config, then the Pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl RunArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let settings = self.plugins.settings(GrantMode::Policy, LeaseMode::Shards)?;
        let stop = shutdown::on_signal()?;
        let options = ConnectOptions { kubeconfig: self.kubeconfig, context: self.context, namespace: None };
        // A kubeconfig may name a program that says who we are, and that does not answer.
        let Some(connection) = stop.run_until_cancelled(client::connect(&options)).await else {
            tracing::info!("stopped before the first controller started");
            return Ok(());
        };
        Ok(windlass_runtime::run(connection?, settings, stop).await?)
    }
}
