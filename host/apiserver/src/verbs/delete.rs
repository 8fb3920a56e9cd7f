//! Deletion of one object or of a collection, and the garbage collector's deletions.

use std::sync::Arc;

use serde_json::{Value, json};

use super::admit::Admitted;
use super::list::{ListOptions, Page, list_stored};
use crate::object;
use crate::request::Target;
pub(crate) use crate::request::delete_options::{DeleteOptions, FOREGROUND, ORPHAN, Propagation};
use crate::resources::resource::{GroupResource, ResourceType};
use crate::resources::{builtin, convert, crd};
use crate::status_error::ApiError;
use crate::storage::ObjectKey;
use crate::storage::state::State;

/// The result of a deletion.
#[derive(Debug)]
pub(crate) struct Deleted {
    /// The object's last state, or its state while it is terminating.
    pub(crate) object: Arc<Value>,
    /// Whether the object is removed, not only terminating.
    pub(crate) gone: bool,
}

/// The warning of a deletion that orphans dependents by default.
fn orphan_warning(resource: &ResourceType, options: &DeleteOptions) -> Option<String> {
    if options.propagation.is_some() || !orphans_by_default(&resource.storage) {
        return None;
    }
    let warning = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
                   them or set propagationPolicy=Orphan to suppress this warning";
    Some(warning.to_owned())
}

/// Jobs keep the default of their first version.
fn orphans_by_default(resource: &GroupResource) -> bool {
    resource.group == "batch" && resource.plural == "jobs"
}

/// Deletes the object at `target`.
pub(crate) fn delete(state: &mut State, target: &Target, options: &DeleteOptions) -> Result<Deleted, ApiError> {
    options.warnings.add(orphan_warning(&target.resource, options));
    let key = target.key(target.name());
    let current = super::get(state, target, &options.consultation)?;
    check_preconditions(&target.resource, &current, options)?;
    protect_namespaces(&target.resource, target.name())?;
    Admitted::delete(target, options, &current).admit(state, None)?;
    let deleted = remove(state, &target.resource, &key, options);
    deleted.ok_or_else(|| ApiError::not_found(&target.resource.id, target.name()))
}

/// Deletes all objects of a list, and returns the list. All must pass admission before the first is deleted.
/// Preconditions apply to each object: if an object fails them, the objects before it are already deleted.
pub(crate) fn delete_collection(
    state: &mut State,
    target: &Target,
    listed: &ListOptions,
    options: &DeleteOptions,
) -> Result<Page, ApiError> {
    let resource = &target.resource;
    let page = list_stored(state, target, listed)?;
    options.warnings.add(orphan_warning(resource, options));
    let judged = page.objects.iter().map(|object| check_preconditions(resource, object, options));
    let mut verdicts = judged.enumerate().filter_map(|(index, verdict)| Some((index, verdict.err()?)));
    let (end, refusal) = verdicts.next().map_or((page.objects.len(), None), |(index, error)| (index, Some(error)));
    for object in &page.objects[..end] {
        let key = ObjectKey::of(&resource.storage, object);
        let place = Target { namespace: resource.namespaced.then(|| key.namespace.clone()), ..target.clone() };
        Admitted::delete(&place, options, object).admit(state, None)?;
    }
    for object in &page.objects[..end] {
        remove(state, resource, &ObjectKey::of(&resource.storage, object), options);
    }
    refusal.map_or(Ok(page), Err)
}

/// Removes an object, or marks it as terminating if finalizers hold it. `None` if there is no such object.
pub(crate) fn remove(
    state: &mut State,
    resource: &ResourceType,
    key: &ObjectKey,
    options: &DeleteOptions,
) -> Option<Deleted> {
    let current = Arc::clone(state.store.get(key)?);
    let answer = |object: &Arc<Value>, gone| Deleted { object: convert::for_reader(resource, object), gone };
    let finalizers = finalizers_after(key, &current, options);
    let held = !finalizers.is_empty() || !object::namespace_finalizers(&current).is_empty();
    // No kubelet terminates a Pod here, so it terminates at once. Before that it is seen as terminating, as in
    // `BeforeDelete` of `k8s.io/apiserver/pkg/registry/rest/delete.go` if a kind's `CheckGracefulDelete` leaves no
    // grace period.
    let is_marked_first = key.resource == builtin::pods() && !held && !object::is_terminating(&current);
    let current = if is_marked_first {
        let mut terminating = Value::clone(&current);
        mark_terminating(key, &mut terminating, &state.now());
        if options.dry_run { Arc::new(terminating) } else { state.commit(key, terminating) }
    } else {
        current
    };
    if !held && options.dry_run {
        return Some(answer(&current, true));
    }
    if !held {
        return erase(state, key).map(|last| answer(&last, true));
    }
    let mut terminating = Value::clone(&current);
    let finalizers: Vec<&str> = finalizers.iter().map(String::as_str).collect();
    object::set_finalizers(&mut terminating, &finalizers);
    if !object::is_terminating(&current) {
        mark_terminating(key, &mut terminating, &state.now());
    }
    if terminating == *current {
        return Some(answer(&current, false));
    }
    if options.dry_run {
        return Some(answer(&Arc::new(terminating), false));
    }
    Some(answer(&state.commit(key, terminating), false))
}

