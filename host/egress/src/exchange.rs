//! One exchange on one connection: sends a request, and reads a response within the limits, as a whole or in parts.

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::header::HeaderMap;
use http::response::Parts;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_core::call::http::{HttpBody, HttpError, HttpReason, HttpResponse};

use crate::bounded_stream::TooMuch;
use crate::{HttpLimits, failed};

/// The head of a response, whose body the caller reads. The connection ends with it.
#[derive(Debug)]
pub struct StreamedResponse {
    pub parts: Parts,
    body: Incoming,
    limits: HttpLimits,
    /// Moves the bytes of the connection. The task is aborted with the response.
    _driving: JoinSet<Result<(), hyper::Error>>,
}

impl StreamedResponse {
    /// The length of the body, if the peer has stated it.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// The next part of the body. `None` at its end. An error if it ends before the stated length.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        while let Some(frame) = self.body.frame().await {
            if let Ok(data) = frame.map_err(|error| broken(&error, &self.limits))?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// The whole body, of at most `most` bytes.
    pub async fn read(mut self, most: usize) -> Result<Vec<u8>, HttpError> {
        let too_large = || failed(HttpReason::TooLarge, format!("the body is larger than {most} bytes"));
        if self.body.size_hint().lower() > most as u64 {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        while let Some(data) = self.chunk().await? {
            if bytes.len() + data.len() > most {
                return Err(too_large());
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes)
    }
}

/// Sends `request` on `stream` and reads the whole response. The connection ends with it.
pub async fn exchange<S>(
    stream: S,
    request: Request<Full<Bytes>>,
    limits: &HttpLimits,
) -> Result<HttpResponse, HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let response = send(stream, request, limits).await?;
    let (status, headers) = (response.parts.status.as_u16(), headers(&response.parts.headers));
    let body = response.read(limits.response_bytes).await?;
    let body = String::from_utf8(body).map_or_else(|error| HttpBody::Bytes(error.into_bytes()), HttpBody::Text);
    Ok(HttpResponse { status, headers, body })
}

/// Sends `request` on `stream` and reads the head of the response.
pub async fn send<S, B>(stream: S, mut request: Request<B>, limits: &HttpLimits) -> Result<StreamedResponse, HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut builder = http1::Builder::new();
    builder.max_buf_size(limits.header_bytes).max_headers(limits.headers);
    let broken = |error: hyper::Error| broken(&error, limits);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // The connection's task is aborted when this function fails, or when its response is dropped.
    let mut driving = JoinSet::new();
    driving.spawn(connection);
    let interim = Interim::count(&mut request, limits.interim);
    let answered = tokio::select! {
        biased;
        () = interim.too_many.cancelled() => return Err(interim.error()),
        answered = sender.send_request(request) => answered,
    };
    let (parts, body) = answered.map_err(broken)?.into_parts();
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(failed(HttpReason::Protocol, "the peer wants to switch to another protocol".to_owned()));
    }
    Ok(StreamedResponse { parts, body, limits: limits.clone(), _driving: driving })
}

/// Counts the interim answers to one request.
struct Interim {
    most: usize,
    too_many: CancellationToken,
}

impl Interim {
    fn count<B>(request: &mut Request<B>, most: usize) -> Self {
        let too_many = CancellationToken::new();
        let (seen, limit_reached) = (AtomicUsize::new(0), too_many.clone());
        hyper::ext::on_informational(request, move |_| {
            if seen.fetch_add(1, Ordering::Relaxed) == most {
                limit_reached.cancel();
            }
        });
        Self { most, too_many }
    }

    fn error(&self) -> HttpError {
        failed(HttpReason::TooLarge, format!("the peer sent more than {} interim answers (1xx)", self.most))
    }
}

/// Names are in lower case already. Bytes of a value that are not UTF-8 are replaced.
fn headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect()
}

fn broken(error: &hyper::Error, limits: &HttpLimits) -> HttpError {
    if error.is_parse_too_large() {
        let HttpLimits { headers, header_bytes, .. } = limits;
        let message =
            format!("the response has more than {headers} headers, or more than {header_bytes} bytes of them");
        return failed(HttpReason::TooLarge, message);
    }
    if let Some(too_much) = too_much(error) {
        return failed(HttpReason::TooLarge, too_much.to_string());
    }
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    failed(HttpReason::Protocol, format!("the exchange broke: {error}{cause}"))
}

/// The cause, however deep, if `BoundedStream` has ended the connection. TLS may have wrapped it in its own I/O error.
fn too_much<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a TooMuch> {
    let wrapped = || error.downcast_ref::<io::Error>()?.get_ref().and_then(|inner| too_much(inner));
    error.downcast_ref().or_else(wrapped).or_else(|| error.source().and_then(too_much))
}
