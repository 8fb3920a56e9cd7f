//! What a primary needs of its finalizer before and after a call (§3.15), decided without I/O.
//!
//! The host keeps one finalizer a plugin: `windlass.dev/<plugin>`. Adding and removing it are JSON patches that are tested
//! against the incarnation and the version that the decision was made on, and on the very entry that goes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::object::Object;

/// How the finalizers of this project begin.
pub const PREFIX: &str = "windlass.dev/";

/// The finalizer of the plugin `plugin`.
#[must_use]
pub fn name(plugin: &str) -> String {
    format!("{PREFIX}{plugin}")
}

/// What is to be done about a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is alive and lacks the finalizer: add it first, then call.
    AddFirst,
    /// It is alive and has the finalizer: call.
    Call,
    /// It is being deleted and waits for the plugin: call, and once the plugin is done take the finalizer off.
    CleanUp,
    /// It is being deleted and does not wait for the plugin, which has never begun or is done: there is nothing to call
    /// about until it has gone.
    Leave,
}

/// What is to be done about a primary with these `finalizers`.
#[must_use]
pub fn step(deleting: bool, finalizers: &[String], name: &str) -> Step {
    match (deleting, finalizers.iter().any(|finalizer| finalizer == name)) {
        (false, false) => Step::AddFirst,
        (false, true) => Step::Call,
        (true, true) => Step::CleanUp,
        (true, false) => Step::Leave,
    }
}

#[derive(Deserialize)]
struct Top {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    finalizers: Option<Vec<String>>,
}

/// The finalizers of an object, in its order.
#[must_use]
pub fn of(object: &Object) -> Vec<String> {
    in_text(&object.text())
}

/// The finalizers that the JSON text of an object names.
#[must_use]
pub fn in_text(text: &str) -> Vec<String> {
    serde_json::from_str::<Top>(text).ok().and_then(|top| top.metadata.finalizers).unwrap_or_default()
}

/// Whether an object has the finalizer `name`, without counting as reading it.
#[must_use]
pub fn has(object: &Object, name: &str) -> bool {
    let text = object.glance();
    // Few objects have it, and looking for it is quicker than reading.
    text.contains(name) && in_text(&text).iter().any(|finalizer| finalizer == name)
}

/// The JSON patch that adds `name` to an object with these `finalizers`.
#[must_use]
pub fn addition(finalizers: &[String], name: &str) -> String {
    // A JSON patch cannot add to a list that is not there.
    let operation = if finalizers.is_empty() {
        json!({"op": "add", "path": "/metadata/finalizers", "value": [name]})
    } else {
        json!({"op": "add", "path": "/metadata/finalizers/-", "value": name})
    };
    Value::from(vec![operation]).to_string()
}

/// The JSON patch that removes `name` from an object with these `finalizers`, and nothing else whatever has happened
/// meanwhile. None: it has no such finalizer.
#[must_use]
pub fn removal(finalizers: &[String], name: &str) -> Option<String> {
    let path = format!("/metadata/finalizers/{}", finalizers.iter().position(|finalizer| finalizer == name)?);
    let operations = [json!({"op": "test", "path": path, "value": name}), json!({"op": "remove", "path": path})];
    Some(Value::from(operations.to_vec()).to_string())
}

/// Finalizers that a write of a plugin's adds or removes, for the grants to judge. `before`: the object as it was, if it is
/// known; `body`: the object, the applied fields, or the merge or strategic patch that is to be sent.
///
/// Without `before`, every finalizer that the body names counts. A body that says nothing of finalizers changes none, but
/// in a replacement (`replaces`), where what is not named goes.
#[must_use]
pub fn changed(before: Option<&str>, body: &str, replaces: bool) -> Vec<String> {
    let known = before.map(in_text).unwrap_or_default();
    let named = match named(body) {
        Some(named) => named,
        None if replaces => vec![],
        None => return vec![],
    };
    let mut changed: Vec<String> = named.iter().filter(|name| !known.contains(name)).cloned().collect();
    changed.extend(known.into_iter().filter(|name| !named.contains(name)));
    changed
}

/// Whether a JSON patch touches finalizers, or all that they are in. Which ones, only the server knows.
#[must_use]
pub fn touched_by_json_patch(patch: &str) -> bool {
    #[derive(Deserialize)]
    struct Operation {
        #[serde(default)]
        op: String,
        #[serde(default)]
        path: String,
        #[serde(default)]
        from: String,
    }
    let Ok(operations) = serde_json::from_str::<Vec<Operation>>(patch) else {
        return true; // The server will refuse it, or read it in another way than we do.
    };
    let concerns = |pointer: &str| {
        let pointer = pointer.trim_end_matches('/');
        matches!(pointer, "" | "/metadata")
            || pointer == "/metadata/finalizers"
            || pointer.starts_with("/metadata/finalizers/")
    };
    let changes = |operation: &Operation| operation.op != "test" && concerns(&operation.path);
    operations.iter().any(|operation| changes(operation) || (operation.op == "move" && concerns(&operation.from)))
}

