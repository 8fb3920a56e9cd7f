//! The time from closing a file to the first call of the new generation, including the debounce of 100 ms.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use windlass_tests::chameleon;
use windlass_tests::server::{Kind, Server};

use crate::support::process::Watched;
use crate::{delivered, median, milliseconds};

/// A host with a plugin that logs its generation in each call.
struct Stage {
    host: Watched,
    plugins: tempfile::TempDir,
}

pub(crate) async fn measure(times: u16) -> anyhow::Result<()> {
    let (server, plugins, cache) = (Server::start(Kind::Embedded).await?, tempfile::tempdir()?, tempfile::tempdir()?);
    let labels = json!({"chameleon": "true"});
    let primary = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "key", "labels": labels}});
    server.objects().apply(&primary).await?;
    write(0, &plugins.path().join("chameleon.wasm"))?;
    let its_own = format!("--cache-dir={}", cache.path().display());
    let mut host = Watched::start(&server, plugins.path(), &[&its_own]).await?;
    host.hears(|line| is_call(line, 0)).await?;
    let mut stage = Stage { host, plugins };
    let mut cold = Vec::new();
    for generation in 1..=times {
        cold.push(stage.swap(generation).await?);
    }
    let mut cached = Vec::new();
    for generation in 1..=times {
        cached.push(stage.swap(generation).await?);
    }
    print("compiled", cold);
    print("from the cache", cached);
    stage.host.end().await
}

impl Stage {
    async fn swap(&mut self, generation: u16) -> anyhow::Result<Duration> {
        let next = self.plugins.path().join(".next");
        write(generation, &next)?;
        let closed = delivered(&next, "chameleon").await?;
        let called = self.host.hears(|line| is_call(line, generation)).await?;
        Ok(called - closed)
    }
}

fn write(generation: u16, path: &Path) -> anyhow::Result<()> {
    chameleon::write(&format!("steady-{generation}"), path)
}

fn is_call(line: &str, generation: u16) -> bool {
    line.split_once("steady begin key ").is_some_and(|(_, rest)| {
        let number = rest.split(|character: char| !character.is_ascii_digit()).next();
        number.is_some_and(|number| number.parse() == Ok(generation))
    })
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let (median, worst) = (milliseconds(median(&times)), milliseconds(times[times.len() - 1]));
    println!("file closed → first call, {what}: median {median:.0} ms, worst {worst:.0} ms of {} swaps", times.len());
}
