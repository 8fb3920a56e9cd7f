//! Requests in the form that this crate needs: text in and out, and errors that say whether the server may have acted.
//!
//! [`mutate`] is the only function of the project that sends requests other than GET.

mod list;
mod query;
mod span;
mod values;
mod watch;

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, RETRY_AFTER, USER_AGENT, WARNING};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use tokio::time::timeout;
use windlass_core::error::chained;

use crate::client::failure;
use crate::client::headers::{HOST_AGENT, RequestHeaders};

pub(crate) use list::{ListError, ReadList, get_list};
pub(crate) use query::Query;
pub(crate) use values::VALUE_BYTES_MAX;
pub(crate) use watch::{WatchEnd, WatchStream};
pub(crate) use windlass_core::object::path_segment::encode;

/// The time that the host waits for the answer to a read.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// The time that the server may work on a mutation, as a query parameter.
pub(crate) const SERVER_TIMEOUT_QUERY: &str = "15s";
/// As [`SERVER_TIMEOUT_QUERY`].
pub(crate) const SERVER_TIMEOUT: Duration = Duration::from_secs(15);
/// The time that a mutation may take to reach the server, and that a started write may take to be stored.
pub(crate) const TRANSIT_TIME_MAX: Duration = Duration::from_secs(5);
/// The time after sending in which a mutation may still be committed. The host waits for the answer for the same time,
/// so that the server gives up first. A shutdown waits even longer for the last writes.
pub(crate) const MUTATION_LIFETIME_MAX: Duration =
    Duration::from_secs(SERVER_TIMEOUT.as_secs() + TRANSIT_TIME_MAX.as_secs());

/// The maximum size of the answer to a mutation. It is one object, for which etcd allows 1.5 MiB, and `managedFields`
/// may double it.
pub(crate) const MUTATION_ANSWER_BYTES_MAX: usize = 8 << 20;
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The maximum size of an error answer, which has only some lines of text.
const REFUSAL_BYTES_MAX: usize = 256 << 10;

/// The reason why a request has no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The server answered with an error.
    #[error("the API server answered {} {}: {}", status.code, status.reason, status.message)]
    Refused {
        /// The server's answer. Its code is the HTTP status.
        status: Box<Status>,
        /// The delay that the server requested.
        retry_after: Option<Duration>,
    },
    /// The request was not sent: no connection or no credentials.
    #[error("the API server could not be reached: {}", chained(source))]
    NotSent { source: Box<kube::Error> },
    /// The connection broke, and the request may have been sent.
    #[error("the connection to the API server broke: {}", chained(source))]
    Broken { source: Box<kube::Error> },
    /// There was no complete answer in time.
    #[error("the API server did not answer within {after:?}")]
    TimedOut {
        /// The time that the host waited.
        after: Duration,
    },
    /// The server answered with success, but the answer is larger than the host allows.
    #[error("the answer of the API server is larger than {most} bytes")]
    TooLarge {
        /// The maximum size in bytes.
        most: usize,
    },
    /// The answer is not UTF-8 text.
    #[error("the answer of the API server is not UTF-8")]
    NotText(#[from] std::string::FromUtf8Error),
}

impl RequestError {
    /// The HTTP status of the answer, if there was one.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(status.code),
            _ => None,
        }
    }

    /// The delay that the server requested.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// A mutation, ready to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Mutation {
    pub(crate) method: Method,
    /// The path and query.
    pub(crate) uri: String,
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
    /// Headers for the principal and the trace: [`crate::client::headers`].
    pub(crate) headers: RequestHeaders,
}

impl Mutation {
    /// The mutation, to be sent. Only its body and its method remain here, because what the mutation did is judged by
    /// its body.
    pub(crate) fn take(&mut self) -> Self {
        Self {
            method: self.method.clone(),
            uri: std::mem::take(&mut self.uri),
            content_type: self.content_type,
            body: self.body.clone(),
            headers: std::mem::take(&mut self.headers),
        }
    }

    /// Shortens the server's timeout to `limit`, if that is less. Otherwise the write could take effect when another
    /// replica already acts.
    pub(crate) fn end_within(&mut self, limit: Duration) {
        if limit >= SERVER_TIMEOUT {
            return;
        }
        let usual = format!("timeout={SERVER_TIMEOUT_QUERY}");
        if let Some(at) = self.uri.rfind(&usual) {
            // Other parameters cannot match this, because their values are encoded.
            let sooner = format!("timeout={}ms", limit.as_millis().max(1));
            self.uri.replace_range(at..at + usual.len(), &sooner);
        }
    }
}

