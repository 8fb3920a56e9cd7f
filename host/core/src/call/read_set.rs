//! The reads of a call, from which the host concludes whether the next call about the same key would read the same.
//!
//! A plugin is a function of what it asks. If a call changed nothing, and everything that it read would be answered
//! alike now, then the next call would change nothing either, and need not be made (ADR 46). This module only compares;
//! `read_tracker` notes the reads of a call.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::call::gauge::SetGauge;
use crate::call::list_query::ListQuery;
use crate::call::shared_texts::{SharedTexts, share_key, share_text, texts_bytes};
use crate::defect::Defect;
use crate::object::progress::Stamp;
use crate::object::{Object, ObjectKey, ObjectKind, ObjectRef};
use crate::queue::outcome::CallResult;
use crate::write::no_op::SkipView;

/// The most reads of a call that are kept. A call with more reads is made again each time.
pub const KEPT_READS_MAX: usize = 64;
/// The most text that is read again for an answer whose stamp differs, and the longest such answer, in bytes. Beyond
/// that, the plugin reads it again itself.
pub const REREAD_BYTES_MAX: usize = 64 << 10;
/// The most answers that are read again before a call. If more have other stamps, the call is made.
pub const REREADS_MAX: usize = 8;

/// One question of a call that its answer may follow from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadQuestion {
    /// The primary, as the plugin got it with the call.
    Primary,
    /// A read of one object from a cache.
    Get {
        target: ObjectRef,
        /// The fields that were asked for. `None` for the whole object.
        fields: Option<Arc<[String]>>,
    },
    /// A page of a list from a cache.
    List(Box<ListQuery>),
    /// A write of this object that was not sent, because it would have changed nothing. Both its answer and the
    /// decision not to send it follow from the cached object.
    SkippedWrite {
        kind: ObjectKind,
        key: ObjectKey,
        /// The part of the object that they follow from. `None` for the whole object.
        view: Option<Arc<SkipView>>,
    },
}

impl fmt::Display for ReadQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primary => f.write_str("the primary"),
            Self::Get { target, .. } => write!(f, "{target}"),
            Self::List(query) => write!(f, "a list of {}", query.kind.kind),
            Self::SkippedWrite { kind, key, .. } => {
                write!(f, "a write of {} {key} that would change nothing", kind.kind)
            }
        }
    }
}

impl ReadQuestion {
    /// Whether both ask the same. The part of an object that a skipped write depends on follows from the object.
    fn is_about_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::SkippedWrite { kind, key, .. }, Self::SkippedWrite { kind: of, key: other, .. }) => {
                (kind, key) == (of, other)
            }
            _ => self == other,
        }
    }

    /// Replaces texts by shared ones, for a call about `primary`. Returns the approximate memory that the question
    /// still needs for itself, in bytes.
    fn share(&mut self, primary: &ObjectKey, shared: &mut SharedTexts) -> usize {
        match self {
            Self::Primary => 0,
            Self::Get { target, fields } => {
                let uid = target.uid.as_mut().map_or(0, |uid| share_text(uid, primary));
                let fields = fields.as_mut().map_or(0, |fields| shared.fields(fields));
                shared.kind(&mut target.kind) + share_key(&mut target.key, primary) + uid + fields
            }
            Self::List(query) => {
                let namespace = query.namespace.as_mut().map_or(0, |namespace| share_text(namespace, primary));
                let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
                let index = query.index.as_ref().map_or(0, |(name, value)| name.len() + value.len());
                let fields = query.fields.as_deref().map_or(0, texts_bytes);
                let texts = text(&query.label_selector) + text(&query.page_token) + index + fields + namespace;
                shared.kind(&mut query.kind) + size_of::<ListQuery>() + texts
            }
            Self::SkippedWrite { kind, key, view } => {
                let view = view.as_mut().map_or(0, |view| shared.view(view));
                shared.kind(kind) + share_key(key, primary) + view
            }
        }
    }
}

/// A digest of an answer, as the plugin got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerDigest(pub [u8; 16]);

impl AnswerDigest {
    /// The digest of `texts`, of which there are as many as `count` says and perhaps one more: the first half of their
    /// SHA-256.
    #[must_use]
    pub fn of<'t>(texts: impl IntoIterator<Item = &'t str>, count: u64) -> Self {
        let mut hash = Sha256::new();
        hash.update(count.to_le_bytes());
        for text in texts {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        let mut digest = [0; 16];
        digest.copy_from_slice(&hash.finalize()[..16]);
        Self(digest)
    }

    /// The digest of the part of `object` that a skipped write depends on. `None` if the object is too large to be read
    /// again before a call.
    #[must_use]
    pub fn of_part(view: &SkipView, object: &Object) -> Option<Self> {
        if object.whole_footprint() > REREAD_BYTES_MAX {
            return None;
        }
        let part = view.part_of(object)?;
        Some(Self::of(part.iter().map(String::as_str), 2))
    }
}

