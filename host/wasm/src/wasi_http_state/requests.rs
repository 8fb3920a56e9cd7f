//! The requests of a call, from the moment when the guest sends them until it sees their answers.

use std::any::Any;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http_body_util::BodyExt as _;
use wasmtime_wasi::p2::Pollable;
use wasmtime_wasi_http::Error;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;
use windlass_core::call::http::{HttpBody, HttpRequest, HttpResponse};
use windlass_core::call::ports::Answer;

use super::{HTTP_REQUESTS_MAX, HeldBytes};

/// An answer in the guest's form.
pub(crate) type Seen = Result<(HttpResponse, HeldBytes), ErrorCode>;

/// The place where the guest finds the answer to one request.
#[derive(Default)]
pub(crate) enum Slot {
    /// The guest has not seen that there is an answer.
    #[default]
    Unseen,
    Seen(Box<Seen>),
    /// The guest has taken the answer.
    Taken,
}

/// `wasi:http/types.future-incoming-response`. Dropping it abandons the answer and not the request.
pub(crate) struct FutureResponse {
    number: u32,
    slot: Arc<Mutex<Slot>>,
    awaited: Awaited,
}

impl FutureResponse {
    /// The answer, if the guest has seen that there is one. An error if the guest has taken it already.
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

/// The unanswered requests whose pollables the guest asked about since it began to wait.
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

/// The port's work for a request. It ends with the answer or a panic.
pub(crate) type Work = BoxFuture<'static, Result<Answer, Box<dyn Any + Send>>>;

/// A request that the guest has sent and whose answer it has not seen.
pub(crate) struct SentRequest {
    pub(crate) number: u32,
    slot: Arc<Mutex<Slot>>,
    pub(crate) stage: RequestStage,
    /// The request's body counts until the guest has seen the answer, so that the guest's results do not depend on the
    /// time of the answer.
    held: HeldBytes,
}

/// The stage of a request.
pub(crate) enum RequestStage {
    /// The guest is writing the request's body.
    Body(Box<HttpRequest>, BoxFuture<'static, Result<Bytes, Error>>),
    /// The request's body is complete, and the request has not been sent to the port yet.
    Ready(Box<HttpRequest>),
    Asked(Box<RequestErrorContext>, Work),
    Answered(Box<RequestErrorContext>, Box<Answer>),
    Panicked(Box<dyn Any + Send>),
    /// The request was never sent to the port.
    Failed(ErrorCode),
}

/// Describes a request that was sent to the port, for errors.
#[derive(Clone)]
pub(crate) struct RequestErrorContext {
    /// Method and server, for people.
    pub(crate) text: String,
    /// The code if the port says that the request is malformed.
    pub(crate) if_invalid: ErrorCode,
}

impl SentRequest {
    /// Whether the request goes on without the guest, because its body is complete.
    fn has_begun(&self) -> bool {
        !matches!(self.stage, RequestStage::Body(..))
    }

    fn is_answered(&self) -> bool {
        matches!(self.stage, RequestStage::Answered(..) | RequestStage::Panicked(_) | RequestStage::Failed(_))
    }

    /// Advances the request as far as possible. Returns whether it is answered.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        if let RequestStage::Asked(asked, work) = &mut self.stage
            && let Poll::Ready(answer) = work.poll_unpin(context)
        {
            let asked = asked.clone();
            self.stage = match answer {
                Ok(answer) => RequestStage::Answered(asked, Box::new(answer)),
                Err(panic) => RequestStage::Panicked(panic),
            };
        }
        self.is_answered()
    }

