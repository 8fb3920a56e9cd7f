//! The steps that end a call.

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use windlass_sdk::{ApiError, Error, Failures, Outcome, cache};

use crate::arguments::{MadeUp, read, target};

/// The end of the call by a step. `None` if the call continues.
///
/// # Panics
/// With the step `raise`.
pub(crate) fn end(step: &Value) -> Option<Result<Outcome, Failures>> {
    Some(match step["call"].as_str()? {
        "requeue-after" => Ok(Outcome::requeue_after(Duration::from_millis(read(step, "ms")))),
        "requeue-backoff" => Ok(Outcome::RequeueBackoff),
        "fail" => Err(fail(step)),
        "propagate" => propagate(step),
        "wrap" => wrap(step).map_err(Failures::from),
        "raise" => deeper(step["message"].as_str().unwrap_or_default()),
        "spin" => loop {
            std::hint::black_box(());
        },
        "grow" => grow(),
        "recurse" => {
            std::hint::black_box(recurse(1));
            return None;
        }
        _ => return None,
    })
}

fn fail(step: &Value) -> Failures {
    let failures: Failures = step["failures"].as_array().into_iter().flatten().map(failure).collect();
    match step["message"].as_str() {
        Some(message) => failures.context(message),
        None => failures,
    }
}

fn failure(failure: &Value) -> Failures {
    match (failure["transient"].as_str(), failure["terminal"].as_str()) {
        (Some(message), _) if !failure["afterMs"].is_null() => {
            Failures::transient_after(message, Duration::from_millis(read(failure, "afterMs")))
        }
        (Some(message), _) => Failures::transient(message),
        (_, Some(message)) => Failures::terminal(message),
        _ => ApiError::from(read::<MadeUp>(failure, "api")).into(),
    }
}

fn propagate(step: &Value) -> Result<Outcome, Failures> {
    cache::get::<Value>(&target(step))?;
    Ok(Outcome::Done)
}

/// The plugin's own error, wrapped around one of the SDK's.
#[derive(Debug)]
struct Unreadable {
    message: String,
    source: Error,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.message, self.source)
    }
}

impl std::error::Error for Unreadable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

fn wrap(step: &Value) -> Result<Outcome, Box<dyn std::error::Error>> {
    let message = read(step, "message");
    cache::get::<Value>(&target(step)).map_err(|source| Unreadable { message, source })?;
    Ok(Outcome::Done)
}

fn deeper(message: &str) -> Result<Outcome, Failures> {
    deepest(message)
}

fn deepest(message: &str) -> ! {
    panic!("{message}")
}

fn grow() -> ! {
    let mut kept = Vec::new();
    loop {
        kept.push(std::hint::black_box(vec![1_u8; 1 << 20]));
    }
}

#[allow(unconditional_recursion, reason = "this is what it is for")]
fn recurse(depth: u64) -> u64 {
    recurse(std::hint::black_box(depth + 1)) + 1
}
