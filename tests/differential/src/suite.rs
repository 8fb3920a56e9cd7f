//! Runs and judges all scripts.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::JoinSet;

use crate::accepted::Accepted;
use crate::run::{self, Outcome};
use crate::script::Script;
use crate::servers::Servers;

/// The directory of this crate, with `scripts` and `accepted.yaml`.
#[must_use]
pub fn home() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The scripts whose names begin with one of `names`; all scripts if there are no names.
pub fn scripts(names: &[String]) -> anyhow::Result<Vec<Script>> {
    let mut scripts = Script::read_all(&home().join("scripts"))?;
    scripts.retain(|script| names.is_empty() || names.iter().any(|name| script.name.starts_with(name)));
    Ok(scripts)
}

/// The file of accepted differences.
#[must_use]
pub fn accepted_file() -> PathBuf {
    home().join("accepted.yaml")
}

/// The file with the parts of the random operations.
#[must_use]
pub fn vocabulary_file() -> PathBuf {
    home().join("vocabulary.yaml")
}

/// Runs scripts at the same time, because each one waits for watches and controllers. No compared answer depends on
/// another script. Scripts that would disturb others run after them. The outcomes have the order of the scripts.
pub async fn run_all(servers: Arc<Servers>, scripts: Vec<Script>) -> anyhow::Result<Vec<Outcome>> {
    let numbered: Vec<(usize, Script)> = scripts.into_iter().enumerate().collect();
    let (last, first): (Vec<_>, Vec<_>) = numbered.into_iter().partition(|(_, script)| script.runs_last);
    let mut all = Vec::new();
    for group in [first, last] {
        let mut tasks = JoinSet::new();
        for (place, script) in group {
            let servers = Arc::clone(&servers);
            tasks.spawn(async move { (place, run::run(&servers, &script).await) });
        }
        while let Some(done) = tasks.join_next().await {
            all.push(done?);
        }
    }
    all.sort_by_key(|(place, _)| *place);
    Ok(all.into_iter().flat_map(|(_, outcomes)| outcomes).collect())
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Differences that are not accepted.
    pub new: String,
    /// Accepted differences that no longer exist.
    pub gone: String,
    /// The number of compared steps.
    pub steps: usize,
    /// The number of steps with a difference.
    pub differ: usize,
}

/// Compares the outcomes with the accepted differences.
#[must_use]
pub fn judge(outcomes: &[Outcome], accepted: &Accepted) -> Verdict {
    let mut verdict = Verdict { steps: outcomes.len(), gone: accepted.gone(outcomes), ..Verdict::default() };
    for outcome in outcomes {
        verdict.differ += usize::from(!outcome.differences.is_empty());
        let new = outcome.differences.iter().filter(|difference| !accepted.contains(outcome, &difference.summary));
        let lines: Vec<String> = new.map(|difference| format!("    {difference}\n")).collect();
        if !lines.is_empty() {
            let _ = writeln!(verdict.new, "{}\n{}", outcome.title(), lines.concat());
        }
    }
    verdict
}
