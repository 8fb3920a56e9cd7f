//! The imports of a guest, one file per interface of `wit/`. Each counts the call, checks what came, and asks a port.

// The interface answers with errors of some 250 bytes, and most are moved once.
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
mod script;
mod triggers;
mod writes;

use windlass_core::error::{ApiError, ApiReason};
use windlass_core::panics;

use crate::abi::v0_2_0::bindings::windlass::plugin::types;
use crate::abi::v0_2_0::convert;
use crate::host_runtime::{NotDone, begin_here, run_on};
use crate::state::CallState;
use crate::trap::HostFailed;

/// The advice where one import call would return too much.
const RAISE_RESPONSE: &str = "ask for less at a time, or raise it with `--limit response=SIZE`";

// The interface has types only.
impl types::Host for CallState {}

/// The answer to something that cannot be asked.
fn malformed(verb: &'static str, message: convert::Malformed) -> types::ApiError {
    refused(ApiReason::Invalid, verb, message)
}

/// The answer where a limit of the host's has been reached that does not stop the guest.
fn too_large(verb: &'static str, message: String) -> types::ApiError {
    refused(ApiReason::TooLarge, verb, message)
}

fn refused(reason: ApiReason, verb: &'static str, message: String) -> types::ApiError {
    convert::api_error(ApiError::refused(reason, verb, "", None, message))
}

/// Waits for `work`, which is done on the host's runtime, where the I/O is. When the call is cancelled, so is the work.
async fn elsewhere<T: Send + 'static>(
    state: &mut CallState,
    import: &'static str,
    work: impl Future<Output = T> + Send + 'static,
) -> wasmtime::Result<T> {
    let host = state.reconcile(import)?.host.clone();
    waiting(state, import, run_on(&host, work)).await
}

/// The same for work that ends at once or waits at once.
async fn begun_here<T: Send + 'static>(
    state: &mut CallState,
    import: &'static str,
    work: impl Future<Output = T> + Send + 'static,
) -> wasmtime::Result<T> {
    let host = state.reconcile(import)?.host.clone();
    waiting(state, import, begin_here(&host, work)).await
}

/// Has room in the memory of all guests for an answer of `bytes`, which the host has until the guest does, and for what
/// the call's writes have left.
async fn make_room(state: &mut CallState, bytes: usize) {
    state.meter.have_beside(bytes).await;
    if let Some(call) = state.world.call() {
        let overlay = call.overlay.clone();
        state.meter.pay_for(&overlay).await;
    }
}

/// Waits for `work` of the host's, without the call's CPU permit.
async fn waiting<T>(
    state: &mut CallState,
    import: &'static str,
    work: impl Future<Output = Result<T, NotDone>>,
) -> wasmtime::Result<T> {
    let time = state.meter.time().clone();
    state.waiting_in = Some(import);
    let done = time.going_on_for(work).await;
    state.waiting_in = None;
    // What a port has done that panicked is not known here, so the call must not go on.
    done.map_err(|error| match error {
        NotDone::Panicked(panic) => HostFailed::in_import(import, panics::cause(&*panic)),
        NotDone::Gone => HostFailed::in_import(import, "the host ends"),
    })
}
