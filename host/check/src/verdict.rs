//! Judges runs by the rules of [`RunRule`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::fault::Fault;
use crate::outcome::StateDifference;
use crate::rule::RunRule;
use crate::scenario::ObjectName;
use crate::trace::{Entry, Happening, RequestNote};
use crate::world::Run;

/// A violated rule, with details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) rule: RunRule,
    /// The step after which the violation shows. `None` if it does not show after a certain step.
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

/// Judges a run by itself, as for the reference.
pub(crate) fn alone(run: &Run) -> Vec<Verdict> {
    let undone = run.undone.iter().map(|(index, error)| format!("step {}: {error}", index + 1)).collect();
    let second = if run.second.changed { written(before_requeues(&run.second.entries)) } else { vec![] };
    let last = run.noisy.as_ref().map(|_| last_writes(&run.entries)).unwrap_or_default();
    let noisy = run.noisy.iter().cloned().chain(last).collect();
    let verdicts = [
        Verdict::new(RunRule::Steps, undone),
        traps(&run.entries),
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

/// Judges a run with faults against the reference. Leaves out rules that the reference violates too.
pub(crate) fn compared(run: &Run, reference: &Run, faults: &[Fault]) -> Vec<Verdict> {
    let known: Vec<RunRule> = alone(reference).into_iter().map(|verdict| verdict.rule).collect();
    let mut verdicts = alone(run);
    verdicts.retain(|verdict| !known.contains(&verdict.rule));
    if faults.iter().any(|fault| fault.ends_differ) {
        verdicts.retain(|verdict| !matches!(verdict.rule, RunRule::Steps | RunRule::Expectation));
        return verdicts;
    }
    if run.noisy.is_none() {
        verdicts.extend(diverges(run, reference));
    }
    let allowed = faults.iter().fold(0_usize, |sum, fault| sum.saturating_add(fault.allows));
    let hides_ends = faults.iter().any(|fault| fault.hides_ends);
    let counts = |run: &Run| if hides_ends { made_while_owned(&run.entries, &run.given) } else { made(&run.entries) };
    verdicts.extend(Verdict::new(RunRule::NotNeeded, more(&counts(run), &counts(reference), allowed)));
    verdicts
}

/// The first point at which the objects differ from the reference: after a step, or at the end.
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
    let described = |it: &StateDifference| described(it, " after the change", "from the beginning");
    Verdict::new(RunRule::History, changed.end.differences(&from_start.end).iter().map(described).collect())
}

fn without_fault(difference: &StateDifference) -> String {
    described(difference, "", "without the fault")
}

/// Describes a difference: its place, and the values in both runs.
fn described(difference: &StateDifference, in_this: &str, in_other: &str) -> String {
    let StateDifference { object, pointer, expected, found } = difference;
    let place = if pointer.is_empty() { object.clone() } else { format!("{object} {pointer}") };
    format!("{place}: {found}{in_this}, and {expected} {in_other}")
}

/// The calls that trapped, up to the end of the first step in which one did.
fn traps(entries: &[Entry]) -> Option<Verdict> {
    let mut found: Vec<String> = Vec::new();
    let (mut steps, mut step) = (0_usize, None);
    for entry in entries {
        match &entry.happened {
            Happening::Step(_) | Happening::Restart if step.is_some() => break,
            Happening::Step(_) => steps += 1,
            // Entries after the restart belong to no step.
            Happening::Restart => steps = 0,
            Happening::Call { key: about, result, trapped: true, .. }
            | Happening::Asked { about, result, trapped: true, .. } => {
                step = steps.checked_sub(1);
                let line = format!("{about}: {result}");
                if !found.contains(&line) {
                    found.push(line);
                }
            }
            _ => {}
        }
    }
    Verdict::after(RunRule::Traps, step, found)
}

/// The writes that the server committed, except for Kubernetes Events.
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

/// The entries before the first write of a call that the plugin had requested with a delay. Such a write depends on the
/// time and not on the restart, and so does everything after it.
fn before_requeues(entries: &[Entry]) -> &[Entry] {
    let mut due: BTreeMap<&str, Duration> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        match &entry.happened {
            // A requeue without a delay does not depend on the time.
            Happening::Call { key, again: Some(again), .. } if !again.is_zero() => {
                let at = entry.at.saturating_add(*again);
                due.entry(key).and_modify(|due| *due = at.min(*due)).or_insert(at);
            }
            Happening::Request(note) if note.line.alters() => {
                let due = note.key.as_deref().and_then(|key| due.get(key));
                if due.is_some_and(|due| entry.at >= *due) {
                    return &entries[..index];
                }
            }
            _ => {}
        }
    }
    entries
}

/// The last few writes of a run that does not become quiet.
fn last_writes(entries: &[Entry]) -> Vec<String> {
    let all: Vec<String> = carried_out(entries).map(|(entry, note)| format!("{:?} {}", entry.at, note.line)).collect();
    let from = all.len().saturating_sub(4);
    all[from..].to_vec()
}

/// The creations and deletions that exceed those of the reference, by resource.
fn more(found: &ResourceCounts, wanted: &ResourceCounts, allowed: usize) -> Vec<String> {
    let beyond = found.iter().filter_map(|(what, count)| {
        let needed = wanted.get(what).copied().unwrap_or_default();
        let (verb, resource) = what;
        (*count > needed.saturating_add(allowed))
            .then(|| format!("{verb} {resource}: {count} times, but {needed} without the fault"))
    });
    beyond.collect()
}

