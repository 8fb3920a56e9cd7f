//! Asks a running host at its admin address, by HTTP/1.1 over TCP: for the commands that show what a host does.

use anyhow::{Context as _, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An answer of the admin endpoint.
#[derive(Debug)]
pub(super) struct AdminAnswer {
    /// The status line.
    line: String,
    body: String,
}

impl AdminAnswer {
    /// The HTTP status. None: the line has none.
    pub(super) fn code(&self) -> Option<u16> {
        self.line.split(' ').nth(1)?.parse().ok()
    }

    /// The document, if that is what the answer has.
    pub(super) fn document(&self) -> anyhow::Result<Value> {
        if self.code() != Some(200) {
            bail!("it answers {}: {}", self.line, self.body.trim());
        }
        serde_json::from_str(&self.body).context("it answers something else than a host of this version does")
    }
}

/// Reads the JSON document at `path` of the admin endpoint.
pub(super) async fn get(address: &str, path: &str) -> anyhow::Result<Value> {
    ask(address, path).await?.document()
}

/// The answer to GET `path`.
async fn ask(address: &str, path: &str) -> anyhow::Result<AdminAnswer> {
    let mut stream = TcpStream::connect(address).await?;
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("it does not answer by HTTP")?;
    let line = head.lines().next().unwrap_or_default();
    Ok(AdminAnswer { line: line.to_owned(), body: body.to_owned() })
}
