//! `http`: requests, which are sent to the port and awaited in the call's task.
//!
//! Unlike a write, a fetch ends with the call that requested it, because no other code could use the response.

use windlass_core::call::http::{
    HttpBody, HttpError as CoreError, HttpReason as CoreReason, HttpRequest, HttpResponse,
};

use crate::abi::v0_3_0::bindings::windlass::plugin::http::{Body, Host, HttpError, HttpReason, Request, Response};
use crate::abi::v0_3_0::convert::milliseconds;
use crate::imports::ask;
use crate::state::CallState;

impl Host for CallState {
    async fn fetch(&mut self, request: Request) -> wasmtime::Result<Result<Response, HttpError>> {
        let left = self.meter.time_left();
        self.enter("http.fetch")?;
        let mut request = from_wit(request);
        // A response after the call's end is of no use.
        request.timeout = Some(request.timeout.map_or(left, |asked| asked.min(left)));
        let (answer, bytes) = ask(self, "http.fetch", request).await?;
        Ok(answer.and_then(|response| self.meter.response(response, bytes)).map(to_wit).map_err(error_to_wit))
    }
}

fn from_wit(request: Request) -> HttpRequest {
    let Request { method, url, headers, body, timeout_ms } = request;
    let body = body.map(|body| match body {
        Body::Text(text) => HttpBody::Text(text),
        Body::Bytes(bytes) => HttpBody::Bytes(bytes),
    });
    HttpRequest { method, url, headers, body, timeout: timeout_ms.map(milliseconds) }
}

fn to_wit(response: HttpResponse) -> Response {
    let HttpResponse { status, headers, body } = response;
    let body = match body {
        HttpBody::Text(text) => Body::Text(text),
        HttpBody::Bytes(bytes) => Body::Bytes(bytes),
    };
    Response { status, headers, body }
}

fn error_to_wit(error: CoreError) -> HttpError {
    let reason = match error.reason {
        CoreReason::NotGranted => HttpReason::NotGranted,
        CoreReason::InvalidRequest => HttpReason::InvalidRequest,
        CoreReason::Dns => HttpReason::Dns,
        CoreReason::Connect => HttpReason::Connect,
        CoreReason::Tls => HttpReason::Tls,
        CoreReason::Timeout => HttpReason::Timeout,
        CoreReason::TooLarge => HttpReason::TooLarge,
        CoreReason::Protocol => HttpReason::Protocol,
        CoreReason::Other => HttpReason::Other,
    };
    HttpError { reason, message: error.message }
}
