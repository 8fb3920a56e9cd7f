//! Reports an owner in another namespace by an Event, like `reportInvalidNamespaceOwnerRef` of
//! `pkg/controller/garbagecollector/graph_builder.go`.

use serde_json::{Value, json};

use crate::object::{self, OwnerReference, names, text};
use crate::request::{Target, WriteOptions};
use crate::storage::ObjectKey;
use crate::storage::state::State;
use crate::verbs::create;

const COMPONENT: &str = "garbage-collector-controller";

/// Emits an Event if a new owner of the object is in another namespace.
pub(super) fn report(state: &mut State, key: &ObjectKey, object: &Value, previous: &[OwnerReference<'_>]) {
    let is_elsewhere = |owner: &&OwnerReference<'_>| {
        let found = state.store.find(owner.uid);
        found.is_some_and(|found| !found.namespace.is_empty() && found.namespace != key.namespace)
    };
    let is_new = |owner: &&OwnerReference<'_>| previous.iter().all(|known| known.uid != owner.uid);
    let owners = object::owner_references(object);
    if let Some(owner) = owners.iter().filter(is_new).find(is_elsewhere) {
        write(state, key, object, owner);
    }
}

fn write(state: &mut State, key: &ObjectKey, object: &Value, owner: &OwnerReference<'_>) {
    let OwnerReference { api_version, kind, name, uid, .. } = owner;
    let own = &key.namespace;
    let message = format!(
        "ownerRef [{api_version}/{kind}, namespace: {own}, name: {name}, uid: {uid}] does not exist in namespace {own:?}"
    );
    let namespace = if own.is_empty() { "default" } else { own };
    // As in client-go's `GenerateEventName`, the object's name is left out if it is not allowed in an Event's name.
    let suffix = u64::from_be_bytes(state.chance.bytes::<8>());
    let event_name = format!("{}.{suffix:016x}", key.name);
    let event_name = names::check_subdomain(&event_name).map_or_else(|_| state.chance.uid(), |()| event_name);
    let now = state.now();
    let event = json!({
        "metadata": { "name": event_name, "namespace": namespace },
        "involvedObject": {
            "kind": text(object, "/kind"),
            "namespace": own,
            "name": key.name,
            "uid": object::uid(object),
            "apiVersion": text(object, "/apiVersion"),
        },
        "reason": "OwnerRefInvalidNamespace",
        "message": message,
        "source": { "component": COMPONENT },
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "type": "Warning",
        "reportingComponent": COMPONENT,
    });
    let Some(resource) = state.registry.find("", "v1", "events").cloned() else { return };
    let target = Target { resource, namespace: Some(namespace.to_owned()), name: None, subresource: None };
    if let Err(error) = create::create(state, &target, &WriteOptions::of_component(super::MANAGER), event) {
        tracing::debug!(name = key.name, %error, "the Event about an owner in another namespace was refused");
    }
}
