//! Checks the project's correct plugins with many seeds: none may give a finding. Each seed starts with different
//! faults, at a different time of day. `make soak STORIES=check` runs a thousand seeds. `WINDLASS_CHECK_SEEDS` is the
//! number of seeds, and `WINDLASS_CHECK_FIRST_SEED` the first of them.

use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use anyhow::ensure;
use windlass_tests::{marker, paths};

use super::simulated::{self, Trial, findings_of};

/// The number of runs with a fault for each seed.
const FAULTS: usize = 4;

/// The maximum number of seeds for the operators, whose runs take longer.
const OPERATOR_SEEDS_MAX: u64 = 200;

/// The operators of tests/guests/operators, and the number of runs without a fault for each seed: one with a different
/// seed, and two for each patch of the scenario.
const OPERATORS: [(&str, usize); 8] = [
    ("reloader", 8),
    ("replicator", 6),
    ("janitor", 6),
    ("cron", 2),
    ("jobs", 4),
    ("downscaler", 4),
    ("selective", 10),
    ("mirror", 2),
];

/// The seeds to try, at most `most`.
fn seeds(most: u64) -> anyhow::Result<Range<u64>> {
    let set = |name: &str, default: u64| std::env::var(name).map_or(Ok(default), |number| number.parse());
    let (first, count) = (set("WINDLASS_CHECK_FIRST_SEED", 1)?, set("WINDLASS_CHECK_SEEDS", 2)?);
    Ok(first..first + count.min(most))
}

/// Checks the plugin of `file` with these seeds, each with this many runs without a fault.
fn checked(name: &str, file: &Path, scenario: &str, seeds: Range<u64>, without_faults: usize) -> anyhow::Result<()> {
    simulated::with(file, async |plugin| {
        let (began, mut runs) = (Instant::now(), 0);
        for seed in seeds.clone() {
            let report = plugin.check(&Trial { scenario, classes: &[], runs: without_faults + FAULTS, seed }).await?;
            ensure!(report.findings.is_empty(), "{name}, seed {seed}: {:#?}", findings_of(&report));
            runs += report.runs;
        }
        let seconds = began.elapsed().as_secs_f64();
        let (first, count) = (seeds.start, seeds.end - seeds.start);
        println!("figures: {name}: {count} seeds from {first}, {runs} runs in {seconds:.1} s, no finding");
        Ok(())
    })
}

#[test]
fn correct_plugins_give_no_finding_whatever_the_seed() -> anyhow::Result<()> {
    let seeds = seeds(u64::MAX)?;
    let plugins = paths::plugins()?;
    let all = [
        ("webapp", "webapp.wasm", "webapp"),
        ("webapp-composite", "composite/webapp-composite.wasm", "webapp"),
        ("replicaset", "replicaset.wasm", "replicaset"),
    ];
    let checks: Vec<_> = all
        .map(|(name, file, scenario)| {
            let (file, seeds) = (plugins.join(file), seeds.clone());
            std::thread::spawn(move || checked(name, &file, scenario, seeds, 6))
        })
        .into();
    checks.into_iter().try_for_each(|check| check.join().expect("no panic"))
}

/// These operators change objects of other owners, act by time, or decide by their own code which objects count. They
/// are correct.
#[test]
fn typical_operators_give_no_finding_whatever_the_seed() -> anyhow::Result<()> {
    let seeds = seeds(OPERATOR_SEEDS_MAX)?;
    let folder = tempfile::tempdir()?;
    let mut checks = Vec::new();
    for (name, without_faults) in OPERATORS {
        let file = folder.path().join(format!("{name}.wasm"));
        marker::write("operators", (b"OPERATOR=", 15), name, &file)?;
        let (scenario, seeds) = (format!("operators/{name}"), seeds.clone());
        checks.push(std::thread::spawn(move || checked(name, &file, &scenario, seeds, without_faults)));
    }
    checks.into_iter().try_for_each(|check| check.join().expect("no panic"))
}
