//! `windlass dev`: plugins against an embedded API server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use windlass_apiserver::{ApiServer, Config};
use windlass_kube::client::{self, ConnectOptions};

use super::PluginArgs;
use crate::leadership::LeaseMode;
use crate::manager::{self, Settings};
use crate::policies::GrantMode;
use crate::shutdown;

/// Arguments of `windlass dev`.
#[derive(Debug, Args)]
pub(super) struct DevArgs {
    #[command(flatten)]
    plugins: PluginArgs,
    /// Where the API server listens. It has no authentication, so only loopback addresses are allowed. Port 0: any.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = loopback)]
    listen: SocketAddr,
    /// Where the API server's kubeconfig is written.
    #[arg(long, value_name = "FILE", default_value = ".windlass/kubeconfig")]
    kubeconfig_out: PathBuf,
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "an address and a port, such as 127.0.0.1:6443".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("the embedded API server lets everyone in, so it listens on loopback only, such as 127.0.0.1".to_owned())
    }
}

impl DevArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let settings = Settings::new(self.plugins, GrantMode::Manifest, LeaseMode::None)?;
        let stop = shutdown::on_signal()?;
        let server = ApiServer::start(Config { address: self.listen, ..Config::default() })
            .await
            .with_context(|| format!("cannot start the embedded API server on {}", self.listen))?;
        write_kubeconfig(&self.kubeconfig_out, &server.kubeconfig())?;
        tracing::info!(
            server = server.url(),
            "embedded API server is ready: kubectl --kubeconfig {} get all",
            self.kubeconfig_out.display()
        );
        let options = ConnectOptions { kubeconfig: Some(self.kubeconfig_out), ..ConnectOptions::default() };
        let connection = client::connect(&options).await?;
        let result = manager::run(connection, settings, stop).await;
        server.shutdown().await;
        result
    }
}

fn write_kubeconfig(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make the directory {}", parent.display()))?;
    }
    std::fs::write(path, text).with_context(|| format!("cannot write the kubeconfig {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_api_server_listens_on_loopback_only() {
        assert!(loopback("127.0.0.1:6443").is_ok());
        assert!(loopback("[::1]:0").is_ok());
        assert!(loopback("0.0.0.0:6443").expect_err("everywhere").contains("loopback"));
        assert!(loopback("6443").is_err());
    }
}
