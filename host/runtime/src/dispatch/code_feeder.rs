//! Maps the events of a watch to keys in a workqueue by the plugin's own code (ADR 23).
//!
//! The mapper is called in batches, under the plugin's CPU share and without delaying other work: events that come
//! meanwhile are buffered, up to a limit. If the mapper fails or too many events come, the affected primaries are
//! unknown, so every primary runs, at the lowest priority.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;
use windlass_core::cache::mapping::{Primaries as _, Target};
use windlass_core::cache::watch::{IndexSource, WatchEvent};
use windlass_core::object::ObjectKey;
use windlass_core::object::labels::Labels;
use windlass_core::retry::{Retries, RetryPolicy};
use windlass_wasm::{ChangeBatch, ObjectChange};

use crate::dispatch::feeder::{EventSource, QueueFeeder, discard, event_now};
use crate::dispatch::sink::KeySink;
use crate::supervise::jittered_policy;

/// The most changes in one call.
const CODE_CALL_CHANGES_MAX: usize = 256;
/// The most bytes of text in one call, unless a single change is larger.
const CODE_CALL_BYTES_MAX: usize = 1 << 20;
/// The maximum number of events that wait. Each is kept with the previous state of its object.
const WAITING_EVENTS_MAX: usize = 1_024;
/// The most keys that one answer queues. Beyond that it is quicker to run every primary, and equally correct.
const ANSWER_KEYS_MAX: usize = 10_000;
/// The pauses between two runs of every primary.
const REQUEUE_ALL_BACKOFF: RetryPolicy = jittered_policy(Duration::from_millis(100), Duration::from_secs(15));
/// After this long without a run of every primary, the pauses start from the shortest.
const REQUEUE_ALL_BACKOFF_RESET: Duration = Duration::from_mins(1);

/// The plugin's own code that maps changes to primaries.
pub(crate) trait MapChanges: Send + Sync + 'static {
    /// The targets of each change. The error says why there are none, for people.
    fn map(&self, batch: ChangeBatch) -> BoxFuture<'static, Result<Vec<Vec<Target>>, String>>;

    /// Whether the policy hides the object with this key from the plugin.
    fn hides(&self, key: &ObjectKey) -> bool;

    /// Whether the caches that the mapper reads are filled. Changes before that need no mapping, because every primary
    /// runs later.
    fn may_begin(&self) -> bool;
}

/// Feeds a queue with the keys that the plugin's own code names.
pub(crate) struct CodeFeeder<S, M> {
    source: S,
    sink: KeySink,
    mapper: M,
    controller: Arc<str>,
    /// The events that wait for a call.
    waiting: VecDeque<WatchEvent>,
    /// The number of changes in the next call. It is smaller after a failed call, in order to find the change that
    /// fails.
    batch: usize,
    /// True if a batch was taken and its keys were not queued yet.
    in_hand: bool,
    /// True if every primary must run, because some change could not be mapped.
    missed: bool,
    /// The earliest time at which every primary may run again.
    not_before: Instant,
    /// The last time at which every primary was queued.
    made_up: Option<Instant>,
    retries: Retries,
}

/// A failed attempt at a batch.
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    /// The mapper failed, or its answer is invalid.
    Mapper(String),
    /// The mapper names more keys than are worth queueing one by one.
    TooMany,
}

impl<S: EventSource, M: MapChanges> CodeFeeder<S, M> {
    pub(crate) fn new(source: S, sink: KeySink, mapper: M, controller: Arc<str>) -> Self {
        Self {
            source,
            sink,
            mapper,
            controller,
            waiting: VecDeque::new(),
            batch: CODE_CALL_CHANGES_MAX,
            in_hand: false,
            missed: false,
            not_before: Instant::now(),
            made_up: None,
            retries: REQUEUE_ALL_BACKOFF.begin(),
        }
    }

    /// Queues every primary, which makes up for all changes until now. Sets the earliest time at which this may happen
    /// again.
    fn make_up(&mut self) {
        self.sink.queue_all();
        self.waiting.clear();
        (self.in_hand, self.missed) = (false, false);
        let now = Instant::now();
        if self.made_up.is_none_or(|last| now >= last + REQUEUE_ALL_BACKOFF_RESET) {
            self.retries.reset();
        }
        self.made_up = Some(now);
        self.not_before = now + self.retries.pause(windlass_world::random());
    }

