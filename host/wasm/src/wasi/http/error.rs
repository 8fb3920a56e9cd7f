//! Maps the port's errors to the nearest errors of `wasi:http`.

use wasmtime_wasi_http::p2::bindings::http::types::{DnsErrorPayload, ErrorCode};
use windlass_core::call::http::{
    HttpBody, HttpError, HttpReason, HttpRequest, REQUEST_BODY_BYTES_MAX, REQUEST_HEADER_BYTES_MAX, REQUEST_HEADERS_MAX,
};
use windlass_core::rights::egress::{HttpTarget, TargetError, is_method};

use crate::wasi_http_state::RequestErrorContext;

/// Describes `request` for errors, without path, query and headers, which may hold secrets.
pub(super) fn summary(request: &HttpRequest) -> RequestErrorContext {
    let method = if is_method(&request.method) { &*request.method } else { "a request" };
    let target = HttpTarget::parse(&request.url).map_or_else(|_| "a malformed URL".to_owned(), |it| it.to_string());
    RequestErrorContext { text: format!("{method} {target}"), if_invalid: if_invalid(request) }
}

/// The code for `request` if the port says that it is malformed.
fn if_invalid(request: &HttpRequest) -> ErrorCode {
    if !is_method(&request.method) {
        return ErrorCode::HttpRequestMethodInvalid;
    }
    match HttpTarget::parse(&request.url) {
        Err(TargetError::TooLong) => return ErrorCode::HttpRequestUriTooLong,
        Err(_) => return ErrorCode::HttpRequestUriInvalid,
        Ok(_) => {}
    }
    let body = request.body.as_ref().map_or(0, HttpBody::size);
    if body > REQUEST_BODY_BYTES_MAX {
        return ErrorCode::HttpRequestBodySize(Some(body as u64));
    }
    let headers: usize = request.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if headers > REQUEST_HEADER_BYTES_MAX || request.headers.len() > REQUEST_HEADERS_MAX {
        return ErrorCode::HttpRequestHeaderSectionSize(u32::try_from(headers).ok());
    }
    ErrorCode::HttpProtocolError
}

/// The nearest code to `error`, with which the request that `summary` describes has failed.
pub(super) fn code(error: &HttpError, summary: &RequestErrorContext) -> ErrorCode {
    let message = || Some(error.message.clone());
    match error.reason {
        HttpReason::NotGranted => ErrorCode::HttpRequestDenied,
        HttpReason::InvalidRequest => summary.if_invalid.clone(),
        HttpReason::Dns => ErrorCode::DnsError(DnsErrorPayload { rcode: message(), info_code: None }),
        HttpReason::Connect => ErrorCode::ConnectionRefused,
        HttpReason::Tls => ErrorCode::TlsProtocolError,
        HttpReason::Timeout => ErrorCode::HttpResponseTimeout,
        HttpReason::TooLarge => ErrorCode::HttpResponseBodySize(None),
        HttpReason::Protocol => ErrorCode::HttpProtocolError,
        HttpReason::Other => ErrorCode::InternalError(message()),
    }
}
