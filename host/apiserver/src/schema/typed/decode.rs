//! Decodes an object like a Go server that decodes it into its types: unknown fields are dropped and reported, values
//! of the wrong type are refused, quantities and times are brought into their canonical form, and zero values are
//! dropped where Go omits them.
//!
//! The messages follow `sigs.k8s.io/json` and the types' own `UnmarshalJSON`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Number, Value, json};

use crate::cause::Cause;
use crate::object::{decode_base64, go_kind, is_go_zero};

use super::{Field, METADATA, StructType, TypeEntry, ValueShape, Zero, entry, moment, quantity};

/// The error for a value of the wrong type, in a real server's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct TypeError(String);

impl From<Cause> for TypeError {
    fn from(cause: Cause) -> TypeError {
        TypeError(cause.to_string())
    }
}

/// The decoder of a real server whose error messages are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The JSON decoder. It reads bodies.
    Json,
    /// `k8s.io/apimachinery/pkg/runtime/converter.go`. It reads the result of a strategic merge patch.
    Converter,
    /// `structured-merge-diff/typed`. It reads the configuration of an apply.
    Applied,
}

/// Decodes an object of a type. Returns the unknown fields.
pub(crate) fn decode(root: &'static TypeEntry, object: &mut Value, reading: Reading) -> Result<Vec<String>, TypeError> {
    let kind = root.read();
    let mut walk = Decoding { unknown: Vec::new(), path: String::new(), names: Vec::new(), holder: kind.go, reading };
    walk.value(&ValueShape::Struct(root), kind.go, object)?;
    Ok(walk.unknown)
}

/// Checks only the metadata of an object. Later code relies on its shape.
pub(crate) fn check_metadata(metadata: &Value) -> Result<(), TypeError> {
    read_metadata(vec!["metadata".to_owned()], &mut metadata.clone()).map(|_| ())
}

/// Decodes metadata without an object around it. Returns the unknown fields.
pub(crate) fn decode_metadata(metadata: &mut Value) -> Result<Vec<String>, TypeError> {
    read_metadata(Vec::new(), metadata)
}

/// Decodes metadata. In errors, `names` are the fields that lead to it.
fn read_metadata(names: Vec<String>, metadata: &mut Value) -> Result<Vec<String>, TypeError> {
    let Some(root) = entry(METADATA) else { return Ok(Vec::new()) };
    let (holder, reading) = (root.read().go, Reading::Json);
    let mut walk = Decoding { unknown: Vec::new(), path: String::new(), names, holder, reading };
    walk.value(&ValueShape::Struct(root), "v1.ObjectMeta", metadata)?;
    Ok(walk.unknown)
}

struct Decoding {
    unknown: Vec<String>,
    /// The current path, with positions in lists, such as `spec.ports[0].port`.
    path: String,
    /// The fields on the current path, without positions and keys, for type errors.
    names: Vec<String>,
    /// The name of the struct that contains the last field in `names`.
    holder: &'static str,
    reading: Reading,
}

