//! Parses field selectors as far as the host needs: whether the syntax is valid, which name a selector asks for, and
//! whether it admits an object that a call has written itself. For watches, the server selects the objects. Only the
//! server knows by which fields a kind can be selected.

use std::borrow::Cow;
use std::str::FromStr;

use serde_json::Value;

use crate::object::Object;
use crate::object::shallow;

/// A parsed field selector. An object must match all terms. A selector without terms matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldTerm {
    field: String,
    /// The value as it was written, with its backslashes.
    value: String,
    is_equal: bool,
}

/// The reason why a text is not a field selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("in the field selector {selector:?}: {term:?} is not like field=value or field!=value")]
pub struct FieldSelectorError {
    selector: String,
    term: String,
}

impl FromStr for FieldSelector {
    type Err = FieldSelectorError;

    fn from_str(text: &str) -> Result<Self, FieldSelectorError> {
        let term_of = |term: &str| {
            FieldTerm::of(term).ok_or_else(|| FieldSelectorError { selector: text.to_owned(), term: term.to_owned() })
        };
        Ok(Self { terms: terms(text).filter(|term| !term.is_empty()).map(term_of).collect::<Result<_, _>>()? })
    }
}

impl FieldSelector {
    /// Whether the selector selects everything, because it has no terms.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The name of the only object that the selector can match. `None` if it may match more than one.
    #[must_use]
    pub fn only_name(&self) -> Option<Cow<'_, str>> {
        let names_one = |term: &&FieldTerm| term.is_equal && term.field == "metadata.name" && !term.value.is_empty();
        unescaped_field(&self.terms.iter().rfind(names_one)?.value)
    }

    /// Whether the selector admits `object`. `None` if the text alone does not decide this, because only the server
    /// knows the fields and defaults of each kind.
    #[must_use]
    pub fn admits(&self, object: &Object) -> Option<bool> {
        if self.terms.iter().any(FieldTerm::has_escapes) {
            return None;
        }
        let mut text = None;
        let mut all = true;
        for FieldTerm { field: path, value, is_equal } in &self.terms {
            let (path, wanted) = (path.trim(), value.trim());
            let key = &object.header.key;
            let found = match path {
                "metadata.name" => key.name.to_string(),
                "metadata.namespace" => key.namespace.as_deref().unwrap_or_default().to_owned(),
                _ => {
                    let value = text.get_or_insert_with(|| shallow::parse(&object.glance()).unwrap_or(Value::Null));
                    field(value, path, wanted)?
                }
            };
            all &= (found == wanted) == *is_equal;
        }
        Some(all)
    }
}

impl FieldTerm {
    /// `None` if the server refuses the term.
    fn of(term: &str) -> Option<Self> {
        let (field, value) = term.split_once('=')?;
        let (field, is_equal) = field.strip_suffix('!').map_or((field, true), |field| (field, false));
        let value = value.strip_prefix('=').filter(|_| is_equal).unwrap_or(value);
        let is_readable = !field.is_empty() && !has_bare(value, '=');
        is_readable.then(|| Self { field: field.to_owned(), value: value.to_owned(), is_equal })
    }

    fn has_escapes(&self) -> bool {
        self.field.contains('\\') || self.value.contains('\\')
    }
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

/// Unescapes a value of a field selector, where a backslash escapes commas, equals signs and backslashes. `None` if
/// `value` is malformed. As `UnescapeValue` of `k8s.io/apimachinery/pkg/fields`.
pub(crate) fn unescaped_field(value: &str) -> Option<Cow<'_, str>> {
    if !value.contains(['\\', ',', '=']) {
        return Some(value.into());
    }
    let mut text = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        text.push(match letter {
            '\\' => letters.next().filter(|escaped| matches!(escaped, '\\' | ',' | '='))?,
            ',' | '=' => return None,
            letter => letter,
        });
    }
    Some(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Header, ObjectKey};

    fn only_name(selector: &str) -> Result<Option<String>, FieldSelectorError> {
        Ok(selector.parse::<FieldSelector>()?.only_name().map(Cow::into_owned))
    }

    #[test]
    fn a_field_selector_is_decided_only_by_fields_in_the_text() {
        let text =
            r#"{"metadata":{"name":"a","namespace":"prod"},"spec":{"nodeName":"n","hostNetwork":true},"status":{}}"#;
        let object = Object::new(Header::bare(ObjectKey::namespaced("prod", "a"), "u-1", "1"), text);
        for (selector, expected) in [
            ("metadata.name=a", Some(true)),
            ("metadata.name==a,metadata.namespace!=prod", Some(false)),
            ("spec.nodeName=n,spec.hostNetwork=true", Some(true)),
            ("spec.nodeName!=n", Some(false)),
            ("status.phase=Running", Some(false)),
            ("status.phase!=Running", Some(true)),
            ("spec.unschedulable=false", None),
            ("status=", None),
            (r"metadata.name=a\,b", None),
        ] {
            let selector: FieldSelector = selector.parse().expect("a selector");
            assert_eq!(selector.admits(&object), expected, "{selector:?}");
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
        assert_eq!(only_name("metadata.name=a"), Ok(Some("a".to_owned())));
        assert_eq!(only_name("status.phase!=x,metadata.name==a"), Ok(Some("a".to_owned())));
        assert_eq!(only_name(r"metadata.name=x?y\=z\,D\\t"), Ok(Some(r"x?y=z,D\t".to_owned())));
        for selector in ["metadata.name!=a", "metadata.name=", r"metadata.name=a\b", "metadata.namespace=a"] {
            assert_eq!(only_name(selector), Ok(None), "{selector}");
        }
    }
}
