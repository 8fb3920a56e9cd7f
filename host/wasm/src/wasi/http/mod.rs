//! `wasi:http`: lets clients of stock toolchains make the requests that a plugin can make with `windlass:plugin/http`
//! (ADR 38).
//!
//! The crate `wasmtime-wasi-http` provides the types. Two of its resources are replaced: the body of a request, which
//! the host collects within limits, and the future of a response, which becomes visible to the guest only where it
//! waits or polls. The crate's own versions run in tasks, whose timing the guest would see.

mod answers;
mod error;
mod headers;
mod request;
mod response;

use wasmtime::component::{Linker, Resource, ResourceTable, ResourceType};
use wasmtime_wasi::p2::{DynOutputStream, DynPollable, subscribe};
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::p2::types::{HostIncomingResponse, HostOutgoingRequest, HostOutgoingResponse};
use wasmtime_wasi_http::{FieldMap, RequestOptions, WasiHttpCtxView, WasiHttpView};

use super::refuse::GIVEN_VERSION;
use crate::state::CallState;
use crate::wasi_http_state::{FutureResponse, OutgoingBody};

/// The import that sends requests, as messages name it.
const HANDLE: &str = "wasi:http/outgoing-handler#handle";

/// Whether the import `name` belongs to `wasi:http`.
pub(super) fn is_import(name: &str) -> bool {
    name.starts_with("wasi:http/")
}

/// Each function of the crate gets its view here, so this is where calls are counted.
impl WasiHttpView for CallState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let wasi = self.called().wasi();
        WasiHttpCtxView { hooks: &mut wasi.http.hooks, table: &mut wasi.table, ctx: &mut wasi.http.ctx }
    }
}

/// Adds `wasi:http` to the rest of WASI in `linker`.
pub(super) fn define(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    linker.instance(&format!("wasi:http/outgoing-handler@{GIVEN_VERSION}"))?.func_wrap(
        "handle",
        |mut store, (request, options): (Resource<HostOutgoingRequest>, Option<Resource<RequestOptions>>)| {
            Ok((store.data_mut().called().handle(&request, options)?,))
        },
    )?;
    define_bodies(linker)?;
    define_futures(linker)?;
    headers::define(linker)
}

fn define_bodies(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    let mut types = linker.instance(&format!("wasi:http/types@{GIVEN_VERSION}"))?;
    types.resource("outgoing-body", ResourceType::host::<OutgoingBody>(), |mut store, handle| {
        let table = &mut store.data_mut().called().wasi().table;
        table.delete(Resource::<OutgoingBody>::new_own(handle))?.abort();
        Ok(())
    })?;
    types.func_wrap("[method]outgoing-request.body", |mut store, (request,): (Resource<HostOutgoingRequest>,)| {
        Ok((store.data_mut().called().outgoing_body(&request)?,))
    })?;
    // A plugin answers no HTTP requests, so its responses have no body.
    types.func_wrap("[method]outgoing-response.body", |mut store, (_,): (Resource<HostOutgoingResponse>,)| {
        store.data_mut().called();
        Ok((Err::<Resource<OutgoingBody>, ()>(()),))
    })?;
    types.func_wrap("[method]outgoing-body.write", |mut store, (body,): (Resource<OutgoingBody>,)| {
        let table = &mut store.data_mut().called().wasi().table;
        let stream = match table.get(&body)?.stream() {
            Some(stream) => {
                let stream: DynOutputStream = Box::new(stream);
                Ok(table.push_child(stream, &body)?)
            }
            None => Err(()),
        };
        Ok((stream,))
    })?;
    types.func_wrap(
        "[static]outgoing-body.finish",
        |mut store, (body, trailers): (Resource<OutgoingBody>, Option<Resource<FieldMap>>)| {
            let table = &mut store.data_mut().called().wasi().table;
            Ok((finish(table, body, trailers)?,))
        },
    )
}

/// Ends a body. Trailers are refused, because a plugin's requests may not have them: they would have to be announced in
/// a header.
fn finish(
    table: &mut ResourceTable,
    body: Resource<OutgoingBody>,
    trailers: Option<Resource<FieldMap>>,
) -> wasmtime::Result<Result<(), ErrorCode>> {
    let body = table.delete(body)?;
    let trailers = trailers.map(|trailers| table.delete(trailers)).transpose()?;
    if trailers.is_some_and(|trailers| !trailers.is_empty()) {
        body.abort();
        return Ok(Err(ErrorCode::HttpRequestTrailerSectionSize(Some(0))));
    }
    Ok(body.finish())
}

fn define_futures(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    let mut types = linker.instance(&format!("wasi:http/types@{GIVEN_VERSION}"))?;
    types.resource("future-incoming-response", ResourceType::host::<FutureResponse>(), |mut store, handle| {
        store.data_mut().called().wasi().table.delete(Resource::<FutureResponse>::new_own(handle))?;
        Ok(())
    })?;
    types.func_wrap(
        "[method]future-incoming-response.subscribe",
        |mut store, (future,): (Resource<FutureResponse>,)| {
            let pollable: Resource<DynPollable> = subscribe(&mut store.data_mut().called().wasi().table, future)?;
            Ok((pollable,))
        },
    )?;
    types.func_wrap("[method]future-incoming-response.get", |mut store, (future,): (Resource<FutureResponse>,)| {
        let seen = store.data_mut().called().wasi().table.get(&future)?.take();
        let response: Option<Result<Result<Resource<HostIncomingResponse>, ErrorCode>, ()>> = match seen {
            None => None,
            Some(Err(())) => Some(Err(())),
            Some(Ok(Err(code))) => Some(Ok(Err(code))),
            Some(Ok(Ok(seen))) => Some(Ok(Ok(store.data_mut().incoming_response(seen)?))),
        };
        Ok((response,))
    })
}
