//! Reads a single annotation of an object. Headers do not keep annotations, because hardly any object has one that
//! matters here.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

use crate::object::Object;

/// The value of the annotation `name` of `object`.
pub(crate) fn value_of(object: &Object, name: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct AnnotatedObject<'a> {
        #[serde(borrow, default)]
        metadata: AnnotatedMetadata<'a>,
    }
    #[derive(Default, Deserialize)]
    struct AnnotatedMetadata<'a> {
        #[serde(borrow, default)]
        annotations: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    }
    let text = object.glance();
    // Searching the text is much faster than parsing it.
    if !text.contains(name) {
        return None;
    }
    let object = serde_json::from_str::<AnnotatedObject<'_>>(&text).ok()?;
    object.metadata.annotations?.remove(name).map(Cow::into_owned)
}

/// An object with `annotations`, a JSON object or `null`.
#[cfg(test)]
pub(crate) fn annotated(annotations: &str) -> Object {
    let header = crate::object::Header::bare(crate::object::ObjectKey::namespaced("prod", "shop"), "u-1", "1");
    Object::new(header, format!(r#"{{"metadata":{{"annotations":{annotations}}}}}"#))
}
