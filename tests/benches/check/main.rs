//! Counts the instructions of the host's inner paths, and compares them with the recorded counts: `make bench-check`.
//! The load of the machine hardly changes the counts, so they show when a path has become more expensive, even where
//! times do not.
//!
//! Each path runs twice under callgrind, in separate processes: with few operations and with many. The difference is
//! the cost of the additional operations, without the setup. `--record` writes the counts after an intended change.
//!
//! `make test` counts the instructions of its own build, which is not optimised; those counts are recorded separately.
//! It leaves out the call of a plugin, whose compiler would take minutes, and requests, which consist mostly of TLS and
//! HTTP/2.
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

// Small guests.
#[allow(dead_code, reason = "the sandbox's tests make more of it")]
#[path = "../../../host/wasm/tests/support/guests.rs"]
mod guests;
mod paths;
mod peer;
mod server;
#[allow(dead_code, reason = "other benchmarks need more of it")]
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

use self::paths::Path;

/// A count has changed if it differs by more than this.
const COUNT_TOLERANCE: f64 = 0.03;

const IS_OPTIMISED: bool = !cfg!(debug_assertions);

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        ["run", name, count] => {
            Path::named(name)?.run(count.parse()?)?;
            Ok(ExitCode::SUCCESS)
        }
        ["peer", directory] => {
            peer::serve(std::path::Path::new(directory))?;
            Ok(ExitCode::SUCCESS)
        }
        [] => check(),
        ["--record"] => record(),
        _ => bail!("usage: check [--record]"),
    }
}

/// The counts of all paths, by name.
type Recorded = BTreeMap<String, u64>;

fn record() -> anyhow::Result<ExitCode> {
    let mut counts = Recorded::new();
    for path in counted() {
        let count = count(path)?;
        println!("{:<8} {count:>9} instructions", path.name());
        counts.insert(path.name().to_owned(), count);
    }
    std::fs::write(recorded_file(), serde_json::to_string_pretty(&counts)? + "\n")?;
    Ok(ExitCode::SUCCESS)
}

fn check() -> anyhow::Result<ExitCode> {
    let text = std::fs::read_to_string(recorded_file())?;
    let recorded: Recorded = serde_json::from_str(&text).context("recorded.json has a count for each path")?;
    let mut all_hold = true;
    for path in counted() {
        let expected = *recorded.get(path.name()).with_context(|| format!("{} is not recorded", path.name()))?;
        let count = count(path)?;
        let change = count as f64 / expected as f64 - 1.0;
        let verdict = match change {
            change if change > COUNT_TOLERANCE => "DEARER",
            change if change < -COUNT_TOLERANCE => "CHEAPER",
            _ => "as recorded",
        };
        all_hold &= change.abs() <= COUNT_TOLERANCE;
        println!(
            "{:<8} {count:>9} instructions, {expected:>9} recorded: {:+.1} %, {verdict}",
            path.name(),
            change * 1e2
        );
    }
    if !all_hold {
        println!(
            "A count has changed by more than {:.0} %. If that is meant: make bench-check RECORD=1{}",
            COUNT_TOLERANCE * 1e2,
            if IS_OPTIMISED { "" } else { " BUILD=dev" }
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn recorded_file() -> PathBuf {
    let name = if IS_OPTIMISED { "recorded.json" } else { "recorded-dev.json" };
    windlass_tests::paths::root().join("tests/benches/check").join(name)
}

fn counted() -> impl Iterator<Item = Path> {
    Path::ALL.into_iter().filter(|path| IS_OPTIMISED || !matches!(path, Path::Call | Path::Request))
}

/// The instructions per operation.
fn count(path: Path) -> anyhow::Result<u64> {
    let (few, many) = path.counts();
    let [of_few, of_many] = [instructions(path, few)?, instructions(path, many)?];
    let more = of_many.checked_sub(of_few).with_context(|| format!("{}: more operations cost less", path.name()))?;
    Ok(more / u64::from(many - few))
}

/// All instructions of a process with this number of operations.
fn instructions(path: Path, count: u32) -> anyhow::Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["run", path.name(), &count.to_string()])
        // A different memory layout or number of threads would change the count.
        .env("TOKIO_WORKER_THREADS", "1")
        .output()
        .context("run valgrind: install it with your system's package manager")?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{} of {}: {}\n{text}", path.name(), count, output.status);
    }
    let collected =
        text.lines().find_map(|line| line.split_once("Collected : ")).context("callgrind prints the count")?.1;
    collected.trim().parse().with_context(|| format!("{collected} is a number"))
}