/// Creations and deletions by resource.
type ResourceCounts = BTreeMap<(&'static str, String), usize>;

fn made(entries: &[Entry]) -> ResourceCounts {
    count(entries.iter())
}

/// Creations and deletions by resource. Leaves out the time from when the user deletes one of their own objects until
/// the next step: the plugin may see that deletion late, and recreates the children until then. After the user deletes
/// a child by hand, nothing is left out, because the plugin must recreate the child once.
fn made_while_owned(entries: &[Entry], given: &[ObjectName]) -> ResourceCounts {
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

fn count<'a>(entries: impl Iterator<Item = &'a Entry>) -> ResourceCounts {
    let mut counts = BTreeMap::new();
    let first = entries.take_while(|entry| entry.happened != Happening::Restart);
    // A host that starts again reviews its rights again.
    for (_, note) in carried_out(first).filter(|(_, note)| !note.line.is_review()) {
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
    use super::*;
    use crate::outcome::EndState;
    use crate::request_line::RequestLine;

    fn request(verb: &'static str, code: u16) -> Happening {
        let line = RequestLine { verb, resource: "services".to_owned(), ..RequestLine::default() };
        Happening::Request(RequestNote { line, code: Some(code), events: 0, created: None, key: Some("a".to_owned()) })
    }

    fn run(end: EndState, broken: &[&str]) -> Run {
        Run { number: 1, end, broken: broken.iter().map(|it| (*it).to_owned()).collect(), ..Run::default() }
    }

    #[test]
    fn the_plugin_need_not_recreate_a_deleted_object_of_the_user() {
        let objects = BTreeMap::from([("configmaps default/a".to_owned(), serde_json::Value::Null)]);
        let reference = run(EndState { objects, ..EndState::default() }, &[]);
        let stuck = vec!["pods default/b".to_owned()];
        let run = run(EndState { stuck, ..EndState::default() }, &["a does not exist"]);
        let rules = |ends_differ| {
            let fault = Fault { ends_differ, ..Fault::default() };
            compared(&run, &reference, &[fault]).into_iter().map(|verdict| verdict.rule).collect::<Vec<_>>()
        };
        assert_eq!(rules(false), [RunRule::Expectation, RunRule::Stuck, RunRule::Converges]);
        assert_eq!(rules(true), [RunRule::Stuck], "it must still let its own objects go");
    }

    /// A call for `key`. With `again`, the plugin asks to run again after that many seconds.
    fn call(key: &str, again: Option<u64>) -> Happening {
        let again = again.map(Duration::from_secs);
        Happening::Call { key: key.to_owned(), result: String::new(), trapped: false, failed: false, again }
    }

    fn at(seconds: u64, happened: Happening) -> Entry {
        Entry { at: Duration::from_secs(seconds), happened }
    }

    #[test]
    fn reviews_do_not_count_as_created_objects() {
        let review = RequestLine {
            verb: "create",
            resource: "selfsubjectaccessreviews.authorization.k8s.io".to_owned(),
            ..RequestLine::default()
        };
        let note = RequestNote { line: review, code: Some(201), events: 0, created: None, key: None };
        let entries = [at(1, Happening::Request(note)), at(2, request("patch", 201))];
        assert_eq!(made(&entries), ResourceCounts::from([(("create", "services".to_owned()), 1)]));
    }

    #[test]
    fn traps_are_reported_up_to_the_end_of_the_first_step_with_one() {
        let entry = |happened| Entry { at: Duration::ZERO, happened };
        let step = || entry(Happening::Step(String::new()));
        let (result, failed) = ("Trapped".to_owned(), true);
        let asked = |about: &str, trapped| {
            entry(Happening::Asked { about: about.to_owned(), result: result.clone(), trapped, failed })
        };
        let call = |key: &str| {
            let (key, result) = (key.to_owned(), result.clone());
            entry(Happening::Call { key, result, trapped: true, failed, again: None })
        };
        let found = |entries: &[Entry]| traps(entries).map(|verdict| (verdict.step, verdict.details.join(", ")));
        let entries = [step(), asked("no", false), step(), asked("a", true), call("b"), call("b"), step(), call("c")];
        assert_eq!(found(&entries), Some((Some(1), "a: Trapped, b: Trapped".to_owned())));
        assert_eq!(found(&[call("a"), step()]), Some((None, "a: Trapped".to_owned())), "before the first step");
        let entries = [step(), entry(Happening::Restart), call("a")];
        assert_eq!(found(&entries), Some((None, "a: Trapped".to_owned())), "after the restart");
        assert_eq!(found(&entries[..2]), None);
    }

    #[test]
    fn writes_of_a_due_requeue_do_not_count_as_a_second_run() {
        let entries = [
            at(1, request("patch", 200)),
            at(1, call("a", Some(30))),
            at(2, call("a", Some(50))),
            at(31, request("delete", 200)),
        ];
        assert_eq!(written(before_requeues(&entries)), ["patch services"]);
        let entries = [at(1, call("a", None)), at(31, request("delete", 200))];
        assert_eq!(written(before_requeues(&entries)), ["delete services"], "it asked for nothing");
    }

    #[test]
    fn a_requeue_excuses_only_its_own_object_and_only_when_time_has_passed() {
        let entries = [at(1, call("b", Some(1))), at(3, request("delete", 200))];
        assert_eq!(written(before_requeues(&entries)), ["delete services"], "the requeue of another object");
        let entries = [at(1, call("a", Some(0))), at(3, request("delete", 200))];
        assert_eq!(written(before_requeues(&entries)), ["delete services"], "a requeue at once");
    }

    #[test]
    fn writes_after_an_owners_end_do_not_count_but_after_a_childs_do() {
        let entry = |happened| Entry { at: Duration::ZERO, happened };
        let step = |text: &str| entry(Happening::Step(text.to_owned()));
        let made = || entry(request("patch", 201));
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
