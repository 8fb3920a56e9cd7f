//! Faults, as values, and what the client sees of each.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

use crate::matching::Match;
use crate::rule::Rule;

/// One kind of trouble. [`Fault::on`] says for which requests.
///
/// A fault has *occasions*: for most, each request that matches; for those of watches, each event (bookmarks too) of
/// each watch that matches, also of those that ran before the rule was added. A rule's budget counts occasions.
///
/// Rules are asked in the order in which they were added. Delays and slowness add up; of two kinds of garbage the first
/// counts. Refuse, reset and lose, and cut for events, end the matter: rules behind them are not asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The proxy answers with an error; upstream never hears of the request.
    Refuse(Refusal),
    /// The client's connection is reset (TCP RST); upstream never hears of the request. With HTTP/2, this is the end of
    /// all that runs on the connection.
    Reset,
    /// Upstream gets the request and has answered it, if only with an error, when the answer is lost. The answer is
    /// awaited even if the client gives up before; so, behind a [`Fault::DelayRequest`], a write is committed after the
    /// client has stopped waiting for it.
    Lose(Loss),
    /// The request is held back for a while before upstream gets it, which it does not if the client gives up
    /// meanwhile.
    DelayRequest(RangeInclusive<Duration>),
    /// The answer is held back for a while.
    DelayResponse(RangeInclusive<Duration>),
    /// The body of the answer comes in pieces of so many bytes, with this time before each.
    Slow {
        /// How many bytes; at least one.
        bytes: usize,
        /// How long before each piece.
        every: Duration,
    },
    /// The body of the answer is not what upstream sent. Of a watch, occasions are its events: one line is changed and
    /// the stream goes on.
    Garble(Garbage),
    /// Each event is an occasion: instead of it, the watch ends.
    Cut(Cut),
    /// Each event is an occasion: it and all behind it in its stream are kept back until the rule is removed; then they
    /// come in order. The stream stays open. A cut loses what is held.
    Hold,
    /// Each event is an occasion: it comes later by a time out of the range. Events keep their order.
    DelayEvents(RangeInclusive<Duration>),
}

impl Fault {
    /// A rule that this happens on every occasion of `requests`.
    pub fn on(self, requests: Match) -> Rule {
        Rule::new(self, requests)
    }

    /// Whether its occasions are a watch's events.
    pub(crate) fn is_of_events(&self) -> bool {
        matches!(self, Self::Cut(_) | Self::Hold | Self::DelayEvents(_))
    }
}

/// How a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Between two lines, as a server ends a watch: the client sees the proper end of the body.
    Clean,
    /// After half a line, with a proper end of the body: the client sees a last line that it must not take for an
    /// event.
    MidLine,
    /// By resetting the client's connection.
    Reset,
}

/// How an answer is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The client's connection is reset.
    Reset,
    /// Nothing ever comes; the connection stays open until the client gives up.
    Silence,
    /// [`Refusal::internal_error`] comes in its place, as from a server that has lost its store behind the commit.
    Error,
}

/// How a body, or an event's line, is changed. It arrives complete as far as HTTP can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Garbage {
    /// Its first half.
    Truncated,
    /// HTML, as a load balancer would send.
    NotJson,
    /// It comes twice: a repeated event, or a JSON document with another behind it.
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

    /// The same for a line that keeps its end.
    pub(crate) fn of_line(self, line: &[u8]) -> Vec<u8> {
        match line.strip_suffix(b"\n") {
            Some(text) if self != Self::Twice => [&self.of(text), &b"\n"[..]].concat(),
            _ => self.of(line),
        }
    }
}

/// An error that the proxy answers with, as a Kubernetes `Status`.
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

    /// 429 with a `Retry-After`, as API Priority and Fairness says it.
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

    /// Asks the client to wait; rounded up to seconds, which is all that the header can say.
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
