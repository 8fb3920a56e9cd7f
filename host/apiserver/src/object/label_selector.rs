//! Matches objects with a `metav1.LabelSelector`, which many specs contain.

use serde_json::Value;

use crate::object::{items, label, strings, text};

/// Whether a selector matches the object's labels. A selector without requirements matches all objects.
pub(crate) fn selects(selector: &Value, object: &Value) -> bool {
    has_all(object, selector.get("matchLabels"))
        && items(selector, "/matchExpressions").iter().all(|expression| holds(expression, object))
}

/// Whether the selector in the spec of `owner` matches the object. A missing selector matches nothing.
pub(crate) fn is_selected_by(owner: &Value, object: &Value) -> bool {
    owner.pointer("/spec/selector").is_some_and(|selector| selects(selector, object))
}

/// Whether the object has all labels in `wanted`. Without `wanted`, no labels are required.
pub(crate) fn has_all(object: &Value, wanted: Option<&Value>) -> bool {
    let wanted = wanted.and_then(Value::as_object);
    wanted.into_iter().flatten().all(|(key, value)| label(object, key) == value.as_str())
}

fn holds(expression: &Value, object: &Value) -> bool {
    let found = label(object, text(expression, "/key"));
    let values = strings(expression, "/values");
    match text(expression, "/operator") {
        "In" => found.is_some_and(|found| values.contains(&found)),
        "NotIn" => found.is_none_or(|found| !values.contains(&found)),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_requirements_must_hold() {
        let object = json!({ "metadata": { "labels": { "app": "web", "tier": "front" } } });
        let expression = |key: &str, operator: &str, values: &[&str]| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
        let cases = [
            (json!({}), true),
            (json!({ "matchLabels": { "app": "web" } }), true),
            (json!({ "matchLabels": { "app": "web", "tier": "back" } }), false),
            (expression("app", "In", &["db", "web"]), true),
            (expression("app", "NotIn", &["web"]), false),
            (expression("zone", "NotIn", &["a"]), true),
            (expression("tier", "Exists", &[]), true),
            (expression("tier", "DoesNotExist", &[]), false),
            (expression("tier", "Near", &[]), false),
        ];
        for (selector, expected) in cases {
            assert_eq!(selects(&selector, &object), expected, "{selector}");
        }
    }
}
