//! The limits of an exchange.

use std::time::Duration;

use windlass_core::call::http::{REQUEST_BODY_BYTES_MAX, REQUEST_HEADER_BYTES_MAX, REQUEST_HEADERS_MAX};

/// The limits of a fetch. The default is that of plugins.
#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// The time for the whole exchange, from the look-up to the last byte.
    pub time: Duration,
    /// The time for connecting to one address.
    pub connect: Duration,
    /// The size of a request's body.
    pub request_bytes: usize,
    /// The size of a response's body.
    pub response_bytes: usize,
    /// The size of all headers of a request or response.
    pub header_bytes: usize,
    /// The number of headers of a request or response.
    pub headers: usize,
    /// The number of interim answers (1xx), which are discarded.
    pub interim: usize,
    /// The number of concurrent fetches of one plugin. Further fetches wait.
    pub concurrent: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(30),
            connect: Duration::from_secs(5),
            request_bytes: REQUEST_BODY_BYTES_MAX,
            response_bytes: 1 << 20,
            header_bytes: REQUEST_HEADER_BYTES_MAX,
            headers: REQUEST_HEADERS_MAX,
            interim: 8,
            concurrent: 4,
        }
    }
}

impl HttpLimits {
    /// The most bytes that are read from a peer, including certificates and framing. The framing of small chunks may be
    /// as long as the body.
    #[must_use]
    pub fn wire_bytes(&self) -> usize {
        2 * (self.response_bytes + self.header_bytes)
    }
}
