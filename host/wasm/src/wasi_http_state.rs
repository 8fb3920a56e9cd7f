//! The HTTP requests of a guest that speaks `wasi:http`, and the bodies that the host has for it. `wasi::http` works with it.
//!
//! A request has a number in its call and goes through these stages: its body is written, it is asked of the port, it is
//! answered, and the guest sees the answer. Only the last is visible to the guest, and it happens where the guest waits or
//! looks (`wasi::io`), never between: so a recording of what was seen there is all that a replay needs.

use std::any::Any;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderName};
use http_body::Frame;
use http_body_util::BodyExt as _;
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;
use wasmtime_wasi_http::p2::types::{HostIncomingResponse, HostOutgoingRequest, HostOutgoingResponse};
use wasmtime_wasi_http::{Error, FieldMap, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpHooks};
use windlass_core::egress::is_hosts_header;
use windlass_core::http::{
    HttpRequest, HttpResponse, REQUEST_BODY_BYTES_MAX, REQUEST_HEADER_BYTES_MAX, REQUEST_HEADERS_MAX,
};
use windlass_core::ports::Answer;

use crate::wasi_state::{WASI_WRITE_BYTES_MAX, WasiError};

/// The most requests of a call whose answers the guest has not seen. It is told so by `connection-limit-reached`. Those that
/// it gave up count to the end of the call: when they end depends on the network, and the guest must not see that.
pub(crate) const HTTP_REQUESTS_MAX: usize = 32;
/// The most bytes of bodies, of requests and of responses, that the host has for an instance. With one buffer of its own for
/// each request at once, and as much again for what it has not dropped yet.
pub(crate) const HTTP_BODY_BYTES_MAX: usize = 16 << 20;
/// The most bytes that the headers behind all handles of an instance may have, within one half more.
pub(crate) const HTTP_HEADER_BYTES_MAX: usize = 4 << 20;
/// What a header takes in memory beside its name and its value.
const HEADER_OVERHEAD_BYTES: usize = 72;

/// Which headers are the host's.
pub(crate) struct Hooks;

impl WasiHttpHooks for Hooks {
    fn is_forbidden_header(&mut self, name: &HeaderName) -> bool {
        // Clients set this one; it is checked and left out.
        is_hosts_header(name.as_str()) && name != http::header::CONTENT_LENGTH
    }

    /// The crate's `handle` alone calls it, and ours takes its place.
    fn send_request(
        &mut self,
        _: http::Request<WasiBody>,
        _: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Sent, Error>> + Send> {
        Box::new(async { Err(Error::HttpRequestDenied) })
    }
}

type Sent = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

/// The state of an instance that has used WASI.
pub(crate) struct HttpState {
    pub(crate) ctx: WasiHttpCtx,
    pub(crate) hooks: Hooks,
    pub(crate) requests: Requests,
    /// Bytes of bodies.
    held: Arc<AtomicUsize>,
    /// By how much headers may have grown since they were counted last.
    grown: usize,
}

impl Default for HttpState {
    fn default() -> Self {
        let mut ctx = WasiHttpCtx::new();
        ctx.set_field_size_limit(REQUEST_HEADER_BYTES_MAX + REQUEST_HEADERS_MAX * HEADER_OVERHEAD_BYTES);
        Self { ctx, hooks: Hooks, requests: Requests::default(), held: Arc::default(), grown: 0 }
    }
}

impl HttpState {
    /// Bytes that are charged to the instance from here on, until the value is dropped.
    pub(crate) fn held(&self, bytes: usize) -> HeldBytes {
        let mut held = HeldBytes { all: self.held.clone(), bytes: 0 };
        held.add(bytes);
        held
    }