impl Decoding {
    /// Decodes a value that is not null.
    fn value(&mut self, shape: &ValueShape, go: &str, value: &mut Value) -> Result<(), TypeError> {
        match (shape, &mut *value) {
            (_, Value::Number(number)) if fits(shape, number) => Ok(()),
            (ValueShape::Any, _)
            | (ValueShape::Text | ValueShape::IntOrString, Value::String(_))
            | (ValueShape::Bool, Value::Bool(_)) => Ok(()),
            (ValueShape::Struct(entry), Value::Object(fields)) => self.fields(entry.read(), fields),
            (ValueShape::List(items), Value::Array(list)) => self.items(items, element(go), list),
            (ValueShape::Map(values), Value::Object(map)) => self.entries(values, element(go), map),
            (ValueShape::OneOrMany(name), _) => self.one_or_many(name, value),
            (ValueShape::IntOrString, other) => {
                Err(TypeError(format!("json: cannot unmarshal {} into Go value of type int32", go_kind(other))))
            }
            (ValueShape::Bytes, Value::String(text)) => {
                bytes(text)?;
                if let Some(bytes) = decode_base64(text) {
                    *text = BASE64_STANDARD.encode(bytes);
                }
                Ok(())
            }
            (ValueShape::Quantity, Value::String(_) | Value::Number(_)) => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                *value = json!(quantity::canonical(&text).map_err(|error| TypeError(error.to_string()))?);
                Ok(())
            }
            (ValueShape::Quantity, _) => Err(TypeError(quantity::QuantityError::Format.to_string())),
            (ValueShape::Time, Value::String(text)) => {
                let moment = moment::seconds(text);
                taken(value, moment)
            }
            (ValueShape::MicroTime, Value::String(text)) => {
                let moment = moment::micros(text);
                taken(value, moment)
            }
            (ValueShape::Time | ValueShape::MicroTime, other) => {
                Err(TypeError(format!("json: cannot unmarshal {} into Go value of type string", go_kind(other))))
            }
            (_, other) => Err(match self.reading {
                Reading::Json => self.mistyped(other, go),
                Reading::Converter => not_converted(shape, other, go),
                Reading::Applied => not_typed(&self.path, shape, other),
            }),
        }
    }

    fn fields(&mut self, kind: &'static StructType, fields: &mut Map<String, Value>) -> Result<(), TypeError> {
        let outer = std::mem::replace(&mut self.holder, kind.go);
        let names: Vec<String> = fields.keys().cloned().collect();
        for name in names {
            let dot = if self.path.is_empty() { "" } else { "." };
            let segment = format!("{dot}{name}");
            let Some(field) = kind.fields.get(&name) else {
                fields.remove(&name);
                self.unknown.push(format!("{}{segment}", self.path));
                continue;
            };
            let Some(value) = fields.get_mut(&name) else { continue };
            if !value.is_null() {
                self.names.push(name.clone());
                self.below(&segment, |walk| walk.value(&field.shape, go_type(field), value))?;
                self.names.pop();
            }
            if value.is_null() || (field.zero == Zero::Omitted && is_go_zero(value)) {
                fields.remove(&name);
            }
        }
        self.holder = outer;
        Ok(())
    }

    fn items(&mut self, shape: &ValueShape, go: &str, list: &mut [Value]) -> Result<(), TypeError> {
        for (index, item) in list.iter_mut().enumerate() {
            if item.is_null() {
                *item = zero(shape);
            } else {
                self.below(&format!("[{index}]"), |walk| walk.value(shape, go, item))?;
            }
        }
        Ok(())
    }

    fn entries(&mut self, shape: &ValueShape, go: &str, map: &mut Map<String, Value>) -> Result<(), TypeError> {
        for (key, value) in map {
            if value.is_null() {
                *value = zero(shape);
            } else {
                self.below(&format!(".{key}"), |walk| walk.value(shape, go, value))?;
            }
        }
        Ok(())
    }

    fn one_or_many(&mut self, name: &str, value: &mut Value) -> Result<(), TypeError> {
        let Some(entry) = entry(name) else { return Ok(()) };
        match value {
            Value::Object(fields) => self.fields(entry.read(), fields),
            Value::Array(list) => {
                let maps = list.iter_mut().filter_map(Value::as_object_mut);
                maps.into_iter().try_for_each(|fields| self.fields(entry.read(), fields))
            }
            _ => Ok(()),
        }
    }

    fn mistyped(&self, value: &Value, go: &str) -> TypeError {
        let found = match value {
            // The value is a number, but the type cannot represent it.
            Value::Number(number) if go_is_integer(go) => format!("number {number}"),
            other => go_kind(other).to_owned(),
        };
        let place = match self.names.as_slice() {
            [] => "Go value".to_owned(),
            names => format!("Go struct field {}.{}", self.holder, names.join(".")),
        };
        TypeError(format!("json: cannot unmarshal {found} into {place} of type {go}"))
    }

    fn below<T>(&mut self, segment: &str, visit: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        self.path.push_str(segment);
        let answer = visit(self);
        self.path.truncate(length);
        answer
    }
}

fn fits(shape: &ValueShape, number: &Number) -> bool {
    match shape {
        ValueShape::Int32 | ValueShape::IntOrString => {
            number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
        }
        ValueShape::Int64 => number.is_i64(),
        ValueShape::Float => true,
        _ => false,
    }
}

