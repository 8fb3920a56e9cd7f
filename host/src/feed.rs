//! From the events of a watch to keys in a workqueue.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use windlass_core::mapping::{Mapping, PrimaryKind};
use windlass_core::object::ObjectKey;
use windlass_core::predicate::{self, Predicate};
use windlass_core::queue::{Priority, Queue};
use windlass_core::watch::WatchEvent;
use windlass_kube::Subscription;

/// How the events of one declared watch concern primaries.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) mapping: Mapping,
    pub(crate) predicates: Arc<[Predicate]>,
    pub(crate) primary: PrimaryKind,
}

impl Route {
    /// The keys that `event` concerns: none, one, or two where an object moved from one primary to another.
    fn keys(&self, event: &WatchEvent) -> [Option<ObjectKey>; 2] {
        let key = |object| self.mapping.key(object, &self.primary);
        match event {
            WatchEvent::Deleted(tombstone) => [key(&tombstone.last), None],
            WatchEvent::Applied { old: None, new, .. } => [key(new), None],
            WatchEvent::Applied { old: Some(old), new, .. } => {
                if predicate::passes(&self.predicates, old, new) {
                    [key(old), key(new)]
                } else {
                    [None, None]
                }
            }
        }
    }
}

/// The first list brings every key at once; what somebody changes meanwhile goes first.
fn priority(event: &WatchEvent) -> Priority {
    match event {
        WatchEvent::Applied { initial: true, .. } => Priority::BACKGROUND,
        WatchEvent::Applied { initial: false, .. } | WatchEvent::Deleted(_) => Priority::CHANGE,
    }
}

/// Feeds `queue` from `subscription` until `stop`. The queue deduplicates, so a key that an event names twice is one.
pub(crate) async fn feed(
    mut subscription: Subscription,
    route: Route,
    queue: Queue<ObjectKey>,
    stop: CancellationToken,
) {
    loop {
        let event = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            event = subscription.next() => event,
        };
        let Some(event) = event else { return };
        let priority = priority(&event);
        for key in route.keys(&event).into_iter().flatten() {
            tracing::trace!(kind = %route.primary.kind, %key, ?priority, "queued");
            queue.add_with(key, priority);
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::object::{Header, Object, ObjectKind};
    use windlass_core::watch::Tombstone;

    use super::*;

    fn labelled(primary: &str, generation: i64) -> Object {
        let header = Header {
            key: ObjectKey::namespaced("prod", "child"),
            uid: "c-1".into(),
            version: "1".into(),
            generation,
            labels: [("for".into(), primary.into())].into(),
            owners: vec![],
            deleting: false,
        };
        Object { header: Arc::new(header), text: "{}".into() }
    }

    fn route(predicates: &[Predicate]) -> Route {
        Route {
            mapping: Mapping::Label("for".into()),
            predicates: predicates.into(),
            primary: PrimaryKind { kind: ObjectKind::new("example.com/v1", "Parent"), namespaced: true },
        }
    }

    fn names(route: &Route, event: &WatchEvent) -> Vec<String> {
        route.keys(event).into_iter().flatten().map(|key| key.to_string()).collect()
    }

    #[test]
    fn an_object_that_moves_concerns_the_primary_that_it_leaves_too() {
        let moved = WatchEvent::Applied { old: Some(labelled("a", 1)), new: labelled("b", 1), initial: false };
        assert_eq!(names(&route(&[]), &moved), ["prod/a", "prod/b"]);
    }

    #[test]
    fn a_change_that_no_predicate_lets_pass_concerns_nobody() {
        let same = WatchEvent::Applied { old: Some(labelled("a", 1)), new: labelled("a", 1), initial: false };
        assert!(names(&route(&[Predicate::Generation]), &same).is_empty());
    }

    #[test]
    fn only_the_first_list_is_background() {
        let applied = |initial| WatchEvent::Applied { old: None, new: labelled("a", 1), initial };
        assert_eq!(priority(&applied(true)), Priority::BACKGROUND);
        assert_eq!(priority(&applied(false)), Priority::CHANGE);
        let gone = WatchEvent::Deleted(Tombstone { last: labelled("a", 1), final_state_unknown: false });
        assert_eq!(priority(&gone), Priority::CHANGE);
    }

    #[test]
    fn appearing_and_going_pass_every_predicate() {
        let route = route(&[Predicate::Generation]);
        let new = WatchEvent::Applied { old: None, new: labelled("a", 1), initial: true };
        assert_eq!(names(&route, &new), ["prod/a"]);
        let gone = WatchEvent::Deleted(Tombstone { last: labelled("a", 1), final_state_unknown: true });
        assert_eq!(names(&route, &gone), ["prod/a"]);
    }
}
