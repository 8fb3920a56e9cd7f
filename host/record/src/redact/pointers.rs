//! Changes values at JSON pointers. In a pointer, `*` matches each element of a list and each field of an object.

use serde_json::Value;

fn unescaped(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// The segments of a pointer.
pub(super) fn segments(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(unescaped).collect()
}

/// Passes each value of `document` at `pointer` to `change`.
pub(super) fn each(document: &mut Value, pointer: &str, change: &mut dyn FnMut(&mut Value)) {
    below(document, &segments(pointer), change);
}

fn below(value: &mut Value, segments: &[String], change: &mut dyn FnMut(&mut Value)) {
    let Some((first, rest)) = segments.split_first() else { return change(value) };
    match value {
        Value::Object(fields) if first == "*" => fields.values_mut().for_each(|value| below(value, rest, change)),
        Value::Object(fields) => {
            if let Some(value) = fields.get_mut(first) {
                below(value, rest, change);
            }
        }
        Value::Array(items) if first == "*" => items.iter_mut().for_each(|value| below(value, rest, change)),
        Value::Array(items) => {
            if let Some(value) = first.parse::<usize>().ok().and_then(|place| items.get_mut(place)) {
                below(value, rest, change);
            }
        }
        _ => {}
    }
}

/// Changes values as [`each`] does, in a `value` that a JSON patch puts at `path`.
pub(super) fn within(value: &mut Value, path: &str, pointer: &str, change: &mut dyn FnMut(&mut Value)) {
    let (path, pointer) = (segments(path), segments(pointer));
    let agrees = path.iter().zip(&pointer).all(|(at, segment)| segment == "*" || at == segment);
    if agrees {
        // If `path` is longer than the pointer, the whole `value` is a part of what the pointer matches.
        below(value, pointer.get(path.len()..).unwrap_or_default(), change);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hidden(mut document: Value, pointer: &str) -> Value {
        each(&mut document, pointer, &mut |value| *value = json!("x"));
        document
    }

    #[test]
    fn a_pointer_matches_fields_and_each_element_of_a_list() {
        let document = json!({"spec": {"env": [{"name": "a", "value": 1}, {"name": "b"}], "p/q": 2}});
        let expected = json!({"spec": {"env": [{"name": "a", "value": "x"}, {"name": "b"}], "p/q": 2}});
        assert_eq!(hidden(document.clone(), "/spec/env/*/value"), expected);
        assert_eq!(hidden(document.clone(), "/spec/p~1q")["spec"]["p/q"], "x");
        assert_eq!(hidden(document.clone(), "/spec/none/0"), document);
    }

    #[test]
    fn a_pointer_matches_above_at_and_below_the_path_of_a_patch() {
        let hidden = |path: &str, mut value: Value| {
            within(&mut value, path, "/spec/tokens/*/value", &mut |value| *value = json!("x"));
            value
        };
        assert_eq!(hidden("/spec", json!({"tokens": [{"value": 1}]})), json!({"tokens": [{"value": "x"}]}));
        assert_eq!(hidden("/spec/tokens/0/value", json!(1)), json!("x"));
        assert_eq!(hidden("/spec/tokens/0/value/deep", json!(1)), json!("x"));
        assert_eq!(hidden("/spec/others/0/value", json!(1)), json!(1));
    }
}
