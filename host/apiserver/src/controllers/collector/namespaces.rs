//! Deletes a namespace's content, reports what is left in the namespace's conditions, and removes its finalizer once
//! nothing is left.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{collect_all, namespace_conditions, rewrite};
use crate::object;
use crate::request::{Target, WriteOptions};
use crate::resources::builtin;
use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::change_log::{Change, ChangeKind};
use crate::storage::state::State;
use crate::verbs::update;

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
        empty(state, &key);
    }
}

/// One pass of `deleteAllContent` in `pkg/controller/namespace/deletion/namespaced_resources_deleter.go`: Pods are
/// deleted before everything else. Each deletion that completes, or that finalizers delay, leads to another pass.
fn empty(state: &mut State, key: &ObjectKey) {
    let pods = GroupResource::new("", "pods");
    let mut content = content(state, &key.name);
    content.retain(|(resource, _)| *resource == pods);
    collect_all(state, &content);
    let only_pods = state.store.list(&pods, Some(&key.name)).next().is_some();
    if !only_pods {
        collect_all(state, &self::content(state, &key.name));
    }
    let remaining = self::content(state, &key.name);
    let Some(namespace) = state.store.get(key).cloned() else { return };
    // As long as there are Pods, nothing is counted.
    let counted = if only_pods { Vec::new() } else { namespace_conditions::counted(state, &remaining) };
    let mut written = Value::clone(&namespace);
    if namespace_conditions::update(&mut written, &counted, &state.now()) {
        write_status(state, key, written);
    }
    let Some(namespace) = state.store.get(key).cloned() else { return };
    let finalizers = object::strings(&namespace, "/spec/finalizers");
    if !remaining.is_empty() || !finalizers.contains(&"kubernetes") {
        return;
    }
    let kept: Vec<&str> = finalizers.into_iter().filter(|name| *name != "kubernetes").collect();
    let mut finalized = Value::clone(&namespace);
    object::map_mut(&mut finalized, "spec").insert("finalizers".to_owned(), json!(kept));
    rewrite(state, key, finalized);
}

fn write_status(state: &mut State, key: &ObjectKey, namespace: Value) {
    let Some(resource) = state.registry.storage_type(&key.resource).cloned() else { return };
    let subresource = Some("status".to_owned());
    let target = Target { resource, namespace: None, name: Some(key.name.clone()), subresource };
    if let Err(error) = update::update(state, &target, &WriteOptions::of_component(super::MANAGER), namespace) {
        tracing::debug!(name = key.name, %error, "the conditions of a namespace were refused");
    }
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
