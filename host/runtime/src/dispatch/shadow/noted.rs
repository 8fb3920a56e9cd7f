//! Notes what a call asked for, and what it was told: its shadow is told the same where it asks the same.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use windlass_core::error::ApiError;
use windlass_core::http::{HttpBody, HttpError, HttpRequest, HttpResponse};
use windlass_core::intent;
use windlass_core::object::{ObjectKind, ObjectRef};
use windlass_core::ports::{
    CallContext, Claimed, Collections, Deleted, Http, ListPage, Live, LiveGet, LiveQuery, LogQuery, Owners, Ports,
    Reads, ServedKind, Writes, Written,
};
use windlass_core::write::{Collection, DeleteOptions, Operation};
use windlass_wasm::{CallLimits, Called, Request};

/// The most that is noted of one call, in bytes. A call that asks for more is not compared.
pub(super) const MOST_BYTES: usize = 4 << 20;
/// The room that a note takes beside its texts, in bytes.
pub(super) const NOTE_BYTES: usize = 256;

/// Questions with their answers, in their order.
#[derive(Debug)]
pub(super) struct NotedAnswers<Q, A>(Vec<NotedAnswer<Q, A>>);

#[derive(Debug)]
struct NotedAnswer<Q, A> {
    question: Q,
    answer: A,
    is_given: bool,
}

impl<Q, A> Default for NotedAnswers<Q, A> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<Q: PartialEq, A: Clone> NotedAnswers<Q, A> {
    pub(super) fn note(&mut self, question: Q, answer: A) {
        self.0.push(NotedAnswer { question, answer, is_given: false });
    }

    /// The answer to the same question: that to the first that has not been given, or else the last one. None: nobody has asked.
    pub(super) fn give(&mut self, question: &Q) -> Option<A> {
        let unused = self.0.iter_mut().find(|it| !it.is_given && it.question == *question);
        if let Some(it) = unused {
            it.is_given = true;
            return Some(it.answer.clone());
        }
        self.0.iter().rev().find(|it| it.question == *question).map(|it| it.answer.clone())
    }

    /// The questions, in their order.
    pub(super) fn questions(&self) -> impl Iterator<Item = &Q> {
        self.0.iter().map(|it| &it.question)
    }
}

/// The state of an object before a call wrote it. Err: no cache covers the object.
pub(super) type CachedState = Result<Option<Arc<str>>, ()>;

/// A claim that was asked for.
pub(super) type NotedClaim = (ObjectKind, String);

/// All that one call asked for and was told.
#[derive(Debug, Default)]
pub(crate) struct CallNotes {
    pub(super) writes: NotedAnswers<Operation, Written>,
    pub(super) deletions: NotedAnswers<(Collection, DeleteOptions), Deleted>,
    pub(super) claims: NotedAnswers<NotedClaim, Result<Claimed, Vec<ApiError>>>,
    pub(super) gets: NotedAnswers<LiveGet, Written>,
    pub(super) lists: NotedAnswers<LiveQuery, Result<ListPage, ApiError>>,
    pub(super) logs: NotedAnswers<LogQuery, Result<String, ApiError>>,
    pub(super) fetched: NotedAnswers<HttpRequest, Result<HttpResponse, HttpError>>,
    /// The objects that it wrote, as the caches showed them before.
    pub(super) before: Vec<(ObjectRef, CachedState)>,
    bytes: usize,
}

impl CallNotes {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The notes of a call that goes on. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenNotes(Arc<Mutex<CallNotes>>);

impl OpenNotes {
    /// Notes what takes `bytes`, unless that is too much.
    fn note(&self, bytes: usize, note: impl FnOnce(&mut CallNotes)) {
        let mut noted = self.lock();
        noted.bytes = noted.bytes.saturating_add(bytes).saturating_add(NOTE_BYTES);
        if noted.bytes <= MOST_BYTES {
            note(&mut noted);
        }
    }

    /// Whether nothing more is noted, as it was too much.
    fn is_full(&self) -> bool {
        self.lock().bytes > MOST_BYTES
    }

    /// All that was noted. None: it was too much.
    pub(crate) fn take(&self) -> Option<CallNotes> {
        let noted = std::mem::take(&mut *self.lock());
        (noted.bytes <= MOST_BYTES).then_some(noted)
    }