/// The error of [`Reading::Converter`] for a value of the wrong type.
fn not_converted(shape: &ValueShape, value: &Value, go: &str) -> TypeError {
    let from = match value {
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        other => go_kind(other),
    };
    let kind = match value {
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
        _ => from,
    };
    TypeError(match (shape, value) {
        (ValueShape::Struct(_), _) => format!("cannot restore struct from: {kind}"),
        (ValueShape::List(_) | ValueShape::Bytes, _) => format!("cannot restore slice from {kind}"),
        (ValueShape::Map(_), _) => format!("cannot restore map from {kind}"),
        (ValueShape::Text | ValueShape::Int32 | ValueShape::Int64, Value::Number(_)) => {
            format!("cannot convert {from} to {go}")
        }
        (ValueShape::Text, _) => "unrecognized type: string".to_owned(),
        (ValueShape::Bool, _) => "unrecognized type: bool".to_owned(),
        (ValueShape::Int32, _) => "unrecognized type: int32".to_owned(),
        (ValueShape::Int64, _) => "unrecognized type: int64".to_owned(),
        _ => format!("cannot convert {from} to {go}"),
    })
}

/// The error of [`Reading::Applied`] for a value of the wrong type.
fn not_typed(path: &str, shape: &ValueShape, value: &Value) -> TypeError {
    let expected = match shape {
        ValueShape::Struct(_) | ValueShape::Map(_) => "map",
        ValueShape::List(_) => "list",
        ValueShape::Int32 | ValueShape::Int64 | ValueShape::Float => "numeric (int or float)",
        ValueShape::Bool => "boolean",
        _ => "string",
    };
    let got = match (expected, value) {
        ("numeric (int or float)", _) => go_kind(value).to_owned(),
        (_, Value::Array(_) | Value::Object(_)) => "&{}".to_owned(),
        (_, Value::String(text)) => format!("&{{{text}}}"),
        ("string", other) => format!("&value.valueUnstructured{{Value:{other}}}"),
        (_, other) => format!("&{{{other}}}"),
    };
    TypeError(format!(".{path}: expected {expected}, got {got}"))
}

/// The Go type of a field. For a pointer, the type that it points to.
fn go_type(field: &Field) -> &str {
    match field.go.as_str() {
        // Only this named type does not show the type of its elements.
        "v1.ResourceList" => "map[v1.ResourceName]resource.Quantity",
        other => other,
    }
}

/// The type of the elements: `v1.Container` for `[]v1.Container`, and `string` for `map[string]string`.
fn element(go: &str) -> &str {
    let element =
        go.strip_prefix("[]").or_else(|| go.strip_prefix("map[").and_then(|rest| Some(rest.split_once(']')?.1)));
    element.unwrap_or(go)
}

fn go_is_integer(go: &str) -> bool {
    ["int32", "int64", "int", "uint64"].contains(&go)
}

fn taken(value: &mut Value, read: Result<Option<String>, String>) -> Result<(), TypeError> {
    *value = read.map_err(TypeError)?.map_or(Value::Null, Value::String);
    Ok(())
}

/// Refuses a text that is not base64, because Go decodes it into bytes. Line breaks are skipped.
fn bytes(text: &str) -> Result<(), TypeError> {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let plain: Vec<(usize, u8)> = text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n')).collect();
    let padding = plain.iter().rev().take_while(|(_, byte)| *byte == b'=').count();
    let (digits, _) = plain.split_at(plain.len() - padding.min(2));
    let bad = digits.iter().find(|(_, byte)| !is_digit(*byte)).map(|(at, _)| *at);
    match bad.or_else(|| (!plain.len().is_multiple_of(4)).then_some(plain.len() / 4 * 4)) {
        Some(at) => Err(TypeError(format!("illegal base64 data at input byte {at}"))),
        None => Ok(()),
    }
}

/// The zero value of a type, as JSON.
fn zero(shape: &ValueShape) -> Value {
    match shape {
        ValueShape::Struct(_) => json!({}),
        ValueShape::Text | ValueShape::Bytes => json!(""),
        ValueShape::Bool => json!(false),
        ValueShape::Int32 | ValueShape::Int64 | ValueShape::Float | ValueShape::IntOrString => json!(0),
        ValueShape::Quantity => json!("0"),
        ValueShape::List(_)
        | ValueShape::Map(_)
        | ValueShape::Time
        | ValueShape::MicroTime
        | ValueShape::OneOrMany(_)
        | ValueShape::Any => Value::Null,
    }
}

/// Adds the zero values that Go writes for missing fields. The server does this before it stores an object.
pub(crate) fn fill_zeros(root: &'static TypeEntry, object: &mut Value) {
    fill(&ValueShape::Struct(root), object);
}

