//! The interface between the sandbox and Kubernetes: `windlass-wasm` turns a plugin's imports into calls of these
//! traits, `windlass-kube` implements them, and neither crate knows the other.
//!
//! Whatever leaves the process goes through one asynchronous [`Port`] as an [`Ask`] (ADR 35). Cached reads,
//! Kubernetes Events and metrics have synchronous traits, because they are answered at once and reads are by far the
//! most frequent.

mod absent;
mod ask;
mod listen;
mod live;
mod port;
mod surroundings;

use std::sync::Arc;

use crate::budget::fair::CpuPermit;
use crate::cache::overlay::Overlay;
use crate::call::call_lines::CallLines;
use crate::call::read_set::ReadQuestion;
use crate::call::read_tracker::ReadTracker;
use crate::call::trace::{CallTrace, OpenSpan};
use crate::error::ApiError;
use crate::object::progress::Stamp;
use crate::object::{Object, ObjectKey, ObjectKind, ObjectRef};
use crate::queue::trigger::Triggers;
use crate::rights::principal::Principal;
use crate::secret::confidential::Confidential;
use crate::write::settle::Hold;

pub use crate::call::list_query::ListQuery;
pub use absent::Absent;
pub use ask::{Answer, Ask, CollectionDeletion, KindsQuery, OwnerClaim, ServedQuery, TypedAsk};
pub use listen::{Answered, Asked, Listener, listened};
pub use live::{ListedKind, LiveGet, LiveQuery, LogQuery, ServedKind, View};
pub use port::{Port, ReadingPort, ask, port_fn};
pub use surroundings::Surroundings;

/// The context of an import call: the caller, its primary and its trace.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// The caller and its rights.
    pub principal: Arc<Principal>,
    /// The controller's name, as logs and status show it.
    pub controller: Arc<str>,
    /// The kind of the primary.
    pub primary_kind: ObjectKind,
    /// The key that is reconciled.
    pub primary_key: ObjectKey,
    /// The primary as cached when the call began. `None` if the primary is gone.
    pub primary: Option<Object>,
    /// Why the key is reconciled now, as far as the host knows.
    pub triggers: Triggers,
    /// 32 hexadecimal digits, as in W3C Trace Context.
    pub trace_id: Arc<str>,
    /// The call's place in that trace, if its spans are collected.
    pub trace: CallTrace,
    /// Keeps the key from being processed again. A write under way holds the context until the write has settled, even
    /// if the call that sent the write was cancelled (ADR 5).
    pub hold: Hold,
    /// The states after this call's own writes, which its cache reads show.
    pub overlay: Overlay,
    /// The last lines that the plugin logged in this call.
    pub lines: CallLines,
    /// The call's CPU permit, which it gives up while it waits.
    pub cpu_permit: CpuPermit,
    /// The operator's configuration of the plugin, a JSON object. It may contain values from Secrets.
    pub config: Confidential,
    /// Notes what the call reads. Off unless the host may save later calls about this key.
    pub reads: ReadTracker,
}

impl CallContext {
    /// The context of a call that does not come from a queue. It has no cached primary, no trace and no configuration,
    /// and nothing waits for its end.
    #[must_use]
    pub fn detached(
        principal: impl Into<Arc<Principal>>,
        controller: impl Into<Arc<str>>,
        primary_kind: ObjectKind,
        primary_key: ObjectKey,
    ) -> Self {
        Self {
            principal: principal.into(),
            controller: controller.into(),
            primary_kind,
            primary_key,
            primary: None,
            triggers: Triggers::default(),
            trace_id: Arc::default(),
            trace: CallTrace::default(),
            hold: Hold::detached(),
            overlay: Overlay::default(),
            lines: CallLines::default(),
            cpu_permit: CpuPermit::default(),
            config: "{}".into(),
            reads: ReadTracker::default(),
        }
    }

    /// The primary, with its UID if that is known.
    #[must_use]
    pub fn primary_ref(&self) -> ObjectRef {
        ObjectRef {
            kind: self.primary_kind.clone(),
            key: self.primary_key.clone(),
            uid: self.primary.as_ref().map(|object| object.header.uid.text()),
        }
    }

    /// The same context for work that belongs to `span`.
    #[must_use]
    pub fn within(self: &Arc<Self>, span: &OpenSpan) -> Arc<Self> {
        if span.is_collected() {
            Arc::new(Self { trace: span.trace().clone(), ..(**self).clone() })
        } else {
            self.clone()
        }
    }
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage {
    /// The objects' JSON texts.
    pub items: Vec<Arc<str>>,
    /// `None` on the last page.
    pub next_token: Option<String>,
}

/// Reads from the caches of the plugin's declared watches; never a request.
pub trait Reads: Send + Sync {
    /// One object. `None` if it is not in the cache.
    fn get(
        &self,
        call: &CallContext,
        target: &ObjectRef,
        fields: Option<&[String]>,
    ) -> Result<Option<Arc<str>>, ApiError>;

