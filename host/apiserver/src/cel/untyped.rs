//! Converts JSON without a schema to values of expressions.

use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::{Key, Map};

/// Converts a value without a declared type: a JSON string becomes a `string`, and a whole number an `int`.
pub(crate) fn untyped(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(flag) => Value::Bool(*flag),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::Int(whole),
            (None, Some(float)) => Value::Float(float),
            (None, None) => Value::Null,
        },
        serde_json::Value::String(text) => Value::String(Arc::new(text.clone())),
        serde_json::Value::Array(items) => Value::List(Arc::new(items.iter().map(untyped).collect())),
        serde_json::Value::Object(fields) => {
            let key = |name: &String| Key::String(Arc::new(name.clone()));
            let map = fields.iter().map(|(name, field)| (key(name), untyped(field))).collect();
            Value::Map(Map { map: Arc::new(map) })
        }
    }
}