    /// Notes the state of the object that `operation` is about, if it is the first that is about it.
    fn look(&self, reads: &dyn Reads, call: &CallContext, operation: &Operation) {
        if self.is_full() {
            return;
        }
        let Some(object) = intent::object_of(operation, &call.primary_ref()) else { return };
        if self.lock().before.iter().any(|(known, _)| *known == object) {
            return;
        }
        let before = state_of(reads, call, &object);
        let bytes = before.as_ref().ok().and_then(Option::as_ref).map_or(0, |text| text.len());
        self.note(bytes, |noted| noted.before.push((object, before)));
    }

    fn lock(&self) -> MutexGuard<'_, CallNotes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of `object` as a call sees it now. Err: no cache covers it.
pub(super) fn state_of(reads: &dyn Reads, call: &CallContext, object: &ObjectRef) -> CachedState {
    let mut asked = ObjectRef { uid: None, ..object.clone() };
    if asked.key.namespace == call.primary_key.namespace {
        // Found beside the primary, if its kind has namespaces.
        asked.key.namespace = None;
    }
    reads.get(call, &asked, None).map_err(drop)
}

/// A call of the current version that has ended, for its shadow. It does not hold its key.
#[derive(Debug)]
pub(crate) struct NotedCall {
    pub(super) request: Request,
    pub(super) context: CallContext,
    pub(super) limits: CallLimits,
    pub(super) noted: CallNotes,
    pub(super) called: Called,
}

impl NotedCall {
    pub(crate) fn new(
        request: Request,
        context: CallContext,
        limits: CallLimits,
        noted: CallNotes,
        called: Called,
    ) -> Self {
        Self { request, context, limits, noted, called }
    }

    /// Roughly what it keeps in memory. What it shares with the caches is not counted.
    pub(super) fn bytes(&self) -> usize {
        self.noted.bytes()
    }
}

/// `ports`, of which all is noted that the call of a shadow may ask for, too.
pub(crate) fn noting(ports: &Ports, notes: &OpenNotes) -> Ports {
    let noting = Arc::new(Noting { ports: ports.clone(), notes: notes.clone() });
    Ports {
        live: noting.clone(),
        writes: noting.clone(),
        collections: noting.clone(),
        owners: noting.clone(),
        http: noting,
        ..ports.clone()
    }
}

/// Ports whose questions and answers are noted.
struct Noting {
    ports: Ports,
    notes: OpenNotes,
}

fn note_write(notes: &OpenNotes, operation: Operation, written: &Written) {
    let bytes = operation.body_bytes() + text_bytes(written);
    notes.note(bytes, |noted| noted.writes.note(operation, written.clone()));
}

fn text_bytes(written: &Written) -> usize {
    written.as_ref().ok().and_then(Option::as_ref).map_or(0, |text| text.len())
}

fn body_bytes(body: &HttpBody) -> usize {
    match body {
        HttpBody::Text(text) => text.len(),
        HttpBody::Bytes(bytes) => bytes.len(),
    }
}

impl Writes for Noting {
    fn write(&self, call: Arc<CallContext>, operation: Operation) -> BoxFuture<'static, Written> {
        self.notes.look(&*self.ports.reads, &call, &operation);
        if self.notes.is_full() {
            return self.ports.writes.write(call, operation);
        }
        let (notes, write) = (self.notes.clone(), self.ports.writes.write(call, operation.clone()));
        async move {
            let written = write.await;
            note_write(&notes, operation, &written);
            written
        }
        .boxed()
    }

    fn batch(&self, call: Arc<CallContext>, operations: Vec<Operation>) -> BoxFuture<'static, Vec<Written>> {
        for operation in &operations {
            self.notes.look(&*self.ports.reads, &call, operation);
        }
        if self.notes.is_full() {
            return self.ports.writes.batch(call, operations);
        }
        let (notes, batch) = (self.notes.clone(), self.ports.writes.batch(call, operations.clone()));
        async move {
            let written = batch.await;
            for (operation, written) in operations.into_iter().zip(&written) {
                note_write(&notes, operation, written);
            }
            written
        }
        .boxed()
    }
}

