//! Plans the faults to try: one fault of each kind for each place in the reference run where it can occur.

mod clock;
mod outage;
mod replicas;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use windlass_apiserver::{
    CallSelector, CommitSide, ConnectionDrop, EditKind, ErrorAnswer, EventCount, ForeignEdit, Nothing, Pause, Reaction,
    ReactorRule, RequestFilter, WatchCut, WatchEnd, WatchHide, WatchHold,
};

use crate::fault::{AtRest, Deed, Fault, WritePoint};
use crate::outcome::{FOREIGN, OwnedObject, foreign_mark};
use crate::request_line::RequestLine;
use crate::trace::{Entry, Happening, RequestNote};

/// The user agents of the host's requests. Requests of the user do not fail.
const HOST: &str = "windlass/*";
/// The maximum number of events of one watch that are disturbed. Disturbing later events is unlikely to reveal anything
/// new.
const DISTURBED_EVENTS_MAX: usize = 12;

/// Errors that an API server may return, each with its description in the name of the fault.
///
/// 404 is not among them: a server does not claim that an existing object is missing. `foreign-delete` causes true
/// 404s.
const ERRORS: [(u16, &str); 7] = [
    (403, "is refused as forbidden"),
    (409, "conflicts"),
    (422, "is refused as invalid"),
    (429, "is refused, as there are too many requests"),
    (500, "fails in the server"),
    (503, "meets a server that is not ready"),
    (504, "times out in the server"),
];

/// A request of the reference run.
struct RequestPlace {
    line: RequestLine,
    /// The number of this request among the requests with the same verb, resource and name.
    nth: u64,
    /// Its number among all writes. `None` for a read.
    write: Option<usize>,
    code: Option<u16>,
    /// For a watch: the number of events that it delivered.
    events: usize,
    /// Whether the host created the object earlier. Otherwise the object belongs to another client.
    is_own: bool,
}

/// Single faults, in an order that tries every class early.
pub(crate) fn singles(reference: &[Entry], owned: &[(usize, OwnedObject)]) -> Vec<Fault> {
    let places = places(reference);
    let mut classes: Vec<Vec<Fault>> = vec![crashes(&places), lost(&places), late_restarts(&places)];
    classes.extend([replicas::failovers(&places), replicas::swaps(&places)]);
    classes.extend([foreign_deletes(&places), foreign_edits(&places)]);
    let of_watches = watch_faults(&places);
    let of_class = |class: &str| of_watches.iter().filter(|fault| fault.class == class).cloned().collect();
    classes.extend(["late", "hidden-events", "watch-ends", "twice"].map(of_class));
    classes.extend(ERRORS.map(|error| errors(&places, error)));
    let made_again = owned.iter().filter(|(_, object)| object.is_made_again);
    classes.push(made_again.map(|it| at_rest(it, Deed::Delete)).collect());
    classes.push(owned.iter().map(|it| at_rest(it, Deed::Annotate)).collect());
    classes.extend([delays(&places), clock::faults(reference), outage::faults(&places)]);
    let longest = classes.iter().map(Vec::len).max().unwrap_or_default();
    let mut turns: Vec<_> = classes.into_iter().map(Vec::into_iter).collect();
    (0..longest).flat_map(|_| turns.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>()).collect()
}

/// Rotates the faults by an amount that depends on the seed, so that short checks with many seeds try all faults. The
/// default seed does not rotate them.
pub(crate) fn turn(singles: &mut [Fault], seed: u64) {
    const TURN_PER_SEED: u64 = 7;
    if let Ok(count @ 1..) = u64::try_from(singles.len()) {
        let by = seed.wrapping_sub(1).wrapping_mul(TURN_PER_SEED) % count;
        singles.rotate_left(usize::try_from(by).unwrap_or_default());
    }
}

/// An endless sequence of random pairs of faults. Empty if no two faults can be combined.
pub(crate) fn pairs(singles: &[Fault], seed: u64) -> impl Iterator<Item = [Fault; 2]> {
    let mut chance = rand::rngs::Xoshiro256PlusPlus::seed_from_u64(seed);
    let any = singles.iter().enumerate().any(|(place, one)| singles[place..].iter().any(|other| one.goes_with(other)));
    std::iter::from_fn(move || {
        let mut one = || singles.get(chance.random_range(0..singles.len().max(1))).filter(|_| any).cloned();
        Some([one()?, one()?])
    })
    .filter(|[one, other]| one.goes_with(other))
}