/// One read of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub question: ReadQuestion,
    /// The state that the answer came from: equal stamps mean equal answers. `None` if that is not known.
    pub stamp: Option<Stamp>,
    /// `None` if only an equal stamp proves that the answer would be the same.
    pub answer: Option<AnswerDigest>,
}

impl Read {
    fn has_equal_stamp(&self, now: &impl Answers) -> bool {
        self.stamp.is_some() && now.stamp(&self.question) == self.stamp
    }

    fn is_answered_as(&self, other: &Self) -> bool {
        match (self.answer, other.answer) {
            (Some(one), Some(other)) => one == other,
            _ => self.stamp.is_some() && self.stamp == other.stamp,
        }
    }
}

/// Answers the questions of an earlier call as they would be answered now.
pub trait Answers {
    /// The state that an answer would come from now. `None` if that is not known.
    fn stamp(&self, question: &ReadQuestion) -> Option<Stamp>;

    /// The answer now, and the state that it comes from. `None` if there is none, or if it cannot be compared.
    fn answer(&self, question: &ReadQuestion) -> Option<(Option<Stamp>, AnswerDigest)>;

    /// The value of a gauge now. `None` if it has none, or if that is not known.
    fn gauge(&self, name: &str, labels: &[(String, String)]) -> Option<f64>;
}

/// The reads of a call that changed nothing, in their order, the gauges that it set, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadSet {
    reads: Box<[Read]>,
    gauges: Box<[SetGauge]>,
    result: CallResult,
}

/// The result of an audit: of a call that was made although it could have been saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditVerdict {
    /// The call read and did what it was expected to.
    Confirmed,
    /// The call read something else, because the caches changed meanwhile. It proves nothing.
    OtherAnswers,
    /// The call got the same answers, and asked, did or returned something else. It had read this many answers.
    Mispredicted { after: usize },
}

impl ReadSet {
    /// The `reads` of a call that ended with `result`. `None` if such a call is always made again.
    #[must_use]
    pub fn new(reads: Vec<Read>, result: CallResult) -> Option<Self> {
        let is_kept = matches!(result, CallResult::Done | CallResult::RequeueAfter(_)) && reads.len() <= KEPT_READS_MAX;
        is_kept.then(|| Self { reads: reads.into(), gauges: [].into(), result })
    }

    /// The same call, which also set `gauges`.
    #[must_use]
    pub fn setting(self, gauges: Vec<SetGauge>) -> Self {
        Self { gauges: gauges.into(), ..self }
    }

    /// The reads of a composer's call: none, because a composer gets all with its request.
    #[must_use]
    pub fn of_composer() -> Self {
        Self { reads: [].into(), gauges: [].into(), result: CallResult::Done }
    }

    /// The reads, in the order of the call.
    #[must_use]
    pub fn reads(&self) -> &[Read] {
        &self.reads
    }

    /// The gauges that the call set.
    #[must_use]
    pub fn gauges(&self) -> &[SetGauge] {
        &self.gauges
    }

    /// Whether all gauges still have the values that the call set. If not, the next call would set them again.
    #[must_use]
    pub fn has_equal_gauges(&self, now: &impl Answers) -> bool {
        self.gauges.iter().all(|gauge| gauge.is_unchanged(|name, labels| now.gauge(name, labels)))
    }

    /// Whether the stamps alone prove that all questions would be answered as they were. Takes less than a microsecond.
    #[must_use]
    pub fn has_equal_stamps(&self, now: &impl Answers) -> bool {
        self.reads.iter().all(|read| read.has_equal_stamp(now))
    }

    /// Whether all questions would be answered as they were. Reads few and small answers again if their stamps differ,
    /// and remembers the newer states of equal answers, so that the next comparison is cheap.
    pub fn is_current(&mut self, now: &impl Answers) -> bool {
        let is_ignored = |read: &Read| Defect::DigestIsIgnored.is_seeded() && read.question != ReadQuestion::Primary;
        let is_stale = |read: &&mut Read| !read.has_equal_stamp(now) && !is_ignored(read);
        let mut stale: Vec<_> = self.reads.iter_mut().filter(is_stale).collect();
        if stale.len() > REREADS_MAX || stale.iter().any(|read| read.answer.is_none()) {
            return false;
        }
        stale.iter_mut().all(|read| {
            let Some((stamp, answer)) = now.answer(&read.question) else { return false };
            let is_equal = read.answer == Some(answer);
            if is_equal {
                read.stamp = stamp;
            }
            is_equal
        })
    }

