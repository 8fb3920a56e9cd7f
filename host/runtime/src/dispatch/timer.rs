//! The timer of a controller, which takes the place of primaries. Its calls are about a made-up object, because a call
//! without an object would mean that the primary was deleted.
//!
//! `controller/timing.rs` waits for due times and queues the key. A due time is handled once its call has ended well;
//! until then, retries are about it. Then it is kept for other replicas, so that a due time has at least one call. No
//! call for a due time may be saved, even if nothing in the cluster has changed.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use windlass_core::object::{Header, Object, ObjectKey, ObjectKind};
use windlass_core::queue::key_state::CallEnd;
use windlass_core::queue::trigger::{TriggerReason, Triggers};
use windlass_core::timer::{DueTime, KeptProgress, MissedTimes, TimerProgress, TimerRule, TimerStep};
use windlass_manifest::PrimaryTimer;

/// The progress of a controller's timer, over the generations of its plugin.
pub(crate) type SharedProgress = Arc<Mutex<TimerProgress>>;

/// Keeps the progress of one timer outside of this process.
pub(crate) trait TimerRecords: Send + Sync {
    /// The kept progress. The error says why it cannot be had now.
    fn read(&self) -> BoxFuture<'_, Result<Option<KeptProgress>, String>>;

    /// Keeps `progress`. The error says why that failed.
    fn write<'a>(&'a self, progress: &'a KeptProgress) -> BoxFuture<'a, Result<(), String>>;
}

/// The timer of one controller, as one generation declares it.
pub(crate) struct ControllerTimer {
    pub(crate) key: ObjectKey,
    kind: ObjectKind,
    uid: Arc<str>,
    /// The `spec` of the object.
    spec: Map<String, Value>,
    rule: TimerRule,
    words: String,
    pub(crate) jitter: Duration,
    missed: MissedTimes,
    /// Whether a change of a watched object calls the timer.
    pub(crate) follows_changes: bool,
    progress: SharedProgress,
    records: Box<dyn TimerRecords>,
    /// The progress that is known to be kept.
    kept: Mutex<Option<KeptProgress>>,
    /// Why it could not be kept the last time.
    failure: Mutex<Option<UnkeptProgress>>,
    /// Why the timer cannot run yet: the kept progress cannot be read.
    waits: Mutex<Option<String>>,
    /// Whether the last call without a due time is to be made again, because it failed or asked for that.
    repeats_change: AtomicBool,
    /// Whether a change came before the progress was read.
    was_wanted: AtomicBool,
}

impl fmt::Debug for ControllerTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerTimer").field("key", &self.key).field("rule", &self.words).finish_non_exhaustive()
    }
}

/// Why the progress of a timer could not be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UnkeptProgress(String);

impl ControllerTimer {
    /// The timer `declared` of this controller, whose object has the `kind`.
    pub(crate) fn new(
        [plugin, controller]: [&str; 2],
        kind: ObjectKind,
        declared: &PrimaryTimer,
        progress: SharedProgress,
        records: Box<dyn TimerRecords>,
    ) -> Self {
        Self {
            key: ObjectKey::cluster(controller),
            kind,
            uid: format!("timer.{plugin}.{controller}").into(),
            spec: declared.spec(),
            rule: declared.rule(),
            words: declared.in_words(),
            jitter: declared.jitter(),
            missed: declared.missed,
            follows_changes: false,
            progress,
            records,
            kept: Mutex::default(),
            failure: Mutex::default(),
            waits: Mutex::default(),
            repeats_change: AtomicBool::new(false),
            was_wanted: AtomicBool::new(false),
        }
    }

    /// This timer, which is also called for changes of watched objects if `follows_changes` is true.
    pub(crate) fn following_changes(self, follows_changes: bool) -> Self {
        Self { follows_changes, ..self }
    }

    /// The object, if the progress has been read. A call before that would miss the last due time. If there is none
    /// yet, [`Self::was_wanted`] returns true later.
    pub(crate) fn known_object(&self) -> Option<Object> {
        let is_known = || self.progress().kept().is_some();
        if !is_known() {
            self.was_wanted.store(true, Ordering::SeqCst);
        }
        // The progress may have been read meanwhile, and `was_wanted` been asked before it was set.
        is_known().then(|| self.object())
    }

    /// Whether a change of a watched object may have called the timer before its progress was read. Returns true once.
    pub(crate) fn was_wanted(&self) -> bool {
        self.was_wanted.swap(false, Ordering::SeqCst) && self.follows_changes
    }

