//! Rebuilds the objects from a subscriber's events, and compares them with what the writers did.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use windlass_core::cache::watch::{Tombstone, WatchEvent};
use windlass_core::object::{Object, ObjectKey};

use super::ledger::{Ledger, Step};
use super::view::View;

/// The events of one subscriber so far.
#[derive(Default)]
pub(crate) struct Replay {
    pub(crate) state: BTreeMap<ObjectKey, Object>,
    pub(crate) events: u64,
    pub(crate) deletions: u64,
    /// The number of deletions that no watch has shown.
    pub(crate) unseen: u64,
    seen: HashMap<Arc<str>, Vec<Seen>>,
}

/// One event about one UID.
enum Seen {
    Applied { object: Object, initial: bool },
    Gone { last: Object, known: bool },
}

/// How long a subscriber stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stay {
    /// The subscriber stays from before the first change to the end.
    Throughout,
    /// The subscriber joins later, and stays to the end.
    ToEnd,
    Passing,
}

/// The events that a subscriber must have seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) stay: Stay,
    /// Whether there was only one list, so that the watch has shown every change.
    pub(crate) continuous: bool,
}

pub(crate) fn version(object: &Object) -> anyhow::Result<u64> {
    object.header.version.to_string().parse().with_context(|| format!("the version of {}", describe(object)))
}

fn describe(object: &Object) -> String {
    format!("{} (uid {}, version {})", object.header.key, object.header.uid, object.header.version)
}

impl Replay {
    /// Handles an event, which must follow from the earlier ones.
    pub(crate) fn take(&mut self, event: WatchEvent) -> anyhow::Result<()> {
        self.events += 1;
        match event {
            WatchEvent::Applied { old, new, initial } => {
                let before = self.state.insert(new.header.key.clone(), new.clone());
                ensure!(
                    before == old,
                    "{} came as the successor of {:?}, but the state before was {:?}",
                    describe(&new),
                    old.as_ref().map(describe),
                    before.as_ref().map(describe)
                );
                if let Some(before) = before {
                    ensure!(before.header.uid == new.header.uid, "{} replaced another object", describe(&new));
                    ensure!(version(&before)? < version(&new)?, "{} came after {}", describe(&new), describe(&before));
                }
                self.seen.entry(new.header.uid.text()).or_default().push(Seen::Applied { object: new, initial });
            }
            WatchEvent::Deleted(Tombstone { last, final_state_unknown }) => {
                self.deletions += 1;
                self.unseen += u64::from(final_state_unknown);
                let Some(before) = self.state.remove(&last.header.key) else {
                    bail!("{} was deleted twice, or never there", describe(&last));
                };
                ensure!(
                    before.header.uid == last.header.uid,
                    "{} was there, not {}",
                    describe(&before),
                    describe(&last)
                );
                if final_state_unknown {
                    ensure!(before == last, "the last known state was {}, not {}", describe(&before), describe(&last));
                }
                let seen = Seen::Gone { last: last.clone(), known: !final_state_unknown };
                self.seen.entry(last.header.uid.text()).or_default().push(seen);
            }
        }
        Ok(())
    }

    /// Compares all that the subscriber saw with what the writers did.
    pub(crate) fn check(&self, view: &View, ledger: &Ledger, claim: Claim) -> anyhow::Result<()> {
        for (uid, seen) in &self.seen {
            let life =
                ledger.lives.get(&**uid).with_context(|| format!("nobody wrote an object with the UID {uid}"))?;
            let steps = life.steps(view.tier);
            check_gone(seen)?;
            check_order(seen, &steps, view, claim)
                .with_context(|| format!("{} of {uid}, which went {steps:?}", told(seen)))?;
            // Events are shared, so one subscriber of each informer is enough.
            if claim.stay == Stay::Throughout {
                for seen in seen {
                    if let Seen::Applied { object, .. } = seen {
                        let expected = life.text(version(object)?).context("nobody wrote this version")?;
                        let (expected, is) = (view.project(serde_json::from_str(expected)?), text(object)?);
                        ensure!(
                            is == expected,
                            "the subscriber saw {} as {is}, but it was {expected}",
                            describe(object)
                        );
                    }
                }
            }
        }
        if claim.stay == Stay::Throughout && claim.continuous {
            for (uid, life) in &ledger.lives {
                let is_known = self.seen.contains_key(&**uid);
                ensure!(is_known || life.steps(view.tier).is_empty(), "the subscriber saw no event about {uid}");
            }
        }
        Ok(())
    }
}

