//! Replaces an object's state: PUT, and the last step of every patch.

use std::sync::Arc;

use serde_json::{Value, json};

use super::admit::Admitted;
use super::create::{self, Tracking};
use super::storage_key::storage_key;
use super::{Written, delete, prepare};
use crate::authz::{Access, escalation, signers};
use crate::cause::Cause;
use crate::object;
use crate::request::{Target, WriteOptions, decode};
use crate::resources::crd;
use crate::resources::resource::GroupResource;
use crate::rules::defaults;
use crate::status_error::ApiError;
use crate::storage::state::State;

/// Metadata that clients cannot change.
const SYSTEM_METADATA: [&str; 5] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"];

/// Replaces the current object by the one that a client sent.
pub(crate) fn update(
    state: &mut State,
    target: &Target,
    options: &WriteOptions,
    mut object: Value,
) -> Result<Written, ApiError> {
    prepare::decode_body(target, options, &mut object)?;
    if object::name(&object).is_empty() {
        return Err(nameless(target));
    }
    decode::check(target, &mut object)?;
    let current = super::current(state, target, &options.consultation)?;
    let creates = target.resource.create_on_update && target.subresource.is_none();
    if current.is_none() && !creates {
        return Err(ApiError::not_found(&target.resource.id, target.name()));
    }
    let (uid, found) = (object::uid(&object), current.as_deref().map(object::uid).unwrap_or_default());
    if !uid.is_empty() && uid != found {
        return Err(precondition_failed(target, options, "UID", uid, found));
    }
    let Some(current) = current else {
        prepare::may_create(state, target, &options.user)?;
        // The version of an object that no longer exists is meaningless. Only a dry run returns it.
        if !options.dry_run {
            object::metadata_mut(&mut object).remove("resourceVersion");
        }
        return create::insert(state, target, options, object, Tracking::Update);
    };
    if matches!(object::resource_version(&object), "" | "0") && !target.resource.unconditional_update {
        let cause = Cause::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
        return Err(ApiError::invalid_kind(&target.resource.id, target.name(), &[cause]));
    }
    replace(state, target, options, &current, object, Tracking::Update)
}

/// A patch or webhook removed the object's name.
pub(super) fn nameless(target: &Target) -> ApiError {
    let name = target.name();
    ApiError::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

/// Makes the decoded `object` the new state of `current`, as far as the rules and the subresource allow.
pub(super) fn replace(
    state: &mut State,
    target: &Target,
    options: &WriteOptions,
    current: &Arc<Value>,
    mut object: Value,
    tracking: Tracking,
) -> Result<Written, ApiError> {
    let resource = &target.resource;
    check_version(target, current, &object)?;
    let mut causes = changed_metadata(current, &object);
    keep_system_metadata(current, &mut object);
    object = isolate(target, current, object);
    prepare::normalise(resource, options, &mut object);
    escalation::check(Access::of(state), &options.user, &resource.id, target.name(), &object, Some(current))?;
    if tracking == Tracking::Update {
        prepare::track(state, target, options, Some(current), &mut object);
    }
    defaults::admit(resource, target.subresource(), &mut object, Some(current));
    let admitted = Admitted::update(target, options, current);
    if admitted.mutate(state, Some(&mut object))? {
        keep_system_metadata(current, &mut object);
        object = isolate(target, current, object);
        defaults::admit(resource, target.subresource(), &mut object, Some(current));
        escalation::check(Access::of(state), &options.user, &resource.id, target.name(), &object, Some(current))?;
    }
    defaults::on_update(state, resource, &mut object, current)
        .map_err(|cause| ApiError::invalid(resource, target.name(), &[cause]))?;
    let version = json!(object::resource_version(current));
    object::metadata_mut(&mut object).insert("resourceVersion".to_owned(), version);
    count_generation(target, current, &mut object);
    causes.extend(late_finalizers(current, &object));
    // Both the storage and the strategy of a kind check an update's metadata, and each reports its errors.
    causes.extend(causes.clone());
    prepare::validate(target, options, &object, Some(current), causes)?;
    admitted.validate(state, Some(&object))?;
    signers::check(Access::of(state), &options.user, (&resource.id, target.subresource()), &object, current)?;
    prepare::settle(resource, &mut object);
    // An object in an outdated storage version is written even if nothing changes; this is how storage is migrated.
    if prepare::is_same(current, &object) && state.is_in_form(&target.key(target.name())) {
        return Ok(Written { object: Arc::clone(current), created: false });
    }
    let object = finish(state, target, options, object)?;
    Ok(Written { object, created: false })
}

fn keep_system_metadata(current: &Value, object: &mut Value) {
    for key in SYSTEM_METADATA {
        object::copy_field(object::map_mut_value(object, "metadata"), &current["metadata"], key);
    }
}

/// Stores the new state. A terminating object without finalizers is then deleted.
fn finish(state: &mut State, target: &Target, options: &WriteOptions, object: Value) -> Result<Arc<Value>, ApiError> {
    let released = object::is_terminating(&object) && !object::is_held(&object);
    if !released || options.dry_run {
        return prepare::commit(state, target, options, object);
    }
    // Only the writer sees the last state: the watch event of the deletion shows the state before it.
    delete::erase(state, &target.key(object::name(&object)));
    Ok(Arc::new(object))
}

/// The error text of a real server's storage. In a dry run a layer above reports it, where keys have no prefix yet.
pub(super) fn precondition_failed(
    target: &Target,
    options: &WriteOptions,
    what: &str,
    given: &str,
    found: &str,
) -> ApiError {
    let prefix = if options.dry_run { "" } else { "/registry" };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
         {what} in precondition: {given}, {what} in object meta: {found}",
        storage_key(prefix, target, target.name())
    );
    ApiError::conflict(&target.resource.id, target.name(), &why)
}