    /// The request, if it is to be sent now. [`Self::asked`] must follow.
    pub(crate) fn take_ready(&mut self) -> Option<HttpRequest> {
        match std::mem::replace(&mut self.stage, RequestStage::Failed(ErrorCode::HttpProtocolError)) {
            RequestStage::Ready(request) => Some(*request),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// Records that the port works on the request. `begins` is false if the work begins only when its answer is
    /// awaited.
    pub(crate) fn asked(&mut self, summary: RequestErrorContext, work: Work, begins: bool) {
        self.stage = RequestStage::Asked(Box::new(summary), work);
        if begins {
            self.poll(&mut Context::from_waker(std::task::Waker::noop()));
        }
    }

    /// Makes the answer visible to the guest.
    pub(crate) fn see(self, seen: Seen) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Slot::Seen(Box::new(seen));
    }
}

/// The requests of a call, oldest first.
#[derive(Default)]
pub(crate) struct Requests {
    next: u32,
    pub(crate) sent: Vec<SentRequest>,
    awaited: Awaited,
}

impl Requests {
    /// Sends `request`, whose body is the result of `body`. `None` if there are too many requests.
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
            None => RequestStage::Ready(request),
            Some(body) => RequestStage::Body(request, body.collect().map(|body| Ok(body?.to_bytes())).boxed()),
        };
        self.sent.push(SentRequest { number, slot: slot.clone(), stage, held });
        Some(FutureResponse { number, slot, awaited: self.awaited.clone() })
    }

    /// The requests with complete bodies, which are to be sent.
    pub(crate) fn ready(&mut self) -> impl Iterator<Item = &mut SentRequest> {
        for sent in &mut self.sent {
            let RequestStage::Body(_, body) = &mut sent.stage else { continue };
            let Some(body) = body.now_or_never() else { continue };
            let before = std::mem::replace(&mut sent.stage, RequestStage::Failed(ErrorCode::HttpProtocolError));
            if let (RequestStage::Body(mut request, _), Ok(body)) = (before, body) {
                sent.held.add(body.len());
                request.body = text_or_bytes(body.into());
                sent.stage = RequestStage::Ready(request);
            }
        }
        self.sent.iter_mut().filter(|sent| matches!(sent.stage, RequestStage::Ready(_)))
    }

    /// Takes the requests that the guest has asked about since the last call of this method. Returns the requests with
    /// complete bodies, oldest first, and whether the guest has asked about any others.
    pub(crate) fn awaited(&self) -> (Vec<u32>, bool) {
        let mut awaited = self.awaited.take();
        awaited.sort_unstable();
        let all = awaited.len();
        awaited.retain(|number| self.sent.iter().any(|sent| sent.number == *number && sent.has_begun()));
        let has_others = awaited.len() < all;
        (awaited, has_others)
    }

    /// Forgets which requests were asked about.
    pub(crate) fn forget_awaited(&self) {
        self.awaited.take();
    }

    /// The requests among `awaited` that are answered, once at least one of them is answered. Other requests advance
    /// too, unless `alone`.
    pub(crate) fn poll_first(&mut self, context: &mut Context<'_>, awaited: &[u32], alone: bool) -> Poll<Vec<u32>> {
        let mut answered = Vec::new();
        for sent in &mut self.sent {
            let is_awaited = awaited.contains(&sent.number);
            if alone && !is_awaited {
                continue;
            }
            let is_answered = sent.poll(context);
            if is_answered && is_awaited {
                answered.push(sent.number);
            }
        }
        if answered.is_empty() { Poll::Pending } else { Poll::Ready(answered) }
    }

    /// Waits for `work`, while all requests continue.
    pub(crate) async fn go_on_beside<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|context| {
            for sent in &mut self.sent {
                sent.poll(context);
            }
            work.as_mut().poll(context)
        })
        .await
    }

    /// Removes the request `number`, whose answer the guest sees.
    pub(crate) fn remove(&mut self, number: u32) -> Option<SentRequest> {
        let at = self.sent.iter().position(|sent| sent.number == number)?;
        Some(self.sent.remove(at))
    }

    /// Ends all requests, because the call has ended. Handles that outlive the call contain an error.
    pub(crate) fn end(&mut self) {
        for sent in self.sent.drain(..) {
            sent.see(Err(ErrorCode::ConnectionTerminated));
        }
        self.next = 0;
        self.forget_awaited();
    }

    pub(crate) fn unseen_bytes(&self) -> usize {
        let bytes =
            |sent: &SentRequest| if let RequestStage::Answered(_, answer) = &sent.stage { answer.bytes() } else { 0 };
        self.sent.iter().map(bytes).sum()
    }
}

/// The body as text if it is UTF-8, as for other guests. `None` if it is empty.
fn text_or_bytes(body: Vec<u8>) -> Option<HttpBody> {
    (!body.is_empty())
        .then(|| String::from_utf8(body).map_or_else(|error| HttpBody::Bytes(error.into_bytes()), HttpBody::Text))
}
