//! The schema of a configuration file, made from the flags. `docs/schema/host-configuration.schema.json` is its output.

use serde_json::{Map, Value, json};
use windlass_manifest::API_VERSION;

use super::file::KIND;
use super::keys::{ConfigKey, KeyForm, KeyKind};

/// The JSON schema of a file with these keys.
pub(super) fn schema(keys: &[ConfigKey]) -> Value {
    let mut properties = Map::new();
    properties
        .insert("apiVersion".to_owned(), json!({"description": "The version of this format.", "const": API_VERSION}));
    properties.insert("kind".to_owned(), json!({"description": "The kind of the document.", "const": KIND}));
    properties.extend(keys.iter().map(|key| (key.name.clone(), property(key))));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Windlass host configuration",
        "description": "The settings of a host: the file of `windlass run --config`. Flags and environment variables override it.",
        "type": "object",
        "required": ["apiVersion", "kind"],
        "additionalProperties": false,
        "properties": properties,
    })
}

fn property(key: &ConfigKey) -> Value {
    let mut property = match key.form {
        KeyForm::One => value(key),
        KeyForm::List => json!({"type": "array", "items": value(key)}),
        KeyForm::Map => {
            json!({"type": "object", "additionalProperties": {"type": ["boolean", "integer", "number", "string"]}})
        }
    };
    let environment = key.environment().map(|name| format!(", environment variable `{name}`")).unwrap_or_default();
    property["description"] =
        format!("{}.\n\nFlag `{}`{environment}.", key.help().trim_end_matches('.'), key.flag()).into();
    if !key.names().is_empty() {
        property["propertyNames"] = json!({"enum": key.names()});
    }
    if let (KeyForm::One, Some(default)) = (key.form, key.default()) {
        property["default"] = typed(key.kind, &default);
    }
    property
}

/// One value of the key.
fn value(key: &ConfigKey) -> Value {
    let choices = key.choices();
    match key.kind {
        KeyKind::Bool => json!({"type": "boolean"}),
        KeyKind::Integer => json!({"type": "integer", "minimum": 0}),
        KeyKind::Number => json!({"type": "number"}),
        KeyKind::Size => json!({"type": ["integer", "string"], "minimum": 1, "pattern": "^0*[1-9][0-9]*(Ki|Mi|Gi)?$"}),
        KeyKind::Time => json!({"type": "string", "pattern": "^[0-9]+(ms|s|m)$"}),
        KeyKind::Path | KeyKind::Text if choices.is_empty() => json!({"type": "string", "minLength": 1}),
        KeyKind::Path | KeyKind::Text => json!({"type": "string", "enum": choices}),
    }
}

/// A flag's value in JSON.
pub(super) fn typed(kind: KeyKind, value: &str) -> Value {
    let parsed = match kind {
        KeyKind::Bool | KeyKind::Integer | KeyKind::Number => serde_json::from_str(value).ok(),
        KeyKind::Size | KeyKind::Time | KeyKind::Path | KeyKind::Text => None,
    };
    parsed.unwrap_or_else(|| value.into())
}
