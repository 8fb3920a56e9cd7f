//! The reads of a call, from which the host concludes whether the next call about the same key would read the same.
//!
//! A plugin is a function of what it asks. If a call changed nothing, and everything that it read would be answered
//! alike now, then the next call would change nothing either, and need not be made (ADR 46). This module only compares;
//! `read_tracker` notes the reads of a call.

use std::fmt;

use crate::call::list_query::ListQuery;
use crate::defect::Defect;
use crate::object::progress::Stamp;
use crate::object::{ObjectKey, ObjectKind, ObjectRef};
use crate::queue::outcome::CallResult;

/// The most reads of a call that are kept. A call with more reads is made again each time.
pub const KEPT_READS_MAX: usize = 64;
/// The largest answer that is read again if its stamp differs. Beyond that, the plugin reads it again itself.
pub const REREAD_BYTES_MAX: usize = 64 << 10;

/// One question of a call that its answer may follow from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadQuestion {
    /// The primary, as the plugin got it with the call.
    Primary,
    /// A read of one object from a cache.
    Get {
        target: ObjectRef,
        /// The fields that were asked for. `None` for the whole object.
        fields: Option<Box<[String]>>,
    },
    /// A page of a list from a cache.
    List(Box<ListQuery>),
    /// A write of this object that was not sent, because it would have changed nothing. Both its answer and the
    /// decision not to send it follow from the cached object.
    SkippedWrite { kind: ObjectKind, key: ObjectKey },
}

impl fmt::Display for ReadQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primary => f.write_str("the primary"),
            Self::Get { target, .. } => write!(f, "{target}"),
            Self::List(query) => write!(f, "a list of {}", query.kind.kind),
            Self::SkippedWrite { kind, key } => write!(f, "a write of {} {key} that would change nothing", kind.kind),
        }
    }
}

impl ReadQuestion {
    /// The approximate memory of its texts, in bytes. Kinds, namespaces and names are shared with caches.
    fn text_bytes(&self) -> usize {
        let texts = |texts: &[String]| texts.iter().map(|text| size_of::<String>() + text.len()).sum::<usize>();
        match self {
            Self::Primary | Self::SkippedWrite { .. } => 0,
            Self::Get { target, fields } => {
                target.uid.as_ref().map_or(0, |uid| uid.len()) + fields.as_deref().map_or(0, texts)
            }
            Self::List(query) => {
                let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
                let index = query.index.as_ref().map_or(0, |(name, value)| name.len() + value.len());
                let fields = query.fields.as_deref().map_or(0, texts);
                size_of::<ListQuery>() + text(&query.label_selector) + text(&query.page_token) + index + fields
            }
        }
    }
}

/// A digest of an answer, as the plugin got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerDigest(pub [u8; 16]);

/// One read of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub question: ReadQuestion,
    /// The state that the answer came from: equal stamps mean equal answers. `None` if that is not known.
    pub stamp: Option<Stamp>,
    /// `None` if only an equal stamp proves that the answer would be the same.
    pub answer: Option<AnswerDigest>,
    /// The length of the answer, in bytes.
    pub answer_bytes: usize,
}

impl Read {
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
}

/// The reads of a call that changed nothing, in their order, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadSet {
    reads: Box<[Read]>,
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
        is_kept.then(|| Self { reads: reads.into(), result })
    }

    /// The reads, in the order of the call.
    #[must_use]
    pub fn reads(&self) -> &[Read] {
        &self.reads
    }

    /// Whether all questions would be answered as they were. Remembers the newer states of equal answers, so that the
    /// next comparison is cheap.
    pub fn is_current(&mut self, now: &impl Answers) -> bool {
        self.reads.iter_mut().all(|read| {
            if read.stamp.is_some() && now.stamp(&read.question) == read.stamp {
                return true;
            }
            if Defect::DigestIsIgnored.is_seeded() && read.question != ReadQuestion::Primary {
                return true;
            }
            let known = read.answer.filter(|_| read.answer_bytes <= REREAD_BYTES_MAX);
            let Some((stamp, answer)) = known.and_then(|_| now.answer(&read.question)) else { return false };
            let is_equal = known == Some(answer);
            if is_equal {
                read.stamp = stamp;
            }
            is_equal
        })
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
            (Some(kept), Some(again)) if kept.question == again.question => true,
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

    /// The approximate memory of the set, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let reads = self.reads.iter().map(|read| size_of::<Read>() + read.question.text_bytes());
        size_of::<Self>() + reads.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Answers every question with this, or not at all.
    struct Now(Option<Stamp>, Option<u8>);

    impl Answers for Now {
        fn stamp(&self, _: &ReadQuestion) -> Option<Stamp> {
            self.0
        }

        fn answer(&self, _: &ReadQuestion) -> Option<(Option<Stamp>, AnswerDigest)> {
            Some((self.0, digest(self.1?)))
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
        Read { question, stamp, answer: answer.map(digest), answer_bytes: 10 }
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
    fn a_large_answer_is_not_read_again() {
        let stamp = Some(Stamp::take());
        let large = Read { answer_bytes: REREAD_BYTES_MAX + 1, ..read(get("a"), stamp, Some(1)) };
        assert!(set(vec![large.clone()]).is_current(&Now(stamp, None)));
        assert!(!set(vec![large]).is_current(&Now(Some(Stamp::take()), Some(1))));
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
        let kept = set(vec![read(ReadQuestion::SkippedWrite { kind, key }, Some(old), None)]);
        assert_eq!(kept.audited(&[], None, &Now(Some(new), None)), AuditVerdict::OtherAnswers);
        let blamed = AuditVerdict::Mispredicted { after: 0 };
        assert_eq!(kept.audited(&[], None, &Now(Some(old), None)), blamed);
    }

    #[test]
    fn a_set_of_four_reads_is_small() {
        let mut reads = vec![read(ReadQuestion::Primary, None, Some(0))];
        reads.extend(["a", "b", "c"].map(|name| read(get(name), None, Some(1))));
        let bytes = set(reads).bytes();
        assert!(bytes <= 700, "{bytes} B");
    }
}
