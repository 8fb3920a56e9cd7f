//! Finds the cluster as kubectl does, and checks whether it answers.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use hyper::body::Body as HttpBody;
use kube::client::Body;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use serde::Deserialize;
use tower::{BoxError, Service, ServiceExt as _};
use windlass_core::error::chained;

use crate::client::observer::RequestObserver;
use crate::client::reachability::{Observed, Reachability};
use crate::client::request::{self, RequestError};
use crate::client::restores::Restores;
use crate::client::transport::{self, Tuning};

/// The time that the server may take to answer the first request, for which the user of a command waits.
const CONNECT_CHECK_TIMEOUT: Duration = Duration::from_secs(15);
/// The maximum size of a kubeconfig, which may contain the certificates of many clusters.
const KUBECONFIG_BYTES_MAX: u64 = 16 << 20;

/// The cluster options of the command line.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// `--kubeconfig`. `None` to use the files of `KUBECONFIG`, or `~/.kube/config`, or the service account of the Pod.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`. `None` for the current context.
    pub context: Option<String>,
    /// `--namespace`. `None` for the context's or the Pod's namespace.
    pub namespace: Option<String>,
}

/// A configured client that has sent nothing yet.
#[derive(Clone)]
pub struct Connection {
    /// The client. It does not retry by itself and does not limit the length of watches. Uses HTTP/2 if the server
    /// offers it.
    pub client: Client,
    /// Whether the server answers, as observed on the client's requests.
    pub reachability: Reachability,
    /// The restores of the server that were noticed.
    pub restores: Restores,
    /// Reports how each request ends, including the requests of [`Connection::another_client`].
    pub requests: RequestObserver,
    pub server: String,
    /// The namespace for commands that name none.
    pub default_namespace: String,
    /// The source of the configuration, for messages.
    pub source: String,
    origin: Origin,
}

/// How to reach the server.
#[derive(Clone)]
enum Origin {
    /// The server is reached over the network, with this configuration.
    Configured(Arc<Config>),
    InProcess,
}

impl Connection {
    /// A connection to a server in this process: `service` answers each request. `server` is used in messages. Must be
    /// called on the runtime on which the connection is used.
    pub fn in_process<S, B>(service: S, server: &Uri) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let url = server.to_string().trim_end_matches('/').to_owned();
        let reachability = Reachability::new(&url);
        let default_namespace = "default".to_owned();
        let service = service.map_err(S::Error::into);
        let requests = RequestObserver::default();
        let service = Observed::new(service, reachability.clone(), server).reporting_to(&requests);
        let client = Client::new(service, &default_namespace);
        let (source, origin) = ("this process".to_owned(), Origin::InProcess);
        Self {
            client,
            reachability,
            restores: Restores::default(),
            requests,
            server: url,
            default_namespace,
            source,
            origin,
        }
    }

    /// Another client with its own connections, for requests that must not wait behind other requests. Its tasks run on
    /// the tokio runtime on which this is called. Its requests do not affect `reachability`.
    pub fn another_client(&self) -> Result<Client, ConnectError> {
        match &self.origin {
            Origin::Configured(config) => {
                client(config, &Reachability::new(&self.server), &self.requests, &self.source)
            }
            Origin::InProcess => Ok(self.client.clone()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerVersion {
    /// Such as `1`.
    pub major: String,
    /// The minor version, such as `36`; some vendors append a `+`.
    pub minor: String,
    /// Such as `v1.36.3`.
    pub git_version: String,
    /// Such as `linux/amd64`.
    #[serde(default)]
    pub platform: String,
}

impl ServerVersion {
    /// Whether versions of the server's own resources can be compared as numbers: since Kubernetes 1.35 (KEP-5504).
    #[must_use]
    pub fn has_comparable_versions(&self) -> bool {
        let number = |text: &str| {
            let digits = text.find(|c: char| !c.is_ascii_digit()).map_or(text, |end| &text[..end]);
            digits.parse::<u32>().unwrap_or_default()
        };
        (number(&self.major), number(&self.minor)) >= (1, 35)
    }
}

/// The reason why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no configuration.
    #[error(
        "no cluster is configured: KUBECONFIG is not set, {} does not exist, and this is not a Pod. Set KUBECONFIG or pass \
         --kubeconfig; to try Windlass without a cluster, run `windlass dev`", default.display()
    )]
    NoConfig {
        /// The path of kubectl's default file.
        default: PathBuf,
    },
    /// A kubeconfig file cannot be read or is invalid.
    #[error("the kubeconfig {} cannot be used: {source}", path.display())]
    Kubeconfig { path: PathBuf, source: Box<KubeconfigError> },
    /// No file has the context, or no context is chosen.
    #[error("{}. Known contexts in {origin}: {known}. Choose one with --context", match context {
        Some(context) => format!("there is no context {context:?}"),
        None => "no current context is set".to_owned(),
    })]
    Context {
        /// The requested context. `None` for the current one.
        context: Option<String>,
        origin: String,
        /// The contexts that the files have.
        known: String,
    },
    /// A context was requested, but a Pod's configuration has no contexts.
    #[error("--context {context:?} needs a kubeconfig, and there is none: this Pod would use its service account")]
    ContextInCluster {
        /// The context asked for.
        context: String,
    },
    /// The service account of the Pod cannot be used.
    #[error("the in-cluster service account cannot be used: {source}. Is automountServiceAccountToken off?")]
    InCluster { source: Box<InClusterError> },
    /// No client can be created from the configuration.
    #[error("no client can be made from {origin}: {}", chained(source))]
    Client {
        /// Where the configuration came from.
        origin: String,
        /// The cause: a certificate, a proxy, or an unknown authentication method.
        source: Box<kube::Error>,
    },
    /// The server does not answer.
    #[error("{server} ({origin}) does not answer as an API server: {source}. {}", advice(source))]
    Unreachable {
        server: String,
        /// Where the configuration came from.
        origin: String,
        source: RequestError,
    },
    /// The server that answers is not an API server.
    #[error(
        "{server} ({origin}) is not a Kubernetes API server: its /version is not a version. Check the server's URL"
    )]
    NotKubernetes {
        server: String,
        /// Where the configuration came from.
        origin: String,
        /// The error in the answer.
        source: serde_json::Error,
    },
}

