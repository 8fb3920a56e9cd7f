//! Figures of the whole host: the time until a new file runs (`swap`); the cost of a thousand idle plugins (`idle`);
//! the time that a good plugin waits beside bad ones (`beside`); the time until a file that no cache knows runs, by
//! language (`fresh`); and how all this grows (`scale`).
//!
//! `make bench`, or by name: `cargo bench --workspace --bench host -- swap`. It measures the `windlass` binary in the
//! directory of this program. docs/benchmarks.md has recorded results.
#![allow(clippy::cast_precision_loss, reason = "figures for people")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures the time of the world")]

mod beside;
mod fresh;
// Small guests.
#[allow(dead_code, reason = "the sandbox's tests make more of it")]
#[path = "../../../host/wasm/tests/support/guests.rs"]
mod guests;
mod idle;
#[allow(dead_code, reason = "other benchmarks need more of it")]
#[path = "../support/load.rs"]
mod load;
mod scale;
#[allow(dead_code, reason = "other benchmarks need more of it")]
#[path = "../support/mod.rs"]
mod support;
mod swap;

use std::path::Path;
use std::time::{Duration, Instant};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|it| it == "--quick");
    let names: Vec<_> = arguments.iter().filter(|it| !it.starts_with("--")).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|it| *it == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        if wanted("swap") {
            swap::measure(if quick { 3 } else { 20 }).await?;
        }
        if wanted("idle") {
            idle::measure(if quick { 50 } else { 1_000 }).await?;
        }
        if wanted("beside") {
            beside::measure(Duration::from_secs(if quick { 1 } else { 4 })).await?;
        }
        if wanted("fresh") {
            fresh::measure(if quick { 1 } else { 5 }).await?;
        }
        if wanted("scale") {
            scale::objects(if quick { &[200, 500] } else { &[10_000, 25_000, 50_000] }).await?;
            let sizes: &[_] = if quick { &[500, 1_000] } else { &[25_000, 50_000, 100_000] };
            scale::pods(if quick { 10 } else { 1_000 }, sizes).await?;
        }
        Ok(())
    })
}

/// Renames the file `next` to the plugin `name` in its directory, and returns the time.
async fn delivered(next: &Path, name: &str) -> anyhow::Result<Instant> {
    // The host also notices writes under a different name, and must not start its wait before this clock starts.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let closed = Instant::now();
    std::fs::rename(next, next.with_file_name(format!("{name}.wasm")))?;
    Ok(closed)
}

fn median(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() / 2]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