/// Checks that the write is based on the current version.
fn check_version(target: &Target, current: &Value, object: &Value) -> Result<(), ApiError> {
    let version = object::resource_version(object);
    if let Err(error) = version.parse::<u64>()
        && !version.is_empty()
    {
        tracing::debug!(%error, "the resource version is not a number");
        return Err(ApiError::internal(format!("strconv.ParseUint: parsing {version:?}: invalid syntax")));
    }
    if !["", "0"].contains(&version) && version != object::resource_version(current) {
        return Err(ApiError::modified(&target.resource.id, target.name()));
    }
    Ok(())
}

/// Refuses metadata that clients cannot change: the fields that only a deletion sets, and the UID, which is a
/// precondition of a PUT and a change elsewhere.
fn changed_metadata(current: &Value, object: &Value) -> Vec<Cause> {
    let changed = |key: &&str| {
        let (value, known) = (&object["metadata"][key], &current["metadata"][key]);
        !value.is_null() && *value != "" && value != known
    };
    let keys = ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"].into_iter().filter(changed);
    keys.map(|key| Cause::invalid(format!("metadata.{key}"), &object["metadata"][key], "field is immutable")).collect()
}

/// Takes the fields that the subresource may change from the new state, and all others from the current one.
fn isolate(target: &Target, current: &Value, object: Value) -> Value {
    let resource = &target.resource;
    match target.subresource() {
        "status" if resource.custom.is_none() && !crd::is_definition(&resource.id) => {
            let mut result = current.clone();
            for key in ["status", "metadata"] {
                object::copy_field(&mut result, &object, key);
            }
            // A status may come with metadata, unless the kind's strategy excludes it.
            let kept: &[&str] = match resource.kind.as_str() {
                "Deployment" => &["labels"],
                "Pod" => &["ownerReferences"],
                _ => &[],
            };
            for key in kept {
                object::copy_field(object::map_mut_value(&mut result, "metadata"), &current["metadata"], key);
            }
            if resource.has_subresource("approval") {
                keep_decisions(&mut result, current);
            }
            result
        }
        "status" => {
            let mut result = current.clone();
            object::copy_field(&mut result, &object, "status");
            // An apply has written the ownership already; for other writes `track` does it, starting from `current`.
            object::copy_field(object::map_mut_value(&mut result, "metadata"), &object["metadata"], "managedFields");
            result
        }
        "approval" => {
            let mut result = current.clone();
            object::copy_field(object::map_mut_value(&mut result, "status"), &object["status"], "conditions");
            object::copy_field(object::map_mut_value(&mut result, "metadata"), &object["metadata"], "managedFields");
            result
        }
        "ephemeralcontainers" => {
            let mut result = current.clone();
            object::copy_field(object::map_mut_value(&mut result, "spec"), &object["spec"], "ephemeralContainers");
            object::copy_field(object::map_mut_value(&mut result, "metadata"), &object["metadata"], "managedFields");
            result
        }
        "finalize" => {
            let mut result = current.clone();
            object::copy_field(object::map_mut_value(&mut result, "spec"), &object["spec"], "finalizers");
            result
        }
        _ => {
            let mut result = object;
            if resource.has_status {
                object::copy_field(&mut result, current, "status");
            }
            // A certificate request is immutable except for its metadata.
            if resource.has_subresource("approval") {
                object::copy_field(&mut result, current, "spec");
            }
            if resource.has_subresource("finalize") {
                object::copy_field(object::map_mut_value(&mut result, "spec"), &current["spec"], "finalizers");
            }
            result
        }
    }
}

/// A write of the status cannot change the approval of a certificate request.
fn keep_decisions(request: &mut Value, current: &Value) {
    for kind in ["Approved", "Denied"] {
        let is_decision = |condition: &Value| condition["type"] == kind;
        let before = object::items(current, "/status/conditions").iter().filter(|condition| is_decision(condition));
        let conditions = request.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        let now: Vec<&mut Value> =
            conditions.into_iter().flatten().filter(|condition| is_decision(condition)).collect();
        if now.len() == before.clone().count() {
            now.into_iter().zip(before).for_each(|(now, before)| now.clone_from(before));
        }
    }
}

fn count_generation(target: &Target, current: &Value, object: &mut Value) {
    let Some(generation) = object::generation(current) else { return };
    let content_differs = prepare::content_differs(&target.resource, current, object);
    if target.resource.has_generation && (content_differs || annotations_count(target, current, object)) {
        object::metadata_mut(object).insert("generation".to_owned(), json!(generation + 1));
    }
}

/// A Deployment's annotations are copied to its replica sets, so they increment the generation too:
/// `pkg/registry/apps/deployment/strategy.go`.
fn annotations_count(target: &Target, current: &Value, object: &Value) -> bool {
    let GroupResource { group, plural } = &target.resource.id;
    let is_deployment = (group.as_str(), plural.as_str()) == ("apps", "deployments");
    let annotations = |object| Value::pointer(object, "/metadata/annotations").and_then(Value::as_object);
    let some = |object| annotations(object).filter(|all| !all.is_empty());
    is_deployment && target.subresource() != "status" && some(current) != some(object)
}

/// A terminating object accepts no new finalizers.
fn late_finalizers(current: &Value, object: &Value) -> Option<Cause> {
    let known = object::finalizers(current);
    let new: Vec<&str> = object::finalizers(object).into_iter().filter(|name| !known.contains(name)).collect();
    if !object::is_terminating(current) || new.is_empty() {
        return None;
    }
    let listed: Vec<String> = new.iter().map(|name| format!("{name:?}")).collect();
    let why = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        listed.join(", ")
    );
    Some(Cause::forbidden("metadata.finalizers", &why))
}
