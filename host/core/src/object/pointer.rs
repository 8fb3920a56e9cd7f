//! JSON pointers (RFC 6901) in which `*` stands for each element of a list.
//!
//! RFC 6901 gives `*` no meaning in a list, so every pointer of the RFC keeps its meaning. In an object `*` is a key,
//! just as `0` is an index in a list and a key in an object.

use std::borrow::Cow;

use serde_json::Value;

/// The segment that stands for each element of a list.
pub const EACH: &str = "*";

/// How many segments a pointer of a plugin may have. The host follows pointers by recursion, and no field of a
/// Kubernetes API is nearly as deep.
pub const SEGMENTS_MAX: usize = 64;

/// The number of segments of `pointer`.
#[must_use]
pub fn segment_count(pointer: &str) -> usize {
    pointer.bytes().filter(|byte| *byte == b'/').count()
}

/// Whether `pointer` may lead to several values.
#[must_use]
pub fn has_each(pointer: &str) -> bool {
    pointer.split('/').any(|segment| segment == EACH)
}

/// The values at `pointer`, in list order.
#[must_use]
pub fn values<'v>(value: &'v Value, pointer: &str) -> Vec<&'v Value> {
    let mut found = vec![value];
    for segment in segments(pointer) {
        found = found.into_iter().flat_map(|value| below(value, &segment)).collect();
        if found.is_empty() {
            break;
        }
    }
    found
}

/// Whether the values at `pointer` differ, or exist in only one of the two objects.
#[must_use]
pub fn differs(old: &Value, new: &Value, pointer: &str) -> bool {
    let path: Vec<_> = segments(pointer).collect();
    differ(Some(old), Some(new), &path)
}

fn differ(old: Option<&Value>, new: Option<&Value>, path: &[Cow<'_, str>]) -> bool {
    let Some((segment, rest)) = path.split_first() else { return old != new };
    if old.is_none() && new.is_none() {
        return false;
    }
    if *segment == EACH {
        let (old, new) = (items(old), items(new));
        let mut places = 0..old.len().max(new.len());
        if places.any(|at| differ(old.get(at), new.get(at), rest)) {
            return true;
        }
    }
    differ(step(old, segment), step(new, segment), rest)
}

fn step<'v>(value: Option<&'v Value>, segment: &str) -> Option<&'v Value> {
    value.and_then(|value| child(value, segment))
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn below<'v>(value: &'v Value, segment: &str) -> Vec<&'v Value> {
    match value {
        Value::Array(items) if segment == EACH => items.iter().collect(),
        _ => child(value, segment).into_iter().collect(),
    }
}

fn child<'v>(value: &'v Value, segment: &str) -> Option<&'v Value> {
    match value {
        Value::Object(fields) => fields.get(segment),
        Value::Array(items) => items.get(place(segment)?),
        _ => None,
    }
}

/// The list index that a segment names. RFC 6901 allows only digits without a leading zero.
fn place(segment: &str) -> Option<usize> {
    let is_canonical =
        segment == "0" || (!segment.starts_with('0') && segment.bytes().all(|byte| byte.is_ascii_digit()));
    is_canonical.then(|| segment.parse().ok()).flatten()
}

/// The pointer to `key` in the object at `pointer`.
#[must_use]
pub fn joined(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// Unescapes a segment of a pointer.
#[must_use]
pub fn unescaped(segment: &str) -> Cow<'_, str> {
    if segment.contains('~') {
        Cow::Owned(segment.replace("~1", "/").replace("~0", "~"))
    } else {
        Cow::Borrowed(segment)
    }
}

fn segments(pointer: &str) -> impl Iterator<Item = Cow<'_, str>> {
    pointer.split('/').skip(1).map(unescaped)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts<'v>(value: &'v Value, pointer: &str) -> Vec<&'v str> {
        values(value, pointer).into_iter().filter_map(Value::as_str).collect()
    }

    #[test]
    fn a_joined_pointer_leads_to_its_key() {
        let object = json!({"a/b": {"c~d": "deep"}});
        let pointer = joined(&joined("", "a/b"), "c~d");
        assert_eq!((pointer.as_str(), texts(&object, &pointer)), ("/a~1b/c~0d", vec!["deep"]));
    }

    #[test]
    fn a_star_stands_for_each_element_of_a_list() {
        let object = json!({"spec": {"sources": [{"name": "a"}, {}, {"name": "b"}, 7], "names": ["c", "d"]}});
        assert_eq!(texts(&object, "/spec/sources/*/name"), ["a", "b"]);
        assert_eq!(texts(&object, "/spec/names/*"), ["c", "d"]);
        assert_eq!(texts(&object, "/spec/sources/2/name"), ["b"]);
        assert!(texts(&object, "/spec/none/*").is_empty());
    }

    #[test]
    fn lists_may_be_in_lists() {
        let object = json!({"rules": [{"from": [{"name": "a"}, {"name": "b"}]}, {"from": [{"name": "c"}]}, {}]});
        assert_eq!(texts(&object, "/rules/*/from/*/name"), ["a", "b", "c"]);
    }

    #[test]
    fn a_star_is_an_ordinary_key_of_an_object() {
        let object = json!({"data": {"*": "star", "a": "letter"}});
        assert_eq!(texts(&object, "/data/*"), ["star"]);
        assert!(texts(&json!({"data": {"a": "letter"}}), "/data/*").is_empty());
    }

    #[test]
    fn pointers_are_read_as_in_rfc_6901() {
        let object = json!({"a/b": {"c~d": "deep"}, "": "empty"});
        assert_eq!(texts(&object, "/a~1b/c~0d"), ["deep"]);
        assert_eq!(texts(&object, "/"), ["empty"]);
        assert_eq!(values(&object, ""), [&object]);
    }

    #[test]
    fn values_are_compared_index_by_index() {
        let named =
            |names: &[&str]| json!({"refs": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()});
        let changed = |old: &Value, new: &Value| differs(old, new, "/refs/*/name");
        assert!(!changed(&named(&["a", "b"]), &named(&["a", "b"])));
        assert!(changed(&named(&["a", "b"]), &named(&["a", "c"])));
        assert!(changed(&named(&["a", "b"]), &named(&["b", "a"])));
        assert!(changed(&named(&["a"]), &named(&["a", "b"])));
        assert!(changed(&named(&["a"]), &json!({})));
        assert!(
            !changed(&json!({"refs": [{"other": 1}]}), &json!({"refs": [{"other": 2}, {}]})),
            "no name has changed"
        );
    }

    #[test]
    fn a_list_replaced_by_an_object_differs_if_a_value_is_lost() {
        let (list, object) = (json!({"a": [{"b": 1}]}), json!({"a": {"*": {"b": 1}}}));
        assert!(differs(&list, &object, "/a/*/b"));
        assert!(!differs(&list, &object, "/a/*/none"));
    }
}
