//! The body of a write. Only its metadata, or the operations of a JSON patch, are parsed. Everything else is sent to
//! the server byte for byte.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use windlass_core::object::ObjectKind;

use crate::scan::Scan;

/// Why a body cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is not a JSON object: {0}")]
    Json(#[from] serde_json::Error),
    #[error("{field} is missing or not a string")]
    Missing { field: &'static str },
    #[error("metadata.resourceVersion is {body:?}, but the options lock the write to {option:?}")]
    TwoVersions { body: String, option: String },
    #[error("metadata.uid is {body:?}, but the write is meant for {option:?}")]
    TwoUids { body: String, option: String },
    #[error("metadata.ownerReferences already names another controller, {0}")]
    OtherController(String),
}

/// The fields of a JSON object, sorted by name, with unparsed values. Duplicates are refused, as the server would
/// refuse them.
#[derive(Debug, Default)]
struct Fields<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);

        struct Fielded;
        impl<'de> Visitor<'de> for Fielded {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Fields::default();
                while let Some((FieldName(name), value)) = map.next_entry::<FieldName<'de>, &'de RawValue>()? {
                    fields.0.push((name, Cow::Borrowed(value.get())));
                }
                fields.sorted().map_err(|name| A::Error::custom(format!("the field {name:?} appears twice")))
            }
        }
        deserializer.deserialize_map(Fielded)
    }
}

impl<'a> Fields<'a> {
    fn read(text: &'a str) -> Result<Self, BodyError> {
        match Self::scanned(text) {
            Some(fields) => Ok(fields),
            None => Ok(serde_json::from_str(text)?),
        }
    }

    /// `None` if the text is not in the usual form. It may be an object nevertheless.
    fn scanned(text: &'a str) -> Option<Self> {
        let mut fields = Self(Vec::with_capacity(8));
        let mut scan = Scan::new(text);
        scan.fields(|scan, name| {
            let start = scan.at();
            scan.pass()?;
            fields.0.push((Cow::Borrowed(name), Cow::Borrowed(scan.since(start)?)));
            Some(())
        })?;
        scan.end()?;
        fields.sorted().ok()
    }

    /// Sorts the fields by name, all at once, because a body may have hundreds of thousands of fields in the worst
    /// order. The error is the name of a field that appears twice.
    fn sorted(mut self) -> Result<Self, String> {
        self.0.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        match self.0.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(pair[0].0.to_string()),
            None => Ok(self),
        }
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| (**other).cmp(name))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.place(name).ok().map(|at| &*self.0[at].1)
    }

    /// A field that is a string and not empty.
    fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        let value = self.get(name)?;
        let plain = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let text = match plain.filter(|text| !text.contains('\\')) {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(serde_json::from_str(value).ok()?),
        };
        (!text.is_empty()).then_some(text)
    }

    /// Sets a field to a value, which is JSON.
    fn set(&mut self, name: &'static str, value: String) {
        match self.place(name) {
            Ok(at) => self.0[at].1 = value.into(),
            Err(at) => self.0.insert(at, (name.into(), value.into())),
        }
    }

    fn set_text(&mut self, name: &'static str, text: &str) -> Result<(), BodyError> {
        self.set(name, serde_json::to_string(text)?);
        Ok(())
    }

    fn to_text(&self) -> Result<String, BodyError> {
        let bytes: usize = self.0.iter().map(|(name, value)| name.len() + value.len() + r#""":,"#.len()).sum();
        let mut text = String::with_capacity(bytes + "{}".len());
        for (name, value) in &self.0 {
            text.push(if text.is_empty() { '{' } else { ',' });
            if name.bytes().any(|byte| matches!(byte, b'"' | b'\\' | ..0x20)) {
                text.push_str(&serde_json::to_string(name)?);
            } else {
                text.extend(["\"", name, "\""]);
            }
            text.push(':');
            text.push_str(value);
        }
        text.push_str(if text.is_empty() { "{}" } else { "}" });
        Ok(text)
    }
}

/// An object, or a patch in the form of an object.
#[derive(Debug)]
pub(crate) struct Body<'a> {
    top: Fields<'a>,
    metadata: Fields<'a>,
}

impl<'a> Body<'a> {
    pub(crate) fn read(text: &'a str) -> Result<Self, BodyError> {
        let mut top = Fields::read(text)?;
        let metadata = match top.place("metadata").map(|at| top.0.remove(at).1) {
            Ok(Cow::Borrowed(metadata)) if metadata != "null" => Fields::read(metadata)?,
            _ => Fields::default(),
        };
        Ok(Self { top, metadata })
    }

