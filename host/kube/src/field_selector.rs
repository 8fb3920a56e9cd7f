//! Field selectors, evaluated in the host as far as an object's text tells. Only for objects that a call has written
//! itself: what watches show, the server has selected.

use serde_json::Value;
use windlass_core::object::Object;

/// Whether `selector` admits `object`. None: the text does not tell, since each kind has fields and defaults of its own
/// that only the server knows.
pub(crate) fn admits(selector: &str, object: &Object) -> Option<bool> {
    if selector.contains('\\') {
        return None;
    }
    let mut text = None;
    let mut all = true;
    for term in selector.split(',').filter(|term| !term.is_empty()) {
        let (path, wanted, equal) = term_of(term)?;
        let key = &object.header.key;
        let found = match path {
            "metadata.name" => key.name.to_string(),
            "metadata.namespace" => key.namespace.as_deref().unwrap_or_default().to_owned(),
            _ => {
                let value = text.get_or_insert_with(|| serde_json::from_str(&object.glance()).unwrap_or(Value::Null));
                field(value, path, wanted)?
            }
        };
        all &= (found == wanted) == equal;
    }
    Some(all)
}

/// Path, value, and whether they are to be equal.
fn term_of(term: &str) -> Option<(&str, &str, bool)> {
    let operators = [("!=", false), ("==", true), ("=", true)];
    operators.iter().find_map(|(operator, equal)| {
        let (path, value) = term.split_once(operator)?;
        Some((path.trim(), value.trim(), *equal))
    })
}

/// The value at a path of names. One that is missing is empty if it is a string, which its kind says and this guesses.
fn field(object: &Value, path: &str, wanted: &str) -> Option<String> {
    match path.split('.').try_fold(object, |value, name| value.get(name)) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Bool(value)) => Some(value.to_string()),
        Some(Value::Number(number)) => Some(number.to_string()),
        Some(_) => None,
        None if matches!(wanted, "true" | "false") || wanted.parse::<f64>().is_ok() => None,
        None => Some(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::object::ObjectKind;

    use super::*;

    #[test]
    fn what_the_text_tells_is_decided_and_nothing_else() {
        let text =
            r#"{"metadata":{"name":"a","namespace":"prod"},"spec":{"nodeName":"n","hostNetwork":true},"status":{}}"#;
        let object = crate::write_answer::whole(&ObjectKind::new("v1", "Pod"), text).expect("an object");
        for (selector, expected) in [
            ("metadata.name=a", Some(true)),
            ("metadata.name==a,metadata.namespace!=prod", Some(false)),
            ("spec.nodeName=n,spec.hostNetwork=true", Some(true)),
            ("spec.nodeName!=n", Some(false)),
            ("status.phase=Running", Some(false)),
            ("status.phase!=Running", Some(true)),
            ("spec.unschedulable=false", None),
            ("status=", None),
            ("nonsense", None),
            (r"metadata.name=a\,b", None),
        ] {
            assert_eq!(admits(selector, &object), expected, "{selector}");
        }
    }
}
