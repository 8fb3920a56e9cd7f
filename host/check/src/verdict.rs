//! Judges runs by rules that have their sources.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::outcome::StateDifference;
use crate::scenario::ObjectName;
use crate::trace::{Entry, Happening, RequestNote};
use crate::world::Run;

/// A rule that every run must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunRule {
    /// Each step of the scenario can be carried out.
    Steps,
    /// The scenario's expectations hold at the end.
    Expectation,
    /// The plugin ends in the same state as without faults (Sieve, OSDI '22: safety of the end state).
    Converges,
    /// The plugin stops writing when nothing changes any more (controller-runtime: a level-triggered reconciler is
    /// idempotent).
    Quiet,
    /// No object is created or deleted more often than without faults (Sieve, OSDI '22: number of creations and
    /// deletions).
    NotNeeded,
    /// An object that is being deleted disappears (Kubernetes: finalizers).
    Stuck,
    /// An object that remains has its owner (Kubernetes: garbage collection).
    Orphan,
    /// The end state depends on the current spec, and not on earlier ones (Acto, SOSP '23: differential oracle).
    History,
    /// A status names only a generation that existed (Kubernetes API conventions: observedGeneration).
    StatusAhead,
    /// A restarted host writes nothing (Kubernetes API conventions: level-based behaviour).
    SecondRun,
    /// A call ends with an answer of the plugin.
    Traps,
    /// When the world is quiet, no object's last call has failed.
    Fails,
    /// Another seed leads to the same end state: nothing depends on randomness, the order of a list or the clock.
    Chance,
}

impl RunRule {
    pub const ALL: [RunRule; 13] = [
        RunRule::Steps,
        RunRule::Expectation,
        RunRule::Converges,
        RunRule::Quiet,
        RunRule::NotNeeded,
        RunRule::Stuck,
        RunRule::Orphan,
        RunRule::History,
        RunRule::StatusAhead,
        RunRule::SecondRun,
        RunRule::Traps,
        RunRule::Fails,
        RunRule::Chance,
    ];

    /// A clause that says how a run violates the rule.
    #[must_use]
    pub fn says(self) -> &'static str {
        match self {
            RunRule::Steps => "a step of the scenario cannot be done",
            RunRule::Expectation => "what the scenario expects does not hold",
            RunRule::Converges => "the end is another one than without the fault",
            RunRule::Quiet => "it goes on writing, although nothing changes any more",
            RunRule::NotNeeded => "it makes or deletes more than without the fault",
            RunRule::Stuck => "an object that is being deleted does not go",
            RunRule::Orphan => "an object is left whose owner has gone",
            RunRule::History => "the end depends on what the spec was before",
            RunRule::StatusAhead => "a status claims a generation that the object has not had",
            RunRule::SecondRun => "it writes again when the host is begun again, although nothing has changed",
            RunRule::Traps => "a call traps",
            RunRule::Fails => "it fails, and goes on failing",
            RunRule::Chance => "the end depends on chance, on an order, or on the clock",
        }
    }

    /// The name of the rule in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RunRule::Steps => "steps",
            RunRule::Expectation => "expectation",
            RunRule::Converges => "converges",
            RunRule::Quiet => "quiet",
            RunRule::NotNeeded => "not-needed",
            RunRule::Stuck => "stuck",
            RunRule::Orphan => "orphan",
            RunRule::History => "history",
            RunRule::StatusAhead => "status-ahead",
            RunRule::SecondRun => "second-run",
            RunRule::Traps => "traps",
            RunRule::Fails => "fails",
            RunRule::Chance => "chance",
        }
    }
}

/// A violated rule, with details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) rule: RunRule,
    /// The step after which it shows. `None` if it does not show after a single step.
    pub(crate) step: Option<usize>,
    pub(crate) details: Vec<String>,
}

impl Verdict {
    fn new(rule: RunRule, details: Vec<String>) -> Option<Verdict> {
        Verdict::after(rule, None, details)
    }

    fn after(rule: RunRule, step: Option<usize>, details: Vec<String>) -> Option<Verdict> {
        (!details.is_empty()).then_some(Verdict { rule, step, details })
    }
}

