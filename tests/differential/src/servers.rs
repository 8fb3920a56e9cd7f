//! Both servers for a run: the embedded server in this process, and the real server as the program in `tests/cluster`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::sync::OnceCell;
use windlass_apiserver::{ApiServer, Config, StandIns};

use crate::client::Client;
use crate::hooks::Hooks;
use crate::script::Variables;

/// The variable with the path of the program in `tests/cluster`.
pub const CLUSTER_BIN: &str = "WINDLASS_CLUSTER_BIN";

/// The controllers that the embedded server has too, besides its stand-ins. The results of other controllers would
/// depend on time.
const CONTROLLERS: &str = "garbage-collector,namespace";

/// Both servers, running.
pub struct Servers {
    /// A client of the real server.
    pub real: Client,
    /// A client of ours.
    pub ours: Client,
    /// The variables of the webhooks that scripts may configure; [`crate::hooks`] lists them.
    pub hooks: Variables,
    embedded: Vec<ApiServer>,
}

/// The real server, which all runs in this process share. It ends when its standard input closes, at the end of this
/// process.
static REAL: OnceCell<RealServer> = OnceCell::const_new();

struct RealServer {
    kubeconfig: String,
    _process: Child,
}

impl Servers {
    /// Starts an embedded server, and the real server unless it already runs.
    pub async fn start() -> anyhow::Result<Servers> {
        let server = REAL.get_or_try_init(|| async { tokio::task::spawn_blocking(start_real).await? }).await?;
        let real = real_client(&server.kubeconfig)?;
        let (embedded, ours) = start_embedded().await?;
        Ok(Servers { real, ours, hooks: Hooks::start().await?, embedded: vec![embedded] })
    }

    /// Starts the embedded server twice: a difference between the two is random, so it must not be compared.
    pub async fn start_twins() -> anyhow::Result<Servers> {
        let (one, real) = start_embedded().await?;
        let (other, ours) = start_embedded().await?;
        Ok(Servers { real, ours, hooks: Hooks::start().await?, embedded: vec![one, other] })
    }

    /// Stops the embedded servers.
    pub async fn stop(self) {
        for embedded in self.embedded {
            embedded.shutdown().await;
        }
    }
}

async fn start_embedded() -> anyhow::Result<(ApiServer, Client)> {
    let embedded = ApiServer::start(Config { stand_ins: StandIns::NONE, ..Config::default() }).await?;
    let client = Client::new(&embedded.url(), tls(RootCertStore::empty(), None)?);
    Ok((embedded, client))
}

fn start_real() -> anyhow::Result<RealServer> {
    let program = std::env::var(CLUSTER_BIN)
        .with_context(|| format!("{CLUSTER_BIN} must name the real server; `tools/build-cluster` builds it"))?;
    let mut process = Command::new(&program)
        .args(["--until-stdin-closes", "--gc-sync-period", "1s", "--controllers", CONTROLLERS])
        .env("GOGC", "400")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {program}"))?;
    let output = process.stdout.take().context("standard output is piped")?;
    for line in BufReader::new(output).lines() {
        if let Some(path) = line?.strip_prefix("KUBECONFIG=") {
            return Ok(RealServer { kubeconfig: std::fs::read_to_string(path)?, _process: process });
        }
    }
    bail!("{program} ended before it was ready: {}", process.wait()?)
}

fn real_client(kubeconfig: &str) -> anyhow::Result<Client> {
    let config: Value = serde_saphyr::from_str(kubeconfig).context("the real server's kubeconfig")?;
    let text = |pointer: &str| {
        config.pointer(pointer).and_then(Value::as_str).with_context(|| format!("{pointer} in the kubeconfig"))
    };
    let pem = |pointer: &str| anyhow::Ok(STANDARD.decode(text(pointer)?)?);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem("/clusters/0/cluster/certificate-authority-data")?)?)?;
    let certificate = CertificateDer::from_pem_slice(&pem("/users/0/user/client-certificate-data")?)?;
    let key = PrivateKeyDer::from_pem_slice(&pem("/users/0/user/client-key-data")?)?;
    Ok(Client::new(text("/clusters/0/cluster/server")?, tls(roots, Some((certificate, key)))?))
}

fn tls(
    roots: RootCertStore,
    identity: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
) -> anyhow::Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(match identity {
        Some((certificate, key)) => builder.with_client_auth_cert(vec![certificate], key)?,
        None => builder.with_no_client_auth(),
    })
}
