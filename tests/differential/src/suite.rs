//! All scripts at once, and what their outcomes mean.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::accepted::Entry;
use crate::run::{self, Outcome};
use crate::script::Script;
use crate::servers::Servers;

/// How many scripts run at a time: watches and controllers make them wait.
const AT_A_TIME: usize = 12;

/// The folder of this crate, with `scripts` and `accepted.yaml`.
#[must_use]
pub fn home() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The scripts in the tree whose names begin with one of `names`; all without names.
pub fn scripts(names: &[String]) -> anyhow::Result<Vec<Script>> {
    let mut scripts = Script::read_all(&home().join("scripts"))?;
    scripts.retain(|script| names.is_empty() || names.iter().any(|name| script.name.starts_with(name)));
    Ok(scripts)
}

/// The file of accepted differences.
#[must_use]
pub fn accepted_file() -> PathBuf {
    Path::new(&home()).join("accepted.yaml")
}

/// Runs scripts; outcomes come in the order of the scripts.
pub async fn run_all(servers: Arc<Servers>, scripts: Vec<Script>) -> anyhow::Result<Vec<Outcome>> {
    let permits = Arc::new(Semaphore::new(AT_A_TIME));
    let mut tasks = JoinSet::new();
    for (place, script) in scripts.into_iter().enumerate() {
        let (servers, permits) = (Arc::clone(&servers), Arc::clone(&permits));
        tasks.spawn(async move {
            let _permit = permits.acquire().await?;
            anyhow::Ok((place, run::run(&servers, &script).await))
        });
    }
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.push(done??);
    }
    all.sort_by_key(|(place, _)| *place);
    Ok(all.into_iter().flat_map(|(_, outcomes)| outcomes).collect())
}

/// The result of a run: whatever speaks against it.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Differences that no entry covers.
    pub new: String,
    /// The steps with differences that no entry covers, by script.
    pub new_steps: BTreeMap<String, Vec<String>>,
    /// Entries that cover no difference.
    pub stale: String,
    /// How many steps were compared.
    pub steps: usize,
    /// How many of them differ somewhere.
    pub differ: usize,
}

/// Holds outcomes against the accepted differences.
#[must_use]
pub fn judge(outcomes: &[Outcome], accepted: &[Entry]) -> Verdict {
    let mut used: Vec<Vec<bool>> = accepted.iter().map(|entry| vec![false; entry.steps.len()]).collect();
    let mut verdict = Verdict { steps: outcomes.len(), ..Verdict::default() };
    for outcome in outcomes {
        verdict.differ += usize::from(!outcome.differences.is_empty());
        let mut lines = String::new();
        for difference in &outcome.differences {
            let mut covered = false;
            for (entry, used) in accepted.iter().zip(&mut used) {
                for place in entry.covering(&outcome.script, &outcome.step, &difference.path) {
                    (covered, used[place]) = (true, true);
                }
            }
            if !covered {
                let _ = writeln!(lines, "    {difference}");
            }
        }
        if !lines.is_empty() {
            let _ = writeln!(verdict.new, "{}: {}\n{lines}", outcome.script, outcome.step);
            verdict.new_steps.entry(outcome.script.clone()).or_default().push(outcome.step.clone());
        }
    }
    for (entry, used) in accepted.iter().zip(used) {
        for (step, _) in entry.steps.iter().zip(used).filter(|(_, used)| !used) {
            let _ = writeln!(verdict.stale, "{}: {step} ({})", entry.script_pattern, entry.reason);
        }
    }
    verdict
}
