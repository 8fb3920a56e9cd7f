//! `windlass apiserver`: the embedded API server alone.

use std::path::PathBuf;

use clap::Args;

use super::embedded::EmbeddedArgs;
use super::{print, shutdown};

/// Arguments of `windlass apiserver`.
#[derive(Debug, Args)]
pub(super) struct ApiServerArgs {
    #[command(flatten)]
    embedded: EmbeddedArgs,
    /// Write a kubeconfig for the API server to this file.
    #[arg(long, value_name = "FILE", default_value = ".windlass/kubeconfig")]
    kubeconfig_out: PathBuf,
    /// Write the port to this file once the server is ready. Programs that start the server wait for the file.
    #[arg(long, value_name = "FILE")]
    port_file: Option<PathBuf>,
}

impl ApiServerArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let stop = shutdown::on_signal()?;
        let server = self.embedded.start(self.kubeconfig_out.clone(), self.port_file).await?;
        // On standard output, for who reads it: the log is on standard error.
        print(&format!("ready {} kubeconfig={}\n", server.url(), self.kubeconfig_out.display()))?;
        stop.cancelled().await;
        server.shutdown().await;
        Ok(())
    }
}
