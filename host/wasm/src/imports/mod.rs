//! What a guest can call, one file per interface of `wit/`. Each counts the call, checks what came, and asks a port.

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
mod writes;

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::FutureExt as _;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;
use windlass_core::error::{ApiError, ApiReason};

use crate::abi::v0_1_0::bindings::windlass::plugin::types;
use crate::abi::v0_1_0::convert;
use crate::state::CallState;
use crate::trap::HostFailed;

/// What to do where one import call would return too much.
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

/// Waits for `work`, which is done on the host's runtime: a busy guest thread must not delay it. When the call is
/// cancelled, so is the work.
async fn elsewhere<T: Send + 'static>(
    state: &mut CallState,
    import: &'static str,
    work: impl Future<Output = T> + Send + 'static,
) -> wasmtime::Result<T> {
    let host = state.reconcile(import)?.host.clone();
    let task = async move { AbortOnDropHandle::new(host.spawn(work.in_current_span())).await };
    // A panic of a port's: what it has done is not known here, so the call must not go on.
    waiting(state, import, task).await.map_err(|error| HostFailed::in_import(import, &error))
}

/// The same for work that ends at once or waits at once: it begins here, so that what ends (a write that would change
/// nothing) wakes nobody.
async fn begun_here<T: Send + 'static>(
    state: &mut CallState,
    import: &'static str,
    work: impl Future<Output = T> + Send + 'static,
) -> wasmtime::Result<T> {
    let host = state.reconcile(import)?.host.clone();
    let mut work = Box::pin(work);
    let begun = {
        let _entered = host.enter();
        catch_unwind(AssertUnwindSafe(|| work.as_mut().now_or_never()))
    };
    match begun {
        Ok(Some(done)) => Ok(done),
        Ok(None) => elsewhere(state, import, work).await,
        Err(_) => Err(HostFailed::in_import(import, &"it has panicked")),
    }
}

/// Waits for `work` of the host's, without the call's CPU permit.
async fn waiting<F: Future>(state: &mut CallState, import: &'static str, work: F) -> F::Output {
    let time = state.meter.time().clone();
    state.waiting_in = Some(import);
    let done = time.going_on_for(work).await;
    state.waiting_in = None;
    done
}
