//! Garbage collection by owner references, as in `pkg/controller/garbagecollector` of Kubernetes 1.36.3: dependents of
//! missing owners are deleted, foreground deletion waits for dependents, and orphaning removes their references.
//!
//! Dependents are found by the owner's UID. Whether a dependent still has that owner depends on the whole reference:
//! version, kind and name, in the dependent's namespace.

use serde_json::{Value, json};

use super::{collect, invalid_owners, rewrite};
use crate::object::{self, OwnerReference, text};
use crate::request::{Target, WriteOptions};
use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::change_log::{Change, ChangeKind};
use crate::storage::state::State;
use crate::verbs::delete::{FOREGROUND, ORPHAN, Propagation};
use crate::verbs::update;

/// The state of the owner that a reference names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerState {
    /// The owner exists, and does not wait for its dependents.
    Solid,
    /// The owner exists, and waits for its dependents to be deleted.
    Waiting,
    Absent,
    /// The owner's version or kind is not served, or is namespaced although the dependent is not. Then the dependent is
    /// left alone.
    Unresolved,
}

/// Reacts to a change. Returns the objects that may have lost an owner, to be reviewed a little later.
pub(super) fn react(state: &mut State, resource: &GroupResource, change: &Change) -> Vec<ObjectKey> {
    let key = ObjectKey::of(resource, &change.object);
    let owners = object::owner_references(&change.object);
    let previous = change.previous.as_deref().map(object::owner_references).unwrap_or_default();
    let abandoned = if change.kind == ChangeKind::Deleted {
        state.store.dependents(object::uid(&change.object))
    } else {
        settle(state, &key);
        invalid_owners::report(state, &key, &change.object, &previous);
        let has_lost = owners.iter().any(|owner| resolve(state, &key, owner) == OwnerState::Absent);
        if has_lost { vec![key] } else { Vec::new() }
    };
    // The changed or deleted object may be a dependent for which a terminating owner waits.
    for owner in owners.iter().chain(&previous) {
        if let Some(owner) = state.store.find(owner.uid) {
            settle(state, &owner);
        }
    }
    abandoned
}

/// The objects with an owner of the kind that `definition` defines. Their references may only now be resolvable.
pub(super) fn dependents_of_kind(state: &State, definition: &Value) -> Vec<ObjectKey> {
    let (group, kind) = (text(definition, "/spec/group"), text(definition, "/spec/names/kind"));
    let is_of_kind = |owner: &OwnerReference<'_>| owner.kind == kind && group_and_version(owner).0 == group;
    let has_such_owner = |key: &&ObjectKey| {
        state.store.get(key).is_some_and(|object| object::owner_references(object).iter().any(is_of_kind))
    };
    state.store.all_dependents().filter(has_such_owner).cloned().collect()
}

/// Deletes an object if all its owners are gone or wait for its deletion. Otherwise removes the references to such
/// owners.
pub(in crate::controllers) fn review(state: &mut State, key: &ObjectKey) {
    let Some(object) = state.store.get(key).cloned() else { return };
    let owners = object::owner_references(&object);
    if owners.is_empty() || object::is_terminating(&object) {
        return;
    }
    let found: Vec<OwnerState> = owners.iter().map(|owner| resolve(state, key, owner)).collect();
    if found.contains(&OwnerState::Unresolved) {
        return;
    }
    if found.contains(&OwnerState::Solid) {
        let dropped = owners.iter().zip(&found).filter(|(_, found)| **found != OwnerState::Solid);
        let dropped: Vec<&str> = dropped.map(|(owner, _)| owner.uid).collect();
        if !dropped.is_empty() {
            let mut kept = Value::clone(&object);
            object::remove_owner_references(&mut kept, |uid| dropped.contains(&uid));
            update_owners(state, key, kept);
        }
        return;
    }
    let dependents = state.store.dependents(object::uid(&object));
    if found.contains(&OwnerState::Waiting) && !dependents.is_empty() {
        if dependents.iter().any(|dependent| is_waiting(state, dependent)) {
            unblock_owners(state, key, &object);
        }
        return collect(state, key, Some(Propagation::Foreground));
    }
    // If the object itself asks for orphaning or foreground deletion, it is deleted that way.
    let finalizers = object::finalizers(&object);
    let propagation = match () {
        () if finalizers.contains(&ORPHAN) => Propagation::Orphan,
        () if finalizers.contains(&FOREGROUND) => Propagation::Foreground,
        () => Propagation::Background,
    };
    collect(state, key, Some(propagation));
}

