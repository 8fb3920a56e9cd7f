//! The writes of one controller that a read-only host has withheld (`--read-only`). Shows which writes the last call
//! about each primary would have made, and which of them are new.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_core::call::ports::CallContext;
use windlass_core::object::withheld::{WithheldEffect, WithheldWrite};
use windlass_core::object::{ObjectKey, ObjectRef};

use super::{locked, shortened};

/// The most writes that are remembered. Further ones are reported each time, as it is unknown whether they are new.
const WITHHELD_WRITES_MAX: usize = 10_000;
/// The most recent new writes that are listed.
const LISTED_WITHHELD_MAX: usize = 10;

/// The withheld writes of one controller. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct WithheldWrites(Arc<Mutex<Writes>>);

#[derive(Default)]
struct Writes {
    by_primary: HashMap<ObjectKey, OfPrimary>,
    /// The total number of writes in `by_primary`.
    known: usize,
    /// Number of writes that `by_primary` had no room for.
    unlisted: u64,
    last: VecDeque<(Instant, Value)>,
}

/// The writes of one primary's calls.
#[derive(Default)]
struct OfPrimary {
    /// The latest call.
    trace_id: Option<Arc<str>>,
    by_object: HashMap<WriteOf, OfObject>,
}

/// An object and the way in which it is written.
#[derive(PartialEq, Eq, Hash)]
struct WriteOf {
    verb: &'static str,
    resource: String,
    object: ObjectRef,
}

/// The writes of one object, in the order of a call.
#[derive(Default)]
struct OfObject {
    writes: Vec<(WithheldEffect, u64)>,
    /// The number of these writes that the latest call has repeated so far.
    so_far: usize,
}

impl WithheldWrites {
    /// Records `write`, which was withheld. Returns whether it is new: the last call about the same primary did not
    /// make the same write in the same place.
    pub(crate) fn note(&self, call: &CallContext, write: &WithheldWrite) -> bool {
        let mut writes = locked(&self.0);
        let is_news = writes.note(&call.primary_key, &call.trace_id, write);
        if is_news {
            writes.list(&call.primary_key, write);
        }
        is_news
    }

    /// Records that a call about `primary` has ended. Forgets the writes that earlier calls made and this one did not.
    pub(crate) fn done(&self, primary: &ObjectKey, trace_id: &str) {
        let mut writes = locked(&self.0);
        let Writes { by_primary, known, .. } = &mut *writes;
        let Some(of_primary) = by_primary.get_mut(primary) else { return };
        let is_latest = of_primary.trace_id.as_deref() == Some(trace_id);
        for of_object in of_primary.by_object.values_mut() {
            let made = if is_latest { of_object.so_far } else { 0 };
            *known -= of_object.writes.len().saturating_sub(made);
            of_object.writes.truncate(made);
        }
        of_primary.by_object.retain(|_, of_object| !of_object.writes.is_empty());
        if of_primary.by_object.is_empty() {
            by_primary.remove(primary);
        }
    }

    /// The withheld writes, for `/plugins`. `None` if there are none.
    pub(crate) fn to_json(&self) -> Option<Value> {
        let writes = locked(&self.0);
        if writes.known == 0 && writes.last.is_empty() {
            return None;
        }
        let all = || writes.by_primary.values().flat_map(|it| it.by_object.values()).flat_map(|it| &it.writes);
        let count = |effect| all().filter(|(of, _)| *of == effect).count();
        let last = writes.last.iter().rev().map(|(at, shown)| {
            let mut shown = shown.clone();
            shown["secondsAgo"] = at.elapsed().as_secs().into();
            shown
        });
        Some(json!({
            "create": count(WithheldEffect::Create),
            "change": count(WithheldEffect::Change),
            "delete": count(WithheldEffect::Delete),
            "unlisted": writes.unlisted,
            "last": last.collect::<Vec<_>>(),
        }))
    }
}

impl Writes {
    fn note(&mut self, primary: &ObjectKey, trace_id: &Arc<str>, write: &WithheldWrite) -> bool {
        let of_primary = self.by_primary.entry(primary.clone()).or_default();
        if of_primary.trace_id.as_ref() != Some(trace_id) {
            of_primary.trace_id = Some(trace_id.clone());
            of_primary.by_object.values_mut().for_each(|of_object| of_object.so_far = 0);
        }
        let WithheldWrite { verb, resource, object, effect, .. } = write;
        let of = WriteOf { verb, resource: resource.clone(), object: object.clone() };
        let is_full = self.known >= WITHHELD_WRITES_MAX;
        let of_object = match of_primary.by_object.entry(of) {
            Entry::Vacant(_) if is_full => return self.overflows(primary),
            entry => entry.or_default(),
        };
        let this = (*effect, hash(write));
        let before = of_object.writes.get_mut(of_object.so_far).map(|before| std::mem::replace(before, this));
        if before.is_none() {
            if is_full {
                return self.overflows(primary);
            }
            of_object.writes.push(this);
            self.known += 1;
        }
        of_object.so_far += 1;
        before != Some(this)
    }

