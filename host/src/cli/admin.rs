//! Asks a running host at its admin address: for the commands that show what a host does.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use windlass_core::deceptive;
use windlass_core::error::explained;

use super::admin_client::AdminClientArgs;
use super::view::text;

/// The bytes that mean something in a path or a query.
const MEANT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':').remove(b',');
/// How long a host may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How an answer begins that knows no such path at all, as that of an older host.
const NO_PATH: &str = "not found;";
/// The exit code where the host cannot be asked.
const UNKNOWN: u8 = 2;

/// The host that is asked.
#[derive(Clone, Debug, Args)]
pub(super) struct AdminArgs {
    /// The host's --admin-address, or a port that is forwarded there: HOST:PORT, or https://HOST:PORT for a host with TLS.
    #[arg(long, value_name = "ADDRESS", env = "WINDLASS_ADMIN_ADDRESS")]
    admin_address: String,
    #[command(flatten)]
    client: AdminClientArgs,
}

/// Why there is nothing to show.
#[derive(Debug)]
pub(super) enum AdminFailure {
    /// The host knows no such thing, and says what there is.
    NotFound(String),
    /// The host cannot be asked.
    Unknown(anyhow::Error),
}

impl AdminFailure {
    /// The failure, where it makes no difference which it is.
    pub(super) fn into_error(self) -> anyhow::Error {
        match self {
            Self::NotFound(why) => anyhow::anyhow!(why),
            Self::Unknown(error) => error,
        }
    }

    /// Tells the failure, and which exit code it has.
    pub(super) fn told(&self) -> ExitCode {
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
    /// The document at `path`.
    pub(super) async fn look(&self, path: &str) -> Result<Value, AdminFailure> {
        let address = &self.admin_address;
        let asking = tokio::time::timeout(PATIENCE, self.ask(path));
        let asked = asking.await.map_err(|_| anyhow::anyhow!("no answer within {PATIENCE:?}")).and_then(|it| it);
        let cannot = || {
            format!(
                "cannot ask the host at {address} (--admin-address): is it there, was it started with --admin-address, and \
                 is its port forwarded (kubectl port-forward)?"
            )
        };
        let answer = asked.with_context(cannot).map_err(AdminFailure::Unknown)?;
        if answer.code() == Some(404) && !answer.body.starts_with(NO_PATH) {
            return Err(AdminFailure::NotFound(answer.body.trim().to_owned()));
        }
        answer
            .document()
            .with_context(|| format!("cannot use the answer of the host at {address}"))
            .map_err(AdminFailure::Unknown)
    }

    /// The answer to GET `path`.
    async fn ask(&self, path: &str) -> anyhow::Result<AdminAnswer> {
        let answer = self.client.get(&self.admin_address, path).await?;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .context("it does not answer by HTTP: a host with TLS is asked by https://")?;
        let line = head.lines().next().unwrap_or_default();
        Ok(AdminAnswer { line: line.to_owned(), body: body.to_owned() })
    }

    /// The plugins, or the one of that name.
    pub(super) async fn plugins(&self, only: Option<&str>) -> Result<Vec<Value>, AdminFailure> {
        let mut shown = self.look("/plugins").await?;
        let Value::Array(plugins) = shown["plugins"].take() else {
            let error =
                anyhow::anyhow!("the host at {} has no list of plugins: is it of this version?", self.admin_address);
            return Err(AdminFailure::Unknown(error));
        };
        let Some(only) = only else { return Ok(plugins) };
        let names: Vec<_> = plugins.iter().map(|plugin| text(&plugin["name"]).to_owned()).collect();
        let found: Vec<_> = plugins.into_iter().filter(|plugin| plugin["name"] == only).collect();
        if found.is_empty() {
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(AdminFailure::NotFound(format!("there is no plugin {only}; there are: {there}")));
        }
        Ok(found)
    }
}

/// A part of a URL's path or query.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, MEANT).to_string()
}

/// An answer of the admin endpoint.
#[derive(Debug)]
struct AdminAnswer {
    /// The status line.
    line: String,
    body: String,
}

impl AdminAnswer {
    /// The HTTP status. None: the line has none.
    fn code(&self) -> Option<u16> {
        self.line.split(' ').nth(1)?.parse().ok()
    }

    /// The document, if that is what the answer has.
    fn document(&self) -> anyhow::Result<Value> {
        match self.code() {
            Some(200) => {}
            Some(401) => bail!(
                "it wants a token: pass one with --token-file FILE, or with --token \"$(kubectl create token ACCOUNT)\". It \
                 answers {}: {}",
                self.line,
                self.body.trim()
            ),
            _ => bail!("it answers {}: {}", self.line, self.body.trim()),
        }
        serde_json::from_str(&self.body).context("it answers something else than a host of this version does")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_nothing_that_means_something_in_it() {
        assert_eq!(encoded("a/b c?ü:d"), "a%2Fb%20c%3F%C3%BC:d");
    }

    #[tokio::test]
    async fn an_address_where_nobody_is_says_what_to_do() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let admin_address = listener.local_addr().expect("bound").to_string();
        drop(listener);
        let failure = AdminArgs { admin_address, client: AdminClientArgs::default() }
            .look("/plugins")
            .await
            .expect_err("nobody is there");
        let AdminFailure::Unknown(error) = failure else { panic!("{failure:?}") };
        let why = explained(&*error);
        assert!(why.contains("--admin-address") && why.contains("port-forward"), "{why}");
    }
}
