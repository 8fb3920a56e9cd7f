//! Keeps a controller's state across the generations of its plugin, and passes the queue of one generation on to the
//! next.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use windlass_core::cache::mapping::PrimaryKind;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::object::ObjectKey;
use windlass_core::object::selector::ParsedSelector;
use windlass_core::write::gate::Gate;

use super::prior_keys::PriorKeys;
use crate::clock::SystemClock;
use crate::controller::gain_pauses::GainPauses;
use crate::controller::reporter::StatusReporter;
use crate::dispatch::left_keys::{LeftKeys, RoundKeys};
use crate::dispatch::route::Stores;
use crate::dispatch::timer::SharedProgress;
use crate::observe::status::ControllerStatus;
use crate::phases::{AtWork, Phases, tracker};

/// A controller's state, which lasts as long as the plugin has a controller of that name.
pub(crate) struct Handover {
    pub(in crate::controller) reporter: StatusReporter,
    pub(in crate::controller) prior: PriorKeys,
    pub(in crate::controller) left: Arc<LeftKeys>,
    /// The workers of all generations and terms.
    pub(in crate::controller) workers: TaskTracker,
    pub(in crate::controller) gains: GainPauses,
    /// The progress of the controller's timer, if it has one.
    pub(in crate::controller) timer: SharedProgress,
    /// The round that is at work.
    active: Mutex<Option<Arc<ActiveRound>>>,
    replaced: AtomicBool,
    /// The clock of all queues and gates of the controller, so that their times can be compared across generations.
    pub(in crate::controller) clock: Arc<SystemClock>,
}

/// Defines which objects are primaries. If this changes, the controller is treated as a new one. The keys in its old
/// queue belong to other objects, and the old primaries would seem to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller) struct PrimaryScope {
    namespaced: bool,
    /// For each watch, its group, kind, namespace, selectors and conditions.
    watches: Vec<[String; 6]>,
}

impl PrimaryScope {
    /// The scope of the `primary` kind under these watches. The version does not matter: the API server shows the same
    /// objects in all versions.
    pub(in crate::controller) fn of<'a>(primary: &PrimaryKind, specs: impl Iterator<Item = &'a WatchSpec>) -> Self {
        let owned = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let mut watches: Vec<_> = specs
            .map(|spec| {
                let (group, kind) = (spec.kind.group().to_owned(), spec.kind.kind.to_string());
                let labels = spec.label_selector.as_ref().map(ParsedSelector::text);
                let fields = spec.field_selector.as_ref().map(ParsedSelector::text);
                // A finalizer that the host keeps does not change which objects the plugin wants.
                let conditions = spec.where_clause.as_ref().map(|clause| clause.without_finalizer().to_string());
                let namespace = owned(spec.namespace.as_deref());
                [group, kind, namespace, owned(labels), owned(fields), conditions.unwrap_or_default()]
            })
            .collect();
        watches.sort();
        Self { namespaced: primary.namespaced, watches }
    }
}

/// A round at work, with everything that the next generation takes over from it.
pub(in crate::controller) struct ActiveRound {
    pub(in crate::controller) keys: RoundKeys,
    /// Gets the keys if no round takes them over.
    pub(in crate::controller) left: Arc<LeftKeys>,
    pub(in crate::controller) gate: Option<Arc<Gate>>,
    /// The watches whose caches the calls of this round read, in the gate's order.
    pub(in crate::controller) watches: Vec<WatchSpec>,
    pub(in crate::controller) scope: PrimaryScope,
    pub(in crate::controller) primaries: Stores,
    /// Cancelled once another generation has the queue.
    pub(in crate::controller) retired: CancellationToken,
    /// Cancelled once the other generation receives every change.
    pub(in crate::controller) relieved: CancellationToken,
    pub(in crate::controller) phases: Phases,
    /// Set if another generation had the queue and never began.
    pub(in crate::controller) abandoned: Mutex<Option<QueueHold>>,
}

/// The state that an abandoned handover holds until the keys of the queue are left to a later round.
pub(in crate::controller) struct QueueHold {
    /// Makes a shutdown wait until the keys are counted.
    _at_work: AtWork,
    /// Makes the next round wait, so that it finds the keys.
    _beginning: TaskTrackerToken,
}

impl ActiveRound {
    /// Whether the gate of this round also suits calls that read `watches`.
    pub(in crate::controller) fn does_for(&self, watches: &[WatchSpec]) -> bool {
        self.gate.is_none() || self.watches == watches
    }

