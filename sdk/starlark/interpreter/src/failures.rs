//! The errors that a script raises or catches, and the failures that the host receives.
//!
//! A host error passes through Starlark unchanged as a [`Thrown`], so that the host knows how to retry. Any other error
//! comes from the script itself: it becomes a transient failure, and its stack goes to the log.

use std::fmt;

use starlark::ErrorKind;
use starlark::values::list::AllocList;
use starlark::values::structs::{AllocStruct, StructRef};
use starlark::values::{Heap, Value};
use windlass_sdk::bindings::windlass::plugin::types::{ApiError, ApiReason, Failure};

use crate::arguments::{milliseconds, misfit, reference, reference_value, text};
use crate::stack;

/// One problem.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) failure: Failure,
    /// The class of an HTTP error.
    pub(crate) reason: Option<&'static str>,
    /// The place where the script itself failed, for the log.
    pub(crate) stack: Option<String>,
}

/// An error of a host function: at least one problem.
#[derive(Clone, Debug)]
pub(crate) struct Thrown(pub(crate) Vec<Problem>);

impl fmt::Display for Thrown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.0.iter().map(Problem::text).collect();
        out.write_str(&texts.join("; "))
    }
}

impl std::error::Error for Thrown {}

impl From<Thrown> for starlark::Error {
    fn from(thrown: Thrown) -> Self {
        Self::new_native(anyhow::Error::new(thrown))
    }
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        Self {
            failure: Failure { message: String::new(), api: Some(error), terminal: false, retry_after_ms: None },
            reason: None,
            stack: None,
        }
    }
}

/// Raises a host error.
pub(crate) fn throw(error: ApiError) -> starlark::Error {
    Thrown(vec![error.into()]).into()
}

impl Problem {
    pub(crate) fn own(message: impl Into<String>, terminal: bool, retry_after_ms: Option<u32>) -> Self {
        Self {
            failure: Failure { message: message.into(), api: None, terminal, retry_after_ms },
            reason: None,
            stack: None,
        }
    }

    fn text(&self) -> String {
        self.failure.api.as_ref().map_or_else(|| self.failure.message.clone(), |error| error.message.clone())
    }

    /// Puts a text in front, such as the attempted action.
    pub(crate) fn surround(&mut self, context: &str) {
        let message = self.failure.api.as_mut().map_or(&mut self.failure.message, |error| &mut error.message);
        *message = if message.is_empty() { context.to_owned() } else { format!("{context}: {message}") };
    }

    /// The error as a struct for the script.
    pub(crate) fn value<'v>(&self, heap: Heap<'v>) -> Value<'v> {
        let optional = |text: Option<&str>| text.map_or_else(Value::new_none, |text| heap.alloc(text));
        let number = |number: Option<u32>| number.map_or_else(Value::new_none, |number| heap.alloc(number));
        let mut fields =
            vec![("message", heap.alloc(self.text())), ("terminal", Value::new_bool(self.failure.terminal))];
        if let Some(error) = &self.failure.api {
            let object = error.object.as_ref().map_or_else(Value::new_none, |object| reference_value(heap, object));
            fields.extend([
                ("reason", heap.alloc(error.reason.as_str())),
                ("code", heap.alloc(u32::from(error.code))),
                ("status_reason", heap.alloc(error.status_reason.as_str())),
                ("retry_after_ms", number(error.retry_after_ms)),
                ("verb", heap.alloc(error.verb.as_str())),
                ("resource", heap.alloc(error.resource.as_str())),
                ("object", object),
            ]);
        } else {
            fields.extend([
                ("reason", optional(self.reason)),
                ("code", Value::new_none()),
                ("retry_after_ms", number(self.failure.retry_after_ms)),
                ("stack", optional(self.stack.as_deref())),
            ]);
        }
        heap.alloc(AllocStruct(fields))
    }

    /// Reads an error that [`value`](Self::value) has created.
    pub(crate) fn of(value: Value<'_>, what: &str) -> starlark::Result<Self> {
        let fields = StructRef::from_value(value).ok_or_else(|| misfit(what, value, "an error"))?;
        let field = |name: &str| {
            fields
                .iter()
                .find(|(field, _)| field.as_str() == name)
                .map(|(_, value)| value)
                .filter(|value| !value.is_none())
        };
        let Some(message) = field("message") else { return Err(misfit(what, value, "an error")) };
        let message = text(message, what)?;
        let retry_after_ms = field("retry_after_ms").map(|value| milliseconds(value, what)).transpose()?;
        if let Some(code) = field("code") {
            let words =
                |name: &str| field(name).map(|value| text(value, what)).transpose().map(Option::unwrap_or_default);
            let reason = words("reason")?.parse().unwrap_or(ApiReason::Other);
            let code = code.unpack_i32().and_then(|code| u16::try_from(code).ok()).unwrap_or_default();
            let object = field("object").map(|object| reference(object, what)).transpose()?;
            let (status_reason, verb, resource) = (words("status_reason")?, words("verb")?, words("resource")?);
            return Ok(ApiError { code, reason, status_reason, message, retry_after_ms, verb, resource, object }.into());
        }
        let terminal = field("terminal").and_then(Value::unpack_bool).unwrap_or_default();
        let stack = field("stack").map(|stack| text(stack, what)).transpose()?;
        Ok(Self { stack, ..Self::own(message, terminal, retry_after_ms) })
    }
}

