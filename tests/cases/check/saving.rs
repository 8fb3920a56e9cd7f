//! Tests saved calls in simulated worlds (ADR 46): users see no difference, and `windlass check` finds defects of it.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use windlass_tests::{marker, paths};

use super::simulated;

/// The number of runs with a fault for each scenario.
const FAULTS: usize = 4;

/// A plugin of the tree, and the scenarios of tests/scenarios that it is compared in.
const PLUGINS: [(&str, &[&str]); 8] = [
    ("webapp.wasm", &["webapp", "webapp-by-hand", "webapp-taken", "webapp-heartbeat"]),
    ("composite/webapp-composite.wasm", &["webapp", "webapp-heartbeat"]),
    ("webapp-c/webapp-c.wasm", &["webapp-heartbeat"]),
    ("webapp-go/webapp-go.wasm", &["webapp-heartbeat"]),
    ("webapp-ts/webapp-ts.wasm", &["webapp-heartbeat"]),
    ("webapp-python/webapp-python.wasm", &["webapp-heartbeat"]),
    ("webapp-starlark/webapp-starlark.wasm", &["webapp-heartbeat"]),
    ("replicaset.wasm", &["replicaset"]),
];

/// The operators of tests/guests/operators, each with a scenario of its name.
const OPERATORS: [&str; 8] = ["cron", "downscaler", "janitor", "jobs", "mirror", "reloader", "replicator", "selective"];

/// Compares the plugin of `file` in these scenarios. Returns the number of saved calls.
fn compared(file: &Path, scenarios: &[String]) -> anyhow::Result<usize> {
    simulated::with(file, async |plugin| {
        let mut saved = 0;
        for scenario in scenarios {
            let path = paths::root().join(format!("tests/scenarios/{scenario}.yaml"));
            let compared = plugin.compare_saving(&path, FAULTS).await?;
            ensure!(compared.differences.is_empty(), "{scenario}: {}", compared.differences.join("\n"));
            println!("figures: {scenario}, {} pairs of runs: {} calls saved", compared.pairs, compared.saved);
            saved += compared.saved;
        }
        Ok(saved)
    })
}

#[test]
fn webapps_do_the_same_with_and_without_saved_calls() -> anyhow::Result<()> {
    let plugins = paths::plugins()?;
    for (file, scenarios) in PLUGINS {
        let scenarios: Vec<_> = scenarios.iter().map(|scenario| (*scenario).to_owned()).collect();
        let saved = compared(&plugins.join(file), &scenarios)?;
        // The one of the ReplicaSet has no change that the plugin does not read.
        ensure!(saved > 0 || file == "replicaset.wasm", "no call of {file} was saved");
    }
    Ok(())
}

#[test]
fn operators_do_the_same_with_and_without_saved_calls() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut saved = 0;
    for name in OPERATORS {
        saved += compared(&operator(name, folder.path())?, &[format!("operators/{name}")])?;
    }
    ensure!(saved > 0, "no call was saved");
    Ok(())
}

/// Writes the operator of this name into `folder`.
fn operator(name: &str, folder: &Path) -> anyhow::Result<PathBuf> {
    let file = folder.join(format!("{name}.wasm"));
    marker::write("operators", (b"OPERATOR=", 15), name, &file)?;
    Ok(file)
}

#[cfg(debug_assertions)]
mod defects {
    use windlass_check::RunRule;
    use windlass_core::defect::Defect;

    use super::*;
    use crate::check::simulated::{Trial, findings_of};

    /// A defect of saved calls, the plugin and the scenario that reveal it without a fault, and the rule that finds it.
    type Case = (Defect, &'static str, &'static str, RunRule);

    const CASES: [Case; 4] = [
        (Defect::DigestIsIgnored, "webapp.wasm", "webapp-by-hand", RunRule::Steps),
        (Defect::RemovalIsNotCounted, "mirror", "operators/mirror", RunRule::Steps),
        (Defect::DueTimerMayBeSaved, "webapp.wasm", "webapp-taken", RunRule::Steps),
        (Defect::SkipIgnoresValues, "mirror", "operators/mirror", RunRule::Steps),
    ];

    #[test]
    fn the_check_finds_defects_of_saved_calls() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        for (defect, plugin, scenario, rule) in CASES {
            let is_operator = !plugin.contains('.');
            let file = if is_operator { operator(plugin, folder.path())? } else { paths::plugins()?.join(plugin) };
            simulated::with(&file, async |plugin| {
                let plugin = plugin.saving_calls()?;
                let trial = Trial { scenario, classes: &[], runs: 1, seed: 1 };
                let right = plugin.check(&trial).await?;
                ensure!(right.findings.is_empty(), "without {defect:?}: {:#?}", findings_of(&right));
                let seeded = defect.seed();
                let report = plugin.check(&trial).await?;
                drop(seeded);
                let is_found = report.findings.iter().any(|finding| finding.rule == rule);
                ensure!(is_found, "{defect:?}: {:#?} and not {}", findings_of(&report), rule.name());
                Ok(())
            })?;
        }
        Ok(())
    }
}