impl ConnectError {
    /// Whether the error may be temporary: the server is down or overloaded, as opposed to a wrong server or rejected
    /// credentials.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable { source, .. } if source.code().is_none_or(|code| code == 429 || code >= 500))
    }
}

fn advice(error: &RequestError) -> &'static str {
    match error.code() {
        Some(401) => "Its credentials are not accepted: log in again, or check the user of the context",
        Some(429 | 500..) => "The server is overloaded or unhealthy: look at its own logs",
        Some(403) => "Its credentials are valid but may not read /version: grant the role system:public-info-viewer",
        Some(_) => "Check that the URL is that of the API server",
        None => "Check that the cluster runs and that the URL and the certificates in the configuration are right",
    }
}

/// Creates a client with kubectl's configuration. Sends nothing.
pub async fn connect(options: &ConnectOptions) -> Result<Connection, ConnectError> {
    let (mut config, source) = load(options).await?;
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let default_namespace = options.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    config.default_namespace.clone_from(&default_namespace);
    let reachability = Reachability::new(&server);
    let requests = RequestObserver::default();
    let client = client(&config, &reachability, &requests, &source)?;
    Ok(Connection {
        client,
        reachability,
        restores: Restores::default(),
        requests,
        server,
        default_namespace,
        source,
        origin: Origin::Configured(Arc::new(config)),
    })
}

fn client(
    config: &Config,
    reachability: &Reachability,
    requests: &RequestObserver,
    source: &str,
) -> Result<Client, ConnectError> {
    transport::client(config, Tuning::default(), reachability, requests)
        .map_err(|error| ConnectError::Client { origin: source.to_owned(), source: Box::new(error) })
}

/// Asks the server for its version.
pub async fn check(connection: &Connection) -> Result<ServerVersion, ConnectError> {
    let (server, origin) = (connection.server.clone(), connection.source.clone());
    match request::get(&connection.client, "/version", CONNECT_CHECK_TIMEOUT).await {
        Ok(text) => {
            serde_json::from_str(&text).map_err(|source| ConnectError::NotKubernetes { server, origin, source })
        }
        Err(source) => Err(ConnectError::Unreachable { server, origin, source }),
    }
}

