//! Steps that end the call: with an outcome, with failures, or with a trap.

use serde::Deserialize;
use serde_json::Value;
use windlass_sdk::bindings::windlass::plugin::types;
use windlass_sdk::{ApiError as SdkError, Failures, Outcome};

use crate::script::read;
use crate::wire::ApiError;

/// The end of a call.
#[derive(Debug)]
pub(crate) enum End {
    Done,
    RequeueAfter(u32),
    RequeueBackoff,
    Fail(Vec<Failure>),
    Trap(String),
}

/// A failure in the form of a script. `{"api": {"$from": "1"}}` passes on the error of an earlier step.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Failure {
    Api(Box<ApiError>),
    Transient(String),
    Terminal(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequeueAfter {
    ms: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fail {
    failures: Vec<Failure>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trap {
    message: String,
}

/// The end that `call` specifies. `None` if `call` is an import.
pub(crate) fn end(call: &str, arguments: &Value) -> Option<End> {
    let arguments = || arguments.clone();
    Some(match call {
        "done" => End::Done,
        "requeue-after" => End::RequeueAfter(read::<RequeueAfter>(call, arguments()).ms),
        "requeue-backoff" => End::RequeueBackoff,
        "fail" => End::Fail(read::<Fail>(call, arguments()).failures),
        "trap" => End::Trap(read::<Trap>(call, arguments()).message),
        _ => return None,
    })
}

impl End {
    /// Ends the call.
    ///
    /// # Panics
    /// If the script asks for a panic.
    pub(crate) fn carry_out(self) -> Result<Outcome, Failures> {
        match self {
            Self::Done => Ok(Outcome::Done),
            Self::RequeueAfter(ms) => Ok(Outcome::RequeueAfter(ms)),
            Self::RequeueBackoff => Ok(Outcome::RequeueBackoff),
            Self::Fail(failures) => {
                let mut all = Failures::new();
                all.extend(failures.into_iter().map(Failures::from));
                Err(all)
            }
            Self::Trap(message) => panic!("{message}"),
        }
    }
}

impl From<Failure> for Failures {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Api(error) => SdkError::from(types::ApiError::from(*error)).into(),
            Failure::Transient(message) => Self::transient(message),
            Failure::Terminal(message) => Self::terminal(message),
        }
    }
}
