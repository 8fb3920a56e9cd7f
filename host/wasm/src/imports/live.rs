//! `live`: not implemented in this version.

use crate::abi::v0_1_0::bindings::windlass::plugin::live::{Host, ListQuery};
use crate::abi::v0_1_0::bindings::windlass::plugin::types::{ApiError, ObjectRef, Page};
use crate::imports::not_implemented;
use crate::state::CallState;

impl Host for CallState {
    fn get(&mut self, _: ObjectRef) -> wasmtime::Result<Result<Option<String>, ApiError>> {
        self.enter("live.get")?;
        Ok(Err(not_implemented("get", "live.get")))
    }

    fn list(&mut self, _: ListQuery) -> wasmtime::Result<Result<Page, ApiError>> {
        self.enter("live.list")?;
        Ok(Err(not_implemented("list", "live.list")))
    }
}
