//! Turns the events of a watch into keys in a workqueue.

use std::convert::Infallible;
use std::future::{Future, pending};

use futures::FutureExt;
use windlass_core::cache::watch::WatchEvent;
use windlass_kube::Subscription;

use crate::dispatch::sink::KeySink;

/// The maximum number of changes that are merged into one. Each of these changes concerns every primary.
const MERGED_CHANGES_MAX: usize = 1_000;

/// A source of events: a subscription, or a test double.
pub(crate) trait EventSource: Send {
    /// The next event, or `None` at the end. Cancel-safe.
    fn next(&mut self) -> impl Future<Output = Option<WatchEvent>> + Send;
}

impl EventSource for Subscription {
    fn next(&mut self) -> impl Future<Output = Option<WatchEvent>> + Send {
        Self::next(self)
    }
}

#[cfg(test)]
impl EventSource for tokio::sync::mpsc::UnboundedReceiver<WatchEvent> {
    async fn next(&mut self) -> Option<WatchEvent> {
        self.recv().await
    }
}

/// Feeds a queue from the events of one subscription.
pub(crate) trait QueueFeeder: Send + 'static {
    /// Feeds the queue until the source ends. May be run again after a panic or a cancellation without losing anything.
    fn run(&mut self) -> impl Future<Output = ()> + Send;

    /// Feeds the queue with the events that are already there. Later ones belong to another generation.
    fn finish(&mut self);

    /// Discards events for ever: no more keys are wanted, and the events must not pile up.
    fn discard(&mut self) -> impl Future<Output = Infallible> + Send;
}

/// The next event, if it is already there.
pub(crate) fn event_now(source: &mut impl EventSource) -> Option<WatchEvent> {
    // Tokio's cooperative budget would stop after fewer events.
    tokio::task::unconstrained(source.next()).now_or_never().flatten()
}

/// Discards all events of `source`, for ever.
pub(crate) async fn discard(source: &mut impl EventSource) -> Infallible {
    while source.next().await.is_some() {}
    pending().await
}

/// The number of attempts to handle an event if the host panics each time.
const EVENT_ATTEMPTS_MAX: u32 = 2;

/// Feeds a queue with the keys that a declared mapping finds. A panic loses nothing: the event is tried again, and if
/// that fails too, every primary runs instead.
pub(crate) struct Feeder<S> {
    source: S,
    sink: KeySink,
    /// The current event, and how many attempts it has had.
    in_hand: Option<(WatchEvent, u32)>,
}

impl<S: EventSource> Feeder<S> {
    pub(crate) fn new(source: S, sink: KeySink) -> Self {
        Self { source, sink, in_hand: None }
    }

    /// Queues the keys of the current event. The queue deduplicates, so it does not matter if an event names a key
    /// twice.
    fn feed(&mut self) {
        let Some((event, attempts)) = &mut self.in_hand else { return };
        *attempts += 1;
        if *attempts <= EVENT_ATTEMPTS_MAX {
            self.sink.remember_gone(event);
            let route = &self.sink.route;
            if route.concerns_all() && route.counts(event) {
                // The caches already show everything up to now, and keys that are queued from now on will see it. So
                // skip the burst before the keys are looked up. In the opposite order, a primary that appears in
                // between might have run only before the skipped changes.
                skip_burst(&mut self.source, &self.sink);
            }
            self.sink.queue(route.keys(event, &self.sink.primaries), event);
        } else {
            let kind = &self.sink.route.primary.kind;
            tracing::error!(%kind, "an event cannot be mapped; every primary runs instead");
            self.sink.queue_all();
        }
        self.in_hand = None;
    }
}

impl<S: EventSource + 'static> QueueFeeder for Feeder<S> {
    async fn run(&mut self) {
        loop {
            self.feed();
            let Some(event) = self.source.next().await else { return };
            self.in_hand = Some((event, 0));
        }
    }

    fn finish(&mut self) {
        self.feed();
        while let Some(event) = event_now(&mut self.source) {
            self.in_hand = Some((event, 0));
            self.feed();
        }
    }

    async fn discard(&mut self) -> Infallible {
        discard(&mut self.source).await
    }
}

