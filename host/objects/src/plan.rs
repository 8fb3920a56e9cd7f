//! The plan of what the host should have fetched and installed, decided from all objects at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::artefact::InstalledArtefact;
use crate::grant::{GrantRefusal, PolicyJudgement, judge};
use crate::plugin::{PluginObject, PluginSource};
use crate::policy::PolicyObject;
use crate::rendered::has_shadow;

/// The number of artefacts that are known beside the installed one.
pub const FORMER_ARTEFACTS_MAX: usize = 8;

/// Why a file could not be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchFailure {
    /// A word of a fixed list.
    pub reason: &'static str,
    /// A sentence that quotes no text of a registry.
    pub message: String,
}

/// The attempt to fetch the file of one plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchState {
    /// It is being fetched for the first time.
    Running,
    /// It was fetched.
    Fetched(InstalledArtefact),
    /// It could not be fetched. The host tries again.
    Failed(FetchFailure),
}

/// Everything on which a plan depends.
#[derive(Clone, Copy, Debug)]
pub struct PlanInputs<'a> {
    /// All plugins, by name.
    pub plugins: &'a BTreeMap<String, Arc<PluginObject>>,
    /// All policies, by name.
    pub policies: &'a BTreeMap<String, PolicyObject>,
    /// The installed artefact of each plugin, until its last generation has ended.
    pub installed: &'a BTreeMap<String, InstalledArtefact>,
    /// The artefacts that were installed before, and may run again after a rollback.
    pub former: &'a BTreeMap<String, Vec<InstalledArtefact>>,
    /// The SHA-256 of the file that runs for each plugin, as `sha256:…`. It may be another one than what is installed:
    /// while the installed one is compiled, or if it was refused or rolled back.
    pub running: &'a BTreeMap<String, String>,
    /// For each plugin, the last attempt to fetch, and for which source.
    pub fetches: &'a BTreeMap<String, (PluginSource, FetchState)>,
    /// The names for which the plugin directory has files.
    pub taken: &'a BTreeSet<String>,
}

/// The files of one plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedFiles {
    /// The artefact that runs.
    pub artefact: InstalledArtefact,
    /// Artefacts that ran before, and may run again after a rollback. The policy covers them, too.
    pub former: Vec<InstalledArtefact>,
    /// The text of the policy file.
    pub policy: String,
    /// The text of the configuration file, if there is one.
    pub config: Option<String>,
    /// Whether a new version waits as a shadow.
    pub shadow: bool,
}

/// The consequences for one plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectPlan {
    /// The object.
    pub plugin: Arc<PluginObject>,
    /// The files that the host should have. `None` if it should have none.
    pub files: Option<WantedFiles>,
    /// Whether the file of the object's source must be fetched and no attempt was made.
    pub must_fetch: bool,
    /// Why the object's source is granted nothing.
    pub refusal: Option<GrantRefusal>,
    /// Whether the plugin directory has the name.
    pub is_taken: bool,
    /// The file of the object's source, as far as there is one.
    pub fetch: Option<FetchState>,
}

/// The plan for each plugin.
#[must_use]
pub fn plan(inputs: &PlanInputs<'_>) -> Vec<ObjectPlan> {
    inputs.plugins.values().map(|plugin| plan_of(plugin, inputs)).collect()
}

fn plan_of(plugin: &Arc<PluginObject>, inputs: &PlanInputs<'_>) -> ObjectPlan {
    let of = plugin.clone();
    let nothing =
        ObjectPlan { plugin: of, files: None, must_fetch: false, refusal: None, is_taken: false, fetch: None };
    if inputs.taken.contains(&plugin.name) {
        return ObjectPlan { is_taken: true, ..nothing };
    }
    let judged = match judge(plugin, inputs.policies) {
        Ok(judged) => judged,
        Err(refusal) => return ObjectPlan { refusal: Some(refusal), ..nothing },
    };
    let installed = inputs.installed.get(&plugin.name);
    let fetch = fetched(plugin, installed, inputs).filter(|_| judged.refusal.is_none());
    let covered = covered(&judged, plugin, inputs);
    let running = inputs.running.get(&plugin.name);
    let artefact = chosen(&judged, installed, fetch.as_ref()).filter(|_| {
        // Another file may run than the installed one. It is judged like that one.
        running.is_none_or(|running| covered.iter().any(|artefact| artefact.file_digest == *running))
    });
    let files = artefact.map(|artefact| WantedFiles {
        former: former(&covered, artefact, running),
        ..files(plugin, &judged, artefact)
    });
    let refusal = judged.refusal.clone().or_else(|| uncovered(&judged, fetch.as_ref()));
    let must_fetch = fetch.is_none() && judged.refusal.is_none();
    ObjectPlan { files, must_fetch, refusal, fetch, ..nothing }
}

