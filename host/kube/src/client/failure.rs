//! Errors of requests: whether anything can have reached the server.

use std::error::Error;

use hyper_util::client::legacy;

/// Whether an error of the transport is certain to mean that no byte of the request has left. A stream that the server
/// refused, or that it ended a connection before, was not processed either, but counts as sent: the safe side.
pub(crate) fn was_never_sent(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<legacy::Error>().is_some_and(legacy::Error::is_connect)
}
