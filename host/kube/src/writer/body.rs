//! The body of a write. Only its metadata, or the operations of a JSON patch, are parsed. Everything else is sent to
//! the server byte for byte.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use windlass_core::object::ObjectKind;

/// The reason why a body cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is not a JSON object: {0}")]
    Json(#[from] serde_json::Error),
    #[error("{field} is missing or not a string")]
    Missing { field: &'static str },
    #[error("metadata.resourceVersion is {body:?}, but the write is to be locked to {option:?}")]
    TwoVersions { body: String, option: String },
    #[error("metadata.uid is {body:?}, but the write is meant for {option:?}")]
    TwoUids { body: String, option: String },
    #[error("metadata.ownerReferences already names another controller, {0}")]
    OtherController(String),
}

/// The fields of a JSON object with unparsed values. Refuses duplicates, which the server would refuse too, but which
/// would be lost here.
#[derive(Debug, Default)]
struct Fields(BTreeMap<String, Box<RawValue>>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fielded;
        impl<'de> Visitor<'de> for Fielded {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if fields.contains_key(&name) {
                        return Err(A::Error::custom(format!("the field {name:?} appears twice")));
                    }
                    fields.insert(name, value);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Fielded)
    }
}

impl Fields {
    /// A field that is a non-empty string.
    fn text(&self, name: &str) -> Option<String> {
        let text: String = serde_json::from_str(self.0.get(name)?.get()).ok()?;
        (!text.is_empty()).then_some(text)
    }

    fn set(&mut self, name: &str, value: &Value) -> Result<(), BodyError> {
        self.0.insert(name.to_owned(), serde_json::value::to_raw_value(value)?);
        Ok(())
    }
}

/// An object, or a patch in the form of an object.
#[derive(Debug)]
pub(crate) struct Body {
    top: Fields,
    metadata: Fields,
}

impl Body {
    pub(crate) fn read(text: &str) -> Result<Self, BodyError> {
        let mut top: Fields = serde_json::from_str(text)?;
        let metadata = match top.0.remove("metadata") {
            Some(metadata) if metadata.get() != "null" => serde_json::from_str(metadata.get())?,
            _ => Fields::default(),
        };
        Ok(Self { top, metadata })
    }

    pub(crate) fn kind(&self) -> Result<ObjectKind, BodyError> {
        let field = |field| self.top.text(field).ok_or(BodyError::Missing { field });
        Ok(ObjectKind::new(field("apiVersion")?, field("kind")?))
    }

    pub(crate) fn name(&self) -> Option<String> {
        self.metadata.text("name")
    }

    pub(crate) fn namespace(&self) -> Option<String> {
        self.metadata.text("namespace")
    }

    pub(crate) fn generate_name(&self) -> Option<String> {
        self.metadata.text("generateName")
    }

    pub(crate) fn uid(&self) -> Option<String> {
        self.metadata.text("uid")
    }

    pub(crate) fn version(&self) -> Option<String> {
        self.metadata.text("resourceVersion")
    }

    pub(crate) fn set_name(&mut self, name: &str) -> Result<(), BodyError> {
        self.metadata.set("name", &name.into())
    }

    pub(crate) fn set_namespace(&mut self, namespace: &str) -> Result<(), BodyError> {
        self.metadata.set("namespace", &namespace.into())
    }

    /// Locks the write to a version.
    pub(crate) fn lock_version(&mut self, version: &str) -> Result<(), BodyError> {
        match self.metadata.text("resourceVersion") {
            Some(body) if body != version => Err(BodyError::TwoVersions { body, option: version.to_owned() }),
            _ => self.metadata.set("resourceVersion", &version.into()),
        }
    }

    /// Makes the server refuse the write if the name belongs to an object with another UID.
    pub(crate) fn lock_uid(&mut self, uid: &str) -> Result<(), BodyError> {
        match self.metadata.text("uid") {
            Some(body) if body != uid => Err(BodyError::TwoUids { body, option: uid.to_owned() }),
            _ => self.metadata.set("uid", &uid.into()),
        }
    }

    /// Makes the owner in `reference` the controller, in addition to the owners that the body names.
    pub(crate) fn set_controller(&mut self, reference: Value) -> Result<(), BodyError> {
        let mut owners: Vec<Value> = match self.metadata.0.get("ownerReferences") {
            Some(owners) => serde_json::from_str::<Option<_>>(owners.get())?.unwrap_or_default(),
            None => Vec::new(),
        };
        owners.retain(|owner| owner["uid"] != reference["uid"]);
        if let Some(other) = owners.iter().find(|owner| owner["controller"] == true) {
            let text = |field: &str| other[field].as_str().unwrap_or("?").to_owned();
            return Err(BodyError::OtherController(format!("{} {}", text("kind"), text("name"))));
        }
        owners.push(reference);
        self.metadata.set("ownerReferences", &Value::Array(owners))
    }