    /// A page of a list.
    fn list(&self, call: &CallContext, query: &ListQuery) -> Result<ListPage, ApiError>;

    /// The state that a read with this `question` would be answered from now, as [`ReadTracker::answers_from`] notes it
    /// in a read. As long as it stays the same, so does the answer. `None` if that is not known.
    fn stamp(&self, _call: &CallContext, _question: &ReadQuestion) -> Option<Stamp> {
        None
    }

    /// The object that a write of the call would be skipped for now, if its body allows that. `None` if no write of the
    /// object would be skipped.
    fn skipped(&self, _call: &CallContext, _kind: &ObjectKind, _key: &ObjectKey) -> Option<Object> {
        None
    }
}

/// The result of a claim; as `owners.claimed` in WIT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    /// Orphans that the primary now controls.
    pub adopted: Vec<ObjectRef>,
    /// The objects that the primary has released.
    pub released: Vec<ObjectRef>,
}

/// The effect of a value on its metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricChange {
    /// Adds to a counter.
    Add,
    Set,
    /// Adds a value to a histogram.
    Observe,
}

/// The metrics that a plugin's manifest declares.
pub trait Metrics: Send + Sync {
    /// Records a value. A value that fits no declared metric is counted and dropped: metrics never fail a call.
    fn record(&self, call: &CallContext, change: MetricChange, name: &str, value: f64, labels: &[(String, String)]);

    /// The value of a gauge, which any call of the plugin may have set last. `None` if it has none, or if that is not
    /// known.
    fn gauge(&self, _call: &CallContext, _name: &str, _labels: &[(String, String)]) -> Option<f64> {
        None
    }
}

/// The result of deleting a collection: the deleted objects, or `None` if the server does not name them.
pub type Deleted = Result<Option<Vec<ObjectRef>>, ApiError>;

/// The result of a write: the object after it, or `None` if nothing is left.
pub type Written = Result<Option<Arc<str>>, ApiError>;

/// Severity of an [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Expected operation.
    Normal,
    Warning,
}

/// A Kubernetes Event before it has been sent, as `types.event` in WIT.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// `None` means the primary.
    pub regarding: Option<ObjectRef>,
    /// A second object that was involved.
    pub related: Option<ObjectRef>,
    pub event_type: EventType,
    pub reason: String,
    /// The action, in CamelCase.
    pub action: String,
    /// The text for people.
    pub note: String,
}

impl Event {
    /// An Event about the primary.
    #[must_use]
    pub fn of_primary(event_type: EventType, reason: &str, action: &str, note: String) -> Self {
        Self { regarding: None, related: None, event_type, reason: reason.to_owned(), action: action.to_owned(), note }
    }
}

/// Kubernetes Events, asynchronous: they never fail or delay a call.
pub trait Events: Send + Sync {
    /// Queues `event`. The host may merge it with other Events, or drop it.
    fn emit(&self, call: &CallContext, event: Event);

    /// As [`Events::emit`], for the host's own Events about the plugin's work. These Events have their own rate limit,
    /// so that a plugin that emits much does not suppress them.
    fn emit_for_host(&self, call: &CallContext, event: Event) {
        self.emit(call, event);
    }

    /// Emits a warning Event about the primary, for trouble with its `Reconcile`. Does nothing if the primary is
    /// gone, because the Event would be shown nowhere.
    fn warn(&self, call: &CallContext, reason: &str, note: String) {
        if call.primary.is_some() {
            self.emit_for_host(call, Event::of_primary(EventType::Warning, reason, "Reconcile", note));
        }
    }
}

/// All ports of a call. [`Port`] is asynchronous, because its answers take time. The other ports answer at once.
#[derive(Clone)]
pub struct Ports {
    pub reads: Arc<dyn Reads>,
    /// Everything that leaves this process: reads from the API server, mutations, HTTP.
    pub outside: Arc<dyn Port>,
    pub events: Arc<dyn Events>,
    pub metrics: Arc<dyn Metrics>,
    /// Clock and randomness. `None` means the host's own.
    pub surroundings: Option<Arc<dyn Surroundings>>,
}

impl Ports {
    /// Sends `question` to the outside port for `call` and returns its answer.
    pub fn ask<Q: TypedAsk>(
        &self,
        call: Arc<CallContext>,
        question: Q,
    ) -> impl Future<Output = Q::Answer> + Send + use<Q> {
        ask(&*self.outside, call, question)
    }
}
