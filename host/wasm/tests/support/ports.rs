//! Ports that answer from memory and record requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all, ready};
use tokio::sync::Notify;
use windlass_core::call::ports::{
    Absent, Answer, Ask, CallContext, Claimed, CollectionDeletion, Event, Events, ListPage, ListQuery, ListedKind,
    LiveGet, LiveQuery, LogQuery, OwnerClaim, Port, Ports, Reads, ServedKind, Written, port_fn,
};
use windlass_core::error::ApiError;
use windlass_core::object::{ObjectKind, ObjectRef};
use windlass_core::write::Operation;

/// The response to writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WriteMode {
    /// The body.
    #[default]
    Echo,
    /// No response.
    Never,
    /// The body, after a while.
    After(Duration),
    /// The body, when the test says so (`go_on`); the test also learns that the write was carried out (`gone_on`).
    WhenTold,
    /// A panic.
    Panic,
}

/// The ports that tests inspect.
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
    pub(crate) collections: Mutex<Vec<CollectionDeletion>>,
    pub(crate) claims: Mutex<Vec<OwnerClaim>>,
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
        Ports { reads: self.clone(), outside: self.clone(), events: self.clone(), ..Absent::ports() }
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

impl Port for FakePorts {
    fn ask(&self, call: Arc<CallContext>, ask: Ask) -> BoxFuture<'static, Answer> {
        let answer = match ask {
            Ask::Get(asked) => {
                let (reads, object) = (self.live_reads.clone(), self.object.clone());
                return async move {
                    reads.lock().expect("not poisoned").push(asked);
                    Answer::Get(Ok(object))
                }
                .boxed();
            }
            Ask::List(query) => {
                self.live_lists.lock().expect("not poisoned").push(*query);
                Answer::List(Ok(ListPage { items: self.object.iter().cloned().collect(), next_token: None }))
            }
            Ask::Log(query) => {
                self.logs.lock().expect("not poisoned").push(query);
                Answer::Log(Ok(self.object.as_deref().unwrap_or_default().to_owned()))
            }
            // Only Pods are served.
            Ask::Served(query) => Answer::Served(Ok((&*query.kind.kind == "Pod").then(pods))),
            Ask::Kinds(_) => Answer::Kinds(Ok(vec![ListedKind { kind: ObjectKind::new("v1", "Pod"), served: pods() }])),
            Ask::Write(operation) => return self.write(*operation).map(Answer::Write).boxed(),
            Ask::Batch(operations) => {
                return join_all(operations.into_iter().map(|operation| self.write(operation)))
                    .map(Answer::Batch)
                    .boxed();
            }
            Ask::DeleteCollection(deletion) => {
                self.collections.lock().expect("not poisoned").push(*deletion);
                Answer::DeleteCollection(Ok(Some(vec![call.primary_ref()])))
            }
            Ask::Claim(claim) => {
                self.claims.lock().expect("not poisoned").push(claim);
                Answer::Claim(Ok(Claimed { adopted: vec![call.primary_ref()], released: vec![] }))
            }
            Ask::Fetch(_) => return Absent.ask(call, ask),
        };
        ready(answer).boxed()
    }
}

fn pods() -> ServedKind {
    ServedKind {
        resource: "pods".to_owned(),
        namespaced: true,
        verbs: vec!["get".to_owned(), "list".to_owned()],
        subresources: vec!["log".to_owned()],
    }
}

/// Ports where each claim or write of a call waits until the test lets it go on.
pub(crate) fn meeting<W, F>(meet: F) -> Ports
where
    W: Future<Output = ()> + Send + 'static,
    F: Fn() -> W + Send + Sync + 'static,
{
    let outside = port_fn(move |_, ask| {
        let answer = match &ask {
            Ask::Claim(_) => Answer::Claim(Ok(Claimed::default())),
            Ask::Write(_) => Answer::Write(Ok(Some("{}".into()))),
            other => unreachable!("no call waits for {other:?}"),
        };
        // A write keeps its body until it is finished.
        meet().map(|()| answer).inspect(move |_| drop(ask)).boxed()
    });
    Ports { outside, ..Absent::ports() }
}

impl FakePorts {
    fn write(&self, operation: Operation) -> BoxFuture<'static, Written> {
        let (mode, written) = (self.mode, self.written.clone());
        let (go_on, gone_on) = (self.go_on.clone(), self.gone_on.clone());
        async move {
            match mode {
                WriteMode::Echo => {}
                WriteMode::Never => std::future::pending().await,
                WriteMode::After(_) | WriteMode::WhenTold => {
                    // Like the writer: a write that has begun continues, whether or not a caller waits for it.
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
