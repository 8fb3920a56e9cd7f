//! Selects the values at JSON pointers of an object, in their places. A `*` stands for each element of a list, as in
//! [`pointer`](crate::object::pointer). No tree of the object is built: unselected values are skipped, and selected
//! ones are copied unchanged.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::deceptive::single_line;
use crate::object::pointer::{EACH, SEGMENTS_MAX, segment_count};

/// The fields that identify an object. Every selection of a read keeps them.
const IDENTITY: [&str; 5] = ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace", "/metadata/uid"];

/// The fields that a projection of a watch always keeps.
const METADATA: [&str; 3] = ["/apiVersion", "/kind", "/metadata"];

/// Why a text cannot be used as a JSON pointer. Long texts are shortened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointerError {
    /// The text is not a JSON pointer.
    #[error("{0:?} is not a JSON pointer: it must be empty or begin with '/', and '~' must be followed by 0 or 1")]
    Syntax(String),
    /// The pointer is too deep.
    #[error("the JSON pointer {pointer:?} has {segments} segments, but at most {SEGMENTS_MAX} are allowed")]
    TooDeep {
        pointer: String,
        /// The number of its segments.
        segments: usize,
    },
}

/// The length at which errors cut a pointer.
const POINTER_CHARACTERS_SHOWN_MAX: usize = 200;

impl PointerError {
    fn syntax(pointer: &str) -> Self {
        Self::Syntax(single_line(pointer, POINTER_CHARACTERS_SHOWN_MAX))
    }

    /// Refuses a pointer with too many segments, because the tree of its tokens is followed and dropped recursively.
    fn check_depth(pointer: &str) -> Result<(), Self> {
        let segments = segment_count(pointer);
        if segments <= SEGMENTS_MAX {
            return Ok(());
        }
        Err(Self::TooDeep { pointer: single_line(pointer, POINTER_CHARACTERS_SHOWN_MAX), segments })
    }
}

/// Parsed pointers, as a tree of their tokens. No deeper than [`SEGMENTS_MAX`].
#[derive(Clone, Debug, Default)]
pub struct PointerTree {
    /// Whether the value here is kept whole.
    whole: bool,
    below: BTreeMap<String, PointerTree>,
}

impl PointerTree {
    /// `pointers` only.
    pub fn new<'a>(pointers: impl IntoIterator<Item = &'a str>) -> Result<Self, PointerError> {
        let mut root = Self::default();
        for pointer in pointers {
            root.add(pointer)?;
        }
        Ok(root)
    }

    /// `pointers` and the object's identity.
    pub fn of_read(pointers: &[String]) -> Result<Self, PointerError> {
        Self::new(IDENTITY.into_iter().chain(pointers.iter().map(String::as_str)))
    }

    /// `pointers` and the object's metadata.
    pub fn of_watch<'a>(pointers: impl IntoIterator<Item = &'a str>) -> Result<Self, PointerError> {
        Self::new(METADATA.into_iter().chain(pointers))
    }

    fn add(&mut self, pointer: &str) -> Result<(), PointerError> {
        PointerError::check_depth(pointer)?;
        let mut node = self;
        if !pointer.is_empty() {
            let path = pointer.strip_prefix('/').ok_or_else(|| PointerError::syntax(pointer))?;
            for token in path.split('/') {
                let token = unescape(token).ok_or_else(|| PointerError::syntax(pointer))?;
                node = node.below.entry(token).or_default();
            }
        }
        node.whole = true;
        Ok(())
    }

    /// The JSON text of the selected parts of `text`; `{}` if there are none.
    pub fn select(&self, text: &str) -> Result<String, serde_json::Error> {
        let mut kept = String::new();
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let nodes = Nodes { first: self, others: Vec::new() };
        if !(Selection { nodes, kept: &mut kept }).deserialize(&mut deserializer)? {
            kept.push_str("{}");
        }
        deserializer.end()?;
        Ok(kept)
    }
}

/// The nodes of a tree that select parts of one value: in a list, both `*` and the index of an element can lead to it.
/// Never more than the tree has pointers, because each pointer leads to one node at most.
struct Nodes<'t> {
    first: &'t PointerTree,
    others: Vec<&'t PointerTree>,
}

