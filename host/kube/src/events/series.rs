//! Decides which Kubernetes Events are sent and which are only counted.
//!
//! Equal events become one object with a count. A token bucket per object and plugin keeps a loop from flooding the API
//! server. Events that are not sent are still counted, so that the next one that is sent has the true count.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::call::ports::Event;
use windlass_core::object::ObjectRef;

/// The burst of events about one object: client-go's `defaultSpamBurst` (`tools/record/events_cache.go`).
const SPAM_BURST: f64 = 25.0;
/// The interval of further tokens: client-go's `defaultSpamQPS` is one in 300 seconds.
const SPAM_REFILL_INTERVAL: Duration = Duration::from_mins(5);
/// After this time without an event, the next one begins a new series: client-go's `finishTime`
/// (`tools/events/event_broadcaster.go`).
const SERIES_FINISH_TIME: Duration = Duration::from_mins(6);
/// The maximum number of series, and of buckets, that are remembered: client-go's `maxLruCacheEntries`.
const SERIES_MAX: usize = 4_096;
/// The number of entries that are dropped together when there is no room, because finding the oldest means scanning
/// them all.
const SERIES_DROPPED_TOGETHER: usize = SERIES_MAX / 8;

/// The identity of an event: equal keys mean equal contents and reporters. `regarding` is filled in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SeriesKey {
    pub(crate) plugin: Arc<str>,
    pub(crate) event: Event,
}

/// The step to take for one occurrence of an event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Send nothing: the object has had enough events for now.
    Skip,
    /// Create the Event with this count.
    Create {
        /// Greater than 1 if occurrences were skipped before.
        count: u32,
    },
    /// Update the count of the Event with this name.
    Count {
        name: String,
        /// At least 2.
        count: u32,
    },
}

#[derive(Debug, Default)]
pub(crate) struct Correlator {
    series: Bounded<SeriesKey, Series>,
    buckets: Bounded<(Arc<str>, Option<ObjectRef>), Bucket>,
}

#[derive(Debug, Default)]
struct Series {
    /// The name of the created Event.
    name: Option<String>,
    count: u32,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Option<Instant>,
}

impl Default for Bucket {
    fn default() -> Self {
        Self { tokens: SPAM_BURST, at: None }
    }
}

impl Bucket {
    fn take(&mut self, now: Instant) -> bool {
        let since = self.at.map_or(Duration::ZERO, |at| now.duration_since(at));
        self.tokens = (self.tokens + since.as_secs_f64() / SPAM_REFILL_INTERVAL.as_secs_f64()).min(SPAM_BURST);
        self.at = Some(now);
        let allowed = self.tokens >= 1.0;
        if allowed {
            self.tokens -= 1.0;
        }
        allowed
    }
}

impl Correlator {
    /// Counts an occurrence at `now` and decides what to do.
    pub(crate) fn occurred(&mut self, key: &SeriesKey, now: Instant) -> Action {
        let bucket = (Arc::clone(&key.plugin), key.event.regarding.clone());
        let allowed = self.buckets.entry(bucket, now, None).take(now);
        let series = self.series.entry(key.clone(), now, Some(SERIES_FINISH_TIME));
        series.count = series.count.saturating_add(1);
        match &series.name {
            _ if !allowed => Action::Skip,
            Some(name) => Action::Count { name: name.clone(), count: series.count },
            None => Action::Create { count: series.count },
        }
    }

    /// The Event for `key` has been created under this name.
    pub(crate) fn created(&mut self, key: &SeriesKey, name: String) {
        if let Some(series) = self.series.get(key) {
            series.name = Some(name);
        }
    }

    /// The Event for `key` no longer exists; the next occurrence begins a new series.
    pub(crate) fn forget(&mut self, key: &SeriesKey) {
        self.series.remove(key);
    }
}

/// A map of limited size. When it is full, it drops the eighth of its entries that were used longest ago.
#[derive(Debug)]
struct Bounded<K, V> {
    entries: HashMap<K, (Instant, V)>,
}

