//! The judgement of runs, by rules that have their sources.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::outcome::Difference;
use crate::scenario::ObjectName;
use crate::trace::{Entry, Happening, RequestNote};
use crate::world::Run;

/// A rule for all runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Each step of the scenario can be done.
    Steps,
    /// The scenario's expectations hold at the end.
    Expectation,
    /// The plugin ends in the state that it reaches without faults (Sieve, OSDI '22: safety of the end state).
    Converges,
    /// The plugin stops writing when nothing changes any more (controller-runtime: a level-triggered reconciler is idempotent).
    Quiet,
    /// No object is made or deleted more often than without faults (Sieve, OSDI '22: number of creations and deletions).
    NotNeeded,
    /// An object that is being deleted goes (Kubernetes: finalizers).
    Stuck,
    /// An object that is left has its owner (Kubernetes: garbage collection).
    Orphan,
    /// The end follows from what is asked for, and not from what was asked for before (Acto, SOSP '23: differential oracle).
    History,
    /// A status is about a generation that there has been (Kubernetes API conventions: observedGeneration).
    StatusAhead,
    /// A host that begins again writes nothing (Kubernetes API conventions: level-based behaviour).
    SecondRun,
    /// A call ends with an answer of the plugin's.
    Traps,
    /// When the world is quiet, no object's last call has failed.
    Fails,
    /// Another seed leads to the same end: nothing depends on chance, the order of a list or the clock.
    Chance,
}

impl Rule {
    pub const ALL: [Rule; 13] = [
        Rule::Steps,
        Rule::Expectation,
        Rule::Converges,
        Rule::Quiet,
        Rule::NotNeeded,
        Rule::Stuck,
        Rule::Orphan,
        Rule::History,
        Rule::StatusAhead,
        Rule::SecondRun,
        Rule::Traps,
        Rule::Fails,
        Rule::Chance,
    ];

    /// A clause that says how a run breaks the rule.
    #[must_use]
    pub fn says(self) -> &'static str {
        match self {
            Rule::Steps => "a step of the scenario cannot be done",
            Rule::Expectation => "what the scenario expects does not hold",
            Rule::Converges => "the end is another one than without the fault",
            Rule::Quiet => "it goes on writing, although nothing changes any more",
            Rule::NotNeeded => "it makes or deletes more than without the fault",
            Rule::Stuck => "an object that is being deleted does not go",
            Rule::Orphan => "an object is left whose owner has gone",
            Rule::History => "the end depends on what the spec was before",
            Rule::StatusAhead => "a status claims a generation that the object has not had",
            Rule::SecondRun => "it writes again when the host is begun again, although nothing has changed",
            Rule::Traps => "a call traps",
            Rule::Fails => "it fails, and goes on failing",
            Rule::Chance => "the end depends on chance, on an order, or on the clock",
        }
    }

    /// The name of the rule, as reports have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Rule::Steps => "steps",
            Rule::Expectation => "expectation",
            Rule::Converges => "converges",
            Rule::Quiet => "quiet",
            Rule::NotNeeded => "not-needed",
            Rule::Stuck => "stuck",
            Rule::Orphan => "orphan",
            Rule::History => "history",
            Rule::StatusAhead => "status-ahead",
            Rule::SecondRun => "second-run",
            Rule::Traps => "traps",
            Rule::Fails => "fails",
            Rule::Chance => "chance",
        }
    }
}

/// A rule that a run breaks, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) rule: Rule,
    /// The step after which it shows. None: it shows in no step alone.
    pub(crate) step: Option<usize>,
    pub(crate) details: Vec<String>,
}

impl Verdict {
    fn new(rule: Rule, details: Vec<String>) -> Option<Verdict> {
        Verdict::after(rule, None, details)
    }

    fn after(rule: Rule, step: Option<usize>, details: Vec<String>) -> Option<Verdict> {
        (!details.is_empty()).then_some(Verdict { rule, step, details })
    }
}

