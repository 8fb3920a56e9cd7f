//! Notes the asks of a call and their answers, so that its shadow gets the same answers to the same asks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::call::intent;
use windlass_core::call::ports::{Answer, Answered, Ask, Asked, CallContext, Listener, Reads};
use windlass_core::object::ObjectRef;
use windlass_core::write::Operation;
use windlass_wasm::{CallLimits, Called, Request};

use super::ledger::ShadowLedger;

/// The most that is noted of one call, in bytes. A call that asks for more is not compared.
pub(super) const NOTED_BYTES_MAX: usize = 4 << 20;
/// The memory that a note takes beside its texts, in bytes.
pub(super) const NOTE_OVERHEAD_BYTES: usize = 256;

/// The asks of one call and their answers, in the order of the asks. Each operation of a batch has its own entry.
#[derive(Debug, Default)]
pub(super) struct NotedAnswers(Vec<NotedAnswer>);

#[derive(Debug)]
struct NotedAnswer {
    ask: Ask,
    answer: Answer,
    is_given: bool,
}

impl NotedAnswers {
    pub(super) fn note(&mut self, ask: Ask, answer: Answer) {
        match (ask, answer) {
            (Ask::Batch(operations), Answer::Batch(written)) => {
                for (operation, written) in operations.into_iter().zip(written) {
                    self.note(operation.into(), Answer::Write(written));
                }
            }
            (ask, answer) => self.0.push(NotedAnswer { ask: compared(ask), answer, is_given: false }),
        }
    }

    /// The answer to an equal ask: the first answer that was not given yet, or else the last one. `None` if there was
    /// no equal ask.
    pub(super) fn give(&mut self, ask: Ask) -> Option<Answer> {
        let ask = compared(ask);
        let unused = self.0.iter_mut().find(|it| !it.is_given && it.ask == ask);
        if let Some(it) = unused {
            it.is_given = true;
            return Some(it.answer.clone());
        }
        self.0.iter().rev().find(|it| it.ask == ask).map(|it| it.answer.clone())
    }

    /// The asks, in their order.
    pub(super) fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.0.iter().map(|it| &it.ask)
    }
}

/// `ask` without the parts that do not count in a comparison: the time left for a request, which is never the same, and
/// the fields that a plugin wants of the answer to a write, because the whole answer is noted.
fn compared(ask: Ask) -> Ask {
    match ask {
        Ask::Fetch(mut request) => {
            request.timeout = None;
            Ask::Fetch(request)
        }
        Ask::Write(operation) => operation.with_whole_answer().into(),
        ask => ask,
    }
}

/// The state of an object before a call wrote it. `Err` if no cache covers the object.
pub(super) type CachedState = Result<Option<Arc<str>>, ()>;

/// All asks of one call, and their answers.
#[derive(Debug, Default)]
pub(crate) struct CallNotes {
    pub(super) answers: NotedAnswers,
    /// The objects that the call wrote, in the state that the caches showed before its writes.
    pub(super) before: Vec<(ObjectRef, CachedState)>,
    bytes: usize,
}

impl CallNotes {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Collects the notes of a running call, to which it listens.
pub(crate) struct OpenNotes {
    reads: Arc<dyn Reads>,
    noted: Mutex<NotedCallSoFar>,
}

#[derive(Default)]
struct NotedCallSoFar {
    asks: Vec<(Ask, Option<Answer>)>,
    before: Vec<(ObjectRef, CachedState)>,
    bytes: usize,
}

impl NotedCallSoFar {
    /// Adds `bytes` to the size of the notes. Returns false if they are too large, so that nothing more is noted.
    fn has_room(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        self.bytes <= NOTED_BYTES_MAX
    }
}

impl OpenNotes {
    /// Creates empty notes. `reads` shows the objects that the call writes, in their state before the writes.
    pub(crate) fn new(reads: Arc<dyn Reads>) -> Arc<Self> {
        Arc::new(Self { reads, noted: Mutex::default() })
    }

    /// All noted asks that were answered. `None` if they were too large.
    pub(crate) fn take(&self) -> Option<CallNotes> {
        let NotedCallSoFar { asks, before, bytes } = std::mem::take(&mut *self.lock());
        let mut notes = CallNotes { answers: NotedAnswers::default(), before, bytes };
        for (ask, answer) in asks {
            if let Some(answer) = answer {
                notes.answers.note(ask, answer);
            }
        }
        (bytes <= NOTED_BYTES_MAX).then_some(notes)
    }

    /// Notes the state of the object that `operation` is about, unless an earlier operation was about the same object.
    fn look(&self, call: &CallContext, operation: &Operation) {
        let Some(object) = intent::object_of(operation, &call.primary_ref()) else { return };
        if self.lock().before.iter().any(|(known, _)| *known == object) {
            return;
        }
        let before = state_of(&*self.reads, call, &object);
        let bytes = before.as_ref().ok().and_then(Option::as_ref).map_or(0, |text| text.len());
        let mut noted = self.lock();
        if noted.has_room(bytes + NOTE_OVERHEAD_BYTES) {
            noted.before.push((object, before));
        }
    }

    fn lock(&self) -> MutexGuard<'_, NotedCallSoFar> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for OpenNotes {
    fn asked(&self, call: &CallContext, asked: Asked<'_>) -> Option<usize> {
        // Note nothing else: a shadow has the same caches, and its Events and metrics are discarded.
        let Asked::Ask(ask) = asked else { return None };
        if !self.lock().has_room(0) {
            return None;
        }
        for operation in ask.operations() {
            self.look(call, operation);
        }
        let mut noted = self.lock();
        let count = ask.operations().len().max(1);
        if !noted.has_room(ask.bytes() + count * NOTE_OVERHEAD_BYTES) {
            return None;
        }
        noted.asks.push((ask.clone(), None));
        Some(noted.asks.len() - 1)
    }

