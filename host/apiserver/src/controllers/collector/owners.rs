//! Garbage collection by owner references: dependents of what is gone go too, foreground deletion waits for its
//! dependents, orphaning cuts them loose.

use serde_json::Value;

use super::{collect, rewrite};
use crate::object::{self, OwnerReference};
use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::change_log::{Change, ChangeKind};
use crate::storage::state::State;
use crate::verbs::delete::{FOREGROUND, ORPHAN, Propagation};

/// Reacts to a change; answers the objects that have lost an owner, to be reviewed a little later.
pub(super) fn react(state: &mut State, resource: &GroupResource, change: &Change) -> Vec<ObjectKey> {
    let key = ObjectKey::of(resource, &change.object);
    let abandoned = if change.kind == ChangeKind::Deleted {
        state.store.dependents(object::uid(&change.object))
    } else {
        settle(state, &key);
        let lost = object::owner_references(&change.object).iter().any(|owner| !exists(state, &key, &owner.uid));
        if lost { vec![key] } else { Vec::new() }
    };
    // A dependent that went or changed may be what a terminating owner waits for.
    let previous = change.previous.as_deref().map(object::owner_references).unwrap_or_default();
    for owner in object::owner_references(&change.object).into_iter().chain(previous) {
        if let Some(owner) = state.store.find(&owner.uid).cloned() {
            settle(state, &owner);
        }
    }
    abandoned
}

/// Deletes an object whose owners are all gone; drops references to those that are.
pub(in crate::controllers) fn review(state: &mut State, key: &ObjectKey) {
    let Some(object) = state.store.get(key).cloned() else { return };
    let owners = object::owner_references(&object);
    if owners.is_empty() || object::is_terminating(&object) && object::finalizers(&object).is_empty() {
        return;
    }
    let (present, absent): (Vec<OwnerReference>, Vec<OwnerReference>) =
        owners.into_iter().partition(|owner| exists(state, key, &owner.uid));
    if absent.is_empty() {
        return;
    }
    if !present.is_empty() {
        let mut kept = Value::clone(&object);
        object::remove_owner_references(&mut kept, |uid| absent.iter().any(|owner| owner.uid == uid));
        rewrite(state, key, kept);
    } else if !object::is_terminating(&object) {
        // What asks to orphan or to wait for its own dependents is deleted that way.
        let finalizers = object::finalizers(&object);
        let propagation = match () {
            () if finalizers.contains(&ORPHAN) => Propagation::Orphan,
            () if finalizers.contains(&FOREGROUND) => Propagation::Foreground,
            () => Propagation::Background,
        };
        collect(state, key, Some(propagation));
    }
}

/// An owner counts where it exists in the dependent's namespace or in none.
fn exists(state: &State, dependent: &ObjectKey, uid: &str) -> bool {
    let owner = state.store.find(uid);
    owner.is_some_and(|owner| owner.namespace.is_empty() || owner.namespace == dependent.namespace)
}

/// Takes a terminating object's garbage collection finalizers one step on.
fn settle(state: &mut State, key: &ObjectKey) {
    let Some(object) = state.store.get(key).cloned() else { return };
    if !object::is_terminating(&object) {
        return;
    }
    let uid = object::uid(&object).to_owned();
    let finalizers = object::finalizers(&object);
    if finalizers.contains(&ORPHAN) {
        for dependent in state.store.dependents(&uid) {
            let Some(found) = state.store.get(&dependent) else { continue };
            let mut orphan = Value::clone(found);
            object::remove_owner_references(&mut orphan, |owner| owner == uid);
            rewrite(state, &dependent, orphan);
        }
        drop_finalizer(state, key, ORPHAN);
    } else if finalizers.contains(&FOREGROUND) {
        foreground(state, key, &uid);
    }
}

/// Deletes the dependents, and lets the owner go when none that blocks it is left.
fn foreground(state: &mut State, key: &ObjectKey, uid: &str) {
    let blocks =
        |object: &Value| object::owner_references(object).iter().any(|owner| owner.uid == uid && owner.blocks_deletion);
    for dependent in state.store.dependents(uid) {
        let Some(object) = state.store.get(&dependent) else { continue };
        let others_hold = object::owner_references(object)
            .iter()
            .any(|owner| owner.uid != uid && exists(state, &dependent, &owner.uid));
        if others_hold {
            let mut kept = Value::clone(object);
            object::remove_owner_references(&mut kept, |owner| owner == uid);
            rewrite(state, &dependent, kept);
        } else if !object::is_terminating(object) {
            // Its own dependents are waited for as well: that is what foreground means.
            let policy = if state.store.dependents(object::uid(object)).is_empty() {
                Propagation::Background
            } else {
                Propagation::Foreground
            };
            collect(state, &dependent, Some(policy));
        }
    }
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
