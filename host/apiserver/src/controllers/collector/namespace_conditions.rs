//! The conditions of a terminating namespace: `pkg/controller/namespace/deletion/status_condition_utils.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::object::{self, text};
use crate::resources::resource::GroupResource;
use crate::storage::state::State;

/// Each condition's type, with its reason and message when nothing is wrong. The first three are about failures that do
/// not occur in this server.
const CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    (CONTENT, "ContentRemoved", "All content successfully removed"),
    (FINALIZERS, "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];
const CONTENT: &str = "NamespaceContentRemaining";
const FINALIZERS: &str = "NamespaceFinalizersRemaining";

/// The remaining objects for each resource that serves them.
pub(super) fn counted(
    state: &State,
    remaining: &[(GroupResource, Arc<Value>)],
) -> Vec<(GroupResource, Vec<Arc<Value>>)> {
    let served = state.registry.all().filter(|resource| resource.namespaced);
    // A resource has one entry for each of its versions.
    let ids: BTreeMap<_, _> = served.map(|resource| (resource.id.clone(), resource.storage.clone())).collect();
    let objects_of = |storage: &GroupResource| -> Vec<Arc<Value>> {
        remaining.iter().filter(|(resource, _)| resource == storage).map(|(_, object)| Arc::clone(object)).collect()
    };
    let counted = ids.into_iter().map(|(id, storage)| (id, objects_of(&storage)));
    counted.filter(|(_, objects)| !objects.is_empty()).collect()
}

/// Updates the conditions. True if one has changed.
pub(super) fn update(namespace: &mut Value, remaining: &[(GroupResource, Vec<Arc<Value>>)], now: &str) -> bool {
    let before = namespace["status"]["conditions"].clone();
    let conditions = CONDITIONS.map(|(kind, reason, message)| {
        let found = match kind {
            CONTENT => content(remaining).map(|message| ("SomeResourcesRemain", message)),
            FINALIZERS => finalizers(remaining).map(|message| ("SomeFinalizersRemain", message)),
            _ => None,
        };
        let status = if found.is_some() { "True" } else { "False" };
        let (reason, message) = found.unwrap_or((reason, message.to_owned()));
        let known = object::items(&before, "").iter().find(|condition| condition["type"] == kind);
        let since =
            known.filter(|known| known["status"] == status).map_or(now, |known| text(known, "/lastTransitionTime"));
        json!({ "type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message })
    });
    let others = object::items(&before, "")
        .iter()
        .filter(|condition| CONDITIONS.iter().all(|(kind, ..)| condition["type"] != *kind));
    let updated: Vec<Value> = others.cloned().chain(conditions).collect();
    let is_changed = before != json!(updated);
    object::map_mut(namespace, "status").insert("conditions".to_owned(), json!(updated));
    is_changed
}

fn content(remaining: &[(GroupResource, Vec<Arc<Value>>)]) -> Option<String> {
    let lines: BTreeSet<String> = remaining
        .iter()
        .map(|(id, objects)| format!("{}.{} has {} resource instances", id.plural, id.group, objects.len()))
        .collect();
    joined("Some resources are remaining", &lines)
}

fn finalizers(remaining: &[(GroupResource, Vec<Arc<Value>>)]) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for finalizer in remaining.iter().flat_map(|(_, objects)| objects).flat_map(|object| object::finalizers(object)) {
        *counts.entry(finalizer).or_default() += 1;
    }
    let lines = counts.iter().map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"));
    joined("Some content in the namespace has finalizers remaining", &lines.collect())
}

fn joined(what: &str, lines: &BTreeSet<String>) -> Option<String> {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    (!lines.is_empty()).then(|| format!("{what}: {}", lines.join(", ")))
}
