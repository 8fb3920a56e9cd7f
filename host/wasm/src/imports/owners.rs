//! `owners`: not implemented in this version.

use crate::abi::v0_1_0::bindings::windlass::plugin::owners::{Claimed, Host};
use crate::abi::v0_1_0::bindings::windlass::plugin::types::{ApiError, ObjectKind};
use crate::imports::not_implemented;
use crate::state::CallState;

impl Host for CallState {
    fn claim(&mut self, _: ObjectKind, _: String) -> wasmtime::Result<Result<Claimed, Vec<ApiError>>> {
        self.enter("owners.claim")?;
        Ok(Err(vec![not_implemented("claim", "owners.claim")]))
    }
}