/// Skips a burst of the events that are already there. Returns their number.
fn skip_burst(source: &mut impl EventSource, sink: &KeySink) -> usize {
    (0..MERGED_CHANGES_MAX).map_while(|_| event_now(source)).inspect(|event| sink.remember_gone(event)).count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex};

    use futures::future::BoxFuture;
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;
    use windlass_core::cache::mapping::{Mapping, PrimaryKind};
    use windlass_core::cache::watch::Tombstone;
    use windlass_core::clock::{Clock, Moment};
    use windlass_core::object::{Header, Object, ObjectKey, ObjectKind};
    use windlass_core::queue::{ItemExponential, Queue};

    use super::*;
    use crate::clock::SystemClock;
    use crate::dispatch::memory::KeyMemory;
    use crate::dispatch::route::{Route, Stores};
    use crate::dispatch::tests::filled::Filled;
    use crate::supervise::{Panics, supervise};

    fn labelled(primary: &str) -> Object {
        let header = Header {
            generation: 1,
            labels: [("for".into(), primary.into())].into(),
            ..Header::bare(ObjectKey::namespaced("prod", "child"), "c-1", "1")
        };
        Object::new(header, "{}")
    }

    fn route() -> Route {
        Route {
            kind: ObjectKind::new("example.com/v1", "Child"),
            watch: None,
            mapping: Mapping::Label("for".into()),
            predicates: [].into(),
            code_predicate: None,
            deletions: true,
            primary: PrimaryKind { kind: ObjectKind::new("example.com/v1", "Parent"), namespaced: true },
        }
    }

    fn sink(queue: Queue<ObjectKey>, memory: Arc<Mutex<KeyMemory>>) -> KeySink {
        KeySink::new(route(), queue, Stores::default(), memory)
    }

    /// Returns these events in order; panics where the script has `None`.
    struct Scripted(std::vec::IntoIter<Option<WatchEvent>>);

    impl EventSource for Scripted {
        async fn next(&mut self) -> Option<WatchEvent> {
            self.0.next().map(|event| event.expect("an event"))
        }
    }

    /// Panics a given number of times when asked for the time.
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

    /// The keys that a supervised feeder queues if its clock panics `panics` times, and how often the feeder panicked.
    async fn fed(events: Vec<Option<WatchEvent>>, panics: u32) -> (Vec<String>, u64) {
        let queue = Queue::new(Arc::new(PanickingClock(panics.into())), ItemExponential::default());
        let feeder = Feeder::new(Scripted(events.into_iter()), sink(queue.clone(), Arc::default()));
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
        WatchEvent::Deleted(Tombstone { last: labelled(primary), final_state_unknown: false })
    }

    #[tokio::test]
    async fn a_burst_is_taken_at_once_however_long_a_task_may_run() {
        let (sender, mut source) = mpsc::unbounded_channel();
        for _ in 0..MERGED_CHANGES_MAX + 7 {
            sender.send(gone("a")).expect("it is read");
        }
        let sink = sink(Queue::new(Arc::new(PanickingClock(0.into())), ItemExponential::default()), Arc::default());
        assert_eq!([skip_burst(&mut source, &sink), skip_burst(&mut source, &sink)], [MERGED_CHANGES_MAX, 7]);
    }

    #[tokio::test]
    async fn a_skipped_deletion_of_a_primary_is_remembered() {
        let (sender, mut source) = mpsc::unbounded_channel();
        sender.send(gone("a")).expect("it is read");
        let queue = Queue::new(Arc::new(PanickingClock(0.into())), ItemExponential::default());
        let (route, memory) = (Route { mapping: Mapping::Itself, ..route() }, Arc::<Mutex<KeyMemory>>::default());
        let sink = KeySink::new(route, queue, Stores::default(), memory.clone());
        assert_eq!(skip_burst(&mut source, &sink), 1);
        let known = memory.lock().expect("no panic").uid_of_gone(&ObjectKey::namespaced("prod", "child"));
        assert_eq!(known.as_deref(), Some("c-1"));
    }

    /// Changes that concern every primary. A primary appears when the second change is taken, which is then skipped.
    struct Appearing {
        cache: Filled,
        changes: u32,
    }

    impl EventSource for Appearing {
        async fn next(&mut self) -> Option<WatchEvent> {
            self.changes += 1;
            match self.changes {
                1 => {}
                2 => self.cache.add("new"),
                _ => return None,
            }
            Some(WatchEvent::Applied { old: None, new: labelled("all"), initial: false })
        }
    }

    #[tokio::test]
    async fn a_primary_that_appears_while_changes_are_skipped_runs_for_them() {
        let (cache, queue) =
            (Filled::with(&["old"]), Queue::new(Arc::new(SystemClock::new()), ItemExponential::default()));
        let (route, primaries) = (Route { mapping: Mapping::All, ..route() }, cache.primaries());
        let sink = KeySink::new(route, queue.clone(), primaries, Arc::default());
        Feeder::new(Appearing { cache, changes: 0 }, sink).run().await;
        let keys: BTreeSet<_> = std::iter::from_fn(|| queue.get().now_or_never().flatten()).collect();
        assert_eq!(keys, ["new", "old"].map(|name| ObjectKey::namespaced("prod", name)).into());
    }

    #[tokio::test(start_paused = true)]
    async fn a_finishing_feeder_queues_pending_events_and_discards_later_ones() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let queue = Queue::new(Arc::new(PanickingClock(0.into())), ItemExponential::default());
        let mut feeder = Feeder::new(receiver, sink(queue.clone(), Arc::default()));
        for primary in ["a", "b"] {
            sender.send(gone(primary)).expect("it is read");
        }
        feeder.finish();
        assert_eq!(queue.len(), 2);
        sender.send(gone("c")).expect("it is read");
        assert!(feeder.discard().now_or_never().is_none());
        assert_eq!(queue.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_primarys_uid_is_remembered_but_not_a_deleted_childs() {
        for (mapping, uid) in [(Mapping::Itself, Some("c-1")), (route().mapping, None)] {
            let queue = Queue::new(Arc::new(PanickingClock(0.into())), ItemExponential::default());
            let (route, memory) = (Route { mapping, ..route() }, Arc::<Mutex<KeyMemory>>::default());
            let source = Scripted(vec![Some(gone("a"))].into_iter());
            let mut feeder = Feeder::new(source, KeySink::new(route, queue, Stores::default(), memory.clone()));
            feeder.in_hand = feeder.source.next().await.map(|event| (event, 0));
            feeder.feed();
            let known = memory.lock().expect("no panic").uid_of_gone(&ObjectKey::namespaced("prod", "child"));
            assert_eq!(known.as_deref(), uid);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_queued_key_carries_its_trigger_and_a_first_list_is_a_start() {
        let applied = |initial| WatchEvent::Applied { old: None, new: labelled("a"), initial };
        let cases = [(applied(true), "Start"), (applied(false), "Changed Child prod/child")];
        for (event, expected) in cases.into_iter().chain([(gone("a"), "Deleted Child prod/child")]) {
            let queue = Queue::new(Arc::new(PanickingClock(0.into())), ItemExponential::default());
            let memory = Arc::<Mutex<KeyMemory>>::default();
            let source = Scripted(vec![].into_iter());
            let mut feeder = Feeder::new(source, sink(queue, memory.clone()));
            feeder.in_hand = Some((event, 0));
            feeder.feed();
            let triggers = memory.lock().expect("no panic").take_triggers(&ObjectKey::namespaced("prod", "a"));
            assert_eq!(triggers.to_string(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_makes_the_feeder_panic_is_not_lost() {
        let fed = fed(vec![Some(gone("a")), Some(gone("b"))], 1).await;
        assert_eq!(fed, (vec!["prod/a".to_owned(), "prod/b".to_owned()], 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_feeder_whose_source_panics_continues_with_the_next_event() {
        let fed = fed(vec![Some(gone("a")), None, Some(gone("b"))], 0).await;
        assert_eq!(fed, (vec!["prod/a".to_owned(), "prod/b".to_owned()], 1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_cannot_be_mapped_does_not_hold_up_the_next() {
        let fed = fed(vec![Some(gone("a")), Some(gone("b"))], EVENT_ATTEMPTS_MAX).await;
        assert_eq!(fed, (vec!["prod/b".to_owned()], u64::from(EVENT_ATTEMPTS_MAX)));
    }
}
