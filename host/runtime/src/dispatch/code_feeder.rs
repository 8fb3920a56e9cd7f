//! Feeds a workqueue from a watch about whose changes the plugin's own code decides (ADR 23): which changes count, to
//! which primaries they lead, or both. If the code decides which primaries count, it also feeds from the controller's
//! other watches, because they take part in its [rescans](crate::dispatch::rescan).
//!
//! The code is called in batches, under the plugin's CPU share and without delaying other work: events that come
//! meanwhile are buffered, up to a limit. A change about which the code cannot be asked counts. If it is unknown which
//! primaries are affected, every primary runs, at the lowest priority.

mod asked_code;
mod judge;
mod targets;
mod waiting;

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;
use windlass_core::cache::mapping::Mapping;
use windlass_core::cache::watch::WatchEvent;
use windlass_core::defect::Defect;
use windlass_core::object::ObjectKey;
use windlass_core::queue::outcome::CallResult;
use windlass_core::retry::{Retries, RetryPolicy};
use windlass_wasm::{ChangeBatch, ObjectChange};

use self::asked_code::note_result;
pub(crate) use self::asked_code::{CodeFailure, MapChanges};
use self::judge::AskingPause;
pub(crate) use self::targets::{ANSWER_KEYS_MAX, existing_primaries};
#[cfg(test)]
pub(crate) use self::waiting::WAITING_EVENTS_MAX;
pub(crate) use self::waiting::WaitingChanges;
use crate::dispatch::feeder::{EventSource, QueueFeeder, discard, event_now};
use crate::dispatch::rescan::Rescan;
use crate::dispatch::sink::KeySink;
use crate::supervise::jittered_policy;

/// The most changes in one call.
const CODE_CALL_CHANGES_MAX: usize = 256;
/// The most bytes of text in one call, unless a single change is larger.
const CODE_CALL_BYTES_MAX: usize = 1 << 20;
/// One event in this many is taken from the rescan, even if changes wait. Otherwise a flood of changes would hold up
/// the rescan for ever.
const EVENTS_PER_RESCANNED: usize = 8;
/// The pauses between two runs of every primary.
const REQUEUE_ALL_BACKOFF: RetryPolicy = jittered_policy(Duration::from_millis(100), Duration::from_secs(15));
/// After this long without a run of every primary, the pauses start from the shortest.
const REQUEUE_ALL_BACKOFF_RESET: Duration = Duration::from_mins(1);

/// Feeds a queue with the keys of changes that the plugin's own code lets pass or maps.
pub(crate) struct CodeFeeder<S, M> {
    source: S,
    sink: KeySink,
    mapper: M,
    controller: Arc<str>,
    /// The changes that wait for a call.
    waiting: WaitingChanges,
    /// The number of events that were taken so far.
    taken: usize,
    /// `None` if no rescan is needed, because running every primary queues every key that the cached objects lead to.
    rescan: Option<Rescan>,
    /// The number of changes in the next call. It is smaller after a failed call, in order to find the change that
    /// fails.
    batch: usize,
    /// The batch that was taken, without the changes that the code has filtered out. Empty once its keys are queued.
    in_hand: Vec<TakenChange>,
    /// During this pause, the code is not asked which changes count.
    asking_pause: AskingPause,
    /// The earliest time at which every primary may run again.
    not_before: Instant,
    /// The last time at which every primary was queued.
    made_up: Option<Instant>,
    retries: Retries,
}

/// An event of the current batch, and what the code is to see of it.
struct TakenChange {
    event: WatchEvent,
    /// `None` if the code is not asked about this watch.
    change: Option<ObjectChange>,
}

/// A failed attempt at a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The code failed, or its answer is invalid.
    Code(CallResult),
    /// The mapper names more keys than are worth queueing one by one.
    TooMany,
}

fn is_of_rescan(event: &WatchEvent) -> bool {
    matches!(event, WatchEvent::Applied { initial: true, .. })
}

impl<S: EventSource, M: MapChanges> CodeFeeder<S, M> {
    pub(crate) fn new(source: S, sink: KeySink, mapper: M, controller: Arc<str>, rescan: Option<Rescan>) -> Self {
        Self {
            source,
            sink,
            mapper,
            controller,
            waiting: WaitingChanges::default(),
            taken: 0,
            rescan,
            batch: CODE_CALL_CHANGES_MAX,
            in_hand: Vec::new(),
            asking_pause: AskingPause::default(),
            not_before: Instant::now(),
            made_up: None,
            retries: REQUEUE_ALL_BACKOFF.begin(),
        }
    }

    /// The same feeder, which begins with the changes that happened before it existed.
    pub(crate) fn beginning_with(mut self, mut waiting: WaitingChanges) -> Self {
        waiting.retain(|event| !self.hides(event));
        self.waiting = waiting;
        self
    }

