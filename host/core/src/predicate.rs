//! Which changes of a watched object are worth a call.
//!
//! Several predicates of one watch are alternatives: a change passes if any lets it pass. Objects that appear, that go,
//! and whose deletion begins always pass.

use std::sync::Arc;

use serde_json::Value;

use crate::object::Object;
use crate::pause;

/// One kind of change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Predicate {
    /// The generation: the specification changed, not the status.
    Generation,
    /// Any label.
    Labels,
    /// Any annotation.
    Annotations,
    /// A value at one of these JSON pointers.
    Fields(Vec<Arc<str>>),
}

/// Whether the change from `old` to `new` passes. No predicates: every change does.
#[must_use]
pub fn passes(predicates: &[Predicate], old: &Object, new: &Object) -> bool {
    predicates.is_empty()
        || old.header.uid != new.header.uid
        || old.header.deleting != new.header.deleting
        || predicates.iter().any(|predicate| predicate.changed(old, new))
}

/// As [`passes`], for the primary itself: that it is paused or no longer paused passes always. What had been changed while
/// it was paused has found nobody to act on it.
#[must_use]
pub fn passes_primary(predicates: &[Predicate], old: &Object, new: &Object) -> bool {
    passes(predicates, old, new) || pause::is_paused(old) != pause::is_paused(new)
}

impl Predicate {
    fn changed(&self, old: &Object, new: &Object) -> bool {
        match self {
            Self::Generation => old.header.generation != new.header.generation,
            Self::Labels => old.header.labels != new.header.labels,
            Self::Annotations => at(old, new, &["/metadata/annotations".into()]),
            Self::Fields(pointers) => at(old, new, pointers),
        }
    }
}

/// Whether any of the values differ. A text that does not parse counts as a change: better a call too many.
fn at(old: &Object, new: &Object, pointers: &[Arc<str>]) -> bool {
    let parse = |object: &Object| serde_json::from_str::<Value>(&object.glance());
    match (parse(old), parse(new)) {
        (Ok(old), Ok(new)) => pointers.iter().any(|pointer| old.pointer(pointer) != new.pointer(pointer)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Header, ObjectKey};

    fn object(generation: i64, text: &str) -> Object {
        let header = Header {
            key: ObjectKey::namespaced("prod", "shop"),
            uid: "u-1".into(),
            version: "1".into(),
            generation,
            labels: [].into(),
            owners: [].into(),
            own_fields: None,
            deleting: false,
        };
        Object::new(header, text)
    }

    #[test]
    fn without_predicates_everything_passes() {
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
        assert!(!passes(&predicates, &paused, &resumed), "a pause of another object concerns nobody");
    }

    #[test]
    fn one_passing_predicate_is_enough() {
        let predicates = [Predicate::Generation, Predicate::Fields(vec!["/status/ready".into()])];
        assert!(passes(&predicates, &object(1, "{}"), &object(1, r#"{"status":{"ready":1}}"#)));
        assert!(!passes(&predicates, &object(1, "{}"), &object(1, r#"{"status":{"other":1}}"#)));
    }

    #[test]
    fn the_begin_of_a_deletion_and_a_new_incarnation_always_pass() {
        let old = object(1, "{}");
        let deleting = Header { deleting: true, ..old.header.clone() };
        let deleting = Object::new(deleting, old.text());
        assert!(passes(&[Predicate::Labels], &old, &deleting));
        let other = Header { uid: "u-2".into(), ..old.header.clone() };
        let other = Object::new(other, old.text());
        assert!(passes(&[Predicate::Labels], &old, &other));
    }
}
