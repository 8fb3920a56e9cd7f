//! HTTP requests of plugins as values. `wit/http.wit` documents each field.

use std::fmt;
use std::time::Duration;

/// The most bytes of a request's body.
pub const REQUEST_BODY_BYTES_MAX: usize = 1 << 20;
/// How many headers a request may have.
pub const REQUEST_HEADERS_MAX: usize = 100;
/// The maximum size of the names and values of all headers of a request, in bytes.
pub const REQUEST_HEADER_BYTES_MAX: usize = 64 << 10;

/// The body of a request or response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpBody {
    /// UTF-8.
    Text(String),
    Bytes(Vec<u8>),
}

impl HttpBody {
    /// Its length in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

/// A request. `wit/http.wit` documents the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<HttpBody>,
    /// The timeout of the whole exchange. `None` means the host's limit.
    pub timeout: Option<Duration>,
}

/// A response with any status. `wit/http.wit` documents the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: HttpBody,
}

impl HttpResponse {
    /// The length of the response's headers and body in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() + self.body.size()
    }
}

/// Why there is no response; as `http-reason` in `wit/http.wit`, which documents each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HttpReason {
    NotGranted,
    InvalidRequest,
    Dns,
    Connect,
    Tls,
    Timeout,
    TooLarge,
    Protocol,
    Other,
}

/// Why a request got no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpError {
    pub reason: HttpReason,
    /// The message, for people.
    pub message: String,
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for HttpError {}