/// Names that only reconcilers have, as Starlark quotes them if they are missing.
const OF_RECONCILERS: [&str; 9] = [
    "`cache`",
    "`live`",
    "`writes`",
    "`owners`",
    "`events`",
    "`metrics`",
    "`http`",
    "`requeue_after`",
    "`requeue_with_backoff`",
];

/// All problems of a call, at least one.
pub(crate) fn problems(error: &starlark::Error) -> Vec<Problem> {
    let cause = match error.kind() {
        ErrorKind::Fail(cause)
        | ErrorKind::StackOverflow(cause)
        | ErrorKind::Value(cause)
        | ErrorKind::Function(cause)
        | ErrorKind::Scope(cause)
        | ErrorKind::Parser(cause)
        | ErrorKind::Internal(cause)
        | ErrorKind::Native(cause)
        | ErrorKind::Other(cause) => Some(cause),
        _ => None,
    };
    if let Some(Thrown(problems)) = cause.and_then(|cause| cause.downcast_ref()) {
        return problems.clone();
    }
    let message = cause.map_or_else(|| error.without_diagnostic().to_string(), ToString::to_string);
    let message = match error.kind() {
        ErrorKind::StackOverflow(_) => "functions call each other without end: the stack is full".to_owned(),
        ErrorKind::Scope(_)
            if cfg!(feature = "composer") && OF_RECONCILERS.iter().any(|name| message.contains(name)) =>
        {
            format!("{message}: a composer may depend only on its request")
        }
        _ => message,
    };
    let frames = stack::frames(error);
    let message = match frames.first() {
        Some(frame) => format!("{}: {message}", frame.text()),
        None => message,
    };
    let frames: Vec<_> = frames.iter().map(ToString::to_string).collect();
    vec![Problem { stack: Some(frames.join("\n")), ..Problem::own(message, false, None) }]
}

/// Returns the failures for the host, and writes the script's own mistakes to the log.
pub(crate) fn reported(error: &starlark::Error, log: impl Fn(&str, &str)) -> Vec<Failure> {
    let report = |problem: Problem| {
        if let Some(stack) = problem.stack.filter(|stack| !stack.is_empty()) {
            log(&problem.failure.message, &stack);
        }
        problem.failure
    };
    problems(error).into_iter().map(report).collect()
}

/// The errors of an `attempt`, and the other arguments of `fail` and `fail_all`: errors, lists of errors, and None,
/// which means no error.
pub(crate) fn collected<'v>(values: impl IntoIterator<Item = Value<'v>>, what: &str) -> starlark::Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for value in values {
        collect(value, what, ERROR_LIST_DEPTH_MAX, &mut problems)?;
    }
    Ok(problems)
}

/// The most levels of nested lists of errors. The limit is needed because a list may contain itself.
const ERROR_LIST_DEPTH_MAX: usize = 8;

fn collect(value: Value<'_>, what: &str, deepest: usize, problems: &mut Vec<Problem>) -> starlark::Result<()> {
    match starlark::values::list::ListRef::from_value(value) {
        _ if value.is_none() => {}
        Some(_) if deepest == 0 => return Err(crate::arguments::wrong(format!("{what}: lists are nested too deeply"))),
        Some(list) => {
            for value in list.iter() {
                collect(value, what, deepest - 1, problems)?;
            }
        }
        None => problems.push(Problem::of(value, what)?),
    }
    Ok(())
}

/// A list of errors for the script.
pub(crate) fn values<'v>(heap: Heap<'v>, problems: &[Problem]) -> Value<'v> {
    heap.alloc(AllocList(problems.iter().map(|problem| problem.value(heap))))
}

/// Raises the collected errors, if there are any.
pub(crate) fn throw_all(problems: Vec<Problem>) -> starlark::Result<()> {
    if problems.is_empty() { Ok(()) } else { Err(Thrown(problems).into()) }
}
