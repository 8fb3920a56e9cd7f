//! Logs one line per mutation at debug level, like the lines about calls: the principal, the object, the call, and the
//! outcome. Also counts the outcomes. For a write that a read-only host withholds, the line contains the intended
//! change.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tracing::field::display;
use windlass_core::call::ports::CallContext;
use windlass_core::object::withheld::WithheldWrite;
use windlass_core::write::settle::Settlement;

use crate::client::api_error::{Fate, RequestSubject};
use crate::client::request::{MutationAnswer, RequestError};

/// The outcome of a mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteOutcome {
    /// The server committed the mutation.
    Committed,
    /// The server refused the mutation.
    Refused,
    /// The mutation was not sent, because the server could not be reached.
    NotSent,
    /// The mutation was sent, and its outcome is not known yet.
    Unknown,
    /// The mutation was provably unnecessary and was not sent.
    Skipped,
    /// The host is read-only, so at most a dry run was sent.
    Withheld,
}

impl WriteOutcome {
    pub const ALL: [Self; 6] =
        [Self::Committed, Self::Refused, Self::NotSent, Self::Unknown, Self::Skipped, Self::Withheld];

    /// The metric label, and the word in the audit log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Refused => "refused",
            Self::NotSent => "not sent",
            Self::Unknown => "unknown",
            Self::Skipped => "skipped",
            Self::Withheld => "withheld",
        }
    }

    /// The outcome of a failed request.
    pub(crate) fn of_failure(error: &RequestError, fate: Fate) -> Self {
        match (error, fate) {
            (RequestError::NotSent { .. }, _) => Self::NotSent,
            (_, Fate::Refused) => Self::Refused,
            (_, Fate::Unknown(_)) => Self::Unknown,
        }
    }
}

/// The number of mutations by outcome.
#[derive(Debug, Default)]
pub(crate) struct Counts([AtomicU64; WriteOutcome::ALL.len()]);

impl Counts {
    pub(crate) fn get(&self, outcome: WriteOutcome) -> u64 {
        self.0[outcome as usize].load(Ordering::Relaxed)
    }

    fn count(&self, outcome: WriteOutcome) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// Logs a line at this level about the subject of an [`Audit`], with these fields and this message.
macro_rules! line {
    ($level:ident, $audit:expr, $took:expr, $($rest:tt)*) => {{
        let Audit { call, subject, dry_run, .. } = *$audit;
        tracing::$level!(
            target: "windlass::audit",
            plugin = %call.principal.plugin,
            digest = %call.principal.digest,
            replica = %call.principal.replica,
            controller = %call.controller,
            primary = %call.primary_key,
            trace_id = %call.trace_id,
            verb = subject.verb,
            resource = subject.resource,
            object = subject.object.as_ref().map(|object| display(&object.key)),
            dry_run,
            took_ms = u64::try_from($took.as_millis()).unwrap_or(u64::MAX),
            $($rest)*
        );
    }};
}

/// The subject of a line.
pub(crate) struct Audit<'a> {
    pub(crate) call: &'a CallContext,
    pub(crate) subject: &'a RequestSubject,
    pub(crate) dry_run: bool,
    pub(crate) counts: &'a Counts,
}

impl Audit<'_> {
    pub(crate) fn ended(&self, outcome: WriteOutcome, code: Option<u16>, took: Duration) {
        self.counts.count(outcome);
        let (name, settled) = (outcome.as_str(), None::<&str>);
        if outcome == WriteOutcome::Unknown {
            line!(info, self, took, code, outcome = name, settled, "mutation");
        } else {
            line!(debug, self, took, code, outcome = name, settled, "mutation");
        }
    }

    /// Logs how a mutation with an unknown outcome has settled.
    pub(crate) fn settled(&self, settlement: Settlement, took: Duration) {
        let (code, outcome, settled) = (None::<u16>, WriteOutcome::Unknown.as_str(), settlement.as_str());
        line!(info, self, took, code, outcome, settled, "mutation settled");
    }

    /// Logs the intended change of a withheld mutation; at trace level if it is not new.
    pub(crate) fn withheld(&self, write: &WithheldWrite, is_news: bool, code: Option<u16>, took: Duration) {
        self.counts.count(WriteOutcome::Withheld);
        let outcome = WriteOutcome::Withheld.as_str();
        let (would, difference) = (write.effect.as_str(), display(&write.difference));
        let unjudged = write.unjudged.as_deref();
        if is_news {
            line!(info, self, took, code, outcome, would, %difference, unjudged, "mutation withheld");
        } else {
            line!(trace, self, took, code, outcome, would, %difference, unjudged, "mutation withheld");
        }
    }
}

/// The HTTP status of the answer, if there was one.
pub(crate) fn code(result: &Result<MutationAnswer, RequestError>) -> Option<u16> {
    match result {
        Ok(answer) => Some(answer.code),
        Err(error) => error.code(),
    }
}