/// The successful answer to a mutation.
#[derive(Debug)]
pub(crate) struct MutationAnswer {
    pub(crate) code: u16,
    pub(crate) text: String,
    /// The texts of the `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

/// GETs `uri` and reads the whole answer within `limit`.
pub(crate) async fn get(client: &Client, uri: &str, limit: Duration) -> Result<String, RequestError> {
    let request = Request::get(uri).header(USER_AGENT, HOST_AGENT).header(ACCEPT, "application/json");
    let exchange = async { read(send(client, request, Bytes::new()).await?, VALUE_BYTES_MAX).await };
    timeout(limit, exchange).await.unwrap_or(Err(RequestError::TimedOut { after: limit }))
}

/// GETs `uri` with `headers` ([`crate::client::headers`]), which name the user, and reads the whole answer of at most
/// `most` bytes within `limit`.
pub(crate) async fn get_as(
    client: &Client,
    uri: &str,
    headers: RequestHeaders,
    most: usize,
    limit: Duration,
) -> Result<String, RequestError> {
    get_in_form(client, uri, "application/json", headers, most, limit).await
}

/// As [`get_as`], in a format that `accept` allows.
pub(crate) async fn get_in_form(
    client: &Client,
    uri: &str,
    accept: &'static str,
    headers: RequestHeaders,
    most: usize,
    limit: Duration,
) -> Result<String, RequestError> {
    let mut span = span::begin(&headers, &Method::GET, uri);
    let request = with(Request::get(uri), headers).header(ACCEPT, accept);
    let exchange = async { read(send(client, request, Bytes::new()).await?, most).await };
    let result = timeout(limit, exchange).await.unwrap_or(Err(RequestError::TimedOut { after: limit }));
    span::end(&mut span, &result, |_| None);
    result
}

/// GETs `uri` with `headers`, which name the user, and reads at most the first `most` bytes of the answer within
/// `limit`, whatever its format.
pub(crate) async fn get_beginning(
    client: &Client,
    uri: &str,
    headers: RequestHeaders,
    most: usize,
    limit: Duration,
) -> Result<Vec<u8>, RequestError> {
    let mut span = span::begin(&headers, &Method::GET, uri);
    // As kubectl does, so that errors come as JSON.
    let request = with(Request::get(uri), headers).header(ACCEPT, "application/json, */*");
    let exchange = async { read_beginning(send(client, request, Bytes::new()).await?, most).await };
    let result = timeout(limit, exchange).await.unwrap_or(Err(RequestError::TimedOut { after: limit }));
    span::end(&mut span, &result, |_| None);
    result
}

/// Starts a watch at `uri` in a format that `accept` allows. `limit` applies only to the beginning of the answer.
pub(crate) async fn watch(
    client: &Client,
    uri: &str,
    accept: &str,
    limit: Duration,
) -> Result<WatchStream, RequestError> {
    let request =
        Request::get(uri).header(USER_AGENT, HOST_AGENT).header(ACCEPT, accept).header(ACCEPT_ENCODING, "identity");
    let begin = async {
        let response = send(client, request, Bytes::new()).await?;
        if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        Ok(WatchStream::new(response.into_body()))
    };
    timeout(limit, begin).await.unwrap_or(Err(RequestError::TimedOut { after: limit }))
}

/// Sends `mutation` and reads the whole answer, of at most [`MUTATION_ANSWER_BYTES_MAX`] bytes, within `limit`.
pub(crate) async fn mutate(
    client: &Client,
    mutation: Mutation,
    limit: Duration,
) -> Result<MutationAnswer, RequestError> {
    let mut span = span::begin(&mutation.headers, &mutation.method, &mutation.uri);
    let request = Request::builder().method(mutation.method).uri(mutation.uri);
    let request = with(request, mutation.headers)
        .header(ACCEPT, JSON)
        .header(CONTENT_TYPE, HeaderValue::from_static(mutation.content_type));
    let exchange = async {
        let response = send(client, request, mutation.body).await?;
        let code = response.status().as_u16();
        let warnings = response.headers().get_all(WARNING).iter().filter_map(warning_text).collect();
        Ok(MutationAnswer { code, warnings, text: read(response, MUTATION_ANSWER_BYTES_MAX).await? })
    };
    let result = timeout(limit, exchange).await.unwrap_or(Err(RequestError::TimedOut { after: limit }));
    span::end(&mut span, &result, |answer| Some(answer.code));
    result
}

fn with(mut request: http::request::Builder, headers: RequestHeaders) -> http::request::Builder {
    if let Some(all) = request.headers_mut() {
        // No other headers have been set.
        *all = headers.map;
    }
    request
}

async fn send(client: &Client, request: http::request::Builder, body: Bytes) -> Result<Response<Body>, RequestError> {
    let not_sent = |source| RequestError::NotSent { source: Box::new(source) };
    let request = request.body(Body::from(body)).map_err(|error| not_sent(kube::Error::HttpError(error)))?;
    client.send(request).await.map_err(|error| {
        if was_never_sent(&error) { not_sent(error) } else { RequestError::Broken { source: Box::new(error) } }
    })
}

/// True only if no byte can have reached the server. If in doubt, the request counts as sent.
fn was_never_sent(error: &kube::Error) -> bool {
    match error {
        kube::Error::Auth(_) | kube::Error::HttpError(_) => true,
        kube::Error::Service(error) => failure::was_never_sent(&**error),
        _ => false,
    }
}

/// Reads the whole text of a successful answer. Otherwise returns the error.
async fn read(response: Response<Body>, most: usize) -> Result<String, RequestError> {
    if !response.status().is_success() {
        return Err(refusal(response).await);
    }
    let mut text = Vec::new();
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|source| RequestError::Broken { source: Box::new(source) })?;
        let Ok(data) = frame.into_data() else { continue };
        if text.len() + data.len() > most {
            return Err(RequestError::TooLarge { most });
        }
        text.extend_from_slice(&data);
    }
    Ok(String::from_utf8(text)?)
}

