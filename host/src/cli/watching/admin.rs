//! Queries a running host at its admin address, or its replicas in a cluster, for the commands that show a host's
//! state.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use http::{Method, Response};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use windlass_core::deceptive;
use windlass_core::error::explained;

use crate::cli::view::text;
use crate::cli::watching::admin_client::AdminClientArgs;
use crate::cli::watching::pods::{AskedPod, PodArgs};
use crate::cli::watching::replica_views::HostPlugins;

/// The bytes that are encoded in a path or a query, because they may have a special meaning there.
const ENCODED_BYTES: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':').remove(b',');
/// The timeout for a host's answer.
const ADMIN_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The exit code if the host cannot be queried.
const UNKNOWN: u8 = 2;

/// The host to query.
#[derive(Clone, Debug, Args)]
pub(crate) struct AdminArgs {
    /// The host's --admin-address, or a port that is forwarded there: HOST:PORT, or https://HOST:PORT for a host with
    /// TLS. Default: the host's Pods in a cluster are asked, through the API server.
    #[arg(long, value_name = "ADDRESS", env = "WINDLASS_ADMIN_ADDRESS")]
    admin_address: Option<String>,
    #[command(flatten)]
    client: AdminClientArgs,
    #[command(flatten)]
    pods: PodArgs,
}

/// The plugins of a host or of its replicas.
pub(crate) struct ShownPlugins {
    /// The plugins, as the host shows them. A plugin of a replica also has the field `replica`.
    pub(crate) plugins: Vec<Value>,
    /// The queried replicas. `None` if one host was queried by its address.
    pub(crate) replicas: Option<Value>,
    /// True if all queried replicas have answered.
    pub(crate) is_complete: bool,
    /// True if a queried host has not looked at all its plugins yet.
    pub(crate) is_starting: bool,
}

/// The host, or the replica, that runs a plugin.
pub(crate) enum PluginHost<'a> {
    Address(AskedAddress<'a>),
    Pod(AskedPod<'a>),
}

/// A host that is queried by its address.
pub(crate) struct AskedAddress<'a> {
    address: &'a str,
    client: &'a AdminClientArgs,
}

/// The reason why nothing can be shown.
#[derive(Debug)]
pub(crate) enum AdminFailure {
    /// The host does not know the plugin or key; its message says which ones exist.
    NotFound(String),
    /// The host cannot be queried, or its answer cannot be shown.
    Unknown(anyhow::Error),
}

impl From<std::io::Error> for AdminFailure {
    /// Standard output cannot be written to, so nothing is shown.
    fn from(error: std::io::Error) -> Self {
        Self::Unknown(anyhow::Error::new(error).context("cannot write to standard output"))
    }
}

impl AdminFailure {
    /// The error, for callers that treat all failures alike.
    pub(crate) fn into_error(self) -> anyhow::Error {
        match self {
            Self::NotFound(why) => anyhow::anyhow!(why),
            Self::Unknown(error) => error,
        }
    }

    /// Prints the failure, and returns its exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::NotFound(why) => {
                eprintln!("windlass: {}", deceptive::escape(why));
                ExitCode::FAILURE
            }
            Self::Unknown(error) => {
                eprintln!("windlass: {}", deceptive::escape(&explained(&**error)));
                ExitCode::from(UNKNOWN)
            }
        }
    }
}

impl AdminArgs {
    /// The host or replica to query about `plugin`.
    pub(crate) async fn host_of(&self, plugin: &str) -> Result<PluginHost<'_>, AdminFailure> {
        match &self.admin_address {
            Some(address) => Ok(PluginHost::Address(self.at(address))),
            None => self.pods.pod_of(plugin).await.map(PluginHost::Pod),
        }
    }

    /// All plugins, or only the one with this name.
    pub(crate) async fn plugins(&self, only: Option<&str>) -> Result<ShownPlugins, AdminFailure> {
        let mut shown = match &self.admin_address {
            Some(address) => {
                let HostPlugins { plugins, is_starting } = self.at(address).plugins().await?;
                ShownPlugins { plugins, replicas: None, is_complete: true, is_starting }
            }
            None => self.pods.plugins().await?,
        };
        if let Some(only) = only {
            let found: Vec<_> = shown.plugins.iter().filter(|plugin| plugin["name"] == only).cloned().collect();
            if found.is_empty() {
                return Err(no_such_plugin(only, &shown.plugins));
            }
            shown.plugins = found;
        }
        Ok(shown)
    }

    fn at<'a>(&'a self, address: &'a str) -> AskedAddress<'a> {
        AskedAddress { address, client: &self.client }
    }
}

impl ShownPlugins {
    /// Everything, for programs.
    pub(crate) fn document(&self) -> Value {
        let mut document = json!({"starting": self.is_starting, "plugins": self.plugins});
        if let Some(replicas) = &self.replicas {
            document["replicas"] = replicas.clone();
        }
        document
    }
}