async fn load(options: &ConnectOptions) -> Result<(Config, String), ConnectError> {
    let default = default_kubeconfig();
    let paths = match &options.kubeconfig {
        Some(path) => vec![path.clone()],
        None => paths_of_variable(std::env::var_os("KUBECONFIG").as_deref()),
    };
    if !paths.is_empty() {
        return from_files(&paths, options).await;
    }
    if default.exists() {
        return from_files(&[default], options).await;
    }
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
        return Err(ConnectError::NoConfig { default });
    }
    if let Some(context) = &options.context {
        return Err(ConnectError::ContextInCluster { context: context.clone() });
    }
    let config = Config::incluster().map_err(|source| ConnectError::InCluster { source: Box::new(source) })?;
    Ok((config, "in-cluster service account".to_owned()))
}

fn default_kubeconfig() -> PathBuf {
    std::env::home_dir().unwrap_or_default().join(".kube/config")
}

/// The files in a `KUBECONFIG`. As in kubectl, files in a list may be missing, but a single file must exist.
fn paths_of_variable(value: Option<&OsStr>) -> Vec<PathBuf> {
    let named: Vec<_> =
        value.iter().flat_map(std::env::split_paths).filter(|path| !path.as_os_str().is_empty()).collect();
    let existing: Vec<_> = named.iter().filter(|path| path.exists()).cloned().collect();
    if existing.is_empty() { named } else { existing }
}

async fn from_files(paths: &[PathBuf], options: &ConnectOptions) -> Result<(Config, String), ConnectError> {
    let mut merged = Kubeconfig::default();
    for path in paths {
        merged = windlass_files::check_argument(path, KUBECONFIG_BYTES_MAX)
            .map_err(|source| KubeconfigError::ReadConfig(source, path.clone()))
            .and_then(|()| Kubeconfig::read_from(path))
            .and_then(|next| merged.merge(next))
            .map_err(|source| ConnectError::Kubeconfig { path: path.clone(), source: Box::new(source) })?;
    }
    let origin = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let context = options.context.clone().or_else(|| merged.current_context.clone()).filter(|name| !name.is_empty());
    let known: Vec<_> = merged.contexts.iter().map(|context| context.name.clone()).collect();
    let Some(context) = context.filter(|name| known.contains(name)) else {
        let context = options.context.clone().or_else(|| merged.current_context.clone());
        return Err(ConnectError::Context { context, origin, known: listed(&known) });
    };
    let chosen = KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(merged, &chosen)
        .await
        .map_err(|source| ConnectError::Kubeconfig { path: Path::new(&origin).to_owned(), source: Box::new(source) })?;
    Ok((config, format!("kubeconfig {origin}, context {context}")))
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_existing_files_of_several_kubeconfigs_count() {
        let here = env!("CARGO_MANIFEST_DIR");
        let existing = format!("{here}/Cargo.toml");
        let both = std::env::join_paths(["/missing/config", &existing]).expect("paths");
        assert_eq!(paths_of_variable(Some(&both)), [PathBuf::from(existing)]);
        assert_eq!(paths_of_variable(Some(OsStr::new("/missing/config"))), [PathBuf::from("/missing/config")]);
        assert!(paths_of_variable(Some(OsStr::new(""))).is_empty());
        assert!(paths_of_variable(None).is_empty());
    }

    #[test]
    fn versions_compare_since_1_35_whatever_the_vendor_appends() {
        for (major, minor, compare) in [("1", "34", false), ("1", "35", true), ("1", "36+", true), ("2", "0", true)] {
            let version = ServerVersion {
                major: major.to_owned(),
                minor: minor.to_owned(),
                git_version: String::new(),
                platform: String::new(),
            };
            assert_eq!(version.has_comparable_versions(), compare, "{version:?}");
        }
        let none = r#"{"major":"","minor":"","gitVersion":"?"}"#;
        assert!(!serde_json::from_str::<ServerVersion>(none).expect("a version").has_comparable_versions());
    }

    #[tokio::test]
    async fn a_wrong_file_is_named() {
        let options = ConnectOptions { kubeconfig: Some("/missing/config".into()), ..ConnectOptions::default() };
        let error = connect(&options).await.err().expect("no file");
        assert!(error.to_string().contains("/missing/config"), "{error}");
    }
}