    pub(crate) fn into_text(mut self) -> Result<String, BodyError> {
        if !self.metadata.0.is_empty() {
            let metadata = serde_json::value::to_raw_value(&self.metadata.0)?;
            self.top.0.insert("metadata".to_owned(), metadata);
        }
        Ok(serde_json::to_string(&self.top.0)?)
    }
}

/// A JSON patch. Each of its operations is sent to the server byte for byte.
#[derive(Debug)]
pub(crate) struct JsonPatch(Vec<Box<RawValue>>);

impl JsonPatch {
    pub(crate) fn read(text: &str) -> Result<Self, BodyError> {
        Ok(Self(serde_json::from_str(text)?))
    }

    /// The version that the last operation on the object's version sets.
    pub(crate) fn version(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Set {
            path: String,
            value: String,
        }
        let set = |operation: &RawValue| serde_json::from_str::<Set>(operation.get()).ok();
        let mut set = self.0.iter().rev().filter_map(|operation| set(operation));
        let set = set.find(|set| set.path == "/metadata/resourceVersion")?;
        (!set.value.is_empty()).then_some(set.value)
    }

    /// Appends an operation that replaces the text at `path`. This is a better lock than a test operation: a failed
    /// test would be `Invalid` like any other, but a changed version is a conflict, and a changed UID is named as the
    /// cause.
    pub(crate) fn replace(&mut self, path: &str, value: &str) -> Result<(), BodyError> {
        let operation = json!({"op": "replace", "path": path, "value": value});
        self.0.push(serde_json::value::to_raw_value(&operation)?);
        Ok(())
    }

    pub(crate) fn into_text(self) -> Result<String, BodyError> {
        Ok(serde_json::to_string(&self.0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_outside_metadata_are_sent_unchanged() {
        let mut body = Body::read(r#"{"kind":"A","apiVersion":"v1","spec":{ "x":1.50, "y":12345678901234567890123 }}"#)
            .expect("a body");
        body.set_name("n").expect("settable");
        let text = body.into_text().expect("text");
        assert_eq!(
            text,
            r#"{"apiVersion":"v1","kind":"A","metadata":{"name":"n"},"spec":{ "x":1.50, "y":12345678901234567890123 }}"#
        );
    }

    #[test]
    fn a_body_that_is_no_object_or_repeats_a_key_is_refused() {
        for text in
            ["", "[]", "null", "7", r#"{"a":1,"a":2}"#, r#"{"metadata":{"name":"a","name":"b"}}"#, r#"{"metadata":7}"#]
        {
            assert!(matches!(Body::read(text), Err(BodyError::Json(_))), "{text}");
        }
        assert!(matches!(Body::read("{}").expect("a body").kind(), Err(BodyError::Missing { field: "apiVersion" })));
    }

    #[test]
    fn locks_must_not_contradict_the_body() {
        let read = || Body::read(r#"{"metadata":{"resourceVersion":"7","uid":"u"}}"#).expect("a body");
        assert!(read().lock_version("7").is_ok());
        assert!(matches!(read().lock_version("8"), Err(BodyError::TwoVersions { .. })));
        assert!(read().lock_uid("u").is_ok());
        assert!(matches!(read().lock_uid("v"), Err(BodyError::TwoUids { .. })));
    }

    #[test]
    fn the_controller_joins_the_other_owners() {
        let owners = |body: Body| {
            serde_json::from_str::<Value>(&body.into_text().expect("text")).expect("JSON")["metadata"]["ownerReferences"].clone()
        };
        let ours = json!({"uid": "u", "controller": true});
        let mut body = Body::read(r#"{"metadata":{"ownerReferences":[{"uid":"x"},{"uid":"u"}]}}"#).expect("a body");
        body.set_controller(ours.clone()).expect("no other controller");
        assert_eq!(owners(body), json!([{"uid": "x"}, ours]));
        let mut body =
            Body::read(r#"{"metadata":{"ownerReferences":[{"uid":"x","controller":true}]}}"#).expect("a body");
        assert!(matches!(body.set_controller(ours), Err(BodyError::OtherController(_))));
    }
}
