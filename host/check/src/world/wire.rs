//! The connection between a host and the API server. It records each request, and breaks when the host crashes.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{self, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyDataStream, BodyExt as _, Full, StreamBody};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use kube::client::Body;
use serde_json::Value;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service};
use windlass_apiserver::{ApiServer, ApiService, CommitSide, Reactors};

use super::succession::Succession;
use super::swap::HotSwap;
use crate::fault::WritePoint;
use crate::logs::current_key;
use crate::request_line::RequestLine;
use crate::trace::{CreatedObject, Happening, Record, RequestNote};

/// The parts of the server that a connection needs.
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

/// The timeout of an unreachable process's requests. It is short, so that nothing of the process is left when another
/// process takes over.
const SILENT_REQUEST_TIMEOUT: Duration = Duration::from_millis(100);

/// How often the rules of faults have taken effect.
fn struck(reactors: &Reactors) -> u64 {
    reactors.counts().iter().map(|count| count.struck).sum()
}

/// The number of events in a chunk of a watch. Bookmarks and errors do not count.
fn events_in(lines: &[u8]) -> usize {
    const OTHERS: [&[u8]; 2] = [br#"{"type":"BOOKMARK""#, br#"{"type":"ERROR""#];
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.filter(|line| !OTHERS.iter().any(|other| line.starts_with(other))).count()
}

/// How a process ends prematurely.
#[derive(Clone)]
pub(super) enum ProcessEnd {
    None,
    Crash(WritePoint),
    /// The process becomes unreachable, and another process takes over.
    Silence(Succession),
}

/// The connection of one host process.
#[derive(Clone)]
pub(super) struct Wire {
    service: ApiService,
    reactors: Reactors,
    record: Record,
    end: ProcessEnd,
    swap: Option<HotSwap>,
    /// Set if the process is the standby.
    standby: Option<Succession>,
    writes: Arc<AtomicUsize>,
    /// How often rules had taken effect at the last check.
    struck: Arc<AtomicU64>,
    dead: CancellationToken,
    /// Cancelled when nothing is left of the process.
    gone: CancellationToken,
}

impl Wire {
    pub(super) fn new(server: ServerHandle, record: Record, end: ProcessEnd, swap: Option<HotSwap>) -> Wire {
        let ServerHandle { service, reactors } = server;
        let (writes, dead, gone) = (Arc::default(), CancellationToken::new(), CancellationToken::new());
        let struck = Arc::new(AtomicU64::new(struck(&reactors)));
        Wire { service, reactors, record, end, swap, standby: None, writes, struck, dead, gone }
    }

    /// Turns this into the connection of a standby.
    pub(super) fn of_standby(self, succession: Succession) -> Wire {
        Wire { standby: Some(succession), ..self }
    }

    /// Cancelled when the process has died.
    pub(super) fn dead(&self) -> &CancellationToken {
        &self.dead
    }

    /// The engine cancels this when everything of the process that can end has ended.
    pub(super) fn gone(&self) -> &CancellationToken {
        &self.gone
    }

    /// Applies the faults of this write, before or after its commit. Returns whether the process is gone.
    async fn strike(&self, write: usize, side: CommitSide) -> bool {
        let here = WritePoint { write, side };
        if let Some(swap) = self.swap.as_ref().filter(|swap| swap.at == here) {
            swap.strike(&self.record).await;
        }
        match &self.end {
            ProcessEnd::Crash(at) if *at == here => {
                self.record.note(Happening::Crash);
            }
            ProcessEnd::Silence(succession) if succession.at().write == write => {
                // The standby's cache must be late before the server commits the write.
                succession.last_write();
                if succession.at() != here {
                    return false;
                }
                succession.falls_silent();
                if succession.returns() {
                    return false;
                }
            }
            _ => return false,
        }
        self.dead.cancel();
        true
    }

    /// The answer to a request of a process that is gone, which can neither send nor receive.
    async fn unheard(&self) -> Result<Response<AnswerBody>, BoxError> {
        if let ProcessEnd::Silence(_) = self.end {
            // Without an answer, a task that retries until it gets one would continue into later runs.
            if self.gone.is_cancelled() {
                return nothing_is_there();
            }
            sleep(SILENT_REQUEST_TIMEOUT).await;
            return Err("the process is unreachable".into());
        }
        pending().await
    }

    /// Waits until the process is connected.
    async fn until_reachable(&self) {
        if let ProcessEnd::Silence(succession) = &self.end
            && succession.returns()
        {
            succession.until_reachable().await;
        }
    }

    /// Waits until events of `resource` may be delivered.
    async fn until_shown(&self, resource: &str) {
        self.until_reachable().await;
        if let Some(succession) = &self.standby {
            succession.until_shown(resource).await;
        }
    }

    /// Sends a request of the call for `key`.
    async fn send(mut self, request: Request<Body>, key: Option<String>) -> Result<Response<AnswerBody>, BoxError> {
        if self.dead.is_cancelled() {
            return self.unheard().await;
        }
        self.until_reachable().await;
        let line = RequestLine::of(request.method(), request.uri());
        let of_lease = line.is_about_leases() && is_of_host(request.headers());
        let write = (line.alters() && !of_lease).then(|| self.writes.fetch_add(1, Ordering::Relaxed) + 1);
        if let Some(write) = write {
            if self.strike(write, CommitSide::BeforeCommit).await {
                return self.unheard().await;
            }
            self.until_reachable().await;
        }
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let dead = self.dead.clone();
        let call = self.service.call(Request::from_parts(parts, Full::<Bytes>::new(body)));
        let Some(answer) = dead.run_until_cancelled(call).await else { return self.unheard().await };
        self.note_strikes();
        let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
        let (answer, created) = read_created(answer.map_err(BoxError::from)).await;
        let entry = self.note(RequestNote { line: line.clone(), code, events: 0, created, key }, of_lease);
        if let Some(write) = write
            && self.strike(write, CommitSide::AfterCommit).await
        {
            return self.unheard().await;
        }
        self.until_reachable().await;
        let answer = answer?;
        Ok(answer.map(|body| if line.verb == "watch" { self.watched(line.resource, entry, body) } else { body }))
    }

    /// Records whether rules have taken effect since the last check.
    fn note_strikes(&self) {
        let now = struck(&self.reactors);
        if self.struck.swap(now, Ordering::Relaxed) < now {
            self.record.note(Happening::Fault);
        }
    }

    /// Records a request and its answer, and returns the number of the entry. Writes of the host's own leases are not
    /// entries, because they are not part of the plugin's work.
    fn note(&self, note: RequestNote, of_lease: bool) -> Option<usize> {
        if !of_lease && !note.line.resource.is_empty() {
            return self.record.note(Happening::Request(note));
        }
        if of_lease && note.line.writes() && note.is_carried_out() {
            self.record.lease_written();
            if let Some(succession) = &self.standby {
                succession.lease_written(&note.line);
            }
        }
        None
    }

    /// Wraps the stream of a watch so that the stream ends with its process. If two processes share a lease, the stream
    /// may be delayed.
    fn watched<B>(&self, resource: String, entry: Option<usize>, body: B) -> AnswerBody
    where
        B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let data = BodyDataStream::new(body).take_until(self.dead.clone().cancelled_owned());
        let way = self.clone();
        let data = data.inspect(move |piece| {
            way.note_strikes();
            if let (Some(entry), Ok(lines)) = (entry, piece) {
                way.record.shown(entry, events_in(lines));
            }
        });
        let data = data.map_ok(Frame::data).map_err(B::Error::into);
        if self.standby.is_none() && !matches!(self.end, ProcessEnd::Silence(_)) {
            return StreamBody::new(data).boxed_unsync();
        }
        let way = Arc::new((self.clone(), resource));
        let data = data.then(move |event| {
            let way = way.clone();
            async move {
                way.0.until_shown(&way.1).await;
                event
            }
        });
        StreamBody::new(data).boxed_unsync()
    }
}

