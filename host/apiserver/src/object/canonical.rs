//! The canonical JSON of a value. Set items, list keys and unique items compare by it.

use std::collections::BTreeMap;

use serde_json::Value;

/// The one JSON text of a value: fields sorted, whole numbers without a fraction. Equal texts are equal values.
pub(crate) fn canonical(value: &Value) -> String {
    match value {
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(fields) => braces(&fields.iter().map(|(name, field)| (name.clone(), canonical(field))).collect()),
        Value::Number(number) if number.is_f64() => match number.as_f64() {
            // Up to 2⁵³ a float is exactly the integer that it looks like.
            Some(float) if float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 => format!("{}", float + 0.0),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// A JSON object of fields whose values are canonical JSON already.
pub(crate) fn braces(fields: &BTreeMap<String, String>) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}:{value}", Value::from(name.as_str()))).collect();
    format!("{{{}}}", fields.join(","))
}
