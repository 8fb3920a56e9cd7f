//! Decides which changes of a watched object are worth a call.
//!
//! Several predicates of one watch are alternatives: a change passes if any of them passes it. Predicates judge
//! updates only. Additions, deletions and the beginning of a deletion always pass, even inside a `Not`. Only a
//! watch that does not count deletions ignores the beginning of a deletion ([`passes_but_deletion`]).

use std::cell::OnceCell;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::cache::declared::{nothing_else, only_field};
use crate::object::Object;
use crate::object::pause;
use crate::object::pointer;
use crate::object::run_request;

/// The metadata fields that change when a deletion begins.
const MARKS: [&str; 5] =
    ["deletionTimestamp", "deletionGracePeriodSeconds", "finalizers", "generation", "resourceVersion"];

only_field!(pointers: Vec<Arc<str>>);
only_field!(predicate: Box<Predicate>);
only_field!(predicates: Vec<Predicate>);

/// One kind of change.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
pub enum Predicate {
    /// The generation: the specification changed, not the status.
    #[serde(deserialize_with = "nothing_else")]
    Generation,
    #[serde(deserialize_with = "nothing_else")]
    Labels,
    #[serde(deserialize_with = "nothing_else")]
    Annotations,
    /// A value at one of these JSON pointers (see [`crate::object::pointer`]).
    #[serde(deserialize_with = "pointers")]
    Fields(Vec<Arc<str>>),
    /// Changes that the inner predicate does not pass.
    #[serde(deserialize_with = "predicate")]
    Not(Box<Predicate>),
    /// Changes that all of these pass.
    #[serde(deserialize_with = "predicates")]
    And(Vec<Predicate>),
}

/// Whether the change from `old` to `new` passes. Without predicates every change passes.
#[must_use]
pub fn passes(predicates: &[Predicate], old: &Object, new: &Object) -> bool {
    old.header.uid != new.header.uid
        || old.header.deleting != new.header.deleting
        || BeforeAndAfter::of(old, new).passes(predicates)
}

/// As [`passes`], for the primary itself. Two changes always pass: the beginning or end of a pause, because the host
/// did not act on changes during the pause, and a [request](run_request) to run the key.
#[must_use]
pub fn passes_primary(predicates: &[Predicate], old: &Object, new: &Object) -> bool {
    passes(predicates, old, new) || pause::is_paused(old) != pause::is_paused(new) || run_request::is_made(old, new)
}

/// As [`passes`], for a watch that does not count deletions: the beginning of a deletion does not pass by itself.
/// Other changes that arrived together with it are judged as usual, because the watch may merge two changes into one.
#[must_use]
pub fn passes_but_deletion(predicates: &[Predicate], old: &Object, new: &Object) -> bool {
    if old.header.uid != new.header.uid {
        return true;
    }
    if old.header.deleting || !new.header.deleting {
        return BeforeAndAfter::of(old, new).passes(predicates);
    }
    let change = BeforeAndAfter::beside_deletion(old, new);
    change.is_any() && change.passes(predicates)
}

/// The states before and after a change.
struct BeforeAndAfter<'o> {
    old: &'o Object,
    new: &'o Object,
    /// The generation of `new`, without the increment for the deletion.
    generation: i64,
    /// The JSON of both states, parsed on first use. `None` if either cannot be parsed.
    bodies: OnceCell<Option<(Value, Value)>>,
}

impl<'o> BeforeAndAfter<'o> {
    fn of(old: &'o Object, new: &'o Object) -> Self {
        Self { old, new, generation: new.header.generation, bodies: OnceCell::new() }
    }

    /// The change without the marks of the deletion that it begins. The server increments the generation for a
    /// deletion.
    fn beside_deletion(old: &'o Object, new: &'o Object) -> Self {
        let is_counted = new.header.generation > old.header.generation;
        let bodies = unmarked(old).zip(unmarked(new));
        Self { old, new, generation: new.header.generation - i64::from(is_counted), bodies: bodies.into() }
    }

    /// Text that cannot be parsed counts as a change, even inside a `Not`: one call too many is better than one
    /// too few.
    fn passes(&self, predicates: &[Predicate]) -> bool {
        predicates.is_empty()
            || predicates.iter().any(|predicate| predicate.lets_pass(self))
            || matches!(self.bodies.get(), Some(None))
    }