    /// The bytes of bodies that the host has, those of answers that the guest has not seen included.
    pub(crate) fn bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed) + self.requests.unseen_bytes()
    }

    /// Checks [`HTTP_BODY_BYTES_MAX`].
    pub(crate) fn check_bodies(&self) -> Result<(), WasiError> {
        if self.held.load(Ordering::Relaxed) > HTTP_BODY_BYTES_MAX { Err(WasiError::Bodies) } else { Ok(()) }
    }

    /// Headers behind handles, which are among `entries`, may have grown by `bytes`. Counts them again if that is much.
    pub(crate) fn headers_grow<'a>(
        &mut self,
        bytes: usize,
        entries: impl Iterator<Item = &'a mut (dyn Any + Send)>,
    ) -> Result<(), WasiError> {
        self.grown = self.grown.saturating_add(bytes);
        if self.grown <= HTTP_HEADER_BYTES_MAX / 2 {
            return Ok(());
        }
        self.grown = 0;
        let all: usize = entries.filter_map(|entry| headers_of(entry)).map(header_bytes).sum();
        if all > HTTP_HEADER_BYTES_MAX { Err(WasiError::Headers) } else { Ok(()) }
    }
}

fn headers_of(entry: &dyn Any) -> Option<&HeaderMap> {
    let request = || Some(&*entry.downcast_ref::<HostOutgoingRequest>()?.headers);
    let incoming = || Some(&*entry.downcast_ref::<HostIncomingResponse>()?.headers);
    let outgoing = || Some(&*entry.downcast_ref::<HostOutgoingResponse>()?.headers);
    let fields = entry.downcast_ref::<FieldMap>().map(|fields| &**fields);
    fields.or_else(request).or_else(incoming).or_else(outgoing)
}

/// About how many bytes `headers` take.
pub(crate) fn header_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| header_size(name.as_str().len(), value.len())).sum()
}

/// About how many bytes a header takes.
pub(crate) fn header_size(name: usize, value: usize) -> usize {
    name + value + HEADER_OVERHEAD_BYTES
}

/// Bytes of a body that count until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl HeldBytes {
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.all.fetch_add(bytes, Ordering::Relaxed);
    }

    /// They have become another's.
    fn clear(&mut self) {
        self.all.fetch_sub(std::mem::take(&mut self.bytes), Ordering::Relaxed);
    }

    fn is_too_much(&self) -> bool {
        self.all.load(Ordering::Relaxed) > HTTP_BODY_BYTES_MAX
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A body of a response, which counts until nothing refers to it any more.
pub(crate) struct HeldBody {
    pub(crate) bytes: Vec<u8>,
    pub(crate) _held: HeldBytes,
}

impl AsRef<[u8]> for HeldBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The body of a request as the guest writes it: `wasi:http/types.outgoing-body`, its stream, and what the request reads.
#[derive(Clone)]
pub(crate) struct OutgoingBody(Arc<Mutex<WrittenBody>>);

struct WrittenBody {
    bytes: Vec<u8>,
    held: HeldBytes,
    /// What the request's header `content-length` says.
    length: Option<u64>,
    has_stream: bool,
    end: BodyEnd,
}

/// Whether and how a body has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyEnd {
    /// It has not.
    Open,
    Whole,
    /// It has more than [`REQUEST_BODY_BYTES_MAX`] bytes. The first of them are passed on, so that the port refuses them.
    TooLarge,
    /// The guest gave it up.
    Aborted,
}

impl OutgoingBody {
    pub(crate) fn new(length: Option<u64>, held: HeldBytes) -> Self {
        let body = WrittenBody { bytes: Vec::new(), held, length, has_stream: false, end: BodyEnd::Open };
        Self(Arc::new(Mutex::new(body)))
    }

    /// The stream to write to, once.
    pub(crate) fn stream(&self) -> Option<BodyStream> {
        let is_first = !std::mem::replace(&mut self.written().has_stream, true);
        is_first.then(|| BodyStream(self.clone()))
    }

