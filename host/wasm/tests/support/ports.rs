//! Ports that answer from memory and remember what they were asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use tokio::sync::Notify;
use windlass_core::error::ApiError;
use windlass_core::object::{ObjectKind, ObjectRef};
use windlass_core::ports::{
    Absent, CallContext, Claimed, Collections, Deleted, Event, Events, ListPage, ListQuery, Live, LiveGet, LiveQuery,
    LogQuery, Owners, Ports, Reads, ServedKind, Writes, Written,
};
use windlass_core::write::{Collection, DeleteOptions, Operation};

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
    /// With the body, when the test says so (`go_on`); that it was carried out, it learns too (`gone_on`).
    WhenTold,
    /// With a panic.
    Panic,
}

/// The ports that tests look at.
#[derive(Debug, Default)]
pub(crate) struct FakePorts {
    pub(crate) mode: WriteMode,
    /// The object that every read returns.
    pub(crate) object: Option<Arc<str>>,
    pub(crate) reads: Mutex<Vec<ObjectRef>>,
    pub(crate) lists: Mutex<Vec<ListQuery>>,
    pub(crate) live_reads: Arc<Mutex<Vec<LiveGet>>>,
    pub(crate) live_lists: Arc<Mutex<Vec<LiveQuery>>>,
    pub(crate) logs: Mutex<Vec<LogQuery>>,
    pub(crate) collections: Mutex<Vec<(Collection, DeleteOptions)>>,
    pub(crate) claims: Mutex<Vec<(ObjectKind, String)>>,
    /// Writes that have been answered.
    pub(crate) written: Arc<Mutex<Vec<Operation>>>,
    pub(crate) events: Mutex<Vec<Event>>,
    pub(crate) go_on: Arc<Notify>,
    pub(crate) gone_on: Arc<Notify>,
}

impl FakePorts {
    pub(crate) fn with_writes(mode: WriteMode) -> Arc<Self> {
        Arc::new(Self { mode, ..Self::default() })
    }

    pub(crate) fn ports(self: &Arc<Self>) -> Ports {
        Ports {
            reads: self.clone(),
            live: self.clone(),
            writes: self.clone(),
            collections: self.clone(),
            owners: self.clone(),
            events: self.clone(),
            ..Absent::ports()
        }
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

    fn list(&self, _: &CallContext, query: &ListQuery) -> Result<ListPage, ApiError> {
        self.lists.lock().expect("not poisoned").push(query.clone());
        Ok(ListPage { items: self.object.iter().cloned().collect(), next_token: None })
    }
}

impl Live for FakePorts {
    fn get(&self, _: Arc<CallContext>, asked: LiveGet) -> BoxFuture<'static, Written> {
        let (reads, object) = (self.live_reads.clone(), self.object.clone());
        async move {
            reads.lock().expect("not poisoned").push(asked);
            Ok(object)
        }
        .boxed()
    }

    fn list(&self, _: Arc<CallContext>, query: LiveQuery) -> BoxFuture<'static, Result<ListPage, ApiError>> {
        self.live_lists.lock().expect("not poisoned").push(query);
        let page = ListPage { items: self.object.iter().cloned().collect(), next_token: None };
        async move { Ok(page) }.boxed()
    }

    fn log(&self, _: Arc<CallContext>, query: LogQuery) -> BoxFuture<'static, Result<String, ApiError>> {
        self.logs.lock().expect("not poisoned").push(query);
        let text = self.object.as_deref().unwrap_or_default().to_owned();
        async move { Ok(text) }.boxed()
    }

    /// No kind is served but Pods.
    fn served(
        &self,
        _: Arc<CallContext>,
        kind: ObjectKind,
    ) -> BoxFuture<'static, Result<Option<ServedKind>, ApiError>> {
        let pods = || ServedKind {
            resource: "pods".to_owned(),
            namespaced: true,
            verbs: vec!["get".to_owned(), "list".to_owned()],
            subresources: vec!["log".to_owned()],
        };
        async move { Ok((&*kind.kind == "Pod").then(pods)) }.boxed()
    }
}

impl Collections for FakePorts {
    fn delete_collection(
        &self,
        call: Arc<CallContext>,
        collection: Collection,
        options: DeleteOptions,
    ) -> BoxFuture<'static, Deleted> {
        self.collections.lock().expect("not poisoned").push((collection, options));
        async move { Ok(Some(vec![call.primary_ref()])) }.boxed()
    }
}

impl Owners for FakePorts {
    fn claim(
        &self,
        call: Arc<CallContext>,
        kind: ObjectKind,
        selector: String,
    ) -> BoxFuture<'static, Result<Claimed, Vec<ApiError>>> {
        self.claims.lock().expect("not poisoned").push((kind, selector));
        async move { Ok(Claimed { adopted: vec![call.primary_ref()], released: vec![] }) }.boxed()
    }
}

/// Has each call that claims or writes something wait for what the test says.
pub(crate) struct Meeting<F>(pub(crate) F);

impl<W: Future<Output = ()> + Send + 'static, F: Fn() -> W + Send + Sync + 'static> Meeting<F> {
    /// Where calls meet that claim something.
    pub(crate) fn of_claims(self) -> Ports {
        Ports { owners: Arc::new(self), ..Absent::ports() }
    }

    /// Where calls meet that write something.
    pub(crate) fn of_writes(self) -> Ports {
        Ports { writes: Arc::new(self), ..Absent::ports() }
    }
}

impl<W: Future<Output = ()> + Send + 'static, F: Fn() -> W + Send + Sync> Owners for Meeting<F> {
    fn claim(
        &self,
        _: Arc<CallContext>,
        _: ObjectKind,
        _: String,
    ) -> BoxFuture<'static, Result<Claimed, Vec<ApiError>>> {
        (self.0)().map(|()| Ok(Claimed { adopted: vec![], released: vec![] })).boxed()
    }
}

impl<W: Future<Output = ()> + Send + 'static, F: Fn() -> W + Send + Sync> Writes for Meeting<F> {
    fn write(&self, _: Arc<CallContext>, operation: Operation) -> BoxFuture<'static, Written> {
        // It has its body until it is over.
        (self.0)().map(|()| Ok(Some("{}".into()))).inspect(move |_| drop(operation)).boxed()
    }

    fn batch(&self, _: Arc<CallContext>, _: Vec<Operation>) -> BoxFuture<'static, Vec<Written>> {
        unreachable!("nothing is batched")
    }
}

impl Writes for FakePorts {
    fn write(
        &self,
        _: Arc<CallContext>,
        operation: Operation,
    ) -> BoxFuture<'static, Result<Option<Arc<str>>, ApiError>> {
        let (mode, written) = (self.mode, self.written.clone());
        let (go_on, gone_on) = (self.go_on.clone(), self.gone_on.clone());
        async move {
            match mode {
                WriteMode::Echo => {}
                WriteMode::Never => std::future::pending().await,
                WriteMode::After(_) | WriteMode::WhenTold => {
                    // As the writer has it: what was begun goes on, whether or not somebody waits for it.
                    let (written, answer) = (written.clone(), body(&operation));
                    let begun = tokio::spawn(async move {
                        if let WriteMode::After(delay) = mode {
                            tokio::time::sleep(delay).await;
                        } else {
                            go_on.notified().await;
                        }
                        written.lock().expect("not poisoned").push(operation);
                        gone_on.notify_one();
                    });
                    begun.await.expect("no panic");
                    return Ok(answer);
                }
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
