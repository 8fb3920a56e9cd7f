//! Where the sandbox and the edge to Kubernetes meet: a plugin's import calls arrive in `windlass-wasm` as calls of
//! these traits, `windlass-kube` carries them out, and neither crate knows the other.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::error::ApiError;
use crate::object::{Object, ObjectKey, ObjectKind, ObjectRef};
use crate::principal::Principal;
use crate::settle::Hold;
use crate::write::Operation;

/// What every import call carries: who asks, about which primary, in which trace.
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
    /// 32 hexadecimal digits, as in W3C Trace Context.
    pub trace_id: Arc<str>,
    /// Keeps the key from being processed again: a write that is on its way holds the context until it has settled,
    /// even if the call that asked for it has been cancelled (§3.4).
    pub hold: Hold,
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
pub struct Page {
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
    fn list(&self, call: &CallContext, query: &ListQuery) -> Result<Page, ApiError>;
}

/// Mutations of the API (invariant 6).
pub trait Writes: Send + Sync {
    /// Carries out `operation` and returns the new object; None only for a delete after which nothing is left.
    ///
    /// The mutation runs as a task of its own: dropping the future abandons the answer, never a sent request (§3.4).
    fn write(
        &self,
        call: Arc<CallContext>,
        operation: Operation,
    ) -> BoxFuture<'static, Result<Option<Arc<str>>, ApiError>>;
}

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
    /// What was done, in CamelCase.
    pub action: String,
    /// The text for people.
    pub note: String,
}

/// Kubernetes Events, asynchronous: they never fail or delay a call.
pub trait Events: Send + Sync {
    /// Queues `event`; it may be merged with others or dropped.
    fn emit(&self, call: &CallContext, event: Event);
}

/// All that a call may ask of Kubernetes.
#[derive(Clone)]
pub struct Ports {
    /// Reads from caches.
    pub reads: Arc<dyn Reads>,
    /// Mutations.
    pub writes: Arc<dyn Writes>,
    /// Kubernetes Events.
    pub events: Arc<dyn Events>,
}
