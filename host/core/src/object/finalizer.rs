//! Decides what to do about a primary's finalizer before and after a call (ADR 8), without I/O.
//!
//! The host keeps one finalizer a plugin: `windlass.dev/<plugin>`. Adding and removing it are JSON patches that are tested
//! against the incarnation and the version that the decision was made on, and on the very entry that goes.

mod touch;

use serde::Deserialize;
use serde_json::{Value, json};

pub use touch::{MutationForm, Touch, touch, touch_by_object};
pub(crate) use touch::{PatchOperation, below_metadata, metadata_of};

use crate::object::Object;

/// How the finalizers of this project begin.
pub const PREFIX: &str = "windlass.dev/";

/// The finalizer of the plugin `plugin`.
#[must_use]
pub fn name(plugin: &str) -> String {
    format!("{PREFIX}{plugin}")
}

/// The step to take about a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerStep {
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

/// The finalizers of an object, in its order.
#[must_use]
pub fn of(object: &Object) -> Vec<String> {
    in_text(&object.text())
}

/// The finalizers that the JSON text of an object names.
#[must_use]
pub fn in_text(text: &str) -> Vec<String> {
    serde_json::from_str::<FinalizersObject>(text).ok().and_then(|top| top.metadata.finalizers).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn what_marks_objects_is_the_same_in_every_version() {
        // Another version, or the next one, finds by these what it has to look after.
        assert_eq!(name("webapp"), "windlass.dev/webapp");
        assert_eq!(crate::call::compose::CREATED_BY, "windlass.dev/created-by");
    }

    #[test]
    fn a_finalizer_is_never_added_to_what_is_being_deleted() {
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
    fn an_addition_leaves_what_is_there() {
        assert!(addition(&[], "windlass.dev/a").contains(r#"["windlass.dev/a"]"#));
        assert!(addition(&list(&["other/x"]), "windlass.dev/a").contains("/metadata/finalizers/-"));
    }
}
