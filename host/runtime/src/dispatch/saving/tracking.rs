//! Notes what a call reads, with digests of the answers as the plugin gets them.
//!
//! It listens to the call's ports, so nothing that the plugin asks for can pass unnoticed: whatever is not known to be
//! harmless spoils the call.

use std::sync::Arc;

use windlass_core::call::gauge::SetGauge;
use windlass_core::call::ports::{
    Answered, Ask, Asked, CallContext, ListPage, Listener, MetricChange, Metrics, Ports, Reads, Written, listened,
};
use windlass_core::call::read_set::{AnswerDigest, Answers, REREAD_BYTES_MAX, ReadQuestion};
use windlass_core::call::read_tracker::{ReadTracker, Spoiler};
use windlass_core::error::ApiError;
use windlass_core::object::Object;
use windlass_core::object::pointer_tree::PointerTree;
use windlass_core::object::progress::Stamp;

/// Wraps `ports` so that `tracker` notes what is asked through them.
pub(crate) fn tracked(ports: &Ports, tracker: ReadTracker) -> Ports {
    listened(ports, Arc::new(Tracking(tracker)))
}

/// Notes what one call asks for.
struct Tracking(ReadTracker);

impl Listener for Tracking {
    fn asked(&self, _: &CallContext, asked: Asked<'_>) -> Option<usize> {
        let tracker = &self.0;
        match asked {
            Asked::Get { target, fields } => {
                tracker.asks(ReadQuestion::Get { target: target.clone(), fields: fields.map(Into::into) });
                return Some(0);
            }
            Asked::List(query) => {
                tracker.asks(ReadQuestion::List(Box::new(query.clone())));
                return Some(0);
            }
            Asked::Ask(ask @ (Ask::Write(_) | Ask::Batch(_))) => tracker.asks_for_writes(ask.operations().len()),
            Asked::Ask(_) => tracker.spoil(Spoiler::Outside),
            // Setting a gauge once more changes nothing, unless another call has set it meanwhile.
            Asked::Metric { change: MetricChange::Set, name, value, labels } => {
                tracker.sets(SetGauge::new(name, value, labels));
            }
            Asked::Metric { .. } | Asked::Event(_) => tracker.spoil(Spoiler::Report),
        }
        None
    }

    fn answered(&self, _: usize, answered: Answered<'_>) {
        match answered {
            Answered::Get(object) => answers(&self.0, digest_of_get(object)),
            Answered::List(page) => answers(&self.0, digest_of_list(page)),
            Answered::Ask(_) | Answered::Taken => {}
        }
    }
}

/// An answer, as far as it is compared.
#[derive(Clone, Copy)]
enum Digested {
    Digest(AnswerDigest),
    /// The answer is too long to be read again.
    Long,
    /// The read failed.
    Failed,
}

fn answers(tracker: &ReadTracker, digested: Digested) {
    match digested {
        Digested::Digest(digest) => tracker.answered(Some(digest)),
        Digested::Long => tracker.answered_at_length(),
        Digested::Failed => tracker.answered(None),
    }
}

fn digest_of_get(object: &Written) -> Digested {
    match object {
        Ok(object) => digest(object.as_deref().into_iter(), u64::from(object.is_some())),
        Err(_) => Digested::Failed,
    }
}

fn digest_of_list(page: &Result<ListPage, ApiError>) -> Digested {
    let Ok(ListPage { items, next_token }) = page else { return Digested::Failed };
    let texts = items.iter().map(|item| &**item).chain(next_token.as_deref());
    digest(texts, items.len() as u64)
}

/// The digest of `texts`, of which there are as many as `count` says and perhaps one more.
fn digest<'t>(texts: impl Iterator<Item = &'t str> + Clone, count: u64) -> Digested {
    if texts.clone().map(str::len).sum::<usize>() > REREAD_BYTES_MAX {
        return Digested::Long;
    }
    Digested::Digest(AnswerDigest::of(texts, count))
}

/// The answers that a call would get now.
pub(crate) struct AnswersNow<'a> {
    pub(crate) caches: &'a dyn Reads,
    pub(crate) metrics: &'a dyn Metrics,
    pub(crate) call: &'a CallContext,
    /// The part of the primary that the plugin gets. `None` for all of it.
    pub(crate) call_part: Option<&'a PointerTree>,
}

impl AnswersNow<'_> {
    /// Notes the primary as the first thing that the call reads.
    pub(crate) fn note_primary(&self, tracker: &ReadTracker) {
        let Some(primary) = &self.call.primary else { return };
        tracker.asks(ReadQuestion::Primary);
        tracker.answers_from(primary.stamp());
        answers(tracker, self.digest_of_primary());
    }

    fn digest_of_primary(&self) -> Digested {
        let Some(primary) = &self.call.primary else { return Digested::Failed };
        if primary.whole_footprint() > REREAD_BYTES_MAX {
            return Digested::Long;
        }
        let text = primary.text();
        match self.call_part.map(|part| part.select(&text)) {
            None => digest([&*text].into_iter(), 1),
            Some(Ok(part)) => digest([part.as_str()].into_iter(), 1),
            Some(Err(_)) => Digested::Failed,
        }
    }

    /// Reads as a call would. The stamp is the one of the state that the answer comes from.
    fn read(&self, question: &ReadQuestion) -> Option<(Option<Stamp>, AnswerDigest)> {
        let tracker = ReadTracker::begin();
        let call = CallContext { reads: tracker.clone(), ..self.call.clone() };
        tracker.asks(question.clone());
        let digested = match question {
            ReadQuestion::Get { target, fields } => digest_of_get(&self.caches.get(&call, target, fields.as_deref())),
            ReadQuestion::List(query) => digest_of_list(&self.caches.list(&call, query)),
            ReadQuestion::Primary | ReadQuestion::SkippedWrite { .. } => return None,
        };
        answers(&tracker, digested);
        let read = tracker.end()?.reads.pop()?;
        Some((read.stamp, read.answer?))
    }
}

impl Answers for AnswersNow<'_> {
    fn stamp(&self, question: &ReadQuestion) -> Option<Stamp> {
        match question {
            ReadQuestion::Primary => self.call.primary.as_ref().map(Object::stamp),
            ReadQuestion::Get { .. } | ReadQuestion::List(_) | ReadQuestion::SkippedWrite { .. } => {
                self.caches.stamp(self.call, question)
            }
        }
    }

    fn answer(&self, question: &ReadQuestion) -> Option<(Option<Stamp>, AnswerDigest)> {
        match question {
            ReadQuestion::Primary => match self.digest_of_primary() {
                Digested::Digest(digest) => Some((self.stamp(question), digest)),
                Digested::Long | Digested::Failed => None,
            },
            ReadQuestion::Get { .. } | ReadQuestion::List(_) => self.read(question),
            ReadQuestion::SkippedWrite { kind, key, view } => {
                let view = view.as_deref()?;
                let object = self.caches.skipped(self.call, kind, key)?;
                Some((Some(object.stamp()), AnswerDigest::of_part(view, &object)?))
            }
        }
    }

    fn gauge(&self, name: &str, labels: &[(String, String)]) -> Option<f64> {
        self.metrics.gauge(self.call, name, labels)
    }
}
