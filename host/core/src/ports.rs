//! Where the sandbox and the edge to Kubernetes meet: a plugin's import calls arrive in `windlass-wasm` as calls of
//! these traits, `windlass-kube` carries them out, and neither crate knows the other.

mod absent;
mod ask;
mod live;
mod port;
mod surroundings;

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::call_lines::CallLines;
use crate::confidential::Confidential;
use crate::error::ApiError;
use crate::fair::CpuPermit;
use crate::http::{HttpError, HttpRequest, HttpResponse};
use crate::object::{Object, ObjectKey, ObjectKind, ObjectRef};
use crate::overlay::Overlay;
use crate::principal::Principal;
use crate::settle::Hold;
use crate::trace::{CallTrace, OpenSpan};
use crate::trigger::Triggers;
use crate::write::{Collection, DeleteOptions, Operation};

pub use absent::Absent;
pub use ask::{Answer, Ask, CollectionDeletion, OwnerClaim, ServedQuery, TypedAsk};
pub use live::{Live, LiveGet, LiveQuery, LogQuery, ServedKind, View};
pub use port::{Port, ReadingPort, ask, port_fn};
pub use surroundings::Surroundings;

/// The context of an import call: who asks, about which primary, in which trace.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// In whose name, and with which rights.
    pub principal: Arc<Principal>,
    /// The controller's name in the manifest.
    pub controller: Arc<str>,
    /// The kind of the primary.
    pub primary_kind: ObjectKind,
    /// The key that is reconciled.
    pub primary_key: ObjectKey,
    /// The primary as cached when the call began. None: it is gone.
    pub primary: Option<Object>,
    /// Why the key is reconciled now, as far as it is known.
    pub triggers: Triggers,
    /// 32 hexadecimal digits, as in W3C Trace Context.
    pub trace_id: Arc<str>,
    /// The call's place in that trace, if its spans are collected.
    pub trace: CallTrace,
    /// Keeps the key from being processed again: a write that is on its way holds the context until it has settled,
    /// even if the call that asked for it has been cancelled (ADR 5).
    pub hold: Hold,
    /// The states that this call's own writes have left; its cache reads show them.
    pub overlay: Overlay,
    /// The last lines that the plugin has logged in it.
    pub lines: CallLines,
    /// The call's permission to compute, which it gives up while it waits.
    pub cpu_permit: CpuPermit,
    /// The operator's configuration of the plugin, a JSON object. It may hold what was read from Secrets.
    pub config: Confidential,
}

impl CallContext {
    /// The primary, narrowed to its incarnation if one is known.
    #[must_use]
    pub fn primary_ref(&self) -> ObjectRef {
        ObjectRef {
            kind: self.primary_kind.clone(),
            key: self.primary_key.clone(),
            uid: self.primary.as_ref().map(|object| object.header.uid.text()),
        }
    }

    /// The same for what is a part of `span`.
    #[must_use]
    pub fn within(self: &Arc<Self>, span: &OpenSpan) -> Arc<Self> {
        if span.is_collected() {
            Arc::new(Self { trace: span.trace().clone(), ..(**self).clone() })
        } else {
            self.clone()
        }
    }
}

/// Conditions of a list from the cache; all must hold. As `cache.list-query` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// The kind; a declared watch must cover it.
    pub kind: ObjectKind,
    /// None: all namespaces of the watch.
    pub namespace: Option<Arc<str>>,
    /// In Kubernetes' syntax.
    pub label_selector: Option<String>,
    /// A declared index and the value looked for.
    pub index: Option<(String, String)>,
    /// Only objects whose controller is the primary.
    pub owned: bool,
    /// Only the values at these JSON pointers.
    pub fields: Option<Vec<String>>,
    /// How many objects a page may hold, at least 1.
    pub limit: u32,
    /// How many bytes a page may hold.
    pub max_bytes: Option<u32>,
    /// Where the page before ended.
    pub page_token: Option<String>,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage {
    /// The objects' JSON texts.
    pub items: Vec<Arc<str>>,
    /// None: this is the last page.
    pub next_token: Option<String>,
}

/// Reads from the caches of the plugin's declared watches; never a request.
pub trait Reads: Send + Sync {
    /// One object. None: it is not in the cache.
    fn get(
        &self,
        call: &CallContext,
        target: &ObjectRef,
        fields: Option<&[String]>,
    ) -> Result<Option<Arc<str>>, ApiError>;

    /// A page of a list.
    fn list(&self, call: &CallContext, query: &ListQuery) -> Result<ListPage, ApiError>;
}

/// The result of a claim; as `owners.claimed` in WIT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    /// Orphans that the primary now controls.
    pub adopted: Vec<ObjectRef>,
    /// The objects that it has released.
    pub released: Vec<ObjectRef>,
}

