//! Makes the OpenAPI schema that a real server publishes for a type, by adding descriptions to the schema in the
//! library.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::TypeEntry;
use super::library::unpack;

/// Compressed lines of `NAME JSON`. The JSON has the descriptions of a type's fields, and under the empty name the
/// description of the type itself.
const DESCRIPTIONS: &[u8] = include_bytes!("../../../kubernetes/descriptions.gz");

static TEXT: LazyLock<String> = LazyLock::new(|| unpack(DESCRIPTIONS));

static BY_NAME: LazyLock<BTreeMap<&'static str, &'static str>> =
    LazyLock::new(|| TEXT.lines().filter_map(|line| line.split_once(' ')).collect());

/// The published schema of a type.
pub(crate) fn openapi(entry: &TypeEntry) -> Value {
    let mut schema: Value = serde_json::from_str(entry.json).unwrap_or_default();
    let read = |json: &&str| serde_json::from_str::<BTreeMap<String, String>>(json).unwrap_or_default();
    let descriptions = BY_NAME.get(entry.name).map(read).unwrap_or_default();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, property) in properties {
            let Some(property) = property.as_object_mut() else { continue };
            property.remove("x-go");
            if let Some(text) = descriptions.get(name) {
                property.insert("description".to_owned(), json!(text));
            }
        }
    }
    if let (Some(text), Some(schema)) = (descriptions.get(""), schema.as_object_mut()) {
        schema.insert("description".to_owned(), json!(text));
    }
    schema
}
