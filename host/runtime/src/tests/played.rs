//! Test doubles for middleware: a plugin, a writer, and the calls between them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use serde_json::Value;
use windlass_core::call::ports::{Absent, Answer, Ask, CallContext, Ports, Written, port_fn};
use windlass_core::error::ApiError;
use windlass_core::object::{Header, Object, ObjectKey, ObjectKind};
use windlass_core::queue::outcome::CallResult;
use windlass_core::rights::grants::{Allowance, Grants, LiveGrants};
use windlass_core::rights::principal::{Principal, Role};
use windlass_core::write::Operation;
use windlass_wasm::{Called, Request};

use crate::dispatch::reconcile::{Call, Reconcile};

/// A plugin that records its calls and always returns the same result. Clones share the record.
#[derive(Clone)]
pub(crate) struct Plugin {
    answer: CallResult,
    requests: Arc<Mutex<Vec<Request>>>,
    /// The states of the primary after its own writes.
    leaves: Vec<Option<Object>>,
}

impl Plugin {
    pub(crate) fn answering(answer: CallResult) -> Self {
        Self { answer, requests: Arc::default(), leaves: vec![] }
    }

    pub(crate) fn leaving(self, state: Option<Object>) -> Self {
        Self { leaves: vec![state], ..self }
    }

    pub(crate) fn boxed(&self) -> Box<dyn Reconcile> {
        Box::new(self.clone())
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic").clone()
    }
}

impl Reconcile for Plugin {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        let Call { request, context: call, .. } = call;
        for state in &self.leaves {
            call.overlay.record(call.primary_kind.clone(), call.primary_key.clone(), state.clone());
        }
        self.requests.lock().expect("no panic").push(request);
        ready(Called::made(self.answer.clone(), Duration::ZERO)).boxed()
    }
}

/// Records writes with the role that makes them, and gives them all the same answer.
pub(crate) struct Writer {
    answer: Written,
    written: Mutex<Vec<(Role, Operation)>>,
}

impl Writer {
    pub(crate) fn answering(answer: Result<&str, ApiError>) -> Arc<Self> {
        Arc::new(Self { answer: answer.map(|text| Some(text.into())), written: Mutex::default() })
    }

    pub(crate) fn ports(self: &Arc<Self>) -> Ports {
        let writer = self.clone();
        let outside = port_fn(move |call, ask| {
            let Ask::Write(operation) = ask else { unreachable!("one at a time is written: {ask:?}") };
            writer.written.lock().expect("no panic").push((call.principal.role, *operation));
            ready(Answer::Write(writer.answer.clone())).boxed()
        });
        Ports { outside, ..Absent::ports() }
    }

    /// The patches as JSON, each with the version that it requires.
    pub(crate) fn patches(&self) -> Vec<(Value, String)> {
        let written = self.written.lock().expect("no panic");
        let patches = written.iter().map(|(role, operation)| match operation {
            Operation::Patch { target, patch, options, .. } => {
                assert_eq!((*role, target.uid.as_deref()), (Role::Finalizer, Some("u-1")));
                let version = options.resource_version.as_deref().expect("it is locked").to_owned();
                (serde_json::from_str(patch).expect("JSON"), version)
            }
            other => panic!("{other:?}"),
        });
        patches.collect()
    }
}

/// The text of the primary at `version`, with additional `metadata`.
pub(crate) fn text(version: &str, metadata: &str) -> String {
    let mut object = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "b": "2"}});
    object["metadata"] = serde_json::from_str(metadata).expect("JSON");
    for (field, value) in [("namespace", "prod"), ("name", "a"), ("uid", "u-1"), ("resourceVersion", version)] {
        object["metadata"][field] = value.into();
    }
    object.to_string()
}

/// The primary at `version`, with additional `metadata`.
pub(crate) fn object(version: &str, metadata: &str, deleting: bool) -> Object {
    let header = Header { generation: 1, deleting, ..Header::bare(ObjectKey::namespaced("prod", "a"), "u-1", version) };
    Object::new(header, text(version, metadata))
}

/// A principal that is granted its finalizer and nothing else.
pub(crate) fn principal() -> Principal {
    let asked = Allowance { finalizers: vec!["windlass.dev/a".into()], ..Allowance::default() };
    Principal { grants: LiveGrants::new(Grants::asked(asked)), ..Principal::of_plugin("a", "0", "test") }
}

/// A call about `primary`.
pub(crate) fn call(primary: Option<Object>) -> (Request, Arc<CallContext>) {
    let key = ObjectKey::namespaced("prod", "a");
    let request = Request {
        controller: "a".into(),
        key: key.clone(),
        uid: Some("u-1".into()),
        object: primary.as_ref().map(Object::text),
        deleting: primary.as_ref().is_some_and(|primary| primary.header.deleting),
        attempt: 0,
        trace_id: "0".into(),
    };
    let context = CallContext {
        primary,
        trace_id: "0".into(),
        ..CallContext::detached(principal(), "a", ObjectKind::new("v1", "ConfigMap"), key)
    };
    (request, Arc::new(context))
}
