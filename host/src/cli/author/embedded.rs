//! The flags of the embedded API server, shared by `dev` and `apiserver`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use windlass_apiserver::{ApiServer, Authorization, Config, ServerCertificate, StandIns, StandaloneOptions, Tls};
use windlass_files::read_argument_text;

use crate::cli::watching::admin_client::CA_FILE_BYTES_MAX;

/// The embedded API server's address, initial objects, behaviour and authorization.
#[derive(Debug, Args)]
pub(crate) struct EmbeddedArgs {
    /// The address of the API server. It must be a loopback address, as the server is for tests. Port 0: any free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = loopback)]
    listen: SocketAddr,
    /// Create the objects of this directory's manifests (*.yaml, *.yml, *.json) when the server starts: namespaces and
    /// definitions first.
    #[arg(long, value_name = "DIR")]
    load: Option<PathBuf>,
    /// Keep the objects in this file, and load the objects that it has. Default: all objects are lost when the process
    /// ends.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Answer as on a bad day: errors, delays, lost answers, stale caches, missed events. A file of kind `Reactors`
    /// defines when. The server follows the file.
    #[arg(long, value_name = "FILE")]
    reactors: Option<PathBuf>,
    /// The controllers that run, by name and separated by commas. gc: deletes the dependents of a deleted owner.
    /// namespaces: empties a deleted namespace and removes it. stand-ins: those of --stand-ins. all: these three. none:
    /// a bare API server like envtest's, in which deleted namespaces and dependents stay, and workloads never become
    /// ready.
    #[arg(long, value_name = "NAMES", default_value = "all")]
    controllers: Controllers,
    /// The parts of a cluster that the server simulates, by name and separated by commas; or all, none or default.
    /// default: workloads become ready by their status alone, and namespaces have a service account. all: deployments
    /// have replica sets and revisions, and pods run, end and fail. The names: deployments, replicasets, pods,
    /// statefulsets, daemonsets, jobs, endpoints, poddisruptionbudgets, serviceaccounts, tokens, statuses.
    #[arg(long, value_name = "NAMES", default_value_t)]
    stand_ins: StandIns,
    /// How requests are authorized. rbac: by the roles in the API server; the kubeconfig has an administrator's token,
    /// and `kubectl --as` tries out what other users may do. Implies --tls, as kubectl sends no token over plain HTTP.
    #[arg(long, value_enum, value_name = "MODE", default_value = "always-allow")]
    authorization: AuthorizationMode,
    /// Serve HTTPS, with a certificate that the server makes; the kubeconfig has its authority and an administrator's
    /// client certificate. Default: with --authorization rbac and with --client-ca-file. --tls=false serves plain HTTP
    /// even with --authorization rbac, for clients that send tokens over it; it cannot be combined with
    /// --client-ca-file.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    tls: Option<bool>,
    /// Serve HTTPS, and accept client certificates of this authority, a PEM file: the common name is the user, the
    /// organizations are the groups.
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum AuthorizationMode {
    AlwaysAllow,
    Rbac,
}

/// The controllers to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Controllers {
    garbage_collection: bool,
    namespace_deletion: bool,
    stand_ins: bool,
}

impl FromStr for Controllers {
    type Err = String;

