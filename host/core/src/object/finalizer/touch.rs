//! Which finalizers a write adds or removes, judged by its body, for the grants. `metadata_guard` of `windlass-kube`
//! asks before it sends a plugin's write.
//!
//! A plugin may be hostile, so a body that is not understood counts as touching all finalizers. So does a change of
//! `managedFields`, because it lets a later apply remove fields that it does not mention.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The form of a write's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MutationForm {
    New,
    /// The whole object: fields that are left out are removed.
    Replacement,
    /// The fields of an apply.
    Applied,
    Merge,
    Strategic,
    /// A JSON patch.
    Json,
}

/// The finalizers that a write adds or removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touch {
    Nothing,
    /// At most these.
    Names(BTreeSet<String>),
    /// The list will be exactly these finalizers. The previous list determines which finalizers are added and removed.
    Only(BTreeSet<String>),
    /// Unknown: only the server can tell.
    Any,
}

impl Touch {
    /// The finalizers that are added or removed when the list changes from `before` to `only`.
    #[must_use]
    pub fn difference(only: &BTreeSet<String>, before: Vec<String>) -> BTreeSet<String> {
        only.symmetric_difference(&before.into_iter().collect()).cloned().collect()
    }
}

/// The finalizers that a write of `body` touches.
#[must_use]
pub fn touch(form: MutationForm, body: &str) -> Touch {
    let touched = if form == MutationForm::Json { by_json_patch(body) } else { by_body(form, body) };
    touched.unwrap_or(Touch::Any)
}

/// As [`touch`], for a body that is known to be well-formed: a JSON patch, or a JSON object whose `metadata` is an
/// object or null. Few bodies name finalizers or managed fields, and searching for these words is several times faster
/// than parsing.
#[must_use]
pub fn touch_by_object(form: MutationForm, body: &str) -> Touch {
    let says = |word: &str| body.contains(word);
    // An escape such as `\u0066` may hide a word. Directives such as `$patch` have a meaning only in strategic patches.
    let may_matter = says("finalizers") || says("managedFields") || says("\\u");
    match form {
        MutationForm::Json => touch(form, body),
        _ if may_matter => touch(form, body),
        MutationForm::Strategic if says("$") => touch(form, body),
        MutationForm::Replacement => Touch::Only(BTreeSet::new()),
        _ => Touch::Nothing,
    }
}

pub(crate) type Fields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// `None` if the body is not understood.
fn by_body(form: MutationForm, body: &str) -> Option<Touch> {
    let top: Fields<'_> = serde_json::from_str(body).ok()?;
    let metadata = metadata_of(&top)?;
    let is_directed = |fields: &Fields<'_>| fields.contains_key("$patch") || fields.contains_key("$retainKeys");
    if form == MutationForm::Strategic && (is_directed(&top) || is_directed(&metadata)) {
        return None; // The directive may replace the object or its metadata, or keep only named fields.
    }
    let list = |field: &str| metadata.get(field).map(|raw| serde_json::from_str::<Option<BTreeSet<String>>>(raw.get()));
    let claims_fields = metadata.get("managedFields").is_some_and(|raw| raw.get() != "null");
    if claims_fields && form != MutationForm::New {
        return None;
    }
    let wanted = list("finalizers").transpose().ok()?;
    Some(match (form, wanted) {
        (MutationForm::Replacement, wanted) => Touch::Only(wanted.flatten().unwrap_or_default()),
        (MutationForm::Merge | MutationForm::Strategic, Some(None)) => Touch::Only(BTreeSet::new()),
        (MutationForm::Merge, Some(Some(wanted))) => Touch::Only(wanted),
        (MutationForm::Strategic, wanted) => {
            let removed = list("$deleteFromPrimitiveList/finalizers").transpose().ok()?;
            of_names(wanted.flatten().into_iter().chain(removed.flatten()).flatten().collect())
        }
        (_, wanted) => of_names(wanted.flatten().unwrap_or_default()),
    })
}

/// The `metadata` in a body with the fields `top`. `None` if `metadata` is not understood.
pub(crate) fn metadata_of<'a>(top: &Fields<'a>) -> Option<Fields<'a>> {
    let metadata: Option<Fields<'a>> = match top.get("metadata") {
        Some(raw) => serde_json::from_str(raw.get()).ok()?,
        None => None,
    };
    Some(metadata.unwrap_or_default())
}

fn of_names(names: BTreeSet<String>) -> Touch {
    if names.is_empty() { Touch::Nothing } else { Touch::Names(names) }
}

/// An operation of a JSON patch.
#[derive(Default, Deserialize)]
pub(crate) struct PatchOperation {
    #[serde(default)]
    pub(crate) op: String,
    #[serde(default)]
    pub(crate) path: String,
    #[serde(default)]
    from: String,
    #[serde(default)]
    pub(crate) value: Value,
}

