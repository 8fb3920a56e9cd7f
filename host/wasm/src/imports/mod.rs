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

use windlass_core::error::{ApiError, ApiReason};

use crate::abi::v0_1_0::bindings::windlass::plugin::types;
use crate::abi::v0_1_0::convert;
use crate::state::CallState;

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

fn not_implemented(verb: &'static str, import: &str) -> types::ApiError {
    convert::api_error(ApiError::not_implemented(verb, import))
}