    fn is_any(&self) -> bool {
        self.bodies().is_none_or(|(old, new)| old != new)
    }

    fn is_at(&self, pointer: &str) -> bool {
        self.bodies().is_none_or(|(old, new)| pointer::differs(old, new, pointer))
    }

    fn bodies(&self) -> Option<&(Value, Value)> {
        self.bodies.get_or_init(|| body(self.old).zip(body(self.new))).as_ref()
    }
}

impl Predicate {
    /// The pointers at which the predicate and its inner predicates look.
    #[must_use]
    pub fn pointers(&self) -> Vec<&Arc<str>> {
        match self {
            Self::Fields(pointers) => pointers.iter().collect(),
            Self::Not(inner) => inner.pointers(),
            Self::And(all) => all.iter().flat_map(Self::pointers).collect(),
            Self::Generation | Self::Labels | Self::Annotations => vec![],
        }
    }

    fn lets_pass(&self, change: &BeforeAndAfter<'_>) -> bool {
        match self {
            Self::Generation => change.old.header.generation != change.generation,
            Self::Labels => change.old.header.labels != change.new.header.labels,
            Self::Annotations => change.is_at("/metadata/annotations"),
            Self::Fields(pointers) => pointers.iter().any(|pointer| change.is_at(pointer)),
            Self::Not(inner) => !inner.lets_pass(change),
            Self::And(all) => all.iter().all(|inner| inner.lets_pass(change)),
        }
    }
}

fn body(object: &Object) -> Option<Value> {
    serde_json::from_str(&object.glance()).ok()
}

