//! Tests defects that are seeded into the engine (`windlass_core::defect`). `windlass check` finds each defect by a
//! rule, and finds nothing without a defect.
#![cfg(debug_assertions)]

use std::path::{Path, PathBuf};

use anyhow::ensure;
use windlass_check::RunRule;
use windlass_core::defect::Defect;
use windlass_tests::{marker, paths};

use self::Guest::{Composer, ReplicaSet, Selective, WebApp};
use super::simulated::{self, Trial, findings_of};
use crate::composite::OWNS;

/// A plugin that reveals defects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guest {
    WebApp,
    ReplicaSet,
    /// The guest `composer`; the host keeps a finalizer on its parents.
    Composer,
    /// The operator `selective`, whose own code decides which objects count.
    Selective,
}

/// A test case: a defect; the plugin, the scenario and the classes of faults that reveal it; a seed whose first faults
/// reveal it soon, and the number of runs needed; and the rule that finds it.
type Case = (Defect, Guest, &'static str, &'static [&'static str], u64, usize, RunRule);

/// A case without classes of faults reveals its defect in the first run.
const CASES: [Case; 17] = [
    (Defect::AddWhileRunningIsLost, WebApp, "webapp", &["delay"], 1, 5, RunRule::Converges),
    (Defect::FailureIsForgotten, WebApp, "webapp", &["error-500"], 1, 8, RunRule::Fails),
    (Defect::ConflictIsForgotten, WebApp, "webapp", &["error-409"], 1, 8, RunRule::Converges),
    (Defect::UnseenDeletionIsKept, WebApp, "webapp", &["hidden-events"], 1, 28, RunRule::Steps),
    (Defect::StartQueuesNothing, WebApp, "webapp", &["crash"], 1, 8, RunRule::Converges),
    (Defect::RequeueAfterIsIgnored, WebApp, "webapp-by-hand", &[], 1, 2, RunRule::Steps),
    (Defect::FormerOwnerIsNotTold, WebApp, "webapp-by-hand", &[], 1, 2, RunRule::Steps),
    (Defect::GateHoldsNothing, ReplicaSet, "replicaset", &["hidden-events"], 2, 14, RunRule::NotNeeded),
    (Defect::FirstWriteIsEnough, ReplicaSet, "replicaset", &["hidden-events"], 2, 14, RunRule::NotNeeded),
    (Defect::IndexKeepsFirstState, ReplicaSet, "replicaset", &[], 1, 2, RunRule::Expectation),
    (Defect::RemovedFieldIsKept, Composer, "composer", &[], 1, 4, RunRule::History),
    (Defect::NothingIsPruned, Composer, "composer", &[], 1, 6, RunRule::History),
    (Defect::AdoptedIsPruned, Composer, "composer", &[], 1, 2, RunRule::Expectation),
    (Defect::FinalizerGoesFirst, Composer, "composer", &[], 1, 2, RunRule::Steps),
    (Defect::FinalizerIsLeftOn, Composer, "composer", &["error-500"], 2, 12, RunRule::Stuck),
    (Defect::RescanIsLost, Selective, "operators/selective", &["crash"], 1, 8, RunRule::History),
    (Defect::JudgedDeletionIsLost, Selective, "operators/selective", &[], 1, 2, RunRule::Expectation),
];

impl Guest {
    /// The file of the plugin. If it does not exist yet, it is created in `folder`.
    fn file(self, folder: &Path) -> anyhow::Result<PathBuf> {
        Ok(match self {
            WebApp => paths::plugins()?.join("webapp.wasm"),
            ReplicaSet => paths::plugins()?.join("replicaset.wasm"),
            Composer => {
                let file = folder.join("composer.wasm");
                marker::write("composer", OWNS, "ends", &file)?;
                file
            }
            Selective => {
                let file = folder.join("selective.wasm");
                marker::write("operators", (b"OPERATOR=", 15), "selective", &file)?;
                file
            }
        })
    }

    /// Searches for all defects that this plugin reveals.
    fn shows_its_defects(self) -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        simulated::with(&self.file(folder.path())?, async |plugin| {
            let (mut wrong, mut without) = (Vec::new(), Vec::new());
            for (defect, _, scenario, classes, seed, runs, rule) in CASES.iter().filter(|case| case.1 == self) {
                let trial = Trial { scenario, classes, runs: *runs, seed: *seed };
                if !without.contains(&(*scenario, *classes, *runs, *seed)) {
                    without.push((*scenario, *classes, *runs, *seed));
                    let right = plugin.check(&trial).await?;
                    if !right.findings.is_empty() {
                        wrong.push(format!("without {defect:?}: {:#?}", findings_of(&right)));
                    }
                }
                let seeded = defect.seed();
                let report = plugin.check(&trial).await?;
                drop(seeded);
                match report.findings.iter().find(|finding| finding.rule == *rule) {
                    Some(found) => println!("figures: {defect:?}: {} in run {}", rule.name(), found.run),
                    None => wrong.push(format!("{defect:?}: {:#?} and not {}", findings_of(&report), rule.name())),
                }
            }
            ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
            Ok(())
        })
    }
}

#[test]
fn the_defects_that_a_webapp_shows_are_found() -> anyhow::Result<()> {
    WebApp.shows_its_defects()
}

#[test]
fn the_defects_that_a_replicaset_shows_are_found() -> anyhow::Result<()> {
    ReplicaSet.shows_its_defects()
}

#[test]
fn the_defects_that_a_composer_shows_are_found() -> anyhow::Result<()> {
    Composer.shows_its_defects()
}

#[test]
fn the_defects_that_a_predicate_by_code_shows_are_found() -> anyhow::Result<()> {
    Selective.shows_its_defects()
}

#[test]
fn each_defect_has_a_case() {
    for defect in Defect::ALL {
        assert!(CASES.iter().any(|case| case.0 == defect), "{defect:?} is not");
    }
}