/// Understands the two operations that name a finalizer: adding it to the end of the list, and removing an entry that
/// has just been tested.
fn by_json_patch(patch: &str) -> Option<Touch> {
    let operations: Vec<PatchOperation> = serde_json::from_str(patch).ok()?;
    let mut names = BTreeSet::new();
    let mut before = &PatchOperation::default();
    for operation in &operations {
        let PatchOperation { op, path, from, value } = operation;
        if (op != "test" && concerns(path)) || (op == "move" && concerns(from)) {
            let name = match &**op {
                "add" if path == "/metadata/finalizers/-" => value,
                "remove" if before.op == "test" && before.path == *path && is_entry(path) => &before.value,
                _ => return None,
            };
            names.insert(name.as_str()?.to_owned());
        }
        before = operation;
    }
    Some(of_names(names))
}

/// Whether a JSON pointer leads to finalizers or to field ownership, or to something that contains them.
fn concerns(pointer: &str) -> bool {
    let below = below_metadata(pointer);
    below.is_some_and(|below| below.first().is_none_or(|field| matches!(*field, "finalizers" | "managedFields")))
}

/// The segments of a JSON pointer below `metadata`; empty if the pointer leads to all of `metadata` or to the whole
/// object. `None` if it leads elsewhere. The API server's library ignores everything before the first slash.
pub(crate) fn below_metadata(pointer: &str) -> Option<Vec<&str>> {
    let pointer = pointer.split_once('/').map_or("", |(_, pointer)| pointer).trim_end_matches('/');
    match pointer.split_once('/') {
        None if matches!(pointer, "" | "metadata") => Some(Vec::new()),
        Some(("metadata", below)) => Some(below.split('/').collect()),
        _ => None,
    }
}