/// Control of existing objects by their labels.
pub trait Owners: Send + Sync {
    /// Makes the primary the controller of all orphans of `kind` in its namespace that `label_selector` matches, and
    /// gives up those of its own that no longer match. Attempts all, and returns every error.
    fn claim(
        &self,
        call: Arc<CallContext>,
        kind: ObjectKind,
        label_selector: String,
    ) -> BoxFuture<'static, Result<Claimed, Vec<ApiError>>>;
}

/// The effect of a value on its metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricChange {
    /// Adds to a counter.
    Add,
    /// Sets a gauge.
    Set,
    /// Adds a value to a histogram.
    Observe,
}

/// The metrics that a plugin's manifest declares.
pub trait Metrics: Send + Sync {
    /// Takes a value. One that no declared metric fits is counted and dropped: metrics never fail a call.
    fn record(&self, call: &CallContext, change: MetricChange, name: &str, value: f64, labels: &[(String, String)]);
}

/// HTTP requests to granted hosts.
pub trait Http: Send + Sync {
    /// Sends `request` and reads the whole response.
    fn fetch(
        &self,
        call: Arc<CallContext>,
        request: HttpRequest,
    ) -> BoxFuture<'static, Result<HttpResponse, HttpError>>;
}

/// Mutations of the API (invariant 6).
pub trait Writes: Send + Sync {
    /// Carries out `operation` and returns the new object; None only for a delete after which nothing is left.
    ///
    /// The mutation runs as a task of its own: dropping the future abandons the answer, never a sent request (ADR 5).
    fn write(&self, call: Arc<CallContext>, operation: Operation) -> BoxFuture<'static, Written>;

    /// Carries out `operations` concurrently, slowly at first and faster while they succeed, and returns their results
    /// in the order of the argument.
    fn batch(&self, call: Arc<CallContext>, operations: Vec<Operation>) -> BoxFuture<'static, Vec<Written>>;
}

/// Deletions of many objects by one request. Mutations like those of [`Writes`].
pub trait Collections: Send + Sync {
    /// Deletes the objects of `collection`, and names those that the server says were among them; None: it does not say.
    /// As with [`Writes::write`], who stops waiting abandons the answer only.
    fn delete_collection(
        &self,
        call: Arc<CallContext>,
        collection: Collection,
        options: DeleteOptions,
    ) -> BoxFuture<'static, Deleted>;
}

/// How the deletion of a collection ended: which objects it was about, or None where the server does not say.
pub type Deleted = Result<Option<Vec<ObjectRef>>, ApiError>;

/// How a write ended: the object that it left, or None where nothing is left.
pub type Written = Result<Option<Arc<str>>, ApiError>;

/// Severity of an [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Things go as they should.
    Normal,
    /// Somebody should look.
    Warning,
}

/// A Kubernetes Event before it has been sent, as `types.event` in WIT.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// None: the primary.
    pub regarding: Option<ObjectRef>,
    /// A second object that took part.
    pub related: Option<ObjectRef>,
    /// Severity.
    pub event_type: EventType,
    /// Why, in CamelCase.
    pub reason: String,
    /// The action, in CamelCase.
    pub action: String,
    /// The text for people.
    pub note: String,
}

impl Event {
    /// One about the primary.
    #[must_use]
    pub fn of_primary(event_type: EventType, reason: &str, action: &str, note: String) -> Self {
        Self { regarding: None, related: None, event_type, reason: reason.to_owned(), action: action.to_owned(), note }
    }
}

/// Kubernetes Events, asynchronous: they never fail or delay a call.
pub trait Events: Send + Sync {
    /// Queues `event`; it may be merged with others or dropped.
    fn emit(&self, call: &CallContext, event: Event);

    /// The same for what the host has to say about the plugin's work: a plugin that emits much does not silence it.
    fn emit_for_host(&self, call: &CallContext, event: Event) {
        self.emit(call, event);
    }

    /// Warns whoever looks at the primary of something that has become of its `Reconcile`. Not of one that has gone:
    /// that would be shown nowhere.
    fn warn(&self, call: &CallContext, reason: &str, note: String) {
        if call.primary.is_some() {
            self.emit_for_host(call, Event::of_primary(EventType::Warning, reason, "Reconcile", note));
        }
    }
}

/// All that a call may ask of the world.
#[derive(Clone)]
pub struct Ports {
    /// Reads from caches.
    pub reads: Arc<dyn Reads>,
    /// Reads from the API server.
    pub live: Arc<dyn Live>,
    /// Mutations.
    pub writes: Arc<dyn Writes>,
    /// Deletions of collections.
    pub collections: Arc<dyn Collections>,
    /// Claims.
    pub owners: Arc<dyn Owners>,
    /// Kubernetes Events.
    pub events: Arc<dyn Events>,
    /// The plugin's metrics.
    pub metrics: Arc<dyn Metrics>,
    /// HTTP.
    pub http: Arc<dyn Http>,
    /// Time and chance. None: the host's own.
    pub surroundings: Option<Arc<dyn Surroundings>>,
}