impl PluginHost<'_> {
    /// The document at `path`.
    pub(crate) async fn look(&self, path: &str) -> Result<Value, AdminFailure> {
        match self {
            Self::Address(host) => host.look(path).await,
            Self::Pod(pod) => pod.look(path).await,
        }
    }
}

/// The failure for a `plugin` that is not among `plugins`.
pub(crate) fn no_such_plugin(plugin: &str, plugins: &[Value]) -> AdminFailure {
    let names: BTreeSet<_> = plugins.iter().map(|plugin| text(&plugin["name"]).replace('\n', "\\n")).collect();
    let there = if names.is_empty() { "none".to_owned() } else { names.into_iter().collect::<Vec<_>>().join(", ") };
    AdminFailure::NotFound(format!("there is no plugin {plugin}; there are: {there}"))
}

impl AskedAddress<'_> {
    /// The document at `path`.
    async fn look(&self, path: &str) -> Result<Value, AdminFailure> {
        self.ask(Method::GET, path).await
    }

    /// The result of a POST to `path`.
    pub(crate) async fn post(&self, path: &str) -> Result<Value, AdminFailure> {
        self.ask(Method::POST, path).await
    }

    async fn ask(&self, method: Method, path: &str) -> Result<Value, AdminFailure> {
        let address = self.address;
        let asking = tokio::time::timeout(ADMIN_ANSWER_TIMEOUT, self.client.ask(address, method, path));
        let asked =
            asking.await.map_err(|_| anyhow::anyhow!("no answer within {ADMIN_ANSWER_TIMEOUT:?}")).and_then(|it| it);
        let cannot = || {
            format!(
                "cannot ask the host at {address} (--admin-address): is it running, was it started with --admin-address, and \
                 is its port forwarded (kubectl port-forward)?"
            )
        };
        let answer = asked.with_context(cannot).map_err(AdminFailure::Unknown)?;
        if answer.status() == 404 && names_what_is_not_there(answer.body()) {
            return Err(AdminFailure::NotFound(answer.body().trim().to_owned()));
        }
        document_of(&answer)
            .with_context(|| format!("cannot use the answer of the host at {address}"))
            .map_err(AdminFailure::Unknown)
    }

    /// The plugins.
    async fn plugins(&self) -> Result<HostPlugins, AdminFailure> {
        HostPlugins::of(self.look("/plugins").await?).ok_or_else(|| {
            let address = self.address;
            let error = anyhow::anyhow!("the host at {address} has no list of plugins: is it of this version?");
            AdminFailure::Unknown(error)
        })
    }
}

/// Encodes a part of a URL's path or query.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED_BYTES).to_string()
}

/// The document in `answer`.
fn document_of(answer: &Response<String>) -> anyhow::Result<Value> {
    let (status, message) = (answer.status(), answer.body().trim());
    match status.as_u16() {
        200 => document(answer.body()),
        401 => bail!(
            "it requires a token: pass one with --token-file FILE, or with --token \"$(kubectl create token ACCOUNT)\". It \
             answers {status}: {message}"
        ),
        _ => bail!("it answers {status}: {message}"),
    }
}

/// Whether a 404 comes from a host that knows the path, but not the plugin or key. Other servers, and older hosts that
/// do not know the path, answer with other words.
pub(crate) fn names_what_is_not_there(answer: &str) -> bool {
    answer.starts_with("there is no plugin ") || answer.contains(" knows no ")
}

/// Parses a host's document, which is a JSON object.
pub(crate) fn document(text: &str) -> anyhow::Result<Value> {
    let shown: Value = serde_json::from_str(text).context("its answer is not that of a host of this version")?;
    ensure!(shown.is_object(), "its answer is not that of a host of this version: it is not a JSON object");
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_in_a_path_are_encoded() {
        assert_eq!(encoded("a/b c?ü:d"), "a%2Fb%20c%3F%C3%BC:d");
    }

    #[test]
    fn a_failed_write_to_standard_output_exits_like_an_unreachable_host() {
        let failure = AdminFailure::from(std::io::Error::from(std::io::ErrorKind::StorageFull));
        assert_eq!(failure.report(), ExitCode::from(UNKNOWN));
        assert!(explained(&*failure.into_error()).contains("standard output"));
    }

    #[test]
    fn an_answer_that_is_no_object_is_refused() {
        assert!(document("{}").is_ok());
        for other in ["[]", "7", "null", "", "ok"] {
            assert!(document(other).is_err(), "{other:?}");
        }
    }

    #[tokio::test]
    async fn an_unreachable_address_says_what_to_do() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let admin_address = listener.local_addr().expect("bound").to_string();
        drop(listener);
        let host = AdminArgs {
            admin_address: Some(admin_address),
            client: AdminClientArgs::default(),
            pods: PodArgs::default(),
        };
        let failure = host.plugins(None).await.map(|it| it.plugins).expect_err("nobody is there");
        let AdminFailure::Unknown(error) = failure else { panic!("{failure:?}") };
        let why = explained(&*error);
        assert!(why.contains("--admin-address") && why.contains("port-forward"), "{why}");
    }
}
