//! Decides what to do about a primary's finalizer before and after a call (ADR 8), without I/O.
//!
//! The host keeps one finalizer per plugin: `windlass.dev/<plugin>`. It is added and removed by JSON patches that
//! test the object's UID, its version, and the very entry to be removed.

mod touch;

use serde::Deserialize;
use serde_json::{Value, json};

pub use touch::{MutationForm, Touch, touch, touch_by_object};
pub(crate) use touch::{PatchOperation, below_metadata, metadata_of};

use crate::object::Object;

/// The prefix of this project's finalizers.
pub const PREFIX: &str = "windlass.dev/";

/// The finalizer of the plugin `plugin`.
#[must_use]
pub fn name(plugin: &str) -> String {
    format!("{PREFIX}{plugin}")
}

/// The step to take about a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerStep {
    /// The primary is not being deleted and lacks the finalizer: add it, then call.
    AddFirst,
    /// The primary is not being deleted and has the finalizer: call.
    Call,
    /// The primary is being deleted and waits for the plugin: call, and remove the finalizer once the plugin has
    /// finished.
    CleanUp,
    /// The primary is being deleted and does not wait for the plugin, which has never begun or has finished: do not
    /// call.
    Leave,
}

/// The step to take about a primary with these `finalizers`.
#[must_use]
pub fn step(deleting: bool, finalizers: &[String], name: &str) -> FinalizerStep {
    match (deleting, finalizers.iter().any(|finalizer| finalizer == name)) {
        (false, false) => FinalizerStep::AddFirst,
        (false, true) => FinalizerStep::Call,
        (true, true) => FinalizerStep::CleanUp,
        (true, false) => FinalizerStep::Leave,
    }
}

#[derive(Deserialize)]
struct FinalizersObject {
    #[serde(default)]
    metadata: FinalizersMetadata,
}

#[derive(Default, Deserialize)]
struct FinalizersMetadata {
    #[serde(default)]
    finalizers: Option<Vec<String>>,
}

/// The finalizers of an object, in their order.
#[must_use]
pub fn of(object: &Object) -> Vec<String> {
    in_text(&object.text())
}

/// The finalizers in the JSON text of an object.
#[must_use]
pub fn in_text(text: &str) -> Vec<String> {
    serde_json::from_str::<FinalizersObject>(text).ok().and_then(|top| top.metadata.finalizers).unwrap_or_default()
}

/// Whether an object has the finalizer `name`. Does not count as a read of the text.
#[must_use]
pub fn has(object: &Object, name: &str) -> bool {
    let text = object.glance();
    // Few objects have the finalizer, and a text search is faster than parsing.
    text.contains(name) && in_text(&text).iter().any(|finalizer| finalizer == name)
}

/// The JSON patch that adds `name` to an object with these `finalizers`.
#[must_use]
pub fn addition(finalizers: &[String], name: &str) -> String {
    // A JSON patch cannot add to a list that does not exist.
    let operation = if finalizers.is_empty() {
        json!({"op": "add", "path": "/metadata/finalizers", "value": [name]})
    } else {
        json!({"op": "add", "path": "/metadata/finalizers/-", "value": name})
    };
    Value::from(vec![operation]).to_string()
}

/// The JSON patch that removes `name` from an object with these `finalizers`. It removes nothing else, even if the
/// object has changed. `None` if there is no such finalizer.
#[must_use]
pub fn removal(finalizers: &[String], name: &str) -> Option<String> {
    let path = format!("/metadata/finalizers/{}", finalizers.iter().position(|finalizer| finalizer == name)?);
    let operations = [json!({"op": "test", "path": path, "value": name}), json!({"op": "remove", "path": path})];
    Some(Value::from(operations.to_vec()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn marker_names_are_the_same_in_every_version() {
        // Another version of the host recognises its objects by these names.
        assert_eq!(name("webapp"), "windlass.dev/webapp");
        assert_eq!(crate::call::compose::CREATED_BY, "windlass.dev/created-by");
    }

    #[test]
    fn a_finalizer_is_never_added_during_deletion() {
        let [with, without] = [list(&["other/x", "windlass.dev/a"]), list(&["other/x"])];
        assert_eq!(step(false, &without, "windlass.dev/a"), FinalizerStep::AddFirst);
        assert_eq!(step(false, &with, "windlass.dev/a"), FinalizerStep::Call);
        assert_eq!(step(true, &with, "windlass.dev/a"), FinalizerStep::CleanUp);
        assert_eq!(step(true, &without, "windlass.dev/a"), FinalizerStep::Leave);
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
    fn an_addition_keeps_other_finalizers() {
        assert!(addition(&[], "windlass.dev/a").contains(r#"["windlass.dev/a"]"#));
        assert!(addition(&list(&["other/x"]), "windlass.dev/a").contains("/metadata/finalizers/-"));
    }
}