    fn answered(&self, place: usize, answered: Answered<'_>) {
        let Answered::Ask(answer) = answered else { return };
        let mut noted = self.lock();
        if noted.has_room(answer.bytes())
            // If the call ended before the answer came, the notes were taken already.
            && let Some(note) = noted.asks.get_mut(place)
        {
            note.1 = Some(answer.clone());
        }
    }
}

/// The state of `object` as a call sees it now. `Err` if no cache covers it.
pub(super) fn state_of(reads: &dyn Reads, call: &CallContext, object: &ObjectRef) -> CachedState {
    let mut asked = ObjectRef { uid: None, ..object.clone() };
    if asked.key.namespace == call.primary_key.namespace {
        // Without a namespace, an object of a namespaced kind is looked for in the primary's namespace.
        asked.key.namespace = None;
    }
    reads.get(call, &asked, None).map_err(drop)
}

/// A call of the current version that has ended, for its shadow. It does not hold its key.
#[derive(Debug)]
pub(crate) struct NotedCall {
    /// The ledger of the version that shadows the call.
    pub(super) ledger: Arc<ShadowLedger>,
    pub(super) request: Request,
    pub(super) context: CallContext,
    pub(super) limits: CallLimits,
    pub(super) noted: CallNotes,
    pub(super) called: Called,
}

impl NotedCall {
    pub(crate) fn new(
        ledger: Arc<ShadowLedger>,
        request: Request,
        context: CallContext,
        limits: CallLimits,
        noted: CallNotes,
        called: Called,
    ) -> Self {
        Self { ledger, request, context, limits, noted, called }
    }

    /// The approximate memory of this call, without objects that it shares with the caches.
    pub(super) fn bytes(&self) -> usize {
        self.noted.bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass_core::call::http::HttpRequest;
    use windlass_core::call::ports::{Absent, Ports, ServedQuery, listened};
    use windlass_core::error::ApiReason;
    use windlass_core::object::ObjectKind;
    use windlass_core::write::WriteOptions;

    use super::*;
    use crate::tests::played::{Writer, call};

    fn create(object: &str) -> Operation {
        Operation::Create { object: object.to_owned(), options: WriteOptions::default() }
    }

    fn noting(ports: &Ports) -> (Arc<OpenNotes>, Ports) {
        let notes = OpenNotes::new(ports.reads.clone());
        (notes.clone(), listened(ports, notes))
    }

    #[test]
    fn the_same_questions_get_the_same_answers_in_their_order() {
        let mut answers = NotedAnswers::default();
        let ask = |kind: &str| Ask::from(ServedQuery { kind: ObjectKind::new("v1", kind) });
        let error = |message: &str| ask("").refused(ApiReason::Other, message);
        for (kind, answer) in [("a", "1"), ("b", "2"), ("a", "3")] {
            answers.note(ask(kind), error(answer));
        }
        let mut given = |kind: &str| answers.give(ask(kind)).and_then(|it| Some(it.error()?.message.clone()));
        let given: Vec<_> = ["a", "a", "a", "b", "c"].map(|kind| given(kind).unwrap_or_default()).into();
        assert_eq!(given, ["1", "3", "3", "2", ""]);
        assert_eq!(answers.asks().collect::<Vec<_>>(), [&ask("a"), &ask("b"), &ask("a")]);
    }

    #[tokio::test]
    async fn each_operation_of_a_batch_is_noted_by_itself() {
        let (notes, ports) = noting(&Absent::ports());
        let answer = ports.ask(call(None).1, vec![create("1"), create("2")]).await;
        let mut answers = notes.take().expect("it is little").answers;
        assert_eq!(answers.asks().count(), 2);
        assert_eq!(answers.give(create("2").into()), Some(Answer::Write(answer[1].clone())));
    }

    #[test]
    fn a_write_is_the_same_whatever_fields_of_its_answer_are_wanted() {
        let options = WriteOptions { fields: Some(vec!["/spec".to_owned()]), ..WriteOptions::default() };
        let mut answers = NotedAnswers::default();
        let written = Answer::Write(Ok(Some("{}".into())));
        answers.note(create("1").into(), written.clone());
        let narrower = Operation::Create { object: "1".to_owned(), options };
        assert_eq!(answers.give(narrower.into()), Some(written));
    }

    #[tokio::test]
    async fn an_unanswered_question_is_not_noted() {
        let (notes, ports) = noting(&Absent::ports());
        drop(ports.ask(call(None).1, create("1")));
        assert_eq!(notes.take().expect("it is little").answers.asks().count(), 0);
    }

    #[test]
    fn a_request_is_the_same_however_much_time_is_left_for_it() {
        let fetch = |seconds| {
            let (method, url) = ("GET".to_owned(), "https://a.example".to_owned());
            let timeout = Some(Duration::from_secs(seconds));
            Ask::from(HttpRequest { method, url, headers: vec![], body: None, timeout })
        };
        let mut answers = NotedAnswers::default();
        let response = fetch(30).refused(ApiReason::Other, "as it was");
        answers.note(fetch(30), response.clone());
        assert_eq!(answers.give(fetch(29)), Some(response));
    }

    #[tokio::test]
    async fn a_call_that_asks_for_too_much_is_not_kept() {
        let (notes, ports) = noting(&Writer::answering(Ok("{}")).ports());
        let half = "a".repeat(NOTED_BYTES_MAX / 2);
        ports.ask(call(None).1, create(&half)).await.expect("answered");
        assert!(notes.take().is_some());
        for _ in 0..2 {
            ports.ask(call(None).1, create(&half)).await.expect("answered");
        }
        assert!(notes.take().is_none());
    }
}
