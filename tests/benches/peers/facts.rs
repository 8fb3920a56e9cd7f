//! The machine and the versions, which are necessary to interpret the figures.

use std::path::Path;
use std::process::Command;

use serde::Serialize;
use windlass_tests::paths;

/// The Go modules of the peer. Tables show its version.
const GO_MOD: &str = include_str!("controller-runtime/go.mod");
/// The crates of the peers in Rust.
const CARGO_TOML: &str = include_str!("Cargo.toml");

/// The conditions of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Facts {
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) processors: usize,
    pub(crate) processor: String,
    pub(crate) memory_mib: u64,
    pub(crate) kernel: String,
    /// The load of the last minute when the run began.
    pub(crate) load: String,
    pub(crate) kube_apiserver: String,
    pub(crate) controller_runtime: String,
    pub(crate) kube_rs: String,
}

impl Facts {
    pub(crate) fn of_here(kube_apiserver: String) -> anyhow::Result<Self> {
        let line_of = |file: &str, name: &str| {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            line.unwrap_or_default().trim_start_matches([' ', '\t', ':']).to_owned()
        };
        let kibibytes = line_of("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0_u64);
        Ok(Self {
            date: jiff::Timestamp::now().strftime("%F %H:%M UTC").to_string(),
            commit: commit().unwrap_or_else(|| "unknown".to_owned()),
            processors: std::thread::available_parallelism()?.get(),
            processor: line_of("/proc/cpuinfo", "model name"),
            memory_mib: kibibytes >> 10,
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            load: load(),
            kube_apiserver,
            controller_runtime: version(GO_MOD, "sigs.k8s.io/controller-runtime v"),
            kube_rs: version(CARGO_TOML, "kube = { version = \"="),
        })
    }
}

/// The load of the last minute.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn version(text: &str, before: &str) -> String {
    let behind = text.split_once(before).map_or("", |(_, behind)| behind);
    behind.chars().take_while(|character| character.is_ascii_digit() || *character == '.').collect()
}

/// The commit, with a plus sign if files differ from it.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(Path::new(paths::root())).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let differs = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(git(&["rev-parse", "--short", "HEAD"])? + if differs { "+" } else { "" })
}