    /// The guest has written all of it.
    pub(crate) fn finish(&self) -> Result<(), ErrorCode> {
        let mut written = self.written();
        let size = written.bytes.len() as u64;
        if written.end == BodyEnd::TooLarge {
            return Err(ErrorCode::HttpRequestBodySize(Some(size)));
        }
        let is_as_said = written.length.is_none_or(|length| length == size);
        written.end = if is_as_said { BodyEnd::Whole } else { BodyEnd::Aborted };
        if is_as_said { Ok(()) } else { Err(ErrorCode::HttpRequestBodySize(Some(size))) }
    }

    /// The guest drops it without having finished it.
    pub(crate) fn abort(&self) {
        let mut written = self.written();
        if written.end == BodyEnd::Open {
            written.end = BodyEnd::Aborted;
        }
    }

    fn written(&self) -> MutexGuard<'_, WrittenBody> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whole, or not there yet.
impl http_body::Body for OutgoingBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let mut written = self.written();
        match written.end {
            // Who waits for it looks again each time that the guest waits.
            BodyEnd::Open => Poll::Pending,
            BodyEnd::Aborted => Poll::Ready(Some(Err(Error::HttpProtocolError))),
            BodyEnd::Whole | BodyEnd::TooLarge => {
                let bytes = std::mem::take(&mut written.bytes);
                written.held.clear();
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes.into()))))
            }
        }
    }
}

/// The stream of an [`OutgoingBody`]. It is always ready.
pub(crate) struct BodyStream(OutgoingBody);

#[async_trait::async_trait]
impl Pollable for BodyStream {
    async fn ready(&mut self) {}
}

impl OutputStream for BodyStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > WASI_WRITE_BYTES_MAX {
            return Err(StreamError::Trap(WasiError::TooMuch.into()));
        }
        let mut written = self.0.written();
        if written.end != BodyEnd::Open {
            return Err(StreamError::Closed);
        }
        // One byte more than there may be shows that there are more.
        let fits = bytes.len().min(REQUEST_BODY_BYTES_MAX + 1 - written.bytes.len());
        written.bytes.extend_from_slice(&bytes[..fits]);
        written.held.add(fits);
        if written.held.is_too_much() {
            return Err(StreamError::Trap(WasiError::Bodies.into()));
        }
        if written.bytes.len() > REQUEST_BODY_BYTES_MAX {
            written.end = BodyEnd::TooLarge;
            let error = ErrorCode::HttpRequestBodySize(Some(written.bytes.len() as u64));
            return Err(StreamError::LastOperationFailed(error.into()));
        }
        Ok(())
    }

    fn write_zeroes(&mut self, length: usize) -> StreamResult<()> {
        // One more is too much already.
        self.write(vec![0; length.min(WASI_WRITE_BYTES_MAX + 1)].into())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        if self.0.written().end == BodyEnd::Open { Ok(WASI_WRITE_BYTES_MAX) } else { Err(StreamError::Closed) }
    }
}

/// An answer as the guest gets it.
pub(crate) type Seen = Result<(HttpResponse, HeldBytes), ErrorCode>;

/// The place where the guest finds the answer to one request.
#[derive(Default)]
pub(crate) enum Slot {
    /// The guest has not seen that there is an answer.
    #[default]
    Unseen,
    Seen(Box<Seen>),
    /// The guest has it.
    Taken,
}

/// `wasi:http/types.future-incoming-response`. Dropping it abandons the answer and not the request.
pub(crate) struct FutureResponse {
    number: u32,
    slot: Arc<Mutex<Slot>>,
    awaited: Awaited,
}

impl FutureResponse {
    /// The answer, if the guest has seen that it is there. An error if it has it already.
    pub(crate) fn take(&self) -> Option<Result<Seen, ()>> {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *slot, Slot::Taken) {
            Slot::Unseen => {
                *slot = Slot::Unseen;
                None
            }
            Slot::Seen(seen) => Some(Ok(*seen)),
            Slot::Taken => Some(Err(())),
        }
    }
}