pub(crate) fn text(object: &Object) -> anyhow::Result<Value> {
    serde_json::from_str(&object.text()).with_context(|| format!("the text of {}", describe(object)))
}

fn told(seen: &[Seen]) -> String {
    let told = seen.iter().map(|seen| match seen {
        Seen::Applied { object, initial } => format!("{}{}", if *initial { "+" } else { "" }, object.header.version),
        Seen::Gone { last, known } => {
            format!("{}{}", if *known { "gone@" } else { "gone, last known @" }, last.header.version)
        }
    });
    format!("[{}] was told", told.collect::<Vec<_>>().join(", "))
}

/// Checks that a deletion in a watch has the last state, with the version of the deletion.
fn check_gone(seen: &[Seen]) -> anyhow::Result<()> {
    for pair in seen.windows(2) {
        if let [Seen::Applied { object, .. }, Seen::Gone { last, known: true }] = pair {
            ensure!(version(last)? > version(object)?, "{} went after {}", describe(last), describe(object));
            let (mut before, mut after) = (text(object)?, text(last)?);
            for text in [&mut before, &mut after] {
                text["metadata"]["resourceVersion"] = Value::Null;
            }
            ensure!(before == after, "{} went as {after}, but was {before}", describe(last));
        }
    }
    Ok(())
}

fn check_order(seen: &[Seen], steps: &[Step], view: &View, claim: Claim) -> anyhow::Result<()> {
    let Some(Seen::Applied { object: first, initial }) = seen.first() else { bail!("it begins with a deletion") };
    let first = Step::Applied(version(first)?);
    let mut at = steps.iter().position(|step| *step == first).context("it begins with a state that never was")?;
    if claim.continuous && !*initial {
        ensure!(at == 0 || matches!(steps[at - 1], Step::Left(_)), "it begins in the midst");
    }
    for next in &seen[1..] {
        let found =
            steps[at + 1..].iter().position(|step| is_shown_by(*step, next)).context("a state that never was")?;
        ensure!(found == 0 || !claim.continuous, "there is a gap of {found}");
        at += found + 1;
    }
    if claim.continuous && claim.stay != Stay::Passing {
        ensure!(at + 1 == steps.len(), "it ends too early");
    }
    let gone = seen.iter().filter(|seen| matches!(seen, Seen::Gone { .. })).count();
    if claim.continuous {
        ensure!(
            !seen.iter().any(|seen| matches!(seen, Seen::Gone { known: false, .. })),
            "the watch showed all that went"
        );
    }
    if view.tier.is_none() && claim.stay != Stay::Passing {
        let went = usize::from(matches!(steps.last(), Some(Step::Left(_))));
        ensure!(gone == went, "it went {went} times and was told to have gone {gone} times");
    }
    Ok(())
}

fn is_shown_by(step: Step, seen: &Seen) -> bool {
    let is = |object: &Object, expected: u64| object.header.version.to_string().parse() == Ok(expected);
    match (step, seen) {
        (Step::Applied(version), Seen::Applied { object, .. }) => is(object, version),
        (Step::Left(Some(version)), Seen::Gone { last, known: true }) => is(last, version),
        (Step::Left(None), Seen::Gone { .. }) | (Step::Left(_), Seen::Gone { known: false, .. }) => true,
        _ => false,
    }
}
