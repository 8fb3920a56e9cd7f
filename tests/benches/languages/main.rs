//! The cost of plugins by language: the size and compilation of the component; a fresh and a reused call, for a no-op
//! and for the WebApp; an HTTP request; and the memory of a running instance and of an idle plugin. It is compared, in
//! the same rounds, with a prototype in the same language: bare wasmtime, and a guest without an SDK.
//!
//! `make bench`, or by name: `cargo bench --workspace --bench languages -- go c stock-js`. `tools/build-conformance`,
//! `tools/build-prototypes` and `tools/build-stock` build the components. docs/benchmarks.md has recorded results.
//! Times are those of the guest's thread.
#![allow(clippy::cast_precision_loss, reason = "figures for people")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures the time of the world")]

mod calls;
mod idle;
mod instance;
mod prototype;
mod requests;
mod stock;
// The ports of the sandbox's own tests, which answer from memory.
#[path = "../../../host/wasm/tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use windlass_core::life::instances::Instances;
use windlass_wasm::{Limits, Plugin, Sandbox, SandboxOptions};

/// A language and its plugins.
struct Language {
    name: &'static str,
    /// Its WebApp plugin in target/plugins.
    webapp: &'static str,
    /// The number of idle plugins. Their compilation takes most of the time.
    idle: usize,
}

const LANGUAGES: [Language; 6] = [
    Language { name: "rust", webapp: "webapp.wasm", idle: 100 },
    Language { name: "c", webapp: "webapp-c/webapp-c.wasm", idle: 100 },
    Language { name: "js", webapp: "webapp-ts/webapp-ts.wasm", idle: 100 },
    Language { name: "starlark", webapp: "webapp-starlark/webapp-starlark.wasm", idle: 100 },
    Language { name: "go", webapp: "webapp-go/webapp-go.wasm", idle: 100 },
    // Compiling a Python plugin takes seven seconds, and its artefact has 35 MB.
    Language { name: "python", webapp: "webapp-python/webapp-python.wasm", idle: 10 },
];

/// The number of rounds, and of calls per round.
#[derive(Clone, Copy)]
struct Size {
    rounds: usize,
    calls: u32,
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, name, directory] = &arguments[..]
        && word == idle::WORD
    {
        return idle::in_this_process(language(name)?, Path::new(directory));
    }
    let is_quick = arguments.iter().any(|it| it == "--quick");
    let size = if is_quick { Size { rounds: 2, calls: 20 } } else { Size { rounds: 7, calls: 300 } };
    let named: Vec<_> = arguments.iter().filter(|it| !it.starts_with("--")).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let is_wanted = |name: &str| named.is_empty() || named.iter().any(|it| *it == name);
    for language in &LANGUAGES {
        if is_wanted(language.name) {
            runtime.block_on(measure(language, size)).with_context(|| format!("of {}", language.name))?;
            if !is_quick {
                idle::measure(language)?;
            }
        }
    }
    for name in stock::NAMES.into_iter().filter(|name| is_wanted(name)) {
        runtime.block_on(stock::measure(name, size)).with_context(|| format!("of {name}"))?;
    }
    Ok(())
}

fn language(name: &str) -> anyhow::Result<&'static Language> {
    LANGUAGES.iter().find(|it| it.name == name).with_context(|| format!("there is no language {name}"))
}

async fn measure(language: &Language, size: Size) -> anyhow::Result<()> {
    let (webapp, probe) = (language.webapp()?, language.probe()?);
    let cache = tempfile::tempdir()?;
    let sandbox = sandbox(Some(cache.path()))?;
    let webapp = compiled(language.name, &webapp, &sandbox, cache.path()).await?;
    let probe = sandbox.load(&probe).await?;
    let prototype = prototype::Prototype::of(language.name)?;
    let by_sdk = match &prototype {
        Some(_) => Some(sandbox.load(&built("by-sdk", &format!("{}/by-sdk.wasm", language.name))?).await?),
        None => None,
    };
    let mut best = [Duration::MAX; 6];
    for _ in 0..size.rounds {
        let round = [
            calls::nothing(&probe, Instances::Fresh, size.calls).await?,
            calls::nothing(&probe, Instances::Reuse, size.calls).await?,
            calls::webapp(&webapp, Instances::Fresh, size.calls).await?,
            calls::webapp(&webapp, Instances::Reuse, size.calls).await?,
            prototype.as_ref().map_or(Ok(Duration::MAX), |it| it.calls(size.calls))?,
            match &by_sdk {
                Some(plugin) => calls::as_the_prototype(plugin, Instances::Fresh, size.calls).await?,
                None => Duration::MAX,
            },
        ];
        for (best, now) in best.iter_mut().zip(round) {
            *best = now.min(*best);
        }
    }
    let [no_op, no_op_reused, fresh, reused, bare, same] = best.map(|it| it.as_secs_f64() * 1e6);
    println!("  µs a call, fresh / reused: no-op {no_op:.0} / {no_op_reused:.0}, WebApp {fresh:.0} / {reused:.0}");
    if prototype.is_some() {
        println!(
            "  the prototype, fresh: {bare:.0} µs: the WebApp is {:.2}× of it; the same work by the SDK, fresh: {same:.0} µs, {:.2}×",
            fresh / bare,
            same / bare
        );
    }
    requests::of_sdk(&probe, size).await?;
    let private = instance::memory(&webapp).await?;
    println!("  memory of a running instance: {:.0} KiB", private as f64 / 1024.0);
    Ok(())
}

/// Loads the WebApp plugin `file`, which `sandbox` keeps in `cache`, and prints the cost.
async fn compiled(name: &str, file: &Path, sandbox: &Sandbox, cache: &Path) -> anyhow::Result<Arc<Plugin>> {
    let began = (Instant::now(), cpu());
    let bytes = std::fs::metadata(file)?.len();
    let plugin = sandbox.load(file).await?;
    let (wall, cpu) = (began.0.elapsed(), cpu().saturating_sub(began.1));
    println!(
        "{name}: WebApp {:.0} KiB; compiled in {:.2} s of processor time ({:.2} s) to {:.2} MiB",
        bytes as f64 / 1024.0,
        cpu.as_secs_f64(),
        wall.as_secs_f64(),
        largest(cache)? as f64 / f64::from(1 << 20),
    );
    Ok(plugin)
}

impl Language {
    fn webapp(&self) -> anyhow::Result<PathBuf> {
        built("plugins", self.webapp)
    }

    fn probe(&self) -> anyhow::Result<PathBuf> {
        built("conformance", &format!("{}/conformance.wasm", self.name))
    }
}

/// The path of a built component.
fn built(folder: &str, file: &str) -> anyhow::Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(folder).join(file);
    anyhow::ensure!(path.is_file(), "{} does not exist: run `make bench` or tools/build-conformance", path.display());
    Ok(path)
}

fn sandbox(cache: Option<&Path>) -> anyhow::Result<Sandbox> {
    // The rate limits of the log are lifted, because they are not measured.
    let limits = Limits { log_lines_per_second: u32::MAX, log_bytes_per_second: usize::MAX, ..Limits::default() };
    let cache = cache.map(Path::to_owned);
    Ok(Sandbox::new(SandboxOptions { limits, threads: 1, concurrent_calls: 8, cache, ..SandboxOptions::default() })?)
}

/// The processor time of this process.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The size of the largest file in a directory: that of the artefact, if there is one.
fn largest(directory: &Path) -> anyhow::Result<u64> {
    let mut largest = 0;
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                largest = largest.max(entry.metadata()?.len());
            }
        }
    }
    Ok(largest)
}
