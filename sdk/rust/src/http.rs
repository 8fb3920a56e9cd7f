//! HTTP requests to granted hosts. The manifest names the hosts ([`HttpAccess`](crate::manifest::HttpAccess)), and the
//! operator grants them.
//!
//! ```no_run
//! # use serde_json::{Value, json};
//! # use windlass_sdk::{Failures, http};
//! # fn run(token: &str) -> Result<(), Failures> {
//! let response = http::post("https://api.example.com/v1/volumes")
//!     .header("authorization", format!("Bearer {token}"))
//!     .json(&json!({"size": 10}))
//!     .send()?
//!     .error_for_status()?;
//! let volume: Value = response.json()?;
//! # Ok(())
//! # }
//! ```
//!
//! Redirects are not followed. A call may run again at any time, so make requests that are safe to repeat: use an
//! idempotency key (the primary's UID, say), or first ask what exists.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bindings::windlass::plugin::http;
use crate::error::{ApiError, ApiReason, JsonError};
use crate::failure::Failures;
use crate::json::misfit;
use crate::request::milliseconds;

pub use http::{Body, HttpReason};

/// A `GET` request.
pub fn get(url: impl Into<String>) -> Request {
    request("GET", url)
}

/// A `POST` request.
pub fn post(url: impl Into<String>) -> Request {
    request("POST", url)
}

/// A `PUT` request.
pub fn put(url: impl Into<String>) -> Request {
    request("PUT", url)
}

/// A `DELETE` request.
pub fn delete(url: impl Into<String>) -> Request {
    request("DELETE", url)
}

/// A request with any method.
pub fn request(method: impl Into<String>, url: impl Into<String>) -> Request {
    let request =
        http::Request { method: method.into(), url: url.into(), headers: Vec::new(), body: None, timeout_ms: None };
    Request { request, error: None }
}

/// A request that is ready to be sent.
#[derive(Debug)]
#[must_use = "nothing happens before `send`"]
pub struct Request {
    request: http::Request,
    /// A body that failed to serialize. The error is returned by `send`, so that building needs no error handling.
    error: Option<JsonError>,
}

impl Request {
    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.headers.push((name.into(), value.into()));
        self
    }

    /// Sends this value as JSON.
    pub fn json<T: Serialize + ?Sized>(mut self, body: &T) -> Self {
        match serde_json::to_string(body) {
            Ok(text) => self.request.body = Some(Body::Text(text)),
            Err(error) => self.error = Some(JsonError::new("the body of an HTTP request", error)),
        }
        self.header("content-type", "application/json")
    }

    /// Sends this text.
    pub fn text(mut self, body: impl Into<String>) -> Self {
        self.request.body = Some(Body::Text(body.into()));
        self
    }

    /// Sends these bytes.
    pub fn bytes(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.request.body = Some(Body::Bytes(body.into()));
        self
    }

    /// Sets how long the whole exchange may take. By default, the host's limit applies.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.request.timeout_ms = Some(milliseconds(timeout));
        self
    }

    /// Sends the request and reads the whole response. Any status is a response, not an error: see
    /// [`error_for_status`](Response::error_for_status).
    pub fn send(self) -> Result<Response, HttpError> {
        if let Some(error) = self.error {
            return Err(error.into());
        }
        let target = format!("{} {}", self.request.method, without_query(&self.request.url));
        match crate::native::http::fetch(&self.request) {
            Ok(http::Response { status, headers, body }) => Ok(Response { target, status, headers, body }),
            Err(http::HttpError { reason, message }) => Err(HttpError::Failed { target, reason, message }),
        }
    }
}

/// The URL for messages, without the query, which is the part most likely to contain secrets.
fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

/// The response to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    target: String,
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
}

impl Response {
    /// A response without a request, for tests.
    #[must_use]
    pub fn new(status: u16, body: Body) -> Self {
        Self { target: "a test".to_owned(), status, headers: Vec::new(), body }
    }

    /// The status, such as 200.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether the status is one of 200 to 299.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The first value of a header. The case of the name does not matter.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// All headers in the order received, with names in lower case.
    #[must_use]
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// The body as bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.body {
            Body::Text(text) => text.as_bytes(),
            Body::Bytes(bytes) => bytes,
        }
    }

    /// The body as text. `None` if it is not UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.body {
            Body::Text(text) => Some(text),
            Body::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
        }
    }

    /// The JSON body, as any type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, HttpError> {
        let text = self.text().unwrap_or_default();
        serde_json::from_slice(self.bytes())
            .map_err(|error| JsonError::reading("the body of an HTTP response", misfit(text, &error), error).into())
    }

    /// Turns a status outside 200 to 299 into an error.
    pub fn error_for_status(self) -> Result<Self, HttpError> {
        if self.is_success() {
            return Ok(self);
        }
        Err(HttpError::Status { target: self.target, status: self.status })
    }
}

