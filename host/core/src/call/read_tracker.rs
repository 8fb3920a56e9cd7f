//! Notes what a call reads, and whatever makes the call one that must be made again.
//!
//! It is part of the call's context, so that each part of the host that answers the plugin can note what it answers
//! from. A call whose context has a tracker that is off, which is the default, notes nothing and is never saved.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::call::gauge::{KEPT_GAUGES_MAX, SetGauge};
use crate::call::read_set::{AnswerDigest, KEPT_READS_MAX, REREAD_BYTES_MAX, Read, ReadQuestion};
use crate::object::progress::Stamp;
use crate::object::{Object, ObjectKey, ObjectKind};
use crate::write::no_op::SkipView;

/// Why a call must be made again the next time, whatever it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoiler {
    /// The plugin has got the time, of day or since something happened.
    Clock,
    /// The plugin has got random data.
    Chance,
    /// The plugin has got a seed that a recording has, or a replay, so that no other call can get it.
    Recorded,
    /// The plugin has asked why it is called.
    Triggers,
    /// The plugin's instance has served other calls, so that it may remember something.
    ReusedInstance,
    /// The plugin has emitted an Event, or added to a metric.
    Report,
    /// The plugin has asked for something that is not in the caches.
    Outside,
    /// A write was sent, or was refused before that.
    Write,
    /// A write was skipped, and it is not certain that a change of its object runs the key.
    UnfollowedSkip,
    /// A read failed.
    FailedRead,
    /// The call has read more, or set more gauges, than is kept.
    TooManyReads,
}

impl Spoiler {
    /// A fixed word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::Chance => "chance",
            Self::Recorded => "recorded",
            Self::Triggers => "triggers",
            Self::ReusedInstance => "reused-instance",
            Self::Report => "report",
            Self::Outside => "outside",
            Self::Write => "write",
            Self::UnfollowedSkip => "unfollowed-skip",
            Self::FailedRead => "failed-read",
            Self::TooManyReads => "too-many-reads",
        }
    }
}

/// The reads of a tracked call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackedReads {
    /// The reads, in the order of the call.
    pub reads: Vec<Read>,
    /// The gauges that the call has set, in their order.
    pub gauges: Vec<SetGauge>,
    /// The first reason why the call must be made again. `None` if there is none.
    pub spoiled: Option<Spoiler>,
}

impl TrackedReads {
    /// Whether these are all reads of a call, from the primary on, and nothing spoils the call.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.spoiled.is_none() && self.reads.first().is_some_and(|read| read.question == ReadQuestion::Primary)
    }
}

/// Notes the reads of one call. Clones note for the same call.
#[derive(Clone, Debug, Default)]
pub struct ReadTracker {
    noted: Option<Arc<Mutex<Tracked>>>,
    /// `None` if the next call could get other seeds.
    seed: Option<u64>,
}

#[derive(Debug, Default)]
struct Tracked {
    noted: TrackedReads,
    /// The question that is being answered.
    asked: Option<ReadQuestion>,
    /// The state that its answer comes from.
    stamp: Option<Stamp>,
    /// The text that is read for its answer, in bytes.
    source_bytes: usize,
    /// The writes that the call has asked for and that are not known to be skipped.
    writes: usize,
}

impl Tracked {
    fn spoil(&mut self, why: Spoiler) {
        self.noted.spoiled.get_or_insert(why);
    }

    /// Notes a read of which only the stamp is kept.
    fn push_by_stamp(&mut self, question: ReadQuestion) {
        match self.stamp.take() {
            stamp @ Some(_) => self.push(Read { question, stamp, answer: None }),
            None => self.spoil(Spoiler::TooManyReads),
        }
    }

    /// Notes a gauge. Only the last value of a series counts.
    fn set(&mut self, gauge: SetGauge) {
        let gauges = &mut self.noted.gauges;
        gauges.retain(|earlier| !earlier.is_of_same_series(&gauge));
        if gauges.len() < KEPT_GAUGES_MAX {
            gauges.push(gauge);
        } else {
            self.spoil(Spoiler::TooManyReads);
        }
    }

    fn push(&mut self, read: Read) {
        if self.noted.reads.len() < KEPT_READS_MAX {
            self.noted.reads.push(read);
        } else {
            self.spoil(Spoiler::TooManyReads);
        }
    }
}

impl ReadTracker {
    /// A tracker that is on.
    #[must_use]
    pub fn begin() -> Self {
        Self { noted: Some(Arc::default()), seed: None }
    }

