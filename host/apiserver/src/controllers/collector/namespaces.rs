//! The end of a namespace: its content is deleted, and when nothing is left its own finalizer is removed.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{collect_all, rewrite};
use crate::object;
use crate::resources::builtin;
use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::change_log::{Change, ChangeKind};
use crate::storage::state::State;

pub(super) fn react(state: &mut State, resource: &GroupResource, change: &Change) {
    let namespace = if *resource == builtin::namespaces() {
        object::name(&change.object)
    } else if change.kind == ChangeKind::Deleted {
        object::namespace(&change.object)
    } else {
        return;
    };
    let key = ObjectKey { resource: builtin::namespaces(), namespace: String::new(), name: namespace.to_owned() };
    let Some(object) = state.store.get(&key).cloned() else { return };
    if object::is_terminating(&object) {
        empty(state, &key, &object);
    }
}

fn empty(state: &mut State, key: &ObjectKey, namespace: &Value) {
    let content = content(state, &key.name);
    let finalizers = object::strings(namespace, "/spec/finalizers");
    // What finalizers hold is seen again when it goes, and so is what just went.
    if !collect_all(state, &content) || !finalizers.contains(&"kubernetes") {
        return;
    }
    let kept: Vec<&str> = finalizers.into_iter().filter(|name| *name != "kubernetes").collect();
    let mut finalized = namespace.clone();
    object::map_mut(&mut finalized, "spec").insert("finalizers".to_owned(), json!(kept));
    rewrite(state, key, finalized);
}

/// The objects in the namespace.
fn content(state: &State, namespace: &str) -> Vec<(GroupResource, Arc<Value>)> {
    let mut found = Vec::new();
    for resource in state.store.resources() {
        let objects = state.store.list(&resource, Some(namespace));
        found.extend(objects.map(|object| (resource.clone(), object.clone())));
    }
    found
}
