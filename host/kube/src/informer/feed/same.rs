//! Decides whether two objects are the same state of one object.

use windlass_core::object::Object;

/// Whether two states are the same. The version is not enough: if a `CustomResourceDefinition` gets another default,
/// its objects read differently without a write to any of them.
pub(super) fn is_same(one: &Object, other: &Object) -> bool {
    // The two are often the same allocation, for which this comparison is cheap.
    one == other || (one.header == other.header && reads_alike(&one.glance(), &other.glance()))
}

/// Whether two texts are equal except for the place of `apiVersion` and `kind`. A server omits these in the items of a
/// list, so they are in another place than in an event.
fn reads_alike(one: &str, other: &str) -> bool {
    let value = |text| serde_json::from_str::<serde_json::Value>(text).ok();
    let parts = split_kind(one);
    one == other || (parts.is_some() && parts == split_kind(other)) || {
        let one = value(one);
        one.is_some() && one == value(other)
    }
}

/// `apiVersion` and `kind` of a text that begins with them, in either order, and the rest of the text.
fn split_kind(text: &str) -> Option<(&str, &str, &str)> {
    let mut fields = text.strip_prefix('{')?.splitn(3, ',');
    let (one, other, rest) = (fields.next()?, fields.next()?, fields.next()?);
    let (api_version, kind) = if one.starts_with("\"kind\"") { (other, one) } else { (one, other) };
    let are_these = api_version.starts_with("\"apiVersion\":\"") && kind.starts_with("\"kind\":\"");
    are_these.then_some((api_version, kind, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_only_in_the_place_of_the_kind_are_alike() {
        let listed = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"a":1,"b":2}}"#;
        for alike in [
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"a":1,"b":2}}"#,
            r#"{"metadata":{"b":2,"a":1},"kind":"Pod","apiVersion":"v1"}"#,
        ] {
            assert!(reads_alike(listed, alike), "{alike}");
        }
        for other in [
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"a":1,"b":3}}"#,
            r#"{"kind":"Pod","apiVersion":"v2","metadata":{"a":1,"b":2}}"#,
            "{",
        ] {
            assert!(!reads_alike(listed, other), "{other}");
        }
    }
}