/// The error of an HTTP request.
///
/// As a [`Failures`] it is transient, because the network or the server may recover. A malformed request is terminal. A
/// request that is not granted is an [`ApiError`] of [`ApiReason::NotGranted`], so that the key runs again when the
/// policy changes.
#[derive(Debug)]
pub enum HttpError {
    /// The request was not sent, or got no response.
    Failed {
        /// Method and URL, without the query.
        target: String,
        /// The class of the failure.
        reason: HttpReason,
        /// The text for people.
        message: String,
    },
    /// The response has a status outside 200 to 299.
    Status {
        /// Method and URL, without the query.
        target: String,
        /// The status.
        status: u16,
    },
    /// The body does not fit the type that it was read into or written from.
    Json(JsonError),
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { target, reason, message } => write!(f, "{target}: {}: {message}", reason.as_str()),
            Self::Status { target, status } => write!(f, "{target}: answered with status {status}"),
            Self::Json(error) => error.fmt(f),
        }
    }
}

impl HttpReason {
    /// The reason as the interface spells it, such as `not-granted`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotGranted => "not-granted",
            Self::InvalidRequest => "invalid-request",
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::TooLarge => "too-large",
            Self::Protocol => "protocol",
            Self::Other => "other",
        }
    }
}

impl std::error::Error for HttpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Failed { reason, .. } => Some(reason),
            Self::Status { .. } => None,
            // The source is not the JSON error itself, because that would make the failure terminal, and a later
            // response may fit.
            Self::Json(error) => Some(error.cause()),
        }
    }
}

impl fmt::Display for HttpReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The source of an [`HttpError`]. It lets the class be found through a transparent error, which shows only its source.
impl std::error::Error for HttpReason {}

impl From<JsonError> for HttpError {
    fn from(error: JsonError) -> Self {
        Self::Json(error)
    }
}

impl From<HttpError> for Failures {
    fn from(error: HttpError) -> Self {
        error.failures()
    }
}

impl HttpError {
    pub(crate) fn failures(&self) -> Failures {
        match self {
            Self::Failed { reason: HttpReason::NotGranted, message, .. } => not_granted(message.clone()),
            Self::Failed { reason: HttpReason::InvalidRequest, .. } => Failures::terminal(self.to_string()),
            Self::Failed { .. } | Self::Status { .. } | Self::Json(_) => Failures::transient(self.to_string()),
        }
    }
}

/// The failure of a call whose HTTP request is not granted to the plugin.
pub(crate) fn not_granted(message: String) -> Failures {
    let error = ApiError {
        code: 403,
        reason: ApiReason::NotGranted,
        status_reason: "NotGranted".to_owned(),
        message,
        retry_after_ms: None,
        verb: "fetch".to_owned(),
        resource: "http".to_owned(),
        object: None,
    };
    error.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure;
    use serde_json::{Value, json};

    #[test]
    fn a_request_has_the_given_header_body_and_timeout() {
        let request = put("https://a.dev/x").header("a", "b").json(&json!({"c": 1})).timeout(Duration::from_secs(2));
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = http::Request {
            method: "PUT".into(),
            url: "https://a.dev/x".into(),
            headers: vec![header("a", "b"), header("content-type", "application/json")],
            body: Some(Body::Text(r#"{"c":1}"#.into())),
            timeout_ms: Some(2_000),
        };
        assert_eq!(request.request, expected);
    }

    #[test]
    fn a_response_reads_as_text_json_and_bytes() {
        let response = Response::new(200, Body::Bytes(br#"{"a":1}"#.to_vec()));
        assert_eq!(response.json::<Value>().unwrap(), json!({"a": 1}));
        assert_eq!((response.text(), response.bytes().len()), (Some(r#"{"a":1}"#), 7));
        assert_eq!(Response::new(200, Body::Bytes(vec![0xff])).text(), None);
        let headers = vec![("retry-after".to_owned(), "5".to_owned())];
        assert_eq!(Response { headers, ..response }.header("Retry-After"), Some("5"));
    }

    #[test]
    fn only_statuses_from_200_to_299_are_success() {
        let response = |status| Response::new(status, Body::Text(String::new()));
        assert!(response(204).error_for_status().is_ok());
        let error = response(404).error_for_status().unwrap_err();
        assert_eq!(error.to_string(), "a test: answered with status 404");
    }

    #[test]
    fn a_malformed_request_is_terminal_and_a_denied_one_waits_for_the_policy() {
        let failure = |reason| {
            let error = HttpError::Failed { target: "GET https://a.dev".into(), reason, message: "message".into() };
            Failures::from(error).iter().next().cloned()
        };
        let message = "GET https://a.dev: invalid-request: message".to_owned();
        assert_eq!(failure(HttpReason::InvalidRequest), Some(Failure::Terminal(message)));
        assert!(matches!(failure(HttpReason::Dns), Some(Failure::Transient(_))));
        let Some(Failure::Api(denied)) = failure(HttpReason::NotGranted) else { panic!("it is no API error") };
        assert_eq!(
            (denied.reason, denied.to_string().as_str()),
            (ApiReason::NotGranted, "fetch http: NotGranted: message")
        );
    }

    #[test]
    fn a_query_appears_in_no_message() {
        assert_eq!(without_query("https://a.dev/x?token=secret#top"), "https://a.dev/x");
    }
}