impl<'t> Nodes<'t> {
    /// `None` if there is no node. A single node allocates nothing.
    fn of(mut nodes: impl Iterator<Item = &'t PointerTree>) -> Option<Self> {
        Some(Self { first: nodes.next()?, others: nodes.collect() })
    }

    fn all(&self) -> impl Iterator<Item = &'t PointerTree> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }

    /// Whether the value is kept whole.
    fn is_whole(&self) -> bool {
        self.all().any(|node| node.whole)
    }

    /// The nodes for the field `name` of an object.
    fn field(&self, name: &str) -> Option<Self> {
        Self::of(self.all().filter_map(|node| node.below.get(name)))
    }

    /// The nodes for the element of a list at `index`.
    fn item(&self, index: usize) -> Option<Self> {
        let has_places = |node: &PointerTree| node.below.len() > usize::from(node.below.contains_key(EACH));
        let place = self.all().any(has_places).then(|| index.to_string());
        let below = |node: &'t PointerTree| {
            let at = place.as_ref().and_then(|place| node.below.get(place));
            node.below.get(EACH).into_iter().chain(at)
        };
        Self::of(self.all().flat_map(below))
    }
}

/// Appends the selected parts of a value to `kept`. Deserializing returns whether there were any.
struct Selection<'t, 'k> {
    nodes: Nodes<'t>,
    kept: &'k mut String,
}