    /// Records that there is no room for another write of this primary. The write then counts as new each time: it is
    /// better reported twice than never.
    fn overflows(&mut self, primary: &ObjectKey) -> bool {
        if self.by_primary.get(primary).is_some_and(|of_primary| of_primary.by_object.is_empty()) {
            self.by_primary.remove(primary);
        }
        self.unlisted += 1;
        true
    }

    fn list(&mut self, primary: &ObjectKey, write: &WithheldWrite) {
        let WithheldWrite { verb, resource, object, effect, difference, unjudged } = write;
        let shown = json!({
            "primary": primary.to_string(), "would": effect.as_str(), "verb": verb, "resource": resource,
            "object": object.key.to_string(), "difference": shortened(difference.to_string()),
            "unjudged": unjudged.clone().map(shortened),
        });
        if self.last.len() == LISTED_WITHHELD_MAX {
            self.last.pop_front();
        }
        self.last.push_back((Instant::now(), shown));
    }
}

fn hash(write: &WithheldWrite) -> u64 {
    let mut hasher = DefaultHasher::new();
    write.difference.fingerprint().hash(&mut hasher);
    write.unjudged.is_some().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use windlass_core::object::ObjectKind;
    use windlass_core::object::difference::{Difference, Disclosure};

    use super::*;

    fn write(name: &str, replicas: u32) -> WithheldWrite {
        let kind = ObjectKind::new("apps/v1", "Deployment");
        WithheldWrite {
            verb: "patch",
            resource: "deployments.apps".to_owned(),
            object: ObjectRef { kind, key: ObjectKey::namespaced("prod", name), uid: None },
            effect: WithheldEffect::Create,
            difference: Difference::of_new(&json!({"replicas": replicas}), Disclosure::Values),
            unjudged: None,
        }
    }

    /// Whether each write in `made` is new, for a call that makes them and ends.
    fn call(writes: &WithheldWrites, trace_id: &str, made: &[WithheldWrite]) -> Vec<bool> {
        let primary = ObjectKey::namespaced("prod", "shop");
        let news = made.iter().map(|write| locked(&writes.0).note(&primary, &trace_id.into(), write)).collect();
        writes.done(&primary, trace_id);
        news
    }

    #[tokio::test]
    async fn repeated_withheld_writes_are_not_reported_again_and_others_are() {
        let writes = WithheldWrites::default();
        // The same object twice: the second write applies to the result of the first.
        let made = [write("a", 1), write("a", 2), write("b", 1)];
        assert_eq!(call(&writes, "1", &made), [true, true, true]);
        assert_eq!(call(&writes, "2", &made), [false, false, false]);
        assert_eq!(call(&writes, "3", &[write("a", 1), write("a", 3)]), [false, true]);
        assert_eq!(locked(&writes.0).known, 2, "b needs no change any more");
        assert_eq!(call(&writes, "4", &[]), [] as [bool; 0]);
        assert_eq!(locked(&writes.0).known, 0);
        assert_eq!(locked(&writes.0).by_primary.len(), 0);
        assert_eq!(call(&writes, "5", &[write("b", 1)]), [true], "b needs a change again");
    }

    #[tokio::test]
    async fn a_flood_of_withheld_writes_is_counted_and_not_kept() {
        let writes = WithheldWrites::default();
        let made: Vec<_> = (0..10_000 + 5).map(|at| write(&format!("a{at}"), 1)).collect();
        let news = call(&writes, "1", &made);
        assert!(news.iter().all(|is_news| *is_news), "none is hidden");
        let (primary, listed) = (ObjectKey::cluster("x"), write("b", 1));
        (0..10 + 5).for_each(|_| locked(&writes.0).list(&primary, &listed));
        let shown = writes.to_json().expect("something");
        assert_eq!((&shown["create"], &shown["unlisted"]), (&json!(10_000), &json!(5)));
        assert_eq!(shown["last"].as_array().map(Vec::len), Some(10));
        assert_eq!(call(&writes, "2", &made[..1]), [false]);
    }
}
