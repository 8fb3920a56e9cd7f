//! Errors of requests: what they say, and whether anything can have reached the server.

use std::error::Error;
use std::fmt::Write as _;

use hyper_util::client::legacy;

/// An error and its sources in one line; a source that its parent already quotes is not repeated.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let cause = error.to_string();
        if !text.contains(&cause) {
            let _ = write!(text, ": {cause}");
        }
        next = error.source();
    }
    text
}

/// Whether an error of the transport is certain to mean that no byte of the request has left. A stream that the server
/// refused, or that it ended a connection before, was not processed either, but counts as sent: the safe side.
pub(crate) fn was_never_sent(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<legacy::Error>().is_some_and(legacy::Error::is_connect)
}
