//! Decides whether a failed request can have reached the server.

use std::error::Error;

use hyper_util::client::legacy;

/// Whether a transport error proves that no byte of the request was sent. A stream that the server refused, or that was
/// open when the server closed the connection, was not processed either, but counts as sent to be safe.
pub(crate) fn was_never_sent(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<legacy::Error>().is_some_and(legacy::Error::is_connect)
}