#[async_trait::async_trait]
impl Pollable for FutureResponse {
    async fn ready(&mut self) {
        let is_unseen = matches!(*self.slot.lock().unwrap_or_else(PoisonError::into_inner), Slot::Unseen);
        if is_unseen {
            self.awaited.add(self.number);
            std::future::pending::<()>().await;
        }
    }
}

/// The requests that pollables were asked for since the guest began to wait and that it has seen no answer to.
#[derive(Clone, Debug, Default)]
struct Awaited(Arc<Mutex<Vec<u32>>>);

impl Awaited {
    fn add(&self, number: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(number);
    }

    fn take(&self) -> Vec<u32> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What the port does for a request: its answer, or its panic.
pub(crate) type Work = BoxFuture<'static, Result<Answer, Box<dyn Any + Send>>>;

/// A request that the guest has sent and to which it has not seen an answer.
pub(crate) struct SentRequest {
    pub(crate) number: u32,
    slot: Arc<Mutex<Slot>>,
    pub(crate) stage: Stage,
    /// Its body counts until the guest has seen the answer, so that what the guest is told does not depend on when it came.
    held: HeldBytes,
}

/// Where a request is on its way.
pub(crate) enum Stage {
    /// The guest writes its body.
    Body(Box<HttpRequest>, BoxFuture<'static, Result<Bytes, Error>>),
    /// Its body is there, and the port has not been asked yet.
    Ready(Box<HttpRequest>),
    Asked(Box<RequestSummary>, Work),
    Answered(Box<RequestSummary>, Box<Answer>),
    /// The port panicked.
    Panicked(Box<dyn Any + Send>),
    /// It was never asked.
    Failed(ErrorCode),
}

/// What explains the failure of a request that was asked of the port.
#[derive(Clone)]
pub(crate) struct RequestSummary {
    /// Method and server, for people.
    pub(crate) text: String,
    /// What is wrong with it if the port says that something is.
    pub(crate) if_invalid: ErrorCode,
}

impl SentRequest {
    /// Whether it no longer depends on the guest.
    fn has_begun(&self) -> bool {
        !matches!(self.stage, Stage::Body(..))
    }

    fn is_answered(&self) -> bool {
        matches!(self.stage, Stage::Answered(..) | Stage::Panicked(_) | Stage::Failed(_))
    }

    /// Goes on as far as it can. Returns whether it is answered.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        if let Stage::Asked(asked, work) = &mut self.stage
            && let Poll::Ready(answer) = work.poll_unpin(context)
        {
            let asked = asked.clone();
            self.stage = match answer {
                Ok(answer) => Stage::Answered(asked, Box::new(answer)),
                Err(panic) => Stage::Panicked(panic),
            };
        }
        self.is_answered()
    }

    /// The request, if it is to be asked now. [`Self::asked`] follows.
    pub(crate) fn take_ready(&mut self) -> Option<HttpRequest> {
        match std::mem::replace(&mut self.stage, Stage::Failed(ErrorCode::HttpProtocolError)) {
            Stage::Ready(request) => Some(*request),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// The port works on it. `begins` is false where the work begins when its answer is waited for.
    pub(crate) fn asked(&mut self, summary: RequestSummary, work: Work, begins: bool) {
        self.stage = Stage::Asked(Box::new(summary), work);
        if begins {
            self.poll(&mut Context::from_waker(std::task::Waker::noop()));
        }
    }

    /// Has the guest see the answer.
    pub(crate) fn see(self, seen: Seen) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Slot::Seen(Box::new(seen));
    }
}

/// The requests of a call, the oldest first.
#[derive(Default)]
pub(crate) struct Requests {
    next: u32,
    pub(crate) sent: Vec<SentRequest>,
    awaited: Awaited,
}

impl Requests {
    /// Sends `request`, whose body is what `body` will be. `None` if there are too many.
    pub(crate) fn send(
        &mut self,
        request: HttpRequest,
        body: Option<HyperOutgoingBody>,
        held: HeldBytes,
    ) -> Option<FutureResponse> {
        if self.sent.len() >= HTTP_REQUESTS_MAX {
            return None;
        }
        let (number, slot) = (self.next, Arc::<Mutex<Slot>>::default());
        self.next += 1;
        let request = Box::new(request);
        let stage = match body {
            None => Stage::Ready(request),
            Some(body) => Stage::Body(request, body.collect().map(|body| Ok(body?.to_bytes())).boxed()),
        };
        self.sent.push(SentRequest { number, slot: slot.clone(), stage, held });
        Some(FutureResponse { number, slot, awaited: self.awaited.clone() })
    }