fn places(reference: &[Entry]) -> Vec<RequestPlace> {
    let mut seen: BTreeMap<RequestLine, u64> = BTreeMap::new();
    let mut created: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
    let mut writes = 0;
    // No fault occurs after the restart of the host.
    let first = reference.iter().take_while(|entry| entry.happened != Happening::Restart);
    let requests = first.filter_map(|entry| match &entry.happened {
        Happening::Request(note) => Some(note),
        _ => None,
    });
    requests
        .map(|note| {
            let line = note.line.clone();
            let nth = seen.entry(line.clone()).and_modify(|nth| *nth += 1).or_insert(1);
            let is_write = line.alters();
            writes += usize::from(is_write);
            let RequestNote { line: RequestLine { resource, namespace, name, .. }, code, events, .. } = note;
            let is_own = created.contains(&(resource, namespace, name));
            created.extend(note.created.as_ref().map(|it| (&**resource, &**namespace, &*it.name)));
            let write = is_write.then_some(writes);
            RequestPlace { nth: *nth, write, code: *code, events: *events, is_own, line }
        })
        .collect()
}

impl RequestPlace {
    fn filter(&self) -> RequestFilter {
        let RequestLine { verb, resource, namespace, name } = &self.line;
        let some = |text: &str| if text.is_empty() { vec![] } else { vec![text.to_owned()] };
        RequestFilter {
            verbs: some(verb),
            resources: some(resource),
            namespaces: some(namespace),
            names: some(name),
            user_agents: vec![HOST.to_owned()],
            calls: Some(CallSelector::Nth(self.nth)),
            probability: None,
        }
    }

    /// A fault at this place.
    fn fault(&self, class: &str, happens: &str, reaction: Reaction) -> Fault {
        let rule = ReactorRule { name: class.to_owned(), when: self.filter(), then: vec![reaction] };
        Fault { rules: vec![rule], ..self.named(class, happens) }
    }

    /// The position of this request among the writes of the process. `None` for a read.
    fn at(&self, side: CommitSide) -> Option<WritePoint> {
        self.write.map(|write| WritePoint { write, side })
    }

    fn named(&self, class: &str, happens: &str) -> Fault {
        let nth = if self.nth == 1 { String::new() } else { format!(" (number {})", self.nth) };
        let name = format!("{}{nth} {happens}", self.line);
        Fault { name, class: class.to_owned(), ..Fault::default() }
    }
}

fn writes(places: &[RequestPlace]) -> impl Iterator<Item = &RequestPlace> {
    places.iter().filter(|place| place.write.is_some())
}

/// All requests except for Events. Writes come first, because plugins are most likely to handle their failures wrongly.
fn writes_first(places: &[RequestPlace]) -> impl Iterator<Item = &RequestPlace> {
    let reads = places.iter().filter(|place| place.write.is_none() && !place.line.is_event());
    writes(places).chain(reads)
}

fn crashes(places: &[RequestPlace]) -> Vec<Fault> {
    let at =
        |place: &RequestPlace, side, happens: &str| Fault { crash: place.at(side), ..place.named("crash", happens) };
    let sides = [
        (CommitSide::AfterCommit, "is carried out, and the host crashes before the answer"),
        (CommitSide::BeforeCommit, "does not reach the server: the host crashes"),
    ];
    writes(places).flat_map(|place| sides.map(|(side, happens)| at(place, side, happens))).collect()
}

fn lost(places: &[RequestPlace]) -> Vec<Fault> {
    let sides = [
        (CommitSide::AfterCommit, "is carried out, and the answer is lost"),
        (CommitSide::BeforeCommit, "is lost on its way"),
    ];
    let at = |place: &RequestPlace| {
        sides.map(|(at, happens)| place.fault("lost", happens, Reaction::Drop(ConnectionDrop { at })))
    };
    writes_first(places).flat_map(at).collect()
}