    /// Waits until there is something to do. `false` if there is nothing more to do.
    async fn wait(&mut self) -> bool {
        while self.waiting.is_empty() && !self.is_due() {
            let (missed, not_before) = (self.missed, self.not_before);
            let due = async {
                if missed { tokio::time::sleep_until(not_before).await } else { std::future::pending().await }
            };
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
                () = due => {}
            }
        }
        true
    }

    fn is_due(&self) -> bool {
        self.missed && Instant::now() >= self.not_before
    }

    /// Buffers an event if it matters and there is room. The objects of first lists do not matter, and neither do
    /// changes before all first lists have arrived, because every primary runs when a controller begins.
    fn hold(&mut self, event: WatchEvent) {
        if matches!(event, WatchEvent::Applied { initial: true, .. })
            || !self.mapper.may_begin()
            || self.mapper.hides(event.key())
            || !self.sink.route.counts(&event)
        {
            return;
        }
        if self.waiting.len() < WAITING_EVENTS_MAX {
            self.waiting.push_back(event);
        } else {
            // Every primary will run, and will see everything up to now.
            self.waiting.clear();
            self.missed = true;
        }
    }

    /// The next events and their changes for the mapper: at least one, if any waits.
    fn take_batch(&mut self) -> (Vec<WatchEvent>, Vec<ObjectChange>) {
        let (mut events, mut changes, mut bytes) = (Vec::new(), Vec::new(), 0);
        while events.len() < self.batch
            && let Some(event) = self.waiting.pop_front()
        {
            let change = self.sink.route.change(&event);
            bytes += [&change.old, &change.new].into_iter().flatten().map(|text| text.len()).sum::<usize>();
            if bytes > CODE_CALL_BYTES_MAX && !events.is_empty() {
                self.waiting.push_front(event);
                break;
            }
            events.push(event);
            changes.push(change);
        }
        (events, changes)
    }

    /// Calls the mapper, and buffers the events that come meanwhile.
    async fn ask(&mut self, changes: Vec<ObjectChange>) -> Result<Vec<Vec<Target>>, Trouble> {
        let watch = self.sink.route.watch.clone().unwrap_or_default();
        let mut mapped = self.mapper.map(ChangeBatch { controller: self.controller.clone(), watch, changes });
        let mut has_more = true;
        loop {
            tokio::select! {
                biased;
                answer = &mut mapped => return answer.map_err(Trouble::Mapper),
                event = self.source.next(), if has_more => match event {
                    Some(event) => self.hold(event),
                    None => has_more = false,
                },
            }
        }
    }

    /// Queues the keys that the mapper has named.
    async fn queue(&mut self, events: &[WatchEvent], answer: Vec<Vec<Target>>) -> Result<(), Trouble> {
        let (mut found, mut all) = (HashMap::new(), Vec::new());
        let mut count = 0;
        for targets in answer {
            let keys = self.keys(targets, &mut found)?;
            count += keys.len();
            if count > ANSWER_KEYS_MAX {
                return Err(Trouble::TooMany);
            }
            all.push(keys);
            // Yields, as other tasks wait for this thread.
            tokio::task::consume_budget().await;
        }
        for (event, keys) in events.iter().zip(all) {
            self.sink.queue(keys.into_iter().collect(), event);
        }
        Ok(())
    }

    /// The existing primaries among `targets`. A value in an index is looked up once in a batch.
    fn keys(
        &self,
        targets: Vec<Target>,
        found: &mut HashMap<(Arc<str>, String), Vec<ObjectKey>>,
    ) -> Result<BTreeSet<ObjectKey>, Trouble> {
        let mut keys = BTreeSet::new();
        for target in targets {
            match target {
                Target::Primary(key) => keys.extend(self.sink.primaries.get(&key).map(|_| key)),
                Target::Indexed { index, value } => {
                    let place = (index, value);
                    if !found.contains_key(&place) {
                        let indexed = self.indexed(&place.0, &place.1).map_err(Trouble::Mapper)?;
                        found.insert(place.clone(), indexed);
                    }
                    keys.extend(found[&place].iter().cloned());
                }
            }
            if keys.len() > ANSWER_KEYS_MAX {
                return Err(Trouble::TooMany);
            }
        }
        Ok(keys)
    }

    fn indexed(&self, index: &Arc<str>, value: &str) -> Result<Vec<ObjectKey>, String> {
        let Some(source) = self.sink.primaries.index(index) else {
            return Err(format!(
                "it names the index `{index}`, but the manifest declares no such index for the primary"
            ));
        };
        if let (IndexSource::Selector { .. }, Err(error)) = (source, value.parse::<Labels>()) {
            return Err(format!("the value for the index `{index}`, which is of selectors: {error}"));
        }
        Ok(self.sink.primaries.indexed(index, value))
    }

    /// Makes one call about the waiting events.
    async fn step(&mut self) {
        self.in_hand = true;
        let (events, changes) = self.take_batch();
        let done = match self.ask(changes).await {
            Ok(answer) => self.queue(&events, answer).await,
            Err(trouble) => Err(trouble),
        };
        match done {
            Ok(()) => self.batch = (2 * self.batch).min(CODE_CALL_CHANGES_MAX),
            Err(_) if events.len() > 1 => {
                // One of these changes is at fault. Smaller batches will find it.
                self.batch = events.len() / 2;
                events.into_iter().rev().for_each(|event| self.waiting.push_front(event));
            }
            Err(Trouble::TooMany) => self.missed = true,
            Err(Trouble::Mapper(error)) => {
                self.missed = true;
                tracing::warn!(
                    controller = &*self.controller,
                    watch = self.sink.route.watch.as_deref(),
                    error,
                    "the mapper failed: every primary runs instead"
                );
            }
        }
        self.in_hand = false;
    }
}

impl<S: EventSource + 'static, M: MapChanges> QueueFeeder for CodeFeeder<S, M> {
    async fn run(&mut self) {
        // The previous run stopped in the middle, so it is not known which keys were queued.
        self.missed |= self.in_hand;
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

    /// Queues every primary if there are changes left, because the mapper is not called any more.
    fn finish(&mut self) {
        while let Some(event) = event_now(&mut self.source) {
            self.hold(event);
        }
        if self.missed || self.in_hand || !self.waiting.is_empty() {
            self.make_up();
        }
    }

    async fn discard(&mut self) -> Infallible {
        discard(&mut self.source).await
    }
}

#[cfg(test)]
mod tests;