fn resolve(state: &State, dependent: &ObjectKey, owner: &OwnerReference<'_>) -> OwnerState {
    let (group, version) = group_and_version(owner);
    let Some(resource) = state.registry.find_kind(group, version, owner.kind) else { return OwnerState::Unresolved };
    if resource.namespaced && dependent.namespace.is_empty() {
        return OwnerState::Unresolved;
    }
    let namespace = if resource.namespaced { dependent.namespace.clone() } else { String::new() };
    let key = ObjectKey { resource: resource.storage.clone(), namespace, name: owner.name.to_owned() };
    match state.store.get(&key) {
        Some(found) if object::uid(found) != owner.uid => OwnerState::Absent,
        Some(_) if is_waiting(state, &key) => OwnerState::Waiting,
        Some(_) => OwnerState::Solid,
        None => OwnerState::Absent,
    }
}

fn group_and_version<'a>(owner: &OwnerReference<'a>) -> (&'a str, &'a str) {
    owner.api_version.split_once('/').unwrap_or(("", owner.api_version))
}

/// Whether the object is being deleted in the foreground.
fn is_waiting(state: &State, key: &ObjectKey) -> bool {
    let is_waiting =
        |object: &Value| object::is_terminating(object) && object::finalizers(object).contains(&FOREGROUND);
    state.store.get(key).is_some_and(|object| is_waiting(object))
}

/// Stops the object from blocking its owners' deletion. Otherwise two objects that own each other would wait for each
/// other for ever.
fn unblock_owners(state: &mut State, key: &ObjectKey, object: &Value) {
    let mut unblocked = object.clone();
    let owners = unblocked.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten() {
        object::as_map_mut(owner).insert("blockOwnerDeletion".to_owned(), json!(false));
    }
    update_owners(state, key, unblocked);
}

/// Writes an object with changed owner references as an update, which also adapts `managedFields`. If the update fails,
/// because the object is no longer valid or needs a conversion webhook, the object is stored without it.
fn update_owners(state: &mut State, key: &ObjectKey, object: Value) {
    let Some(resource) = state.registry.storage_type(&key.resource).cloned() else { return };
    let namespace = resource.namespaced.then(|| key.namespace.clone());
    let target = Target { resource, namespace, name: Some(key.name.clone()), subresource: None };
    let options = WriteOptions::of_component(super::MANAGER);
    if let Err(error) = update::update(state, &target, &options, object.clone()) {
        tracing::debug!(name = key.name, %error, "an object cannot be updated, so it is stored without validation");
        rewrite(state, key, object);
    }
}

/// Advances a terminating object's garbage collection finalizers by one step.
fn settle(state: &mut State, key: &ObjectKey) {
    let Some(object) = state.store.get(key).cloned() else { return };
    if !object::is_terminating(&object) {
        return;
    }
    let uid = object::uid(&object);
    let finalizers = object::finalizers(&object);
    if finalizers.contains(&ORPHAN) {
        for dependent in state.store.dependents(uid) {
            let Some(found) = state.store.get(&dependent) else { continue };
            let mut orphan = Value::clone(found);
            object::remove_owner_references(&mut orphan, |owner| owner == uid);
            update_owners(state, &dependent, orphan);
        }
        drop_finalizer(state, key, ORPHAN);
    } else if finalizers.contains(&FOREGROUND) {
        foreground(state, key, uid);
    }
}

/// Reviews the dependents, and removes the owner once no dependent blocks its deletion.
fn foreground(state: &mut State, key: &ObjectKey, uid: &str) {
    for dependent in state.store.dependents(uid) {
        review(state, &dependent);
    }
    let blocks =
        |object: &Value| object::owner_references(object).iter().any(|owner| owner.uid == uid && owner.blocks_deletion);
    let blocked = state
        .store
        .dependents(uid)
        .iter()
        .any(|dependent| state.store.get(dependent).is_some_and(|object| blocks(object)));
    if !blocked {
        drop_finalizer(state, key, FOREGROUND);
    }
}

fn drop_finalizer(state: &mut State, key: &ObjectKey, name: &str) {
    let Some(object) = state.store.get(key) else { return };
    let mut released = Value::clone(object);
    let kept: Vec<&str> = object::finalizers(object).into_iter().filter(|finalizer| *finalizer != name).collect();
    object::set_finalizers(&mut released, &kept);
    rewrite(state, key, released);
}