fn fill(shape: &ValueShape, value: &mut Value) {
    match (shape, value) {
        (ValueShape::Struct(entry), Value::Object(fields)) => {
            for (name, field) in &entry.read().fields {
                if field.zero == Zero::Written && fields.get(name).is_none_or(Value::is_null) {
                    fields.insert(name.clone(), zero(&field.shape));
                }
                if let Some(value) = fields.get_mut(name) {
                    fill(&field.shape, value);
                }
            }
        }
        (ValueShape::List(items), Value::Array(list)) => list.iter_mut().for_each(|item| fill(items, item)),
        (ValueShape::Map(values), Value::Object(map)) => map.values_mut().for_each(|value| fill(values, value)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(kind: &str, mut object: Value) -> Result<(Value, Vec<String>), String> {
        let unknown = decode(entry(kind).expect("a built-in kind"), &mut object, Reading::Json);
        unknown.map(|unknown| (object, unknown)).map_err(|error| error.to_string())
    }

    const DEPLOYMENT: &str = "io.k8s.api.apps.v1.Deployment";

    #[test]
    fn unknown_fields_are_dropped_and_reported() {
        let object =
            json!({"x": 1, "spec": {"replicaz": 2, "template": {"spec": {"containers": [{"name": "a", "img": 1}]}}}});
        let (object, unknown) = decoded(DEPLOYMENT, object).unwrap();
        assert_eq!(object, json!({"spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}}));
        assert_eq!(unknown, ["spec.replicaz", "spec.template.spec.containers[0].img", "x"]);
    }

    #[test]
    fn mistyped_values_are_refused_with_gos_messages() {
        for (spec, error) in [
            (json!({"replicas": "two"}), "string into Go struct field DeploymentSpec.spec.replicas of type int32"),
            (json!({"replicas": 1.5}), "number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32"),
            (json!({"paused": 1}), "number into Go struct field DeploymentSpec.spec.paused of type bool"),
            (
                json!({"template": {"spec": {"containers": {}}}}),
                "object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
            ),
            (
                json!({"template": {"spec": {"dnsPolicy": 1}}}),
                "number into Go struct field PodSpec.spec.template.spec.dnsPolicy of type v1.DNSPolicy",
            ),
            (
                json!({"selector": {"matchLabels": {"a": 1}}}),
                "number into Go struct field LabelSelector.spec.selector.matchLabels of type string",
            ),
        ] {
            let refused = decoded(DEPLOYMENT, json!({ "spec": spec })).unwrap_err();
            assert_eq!(refused, format!("json: cannot unmarshal {error}"));
        }
    }

    #[test]
    fn zeros_are_dropped_and_filled_in_as_go_does() {
        let object = json!({"spec": {"replicas": 0, "paused": false, "minReadySeconds": 0, "template": {"spec": {"volumes": []}}}});
        let (mut object, _) = decoded(DEPLOYMENT, object).unwrap();
        assert_eq!(object, json!({"spec": {"replicas": 0, "template": {"spec": {}}}}));
        fill_zeros(entry(DEPLOYMENT).unwrap(), &mut object);
        let template = json!({"metadata": {}, "spec": {"containers": null}});
        assert_eq!(object["spec"], json!({"replicas": 0, "strategy": {}, "template": template}));
    }

    #[test]
    fn bytes_are_base64() {
        let secret = |text: &str| decoded("io.k8s.api.core.v1.Secret", json!({"data": {"a": text}}));
        assert!(secret("YQ==").is_ok() && secret("").is_ok());
        for written in ["Y\nQ==\r\n", "YR=="] {
            assert_eq!(secret(written).unwrap().0["data"]["a"], "YQ==", "{written:?}");
        }
        assert_eq!(secret("a_b").unwrap_err(), "illegal base64 data at input byte 1");
    }

    #[test]
    fn times_and_quantities_have_one_form() {
        let object = json!({"metadata": {"creationTimestamp": "2026-01-01T02:00:00+01:00"}, "spec": {"hard": {"cpu": "1500m", "memory": 1024.5, "pods": "0.5"}}});
        let (object, _) = decoded("io.k8s.api.core.v1.ResourceQuota", object).unwrap();
        assert_eq!(object["metadata"]["creationTimestamp"], "2026-01-01T01:00:00Z");
        assert_eq!(object["spec"]["hard"], json!({"cpu": "1500m", "memory": "1024500m", "pods": "500m"}));
    }
}