    /// A tracker that is on, of a call that gets the seeds of its language's runtime from `seed`. Such seeds do not
    /// spoil the call, because another call with the same `seed` gets the same ones.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { seed: Some(seed), ..Self::begin() }
    }

    /// The number that the seeds of the call's runtime follow from. `None` if they need not follow from a number.
    #[must_use]
    pub fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Whether anything is noted.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.noted.is_some()
    }

    /// Notes that the call must be made again.
    pub fn spoil(&self, why: Spoiler) {
        self.with(|tracked| tracked.spoil(why));
    }

    /// Notes that `question` is asked. Its answer follows before another question.
    pub fn asks(&self, question: ReadQuestion) {
        self.with(|tracked| {
            (tracked.stamp, tracked.source_bytes) = (None, 0);
            if tracked.asked.replace(question).is_some() {
                tracked.spoil(Spoiler::FailedRead);
            }
        });
    }

    /// Notes the state that the answer to the last question comes from. Whoever answers must have read `stamp` together
    /// with the answer, or before it.
    pub fn answers_from(&self, stamp: Stamp) {
        self.with(|tracked| tracked.stamp = Some(stamp));
    }

    /// Notes that the answer to the last question takes reading so many more `bytes`. If they are many, the host does
    /// not read them again before a call.
    pub fn takes(&self, bytes: usize) {
        self.with(|tracked| tracked.source_bytes = tracked.source_bytes.saturating_add(bytes));
    }

    /// Notes the answer to the last question. `None` if there was none.
    pub fn answered(&self, answer: Option<AnswerDigest>) {
        self.with(|tracked| match (tracked.asked.take(), answer) {
            (Some(question), Some(_)) if tracked.source_bytes > REREAD_BYTES_MAX => tracked.push_by_stamp(question),
            (Some(question), Some(answer)) => {
                let stamp = tracked.stamp.take();
                tracked.push(Read { question, stamp, answer: Some(answer) });
            }
            _ => tracked.spoil(Spoiler::FailedRead),
        });
    }

    /// Notes that the last question got an answer that is too long to be read again.
    pub fn answered_at_length(&self) {
        self.with(|tracked| match tracked.asked.take() {
            Some(question) => tracked.push_by_stamp(question),
            None => tracked.spoil(Spoiler::FailedRead),
        });
    }

    /// Notes that the call sets `gauge`. `None` if it is one that cannot be kept.
    pub fn sets(&self, gauge: Option<SetGauge>) {
        self.with(|tracked| match gauge {
            Some(gauge) => tracked.set(gauge),
            None => tracked.spoil(Spoiler::TooManyReads),
        });
    }

    /// Notes that the call asks for `writes`. It is spoiled unless as many are [skipped](Self::skipped).
    pub fn asks_for_writes(&self, writes: usize) {
        self.with(|tracked| tracked.writes += writes);
    }

    /// Notes that a write was not sent, because the part of `object` that `view` shows proves that it would change
    /// nothing. `None` for the whole object.
    pub fn skipped(&self, kind: ObjectKind, key: ObjectKey, object: &Object, view: Option<SkipView>) {
        self.with(|tracked| {
            tracked.writes = tracked.writes.saturating_sub(1);
            let answer = view.as_ref().and_then(|view| AnswerDigest::of_part(view, object));
            let question = ReadQuestion::SkippedWrite { kind, key, view: view.map(Arc::new) };
            tracked.push(Read { question, stamp: Some(object.stamp()), answer });
        });
    }

    /// Takes the noted reads when the call has ended. `None` if the tracker is off.
    #[must_use]
    pub fn end(&self) -> Option<TrackedReads> {
        let mut tracked = lock(self.noted.as_ref()?);
        let Tracked { mut noted, asked, writes, .. } = std::mem::take(&mut *tracked);
        sort_skips(&mut noted.reads);
        if writes > 0 {
            noted.spoiled.get_or_insert(Spoiler::Write);
        }
        if asked.is_some() {
            noted.spoiled.get_or_insert(Spoiler::FailedRead);
        }
        Some(noted)
    }

    fn with(&self, note: impl FnOnce(&mut Tracked)) {
        if let Some(tracked) = &self.noted {
            note(&mut lock(tracked));
        }
    }
}

/// Sorts the skipped writes that follow one another. The writes of a batch run at once, so their order is the host's.
fn sort_skips(reads: &mut [Read]) {
    let skipped = |read: &Read| match &read.question {
        ReadQuestion::SkippedWrite { kind, key, .. } => Some((kind.clone(), key.clone())),
        _ => None,
    };
    for run in reads.chunk_by_mut(|one, other| skipped(one).is_some() && skipped(other).is_some()) {
        run.sort_by_cached_key(skipped);
    }
}