    /// Reads the kept progress and goes on from it. The error says why it cannot be had now.
    pub(crate) async fn load(&self) -> Result<(), String> {
        let read = self.records.read().await;
        *self.waits.lock().unwrap_or_else(PoisonError::into_inner) = read.as_ref().err().cloned();
        let kept = read?;
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&kept);
        self.progress().resume(&self.words, kept, windlass_world::now());
        Ok(())
    }

    /// Keeps the progress if it has changed since it was kept last. Returns an error only if it is new, because callers
    /// try again and again.
    pub(crate) async fn keep(&self) -> Result<(), UnkeptProgress> {
        let Some(progress) = self.progress().kept().cloned() else { return Ok(()) };
        if self.kept.lock().unwrap_or_else(PoisonError::into_inner).as_ref() == Some(&progress) {
            return Ok(());
        }
        let failure = self.records.write(&progress).await.map_err(UnkeptProgress).err();
        if failure.is_none() {
            *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
        }
        let mut last = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if *last == failure {
            return Ok(());
        }
        last.clone_from(&failure);
        failure.map_or(Ok(()), Err)
    }

    /// The due time to handle next: one that was missed, or else the next one.
    pub(crate) fn next(&self) -> Option<DueTime> {
        self.progress().next(&self.rule, windlass_world::now())
    }

    /// Decides about `due`, whose call was to be made at `planned` and can be made now.
    pub(crate) fn reach(&self, due: DueTime, planned: Duration) -> TimerStep {
        self.progress().reach(&self.rule, self.missed, due, planned, windlass_world::now())
    }

    /// Forgets the pending due time, because the queue with its key is gone. It is due again.
    pub(crate) fn forget_pending(&self) {
        self.progress().forget_pending();
    }

    /// Whether a due time waits for its call, or for a call that ends well.
    pub(crate) fn is_pending(&self) -> bool {
        self.progress().pending().is_some()
    }

    /// Whether a call about `object` is to be made for these `triggers`. Without a due time, it is not if they belong
    /// to a due time that has been handled meanwhile: a retry or a requeue of its call, or a later due time that came
    /// before the call began.
    pub(crate) fn begins(&self, object: &Object, triggers: &Triggers) -> bool {
        if let Some(due) = due_of(object) {
            self.progress().begin(self.missed, due);
            return true;
        }
        let is_needed = self.repeats_change.load(Ordering::Relaxed)
            || triggers.iter().any(|trigger| match trigger.reason {
                TriggerReason::RequeueAfter | TriggerReason::Retry | TriggerReason::Configuration => false,
                TriggerReason::Start | TriggerReason::Swap => self.follows_changes,
                _ => true,
            });
        // Set now, because a call that panics does not end.
        self.repeats_change.store(is_needed, Ordering::Relaxed);
        is_needed
    }

    /// Finishes the pending due time if its call would begin too late by now, and returns it.
    pub(crate) fn skip_late(&self) -> Option<DueTime> {
        self.progress().skip_late(self.missed, self.jitter, windlass_world::now())
    }

    /// Records that a call about `object` has ended. A call that asks to run again has not handled its due time: after
    /// a crash, only another call for it would go on.
    pub(crate) async fn ends(&self, object: Option<&Object>, end: CallEnd) -> Result<(), UnkeptProgress> {
        let is_over = matches!(end, CallEnd::Done | CallEnd::FailedForGood);
        match object.and_then(due_of) {
            Some(due) if is_over => self.progress().finish(due),
            // The next replica must not skip it.
            Some(_) if self.missed == MissedTimes::Skip => {}
            Some(_) => return Ok(()),
            None => {
                if is_over || end == CallEnd::Denied {
                    self.repeats_change.store(false, Ordering::Relaxed);
                }
                return Ok(());
            }
        }
        self.keep().await
    }

    /// The object of the next call.
    pub(crate) fn object(&self) -> Object {
        let (pending, last) = {
            let progress = self.progress();
            (progress.pending(), progress.kept().and_then(|kept| kept.last))
        };
        let version = pending.map_or(0, |due| due.since_1970().as_millis()).to_string();
        let mut status = Map::new();
        for (field, time) in [("dueTime", pending), ("lastDueTime", last)] {
            if let Some(time) = time {
                status.insert(field.to_owned(), time.to_string().into());
            }
        }
        let text = json!({
            "apiVersion": &*self.kind.api_version,
            "kind": &*self.kind.kind,
            "metadata": {"name": &*self.key.name, "uid": &*self.uid, "resourceVersion": version},
            "spec": self.spec,
            "status": status,
        });
        let header = Header {
            // As for an object whose spec does not change: a due time is no change that would forgive earlier failures.
            generation: 1,
            ..Header::bare(self.key.clone(), &*self.uid, version.as_str())
        };
        Object::new(header, text.to_string())
    }

    /// When the timer was due last and is due next, for the status, and why it cannot run or keep that.
    pub(crate) fn to_json(&self) -> Value {
        let mut progress = self.progress().clone();
        let (pending, last) = (progress.pending(), progress.kept().and_then(|kept| kept.last));
        let next = progress.next(&self.rule, windlass_world::now());
        let text = |time: Option<DueTime>| time.map(|time| time.to_string());
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let not_kept = self.failure.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(ToString::to_string);
        json!({
            "rule": self.words, "dueTime": text(pending), "lastDueTime": text(last), "nextDueTime": text(next),
            "waits": waits, "notKept": not_kept,
        })
    }

    fn progress(&self) -> MutexGuard<'_, TimerProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The due time that the object of a call is about.
