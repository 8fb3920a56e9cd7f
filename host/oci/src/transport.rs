//! One exchange with a server: looks up its name, checks its addresses, connects, sends a request, and reads the answer
//! within limits. It knows nothing of registries.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, stream};
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderValue, USER_AGENT};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body::{Body, Frame};
use http_body_util::StreamBody;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};
use windlass_core::call::http::{HttpError, HttpReason};
use windlass_core::rights::egress::{AddressReach, HttpTarget};
use windlass_core::rights::grants::Scheme;
use windlass_egress::bounded_stream::BoundedStream;
use windlass_egress::connect::{self, Resolve, SystemResolver};
use windlass_egress::exchange::{self, StreamedResponse};
use windlass_egress::tls::{self, Trust};

use crate::Progress;
use crate::artefact::too_large;
use crate::error::OciError;
use crate::limits::RegistryLimits;

/// The size of the parts in which a body is sent. Progress is reported for each.
const SENT_PART_BYTES: usize = 64 << 10;

/// A connection.
pub trait DialedStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> DialedStream for S {}

/// Connects to addresses: the system, or a test.
pub trait Dial: Send + Sync {
    /// A connection to the first of `addresses` that answers within `limit`.
    fn dial(
        &self,
        addresses: Vec<SocketAddr>,
        limit: Duration,
    ) -> BoxFuture<'static, Result<Box<dyn DialedStream>, HttpError>>;
}

/// Connects by TCP.
#[derive(Clone, Copy, Debug)]
pub struct SystemDial;

impl Dial for SystemDial {
    fn dial(
        &self,
        addresses: Vec<SocketAddr>,
        limit: Duration,
    ) -> BoxFuture<'static, Result<Box<dyn DialedStream>, HttpError>> {
        async move { Ok(Box::new(connect::to_one_of(&addresses, limit).await?) as Box<dyn DialedStream>) }.boxed()
    }
}

/// The means to reach servers.
#[derive(Clone)]
pub struct Network {
    pub resolver: Arc<dyn Resolve>,
    pub dial: Arc<dyn Dial>,
    pub trust: Arc<Trust>,
}

impl Network {
    /// The system's network, with these authorities for TLS.
    #[must_use]
    pub fn of_system(trust: Trust) -> Self {
        Self { resolver: Arc::new(SystemResolver), dial: Arc::new(SystemDial), trust: Arc::new(trust) }
    }
}

/// The addresses that a request may go to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reach<'a> {
    /// All, because a person named the server.
    Any,
    /// Only loopback, because the request is not encrypted.
    Loopback,
    /// Public addresses, and these.
    Listed(&'a AddressReach),
}

/// A request.
#[derive(Clone)]
pub(crate) struct OciRequest {
    pub(crate) method: Method,
    pub(crate) target: HttpTarget,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The most bytes that the answer's body may have.
    pub(crate) answer_bytes: u64,
    /// Is called while the body is sent.
    pub(crate) progress: Option<Progress>,
}

impl OciRequest {
    /// A request without a body, for an answer of at most `answer_bytes`.
    pub(crate) fn new(method: Method, target: HttpTarget, answer_bytes: u64) -> Self {
        Self { method, target, headers: HeaderMap::new(), body: Bytes::new(), answer_bytes, progress: None }
    }

    /// The headers, with those that every request has.
    fn headers(&self) -> Result<HeaderMap, http::header::InvalidHeaderValue> {
        let mut headers = self.headers.clone();
        headers.insert(HOST, HeaderValue::from_str(&self.target.authority())?);
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("windlass/", env!("CARGO_PKG_VERSION"))));
        if self.method != Method::GET && self.method != Method::HEAD {
            headers.insert(CONTENT_LENGTH, self.body.len().into());
        }
        Ok(headers)
    }
}

/// The body of a request, in parts.
fn parts(bytes: Bytes, progress: Option<Progress>) -> impl Body<Data = Bytes, Error = Infallible> + Send + 'static {
    let total = bytes.len() as u64;
    StreamBody::new(stream::unfold(bytes, move |mut rest| {
        let part = rest.split_to(rest.len().min(SENT_PART_BYTES));
        if let Some(progress) = progress.as_ref().filter(|_| !part.is_empty()) {
            progress(total - rest.len() as u64, total);
        }
        std::future::ready((!part.is_empty()).then(|| (Ok(Frame::data(part)), rest)))
    }))
}

/// The head of an answer, whose body is read within limits of time.
#[derive(Debug)]
pub(crate) struct OciAnswer {
    pub(crate) server: String,
    response: StreamedResponse,
    deadline: Instant,
    idle: Duration,
    most: u64,
}