fn errors(places: &[RequestPlace], (code, happens): (u16, &str)) -> Vec<Fault> {
    let answer = || ErrorAnswer { code, retry_after_seconds: (code == 429).then_some(1), ..ErrorAnswer::default() };
    let at = |place: &RequestPlace| place.fault(&format!("error-{code}"), happens, Reaction::Error(answer()));
    writes_first(places).map(at).collect()
}

fn delays(places: &[RequestPlace]) -> Vec<Fault> {
    let by = Duration::from_secs(20);
    let pause = Reaction::Delay(Pause { by, at: CommitSide::AfterCommit });
    writes(places).map(|place| place.fault("delay", "is answered 20 s late", pause.clone())).collect()
}

/// Another client deletes an object that the host is about to change. If the plugin created the object, it must create
/// it again; otherwise the object stays deleted.
fn foreign_deletes(places: &[RequestPlace]) -> Vec<Fault> {
    let change = |change| ForeignEdit { resource: None, namespace: None, name: None, manager: None, change };
    let changes = writes(places).filter(|place| place.code == Some(200) && place.line.verb != "delete");
    let whole = changes.filter(|place| !place.line.resource.contains('/') && !place.line.name.is_empty());
    let edit = Reaction::Edit(change(EditKind::Delete(Nothing {})));
    let at = |place: &RequestPlace| Fault {
        allows: 1,
        ends_differ: !place.is_own,
        ..place.fault("foreign-delete", "meets an object that another client has just deleted", edit.clone())
    };
    whole.map(at).collect()
}

/// Another client acts on one of the plugin's objects while nothing else happens.
fn at_rest((after_step, OwnedObject { name: object, .. }): &(usize, OwnedObject), deed: Deed) -> Fault {
    let (class, does, allows) = match deed {
        Deed::Delete => ("deleted-child", "deletes", 1),
        Deed::Annotate => ("annotated-child", "annotates", 0),
    };
    Fault {
        name: format!("another client {does} {object} when all is quiet after step {}", after_step + 1),
        class: class.to_owned(),
        at_rest: Some(AtRest { after_step: *after_step, object: object.clone(), deed }),
        allows,
        ..Fault::default()
    }
}

/// Another client changes an object that the host is about to change, in a way that does not concern the plugin.
fn foreign_edits(places: &[RequestPlace]) -> Vec<Fault> {
    let merge = foreign_mark().as_object().cloned().unwrap_or_default();
    let edit = |place: &RequestPlace| {
        let resource = place.line.resource.split('/').next().map(str::to_owned);
        ForeignEdit {
            resource,
            namespace: None,
            name: None,
            manager: Some(FOREIGN.to_owned()),
            change: EditKind::Merge(merge.clone()),
        }
    };
    let changes = writes(places).filter(|place| place.code == Some(200) && place.line.verb != "delete");
    let named = changes.filter(|place| !place.line.name.is_empty());
    let happens = "meets an object that another client has just annotated";
    named.map(|place| place.fault("foreign-edit", happens, Reaction::Edit(edit(place)))).collect()
}

/// Failures of a watch, at each of the events that it delivered.
fn watch_faults(places: &[RequestPlace]) -> Vec<Fault> {
    let watches = places.iter().filter(|place| place.line.verb == "watch" && place.code == Some(200));
    let mut faults = Vec::new();
    for place in watches {
        let events = place.events.min(DISTURBED_EVENTS_MAX);
        // A watch that delivered no events may end too.
        for after in 0..events.max(1) {
            let hide = |events| Reaction::Hide(WatchHide { after, events });
            let cut = |with| Reaction::Cut(WatchCut { after, with });
            let from = format!("after {after} events");
            // Hide only one event. More events would stay hidden while the world is quiet, and a real server does not
            // do that.
            if after < events {
                faults.push(place.fault("hidden-events", &format!("does not show an event {from}"), hide(1)));
            }
            faults.push(place.fault("watch-ends", &format!("expires {from}"), cut(WatchEnd::Expired)));
            faults.push(place.fault("watch-ends", &format!("loses its connection {from}"), cut(WatchEnd::Drop)));
        }
        if events == 0 {
            continue;
        }
        let all = EventCount { events };
        faults.push(place.fault("twice", "shows each event twice", Reaction::Duplicate(all)));
        faults.push(place.fault("late", "is a second late", Reaction::Hold(WatchHold::For(Duration::from_secs(1)))));
        faults.push(place.fault("late", "is 2 s late", Reaction::Hold(WatchHold::For(Duration::from_secs(2)))));
    }
    for fault in &mut faults {
        fault.hides_ends = true;
    }
    faults
}

