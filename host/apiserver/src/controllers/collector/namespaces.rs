//! The end of a namespace: its content is deleted, and when nothing is left its own finalizer is removed.

use serde_json::{Value, json};

use super::{collect, rewrite};
use crate::object;
use crate::resources::builtin;
use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::change_log::{Change, ChangeKind};
use crate::storage::state::State;
use crate::verbs::delete::Propagation;

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
    for (place, terminating) in &content {
        if !terminating {
            collect(state, place, Some(Propagation::Background));
        }
    }
    let finalizers = object::strings(namespace, "/spec/finalizers");
    // What finalizers hold is seen again when it goes, and so is what just went.
    if !content.is_empty() || !finalizers.contains(&"kubernetes") {
        return;
    }
    let kept: Vec<&str> = finalizers.into_iter().filter(|name| *name != "kubernetes").collect();
    let mut finalized = namespace.clone();
    object::map_mut(&mut finalized, "spec").insert("finalizers".to_owned(), json!(kept));
    rewrite(state, key, finalized);
}

/// The objects in the namespace, and whether each is already terminating.
fn content(state: &State, namespace: &str) -> Vec<(ObjectKey, bool)> {
    let mut found = Vec::new();
    for resource in state.store.resources() {
        for object in
            state.store.list(&resource, Some(namespace)).filter(|object| object::namespace(object) == namespace)
        {
            let key = ObjectKey {
                resource: resource.clone(),
                namespace: namespace.to_owned(),
                name: object::name(object).to_owned(),
            };
            found.push((key, object::is_terminating(object)));
        }
    }
    found
}
