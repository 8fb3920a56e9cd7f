//! The ports of a shadow's call. Behind them are the caches and reads of the API server, and nothing that writes. The
//! shadow's writes are only noted. A write gets the answer that the current version got for an equal write, or else an
//! answer that is computed from the object's text.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::join_all;
use serde_json::{Value, json};
use windlass_core::cache::watch::WatchSpec;
use windlass_core::call::http::HttpRequest;
use windlass_core::call::intent::{self, DryState, carried_out};
use windlass_core::call::ports::{
    Absent, Answer, Ask, CallContext, Claimed, Port, Ports, ReadingPort, Reads, ServedKind, ServedQuery, TypedAsk,
    Written, ask, port_fn,
};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::{ObjectKey, ObjectKind, ObjectRef};
use windlass_core::write::Operation;

use super::noted::{CachedState, CallNotes, NOTE_OVERHEAD_BYTES, NOTED_BYTES_MAX, state_of};

/// The name of a group of asks, and a function that recognises them.
type AskGroup = (&'static str, fn(&Ask) -> bool);

/// The groups of asks that are only compared for equality, each group separately.
pub(super) const OTHERS: [AskGroup; 2] = [
    ("deletions of collections", |ask| matches!(ask, Ask::DeleteCollection(_))),
    ("claims", |ask| matches!(ask, Ask::Claim(_))),
];

/// All that a shadow's call wanted to do.
#[derive(Debug, Default)]
pub(super) struct ShadowIntents {
    pub(super) writes: Vec<Operation>,
    /// The asks of [`OTHERS`].
    pub(super) others: Vec<Ask>,
    /// The first few requests that were refused because the current version's call has not sent them, without parts
    /// that may be secret.
    refused: Vec<String>,
    /// The objects that the shadow's call wrote, in the state that it saw before its writes.
    pub(super) before: Vec<(ObjectRef, CachedState)>,
    /// The size of all its writes, in bytes.
    bytes: usize,
}

const NOT_SENT: &str = "a shadow sends no HTTP requests: it gets the responses to the current version's requests";

/// The most refused requests that are listed.
const SHADOW_REFUSALS_LISTED_MAX: usize = 10;
/// The longest text of a listed request, in bytes.
const SHADOW_REFUSAL_BYTES_MAX: usize = 200;

impl ShadowIntents {
    /// Whether the next version's writes are larger than the writes of the current version that can be noted.
    pub(super) fn is_too_much(&self) -> bool {
        self.bytes > NOTED_BYTES_MAX
    }

    /// Requests that were refused.
    pub(super) fn refused(&self) -> &[String] {
        &self.refused
    }

    fn write(&mut self, operation: &Operation) {
        self.bytes = self.bytes.saturating_add(operation.body_bytes()).saturating_add(NOTE_OVERHEAD_BYTES);
        if !self.is_too_much() {
            self.writes.push(operation.clone());
        }
    }

    fn refuse(&mut self, request: &HttpRequest) {
        if self.refused.len() < SHADOW_REFUSALS_LISTED_MAX {
            let mut text = format!("{} {}", request.method, without_secrets(&request.url));
            text.truncate(text.floor_char_boundary(SHADOW_REFUSAL_BYTES_MAX));
            self.refused.push(text);
        }
    }
}

/// `url` without the parts that may be secret: its user and its query.
fn without_secrets(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = bare.split_once("://") else { return bare.to_owned() };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}/{path}").trim_end_matches('/').to_owned()
}

/// A call of the current version, and what its shadow has wanted so far.
pub(super) struct ShadowedCall {
    reads: Arc<dyn Reads>,
    live: ReadingPort,
    notes: Mutex<CallNotes>,
    wanted: Mutex<ShadowIntents>,
}

impl ShadowedCall {
    /// A call whose shadow reads from `reads` and `live`. `notes` has the asks and answers of the current version's
    /// call.
    pub(super) fn new(reads: Arc<dyn Reads>, live: ReadingPort, notes: CallNotes) -> Arc<Self> {
        Arc::new(Self { reads, live, notes: Mutex::new(notes), wanted: Mutex::default() })
    }

    /// The ports of the shadow's call. Its Kubernetes Events and metrics go nowhere.
    pub(super) fn ports(self: &Arc<Self>) -> Ports {
        let shadowed = self.clone();
        let outside = port_fn(move |call, ask| {
            let shadowed = shadowed.clone();
            async move { shadowed.answer(call, ask).await }.boxed()
        });
        Ports {
            reads: self.reads.clone(),
            outside,
            events: Arc::new(Absent),
            metrics: Arc::new(Absent),
            surroundings: None,
        }
    }

    pub(super) fn notes(&self) -> MutexGuard<'_, CallNotes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wanted(&self) -> MutexGuard<'_, ShadowIntents> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the caches show to `call` the objects that the current version's call has written, in their state before
    /// these writes.
    pub(super) async fn rewind(&self, call: &Arc<CallContext>) {
        let before = self.notes().before.clone();
        for (object, state) in before {
            let Ok(state) = state else { continue };
            let key = call.cpu_permit.without(self.key_of(call, &object)).await;
            lay(call, &object.kind, key, state.as_deref());
        }
    }