    /// The primaries, with their UIDs, that this round's cache has and `others` lack: either they were deleted, or
    /// `others` are behind. If the caches belong to different informers, the deletion may be delivered to this round's
    /// informer only, and too late.
    pub(in crate::controller) fn primaries_missing_from(&self, others: &Stores) -> Vec<(ObjectKey, Arc<str>)> {
        let missing = self.primaries.objects().filter(|object| others.get(&object.header.key).is_none());
        missing.map(|object| (object.header.key.clone(), object.header.uid.text())).collect()
    }

    /// Leaves the keys of the queue to a later round if the generation that had the queue never began. Call this once
    /// this round has queued everything that it holds.
    pub(in crate::controller) fn leave_abandoned(&self) {
        let hold = self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).take();
        if hold.is_some() {
            self.left.leave(&self.keys);
            self.phases.drop_keys(&self.keys.queue);
        }
    }
}

impl Drop for ActiveRound {
    fn drop(&mut self) {
        // After an orderly end, the keys have been left already. After a panic, they have not.
        self.leave_abandoned();
    }
}

/// The active round of one generation, passed on to another. If the other generation never begins, the previous round
/// queues what it still holds, and leaves the keys of the queue to a later round.
pub(in crate::controller) struct InheritedRound {
    active: Arc<ActiveRound>,
    /// `None` once the other generation has begun.
    at_work: Option<AtWork>,
    /// Counts the rounds that begin.
    workers: TaskTracker,
}

impl InheritedRound {
    pub(in crate::controller) fn active(&self) -> &ActiveRound {
        &self.active
    }

    /// Records that the other generation has begun and receives every change.
    pub(in crate::controller) fn has_begun(mut self) {
        self.at_work = None;
    }
}

impl Drop for InheritedRound {
    fn drop(&mut self) {
        if let Some(at_work) = self.at_work.take() {
            let hold = QueueHold { _at_work: at_work, _beginning: self.workers.token() };
            *self.active.abandoned.lock().unwrap_or_else(PoisonError::into_inner) = Some(hold);
        }
        self.active.relieved.cancel();
    }
}

impl Handover {
    /// The state of a controller that has not run yet.
    pub(crate) fn new(status: Arc<ControllerStatus>) -> Arc<Self> {
        let (prior, active, replaced) = (PriorKeys::default(), Mutex::default(), AtomicBool::new(false));
        let (left, gains, timer) = (Arc::default(), GainPauses::default(), Arc::default());
        let (reporter, clock) = (StatusReporter::new(status), Arc::new(SystemClock::new()));
        Arc::new(Self { reporter, prior, left, workers: tracker(), gains, timer, active, replaced, clock })
    }

    pub(crate) fn status(&self) -> &Arc<ControllerStatus> {
        self.reporter.status()
    }

    /// Whether a round is at work.
    pub(crate) fn is_at_work(&self) -> bool {
        self.lock().is_some()
    }

    /// Whether a generation has the controller, or calls of an earlier generation still run. Then a new controller of
    /// the same name must use this state.
    pub(crate) fn is_in_use(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1 || !self.workers.is_empty()
    }

    /// Completes when no call of any generation runs.
    pub(crate) async fn calls(&self) {
        self.workers.wait().await;
    }

    /// The round at work.
    pub(in crate::controller) fn active_round(&self) -> Option<Arc<ActiveRound>> {
        self.lock().clone()
    }

    /// Ends the active round and passes it on to another generation, if `succeeds` accepts it. From here on, the
    /// workers of this round take no more keys.
    pub(in crate::controller) fn pass_on(&self, succeeds: impl FnOnce(&ActiveRound) -> bool) -> Option<InheritedRound> {
        let mut at_work = self.lock();
        let active = at_work.take().filter(|active| succeeds(active))?;
        // Cancelled under the lock, so that a round that ends by itself at this moment knows that another generation
        // has the queue.
        active.retired.cancel();
        let at_work = Some(active.phases.at_work());
        Some(InheritedRound { active, at_work, workers: self.workers.clone() })
    }

    /// Records that the primaries are different from now on. The next round then ignores the writes that the old keys
    /// were waiting to see.
    pub(in crate::controller) fn is_replaced(&self) {
        self.replaced.store(true, Ordering::Relaxed);
    }

    /// Whether the primaries differ from those of the previous round. Resets the answer.
    pub(in crate::controller) fn was_replaced(&self) -> bool {
        self.replaced.swap(false, Ordering::Relaxed)
    }