/// Returns the answer, and the object that the request has created.
async fn read_created<B>(
    answer: Result<Response<B>, BoxError>,
) -> (Result<Response<AnswerBody>, BoxError>, Option<CreatedObject>)
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (parts, body) = match answer {
        Ok(answer) if answer.status() == StatusCode::CREATED => answer.into_parts(),
        answer => return (answer.map(|answer| answer.map(|body| body.map_err(Into::into).boxed_unsync())), None),
    };
    let bytes = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return (Err(error.into()), None),
    };
    // Reviews are created too, but they are not stored and have no UID.
    let object: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
    let created = text("name").zip(text("uid")).map(|(name, uid)| CreatedObject { name, uid });
    let body = Full::new(bytes).map_err(BoxError::from).boxed_unsync();
    (Ok(Response::from_parts(parts, body)), created)
}

/// The last answer to tasks of a process that is gone.
fn nothing_is_there() -> Result<Response<AnswerBody>, BoxError> {
    let status =
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"gone"}"#;
    let body = Full::new(Bytes::from_static(status.as_bytes())).map_err(BoxError::from).boxed_unsync();
    Ok(Response::builder().status(404).header(CONTENT_TYPE, "application/json").body(body)?)
}

/// Whether the request is for the host's own leases.
fn is_of_host(headers: &HeaderMap) -> bool {
    headers.get(USER_AGENT).is_some_and(|agent| agent.as_bytes().ends_with(b"; lease)"))
}

/// The body of an answer.
pub(super) type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

impl Service<Request<Body>> for Wire {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The client calls this in the span of the call that sends the request.
        self.clone().send(request, current_key()).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bookmarks_and_errors_do_not_count_as_events() {
        let lines = br#"{"type":"ADDED","object":{}}
{"type":"BOOKMARK","object":{}}
{"type":"DELETED","object":{}}
{"type":"ERROR","object":{}}
"#;
        assert_eq!((events_in(lines), events_in(b"")), (2, 0));
    }
}
