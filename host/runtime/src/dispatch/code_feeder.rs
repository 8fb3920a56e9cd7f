//! From the events of a watch that the plugin's own code maps to keys in a workqueue (ADR 23).
//!
//! The mapper is called in batches, under the plugin's CPU share, and off everybody's path: events that come meanwhile
//! are held, and so many only. Where it cannot be told whom something concerns, because the mapper fails or too much
//! has come, every primary runs, after all else.

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

/// Changes of one call.
const CODE_CALL_CHANGES_MAX: usize = 256;
/// And the length of their texts, unless one alone is longer.
const CODE_CALL_BYTES_MAX: usize = 1 << 20;
/// Events that wait. The states before them are held with them.
const WAITING_EVENTS_MAX: usize = 1_024;
/// Keys that one answer queues. Beyond that it is quicker to have every primary run, and no less right.
const ANSWER_KEYS_MAX: usize = 10_000;
/// The pauses before every primary runs once more.
const REQUEUE_ALL_BACKOFF: RetryPolicy = jittered_policy(Duration::from_millis(100), Duration::from_secs(15));
/// After so long without that, the next time counts as the first.
const REQUEUE_ALL_BACKOFF_RESET: Duration = Duration::from_mins(1);

/// The plugin's own code, which says whom changes concern.
pub(crate) trait MapChanges: Send + Sync + 'static {
    /// The targets of each change. Err: why there are none, for people.
    fn map(&self, batch: ChangeBatch) -> BoxFuture<'static, Result<Vec<Vec<Target>>, String>>;

    /// Whether the object with this key is none of the plugin's affair.
    fn hides(&self, key: &ObjectKey) -> bool;

    /// Whether the caches that it reads are filled. Changes before that need no mapping, because every primary is yet
    /// to run.
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
    /// Changes of the next call: fewer after one that failed, so that the change that it fails for is found.
    batch: usize,
    /// A batch has been taken, and its keys have not been queued.
    in_hand: bool,
    /// Every primary is to run: something has come of which nobody will say whom it concerns.
    missed: bool,
    /// When they may at the earliest.
    not_before: Instant,
    /// When they were told to the last time.
    made_up: Option<Instant>,
    retries: Retries,
}

/// A failed attempt at a batch.
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    /// The mapper failed, or answered what cannot be.
    Mapper(String),
    /// It names more keys than are worth queueing one by one.
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

    /// Has every primary run, which makes up for all that has come until now. Not again soon.
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

    /// Waits until something is to be done. False: there is nothing more.
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

    /// Holds an event until it is asked about, if it counts and there is room. First lists, and what changes before all
    /// of them are there, need not be: every primary runs when a controller begins.
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
            // Every primary is to run, and sees what has happened by then.
            self.waiting.clear();
            self.missed = true;
        }
    }

    /// The events that are asked about next, and the changes that they are: at least one, if any waits.
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

    /// Asks the mapper, and takes what comes meanwhile.
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

    /// Queues what the mapper has named.
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
            // Others wait for this thread.
            tokio::task::consume_budget().await;
        }
        for (event, keys) in events.iter().zip(all) {
            self.sink.queue(keys.into_iter().collect(), event);
        }
        Ok(())
    }

    /// The primaries that there are of `targets`. What an index holds is looked up once a batch.
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
                "it names the index `{index}`, and the manifest declares no such index for the primary"
            ));
        };
        if let (IndexSource::Selector { .. }, Err(error)) = (source, value.parse::<Labels>()) {
            return Err(format!("the value for the index `{index}`, which is of selectors: {error}"));
        }
        Ok(self.sink.primaries.indexed(index, value))
    }

    /// One call about what waits.
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
                // One of them is at fault, and the others are not: it is looked for.
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
        // It was stopped in the middle: nobody knows what has been queued.
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

    /// Nobody is asked any more: every primary runs, if there is anything.
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
