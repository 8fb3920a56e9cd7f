//! The flags of the embedded API server, which `dev` and `apiserver` have.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use windlass_apiserver::{ApiServer, Authorization, Config, ServerCertificate, StandIns, StandaloneOptions, Tls};
use windlass_files::read_argument_text;

use super::admin_client::MOST_CA_BYTES;

/// Where the embedded API server listens, what it begins with, and whom it lets do what.
#[derive(Debug, Args)]
pub(super) struct EmbeddedArgs {
    /// The address of the API server. It must be a loopback address, as the server is for tests. Port 0: any free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = loopback)]
    listen: SocketAddr,
    /// Create the objects of this directory's manifests (*.yaml, *.yml, *.json) when the server starts: namespaces and
    /// definitions first.
    #[arg(long, value_name = "DIR")]
    load: Option<PathBuf>,
    /// Keep the objects in this file, and begin with those that it has. Default: all is gone with the process.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Answer as on a bad day: errors, delays, lost answers, stale caches, missed events. A file of kind `Reactors` says when. The
    /// server follows the file.
    #[arg(long, value_name = "FILE")]
    reactors: Option<PathBuf>,
    /// The parts of a cluster that the server plays, by name and separated by commas; or all, none or default. default: workloads
    /// become ready by their status alone, and namespaces have a service account. all: deployments have replica sets and
    /// revisions, and pods run, end and fail. The names: deployments, replicasets, pods, statefulsets, daemonsets, jobs,
    /// endpoints, poddisruptionbudgets, serviceaccounts, tokens, statuses.
    #[arg(long, value_name = "NAMES", default_value_t)]
    stand_ins: StandIns,
    /// How requests are authorized. rbac: by the roles in the API server; the kubeconfig has an administrator's token, and
    /// `kubectl --as` tries what others may do.
    #[arg(long, value_enum, value_name = "MODE", default_value = "always-allow")]
    authorization: AuthorizationMode,
    /// Serve HTTPS, with a certificate that is made for it; the kubeconfig has its authority.
    #[arg(long)]
    tls: bool,
    /// Serve HTTPS, and take client certificates of this authority, a PEM file: the common name is the user, the organizations are
    /// the groups.
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum AuthorizationMode {
    AlwaysAllow,
    Rbac,
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "an address and a port, such as 127.0.0.1:6443".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("the embedded API server is for tests, so it listens on loopback only, such as 127.0.0.1".to_owned())
    }
}

impl EmbeddedArgs {
    /// Starts the server, and writes the files for its clients.
    pub(super) async fn start(self, kubeconfig: PathBuf, port_file: Option<PathBuf>) -> anyhow::Result<ApiServer> {
        let options = StandaloneOptions {
            config: self.config()?,
            load: self.load,
            state: self.state,
            reactors: self.reactors,
            kubeconfig: Some(kubeconfig),
            port_file,
        };
        windlass_apiserver::serve(options).await.context("cannot start the embedded API server")
    }

    fn config(&self) -> anyhow::Result<Config> {
        let authorization = match self.authorization {
            AuthorizationMode::AlwaysAllow => Authorization::AlwaysAllow,
            AuthorizationMode::Rbac => Authorization::Rbac,
        };
        let client_authority = self.client_ca_file.as_ref().map(|path| {
            read_argument_text(path, MOST_CA_BYTES)
                .with_context(|| format!("cannot read the certificates of --client-ca-file {}", path.display()))
        });
        let client_authority = client_authority.transpose()?;
        let tls = (self.tls || client_authority.is_some())
            .then_some(Tls { certificate: ServerCertificate::SelfMade, client_authority });
        Ok(Config { address: self.listen, stand_ins: self.stand_ins, authorization, tls, ..Config::default() })
    }
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
