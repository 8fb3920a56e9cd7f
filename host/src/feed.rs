//! From the events of a watch to keys in a workqueue.

use std::future::Future;
use std::sync::Arc;

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

/// Where events come from: a subscription, or a test.
pub(crate) trait Source: Send {
    /// The next event; None: there will be none. Nothing is lost when the future is dropped.
    fn next(&mut self) -> impl Future<Output = Option<WatchEvent>> + Send;
}

impl Source for Subscription {
    fn next(&mut self) -> impl Future<Output = Option<WatchEvent>> + Send {
        Self::next(self)
    }
}

/// How often an event is tried whose keys the host panics over.
const ATTEMPTS: u32 = 2;

/// Feeds a queue from a source. A panic loses nothing: what it fell over is tried again, and if that fails too, every
/// primary runs instead.
pub(crate) struct Feeder<S> {
    source: S,
    route: Route,
    queue: Queue<ObjectKey>,
    /// The keys of all primaries.
    primaries: Primaries,
    /// The event that is being worked on, and how often it was begun.
    in_hand: Option<(WatchEvent, u32)>,
}

/// Lists the keys of all primaries that are in the cache.
pub(crate) type Primaries = Arc<dyn Fn() -> Vec<ObjectKey> + Send + Sync>;

impl<S: Source> Feeder<S> {
    pub(crate) fn new(source: S, route: Route, queue: Queue<ObjectKey>, primaries: Primaries) -> Self {
        Self { source, route, queue, primaries, in_hand: None }
    }

    /// Feeds the queue until the source ends. The queue deduplicates, so a key that an event names twice is one.
    pub(crate) async fn run(&mut self) {
        loop {
            if self.in_hand.is_none() {
                let Some(event) = self.source.next().await else { return };
                self.in_hand = Some((event, 0));
            }
            let Some((event, attempts)) = &mut self.in_hand else { continue };
            *attempts += 1;
            if *attempts <= ATTEMPTS {
                let priority = priority(event);
                for key in self.route.keys(event).into_iter().flatten() {
                    tracing::trace!(kind = %self.route.primary.kind, %key, ?priority, "queued");
                    self.queue.add_with(key, priority);
                }
            } else {
                tracing::error!(kind = %self.route.primary.kind, "an event cannot be mapped; every primary runs instead");
                for key in (self.primaries)() {
                    self.queue.add_with(key, Priority::BACKGROUND);
                }
            }
            self.in_hand = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::FutureExt;
    use futures::future::BoxFuture;
    use tokio_util::sync::CancellationToken;
    use windlass_core::clock::{Clock, Moment};
    use windlass_core::object::{Header, Object, ObjectKind};
    use windlass_core::queue::ItemExponential;
    use windlass_core::watch::Tombstone;

    use super::*;
    use crate::supervise::{Panics, supervise};

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

    /// Its events in their order; it panics where there is none.
    struct Scripted(std::vec::IntoIter<Option<WatchEvent>>);

    impl Source for Scripted {
        async fn next(&mut self) -> Option<WatchEvent> {
            self.0.next().map(|event| event.expect("an event"))
        }
    }

    /// Panics when it is asked for the time, as often as it has been told to.
    struct PanickingClock(AtomicU32);

    impl Clock for PanickingClock {
        fn now(&self) -> Moment {
            let left = self.0.load(Ordering::Relaxed);
            self.0.store(left.saturating_sub(1), Ordering::Relaxed);
            assert!(left == 0, "the clock panics");
            Moment::default()
        }

        fn sleep_until(&self, _: Moment) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    /// What is queued by a supervised feeder whose clock panics `panics` times, and how often the feeder did.
    async fn fed(events: Vec<Option<WatchEvent>>, panics: u32) -> (Vec<String>, u64) {
        let queue = Queue::new(Arc::new(PanickingClock(panics.into())), ItemExponential::default());
        let primaries: Primaries = Arc::new(|| vec![ObjectKey::namespaced("prod", "every-primary")]);
        let feeder = Feeder::new(Scripted(events.into_iter()), route(&[]), queue.clone(), primaries);
        let (feeder, counted) = (tokio::sync::Mutex::new(feeder), Panics::default());
        let run = async || feeder.lock().await.run().await;
        supervise("feeder", &counted, &CancellationToken::new(), run).await;
        let mut keys = Vec::new();
        while let Some(Some(key)) = queue.get().now_or_never() {
            keys.push(key.to_string());
        }
        (keys, counted.of("feeder"))
    }

    fn gone(primary: &str) -> WatchEvent {
        WatchEvent::Deleted(Tombstone { last: labelled(primary, 1), final_state_unknown: false })
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_the_feeder_fell_over_is_not_lost() {
        let fed = fed(vec![Some(gone("a")), Some(gone("b"))], 1).await;
        assert_eq!(fed, (vec!["prod/a".to_owned(), "prod/b".to_owned()], 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_feeder_whose_source_panics_goes_on_with_the_next_event() {
        let fed = fed(vec![Some(gone("a")), None, Some(gone("b"))], 0).await;
        assert_eq!(fed, (vec!["prod/a".to_owned(), "prod/b".to_owned()], 1));
    }

    #[tokio::test(start_paused = true)]
    async fn instead_of_an_event_that_cannot_be_mapped_every_primary_runs() {
        let fed = fed(vec![Some(gone("a")), Some(gone("b"))], ATTEMPTS).await;
        assert_eq!(fed, (vec!["prod/b".to_owned(), "prod/every-primary".to_owned()], u64::from(ATTEMPTS)));
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
