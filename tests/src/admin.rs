//! A client of a host's admin endpoint, in the place of a monitoring system.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::host::Host;
use crate::wait::until;

/// Finds the address of the admin endpoint in `host`'s log.
pub async fn address(host: &Host) -> anyhow::Result<SocketAddr> {
    address_in(host, "admin endpoint").await
}

/// Finds the address in the line of `host`'s log that contains `text`.
pub async fn address_in(host: &Host, text: &str) -> anyhow::Result<SocketAddr> {
    let line = host.says(text).await?;
    let mut words = line.split(|byte: char| byte == '=' || byte == '"' || byte.is_whitespace());
    words.find_map(|word| word.parse().ok()).with_context(|| line.clone())
}

/// Sends GET `path`, and returns the status and the body of the answer.
pub async fn get(address: SocketAddr, path: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer")?;
    let status = head.split(' ').nth(1).context("a status")?.parse()?;
    Ok((status, body.to_owned()))
}

/// Waits until the host calls no plugin and has no call queued. Use it before you stop the server: if an outage loses
/// the response to a write, the call that wrote fails.
pub async fn at_rest(address: SocketAddr) -> anyhow::Result<()> {
    let before = Mutex::new(None);
    until("no call runs, none is queued, and none has run since the last look", || async {
        let metrics = get(address, "/metrics").await?.1;
        let named = |name: &str| -> BTreeSet<String> {
            metrics.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
        };
        let calls = named("controller_runtime_reconcile_total");
        let (active, depth) = (named("controller_runtime_active_workers"), named("workqueue_depth"));
        let is_idle = [&active, &depth]
            .iter()
            .all(|it| !it.is_empty() && it.iter().all(|line| line.ends_with(" 0") || line.ends_with(" 0.0")));
        let is_same =
            before.lock().unwrap_or_else(PoisonError::into_inner).replace(calls.clone()) == Some(calls.clone());
        anyhow::ensure!(is_idle && is_same, "{calls:?} {active:?} {depth:?}");
        Ok(())
    })
    .await
}
