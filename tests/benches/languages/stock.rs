//! The plugins of stock toolchains (`tests/stock`): the size and compilation of the component, and a fresh and a reused
//! call for a WebApp, in which each plugin prints a line, tries to open a file, and applies a `ConfigMap`.

use std::time::Duration;

use windlass_core::life::instances::Instances;

use crate::{Size, built, calls, compiled, requests, sandbox};

/// The names of the plugins, which are also the names of their files.
pub(crate) const NAMES: [&str; 5] = ["stock-python", "stock-js", "stock-c", "stock-go", "stock-rust"];

/// The plugins with an HTTP client.
const HTTP_CLIENTS: [&str; 3] = ["stock-python", "stock-js", "stock-rust"];

pub(crate) async fn measure(name: &str, size: Size) -> anyhow::Result<()> {
    let cache = tempfile::tempdir()?;
    let sandbox = sandbox(Some(cache.path()))?;
    let plugin = compiled(name, &built("stock", &format!("{name}.wasm"))?, &sandbox, cache.path()).await?;
    let mut best = [Duration::MAX; 2];
    for _ in 0..size.rounds {
        for (best, instances) in best.iter_mut().zip([Instances::Fresh, Instances::Reuse]) {
            *best = calls::webapp(&plugin, instances, size.calls).await?.min(*best);
        }
    }
    let [fresh, reused] = best.map(|it| it.as_secs_f64() * 1e6);
    println!("  µs a call, fresh / reused: {fresh:.0} / {reused:.0}");
    if HTTP_CLIENTS.contains(&name) {
        requests::of_stock(&plugin, size).await?;
    }
    Ok(())
}