    /// Replaces texts by shared ones, for a call about `primary`. Returns the approximate memory of the set, in bytes.
    pub fn share(&mut self, primary: &ObjectKey, shared: &mut SharedTexts) -> usize {
        let texts: usize = self.reads.iter_mut().map(|read| read.question.share(primary, shared)).sum();
        let gauges: usize = self.gauges.iter().map(SetGauge::bytes).sum();
        size_of::<Self>() + size_of_val(&*self.reads) + texts + gauges
    }

    /// Compares a call that was made although it could have been saved. `repeated` is what it read, and `did` is its
    /// result if it changed nothing, or `None` if it did something that is not repeated when a call is saved.
    #[must_use]
    pub fn audited(&self, repeated: &[Read], did: Option<&CallResult>, now: &impl Answers) -> AuditVerdict {
        let mut pairs = self.reads.iter().zip(repeated);
        let after = pairs.position(|(kept, again)| kept.question != again.question || !kept.is_answered_as(again));
        let after = after.unwrap_or(self.reads.len().min(repeated.len()));
        let (kept, again) = (self.reads.get(after), repeated.get(after));
        let got_another_answer = match (kept, again) {
            (Some(kept), Some(again)) if kept.question.is_about_same(&again.question) => true,
            // A write that is not skipped any more is missing from the reads.
            (Some(Read { question: question @ ReadQuestion::SkippedWrite { .. }, stamp, .. }), _) => {
                now.stamp(question) != *stamp
            }
            _ => false,
        };
        match (kept, again) {
            (None, None) if did == Some(&self.result) => AuditVerdict::Confirmed,
            _ if got_another_answer => AuditVerdict::OtherAnswers,
            _ => AuditVerdict::Mispredicted { after },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Answers every question with this, or not at all. Each gauge has the value 1.
    struct Now(Option<Stamp>, Option<u8>);

    impl Answers for Now {
        fn stamp(&self, _: &ReadQuestion) -> Option<Stamp> {
            self.0
        }

        fn answer(&self, _: &ReadQuestion) -> Option<(Option<Stamp>, AnswerDigest)> {
            Some((self.0, digest(self.1?)))
        }

        fn gauge(&self, _: &str, _: &[(String, String)]) -> Option<f64> {
            Some(1.0)
        }
    }

    fn digest(of: u8) -> AnswerDigest {
        AnswerDigest([of; 16])
    }

    fn get(name: &str) -> ReadQuestion {
        let (kind, key) = (ObjectKind::new("v1", "ConfigMap"), ObjectKey::namespaced("prod", name));
        ReadQuestion::Get { target: ObjectRef { kind, key, uid: None }, fields: None }
    }

    fn read(question: ReadQuestion, stamp: Option<Stamp>, answer: Option<u8>) -> Read {
        Read { question, stamp, answer: answer.map(digest) }
    }

    fn set(reads: Vec<Read>) -> ReadSet {
        ReadSet::new(reads, CallResult::Done).expect("it is kept")
    }

    #[test]
    fn an_equal_stamp_or_an_equal_answer_proves_that_nothing_changed() {
        let [old, new] = [(); 2].map(|()| Stamp::take());
        for (stamp, answer, now, is_current) in [
            (Some(old), Some(1), Now(Some(old), None), true),
            (Some(old), Some(1), Now(Some(new), Some(1)), true),
            (Some(old), Some(1), Now(Some(new), Some(2)), false),
            (Some(old), Some(1), Now(Some(new), None), false),
            (Some(old), None, Now(Some(old), None), true),
            (Some(old), None, Now(Some(new), Some(1)), false),
            (None, None, Now(None, None), false),
            (None, Some(1), Now(None, Some(1)), true),
        ] {
            let mut set = set(vec![read(get("a"), stamp, answer)]);
            assert_eq!(set.has_equal_stamps(&now), stamp.is_some() && now.0 == stamp);
            assert_eq!(set.is_current(&now), is_current, "{stamp:?} {answer:?}");
        }
    }

    #[test]
    fn an_equal_answer_is_remembered_with_its_new_state() {
        let [old, new] = [(); 2].map(|()| Stamp::take());
        let mut set = set(vec![read(get("a"), Some(old), Some(1))]);
        assert!(set.is_current(&Now(Some(new), Some(1))));
        assert!(set.is_current(&Now(Some(new), None)), "by the stamp alone");
        assert!(!set.is_current(&Now(Some(old), None)));
    }

    #[test]
    fn only_few_answers_are_read_again() {
        let [old, new] = [(); 2].map(|()| Stamp::take());
        for (stale, is_current) in [(REREADS_MAX, true), (REREADS_MAX + 1, false)] {
            let reads = vec![read(get("a"), Some(old), Some(1)); stale];
            assert_eq!(set(reads.clone()).is_current(&Now(Some(new), Some(1))), is_current);
            assert!(set(reads).is_current(&Now(Some(old), None)), "by the stamps alone");
        }
    }

    #[test]
    fn a_gauge_that_has_another_value_now_would_be_set_again() {
        let set = |values: &[f64]| {
            let gauges = values.iter().filter_map(|value| SetGauge::new("size", *value, &[]));
            set(vec![]).setting(gauges.collect())
        };
        let now = Now(None, None);
        for (values, is_equal) in [(&[][..], true), (&[1.0], true), (&[1.0, 1.0], true), (&[1.0, 2.0], false)] {
            assert_eq!(set(values).has_equal_gauges(&now), is_equal, "{values:?}");
        }
    }

    #[test]
    fn only_calls_that_end_well_and_read_little_are_kept() {
        let reads = |count| vec![read(get("a"), None, Some(1)); count];
        assert!(ReadSet::new(reads(KEPT_READS_MAX), CallResult::RequeueAfter(Duration::ZERO)).is_some());
        assert!(ReadSet::new(reads(KEPT_READS_MAX + 1), CallResult::Done).is_none());
        for result in [
            CallResult::RequeueBackoff,
            CallResult::Failed(vec![]),
            CallResult::Trapped { reason: "trap", message: String::new() },
            CallResult::NotCalled { again: None },
        ] {
            assert_eq!(ReadSet::new(vec![], result), None);
        }
    }

    #[test]
    fn an_audit_blames_only_a_call_that_got_the_same_answers() {
        let reads = |names: &[(&str, u8)]| -> Vec<Read> {
            names.iter().map(|(name, answer)| read(get(name), None, Some(*answer))).collect()
        };
        let kept = set(reads(&[("a", 1), ("b", 2)]));
        let done = Some(&CallResult::Done);
        let later = CallResult::RequeueAfter(Duration::from_secs(1));
        for (again, did, verdict) in [
            (reads(&[("a", 1), ("b", 2)]), done, AuditVerdict::Confirmed),
            (reads(&[("a", 1), ("b", 3)]), None, AuditVerdict::OtherAnswers),
            (reads(&[("a", 1), ("b", 2)]), None, AuditVerdict::Mispredicted { after: 2 }),
            (reads(&[("a", 1), ("b", 2)]), Some(&later), AuditVerdict::Mispredicted { after: 2 }),
            (reads(&[("a", 1), ("c", 2)]), done, AuditVerdict::Mispredicted { after: 1 }),
            (reads(&[("a", 1)]), done, AuditVerdict::Mispredicted { after: 1 }),
            (reads(&[("a", 1), ("b", 2), ("c", 3)]), done, AuditVerdict::Mispredicted { after: 2 }),
        ] {
            assert_eq!(kept.audited(&again, did, &Now(None, None)), verdict, "{again:?}");
        }
    }

    #[test]
    fn an_audit_ignores_a_write_that_is_sent_because_its_object_changed() {
        let [old, new] = [(); 2].map(|()| Stamp::take());
        let (kind, key) = (ObjectKind::new("v1", "ConfigMap"), ObjectKey::namespaced("prod", "a"));
        let kept = set(vec![read(ReadQuestion::SkippedWrite { kind, key, view: None }, Some(old), None)]);
        assert_eq!(kept.audited(&[], None, &Now(Some(new), None)), AuditVerdict::OtherAnswers);
        let blamed = AuditVerdict::Mispredicted { after: 0 };
        assert_eq!(kept.audited(&[], None, &Now(Some(old), None)), blamed);
    }

    #[test]
    fn a_set_of_four_reads_is_small() {
        let mut reads = vec![read(ReadQuestion::Primary, None, Some(0))];
        reads.extend([(); 3].map(|()| read(get("shop"), None, Some(1))));
        let bytes = set(reads).share(&ObjectKey::namespaced("prod", "shop"), &mut SharedTexts::default());
        assert!(bytes <= 656, "{bytes} B");
    }
}
