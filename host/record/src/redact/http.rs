//! Redacts credentials in HTTP: in headers, forms and URLs, and in binary bodies.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_core::secret::credentials::{hide_in_form, hide_in_urls, is_confidential};

use super::documents::Documents;
use super::opaque::is_binary;

/// The field that holds a decoded body while it is redacted.
const OPENED: &str = "opened";

/// Redacts a fetch and its answer, whose bodies are [`opened`].
pub(super) fn redact(import: &mut Value, documents: &mut Documents<'_>) {
    if let Some(Value::String(url)) = import["args"].get_mut("url") {
        *url = hide_in_urls(url, &mut |credential| documents.hidden(credential));
    }
    for message in ["/args", "/answer/ok"] {
        let Some(message) = import.pointer_mut(message) else { continue };
        let form = form_of(&message["headers"]);
        for header in message.get_mut("headers").and_then(Value::as_array_mut).into_iter().flatten() {
            redact_header(header, documents);
        }
        for text in ["text", OPENED] {
            if let Some(Value::String(text)) = message.get_mut("body").and_then(|body| body.get_mut(text)) {
                redact_body(text, form, documents);
            }
        }
    }
}

/// The format of a body that is not JSON but has named fields.
#[derive(Clone, Copy)]
enum Form {
    None,
    Urlencoded,
    Multipart,
}

fn form_of(headers: &Value) -> Form {
    let is_content_type =
        |header: &&Value| header[0].as_str().is_some_and(|name| name.eq_ignore_ascii_case("content-type"));
    let content_type = headers.as_array().into_iter().flatten().find(is_content_type);
    let content_type = content_type.and_then(|header| header[1].as_str()).unwrap_or_default().to_ascii_lowercase();
    if content_type.contains("x-www-form-urlencoded") {
        Form::Urlencoded
    } else if content_type.contains("multipart/") {
        Form::Multipart
    } else {
        Form::None
    }
}

fn redact_body(text: &mut String, form: Form, documents: &mut Documents<'_>) {
    match form {
        _ if is_binary(text) => documents.hide_whole(text),
        Form::Urlencoded => *text = hide_in_form(text, &mut |credential| documents.hidden(credential)),
        Form::Multipart => {
            let names = text
                .split("name=")
                .skip(1)
                .filter_map(|rest| rest.trim_start_matches('"').split(['"', '\r', ';']).next());
            if names.into_iter().any(is_confidential) {
                documents.hide_whole(text);
            }
        }
        Form::None => {}
    }
}

/// Applies `work` to the bodies of each fetch of a call.
pub(super) fn bodies(call: &mut Value, work: &mut dyn FnMut(&mut Value)) {
    let imports = call.get_mut("imports").and_then(Value::as_array_mut);
    imports.into_iter().flatten().for_each(|import| body_of(import, work));
}

/// Applies `work` to the bodies of one import.
pub(super) fn body_of(import: &mut Value, work: &mut dyn FnMut(&mut Value)) {
    if import.get("import").is_some_and(|name| name == "http.fetch") {
        for place in ["/args/body", "/answer/ok/body"] {
            import.pointer_mut(place).into_iter().for_each(&mut *work);
        }
    }
}

/// Decodes a body to text, so that it can be redacted. A binary body is replaced by a digest and its length, because it
/// may be a Secret in another encoding.
pub(super) fn opened(body: &mut Value, documents: &mut Documents<'_>) {
    let Some(bytes) = body.get("base64").and_then(Value::as_str).and_then(|text| STANDARD.decode(text).ok()) else {
        return;
    };
    let text = String::from_utf8(bytes).unwrap_or_else(|error| documents.marker_of_bytes(error.as_bytes()));
    *body = json!({ OPENED: text });
}

/// Encodes a decoded body again.
pub(super) fn closed(body: &mut Value) {
    if let Some(text) = body.get(OPENED).and_then(Value::as_str) {
        *body = json!({"base64": STANDARD.encode(text)});
    }
}

/// Redacts one `[name, value]` of the headers.
fn redact_header(header: &mut Value, documents: &mut Documents<'_>) {
    let Some(name) = header.get(0).and_then(Value::as_str).map(str::to_ascii_lowercase) else { return };
    let Some(Value::String(value)) = header.get_mut(1) else { return };
    if !is_confidential(&name) {
        // Headers such as Location, Referer and Link may contain a URL.
        *value = hide_in_urls(value, &mut |credential| documents.hidden(credential));
        return;
    }
    if name.contains("cookie") {
        // The value of a cookie may be sent elsewhere without its name.
        let values = value.split(';').filter_map(|part| part.split_once('='));
        values.for_each(|(_, value)| documents.learn(value.trim().trim_matches('"')));
    }
    // The scheme, such as `Bearer` or `Basic`, is not secret.
    *value = match value.split_once(' ') {
        Some((scheme, credentials))
            if name.contains("authorization") && scheme.bytes().all(|it| it.is_ascii_alphabetic()) =>
        {
            format!("{scheme} {}", documents.hidden(credentials))
        }
        _ => documents.hidden(value),
    };
}

#[cfg(test)]
mod tests {
    use super::super::marker::Markers;
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
        redact(&mut import, &mut Documents::new(&Markers::of_replay(), &[]));
        let hidden = "<redacted:unknown>";
        assert_eq!(import["args"]["url"], format!("https://{hidden}@h.example/p?page=2&api_key={hidden}"));
        let bearer = format!("Bearer {hidden}");
        let headers = json!([["Authorization", bearer], ["accept", "text/plain"], ["X-Api-Key", hidden]]);
        assert_eq!(import["args"]["headers"], headers);
        assert_eq!(import["answer"]["ok"]["headers"], json!([["set-cookie", hidden], ["etag", "e"]]));
    }
}