/// Whether a JSON pointer leads to one entry of the list of finalizers.
fn is_entry(pointer: &str) -> bool {
    let entry = pointer.strip_prefix("/metadata/finalizers/");
    entry.is_some_and(|at| !at.is_empty() && at.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn names(names: &[&str]) -> Touch {
        Touch::Names(set(names))
    }

    #[test]
    fn touch_by_object_agrees_with_touch() {
        let metadata = [
            r#"{"name":"x"}"#,
            r#"{"finalizers":["a/1"]}"#,
            r#"{"finalizers":null}"#,
            r#"{"\u0066inalizers":["a/1"]}"#,
            r#"{"\u0024patch":"replace"}"#,
            r#"{"managedFields":[{}]}"#,
            r#"{"managed\u0046ields":[{}]}"#,
            r#"{"$patch":"replace"}"#,
            r#"{"$retainKeys":["name"]}"#,
            r#"{"$deleteFromPrimitiveList/finalizers":["a/1"]}"#,
            "null",
        ];
        let forms = [
            MutationForm::New,
            MutationForm::Replacement,
            MutationForm::Applied,
            MutationForm::Merge,
            MutationForm::Strategic,
        ];
        for metadata in metadata {
            for body in [
                format!(r#"{{"metadata":{metadata},"spec":{{"text":"$HOME\n"}}}}"#),
                format!(r#"{{"$patch":"replace","metadata":{metadata}}}"#),
            ] {
                for form in forms {
                    assert_eq!(touch_by_object(form, &body), touch(form, &body), "{form:?} {body}");
                }
            }
        }
        let patch = r#"[{"op":"add","path":"/metadata/finalizers/-","value":"a/1"}]"#;
        assert_eq!(touch_by_object(MutationForm::Json, patch), names(&["a/1"]));
        assert_eq!(
            touch_by_object(MutationForm::Json, r#"[{"op":"replace","path":"/metadata","value":{}}]"#),
            Touch::Any
        );
    }

    #[test]
    fn named_finalizers_join_the_list_or_replace_it() {
        let body = r#"{"metadata":{"finalizers":["a/1","b/2"]}}"#;
        for form in [MutationForm::New, MutationForm::Applied, MutationForm::Strategic] {
            assert_eq!(touch(form, body), names(&["a/1", "b/2"]), "{form:?}");
        }
        for form in [MutationForm::Replacement, MutationForm::Merge] {
            assert_eq!(touch(form, body), Touch::Only(set(&["a/1", "b/2"])), "{form:?}");
        }
        let removed = r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a/1"]}}"#;
        assert_eq!(touch(MutationForm::Strategic, removed), names(&["a/1"]));
        assert_eq!(touch(MutationForm::Merge, removed), Touch::Nothing, "a field like any other");
    }

    #[test]
    fn a_body_without_finalizers_removes_them_only_if_it_replaces() {
        for body in [r#"{"spec":{}}"#, r#"{"metadata":null}"#, r#"{"metadata":{"labels":{},"managedFields":null}}"#] {
            for form in [MutationForm::New, MutationForm::Applied, MutationForm::Strategic, MutationForm::Merge] {
                assert_eq!(touch(form, body), Touch::Nothing, "{form:?} {body}");
            }
            assert_eq!(touch(MutationForm::Replacement, body), Touch::Only(set(&[])), "{body}");
        }
        let null = r#"{"metadata":{"finalizers":null}}"#;
        for form in [MutationForm::Replacement, MutationForm::Merge, MutationForm::Strategic] {
            assert_eq!(touch(form, null), Touch::Only(set(&[])), "{form:?}");
        }
        for form in [MutationForm::New, MutationForm::Applied] {
            assert_eq!(touch(form, null), Touch::Nothing, "{form:?}");
        }
    }

    #[test]
    fn a_body_that_is_not_understood_may_touch_any_finalizer() {
        let strategic = [
            r#"{"metadata":{"$patch":"replace","name":"x"}}"#,
            r#"{"$patch":"replace","metadata":{"name":"x"}}"#,
            r#"{"metadata":{"$retainKeys":["name"],"name":"x"}}"#,
            r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":"a/1"}}"#,
        ];
        for body in strategic {
            assert_eq!(touch(MutationForm::Strategic, body), Touch::Any, "{body}");
        }
        for body in
            ["", "[]", r#"{"metadata":7}"#, r#"{"metadata":{"finalizers":{}}}"#, r#"{"metadata":{"finalizers":[7]}}"#]
        {
            for form in [
                MutationForm::New,
                MutationForm::Replacement,
                MutationForm::Applied,
                MutationForm::Merge,
                MutationForm::Strategic,
            ] {
                assert_eq!(touch(form, body), Touch::Any, "{form:?} {body}");
            }
        }
    }

    /// A manager that takes over ownership of fields removes them with an apply that does not mention them.
    #[test]
    fn a_change_of_field_ownership_may_touch_all() {
        let body = r#"{"metadata":{"managedFields":[{}]}}"#;
        for form in [MutationForm::Replacement, MutationForm::Applied, MutationForm::Merge, MutationForm::Strategic] {
            assert_eq!(touch(form, body), Touch::Any, "{form:?}");
        }
        assert_eq!(touch(MutationForm::New, body), Touch::Nothing, "there are none yet");
        assert_eq!(touch(MutationForm::Json, r#"[{"op":"remove","path":"/metadata/managedFields/0"}]"#), Touch::Any);
    }

    #[test]
    fn names_are_compared_whatever_their_order() {
        let before = || vec!["a/1".to_owned(), "b/2".to_owned()];
        assert!(Touch::difference(&set(&["b/2", "a/1"]), before()).is_empty());
        assert_eq!(Touch::difference(&set(&["a/1", "c/3"]), before()), set(&["b/2", "c/3"]));
    }

    #[test]
    fn a_json_patch_touches_finalizers_wherever_they_are_part_of_it() {
        for patch in [
            r#"[{"op":"add","path":"/metadata/finalizers","value":[]}]"#,
            r#"[{"op":"remove","path":"/metadata/finalizers/0"}]"#,
            r#"[{"op":"remove","path":"/metadata/finalizers/"}]"#,
            r#"[{"op":"remove","path":"ignored/metadata/finalizers/0"}]"#,
            r#"[{"op":"replace","path":"/metadata","value":{}}]"#,
            r#"[{"op":"replace","path":"","value":{}}]"#,
            r#"[{"op":"move","from":"/metadata/finalizers","path":"/data/x"}]"#,
            r#"[{"op":"add","path":"/metadata/finalizers/-","value":7}]"#,
            r#"[{"op":"test","path":"/metadata/finalizers/0","value":"a"},{"op":"remove","path":"/metadata/finalizers/1"}]"#,
            "not JSON",
        ] {
            assert_eq!(touch(MutationForm::Json, patch), Touch::Any, "{patch}");
        }
        for patch in [
            r#"[{"op":"test","path":"/metadata/finalizers/0","value":"a"}]"#,
            r#"[{"op":"add","path":"/metadata/labels/a","value":"b"}]"#,
            r#"[{"op":"copy","from":"/metadata/finalizers","path":"/data/x"}]"#,
        ] {
            assert_eq!(touch(MutationForm::Json, patch), Touch::Nothing, "{patch}");
        }
    }

    #[test]
    fn a_json_patch_that_tests_the_name_touches_no_other() {
        let patch = r#"[{"op":"add","path":"/metadata/finalizers/-","value":"a/1"},
            {"op":"test","path":"/metadata/finalizers/0","value":"b/2"},{"op":"remove","path":"/metadata/finalizers/0"}]"#;
        assert_eq!(touch(MutationForm::Json, patch), names(&["a/1", "b/2"]));
    }
}