/// Judges a run by itself. For the reference.
pub(crate) fn alone(run: &Run) -> Vec<Verdict> {
    let undone = run.undone.iter().map(|(index, error)| format!("step {}: {error}", index + 1)).collect();
    let second = if run.second.changed { written(&run.second.entries) } else { vec![] };
    let last = run.noisy.as_ref().map(|_| last_writes(&run.entries)).unwrap_or_default();
    let noisy = run.noisy.iter().cloned().chain(last).collect();
    let verdicts = [
        Verdict::new(RunRule::Steps, undone),
        Verdict::new(RunRule::Traps, traps(&run.entries)),
        Verdict::new(RunRule::Expectation, run.broken.clone()),
        Verdict::new(RunRule::Quiet, noisy),
        Verdict::new(RunRule::Stuck, run.end.stuck.clone()),
        Verdict::new(RunRule::Orphan, [&*run.end.orphans, &*run.left].concat()),
        Verdict::new(RunRule::StatusAhead, run.end.ahead.clone()),
        Verdict::new(RunRule::SecondRun, second),
        run.failing.as_ref().and_then(|(step, failing)| Verdict::after(RunRule::Fails, Some(*step), failing.clone())),
    ];
    verdicts.into_iter().flatten().collect()
}

/// Judges a run with faults against the reference. Problems that the reference has as well are not reported again.
pub(crate) fn compared(run: &Run, reference: &Run, faults: &[Fault]) -> Vec<Verdict> {
    let known: Vec<RunRule> = alone(reference).into_iter().map(|verdict| verdict.rule).collect();
    let mut verdicts = alone(run);
    verdicts.retain(|verdict| !known.contains(&verdict.rule));
    if run.noisy.is_none() {
        verdicts.extend(diverges(run, reference));
    }
    let allowed = faults.iter().fold(0_usize, |sum, fault| sum.saturating_add(fault.allows));
    let hides_ends = faults.iter().any(|fault| fault.hides_ends);
    let counts = |run: &Run| if hides_ends { made_while_owned(&run.entries, &run.given) } else { made(&run.entries) };
    verdicts.extend(Verdict::new(RunRule::NotNeeded, more(&counts(run), &counts(reference), allowed)));
    verdicts
}

/// The first difference between a run and the reference: after a step, or at the end.
fn diverges(run: &Run, reference: &Run) -> Option<Verdict> {
    let ends = run.rests.iter().chain([&run.end]).zip(reference.rests.iter().chain([&reference.end]));
    let mut differences = ends.enumerate().map(|(index, (found, expected))| (index, found.differences(expected)));
    let (index, first) = differences.find(|(_, differences)| !differences.is_empty())?;
    let step = Some(index).filter(|index| *index < reference.rests.len());
    Verdict::after(RunRule::Converges, step, first.iter().map(without_fault).collect())
}

/// Compares the ends of two runs without faults and with different seeds.
pub(crate) fn by_chance(run: &Run, reference: &Run) -> Option<Verdict> {
    Verdict::new(RunRule::Chance, run.end.differences(&reference.end).iter().map(without_fault).collect())
}

/// Compares a run in which an object was changed with one in which it had the final spec from the beginning.
pub(crate) fn by_history(changed: &Run, from_start: &Run) -> Option<Verdict> {
    let told = |it: &StateDifference| told(it, " after the change", "from the beginning");
    Verdict::new(RunRule::History, changed.end.differences(&from_start.end).iter().map(told).collect())
}

fn without_fault(difference: &StateDifference) -> String {
    told(difference, "", "without the fault")
}

/// A difference: its place, and the values in both runs.
fn told(difference: &StateDifference, in_this: &str, in_other: &str) -> String {
    let StateDifference { object, pointer, expected, found } = difference;
    let place = if pointer.is_empty() { object.clone() } else { format!("{object} {pointer}") };
    format!("{place}: {found}{in_this}, and {expected} {in_other}")
}

fn traps(entries: &[Entry]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for entry in entries {
        let Happening::Call { key, result, trapped: true, .. } = &entry.happened else { continue };
        let line = format!("{key}: {result}");
        if !found.contains(&line) {
            found.push(line);
        }
    }
    found
}