fn lock(tracked: &Mutex<Tracked>) -> MutexGuard<'_, Tracked> {
    tracked.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Header;

    /// Notes something in a tracker.
    type NoteReads<'a> = &'a dyn Fn(&ReadTracker);

    fn digest() -> AnswerDigest {
        AnswerDigest([7; 16])
    }

    fn object() -> Object {
        Object::new(Header::bare(skipped_key().1, "u", "1"), "{}".to_owned())
    }

    fn skipped_key() -> (ObjectKind, ObjectKey) {
        (ObjectKind::new("v1", "ConfigMap"), ObjectKey::namespaced("prod", "a"))
    }

    #[test]
    fn reads_are_noted_in_order_with_the_states_that_they_come_from() {
        let tracker = ReadTracker::begin();
        let one = Stamp::take();
        tracker.asks(ReadQuestion::Primary);
        tracker.answers_from(one);
        tracker.answered(Some(digest()));
        tracker.asks_for_writes(1);
        let ((kind, key), object) = (skipped_key(), object());
        tracker.skipped(kind.clone(), key.clone(), &object, None);
        tracker.asks(ReadQuestion::Primary);
        tracker.answered(Some(digest()));
        let primary = |stamp| Read { question: ReadQuestion::Primary, stamp, answer: Some(digest()) };
        let skip = ReadQuestion::SkippedWrite { kind, key, view: None };
        let skip = Read { question: skip, stamp: Some(object.stamp()), answer: None };
        let reads = vec![primary(Some(one)), skip, primary(None)];
        assert_eq!(tracker.end(), Some(TrackedReads { reads, ..TrackedReads::default() }));
        assert!(!tracker.end().expect("it is on").is_complete(), "the reads were taken");
    }

    #[test]
    fn a_call_is_spoiled_by_what_cannot_be_repeated_or_compared() {
        let cases: [(NoteReads<'_>, Spoiler); 6] = [
            (&|tracker| tracker.asks_for_writes(1), Spoiler::Write),
            (&|tracker| tracker.answered(Some(digest())), Spoiler::FailedRead),
            (&|tracker| tracker.asks(ReadQuestion::Primary), Spoiler::FailedRead),
            (
                &|tracker| {
                    tracker.asks(ReadQuestion::Primary);
                    tracker.answered(None);
                },
                Spoiler::FailedRead,
            ),
            (
                &|tracker| {
                    tracker.asks_for_writes(2);
                    let (kind, key) = skipped_key();
                    tracker.skipped(kind, key, &object(), None);
                },
                Spoiler::Write,
            ),
            (
                &|tracker| {
                    for _ in 0..=KEPT_READS_MAX {
                        tracker.asks(ReadQuestion::Primary);
                        tracker.answered(Some(digest()));
                    }
                    tracker.spoil(Spoiler::Clock);
                },
                Spoiler::TooManyReads,
            ),
        ];
        for (act, why) in cases {
            let tracker = ReadTracker::begin();
            act(&tracker);
            assert_eq!(tracker.end().and_then(|tracked| tracked.spoiled), Some(why));
        }
    }

    #[test]
    fn an_answer_that_takes_much_reading_is_kept_by_its_stamp_alone() {
        for (stamp, bytes, kept) in [
            (true, REREAD_BYTES_MAX, Ok(Some(digest()))),
            (true, REREAD_BYTES_MAX + 1, Ok(None)),
            (false, REREAD_BYTES_MAX + 1, Err(Spoiler::TooManyReads)),
        ] {
            let tracker = ReadTracker::begin();
            tracker.asks(ReadQuestion::Primary);
            if stamp {
                tracker.answers_from(Stamp::take());
            }
            tracker.takes(bytes - 1);
            tracker.takes(1);
            tracker.answered(Some(digest()));
            let TrackedReads { mut reads, spoiled, .. } = tracker.end().expect("it is on");
            assert_eq!(spoiled.map_or_else(|| Ok(reads.remove(0).answer), Err), kept, "{bytes} B");
        }
    }

    #[test]
    fn the_order_in_which_the_host_skips_writes_makes_no_difference() {
        let noted = |names: [&str; 2]| {
            let tracker = ReadTracker::begin();
            for name in names {
                let key = ObjectKey::namespaced("prod", name);
                tracker.skipped(skipped_key().0, key, &object(), None);
            }
            let reads = tracker.end().expect("it is on").reads;
            reads.into_iter().map(|read| read.question.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(noted(["a", "b"]), noted(["b", "a"]));
    }

    #[test]
    fn a_tracker_that_is_off_notes_nothing() {
        let tracker = ReadTracker::default();
        tracker.spoil(Spoiler::Clock);
        assert_eq!((tracker.is_on(), tracker.end()), (false, None));
    }

    #[test]
    fn the_last_value_of_each_gauge_is_noted() {
        let label = |value: &str| vec![("zone".to_owned(), value.to_owned())];
        let gauge = |value, zone: &str| SetGauge::new("size", value, &label(zone));
        let tracker = ReadTracker::begin();
        for set in [gauge(1.0, "a"), gauge(2.0, "b"), gauge(3.0, "a")] {
            tracker.sets(set);
        }
        let gauges = [gauge(2.0, "b"), gauge(3.0, "a")].into_iter().flatten().collect();
        assert_eq!(tracker.end(), Some(TrackedReads { gauges, ..TrackedReads::default() }));
        for at in 0..=KEPT_GAUGES_MAX {
            tracker.sets(gauge(0.0, &at.to_string()));
        }
        assert_eq!(tracker.end().and_then(|tracked| tracked.spoiled), Some(Spoiler::TooManyReads));
        let tracker = ReadTracker::begin();
        tracker.sets(None);
        assert_eq!(tracker.end().and_then(|tracked| tracked.spoiled), Some(Spoiler::TooManyReads));
    }
}
