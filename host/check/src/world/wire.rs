//! The way between a host and the API server: it notes each request, and is cut when the host crashes.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{self, Poll};

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyDataStream, BodyExt as _, Full, StreamBody};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use kube::client::Body;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service};
use windlass_apiserver::{ApiServer, ApiService, CommitSide, Reactors};

use crate::fault::CrashPoint;
use crate::request_line::RequestLine;
use crate::trace::{Happening, Record, RequestNote};

/// The parts of a server that the wire needs.
#[derive(Clone)]
pub(super) struct ServerHandle {
    pub(super) service: ApiService,
    pub(super) reactors: Reactors,
}

impl ServerHandle {
    pub(super) fn of(server: &ApiServer) -> ServerHandle {
        ServerHandle { service: server.service(), reactors: server.reactors() }
    }
}

/// How often rules have acted.
fn acted(reactors: &Reactors) -> u64 {
    reactors.counts().iter().map(|count| count.acted).sum()
}

/// The way of one process of the host.
#[derive(Clone)]
pub(super) struct Wire {
    service: ApiService,
    reactors: Reactors,
    record: Record,
    crash: Option<CrashPoint>,
    writes: Arc<AtomicUsize>,
    dead: CancellationToken,
}

impl Wire {
    pub(super) fn new(server: ServerHandle, record: Record, crash: Option<CrashPoint>) -> Wire {
        let ServerHandle { service, reactors } = server;
        Wire { service, reactors, record, crash, writes: Arc::default(), dead: CancellationToken::new() }
    }

    /// Told when the process has ended.
    pub(super) fn dead(&self) -> &CancellationToken {
        &self.dead
    }

    /// Whether the process ends at this write, and on which side of it.
    fn crashes_at(&self, line: &RequestLine) -> Option<CommitSide> {
        if !line.alters() {
            return None;
        }
        let write = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        self.crash.filter(|crash| crash.write == write).map(|crash| crash.side)
    }

    /// The process is gone: nothing of it is heard any more, and it hears nothing.
    async fn die(&self) -> Infallible {
        if !self.dead.is_cancelled() {
            self.record.note(Happening::Crash);
            self.dead.cancel();
        }
        pending().await
    }

    async fn send(mut self, request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        if self.dead.is_cancelled() {
            return pending().await;
        }
        let line = RequestLine::of(request.method(), request.uri());
        let crashes = self.crashes_at(&line);
        if crashes == Some(CommitSide::BeforeCommit) {
            match self.die().await {}
        }
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let (dead, before) = (self.dead.clone(), acted(&self.reactors));
        let call = self.service.call(Request::from_parts(parts, Full::<Bytes>::new(body)));
        let Some(answer) = dead.run_until_cancelled(call).await else { return pending().await };
        if acted(&self.reactors) > before {
            self.record.note(Happening::Fault);
        }
        let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
        let watches = line.verb == "watch";
        if !line.resource.is_empty() {
            self.record.note(Happening::Request(RequestNote { line, code }));
        }
        if crashes == Some(CommitSide::AfterCommit) {
            match self.die().await {}
        }
        let answer = answer?;
        Ok(answer.map(|body| if watches { until(dead, body) } else { body.map_err(BoxError::from).boxed_unsync() }))
    }
}

/// The body of an answer.
pub(super) type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// A stream of events that ends with its process.
fn until<B>(dead: CancellationToken, body: B) -> AnswerBody
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let data = BodyDataStream::new(body).take_until(dead.cancelled_owned());
    StreamBody::new(data.map_ok(Frame::data).map_err(B::Error::into)).boxed_unsync()
}

impl Service<Request<Body>> for Wire {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.clone().send(request).boxed()
    }
}
