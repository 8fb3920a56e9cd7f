//! Parses field selectors as far as the host needs: whether the syntax is valid, which name a selector asks for, and
//! whether it admits an object that a call has written itself. For watches, the server selects the objects. Only the
//! server knows by which fields a kind can be selected.

use std::borrow::Cow;

use serde_json::Value;
use windlass_core::cache::watch::unescaped_field;
use windlass_core::object::Object;

/// Whether `selector` admits `object`. `None` if the text does not decide it, because only the server knows the fields
/// and defaults of each kind.
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

/// The path, the value, and whether they must be equal.
fn term_of(term: &str) -> Option<(&str, &str, bool)> {
    let operators = [("!=", false), ("==", true), ("=", true)];
    operators.iter().find_map(|(operator, equal)| {
        let (path, value) = term.split_once(operator)?;
        Some((path.trim(), value.trim(), *equal))
    })
}

/// The value at a path of names. A missing value is treated as an empty string if the wanted value suggests a string.
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

/// The reason why a text is not a field selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("in the field selector {selector:?}: {term:?} is not like field=value or field!=value")]
pub(crate) struct FieldSelectorError {
    selector: String,
    term: String,
}

/// The name of the only object that `selector` can match. `None` if it may match more than one.
pub(crate) fn only_name(selector: &str) -> Result<Option<Cow<'_, str>>, FieldSelectorError> {
    let mut name = None;
    for term in terms(selector).filter(|term| !term.is_empty()) {
        let wrong = || FieldSelectorError { selector: selector.to_owned(), term: term.to_owned() };
        let (field, value) = term.split_once('=').ok_or_else(wrong)?;
        let (field, is_equal) = field.strip_suffix('!').map_or((field, true), |field| (field, false));
        let value = value.strip_prefix('=').filter(|_| is_equal).unwrap_or(value);
        if field.is_empty() || has_bare(value, '=') {
            return Err(wrong());
        }
        if is_equal && field == "metadata.name" && !value.is_empty() {
            name = unescaped_field(value);
        }
    }
    Ok(name)
}

/// Whether `selector` selects everything, because it has no terms.
pub(crate) fn is_empty(selector: &str) -> bool {
    selector.split(',').all(str::is_empty)
}

/// The parts between commas that are not escaped by a backslash.
fn terms(selector: &str) -> impl Iterator<Item = &str> {
    let mut is_escaped = false;
    selector.split(move |c| {
        let ends = c == ',' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    })
}

fn has_bare(text: &str, wanted: char) -> bool {
    let mut is_escaped = false;
    text.chars().any(|c| {
        let found = c == wanted && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        found
    })
}

#[cfg(test)]
mod tests {
    use windlass_core::object::ObjectKind;

    use super::*;

    #[test]
    fn a_field_selector_is_decided_only_by_fields_in_the_text() {
        let text =
            r#"{"metadata":{"name":"a","namespace":"prod"},"spec":{"nodeName":"n","hostNetwork":true},"status":{}}"#;
        let object = crate::writer::answer::whole(&ObjectKind::new("v1", "Pod"), text).expect("an object");
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

    #[test]
    fn field_selectors_that_the_server_accepts_are_accepted() {
        for selector in [
            "",
            "status.phase=Running",
            "a==b",
            "a!=b",
            "a=",
            "a=b,c!=d",
            "a=b,,c=d",
            r"a=b\,c\=d",
            r"a=b\=c",
            "a.b/c=d",
        ] {
            assert_eq!(only_name(selector), Ok(None), "{selector}");
        }
    }

    #[test]
    fn field_selectors_that_the_server_refuses_are_refused() {
        for selector in ["a", "a=b,c", "=b", "!=b", "a=b=c", "a!==b", "a in (b)"] {
            assert!(only_name(selector).is_err(), "{selector}");
        }
        let error = only_name("a=b,phase").expect_err("no operator").to_string();
        assert!(error.contains("\"phase\""), "{error}");
    }

    #[test]
    fn a_name_is_known_where_nothing_else_can_match() {
        assert_eq!(only_name("metadata.name=a"), Ok(Some("a".into())));
        assert_eq!(only_name("status.phase!=x,metadata.name==a"), Ok(Some("a".into())));
        assert_eq!(only_name(r"metadata.name=x?y\=z\,D\\t"), Ok(Some(r"x?y=z,D\t".into())));
        for selector in ["metadata.name!=a", "metadata.name=", r"metadata.name=a\b", "metadata.namespace=a"] {
            assert_eq!(only_name(selector), Ok(None), "{selector}");
        }
    }
}