/// The words of a strategic patch that take entries from the list, or order it.
const LISTS: [&str; 3] = ["finalizers", "$deleteFromPrimitiveList/finalizers", "$setElementOrder/finalizers"];

type Fields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// The finalizers that `body` names, under any of the words that a patch may use. None: it does not speak of them.
fn named(body: &str) -> Option<Vec<String>> {
    let top: Fields<'_> = serde_json::from_str(body).ok()?;
    let metadata = top.get("metadata").map(|metadata| serde_json::from_str::<Fields<'_>>(metadata.get()));
    // A strategic patch may replace the whole object or its metadata, and so what they hold.
    let replaced = top.contains_key("$patch").then(Vec::new);
    let Some(Ok(metadata)) = metadata else { return replaced };
    let mut lists = LISTS.iter().filter_map(|word| metadata.get(*word)).peekable();
    if lists.peek().is_none() && !metadata.contains_key("$patch") {
        return replaced;
    }
    // `null` and whatever is no list name nothing.
    Some(lists.flat_map(|raw| serde_json::from_str::<Vec<String>>(raw.get()).unwrap_or_default()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_finalizer_is_never_added_to_what_is_being_deleted() {
        let [with, without] = [list(&["other/x", "windlass.dev/a"]), list(&["other/x"])];
        assert_eq!(step(false, &without, "windlass.dev/a"), Step::AddFirst);
        assert_eq!(step(false, &with, "windlass.dev/a"), Step::Call);
        assert_eq!(step(true, &with, "windlass.dev/a"), Step::CleanUp);
        assert_eq!(step(true, &without, "windlass.dev/a"), Step::Leave);
    }

    #[test]
    fn a_removal_tests_the_entry_that_it_removes() {
        let patch = removal(&list(&["other/x", "windlass.dev/a"]), "windlass.dev/a").expect("it is there");
        let expected = json!([
            {"op": "test", "path": "/metadata/finalizers/1", "value": "windlass.dev/a"},
            {"op": "remove", "path": "/metadata/finalizers/1"},
        ]);
        assert_eq!(serde_json::from_str::<Value>(&patch).expect("JSON"), expected);
        assert_eq!(removal(&list(&["other/x"]), "windlass.dev/a"), None);
    }

    #[test]
    fn an_addition_leaves_what_is_there() {
        assert!(addition(&[], "windlass.dev/a").contains(r#"["windlass.dev/a"]"#));
        assert!(addition(&list(&["other/x"]), "windlass.dev/a").contains("/metadata/finalizers/-"));
    }

    #[test]
    fn what_a_body_says_of_finalizers_is_compared_with_what_there_is() {
        let before = r#"{"metadata":{"finalizers":["a/1","b/2"]}}"#;
        let same = r#"{"metadata":{"finalizers":["b/2","a/1"]}}"#;
        assert!(changed(Some(before), same, true).is_empty());
        assert_eq!(changed(Some(before), r#"{"metadata":{"finalizers":["a/1","c/3"]}}"#, true), ["c/3", "b/2"]);
        assert_eq!(changed(Some(before), r#"{"metadata":{"finalizers":null}}"#, false), ["a/1", "b/2"]);
        assert_eq!(changed(None, same, false), ["b/2", "a/1"]);
        for strategic in [
            r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a/1"]}}"#,
            r#"{"metadata":{"$patch":"replace","name":"x"}}"#,
            r#"{"$patch":"replace","metadata":{"name":"x"}}"#,
        ] {
            assert!(!changed(Some(before), strategic, false).is_empty(), "{strategic}");
        }
    }

    #[test]
    fn a_body_that_does_not_speak_of_finalizers_changes_some_only_if_it_replaces() {
        let before = r#"{"metadata":{"finalizers":["a/1"]}}"#;
        for body in [r#"{"spec":{}}"#, r#"{"metadata":{"labels":{}}}"#] {
            assert!(changed(Some(before), body, false).is_empty());
            assert_eq!(changed(Some(before), body, true), ["a/1"]);
        }
    }

    #[test]
    fn a_json_patch_touches_finalizers_wherever_they_are_part_of_it() {
        let touches = [
            r#"[{"op":"add","path":"/metadata/finalizers","value":[]}]"#,
            r#"[{"op":"remove","path":"/metadata/finalizers/0"}]"#,
            r#"[{"op":"replace","path":"/metadata","value":{}}]"#,
            r#"[{"op":"replace","path":"","value":{}}]"#,
            r#"[{"op":"move","from":"/metadata/finalizers","path":"/data/x"}]"#,
            "not JSON",
        ];
        for patch in touches {
            assert!(touched_by_json_patch(patch), "{patch}");
        }
        for patch in [
            r#"[{"op":"test","path":"/metadata/finalizers/0","value":"a"}]"#,
            r#"[{"op":"add","path":"/metadata/labels/a","value":"b"}]"#,
            r#"[{"op":"copy","from":"/metadata/finalizers","path":"/data/x"}]"#,
        ] {
            assert!(!touched_by_json_patch(patch), "{patch}");
        }
    }
}
