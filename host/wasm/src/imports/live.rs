//! `live`: reads of the API server itself, each handed to the port and carried out on the host's runtime.

use windlass_core::error::ApiReason;
use windlass_core::ports::LiveQuery;

use crate::abi::v0_2_0::bindings::windlass::plugin::live::{Host, ListQuery};
use crate::abi::v0_2_0::bindings::windlass::plugin::types::{ApiError, ObjectRef, Page};
use crate::abi::v0_2_0::convert::{self, Malformed};
use crate::imports::{RAISE_RESPONSE, elsewhere, make_room, malformed, refused, too_large};
use crate::limits::Value;
use crate::state::CallState;

impl Host for CallState {
    async fn get(&mut self, target: ObjectRef) -> wasmtime::Result<Result<Option<String>, ApiError>> {
        self.enter("live.get")?;
        let target = match convert::object_ref(target) {
            Ok(target) => target,
            Err(reason) => return Ok(Err(malformed("get", reason))),
        };
        if let Err(error) = charge(self, "get") {
            return Ok(Err(error));
        }
        let world = self.reconcile("live.get")?;
        let (live, call) = (world.ports.live.clone(), world.call.clone());
        let answer = elsewhere(self, "live.get", async move { live.get(call, target).await }).await?;
        let size = answer.as_ref().map_or(0, |object| object.as_ref().map_or(0, |text| text.len()));
        make_room(self, size).await;
        if let Err(error) = fits(self, "get", size) {
            return Ok(Err(error));
        }
        Ok(answer.map(|object| object.as_deref().map(str::to_owned)).map_err(convert::api_error))
    }

    async fn list(&mut self, query: ListQuery) -> wasmtime::Result<Result<Page, ApiError>> {
        self.enter("live.list")?;
        let query = match live_query(query) {
            Ok(query) => query,
            Err(reason) => return Ok(Err(malformed("list", reason))),
        };
        if let Err(error) = charge(self, "list") {
            return Ok(Err(error));
        }
        let world = self.reconcile("live.list")?;
        let (live, call) = (world.ports.live.clone(), world.call.clone());
        let answer = elsewhere(self, "live.list", async move { live.list(call, query).await }).await?;
        let size = answer.as_ref().map_or(0, |page| page.items.iter().map(|item| item.len()).sum());
        make_room(self, size).await;
        if let Err(error) = fits(self, "list", size) {
            return Ok(Err(error));
        }
        Ok(answer.map_err(convert::api_error).map(|page| Page {
            items: page.items.iter().map(ToString::to_string).collect(),
            next_token: page.next_token,
        }))
    }
}

/// Counts a read against what the call may.
fn charge(state: &mut CallState, verb: &'static str) -> Result<(), ApiError> {
    if state.meter.live_read() {
        return Ok(());
    }
    let most = state.meter.limits().live_reads;
    let message = format!(
        "a call reads live at most {most} times: list instead, or watch what is read, or raise it with `--limit \
         live-reads=N`"
    );
    Err(refused(ApiReason::TooManyRequests, verb, message))
}

/// Whether the guest may be handed so many bytes.
fn fits(state: &CallState, verb: &'static str, size: usize) -> Result<(), ApiError> {
    let most = state.meter.limits().response_bytes;
    if size <= most {
        return Ok(());
    }
    let most = Value::Bytes(most);
    let message = format!("the answer has {size} bytes, a guest gets at most {most} at once ({RAISE_RESPONSE})");
    Err(too_large(verb, message))
}

fn live_query(query: ListQuery) -> Result<LiveQuery, Malformed> {
    if query.limit == 0 {
        return Err("a list needs a `limit` of at least 1".to_owned());
    }
    Ok(LiveQuery {
        kind: convert::object_kind(query.kind.api_version, query.kind.kind)?,
        namespace: query.namespace.map(|namespace| convert::path_segment("namespace", namespace)).transpose()?,
        label_selector: convert::short("label selector", query.label_selector)?,
        field_selector: convert::short("field selector", query.field_selector)?,
        limit: query.limit,
        page_token: convert::short("page token", query.page_token)?,
    })
}
