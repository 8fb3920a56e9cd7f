//! One HTTP exchange with a server that is not the Kubernetes API server: the look-up of its name, the check of its
//! addresses, the connection, TLS, and an answer within limits. Callers decide which requests may be sent: the egress
//! of plugins (`windlass-runtime`) by their grants, and the client of registries (`windlass-oci`) by its own rules.
//!
//! Exchanges share nothing. A name is resolved once, all its addresses are checked, and the connection goes to a
//! checked address. So an attacker gains nothing by changing the name's addresses in between. Redirects are ordinary
//! responses. Proxies from the environment are not used, because they would connect to addresses that were not checked.

pub mod bounded_stream;
pub mod connect;
pub mod exchange;
mod limits;
pub mod tls;

use windlass_core::call::http::{HttpError, HttpReason};

pub use crate::limits::HttpLimits;

/// A failure of an exchange.
#[must_use]
pub fn failed(reason: HttpReason, message: String) -> HttpError {
    HttpError { reason, message }
}
