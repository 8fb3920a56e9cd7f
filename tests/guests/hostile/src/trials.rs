//! An attacker's trials and their outcomes. Each trial writes one log line, which tests read.

use windlass_sdk::bindings::exports::windlass::plugin::reconciler::Outcome;
use windlass_sdk::bindings::windlass::plugin::http::{HttpError, Response};
use windlass_sdk::bindings::windlass::plugin::log::{self, Level};
use windlass_sdk::bindings::windlass::plugin::owners::Claimed;
use windlass_sdk::bindings::windlass::plugin::types::{ApiError, ObjectRef, Page};

/// The trials of one mode.
pub(crate) struct Trials<'a>(pub(crate) &'a str);

impl Trials<'_> {
    /// Logs `hostile MODE TRIAL: held (REASON)`, or `GAINED` and the loot.
    pub(crate) fn of<T: Gain, E: Refusal>(&self, trial: &str, result: Result<T, E>) {
        let mode = self.0;
        let line = match result.map(Gain::gained) {
            Err(error) => format!("hostile {mode} {trial}: held ({})", error.reason()),
            Ok(None) => format!("hostile {mode} {trial}: held (nothing)"),
            Ok(Some(what)) => format!("hostile {mode} {trial}: GAINED {what}"),
        };
        log::log(Level::Info, &line, &[]);
    }

    /// Logs that all trials are done.
    pub(crate) fn end(&self) -> Outcome {
        log::log(Level::Info, &format!("hostile {} has tried all", self.0), &[]);
        Outcome { requeue: None }
    }
}

/// The reason why something was refused.
pub(crate) trait Refusal {
    /// The name of the reason.
    fn reason(&self) -> String;
}

impl Refusal for ApiError {
    fn reason(&self) -> String {
        format!("{:?}", self.reason)
    }
}

impl Refusal for Vec<ApiError> {
    fn reason(&self) -> String {
        self.first().map_or_else(|| "no reason".to_owned(), Refusal::reason)
    }
}

impl Refusal for HttpError {
    fn reason(&self) -> String {
        format!("{:?}", self.reason)
    }
}

/// The result of an import.
pub(crate) trait Gain {
    /// The loot. `None` if the result is worthless to an attacker.
    fn gained(self) -> Option<String>;
}

impl Gain for String {
    fn gained(self) -> Option<String> {
        Some(self)
    }
}

impl Gain for Option<String> {
    fn gained(self) -> Option<String> {
        self
    }
}

/// The result of deleting a collection counts as loot, whatever the server reports.
impl Gain for Option<Vec<ObjectRef>> {
    fn gained(self) -> Option<String> {
        Some(format!("a deletion of {self:?}"))
    }
}

impl Gain for Page {
    fn gained(self) -> Option<String> {
        (!self.items.is_empty()).then(|| self.items.join(" "))
    }
}

impl Gain for Claimed {
    fn gained(self) -> Option<String> {
        let names: Vec<String> = self.adopted.into_iter().chain(self.released).map(|it: ObjectRef| it.name).collect();
        (!names.is_empty()).then(|| names.join(" "))
    }
}

impl Gain for Response {
    fn gained(self) -> Option<String> {
        Some(format!("{} {:?}", self.status, self.body))
    }
}
