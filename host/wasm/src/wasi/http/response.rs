//! Converts a response of the port to one for the guest.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body_util::{BodyExt as _, Full};
use wasmtime::component::Resource;
use wasmtime_wasi_http::FieldMap;
use wasmtime_wasi_http::p2::body::HostIncomingBody;
use wasmtime_wasi_http::p2::types::HostIncomingResponse;
use windlass_core::call::http::{HttpBody, HttpResponse};

use crate::state::CallState;
use crate::wasi_http_state::{HeldBody, HeldBytes, header_bytes};

impl CallState {
    /// The handle of a response for the guest.
    pub(super) fn incoming_response(
        &mut self,
        (response, held): (HttpResponse, HeldBytes),
    ) -> wasmtime::Result<Resource<HostIncomingResponse>> {
        let HttpResponse { status, headers, body } = response;
        let bytes = match body {
            HttpBody::Text(text) => text.into_bytes(),
            HttpBody::Bytes(bytes) => bytes,
        };
        let body = Full::new(Bytes::from_owner(HeldBody { bytes, _held: held }));
        let body = HostIncomingBody::new(body.map_err(|never| match never {}).boxed_unsync());
        let headers = header_map(&headers);
        let wasi = self.wasi();
        wasi.headers_grow(header_bytes(&headers))?;
        let headers = FieldMap::new_immutable(&mut wasi.http.hooks, headers);
        Ok(wasi.table.push(HostIncomingResponse { status, headers, body: Some(body) })?)
    }
}

fn header_map(headers: &[(String, String)]) -> HeaderMap {
    let read = |(name, value): &(String, String)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?))
    };
    let mut map = HeaderMap::new();
    for (name, value) in headers.iter().filter_map(read) {
        map.append(name, value);
    }
    map
}
