//! The parts that the addresses have in common on which the host listens: places for connections, TLS, and the end of
//! connections to clients that do not read. `observe::admin` uses them.

pub(crate) mod connections;
pub(crate) mod stall;
pub(crate) mod tls;

use std::time::Duration;

/// How long the headers of a request or a TLS handshake may take to arrive, and how long a connection may be idle
/// between two requests.
pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a new connection cannot be evicted, if a handshake comes before the first request.
pub(crate) const HANDSHAKE_GRACE: Duration = Duration::from_millis(100);
/// The largest size of a request's headers.
pub(crate) const REQUEST_HEADERS_BYTES_MAX: usize = 16 << 10;
/// The pause after a failed accept, for example when the process has too many open files.
pub(crate) const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
