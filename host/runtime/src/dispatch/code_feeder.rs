//! Feeds a workqueue from a watch for which the plugin's own code is asked (ADR 23): which changes count, to which
//! primaries they lead, or both. If the code decides which primaries count, it also feeds from the controller's other
//! watches, because they take part in its [rescans](crate::dispatch::rescan).
//!
//! The code is called in batches, under the plugin's CPU share and without delaying other work: events that come
//! meanwhile are buffered, up to a limit. Whatever cannot be asked counts. If it is unknown which primaries are
//! affected, every primary runs, at the lowest priority.

mod judge;
mod targets;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;
use windlass_core::cache::mapping::{Mapping, Target};
use windlass_core::cache::watch::WatchEvent;
use windlass_core::defect::Defect;
use windlass_core::object::ObjectKey;
use windlass_core::retry::{Retries, RetryPolicy};
use windlass_wasm::{ChangeBatch, ObjectChange};

use self::judge::AskingPause;
use crate::dispatch::feeder::{EventSource, QueueFeeder, discard, event_now};
use crate::dispatch::rescan::Rescan;
use crate::dispatch::sink::KeySink;
use crate::supervise::jittered_policy;

/// The most changes in one call.
const CODE_CALL_CHANGES_MAX: usize = 256;
/// The most bytes of text in one call, unless a single change is larger.
const CODE_CALL_BYTES_MAX: usize = 1 << 20;
/// The maximum number of events that wait. Each is kept with the previous state of its object.
const WAITING_EVENTS_MAX: usize = 1_024;
/// The pauses between two runs of every primary.
const REQUEUE_ALL_BACKOFF: RetryPolicy = jittered_policy(Duration::from_millis(100), Duration::from_secs(15));
/// After this long without a run of every primary, the pauses start from the shortest.
const REQUEUE_ALL_BACKOFF_RESET: Duration = Duration::from_mins(1);

/// The plugin's own code for watches.
pub(crate) trait MapChanges: Send + Sync + 'static {
    /// Whether each change counts. The error says why that is unknown, for people.
    fn matches(&self, batch: ChangeBatch) -> BoxFuture<'static, Result<Vec<bool>, String>>;

    /// The targets of each change. The error says why there are none, for people.
    fn map(&self, batch: ChangeBatch) -> BoxFuture<'static, Result<Vec<Vec<Target>>, String>>;

    /// Reports that the code has filtered out this many changes.
    fn filtered(&self, changes: usize);

    /// Whether the policy hides the object with this key from the plugin.
    fn hides(&self, key: &ObjectKey) -> bool;

    /// Whether the caches that the code reads are filled. Changes before that need not be handled: every primary is yet
    /// to run, or a rescan is yet to begin.
    fn may_begin(&self) -> bool;
}

