//! The same call in the host as a process, from the queue's `get` to its `done`.
//!
//! The guest asks for the next call at once, so a key is always ready. With many keys, the processor time of the
//! process per key is the cost of the whole path, including the addition of the key. With a single key, the workqueue's
//! own histogram shows the time for the whole path, which includes waking two threads.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use windlass_tests::server::{Kind, Server};

use crate::guests::Core;
use crate::support::process::Watched;

/// Enough keys for all workers to be busy.
const QUEUED_KEYS: usize = 100;

/// The figures of a measurement.
pub(crate) struct Dispatched {
    /// The processor time of the process per key, with many keys.
    pub(crate) cpu: Duration,
    /// The mean time from `get` to `done`, with a single key.
    pub(crate) alone: Duration,
}

/// Measures for `time` with many keys, and for `time` with a single key.
pub(crate) async fn measure(time: Duration) -> anyhow::Result<Dispatched> {
    Ok(Dispatched { cpu: rounds(QUEUED_KEYS, time, &[]).await?.0, alone: rounds(1, time, &[]).await?.1 })
}

/// The processor time of the process per key, with many keys: without traces, and with each of these shares of sampled
/// calls. The collector is in this process, so its time does not count.
pub(crate) async fn measure_traces<const N: usize>(
    time: Duration,
    shares: [&str; N],
) -> anyhow::Result<(Duration, [Duration; N])> {
    let collector = TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("http://{}", collector.local_addr()?);
    let collecting = tokio::spawn(async move {
        while let Ok((stream, _)) = collector.accept().await {
            tokio::spawn(taken(stream));
        }
    });
    let without = rounds(QUEUED_KEYS, time, &[]).await?.0;
    let mut with = [Duration::ZERO; N];
    for (cost, share) in with.iter_mut().zip(shares) {
        *cost = rounds(QUEUED_KEYS, time, &["--otlp-endpoint", &endpoint, "--trace-sampling", share]).await?.0;
    }
    collecting.abort();
    Ok((without, with))
}

/// Reads a whole request, and answers it.
async fn taken(stream: TcpStream) -> anyhow::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while stream.read_line(&mut line).await? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        line.clear();
    }
    tokio::io::copy(&mut (&mut stream).take(length), &mut tokio::io::sink()).await?;
    Ok(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await?)
}

/// The processor time per key, and the mean time from `get` to `done`, of a host with these additional flags.
async fn rounds(keys: usize, time: Duration, flags: &[&str]) -> anyhow::Result<(Duration, Duration)> {
    let server = Server::start(Kind::Embedded).await?;
    for number in 0..keys {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("key-{number}")}});
        server.objects().apply(&object).await?;
    }
    let plugins = tempfile::tempdir()?;
    write_restless(&plugins.path().join("guest.wasm"))?;
    let mut host = Watched::start(&server, plugins.path(), flags).await?;
    host.hears(|line| line.contains("controller started")).await?;
    let figures = async |host: &Watched| {
        let of = async |name: &str| host.metric(name, "guest").await;
        let (sum, count) = ("workqueue_work_duration_seconds_sum", "workqueue_work_duration_seconds_count");
        anyhow::Ok((host.cpu()?.as_secs_f64(), of(sum).await?, of(count).await?))
    };
    // The first calls are a warm-up.
    tokio::time::sleep(time / 4).await;
    let before = figures(&host).await?;
    tokio::time::sleep(time).await;
    let after = figures(&host).await?;
    host.end().await?;
    let calls = after.2 - before.2;
    let each = |total: f64| Duration::from_secs_f64(total / calls);
    Ok((each(after.0 - before.0), each(after.1 - before.1)))
}

/// A guest that does nothing, and asks for the next call at once.
fn write_restless(path: &Path) -> anyhow::Result<()> {
    // The answer is at 512. After the byte of the result comes the byte of the outcome; the delay stays zero.
    let items = r#"(data (i32.const 516) "\01")"#.to_owned();
    Ok(std::fs::write(path, Core { items, ..Core::default() }.component())?)
}
