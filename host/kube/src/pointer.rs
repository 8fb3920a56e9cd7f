//! Projections: the values at some JSON pointers (RFC 6901) of an object, in their places, beside what identifies it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// What every projected object keeps.
const IDENTITY: [&str; 5] = ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace", "/metadata/uid"];

/// A text that is not a JSON pointer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a JSON pointer: it must be empty or begin with '/', and '~' must be followed by 0 or 1")]
pub(crate) struct PointerError(String);

/// Parsed pointers, as a tree of their tokens.
#[derive(Debug, Default)]
pub(crate) struct Projection {
    /// The value here is kept whole.
    whole: bool,
    below: BTreeMap<String, Projection>,
}

impl Projection {
    /// A projection to `pointers` and the object's identity.
    pub(crate) fn new(pointers: &[String]) -> Result<Self, PointerError> {
        let mut root = Self::default();
        for pointer in IDENTITY.into_iter().chain(pointers.iter().map(String::as_str)) {
            root.add(pointer)?;
        }
        Ok(root)
    }

    fn add(&mut self, pointer: &str) -> Result<(), PointerError> {
        let mut node = self;
        if !pointer.is_empty() {
            let path = pointer.strip_prefix('/').ok_or_else(|| PointerError(pointer.to_owned()))?;
            for token in path.split('/') {
                let token = unescape(token).ok_or_else(|| PointerError(pointer.to_owned()))?;
                node = node.below.entry(token).or_default();
            }
        }
        node.whole = true;
        Ok(())
    }

    /// The projected text of the object `text`.
    pub(crate) fn apply(&self, text: &str) -> Result<String, serde_json::Error> {
        let value = serde_json::from_str(text)?;
        Ok(self.project(value).unwrap_or_else(|| Value::Object(Map::new())).to_string())
    }

    /// None: nothing of `value` is kept.
    fn project(&self, value: Value) -> Option<Value> {
        if self.whole {
            return Some(value);
        }
        match value {
            Value::Object(mut fields) => {
                let kept =
                    |(token, below): (&String, &Self)| Some((token.clone(), below.project(fields.remove(token)?)?));
                let kept: Map<_, _> = self.below.iter().filter_map(kept).collect();
                (!kept.is_empty()).then_some(Value::Object(kept))
            }
            Value::Array(items) => self.project_items(items),
            _ => None,
        }
    }

    /// Items before a kept one stand as null, so that it keeps its place.
    fn project_items(&self, mut items: Vec<Value>) -> Option<Value> {
        let mut kept = Vec::new();
        for (token, below) in &self.below {
            let Some(index) = array_index(token).filter(|index| *index < items.len()) else { continue };
            if let Some(value) = below.project(items[index].take()) {
                kept.resize(kept.len().max(index + 1), Value::Null);
                kept[index] = value;
            }
        }
        (!kept.is_empty()).then_some(Value::Array(kept))
    }
}

/// RFC 6901: digits without a leading zero.
fn array_index(token: &str) -> Option<usize> {
    let canonical = token == "0" || (!token.starts_with('0') && token.bytes().all(|byte| byte.is_ascii_digit()));
    canonical.then(|| token.parse().ok()).flatten()
}

fn unescape(token: &str) -> Option<String> {
    let mut parts = token.split('~');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        match part.as_bytes().first()? {
            b'0' => text.push('~'),
            b'1' => text.push('/'),
            _ => return None,
        }
        text.push_str(&part[1..]);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u","annotations":{"x/y":"1","a~b":"2"}},
        "spec":{"containers":[{"name":"c0","image":"i0"},{"name":"c1","image":"i1"}],"other":true}}"#;

    fn project(pointers: &[&str]) -> Value {
        let pointers: Vec<_> = pointers.iter().map(|pointer| (*pointer).to_owned()).collect();
        let text = Projection::new(&pointers).expect("pointers").apply(OBJECT).expect("valid");
        let mut value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&value["kind"], &value["metadata"]["uid"]), (&Value::from("Pod"), &Value::from("u")));
        value.as_object_mut().expect("an object").retain(|name, _| name == "spec" || name == "metadata");
        value
    }

    #[test]
    fn values_stay_in_their_places() {
        assert_eq!(
            project(&["/spec/containers/1/image"])["spec"]["containers"],
            serde_json::json!([null, {"image": "i1"}])
        );
        assert_eq!(project(&["/spec/other", "/spec/missing/x"])["spec"], serde_json::json!({"other": true}));
        assert_eq!(project(&["/spec", "/spec/other"])["spec"]["containers"][0]["name"], "c0");
    }

    #[test]
    fn escapes_are_read() {
        let annotations =
            &project(&["/metadata/annotations/x~1y", "/metadata/annotations/a~0b"])["metadata"]["annotations"];
        assert_eq!(*annotations, serde_json::json!({"x/y": "1", "a~b": "2"}));
    }

    #[test]
    fn the_empty_pointer_is_everything() {
        assert_eq!(project(&[""])["spec"]["other"], true);
    }

    #[test]
    fn what_is_no_pointer_is_refused() {
        for pointer in ["spec", "/a~", "/a~2"] {
            assert!(Projection::new(&[pointer.to_owned()]).is_err(), "{pointer}");
        }
    }
}
