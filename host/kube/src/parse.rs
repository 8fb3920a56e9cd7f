//! From the server's JSON text to an [`Object`]: its header, and the text without `managedFields`.
//!
//! This is the hot path of every list and watch. It reads the header through borrowed fields, builds no tree, and keeps
//! every byte outside `managedFields` as the server sent it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_core::object::{Header, Object, ObjectKey, ObjectKind, OwnerReference};

/// Why a text is not a Kubernetes object.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// It is not JSON, or its metadata are not of the types that Kubernetes gives them.
    #[error("not a Kubernetes object: {0}")]
    Json(#[from] serde_json::Error),
    /// `metadata.name` is missing or empty.
    #[error("not a Kubernetes object: metadata.name is missing")]
    NoName,
}

#[derive(Deserialize)]
struct Top<'a> {
    #[serde(borrow, rename = "apiVersion")]
    api_version: Option<&'a RawValue>,
    #[serde(borrow)]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<Metadata<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
    generation: Option<i64>,
    labels: Option<BTreeMap<Arc<str>, Arc<str>>>,
    #[serde(borrow)]
    owner_references: Option<Vec<Owner<'a>>>,
    #[serde(borrow)]
    deletion_timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    controller: Option<bool>,
}

/// Reads an object of `kind`. `apiVersion` and `kind` are added where they lack, as they do in the items of a list.
pub(crate) fn object(text: &str, kind: &ObjectKind) -> Result<Object, ParseError> {
    let text = text.trim();
    let top: Top<'_> = serde_json::from_str(text)?;
    let kept = rewrite(text, &top, kind);
    let metadata = top.metadata.ok_or(ParseError::NoName)?;
    if metadata.name.is_empty() {
        return Err(ParseError::NoName);
    }
    Ok(Object { header: Arc::new(header(metadata)), text: kept })
}

/// The text of any answer that is about an object, without `managedFields` and with `apiVersion` and `kind`. Unlike
/// [`object`] it accepts what has no name, as the answers of some subresources have none.
pub(crate) fn clean(text: &str, kind: &ObjectKind) -> Result<Arc<str>, ParseError> {
    let text = text.trim();
    let top: Top<'_> = serde_json::from_str(text)?;
    Ok(rewrite(text, &top, kind))
}

fn header(metadata: Metadata<'_>) -> Header {
    let name = Arc::from(&*metadata.name);
    let namespace = (!metadata.namespace.is_empty()).then(|| Arc::from(&*metadata.namespace));
    Header {
        key: ObjectKey { namespace, name },
        uid: Arc::from(&*metadata.uid),
        version: Arc::from(&*metadata.resource_version),
        generation: metadata.generation.unwrap_or_default(),
        labels: metadata.labels.unwrap_or_default(),
        owners: metadata.owner_references.unwrap_or_default().iter().map(owner).collect(),
        deleting: metadata.deletion_timestamp.is_some(),
    }
}

fn owner(owner: &Owner<'_>) -> OwnerReference {
    OwnerReference {
        kind: ObjectKind::new(&*owner.api_version, &*owner.kind),
        name: Arc::from(&*owner.name),
        uid: Arc::from(&*owner.uid),
        controller: owner.controller.unwrap_or_default(),
    }
}

/// `text` without its `managedFields`, with `apiVersion` and `kind`. `top` was read from `text` and borrows from it.
fn rewrite(text: &str, top: &Top<'_>, kind: &ObjectKind) -> Arc<str> {
    let managed_fields = top.metadata.as_ref().and_then(|metadata| metadata.managed_fields);
    let (before, after) = match managed_fields {
        Some(value) => without_field(text, value),
        None => (text, ""),
    };
    if top.api_version.is_some() && top.kind.is_some() {
        return if after.is_empty() { Arc::from(before) } else { Arc::from([before, after].concat()) };
    }
    let mut start = "{".to_owned();
    for (name, given, value) in [("apiVersion", top.api_version, &kind.api_version), ("kind", top.kind, &kind.kind)] {
        if given.is_none() {
            let _ = write!(start, "\"{name}\":{},", serde_json::Value::from(&**value));
        }
    }
    let rest = before[1..].trim_start();
    if rest.starts_with('}') {
        start.pop();
    }
    Arc::from([&start, rest, after].concat())
}

