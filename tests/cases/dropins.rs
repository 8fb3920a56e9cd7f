//! The drop-in operators of `tools/build-dropins`, one file for each.

mod cronjob;
mod csr_approver;
mod downscaler;
mod imagepullsecret_patcher;
mod janitor;
mod rbac_manager;
mod reloader;
mod replicator;
mod s3_bucket;
mod together;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use windlass_tests::host::Host;
use windlass_tests::paths;
use windlass_tests::server::Server;

use crate::check;

/// The number of runs for each scenario and seed. The first ones are without a fault.
const RUNS: &str = "12";

/// The drop-ins with large components: a debug build of the host compiles and runs them slowly.
const SLOW: [&str; 4] = ["cronjob", "downscaler", "janitor", "s3-bucket"];

/// The number of runs for these.
const SLOW_RUNS: &str = "3";

/// A debug build of the host compiles a component with an interpreter for longer than the default limits allow.
const COMPILE_LIMITS: [&str; 4] = ["--limit", "compile-deadline=6m", "--limit", "compile-cpu=4m"];

/// The time in which a host compiles a drop-in and starts it, while other stories use the processors.
const DROPIN_START_TIMEOUT: Duration = Duration::from_mins(6);

/// The folder of a drop-in's sources.
fn sources(name: &str) -> PathBuf {
    paths::root().join("plugins").join(name)
}

/// A directory of plugins with the drop-in, its policy and its configuration.
fn installed(name: &str) -> anyhow::Result<tempfile::TempDir> {
    let directory = tempfile::tempdir()?;
    let file = format!("{name}.wasm");
    std::fs::copy(paths::dropin(name)?, directory.path().join(file))?;
    for document in ["policy", "config"] {
        let file = format!("{name}.{document}.yaml");
        if sources(name).join(&file).exists() {
            std::fs::copy(sources(name).join(&file), directory.path().join(&file))?;
        }
    }
    Ok(directory)
}

/// Runs the drop-in on the server with the rights of its policy, and waits until it works.
async fn running(server: &Server, plugins: &tempfile::TempDir) -> anyhow::Result<Host> {
    let (kubeconfig, plugins) = (server.kubeconfig().as_os_str(), plugins.path().as_os_str());
    let arguments = [OsStr::new("run"), "--kubeconfig".as_ref(), kubeconfig, "--plugins".as_ref(), plugins];
    let more = ["--grants=policy", "--leases=none"].into_iter().chain(COMPILE_LIMITS).map(OsStr::new);
    let arguments: Vec<&OsStr> = arguments.into_iter().chain(more).collect();
    let host = Host::start(&arguments, None)?;
    host.says_within(DROPIN_START_TIMEOUT, &["controller started"]).await?;
    Ok(host)
}

/// Checks the drop-in with each of its scenarios, and with `WINDLASS_CHECK_SEEDS` seeds. By default these are two, or
/// one with a few runs for a slow drop-in.
async fn gives_no_finding(name: &str) -> anyhow::Result<()> {
    let (usual, runs) = if SLOW.contains(&name) { (1, SLOW_RUNS) } else { (2, RUNS) };
    let seeds = std::env::var("WINDLASS_CHECK_SEEDS").map_or(Ok(usual), |seeds| seeds.parse::<u64>())?;
    let directory = installed(name)?;
    let plugin = directory.path().join(format!("{name}.wasm")).display().to_string();
    let scenarios = std::fs::read_dir(sources(name).join("scenarios"))?.collect::<Result<Vec<_>, _>>()?;
    ensure!(!scenarios.is_empty(), "{name} has no scenario");
    for scenario in scenarios {
        let scenario = scenario.path().to_str().context("a path in UTF-8")?.to_owned();
        for seed in 1..=seeds {
            let seed = seed.to_string();
            let arguments =
                [plugin.as_str(), "--scenario", &scenario, "--seed", &seed, "--runs", runs, "--budget", "10m"];
            let (code, out, errors) = check::check(&[&arguments[..], &COMPILE_LIMITS].concat()).await?;
            ensure!(code == 0, "{scenario}, seed {seed}: {out}{errors}");
        }
    }
    Ok(())
}