    /// The key of `object`, without its namespace if its kind turns out to be cluster-scoped.
    async fn key_of(&self, call: &Arc<CallContext>, object: &ObjectRef) -> ObjectKey {
        let mut key = object.key.clone();
        if key.namespace.is_some()
            && key.namespace == call.primary_key.namespace
            && let kind = object.kind.clone()
            && let Ok(Some(ServedKind { namespaced: false, .. })) =
                ask(&self.live, call.clone(), ServedQuery { kind }).await
        {
            key.namespace = None;
        }
        key
    }

    /// The answer that the current version got to the same ask. If the current version did not ask this, reads are
    /// carried out, HTTP requests are refused, and everything else is computed.
    async fn answer(&self, call: Arc<CallContext>, ask: Ask) -> Answer {
        match ask {
            Ask::Write(operation) => return Answer::Write(self.write(call, *operation).await),
            Ask::Batch(operations) => {
                let each = operations.into_iter().map(|operation| self.write(call.clone(), operation));
                return Answer::Batch(join_all(each).await);
            }
            Ask::DeleteCollection(_) | Ask::Claim(_) => self.wanted().others.push(ask.clone()),
            _ => {}
        }
        if let Some(answer) = self.notes().answers.give(ask.clone()) {
            return answer;
        }
        match &ask {
            Ask::DeleteCollection(_) => Answer::DeleteCollection(Ok(None)),
            Ask::Claim(_) => Answer::Claim(Ok(Claimed::default())),
            Ask::Fetch(request) => {
                self.wanted().refuse(request);
                ask.refused(ApiReason::ReadOnly, NOT_SENT)
            }
            _ => self.live.ask(call, ask).await,
        }
    }

    async fn write(&self, call: Arc<CallContext>, operation: Operation) -> Written {
        let object = intent::object_of(&operation, &call.primary_ref());
        let noted = self.notes().answers.give(operation.clone().into()).map(Operation::answer);
        let Some(object) = object else {
            self.wanted().write(&operation);
            return noted.unwrap_or_else(|| Err(refused(&operation, None, ApiReason::Invalid)));
        };
        let before = state_of(&*self.reads, &call, &object);
        let state = DryState::of(&before);
        {
            let mut wanted = self.wanted();
            if !intent::is_dry_run(&operation) && !wanted.before.iter().any(|(known, _)| *known == object) {
                wanted.before.push((object.clone(), before));
            }
            wanted.write(&operation);
        }
        let written = match noted {
            Some(written) => written,
            None => self.computed(&call, &operation, &object, &state).await?,
        };
        if !intent::is_dry_run(&operation)
            && let Ok(left) = &written
            && leaves_object(&operation)
        {
            let key = self.key_of(&call, &object).await;
            lay(&call, &object.kind, key, left.as_deref());
        }
        written
    }

    /// The answer to a write that the current version's call has not made. `Err` if the server would refuse it.
    async fn computed(
        &self,
        call: &Arc<CallContext>,
        operation: &Operation,
        object: &ObjectRef,
        before: &DryState,
    ) -> Result<Written, ApiError> {
        if !leaves_object(operation) {
            return Ok(Ok(Some(body_of(operation).into())));
        }
        let after = carried_out(operation, before, &call.primary_ref());
        let after = after.map_err(|reason| refused(operation, Some(object.clone()), reason))?;
        let DryState::Is(after) = after else { return Ok(Ok(None)) };
        let key = self.key_of(call, object).await;
        Ok(Ok(Some(completed(after, &object.kind, &key).to_string().into())))
    }
}

/// Adds the fields that the server would add to a new object.
fn completed(mut object: Value, kind: &ObjectKind, key: &ObjectKey) -> Value {
    object["apiVersion"] = (*kind.api_version).into();
    object["kind"] = (*kind.kind).into();
    let name = key.name.replace('*', "shadow");
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata["name"] = name.as_str().into();
    if let Some(namespace) = &key.namespace {
        metadata["namespace"] = (**namespace).into();
    }
    for (field, value) in [
        ("uid", format!("shadow-{name}").into()),
        ("resourceVersion", json!("0")),
        ("generation", json!(1)),
        ("creationTimestamp", json!("1970-01-01T00:00:00Z")),
    ] {
        if metadata[field].is_null() {
            metadata[field] = value;
        }
    }
    object
}

/// Makes `call` see the object `key` as `text`, or as gone if that is `None`.
fn lay(call: &CallContext, kind: &ObjectKind, key: ObjectKey, text: Option<&str>) {
    match text {
        None => call.overlay.gone(kind, key, None),
        // A text that is not an object cannot be shown in place of one.
        Some(text) => {
            if let Ok(object) = windlass_kube::object_of(&WatchSpec::all(kind.clone()), text) {
                call.overlay.record(kind.clone(), object.header.key.clone(), Some(object));
            }
        }
    }
}

/// Whether the answer to `operation` is the object itself.
fn leaves_object(operation: &Operation) -> bool {
    let subresource = operation.options().and_then(|options| options.subresource.as_ref());
    subresource.is_none_or(|subresource| &*subresource.name == "status")
}

fn body_of(operation: &Operation) -> &str {
    match operation {
        Operation::Create { object, .. } | Operation::Update { object, .. } | Operation::Apply { object, .. } => object,
        Operation::Patch { patch, .. } => patch,
        Operation::Delete { .. } => "{}",
    }
}

fn refused(operation: &Operation, object: Option<ObjectRef>, reason: ApiReason) -> ApiError {
    let message = "the server would refuse it, as far as a shadow can know";
    ApiError::refused(reason, operation.verb(), "", object, message)
}

#[cfg(test)]
mod tests;