fn due_of(object: &Object) -> Option<DueTime> {
    let millis = object.header.version.number().filter(|millis| *millis > 0)?;
    Some(DueTime::at(Duration::from_millis(millis)))
}

#[cfg(test)]
pub(super) mod tests {
    use futures::FutureExt;
    use windlass_core::queue::hot_loop::SlowMark;

    use super::*;

    /// Records that fail while the switch is on.
    #[derive(Clone, Default)]
    pub(in crate::dispatch) struct NotedRecords {
        fails: Arc<AtomicBool>,
        pub(in crate::dispatch) kept: Arc<Mutex<Option<KeptProgress>>>,
    }

    impl TimerRecords for NotedRecords {
        fn read(&self) -> BoxFuture<'_, Result<Option<KeptProgress>, String>> {
            async {
                if self.fails.load(Ordering::Relaxed) {
                    return Err("it is down".to_owned());
                }
                Ok(self.kept.lock().expect("no panic").clone())
            }
            .boxed()
        }

        fn write<'a>(&'a self, progress: &'a KeptProgress) -> BoxFuture<'a, Result<(), String>> {
            async {
                if self.fails.load(Ordering::Relaxed) {
                    return Err("it is down".to_owned());
                }
                *self.kept.lock().expect("no panic") = Some(progress.clone());
                Ok(())
            }
            .boxed()
        }
    }

    impl NotedRecords {
        fn last(&self) -> Option<DueTime> {
            self.kept.lock().expect("no panic").as_ref().and_then(|kept| kept.last)
        }
    }

    /// A timer that is due every hour.
    pub(in crate::dispatch) fn timer(missed: &str, records: &NotedRecords) -> ControllerTimer {
        let declared = json!({"intervalMs": 3_600_000, "missed": missed});
        let declared = serde_json::from_value(declared).expect("a timer");
        let kind = ObjectKind::new("windlass.dev/v1", "Timer");
        ControllerTimer::new(["shop", "often"], kind, &declared, Arc::default(), Box::new(records.clone()))
    }

    /// A timer whose first due time has come.
    async fn due(records: &NotedRecords) -> (ControllerTimer, DueTime) {
        let timer = timer("once", records);
        timer.load().await.expect("read");
        let due = timer.next().expect("an interval is due at once");
        assert_eq!(timer.reach(due, due.since_1970()), TimerStep::Call(due));
        (timer, due)
    }

    #[tokio::test]
    async fn a_due_time_is_handled_by_a_call_that_asks_for_no_other() {
        for (end, is_handled) in [
            (CallEnd::Done, true),
            (CallEnd::FailedForGood, true),
            (CallEnd::RequeueAfter, false),
            (CallEnd::Failed, false),
            (CallEnd::Denied, false),
            (CallEnd::NotMade, false),
        ] {
            let records = NotedRecords::default();
            let (timer, due) = due(&records).await;
            timer.ends(Some(&timer.object()), end).await.expect("kept");
            assert_eq!(records.last(), is_handled.then_some(due), "{end:?}");
            assert_eq!(timer.is_pending(), !is_handled, "{end:?}");
        }
    }

    #[tokio::test]
    async fn the_object_of_a_call_has_its_due_time_and_the_last_one() {
        let (timer, due) = due(&NotedRecords::default()).await;
        let object = |timer: &ControllerTimer| -> Value { serde_json::from_str(&timer.object().text()).expect("JSON") };
        let expected = json!({
            "apiVersion": "windlass.dev/v1", "kind": "Timer",
            "metadata": {
                "name": "often", "uid": "timer.shop.often", "resourceVersion": due.since_1970().as_millis().to_string(),
            },
            "spec": {"intervalMs": 3_600_000},
            "status": {"dueTime": due.to_string()},
        });
        assert_eq!(object(&timer), expected);
        timer.ends(Some(&timer.object()), CallEnd::Done).await.expect("kept");
        assert_eq!(object(&timer)["status"], json!({"lastDueTime": due.to_string()}));
        timer.ends(Some(&timer.object()), CallEnd::Done).await.expect("a call between due times handles none");
    }

    fn triggers(reasons: &[TriggerReason]) -> Triggers {
        let mut triggers = Triggers::default();
        for reason in reasons {
            triggers.note(&Arc::new((*reason).into()));
        }
        triggers
    }

    #[tokio::test]
    async fn a_retry_or_requeue_of_a_handled_due_time_makes_no_call() {
        use TriggerReason::{Changed, Configuration, RequeueAfter, Retry, Start};
        let (timer, _) = due(&NotedRecords::default()).await;
        let begins = |timer: &ControllerTimer, reasons: &[_]| timer.begins(&timer.object(), &triggers(reasons));
        assert!(begins(&timer, &[RequeueAfter]), "it is due");
        timer.ends(Some(&timer.object()), CallEnd::Failed).await.expect("kept");
        assert!(begins(&timer, &[Retry]), "it is still due");
        timer.ends(Some(&timer.object()), CallEnd::Done).await.expect("kept");
        for reasons in [&[][..], &[RequeueAfter], &[Retry], &[Configuration], &[Start]] {
            assert!(!begins(&timer, reasons), "{reasons:?}");
        }
        assert!(begins(&timer, &[Retry, Changed]));
        timer.ends(Some(&timer.object()), CallEnd::RequeueAfter).await.expect("kept");
        assert!(begins(&timer, &[RequeueAfter]), "the call for a change has asked for it");
        timer.ends(Some(&timer.object()), CallEnd::Done).await.expect("kept");
        assert!(!begins(&timer, &[RequeueAfter]));
        assert!(begins(&timer.following_changes(true), &[Start]), "changes may have been missed");
    }

    #[tokio::test]
    async fn failures_are_not_forgiven_at_the_next_due_time() {
        let (timer, _) = due(&NotedRecords::default()).await;
        let now = timer.object();
        timer.progress().finish(due_of(&now).expect("it is due"));
        assert_eq!(SlowMark::of(&now.header), SlowMark::of(&timer.object().header));
    }

    #[tokio::test]
    async fn the_status_says_why_a_timer_waits_or_keeps_nothing() {
        let records = NotedRecords::default();
        records.fails.store(true, Ordering::Relaxed);
        let timer = timer("once", &records);
        timer.load().await.expect_err("it is down");
        assert_eq!((&timer.to_json()["waits"], &timer.to_json()["notKept"]), (&json!("it is down"), &Value::Null));
        records.fails.store(false, Ordering::Relaxed);
        timer.load().await.expect("read");
        records.fails.store(true, Ordering::Relaxed);
        timer.keep().await.expect_err("it is down");
        assert_eq!((&timer.to_json()["waits"], &timer.to_json()["notKept"]), (&Value::Null, &json!("it is down")));
    }

    #[tokio::test]
    async fn progress_that_cannot_be_kept_is_reported_once_and_kept_later() {
        let records = NotedRecords::default();
        let (timer, due) = due(&records).await;
        records.fails.store(true, Ordering::Relaxed);
        let ended = timer.ends(Some(&timer.object()), CallEnd::Done).await;
        assert_eq!(ended, Err(UnkeptProgress("it is down".to_owned())));
        assert_eq!(timer.keep().await, Ok(()), "the reason is the same");
        assert_eq!(records.last(), None);
        records.fails.store(false, Ordering::Relaxed);
        assert_eq!(timer.keep().await, Ok(()));
        assert_eq!(records.last(), Some(due));
    }
}