impl OciAnswer {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.parts.status
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.response.parts.headers
    }

    /// The length of the body, if the server has stated it.
    pub(crate) fn length(&self) -> Option<u64> {
        self.response.length()
    }

    /// The next part of the body. `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, OciError> {
        let until = self.deadline.min(Instant::now() + self.idle);
        let read = timeout_at(until, self.response.chunk()).await;
        let read = read.map_err(|_| OciError::TimedOut { server: self.server.clone() })?;
        read.map_err(|error| failure(&self.server, error))
    }

    /// The whole body. `what` is the name of it in errors.
    pub(crate) async fn read(mut self, what: &'static str) -> Result<Vec<u8>, OciError> {
        if self.headers().contains_key(http::header::CONTENT_ENCODING) {
            return Err(OciError::Encoded { what });
        }
        if self.length().is_some_and(|length| length > self.most) {
            return Err(too_large(what, self.most));
        }
        let mut bytes = Vec::new();
        while let Some(part) = self.chunk().await? {
            if (bytes.len() + part.len()) as u64 > self.most {
                return Err(too_large(what, self.most));
            }
            bytes.extend_from_slice(&part);
        }
        Ok(bytes)
    }
}

fn failure(server: &str, source: HttpError) -> OciError {
    let server = server.to_owned();
    match source.reason {
        HttpReason::Timeout => OciError::TimedOut { server },
        HttpReason::TooLarge => OciError::Overhead { server },
        HttpReason::Protocol => OciError::Broken { server, source },
        _ => OciError::Unreachable { server, source },
    }
}

impl Network {
    /// Sends `request` to its target, which must be within `reach`, and reads the head of the answer.
    pub(crate) async fn send(
        &self,
        request: OciRequest,
        reach: Reach<'_>,
        limits: &RegistryLimits,
    ) -> Result<OciAnswer, OciError> {
        let server = request.target.to_string();
        let sent = request.body.len() as u64;
        let deadline = Instant::now() + limits.time_for(sent.saturating_add(request.answer_bytes));
        // A server may take its time for a large upload, but must answer anything else soon.
        let head = if sent > SENT_PART_BYTES as u64 { deadline } else { deadline.min(Instant::now() + limits.idle) };
        let most = request.answer_bytes;
        let answered = timeout_at(head, self.exchange(request, reach, limits)).await;
        let response = answered.map_err(|_| OciError::TimedOut { server: server.clone() })??;
        Ok(OciAnswer { server, response, deadline, idle: limits.idle, most })
    }

    async fn exchange(
        &self,
        request: OciRequest,
        reach: Reach<'_>,
        limits: &RegistryLimits,
    ) -> Result<StreamedResponse, OciError> {
        let server = request.target.to_string();
        let failure = |error: HttpError| failure(&server, error);
        let limits = limits.of_exchange(request.answer_bytes);
        let addresses = self.addresses(&request.target, reach).await?;
        let stream = self.dial.dial(addresses, limits.connect).await.map_err(failure)?;
        let stream = BoundedStream::new(stream, limits.wire_bytes());
        let invalid = |_| OciError::Challenge { server: server.clone() };
        let headers = request.headers().map_err(invalid)?;
        let OciRequest { method, target, body, progress, .. } = request;
        let mut wire = Request::new(parts(body, progress));
        *wire.method_mut() = method;
        let malformed = |_| OciError::Redirect { server: server.clone(), why: "its path cannot be sent" };
        *wire.uri_mut() = target.path_and_query.parse().map_err(malformed)?;
        *wire.headers_mut() = headers;
        match target.scheme {
            Scheme::Http => exchange::send(stream, wire, &limits).await,
            Scheme::Https => {
                let config = self.trust.config().map_err(failure)?;
                let stream = tls::handshake(config, &target.host, stream).await.map_err(failure)?;
                exchange::send(stream, wire, &limits).await
            }
        }
        .map_err(failure)
    }

    /// The addresses of `target`, if all of them are within `reach`.
    async fn addresses(&self, target: &HttpTarget, reach: Reach<'_>) -> Result<Vec<SocketAddr>, OciError> {
        let server = target.to_string();
        let found = connect::resolve(self.resolver.as_ref(), target, ()).await;
        let addresses = found.map_err(|error| failure(&server, error))?;
        let refused = |address: String| OciError::Address { server: server.clone(), address };
        match reach {
            Reach::Any => {}
            Reach::Loopback => {
                if let Some(other) = addresses.iter().find(|address| !address.ip().is_loopback()) {
                    return Err(refused(format!("{}, which is not loopback", other.ip())));
                }
            }
            Reach::Listed(listed) => {
                connect::check(&addresses, listed, &[]).map_err(|denied| refused(denied.to_string()))?;
            }
        }
        Ok(addresses)
    }
}