    /// The requests whose bodies have ended, to be asked.
    pub(crate) fn ready(&mut self) -> impl Iterator<Item = &mut SentRequest> {
        for sent in &mut self.sent {
            let Stage::Body(_, body) = &mut sent.stage else { continue };
            let Some(body) = body.now_or_never() else { continue };
            let before = std::mem::replace(&mut sent.stage, Stage::Failed(ErrorCode::HttpProtocolError));
            if let (Stage::Body(mut request, _), Ok(body)) = (before, body) {
                sent.held.add(body.len());
                request.body = text_or_bytes(body.into());
                sent.stage = Stage::Ready(request);
            }
        }
        self.sent.iter_mut().filter(|sent| matches!(sent.stage, Stage::Ready(_)))
    }

    /// The requests that were asked for since the last time, the oldest first: those that have begun, and whether there are
    /// others.
    pub(crate) fn awaited(&self) -> (Vec<u32>, bool) {
        let mut awaited = self.awaited.take();
        awaited.sort_unstable();
        let all = awaited.len();
        awaited.retain(|number| self.sent.iter().any(|sent| sent.number == *number && sent.has_begun()));
        let has_others = awaited.len() < all;
        (awaited, has_others)
    }

    /// Forgets what was asked for.
    pub(crate) fn forget_awaited(&self) {
        self.awaited.take();
    }

    /// The answered ones among `awaited`, once there is one. The other requests go on, too, unless `alone`.
    pub(crate) fn poll_first(&mut self, context: &mut Context<'_>, awaited: &[u32], alone: bool) -> Poll<Vec<u32>> {
        let mut answered = Vec::new();
        for sent in &mut self.sent {
            let is_awaited = awaited.contains(&sent.number);
            if (is_awaited || !alone) && sent.poll(context) && is_awaited {
                answered.push(sent.number);
            }
        }
        if answered.is_empty() { Poll::Pending } else { Poll::Ready(answered) }
    }

    /// The request `number`, which the guest sees answered.
    pub(crate) fn remove(&mut self, number: u32) -> Option<SentRequest> {
        let at = self.sent.iter().position(|sent| sent.number == number)?;
        Some(self.sent.remove(at))
    }

    /// The call has ended, and its requests with it. Handles that outlive it find an error.
    pub(crate) fn end(&mut self) {
        for sent in self.sent.drain(..) {
            sent.see(Err(ErrorCode::ConnectionTerminated));
        }
        self.next = 0;
        self.forget_awaited();
    }

    fn unseen_bytes(&self) -> usize {
        let bytes = |sent: &SentRequest| if let Stage::Answered(_, answer) = &sent.stage { answer.bytes() } else { 0 };
        self.sent.iter().map(bytes).sum()
    }
}

/// Text if it is UTF-8, as for other guests. `None` if there is nothing.
fn text_or_bytes(body: Vec<u8>) -> Option<windlass_core::http::HttpBody> {
    use windlass_core::http::HttpBody;
    (!body.is_empty())
        .then(|| String::from_utf8(body).map_or_else(|error| HttpBody::Bytes(error.into_bytes()), HttpBody::Text))
}
