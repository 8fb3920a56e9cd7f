//! Converts a guest's request to one for the port, and sends it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::ready;
use http_body_util::BodyExt as _;
use wasmtime::component::Resource;
use wasmtime_wasi_http::RequestOptions;
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, Method, Scheme};
use wasmtime_wasi_http::p2::types::HostOutgoingRequest;
use windlass_core::call::http::HttpRequest;

use super::HANDLE;
use super::error::summary;
use crate::state::CallState;
use crate::wasi_http_state::{FutureResponse, OutgoingBody};

impl CallState {
    /// The body of `request`. The guest can take it only once.
    pub(super) fn outgoing_body(
        &mut self,
        request: &Resource<HostOutgoingRequest>,
    ) -> wasmtime::Result<Result<Resource<OutgoingBody>, ()>> {
        let wasi = self.wasi();
        let held = wasi.http.held(0);
        let request = wasi.table.get_mut(request)?;
        let Ok(length) = content_length(request) else { return Ok(Err(())) };
        if request.body.is_some() {
            return Ok(Err(()));
        }
        let body = OutgoingBody::new(length, held);
        request.body = Some(body.clone().boxed_unsync());
        Ok(Ok(wasi.table.push(body)?))
    }

    /// Sends `request` at once if its body is complete. Otherwise sends it at the guest's first wait or poll after the
    /// body is complete.
    pub(super) fn handle(
        &mut self,
        request: &Resource<HostOutgoingRequest>,
        options: Option<Resource<RequestOptions>>,
    ) -> wasmtime::Result<Result<Resource<FutureResponse>, ErrorCode>> {
        let left = self.meter.time_left();
        self.enter(HANDLE)?;
        let wasi = self.wasi();
        let options = options.map(|options| wasi.table.get(&options).copied()).transpose()?;
        let mut request = wasi.table.delete(Resource::<HostOutgoingRequest>::new_own(request.rep()))?;
        let body = request.body.take();
        match content_length(&request) {
            Ok(length) if body.is_some() || length.is_none_or(|length| length == 0) => {}
            Ok(_) => return Ok(Err(ErrorCode::HttpRequestBodySize(Some(0)))),
            Err(code) => return Ok(Err(code)),
        }
        let request = match to_port(request, options) {
            // A response after the call's end is of no use.
            Ok(request) => {
                HttpRequest { timeout: Some(request.timeout.map_or(left, |asked| asked.min(left))), ..request }
            }
            Err(code) => return Ok(Err(code)),
        };
        let held = wasi.http.held(0);
        let Some(future) = wasi.http.requests.send(request, body, held) else {
            return Ok(Err(ErrorCode::ConnectionLimitReached));
        };
        let future = wasi.table.push(future)?;
        self.ask_ready_requests()?;
        Ok(Ok(future))
    }

    /// Sends to the port all requests whose bodies have become complete.
    pub(in crate::wasi) fn ask_ready_requests(&mut self) -> wasmtime::Result<()> {
        // A replay knows which requests it will show the guest, and answers only these.
        let begins = self.world.surroundings().is_none_or(|surroundings| !surroundings.is_simulated());
        let Some(wasi) = self.used_wasi().filter(|wasi| !wasi.http.requests.sent.is_empty()) else { return Ok(()) };
        let mut sent = std::mem::take(&mut wasi.http.requests);
        let asked = sent.ready().try_for_each(|sent| {
            let Some(request) = sent.take_ready() else { return Ok(()) };
            let world = self.reconcile(HANDLE)?;
            let (port, call, summary) = (world.ports.outside.clone(), world.call.clone(), summary(&request));
            // The port is asked now, and not when the future is polled, so that it gets the requests in the guest's
            // order.
            let work = match catch_unwind(AssertUnwindSafe(|| port.ask(call, request.into()))) {
                Ok(work) => AssertUnwindSafe(work).catch_unwind().boxed(),
                Err(panic) => ready(Err(panic)).boxed(),
            };
            sent.asked(summary, work, begins);
            Ok(())
        });
        self.wasi().http.requests = sent;
        asked
    }
}

/// The number in the header `content-length`, if there is one.
fn content_length(request: &HostOutgoingRequest) -> Result<Option<u64>, ErrorCode> {
    let Some(length) = request.headers.get(http::header::CONTENT_LENGTH) else { return Ok(None) };
    let digits = length.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let length = digits.and_then(|digits| digits.parse().ok());
    let unread = || ErrorCode::InternalError(Some("the header `content-length` is not a number".to_owned()));
    length.map(Some).ok_or_else(unread)
}

/// The request without its body, as in a plugin's own interface.
fn to_port(request: HostOutgoingRequest, options: Option<RequestOptions>) -> Result<HttpRequest, ErrorCode> {
    let HostOutgoingRequest { method, scheme, authority, path_with_query, headers, .. } = request;
    let scheme = match &scheme {
        None | Some(Scheme::Https) => "https",
        Some(Scheme::Http) => "http",
        Some(Scheme::Other(other)) => other,
    };
    let (authority, path) = (authority.unwrap_or_default(), path_with_query.unwrap_or_default());
    let headers = headers.iter().filter(|(name, _)| *name != http::header::CONTENT_LENGTH);
    let text = |value: &http::HeaderValue| std::str::from_utf8(value.as_bytes()).map(str::to_owned);
    let headers = headers.map(|(name, value)| Ok((name.to_string(), text(value)?)));
    let headers = headers.collect::<Result<Vec<_>, std::str::Utf8Error>>();
    let no_text = |_| ErrorCode::InternalError(Some("the value of a header is not UTF-8".to_owned()));
    Ok(HttpRequest {
        method: text_of(method),
        url: format!("{scheme}://{authority}{path}"),
        headers: headers.map_err(no_text)?,
        body: None,
        timeout: options.and_then(exchange_timeout),
    })
}

fn text_of(method: Method) -> String {
    let known = match method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Delete => "DELETE",
        Method::Connect => "CONNECT",
        Method::Options => "OPTIONS",
        Method::Trace => "TRACE",
        Method::Patch => "PATCH",
        Method::Other(other) => return other,
    };
    known.to_owned()
}

/// The timeout of the whole exchange, which is what the port limits. A client sets a timeout for each part of the
/// exchange. If the client sets none for the first byte, the exchange has no timeout.
fn exchange_timeout(options: RequestOptions) -> Option<Duration> {
    let RequestOptions { connect_timeout, first_byte_timeout, between_bytes_timeout } = options;
    let others = connect_timeout.unwrap_or_default().saturating_add(between_bytes_timeout.unwrap_or_default());
    first_byte_timeout.map(|first_byte| first_byte.saturating_add(others))
}
