//! The values under which an index of a cache finds an object.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::cache::watch::{IndexSource, SelectorForm};
use crate::object::Object;
use crate::object::pointer;
use crate::object::reference::ReferencePath;
use crate::object::selector::Selector;

/// Where objects have their annotations, as a JSON pointer.
const ANNOTATIONS: &str = "/metadata/annotations";

impl IndexSource {
    /// The JSON pointers that this source reads in an object's text.
    #[must_use]
    pub fn pointers(&self) -> Vec<String> {
        match self {
            Self::Label(_) => vec![],
            Self::Annotation { key, .. } => vec![pointer::joined(ANNOTATIONS, key)],
            Self::Field(pointer) | Self::Selector { pointer, .. } => vec![pointer.to_string()],
            Self::Reference(path) => path.pointers().collect(),
        }
    }

    /// The values of `object`. `body` is its JSON, or at least the parts at [`Self::pointers`]. Selectors have no
    /// values: see [`Self::selectors`].
    #[must_use]
    pub fn values(&self, object: &Object, body: &Value) -> BTreeSet<Arc<str>> {
        match self {
            Self::Label(key) => object.header.labels.get(key).cloned().into_iter().collect(),
            Self::Field(pointer) => pointer::values(body, pointer).into_iter().flat_map(texts).map(Arc::from).collect(),
            Self::Annotation { key, split } => {
                annotation(body, key).map(|text| parts(text, *split)).unwrap_or_default()
            }
            Self::Reference(path) => references(path, object, body),
            Self::Selector { .. } => BTreeSet::new(),
        }
    }

    /// The selectors of the object whose JSON is `body`. Selectors that select nothing are left out.
    #[must_use]
    pub fn selectors(&self, body: &Value) -> Vec<Selector> {
        let Self::Selector { pointer, form } = self else { return vec![] };
        let read = match form {
            SelectorForm::LabelSelector => Selector::of_label_selector,
            SelectorForm::Labels => Selector::of_labels,
            SelectorForm::Text => Selector::of_text,
        };
        pointer::values(body, pointer).into_iter().filter_map(read).collect()
    }
}

fn annotation<'v>(body: &'v Value, key: &str) -> Option<&'v str> {
    body.pointer(ANNOTATIONS)?.get(key)?.as_str()
}

/// The parts of `text` without the space around them. Empty parts are left out, such as the part after a trailing
/// comma.
fn parts(text: &str, split: Option<char>) -> BTreeSet<Arc<str>> {
    let Some(split) = split else { return [text.into()].into() };
    text.split(split).map(str::trim).filter(|part| !part.is_empty()).map(Arc::from).collect()
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    }
}

/// A reference without a namespace may name a cluster-scoped object, so the bare name is a value as well.
fn references(path: &ReferencePath, object: &Object, body: &Value) -> BTreeSet<Arc<str>> {
    let own = &object.header.key;
    let mut values = BTreeSet::new();
    for reference in path.read(body) {
        values.insert(reference.key(own).to_string().into());
        if reference.namespace.is_none() {
            values.insert(reference.name.into());
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::{Header, ObjectKey};

    fn object(body: &Value) -> Object {
        let header = Header {
            generation: 1,
            labels: [("app".into(), "shop".into())].into(),
            ..Header::bare(ObjectKey::namespaced("prod", "shop"), "u-1", "1")
        };
        Object::new(header, body.to_string())
    }

    fn values(source: &IndexSource, body: &Value) -> Vec<String> {
        source.values(&object(body), body).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_field_index_has_every_string_at_its_pointer() {
        let body = json!({"spec": {"secret": "a", "secrets": ["b", 7], "sources": [{"name": "c"}, {"name": ["d"]}]}});
        for (pointer, expected) in [
            ("/spec/secret", &["a"][..]),
            ("/spec/secrets", &["b"]),
            ("/spec/secrets/*", &["b"]),
            ("/spec/sources/*/name", &["c", "d"]),
            ("/spec/none/*", &[]),
        ] {
            assert_eq!(values(&IndexSource::Field(pointer.into()), &body), expected, "{pointer}");
        }
        assert_eq!(values(&IndexSource::Label("app".into()), &body), ["shop"]);
    }

    #[test]
    fn an_annotation_is_one_value_unless_it_is_split() {
        let values = |text: &str, split| {
            let body = json!({"metadata": {"annotations": {"example.dev/uses": text, "other": "x"}}});
            values(&IndexSource::Annotation { key: "example.dev/uses".into(), split }, &body)
        };
        assert_eq!(values("a,b , c", None), ["a,b , c"]);
        for (text, expected) in
            [("a,b , c", &["a", "b", "c"][..]), ("b,,a,b,", &["a", "b"]), ("a", &["a"]), (" , ", &[])]
        {
            assert_eq!(values(text, Some(',')), expected, "{text:?}");
        }
        assert_eq!(values("a b\nc", Some('\n')), ["a b", "c"]);
        let missing = json!({"metadata": {"annotations": {"example.dev/uses": 7}}});
        let source = IndexSource::Annotation { key: "example.dev/uses".into(), split: None };
        let of = |body: &Value| source.values(&object(body), body).len();
        assert_eq!((of(&missing), of(&json!({}))), (0, 0));
        assert_eq!(source.pointers(), ["/metadata/annotations/example.dev~1uses"]);
    }

    #[test]
    fn a_reference_without_namespace_is_also_found_by_its_bare_name() {
        let path =
            ReferencePath { base: "/spec/refs/*".into(), namespace: Some("/namespace".into()), name: "/name".into() };
        let body = json!({"spec": {"refs": [{"namespace": "test", "name": "a"}, {"name": "b"}]}});
        assert_eq!(values(&IndexSource::Reference(path), &body), ["b", "prod/b", "test/a"]);
    }

    #[test]
    fn each_form_of_selector_is_parsed() {
        let selectors = |pointer: &str, form, body: &Value| {
            IndexSource::Selector { pointer: pointer.into(), form }.selectors(body).len()
        };
        let body = json!({
            "a": {"matchLabels": {"app": "web"}}, "b": {"app": "web"}, "c": {}, "d": [{"s": {}}, {"s": {}}, {}],
            "e": "app in (web,api),!canary", "f": "app in", "g": "",
        });
        let places = ["/a", "/b", "/c", "/d/*/s", "/none", "/e", "/f", "/g"];
        let counts = |form| places.map(|pointer| selectors(pointer, form, &body));
        assert_eq!(counts(SelectorForm::LabelSelector), [1, 0, 1, 2, 0, 0, 0, 0]);
        assert_eq!(counts(SelectorForm::Labels), [0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(counts(SelectorForm::Text), [0, 0, 0, 0, 0, 1, 0, 1]);
    }
}