/// Judges a run by itself: the reference.
pub(crate) fn alone(run: &Run) -> Vec<Verdict> {
    let undone = run.undone.iter().map(|(index, error)| format!("step {}: {error}", index + 1)).collect();
    let second = if run.second.changed { written(&run.second.entries) } else { vec![] };
    let last = run.noisy.as_ref().map(|_| last_writes(&run.entries)).unwrap_or_default();
    let noisy = run.noisy.iter().cloned().chain(last).collect();
    let verdicts = [
        Verdict::new(Rule::Steps, undone),
        Verdict::new(Rule::Traps, traps(&run.entries)),
        Verdict::new(Rule::Expectation, run.broken.clone()),
        Verdict::new(Rule::Quiet, noisy),
        Verdict::new(Rule::Stuck, run.end.stuck.clone()),
        Verdict::new(Rule::Orphan, [&*run.end.orphans, &*run.left].concat()),
        Verdict::new(Rule::StatusAhead, run.end.ahead.clone()),
        Verdict::new(Rule::SecondRun, second),
        run.failing.as_ref().and_then(|(step, failing)| Verdict::after(Rule::Fails, Some(*step), failing.clone())),
    ];
    verdicts.into_iter().flatten().collect()
}

/// Judges a run under faults by the reference. What is wrong with the reference, too, is not said again.
pub(crate) fn compared(run: &Run, reference: &Run, faults: &[Fault]) -> Vec<Verdict> {
    let known: Vec<Rule> = alone(reference).into_iter().map(|verdict| verdict.rule).collect();
    let mut verdicts = alone(run);
    verdicts.retain(|verdict| !known.contains(&verdict.rule));
    if run.noisy.is_none() {
        verdicts.extend(diverges(run, reference));
    }
    let allowed = faults.iter().fold(0_usize, |sum, fault| sum.saturating_add(fault.allows));
    let hides_ends = faults.iter().any(|fault| fault.hides_ends);
    let counts = |run: &Run| if hides_ends { made_while_owned(&run.entries, &run.given) } else { made(&run.entries) };
    verdicts.extend(Verdict::new(Rule::NotNeeded, more(&counts(run), &counts(reference), allowed)));
    verdicts
}

/// How a run differs from the reference where it differs first: after a step, or at the end.
fn diverges(run: &Run, reference: &Run) -> Option<Verdict> {
    let ends = run.rests.iter().chain([&run.end]).zip(reference.rests.iter().chain([&reference.end]));
    let mut differences = ends.enumerate().map(|(index, (found, expected))| (index, found.differences(expected)));
    let (index, first) = differences.find(|(_, differences)| !differences.is_empty())?;
    let step = Some(index).filter(|index| *index < reference.rests.len());
    Verdict::after(Rule::Converges, step, first.iter().map(without_fault).collect())
}

/// Whether two runs without faults and with different seeds end alike.
pub(crate) fn by_chance(run: &Run, reference: &Run) -> Option<Verdict> {
    Verdict::new(Rule::Chance, run.end.differences(&reference.end).iter().map(without_fault).collect())
}

/// Whether an object that was changed into what it is leaves the same as one that was so from the beginning.
pub(crate) fn by_history(changed: &Run, from_start: &Run) -> Option<Verdict> {
    let told = |it: &Difference| told(it, " after the change", "from the beginning");
    Verdict::new(Rule::History, changed.end.differences(&from_start.end).iter().map(told).collect())
}

fn without_fault(difference: &Difference) -> String {
    told(difference, "", "without the fault")
}

/// The place of a difference, the value that was found in one run, and the one of the other.
fn told(difference: &Difference, in_this: &str, in_other: &str) -> String {
    let Difference { object, pointer, expected, found } = difference;
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

/// Writes that the server has carried out, Kubernetes Events left out.
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

/// The last few writes, when they do not end.
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
            .then(|| format!("{verb} {resource}: {count} times, and {needed} without the fault"))
    });
    beyond.collect()
}

/// Creations and deletions by resource.
type Made = BTreeMap<(&'static str, String), usize>;

fn made(entries: &[Entry]) -> Made {
    count(entries.iter())
}

/// The same without what happened after the user had deleted one of their own objects, until the next step: its end may be seen late,
/// and until then its children are made again. A child that the user has deleted by hand is to be made again, once.
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
    fn what_follows_the_end_of_an_owner_does_not_count_and_what_follows_the_end_of_a_child_does() {
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
        assert_eq!(services(&["apply Shop default/a", "delete Service default/a"]), 2, "a child that somebody deletes");
        assert_eq!(services(&["delete ConfigMap default/settings"]), 0, "what was there from the beginning");
    }
}