    pub(crate) fn kind(&self) -> Result<ObjectKind, BodyError> {
        let field = |field| self.top.text(field).ok_or(BodyError::Missing { field });
        Ok(ObjectKind::new(&*field("apiVersion")?, &*field("kind")?))
    }

    pub(crate) fn name(&self) -> Option<Cow<'_, str>> {
        self.metadata.text("name")
    }

    pub(crate) fn namespace(&self) -> Option<Cow<'_, str>> {
        self.metadata.text("namespace")
    }

    pub(crate) fn generate_name(&self) -> Option<Cow<'_, str>> {
        self.metadata.text("generateName")
    }

    pub(crate) fn uid(&self) -> Option<Cow<'_, str>> {
        self.metadata.text("uid")
    }

    pub(crate) fn version(&self) -> Option<Cow<'_, str>> {
        self.metadata.text("resourceVersion")
    }

    pub(crate) fn set_name(&mut self, name: &str) -> Result<(), BodyError> {
        self.metadata.set_text("name", name)
    }

    pub(crate) fn set_namespace(&mut self, namespace: &str) -> Result<(), BodyError> {
        self.metadata.set_text("namespace", namespace)
    }

    /// Locks the write to a `resourceVersion`.
    pub(crate) fn lock_version(&mut self, version: &str) -> Result<(), BodyError> {
        match self.version() {
            Some(body) if body != version => {
                Err(BodyError::TwoVersions { body: body.into_owned(), option: version.to_owned() })
            }
            _ => self.metadata.set_text("resourceVersion", version),
        }
    }

    /// Makes the server refuse the write if the name belongs to an object with another UID.
    pub(crate) fn lock_uid(&mut self, uid: &str) -> Result<(), BodyError> {
        match self.uid() {
            Some(body) if body != uid => Err(BodyError::TwoUids { body: body.into_owned(), option: uid.to_owned() }),
            _ => self.metadata.set_text("uid", uid),
        }
    }

    /// Makes the owner in `reference` the controller, in addition to the owners that the body names.
    pub(crate) fn set_controller(&mut self, reference: Value) -> Result<(), BodyError> {
        let mut owners: Vec<Value> = match self.metadata.get("ownerReferences") {
            Some(owners) => serde_json::from_str::<Option<_>>(owners)?.unwrap_or_default(),
            None => Vec::new(),
        };
        owners.retain(|owner| owner["uid"] != reference["uid"]);
        if let Some(other) = owners.iter().find(|owner| owner["controller"] == true) {
            let text = |field: &str| other[field].as_str().unwrap_or("?").to_owned();
            return Err(BodyError::OtherController(format!("{} {}", text("kind"), text("name"))));
        }
        owners.push(reference);
        self.metadata.set("ownerReferences", serde_json::to_string(&owners)?);
        Ok(())
    }

    pub(crate) fn into_text(mut self) -> Result<String, BodyError> {
        if !self.metadata.0.is_empty() {
            let metadata = self.metadata.to_text()?;
            self.top.set("metadata", metadata);
        }
        self.top.to_text()
    }
}

/// A JSON patch. Each of its operations is sent to the server byte for byte.
#[derive(Debug)]
pub(crate) struct JsonPatch(Vec<Box<RawValue>>);

impl JsonPatch {
    pub(crate) fn read(text: &str) -> Result<Self, BodyError> {
        Ok(Self(serde_json::from_str(text)?))
    }

    /// The `resourceVersion` that the last operation on this field sets.
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

    /// With insertions into a sorted list, this would take minutes.
    #[test]
    fn very_many_fields_in_the_worst_order_are_read_quickly() {
        let fields: Vec<_> = (0..200_000).rev().map(|number| format!("\"{number:06}\":1")).collect();
        let text = format!("{{{}}}", fields.join(","));
        assert_eq!(Fields::read(&text).expect("an object").0.len(), fields.len());
        let spaced = text.replacen('{', "{ ", 1);
        assert_eq!(Fields::read(&spaced).expect("by serde").0.len(), fields.len());
        let twice = text.replacen("199999", "000000", 1);
        let error = Fields::read(&twice).expect_err("twice").to_string();
        assert!(error.contains("\"000000\" appears twice"), "{error}");
    }

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
        let owners = |body: Body<'_>| {
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
