//! Deletes the objects of a custom resource definition before the definition itself goes.

use serde_json::Value;

use super::{collect_all, rewrite};
use crate::object;
use crate::resources::resource::GroupResource;
use crate::resources::{builtin, crd};
use crate::storage::ObjectKey;
use crate::storage::change_log::{Change, ChangeKind};
use crate::storage::state::State;

pub(super) fn react(state: &mut State, resource: &GroupResource, change: &Change) {
    let definition = if crd::is_definition(resource) {
        object::name(&change.object).to_owned()
    } else if change.kind == ChangeKind::Deleted && resource.group.contains('.') {
        resource.to_string()
    } else {
        return;
    };
    let place = builtin::custom_resource_definitions();
    let key = ObjectKey { resource: place, namespace: String::new(), name: definition };
    let Some(object) = state.store.get(&key).cloned() else { return };
    if object::is_terminating(&object) && object::finalizers(&object).contains(&crd::CLEANUP_FINALIZER) {
        clean_up(state, &key, &object);
    }
}

fn clean_up(state: &mut State, key: &ObjectKey, definition: &Value) {
    let resource = crd::defined_resource(definition);
    // If a definition was never established, the objects stored under its names do not belong to it.
    let own = crd::is_established(definition).then(|| state.store.list(&resource, None));
    let own: Vec<_> = own.into_iter().flatten().map(|object| (resource.clone(), object.clone())).collect();
    if collect_all(state, &own) {
        let mut released = definition.clone();
        let finalizers = object::finalizers(definition);
        let kept: Vec<&str> = finalizers.into_iter().filter(|name| *name != crd::CLEANUP_FINALIZER).collect();
        object::set_finalizers(&mut released, &kept);
        rewrite(state, key, released);
    }
}
