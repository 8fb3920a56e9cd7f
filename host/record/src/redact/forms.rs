//! Replaces known secrets in all texts of a call. JSON texts stay valid JSON.

use std::borrow::Cow;

use serde_json::{Map, Value};
use windlass_core::secret::known_secrets::SecretForms;

use crate::json;

/// Replaces the secrets in `found` in all texts of a value. JSON texts are parsed first, because each JSON writer
/// escapes differently. JSON inside them is parsed too, up to `deep` levels.
pub(super) fn replace(value: &mut Value, found: &SecretForms, deep: usize) {
    match value {
        Value::String(text) => in_text(text, found, deep),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, found, deep)),
        Value::Object(fields) => {
            // The host writes the name of the import, so it contains no secret.
            let of_plugin = fields.iter_mut().filter(|(name, _)| *name != "import");
            of_plugin.for_each(|(_, field)| replace(field, found, deep));
        }
        _ => {}
    }
}

/// The total length of all texts of a value.
pub(super) fn bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes).sum(),
        Value::Object(fields) => fields.values().map(bytes).sum(),
        _ => 0,
    }
}

fn in_text(text: &mut String, found: &SecretForms, deep: usize) {
    if deep > 0
        && text.trim_start().starts_with(['{', '[', '"'])
        && let Some(before) = json::document(text)
    {
        let mut after = before.clone();
        with_names(&mut after, found, deep - 1);
        if after != before {
            *text = after.to_string();
        }
    }
    if let Cow::Owned(redacted) = found.replace(text) {
        *text = redacted;
    }
}

/// Replaces secrets as [`replace`] does, also in the names of fields.
fn with_names(value: &mut Value, found: &SecretForms, deep: usize) {
    match value {
        Value::String(text) => in_text(text, found, deep),
        Value::Array(items) => items.iter_mut().for_each(|item| with_names(item, found, deep)),
        Value::Object(fields) => {
            let replaced = std::mem::take(fields).into_iter().map(|(mut name, mut field)| {
                in_text(&mut name, found, 0);
                with_names(&mut field, found, deep);
                (name, field)
            });
            *fields = replaced.collect::<Map<_, _>>();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::secret::known_secrets::KnownSecrets;

    use super::*;

    fn forms(secret: &str) -> SecretForms {
        let mut known = KnownSecrets::default();
        known.add(secret, &|_| Some("<x>".to_owned()));
        known.forms()
    }

    fn redacted(text: &str, secret: &str) -> String {
        let mut value = Value::from(text);
        replace(&mut value, &forms(secret), 4);
        value.as_str().expect("a text").to_owned()
    }

    #[test]
    fn a_value_is_found_in_any_escaping() {
        for (text, expected) in [
            (r#"{"a":"p\u0026ss\u003cw0rd"}"#, r#"{"a":"<x>"}"#),
            (r#"{"a":"\u0070&ss<w0rd"}"#, r#"{"a":"<x>"}"#),
            (r#"{"p&ss<w0rd":1}"#, r#"{"<x>":1}"#),
            ("https://h/?q=p%26ss%3Cw0rd", "https://h/?q=<x>"),
            ("not json: p&ss<w0rd", "not json: <x>"),
        ] {
            assert_eq!(redacted(text, "p&ss<w0rd"), expected);
        }
        assert_eq!(redacted(r#"{"a":"sch\u00f6nes Wetter"}"#, "schönes Wetter"), r#"{"a":"<x>"}"#);
    }

    #[test]
    fn the_name_of_an_import_is_not_redacted() {
        let mut value = serde_json::json!([{"import": "writes.apply", "args": {"note": "writes"}}]);
        replace(&mut value, &forms("writes"), 4);
        assert_eq!(value, serde_json::json!([{"import": "writes.apply", "args": {"note": "<x>"}}]));
    }
}
