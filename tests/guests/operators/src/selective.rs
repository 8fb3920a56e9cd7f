//! Copies the few `ConfigMap`s that ask for it. Its own code decides which `ConfigMap`s count (`codePredicate`).

use serde_json::json;
use windlass_sdk::manifest::{Controller, Permission, Watch};
use windlass_sdk::{Change, Failures, ObjectRef, Outcome, cache, writes};

use crate::{Metadata, Object};

/// The annotation of a `ConfigMap` to copy.
const WANTED: &str = "selective/copy";
/// The label of a `ConfigMap` that has a copy. The predicate recognises it until the copy is gone, so a removed
/// annotation is not missed while the host is down.
const COPIED: &str = "selective-copied";
/// The label of copies.
const COPY: &str = "selective-copy";

pub(crate) fn controller() -> Controller {
    Controller::new("selective", Watch::of("v1", "ConfigMap").named("originals").code_predicate())
        .owns(Watch::of("v1", "ConfigMap").named("copies").code_predicate())
}

pub(crate) fn permissions() -> Vec<Permission> {
    vec![Permission::new("", "configmaps", &["patch"])]
}

pub(crate) fn matches(watch: &str, change: &Change) -> Result<bool, Failures> {
    let metadata = |object: Object| object.metadata;
    let is_copy = |it: &Metadata| it.labels.contains_key(COPY);
    let is_original = |it: &Metadata| it.annotations.contains_key(WANTED) || it.labels.contains_key(COPIED);
    let mut states = change.states::<Object>()?.into_iter().map(metadata);
    Ok(if watch == "copies" { states.any(|it| is_copy(&it)) } else { states.any(|it| is_original(&it)) })
}

pub(crate) fn reconcile(original: &Object) -> Result<Outcome, Failures> {
    let Metadata { name, namespace, labels, annotations, .. } = &original.metadata;
    let own = ObjectRef::namespaced("v1", "ConfigMap", namespace, name);
    let copy = ObjectRef::namespaced("v1", "ConfigMap", namespace, format!("{name}-copy"));
    let label = |value: serde_json::Value| json!({"metadata": {"labels": {COPIED: value}}});
    if annotations.contains_key(WANTED) {
        if !labels.contains_key(COPIED) {
            writes::merge(own, &label(json!("yes"))).send()?;
        }
        let metadata = json!({"name": copy.name, "namespace": namespace, "labels": {COPY: "yes"}});
        let copy = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": original.data});
        writes::apply(&copy).owned().force().send()?;
    } else if labels.contains_key(COPIED) {
        if cache::get::<Object>(&copy)?.is_some() {
            writes::delete(copy).send()?;
        }
        writes::merge(own, &label(json!(null))).send()?;
    }
    Ok(Outcome::Done)
}
