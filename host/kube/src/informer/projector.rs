//! Reduces the text of an object to what a watch's projection keeps.

use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use windlass_core::cache::watch::{DIGEST, Projection};
use windlass_core::object::pointer;

use crate::informer::pointer::{PointerError, PointerTree};

/// The annotation in which kubectl repeats the whole object, with the values that a digest is to keep out of memory.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A projection that leaves something out.
pub(crate) enum Projector {
    Select(PointerTree),
    Digest(Digester),
}

/// Replaces values by their digest.
pub(crate) struct Digester {
    metadata: PointerTree,
    digested: PointerTree,
    /// Sorted.
    pointers: Arc<[Arc<str>]>,
}

impl Projector {
    /// `None` if the projection keeps everything.
    pub(crate) fn of(projection: &Projection) -> Result<Option<Self>, PointerError> {
        Ok(match projection {
            Projection::Full => None,
            // A server that has no partial metadata of a kind sends whole objects.
            Projection::Metadata => Some(Self::Select(PointerTree::of_watch([])?)),
            Projection::Fields(pointers) => {
                Some(Self::Select(PointerTree::of_watch(pointers.iter().map(|pointer| &**pointer))?))
            }
            Projection::Digest(pointers) => Some(Self::Digest(Digester {
                metadata: PointerTree::of_watch([])?,
                digested: PointerTree::new(pointers.iter().map(|pointer| &**pointer))?,
                pointers: Arc::clone(pointers),
            })),
        })
    }

    /// The kept part of `text`, the JSON of an object.
    pub(crate) fn project(&self, text: &str) -> Result<String, serde_json::Error> {
        match self {
            Self::Select(tree) => tree.select(text),
            Self::Digest(digester) => digester.project(text),
        }
    }
}

impl Digester {
    fn project(&self, text: &str) -> Result<String, serde_json::Error> {
        let mut kept: Value = serde_json::from_str(&self.metadata.select(text)?)?;
        if let Some(annotations) = kept.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
        kept[DIGEST] = self.digest(text)?.into();
        Ok(kept.to_string())
    }

    /// The digest of the values at the pointers. Plugins store it in objects, so it must stay the same: it depends on
    /// nothing but the pointers and the values, and not on the order of fields.
    fn digest(&self, text: &str) -> Result<String, serde_json::Error> {
        let body: Value = serde_json::from_str(&self.digested.select(text)?)?;
        let mut hash = Sha256::new();
        // With their lengths, so that different values are different bytes.
        let mut add = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        };
        for pointer in self.pointers.iter() {
            let values = pointer::values(&body, pointer).into_iter().filter(|value| !value.is_null());
            let values: Vec<_> = values.map(Value::to_string).collect();
            add(pointer);
            add(&values.len().to_string());
            for value in &values {
                add(value);
            }
        }
        let digits: Vec<_> = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("sha256:{}", digits.concat()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn project(pointers: &[&str], object: &Value) -> Value {
        let projection = Projection::Digest(pointers.iter().map(|pointer| Arc::from(*pointer)).collect());
        let projector = Projector::of(&projection).expect("pointers").expect("it leaves something out");
        serde_json::from_str(&projector.project(&object.to_string()).expect("an object")).expect("JSON")
    }

    fn secret(data: &Value) -> Value {
        let annotations = json!({"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "hunter2"});
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "annotations": annotations},
            "type": "Opaque", "data": data})
    }

    fn digest(pointers: &[&str], object: &Value) -> Value {
        project(pointers, object)["digest"].clone()
    }

    #[test]
    fn a_digest_replaces_values_and_what_repeats_them() {
        let kept = project(&["/data"], &secret(&json!({"password": "hunter2"})));
        assert!(!kept.to_string().contains("hunter2") && !kept.to_string().contains("Opaque"), "{kept}");
        assert_eq!(kept["metadata"], json!({"name": "s", "annotations": {"a": "b"}}));
        assert_eq!((&kept["apiVersion"], &kept["kind"]), (&json!("v1"), &json!("Secret")));
    }

    #[test]
    fn a_digest_stays_what_it_was() {
        let object = secret(&json!({"b": "2", "a": "1", "n": 1.5}));
        let known = "sha256:df7058d87df74dea60f8d87eb5370a0b5c3b6150e594533a1bdacc6471124ada";
        assert_eq!(digest(&["/binaryData", "/data"], &object), known, "plugins have stored it in objects");
    }

    #[test]
    fn a_digest_depends_on_the_values_at_its_pointers_alone() {
        let digest = |object: &Value| digest(&["/data", "/list/*/x"], object);
        let object = |data: Value, list: Value| json!({"data": data, "list": list, "other": data});
        let base = object(json!({"a": "1", "b": "2"}), json!([{"x": 1}, {"y": 2}, {"x": 3}]));
        let mut same = base.clone();
        same["other"] = json!(7);
        same["list"][1]["y"] = json!(8);
        assert_eq!(digest(&same), digest(&base));
        for other in [
            object(json!({"a": "1", "b": "3"}), json!([{"x": 1}, {"x": 3}])),
            object(json!({"a": "1", "b": 2}), json!([{"x": 1}, {"x": 3}])),
            object(json!({"a": "1", "b": "2"}), json!([{"x": 3}, {"x": 1}])),
            object(json!({"a": "1", "b": "2"}), json!([{"x": 1}, {"x": "3"}])),
            object(json!({"a": "1", "b": "2"}), json!([{"x": 13}])),
            object(json!(null), json!([{"x": 1}, {"x": 3}])),
            object(json!({}), json!([{"x": 1}, {"x": 3}])),
        ] {
            assert_ne!(digest(&other), digest(&base), "{other}");
        }
        assert_eq!(digest(&json!({"data": null})), digest(&json!({})), "null is the same as absent");
        let reordered: Value =
            serde_json::from_str(r#"{"list":[{"x":1},{"x":3}],"data":{"b":"2","a":"1"}}"#).expect("JSON");
        assert_eq!(digest(&reordered), digest(&base));
    }
}