/// Writes that the server committed, without Kubernetes Events.
fn carried_out<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> impl Iterator<Item = (&'a Entry, &'a RequestNote)> {
    let writes = entries.into_iter().filter_map(|entry| match &entry.happened {
        Happening::Request(note) => Some((entry, note)),
        _ => None,
    });
    writes.filter(|(_, note)| note.line.alters() && note.is_carried_out())
}

fn written(entries: &[Entry]) -> Vec<String> {
    carried_out(entries).map(|(_, note)| note.line.to_string()).collect()
}

/// The last few writes, if they do not end.
fn last_writes(entries: &[Entry]) -> Vec<String> {
    let all: Vec<String> = carried_out(entries).map(|(entry, note)| format!("{:?} {}", entry.at, note.line)).collect();
    let from = all.len().saturating_sub(4);
    all[from..].to_vec()
}

/// Creations and deletions beyond those of the reference, by resource.
fn more(found: &Made, wanted: &Made, allowed: usize) -> Vec<String> {
    let beyond = found.iter().filter_map(|(what, count)| {
        let needed = wanted.get(what).copied().unwrap_or_default();
        let (verb, resource) = what;
        (*count > needed.saturating_add(allowed))
            .then(|| format!("{verb} {resource}: {count} times, but {needed} without the fault"))
    });
    beyond.collect()
}

/// Creations and deletions by resource.
type Made = BTreeMap<(&'static str, String), usize>;

fn made(entries: &[Entry]) -> Made {
    count(entries.iter())
}

/// Creations and deletions, except between the user's deletion of one of their own objects and the next step. The
/// plugin may see that deletion late, and recreates the children until then. If the user deletes a child by hand, the
/// plugin must recreate it once.
fn made_while_owned(entries: &[Entry], given: &[ObjectName]) -> Made {
    let mut of_user: BTreeSet<String> = given.iter().map(ToString::to_string).collect();
    let mut after_end = false;
    count(entries.iter().filter(|entry| {
        if let Happening::Step(step) = &entry.happened {
            after_end = step.strip_prefix("delete ").is_some_and(|name| of_user.contains(name));
            of_user.extend(step.strip_prefix("apply ").map(str::to_owned));
        }
        !after_end || entry.happened == Happening::Restart
    }))
}

fn count<'a>(entries: impl Iterator<Item = &'a Entry>) -> Made {
    let mut counts = BTreeMap::new();
    let first = entries.take_while(|entry| entry.happened != Happening::Restart);
    for (_, note) in carried_out(first) {
        let what = match (note.line.verb, note.code) {
            (_, Some(201)) => "create",
            ("delete", _) => "delete",
            _ => continue,
        };
        *counts.entry((what, note.line.resource.clone())).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::request_line::RequestLine;

    #[test]
    fn writes_after_an_owners_end_do_not_count_but_after_a_childs_do() {
        let entry = |happened| Entry { at: Duration::ZERO, happened };
        let step = |text: &str| entry(Happening::Step(text.to_owned()));
        let made = || {
            let line = RequestLine { verb: "patch", resource: "services".to_owned(), ..RequestLine::default() };
            entry(Happening::Request(RequestNote { line, code: Some(201), events: 0 }))
        };
        let settings = ObjectName {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: "default".to_owned(),
            name: "settings".to_owned(),
        };
        let services = |steps: &[&str]| {
            let entries: Vec<Entry> = steps.iter().flat_map(|text| [step(text), made()]).collect();
            let made = made_while_owned(&entries, std::slice::from_ref(&settings));
            made.get(&("create", "services".to_owned())).copied().unwrap_or_default()
        };
        let owner = ["apply Shop default/a", "delete Shop default/a", "apply Shop default/a"];
        assert_eq!(services(&owner), 2);
        assert_eq!(services(&["apply Shop default/a", "delete Service default/a"]), 2, "a child that the user deletes");
        assert_eq!(services(&["delete ConfigMap default/settings"]), 0, "what was there from the beginning");
    }
}
