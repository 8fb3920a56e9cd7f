//! `http`: requests to the hosts that the manifest names and the operator grants.

use starlark::collections::SmallMap;
use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::list::AllocList;
use starlark::values::structs::AllocStruct;
use starlark::values::{Heap, Value};
use windlass_sdk::bindings::windlass::plugin::http::{self, Body, HttpReason, Request};
use windlass_sdk::bindings::windlass::plugin::types::{ApiError, ApiReason};

use super::in_call;
use crate::arguments::{Options, elements, number, wrong};
use crate::failures::{Problem, Thrown, throw};

#[starlark_module]
pub(crate) fn functions(builder: &mut GlobalsBuilder) {
    fn fetch<'v>(
        #[starlark(require = pos)] url: &str,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        in_call("http.fetch")?;
        let mut options = Options::new("http.fetch", options);
        let request = Request {
            method: options.text("method")?.unwrap_or_else(|| "GET".to_owned()),
            url: url.to_owned(),
            headers: options.pairs("headers")?,
            body: options.value("body").map(body).transpose()?,
            timeout_ms: options.milliseconds("timeout_ms")?,
        };
        options.end()?;
        // Messages leave out the query, which may contain secrets.
        let target = format!("{} {}", request.method, url.split(['?', '#']).next().unwrap_or_default());
        let response = http::fetch(&request).map_err(|error| failed(&target, error.reason, &error.message))?;
        let headers = response.headers.into_iter().map(|(name, value)| heap.alloc((name, value)));
        let headers = heap.alloc(AllocList(headers.collect::<Vec<_>>()));
        let body = match response.body {
            Body::Text(text) => heap.alloc(text),
            Body::Bytes(bytes) => heap.alloc(AllocList(bytes.into_iter().map(i32::from))),
        };
        let status = heap.alloc(i32::from(response.status));
        Ok(heap.alloc(AllocStruct([("status", status), ("headers", headers), ("body", body)])))
    }
}

fn body(value: Value<'_>) -> starlark::Result<Body> {
    let what = "`body` of http.fetch";
    if let Some(text) = value.unpack_str() {
        return Ok(Body::Text(text.to_owned()));
    }
    let byte = |part: Value<'_>| {
        u8::try_from(number(part, what)?).map_err(|_| wrong(format!("{what} has {part}, which is not a byte")))
    };
    Ok(Body::Bytes(elements(value, what)?.into_iter().map(byte).collect::<starlark::Result<_>>()?))
}

fn failed(target: &str, reason: HttpReason, message: &str) -> starlark::Error {
    if reason == HttpReason::NotGranted {
        // Reported like a denial of the API: the host runs the key again when the policy changes.
        return throw(ApiError {
            code: 403,
            reason: ApiReason::NotGranted,
            status_reason: "NotGranted".to_owned(),
            message: message.to_owned(),
            retry_after_ms: None,
            verb: "fetch".to_owned(),
            resource: "http".to_owned(),
            object: None,
        });
    }
    let is_terminal = reason == HttpReason::InvalidRequest;
    let problem = Problem::own(format!("{target}: {}: {message}", reason.as_str()), is_terminal, None);
    Thrown(vec![Problem { reason: Some(reason.as_str()), ..problem }]).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failures::problems;

    #[test]
    fn a_denied_request_is_a_denial_of_the_api_and_others_are_not() {
        let failure = |reason| problems(&failed("GET https://a.dev/", reason, "no")).remove(0).failure;
        let denied = failure(HttpReason::NotGranted).api.expect("an error of the API");
        assert_eq!((denied.reason, denied.message.as_str()), (ApiReason::NotGranted, "no"));
        let lost = failure(HttpReason::Dns);
        assert!(lost.api.is_none() && !lost.terminal, "{lost:?}");
        assert!(failure(HttpReason::InvalidRequest).terminal);
    }
}