/// Borrows from the text if it has no escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> DeserializeSeed<'de> for Selection<'_, '_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        if self.nodes.is_whole() {
            self.kept.push_str(<&RawValue>::deserialize(deserializer)?.get());
            return Ok(true);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Selection<'_, '_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<bool, A::Error> {
        let Self { nodes, kept } = self;
        let start = kept.len();
        while let Some(Name(name)) = fields.next_key()? {
            let Some(nodes) = nodes.field(&name) else {
                fields.next_value::<IgnoredAny>()?;
                continue;
            };
            let before = kept.len();
            kept.push(if before == start { '{' } else { ',' });
            kept.push_str(&serde_json::to_string(&*name).map_err(A::Error::custom)?);
            kept.push(':');
            if !fields.next_value_seed(Selection { nodes, kept: &mut *kept })? {
                kept.truncate(before);
            }
        }
        let any = kept.len() > start;
        if any {
            kept.push('}');
        }
        Ok(any)
    }

    /// Items before a selected one become null, so that the selected item keeps its index.
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        let Self { nodes, kept } = self;
        let start = kept.len();
        // The end of the last selected item.
        let mut end = start;
        let mut written = 0;
        for index in 0.. {
            let Some(nodes) = nodes.item(index) else {
                if items.next_element::<IgnoredAny>()?.is_none() {
                    break;
                }
                continue;
            };
            for place in written..=index {
                kept.push(if place == 0 { '[' } else { ',' });
                if place < index {
                    kept.push_str("null");
                }
            }
            // Superfluous nulls are removed only at the end: rewriting them for each item would take quadratic time.
            match items.next_element_seed(Selection { nodes, kept: &mut *kept })? {
                Some(true) => end = kept.len(),
                Some(false) => kept.push_str("null"),
                None => break,
            }
            written = index + 1;
        }
        kept.truncate(end);
        let any = end > start;
        if any {
            kept.push(']');
        }
        Ok(any)
    }

    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_str<E>(self, _: &str) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }
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
    use serde_json::Value;

    use super::*;

    const OBJECT: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u","annotations":{"x/y":"1","a~b":"2"}},
        "spec":{"containers":[{"name":"c0","image":"i0"},{"name":"c1","image":"i1"}],"other":true}}"#;

    fn project(pointers: &[&str]) -> Value {
        let pointers: Vec<_> = pointers.iter().map(|pointer| (*pointer).to_owned()).collect();
        let text = PointerTree::of_read(&pointers).expect("pointers").select(OBJECT).expect("valid");
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
    fn a_pointer_to_a_missing_field_selects_nothing() {
        let select = |pointers: &[&str]| {
            PointerTree::new(pointers.iter().copied()).expect("pointers").select(OBJECT).expect("valid")
        };
        assert_eq!(select(&["/spec/containers/7/image", "/spec/other/deeper", "/none"]), "{}");
        assert_eq!(
            select(&["/spec/containers/0/none", "/spec/containers/1/name"]),
            r#"{"spec":{"containers":[null,{"name":"c1"}]}}"#
        );
    }

    #[test]
    fn a_star_keeps_the_value_in_each_element_of_a_list() {
        let select = |pointers: &[&str], text: &str| {
            PointerTree::new(pointers.iter().copied()).expect("pointers").select(text).expect("valid")
        };
        assert_eq!(
            select(&["/spec/containers/*/image"], OBJECT),
            r#"{"spec":{"containers":[{"image":"i0"},{"image":"i1"}]}}"#
        );
        assert_eq!(
            select(&["/spec/containers/*/image", "/spec/containers/1/name"], OBJECT),
            r#"{"spec":{"containers":[{"image":"i0"},{"name":"c1","image":"i1"}]}}"#
        );
        assert_eq!(select(&["/a/*/b"], r#"{"a":[{"c":1},{"b":2},7]}"#), r#"{"a":[null,{"b":2}]}"#);
        assert_eq!(select(&["/a/*/b"], r#"{"a":{"*":{"b":1},"x":{"b":2}}}"#), r#"{"a":{"*":{"b":1}}}"#);
        assert_eq!(select(&["/a/*/*"], r#"{"a":[[1,2],[],[3]]}"#), r#"{"a":[[1,2],null,[3]]}"#);
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

    /// If the trees below `*` and `0` were merged for each list, this would copy gigabytes.
    #[test]
    fn a_star_beside_an_index_costs_no_copy_of_the_pointers() {
        let fields = (0..60).map(|it| format!("/a/*/*/{}{it}", "x".repeat(4_000)));
        let pointers: Vec<_> = fields.chain(["/a/*/0/y".to_owned()]).collect();
        let lists = vec![r#"[{"y":1,"z":2}]"#; 50_000].join(",");
        let tree = PointerTree::new(pointers.iter().map(String::as_str)).expect("pointers");
        let selected = tree.select(&format!(r#"{{"a":[{lists}]}}"#)).expect("valid");
        assert_eq!(selected.matches(r#"[{"y":1}]"#).count(), 50_000);
    }

    /// With quadratic work, this would take hours.
    #[test]
    fn long_lists_without_a_selected_item_are_read_quickly() {
        let items = vec![r#"{"a":1}"#; 200_000].join(",");
        let select = |pointers: &[&str], text: &str| {
            PointerTree::new(pointers.iter().copied()).expect("pointers").select(text).expect("valid")
        };
        assert_eq!(select(&["/items/*/name"], &format!(r#"{{"items":[{items}]}}"#)), "{}");
        let one = select(&["/items/*/name"], &format!(r#"{{"items":[{items},{{"name":"x"}},{items}]}}"#));
        assert!(one.starts_with(r#"{"items":[null,null,"#) && one.ends_with(r#",null,{"name":"x"}]}"#));
        let places: Vec<_> = (0..5_000).map(|place| format!("/items/{place}/name")).collect();
        let places: Vec<_> = places.iter().map(String::as_str).collect();
        assert_eq!(select(&places, &format!(r#"{{"items":[{items}]}}"#)), "{}");
    }

    #[test]
    fn a_pointer_that_is_too_deep_is_refused() {
        let deepest = "/a".repeat(SEGMENTS_MAX);
        assert!(PointerTree::new([&*deepest]).is_ok());
        for deep in ["/".repeat(500_000), format!("{deepest}/a")] {
            let errors = [
                PointerTree::new([&*deep]).expect_err("too deep"),
                PointerTree::of_read(std::slice::from_ref(&deep)).expect_err("too deep"),
                PointerTree::of_watch([&*deep]).expect_err("too deep"),
            ];
            for error in errors.map(|error| error.to_string()) {
                assert!(error.contains("segments, but at most 64") && error.len() < 500, "{error}");
            }
        }
    }

    #[test]
    fn an_invalid_pointer_is_refused() {
        for pointer in ["spec", "/a~", "/a~2"] {
            assert!(PointerTree::new([pointer]).is_err(), "{pointer}");
        }
    }
}
