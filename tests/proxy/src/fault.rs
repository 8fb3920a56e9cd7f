//! Faults, as values, and how the client sees each one.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

use crate::matching::Match;
use crate::rule::Rule;

/// One kind of fault. [`Fault::on`] selects the requests.
///
/// A fault has *occasions*. For most faults these are the matching requests; for faults of watches they are the events
/// (and bookmarks) of matching watches, including watches that ran before the rule was added. A rule's budget counts
/// occasions.
///
/// Rules apply in the order in which they were added. Delays and slowness add up. If several rules garble a response,
/// only the first one counts. Refuse, reset and lose, and cut for events, are final: later rules are skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The proxy responds with an error; upstream never gets the request.
    Refuse(Refusal),
    /// The client's connection is reset (TCP RST); upstream never gets the request. With HTTP/2, this ends all requests
    /// on the connection.
    Reset,
    /// Upstream gets the request and answers it, possibly with an error, but the response is lost. The proxy waits for
    /// the response even if the client gives up before; so, after a [`Fault::DelayRequest`], a write is committed after
    /// the client has stopped waiting for it.
    Lose(Loss),
    /// The request is held back for a while. Upstream does not get it if the client gives up meanwhile.
    DelayRequest(RangeInclusive<Duration>),
    /// The response is held back for a while.
    DelayResponse(RangeInclusive<Duration>),
    /// The response's body comes in pieces of this many bytes, with a pause before each.
    Slow {
        /// The size of a piece; at least one byte.
        bytes: usize,
        /// The pause before each piece.
        every: Duration,
    },
    /// The response's body is changed. For a watch, the occasions are its events: one line is changed and the stream
    /// goes on.
    Garble(Garbage),
    /// Each event is an occasion: the watch ends instead of delivering the event.
    Cut(Cut),
    /// Each event is an occasion: the proxy holds this event and all later events of its stream until the rule is
    /// removed. Then they come in order. The stream stays open. A cut loses the held events.
    Hold,
    /// Each event is an occasion: it is delayed by a random time from the range. Events keep their order.
    DelayEvents(RangeInclusive<Duration>),
}

impl Fault {
    /// A rule that applies this fault to every occasion of `requests`.
    pub fn on(self, requests: Match) -> Rule {
        Rule::new(self, requests)
    }

    /// Whether the fault's occasions are the events of watches.
    pub(crate) fn is_of_events(&self) -> bool {
        matches!(self, Self::Cut(_) | Self::Hold | Self::DelayEvents(_))
    }
}

/// How a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Between two lines, as a server ends a watch: the body ends properly for the client.
    Clean,
    /// After half a line, but with a proper end of the body. The client must not treat that last line as an event.
    MidLine,
    /// By resetting the client's connection.
    Reset,
}

/// How a response is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The client's connection is reset.
    Reset,
    /// No response ever comes; the connection stays open until the client gives up.
    Silence,
    /// [`Refusal::internal_error`] replaces it, as from a server that has lost its store after the commit.
    Error,
}

/// How a body, or an event's line, is changed. As far as HTTP can tell, the body arrives complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Garbage {
    /// Its first half.
    Truncated,
    /// HTML, as a load balancer would send it.
    NotJson,
    /// The same data twice: a repeated event, or a JSON document followed by the same document.
    Twice,
}

impl Garbage {
    pub(crate) fn of(self, text: &[u8]) -> Vec<u8> {
        match self {
            Self::Truncated => text[..text.len() / 2].to_vec(),
            Self::NotJson => b"<html><body>Bad Gateway</body></html>".to_vec(),
            Self::Twice => text.repeat(2),
        }
    }

    /// Changes a line like a text, but keeps the end of the line.
    pub(crate) fn of_line(self, line: &[u8]) -> Vec<u8> {
        match line.strip_suffix(b"\n") {
            Some(text) if self != Self::Twice => [&self.of(text), &b"\n"[..]].concat(),
            _ => self.of(line),
        }
    }
}

/// An error with which the proxy responds, as a Kubernetes `Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    code: StatusCode,
    reason: String,
    message: String,
    retry_after: Option<Duration>,
}

impl Refusal {
    /// Any error, such as `Refusal::new(StatusCode::GONE, "Expired", "too old")`.
    #[must_use]
    pub fn new(code: StatusCode, reason: &str, message: &str) -> Self {
        Self { code, reason: reason.to_owned(), message: message.to_owned(), retry_after: None }
    }

    /// 429 with a `Retry-After`, as API Priority and Fairness sends it.
    #[must_use]
    pub fn too_many_requests(retry_after: Duration) -> Self {
        let message = "Too many requests, please try again later.";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message).retry_after(retry_after)
    }

    /// 500.
    #[must_use]
    pub fn internal_error() -> Self {
        let message = "Internal error occurred: etcdserver: request timed out";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// 503.
    #[must_use]
    pub fn unavailable() -> Self {
        let message = "the server is currently unable to handle the request";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    }

    /// Asks the client to wait. The time is rounded up to seconds, which is all that the header can express.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    pub(crate) fn code(&self) -> StatusCode {
        self.code
    }

    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after.map(|wait| wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
    }

    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code.as_u16(),
        });
        if let Some(seconds) = self.retry_after_seconds() {
            status["details"] = json!({"retryAfterSeconds": seconds});
        }
        status
    }
}