    /// Begins a round after all other calls have ended. While the token exists, a task that waits for calls waits for
    /// this round too. The token is dropped once the round's workers exist. `None` if `stop` is cancelled: then another
    /// round may begin, and may have stopped waiting for this one already.
    pub(in crate::controller) fn begins(&self, stop: &CancellationToken) -> Option<TaskTrackerToken> {
        let beginning = self.workers.token();
        // The order matters: another round may begin only after `stop` is cancelled. So either the other round finds
        // this token, or the check below finds `stop` cancelled.
        (!stop.is_cancelled()).then_some(beginning)
    }

    /// Records that a round is at work from now on.
    pub(in crate::controller) fn activate(self: &Arc<Self>, active: &Arc<ActiveRound>) -> ActiveGuard {
        *self.lock() = Some(active.clone());
        ActiveGuard { handover: self.clone(), active: active.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<ActiveRound>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held by the round at work. Once it is dropped, no other generation can take the round over.
pub(in crate::controller) struct ActiveGuard {
    handover: Arc<Handover>,
    active: Arc<ActiveRound>,
}

impl Drop for ActiveGuard {
    fn drop(&mut self) {
        self.handover.lock().take_if(|active| Arc::ptr_eq(active, &self.active));
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};
    use std::pin::pin;

    use futures::FutureExt;
    use windlass_core::cache::where_clause::{WantedValue, WhereClause, WhereCondition, WhereSubject, WhereTest};
    use windlass_core::object::ObjectKind;
    use windlass_core::queue::{ItemExponential, Queue};

    use super::*;
    use crate::observe::metrics::HostMetrics;

    impl ActiveRound {
        /// The same round with other primaries.
        pub(in crate::controller) fn with_primaries(&self, primaries: Stores) -> Self {
            Self {
                keys: self.keys.clone(),
                left: self.left.clone(),
                gate: self.gate.clone(),
                watches: self.watches.clone(),
                scope: self.scope.clone(),
                primaries,
                retired: self.retired.clone(),
                relieved: self.relieved.clone(),
                phases: self.phases.clone(),
                abandoned: Mutex::default(),
            }
        }
    }

    fn handover() -> Arc<Handover> {
        let metrics = HostMetrics::new().controller("a", "a");
        Handover::new(ControllerStatus::unlisted(&"a".into(), "a", 1, metrics))
    }

    fn key() -> ObjectKey {
        ObjectKey::namespaced("prod", "a")
    }

    /// An active round with one key in its queue.
    fn active() -> Arc<ActiveRound> {
        let queue = Queue::new(Arc::new(SystemClock::new()), ItemExponential::default());
        queue.add(key());
        let primary = PrimaryKind { kind: ObjectKind::new("v1", "WebApp"), namespaced: true };
        let keys = RoundKeys { primary, queue, memory: Arc::default(), filters_primaries: true };
        Arc::new(ActiveRound {
            keys,
            left: Arc::default(),
            gate: None,
            watches: vec![],
            scope: scope("v1", &["a"], None),
            primaries: Stores::default(),
            retired: CancellationToken::new(),
            relieved: CancellationToken::new(),
            phases: Phases::of(CancellationToken::new()),
            abandoned: Mutex::default(),
        })
    }

    #[test]
    fn a_successor_keeps_the_keys_and_relieves_its_predecessor_once_begun() {
        let (handover, active) = (handover(), active());
        let occupied = handover.activate(&active);
        assert!(handover.is_at_work());
        let inherited = handover.pass_on(|_| true).expect("it is at work");
        assert!(active.retired.is_cancelled() && !active.relieved.is_cancelled() && !handover.is_at_work());
        let next = handover.activate(&self::active());
        drop(occupied);
        assert!(handover.is_at_work(), "the end of the previous round does not end the next");
        inherited.has_begun();
        assert!(active.relieved.is_cancelled());
        active.keys.queue.add(ObjectKey::namespaced("prod", "b"));
        assert_eq!(active.keys.queue.len(), 2);
        drop(next);
        assert!(!handover.is_at_work());
    }

    #[test]
    fn keys_of_an_abandoned_handover_are_left_to_the_next_round() {
        let (handover, active) = (handover(), active());
        let _occupied = handover.activate(&active);
        active.keys.memory.lock().expect("no panic").goes(key(), "u-1".into());
        drop(handover.pass_on(|_| true));
        assert!(active.relieved.is_cancelled(), "a round that waits to end may end");
        let last = ObjectKey::namespaced("prod", "last");
        active.keys.memory.lock().expect("no panic").goes(last.clone(), "u-2".into());
        active.keys.queue.add(last.clone());
        assert!(handover.calls().now_or_never().is_none(), "the next round waits until the keys are left");
        active.leave_abandoned();
        assert!(handover.calls().now_or_never().is_some() && active.keys.queue.is_empty());
        let left = active.left.take(&active.keys.primary, &Stores::default());
        assert_eq!(left.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), [key(), last]);
    }

    #[test]
    fn a_round_that_panics_in_an_abandoned_handover_leaves_its_keys() {
        let (handover, active) = (handover(), active());
        let occupied = handover.activate(&active);
        drop(handover.pass_on(|_| true));
        active.keys.memory.lock().expect("no panic").goes(key(), "u-1".into());
        let (left, primary) = (active.left.clone(), active.keys.primary.clone());
        drop((occupied, active));
        assert_eq!(left.take(&primary, &Stores::default()).len(), 1);
        assert!(handover.calls().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_counts_the_keys_of_an_abandoned_handover() {
        let (handover, active) = (handover(), active());
        let _occupied = handover.activate(&active);
        let inherited = handover.pass_on(|_| true);
        let (nothing, phases) = (None::<Ready<bool>>, active.phases.clone());
        let mut stopping = pin!(phases.end(ready(0), ready(true), nothing, ready(())));
        assert!(stopping.as_mut().now_or_never().is_none(), "otherwise it would log that the queues have drained");
        drop(inherited);
        assert!(stopping.as_mut().now_or_never().is_none());
        active.leave_abandoned();
        assert!(stopping.await && phases.all_dropped() == 1);
    }

    #[test]
    fn a_successor_with_other_primaries_leaves_the_queue_to_its_own_round() {
        let (handover, active) = (handover(), active());
        let _occupied = handover.activate(&active);
        assert!(handover.pass_on(|_| false).is_none());
        assert!(!active.retired.is_cancelled() && !handover.is_at_work());
        assert_eq!(active.keys.queue.len(), 1);
        assert!(handover.pass_on(|_| true).is_none(), "no other generation gets it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_handover_is_in_use_until_the_last_call_of_all_generations_ended() {
        let handover = handover();
        let generation = handover.clone();
        assert!(handover.is_in_use());
        handover.workers.spawn(tokio::time::sleep(std::time::Duration::from_secs(9)));
        drop(generation);
        assert!(handover.is_in_use(), "the generation has gone, but its call still runs");
        handover.workers.wait().await;
        assert!(!handover.is_in_use());
    }

    #[tokio::test]
    async fn calls_are_awaited_while_a_round_begins_and_a_stop_prevents_its_start() {
        let (handover, stop) = (handover(), CancellationToken::new());
        let beginning = handover.begins(&stop).expect("nothing stops it");
        assert!(handover.calls().now_or_never().is_none());
        drop(beginning);
        stop.cancel();
        assert!(handover.begins(&stop).is_none());
        assert!(handover.calls().now_or_never().is_some());
    }

    fn scope(version: &str, namespaces: &[&str], labels: Option<&str>) -> PrimaryScope {
        let kind = ObjectKind::new(version, "WebApp");
        let spec = |namespace: &&str| WatchSpec {
            namespace: Some((*namespace).into()),
            label_selector: labels.map(|labels| labels.parse().expect("a selector")),
            ..WatchSpec::all(kind.clone())
        };
        let specs: Vec<_> = namespaces.iter().map(spec).collect();
        PrimaryScope::of(&PrimaryKind { kind: kind.clone(), namespaced: true }, specs.iter())
    }

    #[test]
    fn a_scope_ignores_version_and_order_and_differs_by_selection() {
        let before = scope("example.com/v1", &["a", "b"], None);
        assert_eq!(scope("example.com/v2", &["b", "a"], None), before);
        assert_ne!(scope("example.org/v1", &["a", "b"], None), before);
        assert_ne!(scope("example.com/v1", &["a"], None), before);
        assert_ne!(scope("example.com/v1", &["a", "b"], Some("tier=front")), before);
    }

    #[test]
    fn a_scope_differs_by_conditions_but_not_by_the_finalizer_that_is_kept() {
        let scope = |clause: Option<WhereClause>| {
            let kind = ObjectKind::new("example.com/v1", "WebApp");
            let spec = WatchSpec { where_clause: clause, ..WatchSpec::all(kind.clone()) };
            PrimaryScope::of(&PrimaryKind { kind, namespaced: true }, std::iter::once(&spec))
        };
        let test = WhereTest { subject: WhereSubject::Annotation("a".into()), wanted: WantedValue::Exists };
        let clause = WhereClause::new(&[WhereCondition::Test(test)]).expect("a condition");
        assert_ne!(scope(Some(clause.clone())), scope(None));
        assert_eq!(scope(Some(clause.clone().keeping("windlass.dev/a"))), scope(Some(clause)));
    }
}
