//! The admin endpoint of a host, asked as a monitoring system would.

use std::net::SocketAddr;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::host::Host;

/// Where `host` has its endpoint, of which it tells.
pub async fn address(host: &Host) -> anyhow::Result<SocketAddr> {
    let line = host.says("admin endpoint").await?;
    let mut words = line.split(|byte: char| byte == '=' || byte == '"' || byte.is_whitespace());
    words.find_map(|word| word.parse().ok()).with_context(|| line.clone())
}

/// The status and the body of GET `path`.
pub async fn get(address: SocketAddr, path: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer")?;
    let status = head.split(' ').nth(1).context("a status")?.parse()?;
    Ok((status, body.to_owned()))
}
