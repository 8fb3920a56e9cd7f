//! Encodes OpenAPI v2 as gnostic's protobuf messages (`openapiv2/OpenAPIv2.proto` of `google/gnostic-models` 0.7),
//! which client-go requests. Only fields that occur in this server's documents are supported.

use std::convert::Infallible;

use serde_json::{Map, Value};

use crate::protobuf::wire;

/// Encodes the document of [`super::v2`].
pub(super) fn document(document: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    text(1, &document["swagger"], &mut bytes);
    message(2, &mut bytes, |bytes| {
        text(1, &document["info"]["title"], bytes);
        text(2, &document["info"]["version"], bytes);
    });
    message(8, &mut bytes, |bytes| named(2, &document["paths"], bytes, path));
    message(9, &mut bytes, |bytes| named(1, &document["definitions"], bytes, schema));
    bytes
}

/// Writes a `PathItem`.
fn path(path: &Value, bytes: &mut Vec<u8>) {
    for (number, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if path[method].is_object() {
            message(number, bytes, |bytes| operation(&path[method], bytes));
        }
    }
}

fn operation(operation: &Value, bytes: &mut Vec<u8>) {
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        // The nested messages are `ParametersItem`, `Parameter`, `NonBodyParameter` and `QueryParameterSubSchema`. The
        // first three are a `oneof` each.
        message(8, bytes, |bytes| {
            message(1, bytes, |bytes| message(2, bytes, |bytes| message(3, bytes, |bytes| query(parameter, bytes))));
        });
    }
    message(9, bytes, |bytes| {
        named(1, &operation["responses"], bytes, |response, bytes| {
            message(1, bytes, |bytes| {
                text(1, &response["description"], bytes);
                message(2, bytes, |bytes| message(1, bytes, |bytes| schema(&response["schema"], bytes)));
            });
        });
    });
    extensions(13, operation, bytes);
}

fn query(parameter: &Value, bytes: &mut Vec<u8>) {
    text(2, &parameter["in"], bytes);
    text(4, &parameter["name"], bytes);
    text(6, &parameter["type"], bytes);
    flag(20, &parameter["uniqueItems"], bytes);
}

fn schema(schema: &Value, bytes: &mut Vec<u8>) {
    for (number, key) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description")] {
        text(number, &schema[key], bytes);
    }
    any(5, &schema["default"], bytes);
    number(6, &schema["multipleOf"], bytes);
    number(7, &schema["maximum"], bytes);
    flag(8, &schema["exclusiveMaximum"], bytes);
    number(9, &schema["minimum"], bytes);
    flag(10, &schema["exclusiveMinimum"], bytes);
    count(11, &schema["maxLength"], bytes);
    count(12, &schema["minLength"], bytes);
    text(13, &schema["pattern"], bytes);
    count(14, &schema["maxItems"], bytes);
    count(15, &schema["minItems"], bytes);
    flag(16, &schema["uniqueItems"], bytes);
    count(17, &schema["maxProperties"], bytes);
    count(18, &schema["minProperties"], bytes);
    each(&schema["required"], |name| text(19, name, bytes));
    each(&schema["enum"], |value| any(20, value, bytes));
    match &schema["additionalProperties"] {
        Value::Bool(allowed) => message(21, bytes, |bytes| wire::integer(2, (*allowed).into(), bytes)),
        Value::Object(_) => {
            message(21, bytes, |bytes| message(1, bytes, |bytes| self::schema(&schema["additionalProperties"], bytes)));
        }
        _ => {}
    }
    if schema["type"].is_string() {
        message(22, bytes, |bytes| text(1, &schema["type"], bytes));
    }
    if schema["items"].is_object() {
        message(23, bytes, |bytes| message(1, bytes, |bytes| self::schema(&schema["items"], bytes)));
    }
    each(&schema["allOf"], |part| message(24, bytes, |bytes| self::schema(part, bytes)));
    if schema["properties"].is_object() {
        message(25, bytes, |bytes| named(1, &schema["properties"], bytes, self::schema));
    }
    any(30, &schema["example"], bytes);
    extensions(31, schema, bytes);
}

