//! The span of a fetch, and the header that lets the peer continue its trace.

use http::header::{HeaderName, HeaderValue};
use windlass_core::call::http::{HttpError, HttpResponse};
use windlass_core::call::trace::{CallTrace, OpenSpan};
use windlass_core::secret::confidential::Confidential;

use super::prepare::Outgoing;
use super::{RequestSummary, reason};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Begins the span. It does not have the path, the query or any header, because they may hold secrets.
pub(super) fn begin(trace: &CallTrace, request: &RequestSummary) -> OpenSpan {
    let mut span = trace.request();
    span.describe(|span| {
        span.name = request.method.clone().into();
        span.set("http.request.method", request.method.as_str());
        if let Some(target) = &request.parsed {
            span.set("url.scheme", target.scheme.as_str());
            span.set("server.address", target.host.to_string());
            span.set("server.port", target.port);
        }
    });
    span
}

/// Adds the header if the fetch has a span that is collected. A header that the plugin has set itself stays.
pub(super) fn continue_in(outgoing: &mut Outgoing, traceparent: Option<String>) {
    let Some(value) = traceparent.and_then(|parent| HeaderValue::try_from(parent).ok()) else { return };
    outgoing.request.headers_mut().entry(TRACEPARENT).or_insert(value);
}

/// Records how the fetch ended. A message may quote the plugin's request, so the secrets of `config` are removed.
pub(super) fn end(span: &mut OpenSpan, result: &Result<HttpResponse, HttpError>, config: &Confidential) {
    span.ends(|span| match result {
        Ok(response) => {
            span.set("http.response.status_code", response.status);
            if response.status >= 400 {
                span.set("error.type", response.status.to_string());
                span.error = Some(format!("the server answered {}", response.status));
            }
        }
        Err(error) => {
            span.set("error.type", reason(error.reason));
            span.error = Some(config.redact(&error.message).into_owned());
        }
    });
}