/// The JSON of an object, without the fields that change when a deletion begins. Finalizers are such a field, because
/// the beginning of a deletion may add one.
fn unmarked(object: &Object) -> Option<Value> {
    let mut body = body(object)?;
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        for mark in MARKS {
            metadata.remove(mark);
        }
    }
    Some(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Header, ObjectKey};

    fn object(generation: i64, text: &str) -> Object {
        let header = Header { generation, ..Header::bare(ObjectKey::namespaced("prod", "shop"), "u-1", "1") };
        Object::new(header, text)
    }

    #[test]
    fn without_predicates_every_change_passes() {
        assert!(passes(&[], &object(1, "{}"), &object(1, "{}")));
    }

    #[test]
    fn a_status_change_does_not_pass_generation() {
        assert!(!passes(&[Predicate::Generation], &object(1, "{}"), &object(1, r#"{"status":{}}"#)));
        assert!(passes(&[Predicate::Generation], &object(1, "{}"), &object(2, "{}")));
    }

    #[test]
    fn the_end_of_a_pause_passes_for_the_primary_itself() {
        let paused = object(1, r#"{"metadata":{"annotations":{"windlass.dev/paused":"true"}}}"#);
        let (resumed, predicates) = (object(1, "{}"), [Predicate::Generation]);
        assert!(passes_primary(&predicates, &paused, &resumed));
        assert!(!passes_primary(&predicates, &paused, &paused));
        assert!(!passes(&predicates, &paused, &resumed), "a pause of another object concerns no key");
    }

    #[test]
    fn a_requested_run_passes_for_the_primary_itself_alone() {
        let at = |time: &str| {
            object(1, &format!(r#"{{"metadata":{{"annotations":{{"windlass.dev/run-requested-at":"{time}"}}}}}}"#))
        };
        let predicates = [Predicate::Generation];
        assert!(
            passes_primary(&predicates, &object(1, "{}"), &at("1")) && passes_primary(&predicates, &at("1"), &at("2"))
        );
        assert!(!passes_primary(&predicates, &at("1"), &object(1, "{}")), "a removal");
        assert!(!passes(&predicates, &at("1"), &at("2")), "another object's annotation concerns no primary");
    }

    #[test]
    fn one_passing_predicate_is_enough() {
        let predicates = [Predicate::Generation, Predicate::Fields(vec!["/status/ready".into()])];
        assert!(passes(&predicates, &object(1, "{}"), &object(1, r#"{"status":{"ready":1}}"#)));
        assert!(!passes(&predicates, &object(1, "{}"), &object(1, r#"{"status":{"other":1}}"#)));
    }

    #[test]
    fn the_start_of_a_deletion_and_a_new_incarnation_always_pass() {
        let old = object(1, "{}");
        let deleting = Header { deleting: true, ..old.header.clone() };
        let deleting = Object::new(deleting, old.text());
        assert!(passes(&[Predicate::Labels], &old, &deleting));
        let other = Header { uid: "u-2".into(), ..old.header.clone() };
        let other = Object::new(other, old.text());
        assert!(passes(&[Predicate::Labels], &old, &other));
    }

    /// `object` with a deletion that has begun: the server has incremented its generation and marked it.
    fn deleting(object: &Object) -> Object {
        let mut body: Value = serde_json::from_str(&object.text()).expect("JSON");
        body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        body["metadata"]["resourceVersion"] = "2".into();
        let header = Header { deleting: true, generation: object.header.generation + 1, ..object.header.clone() };
        Object::new(header, body.to_string())
    }

    const STATUS: &str = r#"{"metadata":{},"status":{"ready":1}}"#;

    #[test]
    fn not_passes_updates_that_its_inner_predicate_rejects() {
        let not = [Predicate::Not(Box::new(Predicate::Generation))];
        assert!(passes(&not, &object(1, "{}"), &object(1, STATUS)));
        assert!(!passes(&not, &object(1, "{}"), &object(2, STATUS)));
    }

    #[test]
    fn and_passes_changes_that_all_its_predicates_pass() {
        let ready = || Predicate::Fields(vec!["/status/ready".into()]);
        let and = [Predicate::And(vec![ready(), Predicate::Not(Box::new(Predicate::Generation))])];
        assert!(passes(&and, &object(1, "{}"), &object(1, STATUS)));
        assert!(!passes(&and, &object(1, "{}"), &object(2, STATUS)));
        assert!(!passes(&and, &object(1, "{}"), &object(1, "{}")));
    }

    #[test]
    fn a_star_in_a_pointer_compares_each_element() {
        let predicates = [Predicate::Fields(vec!["/spec/containers/*/image".into()])];
        let pod = |image: &str, other: &str| {
            object(1, &format!(r#"{{"spec":{{"containers":[{{"image":"a"}},{{"image":"{image}","x":"{other}"}}]}}}}"#))
        };
        assert!(passes(&predicates, &pod("b", "1"), &pod("c", "1")));
        assert!(!passes(&predicates, &pod("b", "1"), &pod("b", "2")));
    }

    #[test]
    fn unparsable_text_passes_even_below_a_not() {
        let not = [Predicate::Not(Box::new(Predicate::Annotations))];
        assert!(passes(&not, &object(1, "{"), &object(1, "{}")));
    }

    #[test]
    fn the_start_of_a_deletion_passes_a_not_if_deletions_count() {
        let (old, not) = (object(1, STATUS), [Predicate::Not(Box::new(Predicate::Labels))]);
        assert!(passes(&not, &old, &deleting(&old)));
        for predicates in [&[][..], &not, &[Predicate::Generation], &[Predicate::Fields(vec!["/metadata".into()])]] {
            assert!(!passes_but_deletion(predicates, &old, &deleting(&old)), "{predicates:?}");
        }
    }

    #[test]
    fn a_change_merged_with_the_start_of_a_deletion_is_judged_as_usual() {
        let old = object(1, r#"{"metadata":{}}"#);
        let changed = deleting(&object(2, STATUS));
        for predicates in [&[][..], &[Predicate::Generation], &[Predicate::Fields(vec!["/status".into()])]] {
            assert!(passes_but_deletion(predicates, &old, &changed), "{predicates:?}");
        }
        assert!(!passes_but_deletion(&[Predicate::Labels], &old, &changed));
    }

    #[test]
    fn an_update_during_a_deletion_is_judged_as_any_update() {
        let old = deleting(&object(1, r#"{"metadata":{}}"#));
        let new = deleting(&object(1, STATUS));
        assert!(passes_but_deletion(&[], &old, &new));
        assert!(!passes_but_deletion(&[Predicate::Generation], &old, &new));
    }
}