    /// Queues every primary, which makes up for all unmapped changes until now. Sets the earliest time at which every
    /// primary may be queued again.
    fn make_up(&mut self) {
        self.sink.queue_all();
        if self.is_mapped_by_code() {
            self.waiting.clear();
            self.rescan.iter_mut().for_each(Rescan::stop);
        }
        self.waiting.missed = false;
        let now = Instant::now();
        if self.made_up.is_none_or(|last| now >= last + REQUEUE_ALL_BACKOFF_RESET) {
            self.retries.reset();
        }
        self.made_up = Some(now);
        self.not_before = now + self.retries.pause(windlass_world::random());
    }

    /// Waits until there is something to do. `false` if there is nothing more to do.
    async fn wait(&mut self) -> bool {
        loop {
            self.begin_rescan();
            let may_begin = self.mapper.may_begin();
            if may_begin && (!self.waiting.is_empty() || self.is_due() || self.is_rescanning()) {
                return true;
            }
            let (missed, not_before) = (self.waiting.missed, self.not_before);
            let due = async { if missed { tokio::time::sleep_until(not_before).await } else { pending().await } };
            let (rescan, mapper) = (self.rescan.as_mut(), &self.mapper);
            let requested =
                async { if let Some(rescan) = rescan { rescan.requested().await } else { pending().await } };
            tokio::select! {
                biased;
                event = self.source.next() => match event {
                    Some(event) => self.hold(event),
                    None if self.waiting.missed => {
                        tokio::time::sleep_until(not_before).await;
                        return true;
                    }
                    None => return false,
                },
                () = requested => {}
                () = due, if may_begin => {}
                () = async { mapper.begins().await }, if !may_begin => {}
            }
        }
    }

    fn begin_rescan(&mut self) {
        if let Some(rescan) = &mut self.rescan {
            rescan.begin_requested(|| self.mapper.may_begin());
        }
    }

    fn is_due(&self) -> bool {
        self.waiting.missed && Instant::now() >= self.not_before
    }

    fn is_rescanning(&self) -> bool {
        self.rescan.as_ref().is_some_and(|rescan| !rescan.is_over())
    }

    fn is_mapped_by_code(&self) -> bool {
        self.sink.route.mapping == Mapping::Mapper
    }

    fn hides(&self, event: &WatchEvent) -> bool {
        self.sink.route.asks_code() && self.mapper.hides(event.key())
    }

    /// Buffers an event if it may count. If there is no room, changes count without asking the code.
    fn hold(&mut self, event: WatchEvent) {
        if self.hides(&event) {
            // Do not remember the UID: no call about the hidden object will ever forget it.
            return;
        }
        self.sink.remember_gone(&event);
        if !self.may_count(&event) {
            return;
        }
        if let Some(oldest) = self.waiting.hold(event, self.sink.route.runs_all_unmapped()) {
            self.feed(&oldest);
        }
    }

    fn may_count(&self, event: &WatchEvent) -> bool {
        // Every primary runs when a controller begins, or the cache is rescanned.
        let is_handled_later = match event {
            WatchEvent::Applied { initial: true, .. } => true,
            WatchEvent::Deleted(_) if Defect::JudgedDeletionIsLost.is_seeded() && self.sink.route.asks_code() => true,
            _ if self.mapper.may_begin() => false,
            _ => self.rescan.is_none() || !self.sink.route.is_missed_by_rescan(event, &self.sink.primaries),
        };
        !is_handled_later && self.sink.route.counts(event)
    }

    /// The next event: of the changes, or else of the rescan.
    fn next_event(&mut self) -> Option<WatchEvent> {
        self.taken = self.taken.wrapping_add(1);
        let rescanned = if self.taken.is_multiple_of(EVENTS_PER_RESCANNED) { self.next_of_rescan() } else { None };
        rescanned.or_else(|| self.waiting.next()).or_else(|| self.next_of_rescan())
    }

    fn next_of_rescan(&mut self) -> Option<WatchEvent> {
        loop {
            let event = self.rescan.as_mut()?.next()?;
            if !self.hides(&event) {
                return Some(event);
            }
        }
    }

    fn put_back(&mut self, event: WatchEvent) {
        match &mut self.rescan {
            Some(rescan) if is_of_rescan(&event) => rescan.put_back(&event),
            _ => self.waiting.put_back(event),
        }
    }

    /// Takes the next batch in hand: at least one event, if there is any.
    fn take_batch(&mut self) {
        let mut bytes = 0;
        while self.in_hand.len() < self.batch
            && let Some(event) = self.next_event()
        {
            let change = self.sink.route.asks_code().then(|| self.sink.route.change(&event));
            let texts = change.iter().flat_map(|change| [&change.old, &change.new]).flatten();
            bytes += texts.map(|text| text.len()).sum::<usize>();
            if bytes > CODE_CALL_BYTES_MAX && !self.in_hand.is_empty() {
                self.put_back(event);
                break;
            }
            self.in_hand.push(TakenChange { event, change });
        }
    }

