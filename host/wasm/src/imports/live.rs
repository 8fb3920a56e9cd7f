//! `live`: reads of the API server itself, which are sent to the port and awaited in the call's task.

use windlass_core::call::ports::{KindsQuery, ServedQuery};
use windlass_core::error::ApiReason;

use crate::abi::v0_3_0::bindings::windlass::plugin::live::{Host, ListQuery, ListedKind, LogQuery, ServedKind, View};
use crate::abi::v0_3_0::bindings::windlass::plugin::types::{ApiError, ObjectKind, ObjectRef, Page};
use crate::abi::v0_3_0::convert::{self, Malformed};
use crate::abi::v0_3_0::live;
use crate::imports::{RAISE_RESPONSE, ask, malformed, refused, too_large};
use crate::limits::Value;
use crate::state::CallState;

impl Host for CallState {
    async fn get(
        &mut self,
        target: ObjectRef,
        subresource: Option<String>,
        view: View,
    ) -> wasmtime::Result<Result<Option<String>, ApiError>> {
        const IMPORT: &str = "live.get";
        self.enter(IMPORT)?;
        let asked = match charged(self, "get", live::get(target, subresource, view)) {
            Ok(asked) => asked,
            Err(error) => return Ok(Err(error)),
        };
        let (answer, size) = ask(self, IMPORT, asked).await?;
        if let Err(error) = fits(self, "get", size) {
            return Ok(Err(error));
        }
        Ok(answer.map(|object| object.as_deref().map(str::to_owned)).map_err(convert::api_error))
    }

    async fn list(&mut self, query: ListQuery) -> wasmtime::Result<Result<Page, ApiError>> {
        const IMPORT: &str = "live.list";
        self.enter(IMPORT)?;
        let query = match charged(self, "list", live::query(query)) {
            Ok(query) => query,
            Err(error) => return Ok(Err(error)),
        };
        let (answer, size) = ask(self, IMPORT, query).await?;
        if let Err(error) = fits(self, "list", size) {
            return Ok(Err(error));
        }
        Ok(answer.map_err(convert::api_error).map(|page| Page {
            items: page.items.iter().map(ToString::to_string).collect(),
            next_token: page.next_token,
        }))
    }

    async fn log(&mut self, query: LogQuery) -> wasmtime::Result<Result<String, ApiError>> {
        const IMPORT: &str = "live.log";
        self.enter(IMPORT)?;
        let most = u32::try_from(self.meter.limits().response_bytes).unwrap_or(u32::MAX);
        let query = match charged(self, "get", live::log_query(query, most)) {
            Ok(query) => query,
            Err(error) => return Ok(Err(error)),
        };
        let (answer, _) = ask(self, IMPORT, query).await?;
        Ok(answer.map_err(convert::api_error))
    }

    async fn served(&mut self, kind: ObjectKind) -> wasmtime::Result<Result<Option<ServedKind>, ApiError>> {
        const IMPORT: &str = "live.served";
        self.enter(IMPORT)?;
        let kind = match charged(self, "served", live::kind(kind)) {
            Ok(kind) => kind,
            Err(error) => return Ok(Err(error)),
        };
        let (answer, _) = ask(self, IMPORT, ServedQuery { kind }).await?;
        Ok(answer.map(|kind| kind.map(live::served)).map_err(convert::api_error))
    }

    async fn kinds(&mut self) -> wasmtime::Result<Result<Vec<ListedKind>, ApiError>> {
        const IMPORT: &str = "live.kinds";
        self.enter(IMPORT)?;
        let query = match charged(self, "kinds", Ok(KindsQuery)) {
            Ok(query) => query,
            Err(error) => return Ok(Err(error)),
        };
        let (answer, size) = ask(self, IMPORT, query).await?;
        if let Err(error) = fits(self, "kinds", size) {
            return Ok(Err(error));
        }
        Ok(answer.map(|kinds| kinds.into_iter().map(live::listed).collect()).map_err(convert::api_error))
    }
}

/// The question, if it is valid and the call may make another live read.
fn charged<T>(state: &mut CallState, verb: &'static str, asked: Result<T, Malformed>) -> Result<T, ApiError> {
    let asked = asked.map_err(|reason| malformed(verb, reason))?;
    if state.meter.live_read() {
        return Ok(asked);
    }
    let most = state.meter.limits().live_reads;
    let message = format!(
        "a call may make at most {most} live reads: list instead, or watch the objects, or raise the limit with \
         `--limit live-reads=N`"
    );
    Err(refused(ApiReason::TooManyRequests, verb, message))
}

/// Checks whether an answer of `size` bytes may be returned to the guest.
fn fits(state: &CallState, verb: &'static str, size: usize) -> Result<(), ApiError> {
    let most = state.meter.limits().response_bytes;
    if size <= most {
        return Ok(());
    }
    let most = Value::Bytes(most);
    let message = format!("the answer has {size} bytes, but a guest gets at most {most} at once ({RAISE_RESPONSE})");
    Err(too_large(verb, message))
}
