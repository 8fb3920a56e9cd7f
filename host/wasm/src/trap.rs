//! The reason why a guest did not answer: the class for metrics and the message for people, from wasmtime's error.

use std::fmt::Write as _;

use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};

use crate::abi::linked::WrongEntryPoint;
use crate::frames;
use crate::limits::{Limit, Overrun};
use crate::state::{CallState, ForbiddenImport, HostFailed, NoScript};
use crate::text::single_line;
use crate::wasi_state::WasiError;

/// The maximum size of the guest's last log text in a message.
const LOGGED_BYTES: usize = 2 << 10;

/// The maximum size of wasmtime's error in a message.
const CAUSE_BYTES: usize = 1 << 10;

/// The end of a call without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stopped {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The end because of a trap, an overrun, or an error that an import raised.
pub(crate) fn stopped(error: &wasmtime::Error, state: &CallState) -> Stopped {
    let (reason, mut message) = cause(error, state);
    if let Some(logged) = &state.last_error {
        // Writing to a `String` cannot fail, here and below.
        let _ = write!(message, "; it had logged: {}", single_line(logged, LOGGED_BYTES));
    }
    if let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() {
        message.push_str(&frames::summary(backtrace));
    }
    Stopped { reason, message }
}

/// The deadline passed while the guest waited for the host.
pub(crate) fn out_of_time(state: &CallState) -> Stopped {
    let overrun = state.meter.time().overrun();
    let waiting = state.waiting_in.map(|import| format!("; it was waiting for `{import}`")).unwrap_or_default();
    Stopped { reason: overrun.limit.reason(), message: format!("the plugin was stopped: {overrun}{waiting}") }
}

fn cause(error: &wasmtime::Error, state: &CallState) -> (&'static str, String) {
    if let Some(overrun) = overrun(error, state) {
        return (overrun.limit.reason(), format!("the plugin was stopped: {overrun}"));
    }
    if let Some(forbidden) = error.downcast_ref::<ForbiddenImport>() {
        return ("forbidden-import", forbidden.to_string());
    }
    if let Some(missing) = error.downcast_ref::<NoScript>() {
        return ("no-script", missing.to_string());
    }
    if let Some(wasi) = WasiError::of(error) {
        return (wasi.reason(), single_line(&wasi.to_string(), CAUSE_BYTES));
    }
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return ("trap", format!("the plugin trapped: {trap}"));
    }
    let cause = single_line(&error.root_cause().to_string(), CAUSE_BYTES);
    if is_the_hosts(error) {
        return ("host", format!("the call could not go on: {cause}"));
    }
    let advice = "it passes a value that does not match the interface; build it with a current SDK";
    ("abi", format!("the plugin was stopped: {cause} ({advice})"))
}

/// Whether the host failed. wasmtime has no type for a guest's mistakes with values that it passes, so every other
/// error is taken for one.
fn is_the_hosts(error: &wasmtime::Error) -> bool {
    error.is::<HostFailed>()
        || error.is::<WrongEntryPoint>()
        || error.is::<PoolConcurrencyLimitError>()
        || error.is::<std::io::Error>()
}

fn overrun(error: &wasmtime::Error, state: &CallState) -> Option<Overrun> {
    if let Some(overrun) = error.downcast_ref::<Overrun>() {
        return Some(overrun.clone());
    }
    let limits = state.meter.limits();
    if error.downcast_ref::<Trap>() == Some(&Trap::StackOverflow) {
        return Some(Overrun::bytes(Limit::Stack, limits.stack_bytes));
    }
    if error.downcast_ref::<Trap>() == Some(&Trap::OutOfFuel) {
        return Some(Overrun::fuel(Limit::Cpu, limits.cpu));
    }
    // wasmtime has no type for this error. A test checks that the text is still the same.
    let exhausted = error.root_cause().to_string().contains("fuel allocated for hostcalls has been exhausted");
    let is_describe = state.meter.time().overrun().limit == Limit::DescribeDeadline;
    let limit = if is_describe { Limit::Manifest } else { Limit::Transfer };
    exhausted.then(|| Overrun::bytes(limit, limits.transfer_bytes))
}