impl<K, V> Default for Bounded<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash, V: Default> Bounded<K, V> {
    /// The value for `key`. It is a new value if there is none, or if the existing one was not used for `idle`.
    fn entry(&mut self, key: K, now: Instant, idle: Option<Duration>) -> &mut V {
        if self.entries.len() >= SERIES_MAX && !self.entries.contains_key(&key) {
            let mut used: Vec<_> = self.entries.values().map(|(used, _)| *used).collect();
            let (_, youngest, _) = used.select_nth_unstable(SERIES_DROPPED_TOGETHER - 1);
            let mut left = SERIES_DROPPED_TOGETHER;
            let youngest = *youngest;
            self.entries.retain(|_, (used, _)| {
                let drops = left > 0 && *used <= youngest;
                left -= usize::from(drops);
                !drops
            });
        }
        let (used, value) = self.entries.entry(key).or_insert_with(|| (now, V::default()));
        if idle.is_some_and(|idle| now.duration_since(*used) > idle) {
            *value = V::default();
        }
        *used = now;
        value
    }

    fn get(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    fn remove(&mut self, key: &K) {
        self.entries.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::call::ports::EventType;
    use windlass_core::object::{ObjectKey, ObjectKind};

    use super::*;

    fn key(name: &str, note: &str) -> SeriesKey {
        let regarding =
            ObjectRef { kind: ObjectKind::new("v1", "Pod"), key: ObjectKey::namespaced("prod", name), uid: None };
        let event = Event {
            regarding: Some(regarding),
            related: None,
            event_type: EventType::Normal,
            reason: "Created".into(),
            action: "Create".into(),
            note: note.into(),
        };
        SeriesKey { plugin: "webapp".into(), event }
    }

    #[test]
    fn a_repeated_event_is_counted_in_the_first() {
        let (mut correlator, now) = (Correlator::default(), Instant::now());
        let key = key("a", "x");
        assert_eq!(correlator.occurred(&key, now), Action::Create { count: 1 });
        correlator.created(&key, "a.1".into());
        assert_eq!(correlator.occurred(&key, now), Action::Count { name: "a.1".into(), count: 2 });
        assert_eq!(
            correlator.occurred(&key, now + Duration::from_mins(6)),
            Action::Count { name: "a.1".into(), count: 3 }
        );
        assert_eq!(correlator.occurred(&key, now + Duration::from_mins(6) * 3), Action::Create { count: 1 });
    }

    #[test]
    fn a_series_whose_event_was_deleted_begins_again() {
        let (mut correlator, now) = (Correlator::default(), Instant::now());
        let key = key("a", "x");
        correlator.occurred(&key, now);
        correlator.created(&key, "a.1".into());
        correlator.forget(&key);
        assert_eq!(correlator.occurred(&key, now), Action::Create { count: 1 });
    }

    #[test]
    fn an_object_has_a_burst_and_then_one_event_in_five_minutes() {
        let (mut correlator, now) = (Correlator::default(), Instant::now());
        let sent = |correlator: &mut Correlator, name: &str, now| {
            (0..40).filter(|note| correlator.occurred(&key(name, &note.to_string()), now) != Action::Skip).count()
        };
        assert_eq!(sent(&mut correlator, "a", now), 25);
        assert_eq!(sent(&mut correlator, "b", now), 25, "another object has its own bucket");
        assert_eq!(sent(&mut correlator, "a", now + Duration::from_mins(5)), 1);
    }

    #[test]
    fn a_sent_event_counts_those_that_were_skipped() {
        let (mut correlator, now) = (Correlator::default(), Instant::now());
        let key = key("a", "x");
        correlator.occurred(&key, now);
        correlator.created(&key, "a.1".into());
        (0..30).for_each(|_| drop(correlator.occurred(&key, now)));
        assert_eq!(
            correlator.occurred(&key, now + Duration::from_mins(5)),
            Action::Count { name: "a.1".into(), count: 32 }
        );
    }

    #[test]
    fn memory_is_bounded() {
        let (mut correlator, now) = (Correlator::default(), Instant::now());
        for number in 0..4_096_u64 + 10 {
            correlator.occurred(&key(&number.to_string(), "x"), now + Duration::from_millis(number));
        }
        let kept = 4_096 - 512 + 10;
        assert_eq!((correlator.series.entries.len(), correlator.buckets.entries.len()), (kept, kept));
        let is_there = |number: usize, correlator: &mut Correlator| {
            correlator.series.get(&key(&number.to_string(), "x")).is_some()
        };
        assert!(!is_there(0, &mut correlator) && !is_there(512 - 1, &mut correlator), "the oldest went");
        assert!(is_there(512, &mut correlator), "no others did");
    }
}
