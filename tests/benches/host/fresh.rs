//! The time, by language, from closing a file to its plugin's first call, for a file that no cache knows. This is the
//! time that an author waits after each save, and an operator after each delivery. It includes the debounce of 100 ms
//! and the start of the watches.

use std::path::PathBuf;
use std::time::Duration;

use windlass_tests::objects::documents;
use windlass_tests::paths;
use windlass_tests::server::{Kind, Server};

use crate::support::process::Watched;
use crate::{delivered, milliseconds};

/// The plugins, each with its limit in milliseconds.
const PLUGINS: [(&str, u64); 6] = [
    ("webapp-c", 500),
    ("webapp", 500),
    ("webapp-go", 2_000),
    ("webapp-ts", 2_000),
    ("webapp-starlark", 2_000),
    ("webapp-python", 5_000),
];

pub(crate) async fn measure(times: usize) -> anyhow::Result<()> {
    for (name, bar) in PLUGINS {
        let Some(file) = file(name)? else {
            println!("file closed → first call, {name}: not built (make conformance)");
            continue;
        };
        let (mut called, mut improved) = (Vec::new(), Vec::new());
        for _ in 0..times {
            let (first, better) = once(name, &file).await?;
            called.push(first);
            improved.extend(better);
        }
        called.sort_unstable();
        improved.sort_unstable();
        let better = match improved.last() {
            Some(last) => format!("; better code after {:.0} ms at the most", milliseconds(*last)),
            None => String::new(),
        };
        println!(
            "file closed → first call, {name}, {} KB: median {:.0} ms, worst {:.0} ms of {times} (bar {bar} ms){better}",
            file.metadata()?.len() / 1000,
            milliseconds(called[called.len() / 2]),
            milliseconds(called[called.len() - 1]),
        );
    }
    Ok(())
}

/// The file of a plugin. `None` if it is not built.
fn file(name: &str) -> anyhow::Result<Option<PathBuf>> {
    let directory = paths::plugins()?;
    let places = [directory.join(format!("{name}.wasm")), directory.join(name).join(format!("{name}.wasm"))];
    Ok(places.into_iter().find(|path| path.is_file()))
}

/// The time until the first call, and the time until the optimised code, if the first call did not use it.
async fn once(name: &str, file: &PathBuf) -> anyhow::Result<(Duration, Option<Duration>)> {
    let server = Server::start(Kind::Embedded).await?;
    server.install_webapp().await?;
    for object in documents(&paths::example("webapp.yaml"))? {
        server.objects().apply(&object).await?;
    }
    let (plugins, cache) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let its_own = format!("--cache-dir={}", cache.path().display());
    let level = "--log-level=windlass::dispatch=debug,info";
    let mut host = Watched::start(&server, plugins.path(), &[&its_own, level]).await?;
    let next = plugins.path().join(".next");
    std::fs::copy(file, &next)?;
    let closed = delivered(&next, name).await?;
    let called = host.hears(|line| line.contains(" called elapsed=")).await?;
    // `windlass_runtime::QUICK_COMPILE_BYTES_MIN`
    let is_large = file.metadata()?.len() >= 1 << 20;
    let better =
        if is_large { Some(host.hears(|line| line.contains("better code takes")).await? - closed) } else { None };
    host.end().await?;
    Ok((called - closed, better))
}