/// Feeds a queue with the keys of changes that the plugin's own code lets pass or maps.
pub(crate) struct CodeFeeder<S, M> {
    source: S,
    sink: KeySink,
    mapper: M,
    controller: Arc<str>,
    /// The changes that wait for a call.
    waiting: VecDeque<WatchEvent>,
    /// `None` if the objects of the cache lead to no key that is not queued anyway when every primary runs.
    rescan: Option<Rescan>,
    /// The number of changes in the next call. It is smaller after a failed call, in order to find the change that
    /// fails.
    batch: usize,
    /// The batch that was taken, without the changes that the code has filtered out. Empty once its keys are queued.
    in_hand: Vec<TakenChange>,
    /// While it lasts, the code is not asked which changes count.
    asking_pause: AskingPause,
    /// True if every primary must run, because some change could not be mapped.
    missed: bool,
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
enum Trouble {
    /// The code failed, or its answer is invalid.
    Code(String),
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
            waiting: VecDeque::new(),
            rescan,
            batch: CODE_CALL_CHANGES_MAX,
            in_hand: Vec::new(),
            asking_pause: AskingPause::default(),
            missed: false,
            not_before: Instant::now(),
            made_up: None,
            retries: REQUEUE_ALL_BACKOFF.begin(),
        }
    }

    /// Queues every primary, which makes up for all unmapped changes until now. Sets the earliest time of the next.
    fn make_up(&mut self) {
        self.sink.queue_all();
        if self.is_mapped_by_code() {
            self.waiting.clear();
            self.rescan.iter_mut().for_each(Rescan::stop);
        }
        self.missed = false;
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
            if !self.waiting.is_empty() || self.is_due() || self.is_rescanning() {
                return true;
            }
            let (missed, not_before) = (self.missed, self.not_before);
            let due = async { if missed { tokio::time::sleep_until(not_before).await } else { pending().await } };
            let rescan = self.rescan.as_mut();
            let requested =
                async { if let Some(rescan) = rescan { rescan.requested().await } else { pending().await } };
            tokio::select! {
                biased;
                event = self.source.next() => match event {
                    Some(event) => self.hold(event),
                    None if self.missed => {
                        tokio::time::sleep_until(not_before).await;
                        return true;
                    }
                    None => return false,
                },
                () = requested => {}
                () = due => {}
            }
        }
    }

    fn begin_rescan(&mut self) {
        if let Some(rescan) = &mut self.rescan {
            rescan.begin_requested(|| self.mapper.may_begin());
        }
    }

    fn is_due(&self) -> bool {
        self.missed && Instant::now() >= self.not_before
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

    /// Buffers an event if it may count. If there is no room, changes count without a question.
    fn hold(&mut self, event: WatchEvent) {
        self.sink.remember_gone(&event);
        if !self.may_count(&event) {
            return;
        }
        if self.waiting.len() < WAITING_EVENTS_MAX {
            self.waiting.push_back(event);
        } else if self.is_mapped_by_code() {
            // Every primary will run, and will see everything up to now.
            self.waiting.clear();
            self.missed = true;
        } else {
            self.waiting.push_back(event);
            if let Some(oldest) = self.waiting.pop_front() {
                self.feed(&oldest);
            }
        }
    }

    fn may_count(&self, event: &WatchEvent) -> bool {
        let is_handled_later = match event {
            // Every primary runs when a controller begins, or the cache is rescanned.
            WatchEvent::Applied { initial: true, .. } => true,
            WatchEvent::Applied { initial: false, .. } => !self.mapper.may_begin(),
            WatchEvent::Deleted(_) if Defect::JudgedDeletionIsLost.is_seeded() && self.sink.route.asks_code() => true,
            WatchEvent::Deleted(_) => self.is_mapped_by_code() && !self.mapper.may_begin(),
        };
        !is_handled_later && !self.hides(event) && self.sink.route.counts(event)
    }

    /// The next event: of the changes, or else of the rescan.
    fn next_event(&mut self) -> Option<WatchEvent> {
        if let Some(event) = self.waiting.pop_front() {
            return Some(event);
        }
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
            _ => self.waiting.push_front(event),
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
    async fn answer<T>(&mut self, mut call: BoxFuture<'static, Result<T, String>>) -> Result<T, Trouble> {
        let mut has_more = true;
        loop {
            tokio::select! {
                biased;
                answer = &mut call => return answer.map_err(Trouble::Code),
                event = self.source.next(), if has_more => match event {
                    Some(event) => self.hold(event),
                    None => has_more = false,
                },
            }
        }
    }

    /// After a panic: counts the batch that was in hand, as it is not known which of its keys were queued. If an event
    /// makes the host panic once more, it is given up, and every primary runs.
    fn recover(&mut self) {
        let is_unmapped = self.is_mapped_by_code() && !self.in_hand.is_empty();
        let missed = self.missed || is_unmapped;
        self.missed |= !self.in_hand.is_empty();
        while let Some(taken) = self.in_hand.pop() {
            self.feed(&taken.event);
        }
        self.missed = missed;
    }

    /// Queues the keys that `event` concerns by the declared mapping, so none if the code maps.
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
        // One event is enough to run every primary.
        let events = if self.sink.route.concerns_all() { 1 } else { self.in_hand.len() };
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
            Err(Trouble::TooMany) => self.missed = true,
            Err(Trouble::Code(error)) => {
                self.missed = true;
                tracing::warn!(
                    controller = &*self.controller,
                    watch = self.sink.route.watch.as_deref(),
                    error,
                    "the mapper failed: every primary runs instead"
                );
            }
        }
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

    /// Without further calls, all changes that are left count. A rescan that has not ended is left to the other
    /// generation, which begins with one.
    fn finish(&mut self) {
        while let Some(event) = event_now(&mut self.source) {
            self.hold(event);
        }
        let taken = std::mem::take(&mut self.in_hand).into_iter().map(|taken| taken.event);
        let left: Vec<_> =
            taken.chain(std::mem::take(&mut self.waiting)).filter(|event| !is_of_rescan(event)).collect();
        if self.missed || (self.is_mapped_by_code() && !left.is_empty()) {
            self.make_up();
        }
        for event in &left {
            self.feed(event);
        }
    }

    async fn discard(&mut self) -> Infallible {
        discard(&mut self.source).await
    }
}

#[cfg(test)]
mod tests;
