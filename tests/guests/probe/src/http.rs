//! `http`: requests to granted hosts.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_sdk::bindings::windlass::plugin::http::{self, HttpReason};

use crate::script::read;
use crate::wire::Answer;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fetch {
    request: Request,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Request {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<(String, String)>,
    body: Option<Body>,
    timeout_ms: Option<u32>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
enum Body {
    Text(String),
    Bytes(Vec<u8>),
}

pub(crate) fn call(function: &str, arguments: Value) -> Option<Answer> {
    if function != "fetch" {
        return None;
    }
    let request = read::<Fetch>("http.fetch", arguments).request;
    let body = |body| match body {
        Body::Text(text) => http::Body::Text(text),
        Body::Bytes(bytes) => http::Body::Bytes(bytes),
    };
    let fetched = http::fetch(&http::Request {
        method: request.method,
        url: request.url,
        headers: request.headers,
        body: request.body.map(body),
        timeout_ms: request.timeout_ms,
    });
    Some(match fetched {
        Ok(response) => {
            let body = match response.body {
                http::Body::Text(text) => Body::Text(text),
                http::Body::Bytes(bytes) => Body::Bytes(bytes),
            };
            Ok(json!({"status": response.status, "headers": response.headers, "body": body}))
        }
        Err(error) => Err(json!({"reason": reason(error.reason), "message": error.message})),
    })
}

fn reason(reason: HttpReason) -> &'static str {
    match reason {
        HttpReason::NotGranted => "not-granted",
        HttpReason::InvalidRequest => "invalid-request",
        HttpReason::Dns => "dns",
        HttpReason::Connect => "connect",
        HttpReason::Tls => "tls",
        HttpReason::Timeout => "timeout",
        HttpReason::TooLarge => "too-large",
        HttpReason::Protocol => "protocol",
        HttpReason::Other => "other",
    }
}