/// Removes an object without finalizers. A service's endpoints are removed with it, so the next service of its name
/// does not find them: `afterDelete` of `pkg/registry/core/service/storage/storage.go` in Kubernetes 1.36.3.
pub(crate) fn erase(state: &mut State, key: &ObjectKey) -> Option<Arc<Value>> {
    let last = state.erase(key)?;
    let endpoints = state.registry.find("", "v1", "endpoints").filter(|_| key.resource == builtin::services()).cloned();
    if let Some(endpoints) = endpoints {
        let key = ObjectKey { resource: endpoints.storage.clone(), ..key.clone() };
        remove(state, &endpoints, &key, &DeleteOptions::default());
    }
    Some(last)
}

fn mark_terminating(key: &ObjectKey, object: &mut Value, now: &str) {
    let generation = object::generation(object);
    let metadata = object::metadata_mut(object);
    metadata.insert("deletionTimestamp".to_owned(), json!(now));
    if ![builtin::namespaces(), builtin::custom_resource_definitions()].contains(&key.resource) {
        metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(0));
    }
    if let Some(generation) = generation {
        metadata.insert("generation".to_owned(), json!(generation + 1));
    }
    if key.resource == builtin::namespaces() {
        object::map_mut(object, "status").insert("phase".to_owned(), json!("Terminating"));
    }
}

/// The finalizers after the propagation policy is applied. Without a policy only those of jobs change.
fn finalizers_after(key: &ObjectKey, current: &Value, options: &DeleteOptions) -> Vec<String> {
    let present = object::finalizers(current);
    let mut result: Vec<String> = present
        .iter()
        .filter(|name| options.propagation.is_none() || !matches!(**name, ORPHAN | FOREGROUND))
        .map(|&name| name.to_owned())
        .collect();
    match options.propagation {
        Some(Propagation::Orphan) => result.push(ORPHAN.to_owned()),
        Some(Propagation::Foreground) => result.push(FOREGROUND.to_owned()),
        None if orphans_by_default(&key.resource)
            && !present.iter().any(|name| matches!(*name, ORPHAN | FOREGROUND)) =>
        {
            result.push(ORPHAN.to_owned());
        }
        Some(Propagation::Background) | None => {}
    }
    let cleanup = crd::CLEANUP_FINALIZER;
    if crd::is_definition(&key.resource) && !object::is_terminating(current) && !present.contains(&cleanup) {
        result.push(cleanup.to_owned());
    }
    result
}

fn check_preconditions(resource: &ResourceType, current: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
    let name = object::name(current);
    let (uid, version) = (object::uid(current), object::resource_version(current));
    match (&options.uid, &options.resource_version) {
        (Some(given), _) if given != uid => Err(ApiError::precondition_of_delete(
            resource,
            name,
            &format!(
                "the UID in the precondition ({given}) does not match the UID in record ({uid}). The object might \
                 have been deleted and then recreated"
            ),
        )),
        (_, Some(given)) if given != version => Err(ApiError::precondition_of_delete(
            resource,
            name,
            &format!(
                "the ResourceVersion in the precondition ({given}) does not match the ResourceVersion in record \
                 ({version}). The object might have been modified"
            ),
        )),
        _ => Ok(()),
    }
}

fn protect_namespaces(resource: &ResourceType, name: &str) -> Result<(), ApiError> {
    let protected = resource.id == builtin::namespaces() && matches!(name, "default" | "kube-system" | "kube-public");
    if protected {
        return Err(ApiError::forbidden(&resource.id, name, "this namespace may not be deleted"));
    }
    Ok(())
}