/// Reads the beginning of a successful answer. Otherwise returns the error.
async fn read_beginning(response: Response<Body>, most: usize) -> Result<Vec<u8>, RequestError> {
    if !response.status().is_success() {
        return Err(refusal(response).await);
    }
    let mut bytes = Vec::new();
    let mut body = response.into_body();
    while bytes.len() < most
        && let Some(frame) = body.frame().await
    {
        let frame = frame.map_err(|source| RequestError::Broken { source: Box::new(source) })?;
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data[..data.len().min(most - bytes.len())]);
        }
    }
    Ok(bytes)
}

/// Reads an unsuccessful answer. The status alone shows that the request was refused, so the rest may be missing.
async fn refusal(response: Response<Body>) -> RequestError {
    let (parts, body) = response.into_parts();
    let body = http_body_util::Limited::new(body, REFUSAL_BYTES_MAX);
    let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    // An answer that is not a `Status` does not come from the API server.
    let foreign = || Status { status: None, ..Status::failure(text.trim(), "") };
    let mut status: Status = serde_json::from_str(&text).unwrap_or_else(|_| foreign());
    status.code = parts.status.as_u16();
    if status.message.is_empty() {
        parts.status.canonical_reason().unwrap_or("no message").clone_into(&mut status.message);
    }
    let retry_after = retry_after(&parts.headers, &status);
    RequestError::Refused { status: Box::new(status), retry_after }
}

fn retry_after(headers: &HeaderMap, status: &Status) -> Option<Duration> {
    let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let detail = status.details.as_ref().map(|details| u64::from(details.retry_after_seconds));
    header.or(detail).filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

/// The text of `299 - "the text"`.
fn warning_text(header: &HeaderValue) -> Option<String> {
    let (_, quoted) = header.to_str().ok()?.split_once('"')?;
    let mut text = String::new();
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => text.push(characters.next()?),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_encoded() {
        let mut query = Query::default();
        query.add("labelSelector", "a in (b,c)");
        query.add_some("continue", None);
        query.add("limit", "500");
        assert_eq!(query.onto("/api/v1/pods"), "/api/v1/pods?labelSelector=a%20in%20%28b%2Cc%29&limit=500");
    }

    #[test]
    fn a_mutation_that_has_less_time_has_less_at_the_server() {
        let uri_within = |limit| {
            let mut query = Query::default();
            query.add("fieldManager", "timeout=15s");
            query.add("timeout", SERVER_TIMEOUT_QUERY);
            let (method, body, headers) = (Method::POST, Bytes::new(), RequestHeaders::default());
            let mut mutation = Mutation { method, uri: query.onto("/a"), content_type: "", body, headers };
            mutation.end_within(limit);
            mutation.uri
        };
        assert_eq!(uri_within(Duration::from_secs(20)), "/a?fieldManager=timeout%3D15s&timeout=15s");
        assert_eq!(uri_within(Duration::from_micros(12_345_678)), "/a?fieldManager=timeout%3D15s&timeout=12345ms");
    }

    #[test]
    fn a_mutation_that_was_taken_leaves_its_body() {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, JSON);
        let (method, uri, body) = (Method::PATCH, "/a".to_owned(), Bytes::from_static(b"{}"));
        let mut mutation = Mutation { method, uri, content_type: "c", body, headers: headers.clone().into() };
        let taken = mutation.take();
        assert_eq!((&*taken.uri, &*taken.body, taken.headers.map), ("/a", &b"{}"[..], headers));
        assert_eq!((mutation.method, &*mutation.body), (Method::PATCH, &b"{}"[..]));
    }

    #[test]
    fn a_warning_header_is_unquoted() {
        let header = HeaderValue::from_static(r#"299 - "unknown field \"spec.x\"""#);
        assert_eq!(warning_text(&header).as_deref(), Some(r#"unknown field "spec.x""#));
        assert_eq!(warning_text(&HeaderValue::from_static("299 - \"open")), None);
    }

    #[test]
    fn the_retry_after_header_takes_precedence_over_the_details() {
        let details: Status = serde_json::from_str(r#"{"details":{"retryAfterSeconds":7}}"#).expect("a status");
        let mut headers = HeaderMap::new();
        assert_eq!(retry_after(&headers, &details), Some(Duration::from_secs(7)));
        headers.insert(RETRY_AFTER, HeaderValue::from_static("2"));
        assert_eq!(retry_after(&headers, &details), Some(Duration::from_secs(2)));
        assert_eq!(retry_after(&HeaderMap::new(), &Status::success()), None);
    }
}
