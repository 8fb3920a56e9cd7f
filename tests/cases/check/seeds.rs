//! The project's correct plugins pass with every seed: another seed starts with other faults, at another time of day.
//! `make soak STORIES=check` runs a thousand seeds.

use std::path::Path;
use std::time::Instant;

use anyhow::ensure;
use windlass_tests::paths;

use super::told::{self, Trial, told};

/// The number of runs of each seed, beside those without a fault.
const FAULTS: usize = 4;

/// Checks the plugin of `file` with this many seeds.
fn checked(name: &str, file: &Path, scenario: &str, seeds: u64) -> anyhow::Result<()> {
    told::with(file, async |plugin| {
        let (began, mut runs) = (Instant::now(), 0);
        for seed in 1..=seeds {
            // A new seed, and two runs for each change in the scenario.
            let report = plugin.check(&Trial { scenario, classes: &[], runs: 6 + FAULTS, seed }).await?;
            ensure!(report.findings.is_empty(), "{name}, seed {seed}: {:#?}", told(&report));
            runs += report.runs;
        }
        let seconds = began.elapsed().as_secs_f64();
        println!("figures: {name}: {seeds} seeds, {runs} runs in {seconds:.1} s, no finding");
        Ok(())
    })
}

#[test]
fn the_right_plugins_give_no_finding_whatever_the_seed() -> anyhow::Result<()> {
    let seeds = std::env::var("WINDLASS_CHECK_SEEDS").map_or(Ok(2), |seeds| seeds.parse())?;
    let plugins = paths::plugins()?;
    let all = [
        ("webapp", "webapp.wasm", "webapp"),
        ("webapp-composite", "composite/webapp-composite.wasm", "webapp"),
        ("replicaset", "replicaset.wasm", "replicaset"),
    ];
    let checks: Vec<_> = all
        .map(|(name, file, scenario)| {
            let file = plugins.join(file);
            std::thread::spawn(move || checked(name, &file, scenario, seeds))
        })
        .into();
    checks.into_iter().try_for_each(|check| check.join().expect("no panic"))
}
