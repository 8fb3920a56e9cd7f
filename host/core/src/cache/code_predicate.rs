//! Decides which changes the plugin's own code is asked about, in addition to the declared
//! [`predicates`](crate::cache::predicate) of a watch (`codePredicate` of the manifest, `mapper.matches` in WIT).
//!
//! Deletions, and requests by annotation, count whatever the code says.

use std::sync::Arc;

use crate::cache::watch::WatchEvent;
use crate::object::{finalizer, pause, run_request};

/// The part that the plugin's own code has in deciding which changes of a watch count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodePredicate {
    /// The plugin's finalizer. All changes of an object that is being deleted and has it count.
    pub finalizer: Arc<str>,
    /// Whether the watch is of the primaries.
    pub is_primary: bool,
    /// Whether the watch counts deletions.
    pub deletions: bool,
}

impl CodePredicate {
    /// Whether the code decides about `event`, which the declared predicates pass. If not, the event counts.
    #[must_use]
    pub fn decides(&self, event: &WatchEvent) -> bool {
        let (old, new) = match event {
            WatchEvent::Deleted(_) => return false,
            WatchEvent::Applied { old, new, .. } => (old.as_ref(), new),
        };
        if new.header.deleting && finalizer::has(new, &self.finalizer) {
            return false;
        }
        let Some(old) = old else {
            // The deletion began before the host saw the object, for example while the host was
            // down.
            return !(self.deletions && new.header.deleting);
        };
        if self.is_primary && (pause::is_paused(old) != pause::is_paused(new) || run_request::is_made(old, new)) {
            return false;
        }
        let begins_deletion = new.header.deleting && !old.header.deleting;
        let is_replaced = old.header.uid != new.header.uid;
        !(self.deletions && (begins_deletion || is_replaced))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::watch::Tombstone;
    use crate::object::{Header, Object, ObjectKey};

    fn code(is_primary: bool, deletions: bool) -> CodePredicate {
        CodePredicate { finalizer: "windlass.dev/shop".into(), is_primary, deletions }
    }

    fn object(uid: &str, deleting: bool, metadata: &str) -> Object {
        let header =
            Header { generation: 1, deleting, ..Header::bare(ObjectKey::namespaced("prod", "shop"), uid, "1") };
        Object::new(header, format!(r#"{{"metadata":{{{metadata}}}}}"#))
    }

    fn live(metadata: &str) -> Object {
        object("u-1", false, metadata)
    }

    fn deleting(metadata: &str) -> Object {
        object("u-1", true, metadata)
    }

    fn new(new: Object) -> WatchEvent {
        WatchEvent::Applied { old: None, new, initial: true }
    }

    fn update(old: Object, new: Object) -> WatchEvent {
        WatchEvent::Applied { old: Some(old), new, initial: false }
    }

    const OWN: &str = r#""finalizers":["windlass.dev/shop"]"#;
    const OTHER: &str = r#""finalizers":["windlass.dev/other"]"#;

    #[test]
    fn code_decides_about_new_objects_and_updates() {
        for code in [code(true, true), code(false, true), code(false, false)] {
            assert!(code.decides(&new(live(""))) && code.decides(&update(live(""), live(OWN))), "{code:?}");
            assert!(code.decides(&update(deleting(""), deleting(OTHER))), "{code:?}");
        }
    }

    #[test]
    fn deletions_count_whatever_the_code_says() {
        let gone = || WatchEvent::Deleted(Tombstone { last: live(""), final_state_unknown: false });
        let replaced = || update(live(""), object("u-2", false, ""));
        let counted = [gone(), new(deleting("")), update(live(""), deleting("")), replaced()];
        assert!(counted.iter().all(|event| !code(true, true).decides(event)));
        // The declared predicates have passed the change that came with the deletion.
        let others = [new(deleting("")), update(live(""), deleting("")), replaced()];
        assert!(others.iter().all(|event| code(false, false).decides(event)));
    }

    #[test]
    fn changes_of_an_object_that_waits_for_the_plugins_finalizer_count() {
        for code in [code(true, true), code(false, false)] {
            assert!(!code.decides(&update(deleting(OWN), deleting(OWN))) && !code.decides(&new(deleting(OWN))));
        }
        assert!(code(true, true).decides(&update(deleting(OTHER), deleting(OTHER))));
        assert!(code(true, true).decides(&update(live(OWN), live(OWN))), "it is not being deleted");
    }

    #[test]
    fn a_pause_and_a_requested_run_count_for_primaries_alone() {
        let [paused, requested] = ["paused", "run-requested-at"]
            .map(|name| live(&format!(r#""annotations":{{"windlass.dev/{name}":"yes"}}"#)));
        for (old, new) in [(live(""), paused.clone()), (paused, live("")), (live(""), requested)] {
            assert!(!code(true, true).decides(&update(old.clone(), new.clone())));
            assert!(code(false, true).decides(&update(old, new)), "another object's annotation concerns no primary");
        }
    }
}