/// The file of the object's current source. The host does not fetch an installed file again, so a restart needs no
/// registry, and a tag is resolved once.
fn fetched(
    plugin: &PluginObject,
    installed: Option<&InstalledArtefact>,
    inputs: &PlanInputs<'_>,
) -> Option<FetchState> {
    let source = plugin.source()?;
    if let Some(installed) = installed.filter(|installed| installed.source == *source) {
        return Some(FetchState::Fetched(installed.clone()));
    }
    let (tried, state) = inputs.fetches.get(&plugin.name)?;
    (tried == source).then(|| state.clone())
}

/// The file that should run. A file that the policy no longer covers makes room before another one is installed:
/// otherwise it would run with the rights of the other one while that gets ready.
fn chosen<'a>(
    judged: &PolicyJudgement<'_>,
    installed: Option<&'a InstalledArtefact>,
    fetch: Option<&'a FetchState>,
) -> Option<&'a InstalledArtefact> {
    if installed.is_some_and(|installed| !judged.covers(installed)) {
        return None;
    }
    match fetch {
        Some(FetchState::Fetched(artefact)) if judged.covers(artefact) => Some(artefact),
        _ => installed,
    }
}

/// The artefacts that are or were installed, as far as the policy covers them. Only these may run.
fn covered<'a>(
    judged: &PolicyJudgement<'_>,
    plugin: &PluginObject,
    inputs: &PlanInputs<'a>,
) -> Vec<&'a InstalledArtefact> {
    let former = inputs.former.get(&plugin.name).into_iter().flatten();
    let known = inputs.installed.get(&plugin.name).into_iter().chain(former);
    known.filter(|artefact| judged.covers(artefact)).collect()
}

/// The artefacts that may run again after `next` is installed, the latest first.
fn former(
    covered: &[&InstalledArtefact],
    next: &InstalledArtefact,
    running: Option<&String>,
) -> Vec<InstalledArtefact> {
    let mut former: Vec<_> = covered.iter().copied().filter(|artefact| *artefact != next).cloned().collect();
    // The one that runs must stay known, however many were installed and refused since.
    let runs = former.iter().position(|artefact| Some(&artefact.file_digest) == running);
    if let Some(runs) = runs.filter(|at| *at >= FORMER_ARTEFACTS_MAX) {
        former.swap(runs, FORMER_ARTEFACTS_MAX - 1);
    }
    former.truncate(FORMER_ARTEFACTS_MAX);
    former
}

/// The refusal of a file whose digest was not known before it was fetched.
fn uncovered(judged: &PolicyJudgement<'_>, fetch: Option<&FetchState>) -> Option<GrantRefusal> {
    let Some(FetchState::Fetched(artefact)) = fetch else { return None };
    (!judged.covers(artefact)).then(|| GrantRefusal::DigestNotAllowed {
        policy: judged.policy.to_owned(),
        digest: artefact.named_digest().to_owned(),
    })
}

fn files(plugin: &PluginObject, judged: &PolicyJudgement<'_>, artefact: &InstalledArtefact) -> WantedFiles {
    let config = plugin.config_file();
    let (policy, shadow) = (judged.text.clone(), has_shadow(&judged.text));
    WantedFiles { artefact: artefact.clone(), former: Vec::new(), policy, config, shadow }
}

#[cfg(test)]
mod tests;
