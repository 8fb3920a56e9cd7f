//! Reduces the text of an object to what a watch's projection keeps.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest as _, Sha256};
use windlass_core::cache::watch::{DIGEST, Projection};
use windlass_core::object::pointer;
use windlass_core::object::pointer_tree::{PointerError, PointerTree};

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
        let selected = self.metadata.select(text)?;
        let digest = to_raw_value(&self.digest(text)?)?;
        let mut kept: RawFields<'_> = serde_json::from_str(&selected)?;
        kept.insert(DIGEST.into(), &digest);
        let metadata = kept.get("metadata").copied().map(without_last_applied).transpose()?.flatten();
        if let Some(metadata) = &metadata {
            kept.insert("metadata".into(), metadata);
        }
        serde_json::to_string(&kept)
    }

    /// The digest of the values at the pointers. Plugins store it in objects, so it must stay the same: it depends only
    /// on the pointers and the values. The order of fields does not matter, except in values that are too deep to be
    /// parsed.
    fn digest(&self, text: &str) -> Result<String, serde_json::Error> {
        let selected = self.digested.select(text)?;
        let mut hash = Sha256::new();
        match serde_json::from_str(&selected) {
            Ok(body) => self.add_values(&body, &mut hash),
            // The values are JSON, but too deep to be parsed. No other input of the hash begins like this.
            Err(_) => hash.update(["unparsed:", &selected].concat()),
        }
        let digits: Vec<_> = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("sha256:{}", digits.concat()))
    }

    /// Adds each pointer and its values to the hash.
    fn add_values(&self, body: &Value, hash: &mut Sha256) {
        // Adds the length of each text, so that different values lead to different bytes.
        let mut add = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        };
        for pointer in self.pointers.iter() {
            let values = pointer::values(body, pointer).into_iter().filter(|value| !value.is_null());
            let values: Vec<_> = values.map(Value::to_string).collect();
            add(pointer);
            add(&values.len().to_string());
            for value in &values {
                add(value);
            }
        }
    }
}

/// The fields of an object with their texts, which may be too deep to be parsed: `managedFields` repeat the form of an
/// object.
type RawFields<'a> = BTreeMap<String, &'a RawValue>;

/// `metadata` without kubectl's annotation. `None` if it has no annotations.
fn without_last_applied(metadata: &RawValue) -> Result<Option<Box<RawValue>>, serde_json::Error> {
    let Ok(mut metadata) = serde_json::from_str::<RawFields<'_>>(metadata.get()) else { return Ok(None) };
    let annotations = metadata.get("annotations").map(|annotations| serde_json::from_str(annotations.get()));
    let Some(Ok::<RawFields<'_>, _>(mut annotations)) = annotations else { return Ok(None) };
    annotations.remove(LAST_APPLIED);
    let annotations = to_raw_value(&annotations)?;
    metadata.insert("annotations".into(), &annotations);
    to_raw_value(&metadata).map(Some)
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
    fn values_that_are_too_deep_to_be_parsed_have_a_digest_too() {
        let object = |depth: usize, value: &str| {
            let (open, close) = (r#"{"f:a":"#.repeat(depth), "}".repeat(depth));
            let managed = format!(r#"[{{"manager":"m","fieldsV1":{open}{{}}{close}}}]"#);
            let annotations = r#"{"kubectl.kubernetes.io/last-applied-configuration":"hunter2","a":"b"}"#;
            let metadata = format!(r#"{{"name":"x","annotations":{annotations},"managedFields":{managed}}}"#);
            format!(r#"{{"kind":"X","metadata":{metadata},"data":{open}"{value}"{close},"more":1}}"#)
        };
        let projection = Projection::Digest(["/data".into()].into());
        let projector = Projector::of(&projection).expect("pointers").expect("it leaves something out");
        let project = |depth, value| projector.project(&object(depth, value)).expect("an object");
        let digest = |kept: &str| {
            let kept: BTreeMap<String, &RawValue> = serde_json::from_str(kept).expect("JSON");
            kept[DIGEST].get().to_owned()
        };
        let deep = project(100_000, "1");
        assert!(!deep.contains("hunter2") && !deep.contains("more") && deep.contains(r#""annotations":{"a":"b"}"#));
        assert!(deep.contains(r#""manager":"m""#));
        assert_eq!(digest(&deep), digest(&project(100_000, "1")));
        assert_ne!(digest(&deep), digest(&project(100_000, "2")));
        assert_ne!(digest(&deep), digest(&project(100_001, "1")));
        assert_ne!(digest(&project(3, "1")), digest(&project(3, "2")));
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