/// The host crashes, and the watches of the next process deliver their events late. Its lists are up to date, because
/// the host uses quorum reads, which a server may not answer with an older state.
fn late_restarts(places: &[RequestPlace]) -> Vec<Fault> {
    let mut watches: BTreeMap<&str, (&RequestPlace, u64)> = BTreeMap::new();
    for place in places.iter().filter(|place| place.line.verb == "watch") {
        watches.entry(&place.line.resource).or_insert((place, 0)).1 += 1;
    }
    let late = |(resource, (place, count)): (&&str, &(&RequestPlace, u64))| {
        // The first process makes as many watch requests as in the reference, so the next request comes from the next
        // process.
        let when = RequestFilter { calls: Some(CallSelector::Nth(count + 1)), ..place.filter() };
        let hold = Reaction::Hold(WatchHold::For(Duration::from_secs(2)));
        ReactorRule { name: format!("watch-{resource}"), when, then: vec![hold] }
    };
    let rules: Vec<ReactorRule> = watches.iter().map(late).collect();
    let at = |place: &RequestPlace| {
        let crash = place.at(CommitSide::AfterCommit);
        let happens = "is the last write before a crash, and the next process sees changes 2 s late";
        Fault { rules: rules.clone(), crash, hides_ends: true, ..place.named("late-restart", happens) }
    };
    writes(places).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault_class::FAULT_CLASSES;
    use crate::scenario::ObjectName;
    use crate::trace::CreatedObject;

    fn request(verb: &'static str, resource: &str, name: &str, code: u16) -> Entry {
        let line = RequestLine { verb, resource: resource.into(), namespace: "default".into(), name: name.into() };
        let events = if verb == "watch" { 3 } else { 0 };
        let happened = Happening::Request(RequestNote { line, code: Some(code), events, created: None, key: None });
        Entry { at: Duration::ZERO, happened }
    }

    fn names(class: &str, reference: &[Entry]) -> Vec<String> {
        let faults = singles(reference, &[]);
        faults.into_iter().filter(|fault| fault.class == class).map(|fault| fault.name).collect()
    }

    #[test]
    fn each_write_before_a_restart_is_a_place() {
        let patch = || request("patch", "configmaps", "a", 200);
        let event = request("create", "events", "", 201);
        let restart = Entry { at: Duration::ZERO, happened: Happening::Restart };
        let reference = [patch(), event, request("get", "configmaps", "a", 200), patch(), restart, patch()];
        let before = "does not reach the server: the host crashes";
        let after = "is carried out, and the host crashes before the answer";
        let expected = [
            format!("patch configmaps default/a {after}"),
            format!("patch configmaps default/a {before}"),
            format!("patch configmaps default/a (number 2) {after}"),
            format!("patch configmaps default/a (number 2) {before}"),
        ];
        assert_eq!(names("crash", &reference), expected);
        assert_eq!(names("error-409", &reference).len(), 3, "a read may fail, too, and an Event may not");
        let crashes: Vec<_> = singles(&reference, &[]).into_iter().filter_map(|fault| fault.crash).collect();
        assert_eq!(crashes.iter().map(|crash| crash.write).max(), Some(2));
    }

    #[test]
    fn only_objects_of_the_plugin_are_expected_again_after_a_deletion() {
        let mut created = request("create", "configmaps", "", 201);
        let Happening::Request(note) = &mut created.happened else { panic!("a request") };
        note.created = Some(CreatedObject { name: "own".to_owned(), uid: "1".to_owned() });
        let patches = ["own", "other"].map(|name| request("patch", "configmaps", name, 200));
        let [own, other] = &patches;
        let singles = singles(&[other.clone(), created, own.clone(), other.clone()], &[]);
        let deletions: Vec<_> = singles.iter().filter(|it| it.class == "foreign-delete").collect();
        assert_eq!(deletions.iter().map(|it| it.ends_differ).collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn a_child_that_is_not_created_again_is_annotated_but_not_deleted() {
        let name: ObjectName = serde_json::from_str(r#"{"apiVersion":"v1","kind":"Pod","name":"a"}"#).expect("a name");
        let classes = |is_made_again| {
            let singles = singles(&[], &[(0, OwnedObject { name: name.clone(), is_made_again })]);
            singles.into_iter().map(|fault| fault.class).collect::<Vec<_>>()
        };
        assert_eq!(classes(true), ["deleted-child", "annotated-child"]);
        assert_eq!(classes(false), ["annotated-child"]);
    }

    #[test]
    fn a_watch_fails_only_at_events_that_it_delivered() {
        let mut reference = [request("watch", "configmaps", "", 200), request("watch", "pods", "", 200)];
        let Happening::Request(note) = &mut reference[1].happened else { panic!("a request") };
        note.events = 0;
        let of = |class: &str, resource: &str| {
            names(class, &reference).into_iter().filter(|name| name.starts_with(&format!("watch {resource} "))).count()
        };
        let classes = ["hidden-events", "watch-ends", "twice", "late"];
        assert_eq!(classes.map(|class| of(class, "configmaps")), [3, 6, 1, 2]);
        assert_eq!(classes.map(|class| of(class, "pods")), [0, 2, 0, 0], "it may end, and shows nothing");
    }

    #[test]
    fn the_first_faults_have_different_classes() {
        let reference = [request("watch", "configmaps", "", 200), request("patch", "configmaps", "a", 200)];
        let classes: Vec<_> = singles(&reference, &[]).into_iter().map(|fault| fault.class).take(9).collect();
        assert_eq!(classes, FAULT_CLASSES[..9]);
    }

    #[test]
    fn each_fault_can_be_repeated_from_a_file() {
        let reference = [
            Entry { at: Duration::ZERO, happened: Happening::Step("apply".to_owned()) },
            request("watch", "configmaps", "", 200),
            request("patch", "configmaps", "a", 200),
        ];
        let object: ObjectName =
            serde_json::from_str(r#"{"apiVersion":"v1","kind":"Pod","name":"a"}"#).expect("a name");
        let singles = singles(&reference, &[(0, OwnedObject { name: object, is_made_again: true })]);
        let classes: BTreeSet<&str> = singles.iter().map(|fault| &*fault.class).collect();
        assert!(classes.contains("clock") && classes.contains("outage"), "{classes:?}");
        for fault in &singles {
            let text = serde_json::to_string(fault).expect("JSON");
            assert_eq!(serde_json::from_str::<Fault>(&text).expect("the same"), *fault);
        }
    }

    #[test]
    fn another_seed_starts_with_other_faults_and_has_all_of_them() {
        let reference = [request("patch", "configmaps", "a", 200), request("patch", "configmaps", "b", 200)];
        let usual = singles(&reference, &[]);
        let turned = |seed| {
            let mut singles = usual.clone();
            turn(&mut singles, seed);
            singles
        };
        assert_eq!(turned(1), usual);
        assert_eq!((&turned(3)[0], turned(3).len()), (&usual[14], usual.len()));
        assert_eq!(turned(0).len(), usual.len());
        turn(&mut [], 2);
    }

    #[test]
    fn there_are_no_pairs_if_no_two_faults_can_be_combined() {
        let reference = [request("patch", "configmaps", "a", 200), request("patch", "configmaps", "b", 200)];
        let mut singles = singles(&reference, &[]);
        singles.retain(|fault| fault.class == "crash");
        assert_eq!(singles.len(), 4);
        assert_eq!(pairs(&singles, 1).count(), 0);
        assert_eq!(pairs(&[], 1).count(), 0);
    }

    #[test]
    fn pairs_follow_from_their_seed_and_crash_once() {
        let reference = [request("patch", "configmaps", "a", 200), request("patch", "configmaps", "b", 200)];
        let singles = singles(&reference, &[]);
        let drawn = |seed| -> Vec<[Fault; 2]> { pairs(&singles, seed).take(200).collect() };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        assert!(drawn(1).iter().all(|[one, other]| one.crash.is_none() || other.crash.is_none()));
    }
}
