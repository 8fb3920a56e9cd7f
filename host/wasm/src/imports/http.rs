//! `http`: not implemented in this version.

use crate::abi::v0_1_0::bindings::windlass::plugin::http::{Host, HttpError, HttpReason, Request, Response};
use crate::state::CallState;

impl Host for CallState {
    fn fetch(&mut self, _: Request) -> wasmtime::Result<Result<Response, HttpError>> {
        self.enter("http.fetch")?;
        let message = "http.fetch is not implemented in this version".to_owned();
        Ok(Err(HttpError { reason: HttpReason::Other, message }))
    }
}
