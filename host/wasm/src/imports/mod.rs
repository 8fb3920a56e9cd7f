//! The imports of a guest, one file per interface of `wit/`. Each import counts the call, checks its arguments, and
//! asks a port.

// The interface returns errors of about 250 bytes, and most are moved once.
#![allow(clippy::result_large_err, reason = "the generated functions return them")]

mod cache;
mod clock;
mod config;
mod events;
mod http;
mod live;
mod log;
mod metrics;
mod owners;
mod random;
mod runtime;
mod script;
mod triggers;
mod writes;

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tokio::time::Instant;
use windlass_core::budget::fair::LEAVES_THREAD_AFTER;
use windlass_core::call::ports::{Answer, TypedAsk};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::panics;

use crate::abi::v0_3_0::bindings::windlass::plugin::types;
use crate::abi::v0_3_0::convert;
use crate::meter::{Meter, RAISE_RESPONSE};
use crate::state::{CallState, HostFailed};

// The interface consists of types only.
impl types::Host for CallState {}

/// The host's work in one import call on the guest's thread, which epochs do not interrupt.
struct HostWork {
    since: Instant,
}

impl HostWork {
    fn begun() -> Self {
        Self { since: Instant::now() }
    }

    /// Lets other tasks use the thread between two steps, if this work has held it long enough.
    async fn pause(&mut self, meter: &Meter) -> wasmtime::Result<()> {
        if self.since.elapsed() >= LEAVES_THREAD_AFTER {
            meter.give_way()?.await;
            self.since = Instant::now();
        }
        Ok(())
    }
}

/// The answer to an invalid request.
fn malformed(verb: &'static str, message: convert::Malformed) -> types::ApiError {
    refused(ApiReason::Invalid, verb, message)
}

/// The answer when a limit is exceeded that does not stop the guest.
fn too_large(verb: &'static str, message: String) -> types::ApiError {
    refused(ApiReason::TooLarge, verb, message)
}

fn refused(reason: ApiReason, verb: &'static str, message: String) -> types::ApiError {
    convert::api_error(ApiError::refused(reason, verb, "", None, message))
}

/// Asks `question`, and waits for the answer without the call's CPU permit. Reserves memory for the answer, and returns
/// it with its approximate size in bytes.
///
/// If the call is cancelled, unsent requests are dropped. The port settles requests that were sent (ADR 5).
async fn ask<Q: TypedAsk>(
    state: &mut CallState,
    import: &'static str,
    question: Q,
) -> wasmtime::Result<(Q::Answer, usize)> {
    let world = state.reconcile(import)?;
    let (port, call, ask) = (world.ports.outside.clone(), world.call.clone(), question.into());
    let work = AssertUnwindSafe(async move { port.ask(call, ask).await }).catch_unwind();
    let time = state.meter.time().clone();
    state.waiting_in = Some(import);
    let mut requests = state.take_requests();
    let done = match &mut requests {
        Some(requests) => time.going_on_for(requests.go_on_beside(work)).await,
        None => time.going_on_for(work).await,
    };
    state.give_back(requests);
    state.waiting_in = None;
    // After a panic, it is not known how far the port had got, so the call must not continue.
    let answer = done.map_err(|panic| HostFailed::in_import(import, panics::cause(&*panic)))?;
    let bytes = answer.bytes();
    // The few names in the answer to a claim need hardly any memory.
    make_room(state, if matches!(answer, Answer::Claim(_)) { 0 } else { bytes }).await;
    Ok((Q::answer(answer), bytes))
}

/// Reserves memory of all guests: for an answer of `bytes`, which the host holds until the guest has it, and for the
/// objects that the call's writes have left.
async fn make_room(state: &mut CallState, bytes: usize) {
    state.meter.have_beside(bytes).await;
    if let Some(call) = state.world.call() {
        let overlay = call.overlay.clone();
        state.meter.pay_for(&overlay).await;
    }
}