impl Collections for Noting {
    fn delete_collection(
        &self,
        call: Arc<CallContext>,
        collection: Collection,
        options: DeleteOptions,
    ) -> BoxFuture<'static, Deleted> {
        let asked = (collection.clone(), options.clone());
        let (notes, deletion) =
            (self.notes.clone(), self.ports.collections.delete_collection(call, collection, options));
        async move {
            let deleted = deletion.await;
            let count = deleted.as_ref().ok().and_then(Option::as_ref).map_or(0, Vec::len);
            notes.note(count * size_of::<ObjectRef>(), |noted| noted.deletions.note(asked, deleted.clone()));
            deleted
        }
        .boxed()
    }
}

impl Owners for Noting {
    fn claim(
        &self,
        call: Arc<CallContext>,
        kind: ObjectKind,
        label_selector: String,
    ) -> BoxFuture<'static, Result<Claimed, Vec<ApiError>>> {
        let asked = (kind.clone(), label_selector.clone());
        let (notes, claim) = (self.notes.clone(), self.ports.owners.claim(call, kind, label_selector));
        async move {
            let claimed = claim.await;
            let count = claimed.as_ref().map_or(0, |claimed| claimed.adopted.len() + claimed.released.len());
            notes.note(count * size_of::<ObjectRef>(), |noted| noted.claims.note(asked, claimed.clone()));
            claimed
        }
        .boxed()
    }
}

impl Live for Noting {
    fn get(&self, call: Arc<CallContext>, asked: LiveGet) -> BoxFuture<'static, Written> {
        let (notes, get) = (self.notes.clone(), self.ports.live.get(call, asked.clone()));
        async move {
            let found = get.await;
            notes.note(text_bytes(&found), |noted| noted.gets.note(asked, found.clone()));
            found
        }
        .boxed()
    }

    fn list(&self, call: Arc<CallContext>, query: LiveQuery) -> BoxFuture<'static, Result<ListPage, ApiError>> {
        let (notes, list) = (self.notes.clone(), self.ports.live.list(call, query.clone()));
        async move {
            let page = list.await;
            let bytes = page.as_ref().map_or(0, |page| page.items.iter().map(|text| text.len()).sum());
            notes.note(bytes, |noted| noted.lists.note(query, page.clone()));
            page
        }
        .boxed()
    }

    fn log(&self, call: Arc<CallContext>, query: LogQuery) -> BoxFuture<'static, Result<String, ApiError>> {
        let (notes, log) = (self.notes.clone(), self.ports.live.log(call, query.clone()));
        async move {
            let text = log.await;
            notes.note(text.as_ref().map_or(0, String::len), |noted| noted.logs.note(query, text.clone()));
            text
        }
        .boxed()
    }

    fn served(
        &self,
        call: Arc<CallContext>,
        kind: ObjectKind,
    ) -> BoxFuture<'static, Result<Option<ServedKind>, ApiError>> {
        self.ports.live.served(call, kind)
    }
}

impl Http for Noting {
    fn fetch(
        &self,
        call: Arc<CallContext>,
        request: HttpRequest,
    ) -> BoxFuture<'static, Result<HttpResponse, HttpError>> {
        let (notes, fetch) = (self.notes.clone(), self.ports.http.fetch(call, request.clone()));
        async move {
            let response = fetch.await;
            let sent = request.body.as_ref().map_or(0, body_bytes);
            let bytes = sent + response.as_ref().map_or(0, |response| body_bytes(&response.body));
            notes.note(bytes, |noted| noted.fetched.note(request, response.clone()));
            response
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_questions_get_the_same_answers_in_their_order() {
        let mut answers = NotedAnswers::default();
        answers.note("a", 1);
        answers.note("b", 2);
        answers.note("a", 3);
        assert_eq!(["a", "a", "a", "b", "c"].map(|it| answers.give(&it)), [Some(1), Some(3), Some(3), Some(2), None]);
        assert_eq!(answers.questions().collect::<Vec<_>>(), [&"a", &"b", &"a"]);
    }

    #[test]
    fn a_call_that_asks_for_too_much_is_not_kept() {
        let notes = OpenNotes::default();
        notes.note(MOST_BYTES - NOTE_BYTES, |noted| noted.before.clear());
        assert!(notes.take().is_some());
        notes.note(MOST_BYTES - NOTE_BYTES, |noted| noted.before.clear());
        notes.note(1, |_| panic!("it is too much"));
        assert!(notes.take().is_none());
    }
}
