//! A feeder with a fake cache and a fake predicate.

use std::collections::BTreeMap;

use windlass_core::queue::trigger::TriggerReason;

use super::*;
use crate::dispatch::rescan::{Rescans, ScannedCache};
use crate::dispatch::route::Stores;

/// The states before and after a change, as a [`Predicate`] sees them.
type States<'a> = (Option<&'a str>, &'a str);

/// Whether a change counts, or why that is unknown.
type Judge = Arc<dyn Fn(States<'_>) -> Result<bool, String> + Send + Sync>;

/// A predicate that answers once the test lets it.
#[derive(Clone)]
pub(super) struct Predicate {
    judge: Judge,
    /// The new states in each call.
    asked: Arc<Mutex<Vec<Vec<String>>>>,
    filtered: Arc<Mutex<usize>>,
    pub(super) turns: Arc<tokio::sync::Semaphore>,
    pub(super) caches_filled: watch::Sender<bool>,
    /// How long a failed call takes.
    pub(super) failure_takes: Duration,
}

impl MapChanges for Predicate {
    fn matches(&self, batch: ChangeBatch) -> BoxFuture<'static, Result<Vec<bool>, CodeFailure>> {
        let asked = batch.changes.iter().map(|change| change.new.as_deref().expect("no deletion").to_owned()).collect();
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
        let (turns, judge, took) = (self.turns.clone(), self.judge.clone(), self.failure_takes);
        async move {
            turns.acquire().await.expect("it is not closed").forget();
            let of = |change: &ObjectChange| judge((change.old.as_deref(), change.new.as_deref().unwrap_or_default()));
            let answer: Result<_, String> = batch.changes.iter().map(of).collect();
            if answer.is_err() {
                tokio::time::sleep(took).await;
            }
            answer.map_err(|error| CodeFailure { result: failed(error), took })
        }
        .boxed()
    }

    fn map(&self, _: ChangeBatch) -> BoxFuture<'static, Answer> {
        unreachable!("no watch is mapped by code")
    }

    fn filtered(&self, changes: usize) {
        *self.filtered.lock().unwrap_or_else(PoisonError::into_inner) += changes;
    }

    fn hides(&self, key: &ObjectKey) -> bool {
        key.namespace.as_deref() == Some("windlass")
    }

    fn may_begin(&self) -> bool {
        *self.caches_filled.borrow()
    }

    fn begins(&self) -> BoxFuture<'static, ()> {
        filled(&self.caches_filled)
    }
}

/// The objects of the watch.
#[derive(Clone, Default)]
pub(super) struct Objects(Arc<Mutex<BTreeMap<ObjectKey, Object>>>);

impl ScannedCache for Objects {
    fn keys(&self) -> Vec<ObjectKey> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    fn get(&self, key: &ObjectKey) -> Option<Object> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }
}

/// The feeder of a watch of primaries with a predicate, unless the test changes its route.
pub(super) struct Scene {
    pub(super) feeder: CodeFeeder<mpsc::UnboundedReceiver<WatchEvent>, Predicate>,
    events: mpsc::UnboundedSender<WatchEvent>,
    pub(super) objects: Objects,
    pub(super) predicate: Predicate,
    pub(super) rescans: Rescans,
    pub(super) memory: Arc<Mutex<KeyMemory>>,
    pub(super) queue: Queue<ObjectKey>,
}

pub(super) const FINALIZER: &str = "windlass.dev/a";

impl Scene {
    pub(super) fn new(judge: impl Fn(States<'_>) -> Result<bool, String> + Send + Sync + 'static) -> Self {
        let (events, source) = mpsc::unbounded_channel();
        let predicate = Predicate {
            judge: Arc::new(judge),
            asked: Arc::default(),
            filtered: Arc::default(),
            turns: Arc::new(tokio::sync::Semaphore::new(100_000)),
            caches_filled: watch::Sender::new(true),
            failure_takes: Duration::ZERO,
        };
        let queue = Queue::new(Arc::new(NoTime), ItemExponential::default());
        let code = CodePredicate { finalizer: FINALIZER.into(), is_primary: true, deletions: true };
        let route = Route {
            kind: ObjectKind::new("v1", "Secret"),
            watch: None,
            mapping: Mapping::Itself,
            predicates: [].into(),
            code_predicate: Some(code),
            deletions: true,
            primary: PrimaryKind { kind: ObjectKind::new("v1", "Secret"), namespaced: true },
        };
        let (objects, rescans, memory) = (Objects::default(), Rescans::new(true), Arc::<Mutex<KeyMemory>>::default());
        let sink = KeySink::new(route, queue.clone(), Stores::default(), memory.clone());
        let rescan = Some(rescans.of(objects.clone()));
        let feeder = CodeFeeder::new(source, sink, predicate.clone(), "shops".into(), rescan);
        Self { feeder, events, objects, predicate, rescans, memory, queue }
    }

    /// The object named `name` is in this state from now on.
    pub(super) fn set(&self, name: &str, text: &str, deleting: bool) {
        let key = ObjectKey::namespaced("prod", name);
        let header = Header { deleting, ..pod("prod", name, 1).header.clone() };
        let new = Object::new(header, text);
        let mut objects = self.objects.0.lock().unwrap_or_else(PoisonError::into_inner);
        let old = objects.insert(key, new.clone());
        self.happens(WatchEvent::Applied { old, new, initial: false });
    }

    /// Deletes the object named `name`, if there is one.
    pub(super) fn remove(&self, name: &str) {
        let mut objects = self.objects.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = objects.remove(&ObjectKey::namespaced("prod", name)) {
            self.happens(WatchEvent::Deleted(Tombstone { last, final_state_unknown: false }));
        }
    }

    pub(super) fn happens(&self, event: WatchEvent) {
        self.events.send(event).expect("it is read");
    }

    pub(super) fn rescan(&self, reason: TriggerReason) {
        self.rescans.request(reason);
    }

    /// Says whether the caches are filled.
    pub(super) fn fill(&self, is_filled: bool) {
        self.predicate.caches_filled.send_replace(is_filled);
    }

    /// Polls the feeder until it waits.
    pub(super) fn goes_on(&mut self) {
        // Tokio's cooperative budget would make the feeder wait earlier.
        assert!(tokio::task::unconstrained(self.feeder.run()).now_or_never().is_none(), "it waits");
    }

    /// The new states in each call since the last time.
    pub(super) fn asked(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut *self.predicate.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn filtered(&self) -> usize {
        *self.predicate.filtered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of the queued keys, which are taken.
    pub(super) fn queued(&self) -> Vec<String> {
        let mut names = Vec::new();
        while let Some(key) = self.queue.get().now_or_never().flatten() {
            names.push(key.name.to_string());
            self.queue.done(&key);
        }
        names.sort();
        names
    }
}