    fn batch_of(&self, changes: Vec<ObjectChange>) -> ChangeBatch {
        let watch = self.sink.route.watch.clone().unwrap_or_default();
        ChangeBatch { controller: self.controller.clone(), watch, changes }
    }

    /// Waits for the answer of the code, and buffers the events that come meanwhile.
    async fn answer<T>(&mut self, mut call: BoxFuture<'static, T>) -> T {
        let mut has_more = true;
        loop {
            tokio::select! {
                biased;
                answer = &mut call => return answer,
                event = self.source.next(), if has_more => match event {
                    Some(event) => self.hold(event),
                    None => has_more = false,
                },
            }
        }
    }

    /// After a panic: counts the batch that was in hand, as it is not known which of its keys were queued. An event
    /// that makes the host panic once more is given up, and every primary runs.
    fn recover(&mut self) {
        let is_unmapped = self.is_mapped_by_code() && !self.in_hand.is_empty();
        let missed = self.waiting.missed || is_unmapped;
        self.waiting.missed |= !self.in_hand.is_empty();
        while let Some(taken) = self.in_hand.pop() {
            self.feed(&taken.event);
        }
        self.waiting.missed = missed;
    }

    /// Queues the keys that `event` concerns by the declared mapping. Queues none if the code maps.
    fn feed(&self, event: &WatchEvent) {
        self.queue(self.sink.route.keys(event, &self.sink.primaries), event);
    }

    fn queue(&self, keys: Vec<ObjectKey>, event: &WatchEvent) {
        match &self.rescan {
            Some(rescan) if is_of_rescan(event) => self.sink.queue_in_background(keys, rescan.trigger()),
            _ => self.sink.queue(keys, event),
        }
    }

    /// Queues the keys to which the batch in hand leads.
    async fn map(&mut self) -> Result<(), Trouble> {
        if self.is_mapped_by_code() {
            return self.map_by_code().await;
        }
        let events = self.sink.route.enough_of(self.in_hand.len());
        for TakenChange { event, .. } in self.in_hand.iter().take(events) {
            self.feed(event);
            // Yields, as other tasks wait for this thread.
            tokio::task::consume_budget().await;
        }
        Ok(())
    }

    /// Handles a batch of the waiting events.
    async fn step(&mut self) {
        self.take_batch();
        let done = match self.judge().await {
            Ok(()) => self.map().await,
            Err(trouble) => Err(trouble),
        };
        let taken = std::mem::take(&mut self.in_hand);
        match done {
            Ok(()) => self.batch = (2 * self.batch).min(CODE_CALL_CHANGES_MAX),
            Err(_) if taken.len() > 1 => {
                // One of these changes is at fault. Smaller batches will find it.
                self.batch = taken.len() / 2;
                taken.into_iter().rev().for_each(|taken| self.put_back(taken.event));
            }
            Err(Trouble::TooMany) => self.waiting.missed = true,
            Err(Trouble::Code(result)) => {
                self.waiting.missed = true;
                for taken in &taken {
                    self.report_unmapped(taken.event.key(), &result);
                }
            }
        }
    }

    /// Reports that the mapper has failed about a change of this object alone.
    fn report_unmapped(&self, key: &ObjectKey, result: &CallResult) {
        let (controller, watch, error) = (&*self.controller, self.sink.route.watch.as_deref(), result.failure());
        tracing::warn!(controller, watch, %key, error, "the mapper failed: every primary runs instead");
        note_result("map", &self.sink.route, key, result);
    }
}

impl<S: EventSource + 'static, M: MapChanges> QueueFeeder for CodeFeeder<S, M> {
    async fn run(&mut self) {
        self.recover();
        while self.wait().await {
            if self.is_due() {
                self.make_up();
                continue;
            }
            while self.waiting.len() < CODE_CALL_CHANGES_MAX
                && let Some(event) = event_now(&mut self.source)
            {
                self.hold(event);
            }
            self.step().await;
        }
    }

    /// Makes no further calls, so all changes that are left count. An unfinished rescan is left to the other
    /// generation, which begins with a rescan.
    fn finish(&mut self) {
        while let Some(event) = event_now(&mut self.source) {
            self.hold(event);
        }
        let taken = std::mem::take(&mut self.in_hand).into_iter().map(|taken| taken.event);
        let left: Vec<_> = taken.chain(self.waiting.take()).filter(|event| !is_of_rescan(event)).collect();
        if self.waiting.missed || (self.is_mapped_by_code() && !left.is_empty()) {
            self.make_up();
        }
        for event in left.iter().take(self.sink.route.enough_of(left.len())) {
            self.feed(event);
        }
    }

    async fn discard(&mut self) -> Infallible {
        discard(&mut self.source).await
    }
}

#[cfg(test)]
mod tests;