    fn from_str(text: &str) -> Result<Controllers, String> {
        let mut found = Controllers::default();
        for name in text.split(',').map(str::trim) {
            match name {
                "gc" => found.garbage_collection = true,
                "namespaces" => found.namespace_deletion = true,
                "stand-ins" => found.stand_ins = true,
                "all" => found = Controllers { garbage_collection: true, namespace_deletion: true, stand_ins: true },
                "none" if text.trim() == "none" => {}
                "none" => return Err("none stands alone".to_owned()),
                _ => return Err(format!("there is no {name:?}; there are gc, namespaces, stand-ins, all and none")),
            }
        }
        Ok(found)
    }
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
    pub(crate) async fn start(self, kubeconfig: PathBuf, port_file: Option<PathBuf>) -> anyhow::Result<ApiServer> {
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
            read_argument_text(path, CA_FILE_BYTES_MAX)
                .with_context(|| format!("cannot read the certificates of --client-ca-file {}", path.display()))
        });
        let client_authority = client_authority.transpose()?;
        if self.tls == Some(false) && client_authority.is_some() {
            bail!("--client-ca-file needs HTTPS, as plain HTTP has no client certificates: leave out --tls=false");
        }
        let wants_tls = authorization == Authorization::Rbac || client_authority.is_some();
        let tls =
            self.tls.unwrap_or(wants_tls).then_some(Tls { certificate: ServerCertificate::SelfMade, client_authority });
        Ok(Config {
            address: self.listen,
            stand_ins: if self.controllers.stand_ins { self.stand_ins } else { StandIns::NONE },
            garbage_collection: self.controllers.garbage_collection,
            namespace_deletion: self.controllers.namespace_deletion,
            authorization,
            tls,
            ..Config::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        embedded: EmbeddedArgs,
    }

    fn config(flags: &[&str]) -> Config {
        let program = Program::try_parse_from([&["program"], flags].concat()).expect("flags");
        program.embedded.config().expect("a configuration")
    }

    #[test]
    fn each_controller_can_run_alone() {
        let running = |flags: &[&str]| {
            let config = config(flags);
            (config.garbage_collection, config.namespace_deletion, config.stand_ins)
        };
        let stand_ins = StandIns::default();
        assert_eq!(running(&[]), (true, true, stand_ins));
        assert_eq!(running(&["--controllers", "none"]), (false, false, StandIns::NONE));
        assert_eq!(running(&["--controllers", "none", "--stand-ins", "all"]), (false, false, StandIns::NONE));
        assert_eq!(running(&["--controllers", "gc"]), (true, false, StandIns::NONE));
        assert_eq!(running(&["--controllers", "namespaces"]), (false, true, StandIns::NONE));
        assert_eq!(running(&["--controllers", "stand-ins"]), (false, false, stand_ins));
        assert_eq!(running(&["--controllers", "gc, namespaces"]), (true, true, StandIns::NONE));
        let all = ["--controllers", "all", "--stand-ins", "all"];
        assert_eq!(running(&all), (true, true, StandIns::ALL));
        for wrong in ["", "gc,none", "GC", "deployments"] {
            assert!(wrong.parse::<Controllers>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn rbac_is_served_with_https_unless_tls_is_refused() {
        for (flags, expected) in [
            (&[][..], false),
            (&["--tls"], true),
            (&["--authorization", "rbac"], true),
            (&["--authorization", "always-allow"], false),
            (&["--authorization", "rbac", "--tls"], true),
            (&["--authorization", "rbac", "--tls=false"], false),
        ] {
            assert_eq!(config(flags).tls.is_some(), expected, "{flags:?}");
        }
    }

    #[test]
    fn client_certificates_need_https() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("ca.pem");
        std::fs::write(&file, "an authority").expect("a file");
        let file = file.to_str().expect("UTF-8");
        let config = |more: &[&str]| {
            let flags = [&["program", "--client-ca-file", file], more].concat();
            Program::try_parse_from(flags).expect("flags").embedded.config()
        };
        for flags in [&[][..], &["--tls"]] {
            let tls = config(flags).expect("a configuration").tls.expect("HTTPS");
            assert_eq!(tls.client_authority.as_deref(), Some("an authority"));
        }
        let error = config(&["--tls=false"]).expect_err("plain HTTP").to_string();
        assert!(error.contains("--client-ca-file needs HTTPS"), "{error}");
    }

    #[test]
    fn the_embedded_api_server_listens_on_loopback_only() {
        assert!(loopback("127.0.0.1:6443").is_ok());
        assert!(loopback("[::1]:0").is_ok());
        assert!(loopback("0.0.0.0:6443").expect_err("everywhere").contains("loopback"));
        assert!(loopback("6443").is_err());
    }
}
