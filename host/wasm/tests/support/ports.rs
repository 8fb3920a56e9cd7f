//! Ports that answer from memory and remember what they were asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use windlass_core::error::ApiError;
use windlass_core::object::ObjectRef;
use windlass_core::ports::{Absent, CallContext, Event, Events, ListQuery, Page, Ports, Reads, Writes, Written};
use windlass_core::write::Operation;

/// How writes are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WriteMode {
    /// With the body.
    #[default]
    Echo,
    /// Never.
    Never,
    /// With the body, after a while.
    After(Duration),
    /// With a panic.
    Panic,
}

/// All three ports.
#[derive(Debug, Default)]
pub(crate) struct FakePorts {
    pub(crate) mode: WriteMode,
    /// What every read returns.
    pub(crate) object: Option<Arc<str>>,
    pub(crate) reads: Mutex<Vec<ObjectRef>>,
    pub(crate) lists: Mutex<Vec<ListQuery>>,
    /// Writes that have been answered.
    pub(crate) written: Arc<Mutex<Vec<Operation>>>,
    pub(crate) events: Mutex<Vec<Event>>,
}

impl FakePorts {
    pub(crate) fn with_writes(mode: WriteMode) -> Arc<Self> {
        Arc::new(Self { mode, ..Self::default() })
    }

    pub(crate) fn ports(self: &Arc<Self>) -> Ports {
        Ports { reads: self.clone(), writes: self.clone(), events: self.clone(), ..Absent::ports() }
    }
}

/// Ports that find nothing and echo every write.
pub(crate) fn quiet() -> Ports {
    FakePorts::with_writes(WriteMode::Echo).ports()
}

impl Reads for FakePorts {
    fn get(&self, _: &CallContext, target: &ObjectRef, _: Option<&[String]>) -> Result<Option<Arc<str>>, ApiError> {
        self.reads.lock().expect("not poisoned").push(target.clone());
        Ok(self.object.clone())
    }

    fn list(&self, _: &CallContext, query: &ListQuery) -> Result<Page, ApiError> {
        self.lists.lock().expect("not poisoned").push(query.clone());
        Ok(Page { items: self.object.iter().cloned().collect(), next_token: None })
    }
}

impl Writes for FakePorts {
    fn write(
        &self,
        _: Arc<CallContext>,
        operation: Operation,
    ) -> BoxFuture<'static, Result<Option<Arc<str>>, ApiError>> {
        let (mode, written) = (self.mode, self.written.clone());
        async move {
            match mode {
                WriteMode::Echo => {}
                WriteMode::Never => std::future::pending().await,
                WriteMode::After(delay) => tokio::time::sleep(delay).await,
                WriteMode::Panic => panic!("the writer has a bug"),
            }
            let body = body(&operation);
            written.lock().expect("not poisoned").push(operation);
            Ok(body)
        }
        .boxed()
    }

    fn batch(&self, call: Arc<CallContext>, operations: Vec<Operation>) -> BoxFuture<'static, Vec<Written>> {
        join_all(operations.into_iter().map(|operation| self.write(call.clone(), operation))).boxed()
    }
}

fn body(operation: &Operation) -> Option<Arc<str>> {
    match operation {
        Operation::Create { object, .. } | Operation::Update { object, .. } | Operation::Apply { object, .. } => {
            Some(object.as_str().into())
        }
        Operation::Patch { patch, .. } => Some(patch.as_str().into()),
        Operation::Delete { .. } => None,
    }
}

impl Events for FakePorts {
    fn emit(&self, _: &CallContext, event: Event) {
        self.events.lock().expect("not poisoned").push(event);
    }
}
