//! The headers of every request that is made for a call, reads and writes alike: the principal and the trace.

use http::header::{HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue, USER_AGENT};
use windlass_core::call::ports::CallContext;
use windlass_core::call::trace::{CallTrace, OpenSpan};
use windlass_core::rights::principal::{Principal, ServiceAccount};

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
const IMPERSONATE_GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The initial capacity of a request's header map: the headers from this module, and the headers that are added before
/// sending.
const REQUEST_HEADERS: usize = 8;

/// The User-Agent of the host's own requests: discovery, lists and watches.
pub(crate) const HOST_AGENT: &str = concat!("windlass/", env!("CARGO_PKG_VERSION"));

/// A name that is not valid in a header. The request must not be sent without this header, because the server would see
/// another user.
#[derive(Debug, thiserror::Error)]
#[error("{what} {text:?} is not valid in a request header: {source}")]
pub struct HeaderError {
    what: &'static str,
    text: String,
    source: InvalidHeaderValue,
}

/// The headers of one request, and its span in the trace of its call.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestHeaders {
    pub(super) map: HeaderMap,
    trace: CallTrace,
    span: u64,
}

impl From<HeaderMap> for RequestHeaders {
    /// Headers of a request that is not made for a call, or whose span is not collected.
    fn from(map: HeaderMap) -> Self {
        Self { map, trace: CallTrace::default(), span: 0 }
    }
}

impl RequestHeaders {
    /// Starts the span of the request when it is sent. Call it once.
    pub(super) fn begin_span(&self) -> OpenSpan {
        self.trace.request_as(self.span)
    }
}

/// The headers of a request for `call`.
pub(crate) fn of_call(call: &CallContext) -> Result<RequestHeaders, HeaderError> {
    let span = windlass_world::random();
    Ok(RequestHeaders { map: of_span(call, span)?, trace: call.trace.clone(), span })
}

/// Headers for requests that may be repeated, and may be made after `call` has ended. Such requests have no span of
/// their own.
pub(crate) fn after_call(call: &CallContext) -> Result<HeaderMap, HeaderError> {
    let span = windlass_world::random();
    of_span(call, call.trace.parent().unwrap_or(span))
}

fn of_span(call: &CallContext, span: u64) -> Result<HeaderMap, HeaderError> {
    let mut headers = of_principal(&call.principal)?;
    if let Some(parent) = call.trace.traceparent(&call.trace_id, span) {
        headers.insert(TRACEPARENT, value("the trace", &parent)?);
    }
    Ok(headers)
}

/// The headers of a request by `principal` outside of any call.
pub(crate) fn of_principal(principal: &Principal) -> Result<HeaderMap, HeaderError> {
    let mut headers = HeaderMap::with_capacity(REQUEST_HEADERS);
    headers.insert(USER_AGENT, value("the User-Agent", &principal.user_agent())?);
    if let Some(account) = &principal.impersonate {
        impersonate(&mut headers, account)?;
    }
    Ok(headers)
}

/// Headers of a request that impersonates a user or an `account`. Fails if the name is not valid in a header.
pub fn of_user(user: &str, account: Option<&ServiceAccount>) -> Result<HeaderMap, HeaderError> {
    let mut headers = HeaderMap::new();
    match account {
        Some(account) => impersonate(&mut headers, account)?,
        None => {
            headers.insert(IMPERSONATE_USER, value("the user", user)?);
        }
    }
    Ok(headers)
}

fn impersonate(headers: &mut HeaderMap, account: &ServiceAccount) -> Result<(), HeaderError> {
    // The groups are sent too, because otherwise the user would not count as authenticated.
    headers.insert(IMPERSONATE_USER, value("the service account", &account.user())?);
    for group in &account.groups() {
        headers.append(IMPERSONATE_GROUP, value("the group", group)?);
    }
    Ok(())
}

fn value(what: &'static str, text: &str) -> Result<HeaderValue, HeaderError> {
    HeaderValue::from_str(text).map_err(|source| HeaderError { what, text: text.to_owned(), source })
}

#[cfg(test)]
mod tests {

    use super::*;

    fn principal(impersonate: Option<(&str, &str)>) -> Principal {
        Principal {
            impersonate: impersonate
                .map(|(namespace, name)| ServiceAccount { namespace: namespace.into(), name: name.into() }),
            ..Principal::of_plugin("webapp", "0123456789ab", "host-1")
        }
    }

    #[test]
    fn a_service_account_comes_with_its_groups() {
        let headers = of_principal(&principal(Some(("prod", "shop")))).expect("names");
        assert_eq!(headers[IMPERSONATE_USER], "system:serviceaccount:prod:shop");
        let groups: Vec<_> = headers.get_all(IMPERSONATE_GROUP).iter().collect();
        assert_eq!(groups, ["system:serviceaccounts", "system:serviceaccounts:prod", "system:authenticated"]);
        assert!(!of_principal(&principal(None)).expect("names").contains_key(IMPERSONATE_USER));
    }

    #[test]
    fn an_account_that_no_header_can_carry_is_an_error_and_not_left_out() {
        let error = of_principal(&principal(Some(("prod", "shop\r\nImpersonate-Group: system:masters"))));
        assert!(error.expect_err("a line break").to_string().contains("service account"));
    }
}
