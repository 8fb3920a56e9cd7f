//! The credentials of HTTP: headers, and what a URL has of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The field of a body of bytes while it is looked at.
const OPENED: &str = "opened";

/// Parts of the names of headers and of query parameters whose values nobody should read.
const CONFIDENTIAL: [&str; 13] = [
    "auth",
    "cookie",
    "token",
    "secret",
    "password",
    "passwd",
    "pwd",
    "key",
    "sig",
    "sign",
    "credential",
    "session",
    "jwt",
];

fn is_confidential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    CONFIDENTIAL.iter().any(|word| name.contains(word))
}

/// Redacts a fetch and its answer: `hide` gives what is written instead of a value.
pub(super) fn redact(import: &mut Value, mut hide: impl FnMut(&str) -> String) {
    if let Some(Value::String(url)) = import["args"].get_mut("url") {
        *url = without_credentials(url, &mut hide);
    }
    for part in ["/args/headers", "/answer/ok/headers"] {
        if let Some(part) = import.pointer_mut(part) {
            headers(part, &mut hide);
        }
    }
}

/// Does `work` to the bodies of each fetch of a call.
pub(super) fn bodies(call: &mut Value, work: fn(&mut Value)) {
    let imports = call.get_mut("imports").and_then(Value::as_array_mut);
    imports.into_iter().flatten().for_each(|import| body_of(import, work));
}

/// The same of one import.
pub(super) fn body_of(import: &mut Value, work: fn(&mut Value)) {
    if import.get("import").is_some_and(|name| name == "http.fetch") {
        for place in ["/args/body", "/answer/ok/body"] {
            import.pointer_mut(place).into_iter().for_each(work);
        }
    }
}

/// A body of bytes that are text, as that: only so is it looked at.
pub(super) fn opened(body: &mut Value) {
    let bytes = body.get("base64").and_then(Value::as_str).and_then(|text| STANDARD.decode(text).ok());
    if let Some(text) = bytes.and_then(|bytes| String::from_utf8(bytes).ok()) {
        *body = json!({ OPENED: text });
    }
}

/// The same as bytes again.
pub(super) fn closed(body: &mut Value) {
    if let Some(text) = body.get(OPENED).and_then(Value::as_str) {
        *body = json!({"base64": STANDARD.encode(text)});
    }
}

fn headers(headers: &mut Value, hide: &mut impl FnMut(&str) -> String) {
    for header in headers.as_array_mut().into_iter().flatten() {
        let Some(name) = header.get(0).and_then(Value::as_str).map(str::to_ascii_lowercase) else { continue };
        if !is_confidential(&name) {
            if let Some(Value::String(value)) = header.get_mut(1).filter(|_| name == "location") {
                *value = without_credentials(value, hide);
            }
            continue;
        }
        if let Some(Value::String(value)) = header.get_mut(1) {
            // `Bearer`, `Basic`: how it authorizes is no secret.
            *value = match value.split_once(' ') {
                Some((scheme, credentials))
                    if name.contains("authorization") && scheme.bytes().all(|it| it.is_ascii_alphabetic()) =>
                {
                    format!("{scheme} {}", hide(credentials))
                }
                _ => hide(value),
            };
        }
    }
}

fn without_credentials(url: &str, hide: &mut impl FnMut(&str) -> String) -> String {
    let (before, query) = url.split_once('?').map_or((url, None), |(before, query)| (before, Some(query)));
    let mut told = before.to_owned();
    if let Some((scheme, rest)) = before.split_once("://") {
        let end = rest.find('/').unwrap_or(rest.len());
        if let Some(at) = rest[..end].rfind('@') {
            // Some have their token as the user.
            told = format!("{scheme}://{}{}", hide(&rest[..at]), &rest[at..]);
            if let Some((_, password)) = rest[..at].split_once(':') {
                hide(password);
            }
        }
    }
    let Some(query) = query else { return told };
    let parameter = |parameter: &str| match parameter.split_once('=') {
        Some((name, value)) if is_confidential(name) => format!("{name}={}", hide(value)),
        _ => parameter.to_owned(),
    };
    format!("{told}?{}", query.split('&').map(parameter).collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_hidden_and_the_rest_stays() {
        let mut import = json!({
            "import": "http.fetch",
            "args": {
                "method": "GET", "url": "https://me:hunter2@h.example/p?page=2&api_key=k",
                "headers": [["Authorization", "Bearer abc"], ["accept", "text/plain"], ["X-Api-Key", "def"]],
            },
            "answer": {"ok": {"status": 200, "headers": [["set-cookie", "s=1"], ["etag", "e"]], "body": {"text": ""}}},
        });
        redact(&mut import, |value| format!("<{}>", value.len()));
        assert_eq!(import["args"]["url"], "https://<10>@h.example/p?page=2&api_key=<1>");
        let headers = json!([["Authorization", "Bearer <3>"], ["accept", "text/plain"], ["X-Api-Key", "<3>"]]);
        assert_eq!(import["args"]["headers"], headers);
        assert_eq!(import["answer"]["ok"]["headers"], json!([["set-cookie", "<3>"], ["etag", "e"]]));
    }

    #[test]
    fn a_url_without_credentials_is_told_whole() {
        for url in ["https://h.example", "http://h.example:8080/a@b?x=y@z", "not a url"] {
            assert_eq!(without_credentials(url, &mut |_| unreachable!()), url);
        }
    }
}