/// Writes the entries of a map, each with its name and value.
fn named(number: u32, map: &Value, bytes: &mut Vec<u8>, value: impl Fn(&Value, &mut Vec<u8>)) {
    for (name, item) in map.as_object().into_iter().flatten() {
        message(number, bytes, |bytes| {
            wire::text(1, name, bytes);
            message(2, bytes, |bytes| value(item, bytes));
        });
    }
}

/// Writes extensions, whose names begin with `x-`, as YAML. Their JSON is already valid YAML.
fn extensions(number: u32, of: &Value, bytes: &mut Vec<u8>) {
    let extensions: Map<String, Value> = of
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.starts_with("x-"))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    named(number, &Value::Object(extensions), bytes, |value, bytes| wire::text(2, &value.to_string(), bytes));
}

/// Writes an `Any`.
fn any(number: u32, value: &Value, bytes: &mut Vec<u8>) {
    if !value.is_null() {
        message(number, bytes, |bytes| wire::text(2, &value.to_string(), bytes));
    }
}

fn message(number: u32, bytes: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    let Ok(()) = wire::delimited(number, bytes, |bytes| {
        content(bytes);
        Ok::<(), Infallible>(())
    });
}

fn text(number: u32, value: &Value, bytes: &mut Vec<u8>) {
    if let Some(text) = value.as_str() {
        wire::text(number, text, bytes);
    }
}

fn number(number: u32, value: &Value, bytes: &mut Vec<u8>) {
    if let Some(value) = value.as_f64() {
        wire::double(number, value, bytes);
    }
}

fn count(number: u32, value: &Value, bytes: &mut Vec<u8>) {
    if let Some(value) = value.as_i64() {
        wire::integer(number, value, bytes);
    }
}

fn flag(number: u32, value: &Value, bytes: &mut Vec<u8>) {
    if let Some(value) = value.as_bool() {
        wire::integer(number, value.into(), bytes);
    }
}

fn each(list: &Value, act: impl FnMut(&Value)) {
    list.as_array().into_iter().flatten().for_each(act);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The bytes of the same document after gnostic's `ParseDocument` and marshalling.
    const AS_GNOSTIC: &str = "0a03322e3012060a0174120176423f123d0a022f7012371235421b0a1912171a151205717565727922016e320673\
        7472696e67a001014a160a140a03323030120d0a0b0a024f4b12050a030a01724a720a700a0144126b49000000000000f03f58ac029a01\
        01619a010162aa01021000b201080a066f626a656374ca01440a220a0161121db201070a056172726179ba01100a0e120166b201080a06\
        737472696e670a1e0a01621219220164aa010d0a0bb201080a06737472696e67c201030a0178";

    #[test]
    fn a_document_is_written_as_gnostic_writes_it() {
        let written = document(&json!({
            "swagger": "2.0",
            "info": { "title": "t", "version": "v" },
            "paths": { "/p": { "get": {
                "parameters": [{ "name": "n", "in": "query", "type": "string", "uniqueItems": true }],
                "responses": { "200": { "description": "OK", "schema": { "$ref": "r" } } },
            } } },
            "definitions": { "D": {
                "type": "object",
                "minimum": 1,
                "maxLength": 300,
                "required": ["a", "b"],
                "additionalProperties": false,
                "properties": {
                    "a": { "type": "array", "items": { "type": "string", "format": "f" } },
                    "b": {
                        "additionalProperties": { "type": "string" },
                        "allOf": [{ "$ref": "x" }],
                        "description": "d",
                    },
                },
            } },
        }));
        let written: Vec<String> = written.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written.concat(), AS_GNOSTIC);
    }

    #[test]
    fn an_extension_is_yaml() {
        let mut written = Vec::new();
        schema(&json!({ "x-k": [{ "a": 1 }], "x-s": "t", "other": 1 }), &mut written);
        assert_eq!(
            written,
            b"\xfa\x01\x12\x0a\x03x-k\x12\x0b\x12\x09[{\"a\":1}]\xfa\x01\x0c\x0a\x03x-s\x12\x05\x12\x03\"t\""
        );
    }
}