/// The two parts of `text` that remain when the object field with this `value`, a slice of `text`, is cut out together
/// with its name and one comma.
fn without_field<'a>(text: &'a str, value: &RawValue) -> (&'a str, &'a str) {
    let start = value.get().as_ptr() as usize - text.as_ptr() as usize;
    let after = text[start + value.get().len()..].trim_start();
    let colon = text[..start].trim_end().len() - 1;
    let name_end = text[..colon].trim_end().len() - 1;
    let before = text[..opening_quote(text, name_end)].trim_end();
    match before.strip_suffix(',') {
        Some(before) => (before, after),
        None => (before, after.strip_prefix(',').unwrap_or(after)),
    }
}

/// Where the string begins whose closing quote is at `end`. Inside a string each quote follows an odd number of
/// backslashes; before the opening quote there is none.
fn opening_quote(text: &str, end: usize) -> usize {
    let bytes = text.as_bytes();
    (0..end)
        .rev()
        .find(|&at| {
            let backslashes = bytes[..at].iter().rev().take_while(|&&byte| byte == b'\\').count();
            bytes[at] == b'"' && backslashes % 2 == 0
        })
        .expect("a JSON string that ends has begun")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> ObjectKind {
        ObjectKind::new("v1", "Pod")
    }

    fn text_of(json: &str) -> String {
        let object = object(json, &pods()).expect("an object");
        serde_json::from_str::<serde_json::Value>(&object.text).expect("valid JSON");
        object.text.to_string()
    }

    #[test]
    fn managed_fields_are_cut_wherever_they_stand() {
        let cases = [
            (r#"{"managedFields":[{"a":{}}],"name":"x"}"#, r#"{"name":"x"}"#),
            (r#"{"name":"x","managedFields":[1]}"#, r#"{"name":"x"}"#),
            (r#"{"name":"x","managedFields":[1],"uid":"u"}"#, r#"{"name":"x","uid":"u"}"#),
            (r#"{ "name" : "x" , "managedFields" : [ 1 ] , "uid" : "u" }"#, r#"{ "name" : "x" , "uid" : "u" }"#),
            (r#"{"name":"x","managed\u0046ields":[],"uid":"u"}"#, r#"{"name":"x","uid":"u"}"#),
        ];
        for (metadata, expected) in cases {
            let wrap = |metadata: &str| {
                format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{metadata},"spec":{{"x":1.50}}}}"#)
            };
            assert_eq!(text_of(&wrap(metadata)), wrap(expected));
        }
    }

    #[test]
    fn a_field_of_that_name_elsewhere_is_kept() {
        let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"managedFields":[1]}}"#;
        assert_eq!(text_of(json), json);
    }

    #[test]
    fn an_item_of_a_list_gets_its_kind() {
        assert_eq!(
            text_of(r#"{"metadata":{"name":"x"}}"#),
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}"#
        );
        let with_kind = r#"{"kind":"Pod","metadata":{"managedFields":[],"name":"x"}}"#;
        assert_eq!(text_of(with_kind), r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}"#);
    }

    #[test]
    fn the_header_holds_what_the_host_needs() {
        let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","namespace":"prod","uid":"u","resourceVersion":"7",
            "generation":3,"labels":{"app":"a\"b"},"deletionTimestamp":"2026-01-01T00:00:00Z","creationTimestamp":null,
            "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"rs","uid":"o","controller":true}]}}"#;
        let header = object(json, &pods()).expect("an object").header;
        assert_eq!(header.key, ObjectKey::namespaced("prod", "x"));
        assert_eq!((&*header.uid, &*header.version, header.generation), ("u", "7", 3));
        assert_eq!(header.labels.get("app").map(|value| &**value), Some("a\"b"));
        assert_eq!(header.controller().map(|owner| &*owner.uid), Some("o"));
        assert!(header.deleting);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for json in
            ["", "{", "[]", "7", r#"{"metadata":{}}"#, r#"{"metadata":{"name":7}}"#, r#"{"kind":"Pod"}"#, "{}{}"]
        {
            assert!(object(json, &pods()).is_err(), "{json}");
        }
    }

    #[test]
    fn an_answer_without_a_name_is_cleaned_too() {
        let token = r#"{"kind":"TokenRequest","apiVersion":"v1","metadata":{"managedFields":[]},"status":{}}"#;
        let cleaned = clean(token, &pods()).expect("valid");
        assert_eq!(&*cleaned, r#"{"kind":"TokenRequest","apiVersion":"v1","metadata":{},"status":{}}"#);
    }
}
