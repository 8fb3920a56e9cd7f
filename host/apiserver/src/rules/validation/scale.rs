//! Validates the fields of a custom resource that its scale subresource shows, like `ValidateScaleSpec` and
//! `ValidateScaleStatus` in `apiextensions-apiserver/pkg/registry/customresource/validator.go`.

use serde_json::Value;

use crate::cause::Cause;
use crate::merge::fields::go_text;
use crate::resources::resource::ScalePaths;

/// Validates the replicas and the selector. For a write to the status, only the fields in the status are checked.
pub(super) fn scale(paths: &ScalePaths, subresource: &str, object: &Value, causes: &mut Vec<Cause>) {
    if subresource != "status" {
        replicas(object, &paths.spec_replicas, causes);
    }
    replicas(object, &paths.status_replicas, causes);
    if let Some(path) = &paths.label_selector
        && let Err(why) = nested(object, path, "string", Value::is_string)
    {
        causes.push(Cause::invalid_shown(format!(".{path}"), "\"\"", &why));
    }
}

fn replicas(object: &Value, path: &str, causes: &mut Vec<Cause>) {
    let (shown, why) = match nested(object, path, "int64", Value::is_i64) {
        Err(why) => (0, why),
        Ok(found) => match found.and_then(Value::as_i64).unwrap_or(0) {
            found if found < 0 => (found, "should be a non-negative integer".to_owned()),
            found if found > i64::from(i32::MAX) => (found, format!("should be less than or equal to {}", i32::MAX)),
            _ => return,
        },
    };
    causes.push(Cause::invalid_shown(format!(".{path}"), &shown.to_string(), &why));
}

/// The value at a path, if there is one, like `NestedFieldNoCopy` of
/// `apimachinery/pkg/apis/meta/v1/unstructured/helpers.go`.
fn nested<'a>(
    object: &'a Value,
    path: &str,
    wanted: &str,
    fits: fn(&Value) -> bool,
) -> Result<Option<&'a Value>, String> {
    let refuse = |at: &str, found: &Value, wanted: &str| {
        Err(format!(".{at} accessor error: {} is of the type {}, expected {wanted}", go_text(found), go_type(found)))
    };
    let mut found = object;
    let mut at = String::new();
    for name in path.split('.') {
        let dot = if at.is_empty() { "" } else { "." };
        at = format!("{at}{dot}{name}");
        match found {
            Value::Object(fields) => match fields.get(name) {
                Some(field) => found = field,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => return refuse(&at, other, "map[string]interface{}"),
        }
    }
    if fits(found) { Ok(Some(found)) } else { refuse(&at, found, wanted) }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replicas_are_small_whole_numbers() {
        let paths = ScalePaths {
            spec_replicas: "spec.replicas".to_owned(),
            status_replicas: "status.replicas".to_owned(),
            label_selector: Some("status.selector".to_owned()),
        };
        let errors = |object: &Value| -> Vec<String> {
            let mut causes = Vec::new();
            scale(&paths, "", object, &mut causes);
            causes.iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            errors(&json!({"spec": {"replicas": 2_147_483_647}, "status": {"selector": "a"}})),
            Vec::<String>::new()
        );
        for (object, expected) in [
            (json!({"spec": {"replicas": -1}}), ".spec.replicas: Invalid value: -1: should be a non-negative integer"),
            (
                json!({"spec": {"replicas": 2_147_483_648_i64}}),
                ".spec.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647",
            ),
            (
                json!({"status": {"replicas": "x"}}),
                ".status.replicas: Invalid value: 0: .status.replicas accessor error: x is of the type string, expected int64",
            ),
            (
                json!({"spec": []}),
                ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: [] is of the type []interface {}, expected \
                 map[string]interface{}",
            ),
        ] {
            assert_eq!(errors(&object), [expected]);
        }
    }
}
