//! The canonical JSON of a value. It is used to compare set items, list keys and unique items.

use std::collections::BTreeMap;

use serde_json::Value;

/// The unique JSON text of a value: sorted fields, whole numbers without a fraction. Equal values have equal texts.
pub(crate) fn canonical(value: &Value) -> String {
    match value {
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(fields) => braces(&fields.iter().map(|(name, field)| (name.clone(), canonical(field))).collect()),
        Value::Number(number) if number.is_f64() => match number.as_f64() {
            // Up to 2⁵³, a float without a fraction represents exactly one integer.
            Some(float) if float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 => format!("{}", float + 0.0),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// A JSON object from fields whose values are already canonical JSON.
pub(crate) fn braces(fields: &BTreeMap<String, String>) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}:{value}", Value::from(name.as_str()))).collect();
    format!("{{{}}}", fields.join(","))
}
