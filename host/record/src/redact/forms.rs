//! Looks for values in the forms in which a plugin, or the API server, may have written them.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

/// Values as they may stand in a text, the longest first, each with what is written instead: as they are, in Base64, in a URL, and
/// as JSON writes them, which may stand in a text in JSON.
pub(super) fn all(values: &[(String, String)]) -> Vec<(String, String)> {
    let escaped = |text: &str| {
        let json = Value::from(text).to_string();
        json[1..json.len() - 1].to_owned()
    };
    let mut forms: Vec<(String, String)> = Vec::new();
    for (value, marker) in values {
        let once = escaped(value);
        let twice = escaped(&once);
        forms.extend([value.clone(), in_url(value), once, twice].map(|form| (form, marker.clone())));
        forms.push((STANDARD.encode(value), STANDARD.encode(marker)));
        forms.push((URL_SAFE_NO_PAD.encode(value), URL_SAFE_NO_PAD.encode(marker)));
    }
    forms.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
    forms.dedup_by(|a, b| a.0 == b.0);
    forms
}

/// RFC 3986, section 2: all but what is unreserved.
fn in_url(text: &str) -> String {
    let of_byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(of_byte).collect()
}

/// Replaces what was `found` in all texts of a value. A text that is JSON is read, as each writer of JSON escapes in its own way, and
/// what is JSON in it again, so many levels `deep`.
pub(super) fn replace(value: &mut Value, found: &[(String, String)], deep: usize) {
    match value {
        Value::String(text) => in_text(text, found, deep),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, found, deep)),
        Value::Object(fields) => {
            // The name of an import is the host's.
            let told = fields.iter_mut().filter(|(name, _)| *name != "import");
            told.for_each(|(_, field)| replace(field, found, deep));
        }
        _ => {}
    }
}

fn in_text(text: &mut String, found: &[(String, String)], deep: usize) {
    if deep > 0
        && text.trim_start().starts_with(['{', '[', '"'])
        && let Ok(before) = serde_json::from_str::<Value>(text)
    {
        let mut after = before.clone();
        with_names(&mut after, found, deep - 1);
        if after != before {
            *text = after.to_string();
        }
    }
    for (secret, marker) in found {
        if text.contains(secret.as_str()) {
            *text = text.replace(secret.as_str(), marker);
        }
    }
}

/// The same, also in the names of fields.
fn with_names(value: &mut Value, found: &[(String, String)], deep: usize) {
    match value {
        Value::String(text) => in_text(text, found, deep),
        Value::Array(items) => items.iter_mut().for_each(|item| with_names(item, found, deep)),
        Value::Object(fields) => {
            let told = std::mem::take(fields).into_iter().map(|(mut name, mut field)| {
                in_text(&mut name, found, 0);
                with_names(&mut field, found, deep);
                (name, field)
            });
            *fields = told.collect::<Map<_, _>>();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str, secret: &str) -> String {
        let mut value = Value::from(text);
        replace(&mut value, &all(&[(secret.to_owned(), "<x>".to_owned())]), 4);
        value.as_str().expect("a text").to_owned()
    }

    #[test]
    fn a_value_is_found_however_its_writer_has_escaped_it() {
        for (text, told) in [
            (r#"{"a":"p\u0026ss\u003cw0rd"}"#, r#"{"a":"<x>"}"#),
            (r#"{"a":"\u0070&ss<w0rd"}"#, r#"{"a":"<x>"}"#),
            (r#"{"p&ss<w0rd":1}"#, r#"{"<x>":1}"#),
            ("https://h/?q=p%26ss%3Cw0rd", "https://h/?q=<x>"),
            ("not json: p&ss<w0rd", "not json: <x>"),
        ] {
            assert_eq!(redacted(text, "p&ss<w0rd"), told);
        }
        assert_eq!(redacted(r#"{"a":"sch\u00f6nes Wetter"}"#, "schönes Wetter"), r#"{"a":"<x>"}"#);
    }

    #[test]
    fn the_name_of_an_import_stays() {
        let mut value = serde_json::json!([{"import": "writes.apply", "args": {"note": "writes"}}]);
        replace(&mut value, &all(&[("writes".to_owned(), "<x>".to_owned())]), 4);
        assert_eq!(value, serde_json::json!([{"import": "writes.apply", "args": {"note": "<x>"}}]));
    }
}
