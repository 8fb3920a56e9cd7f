//! Creation: POST, a PUT or an apply to a name that does not exist, and the controllers' own creations.

use serde_json::{Value, json};

use super::admit::Admitted;
use super::{Written, prepare};
use crate::authz::{Access, escalation};
use crate::cause::Cause;
use crate::clock::Chance;
use crate::object::{self, names, text};
use crate::request::{Target, WriteOptions, decode};
use crate::resources::builtin;
use crate::rules::defaults;
use crate::status_error::ApiError;
use crate::storage::ObjectKey;
use crate::storage::state::State;

/// Whether `metadata.managedFields` is still to be written, or server-side apply has written it already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracking {
    Update,
    Applied,
}

/// Metadata that clients cannot set.
const SYSTEM_METADATA: [&str; 5] =
    ["creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "selfLink", "uid"];

/// Creates the object that a client sent.
pub(crate) fn create(
    state: &mut State,
    target: &Target,
    options: &WriteOptions,
    mut object: Value,
) -> Result<Written, ApiError> {
    prepare::decode_body(target, options, &mut object)?;
    decode::check(target, &mut object)?;
    insert(state, target, options, object, Tracking::Update)
}

/// Creates a decoded object.
pub(super) fn insert(
    state: &mut State,
    target: &Target,
    options: &WriteOptions,
    mut object: Value,
    tracking: Tracking,
) -> Result<Written, ApiError> {
    let resource = &target.resource;
    check_place(state, target, &object)?;
    // A value that is not a number is ignored.
    let has_version = object::resource_version(&object).parse::<u64>().is_ok_and(|version| version != 0);
    prepare::without_status(resource, &mut object);
    prepare::normalise(resource, options, &mut object);
    escalation::check(Access::of(state), &options.user, &resource.id, target.name(), &object, None)?;
    if tracking == Tracking::Update {
        prepare::track(state, target, options, None, &mut object);
    }
    wipe_metadata(&mut object);
    defaults::admit(resource, target.subresource(), &mut object, None);
    let admitted = Admitted::create(target, options, object::name(&object));
    if admitted.mutate(state, Some(&mut object))? {
        // As in a real server, the object is prepared only after the webhooks.
        prepare::without_status(resource, &mut object);
        prepare::complete(resource, &mut object)?;
        defaults::admit(resource, target.subresource(), &mut object, None);
        escalation::check(Access::of(state), &options.user, &resource.id, target.name(), &object, None)?;
    }
    name_object(state, target, &mut object)?;
    let name = object::name(&object).to_owned();
    new_metadata(state, target, &mut object);
    defaults::on_create(state, resource, &options.user, &mut object)
        .map_err(|cause| ApiError::invalid(resource, &name, &[cause]))?;
    prepare::validate(target, options, &object, None, vec![])?;
    admitted.validate(state, Some(&object))?;
    // This check comes last, as in a real server's storage: an invalid object is reported as invalid even if its name
    // is taken. A dry run only goes as far as the name check, and returns the version that it was given.
    if !options.dry_run {
        if has_version {
            return Err(ApiError::internal("resourceVersion should not be set on objects to be created"));
        }
        object::metadata_mut(&mut object).remove("resourceVersion");
    }
    if let Some(found) = state.store.get(&target.key(&name)) {
        let is_terminating = object::is_terminating(found);
        let error = if is_terminating { ApiError::still_terminating } else { ApiError::already_exists };
        return Err(error(&resource.id, &name));
    }
    prepare::settle(resource, &mut object);
    let object = prepare::commit(state, target, options, object)?;
    Ok(Written { object, created: true })
}

/// The part of `generateName` that a generated name keeps: `apiserver/pkg/storage/names/generate.go`.
const PREFIX_BYTES_MAX: usize = 58;

fn name_object(state: &mut State, target: &Target, object: &mut Value) -> Result<(), ApiError> {
    if !object::name(object).is_empty() {
        return Ok(());
    }
    let prefix = text(object, "/metadata/generateName").to_owned();
    if prefix.is_empty() {
        let cause = Cause::required("metadata.name", "name or generateName is required");
        return Err(ApiError::invalid(&target.resource, "", &[cause]));
    }
    let prefix = prefix[..prefix.floor_char_boundary(PREFIX_BYTES_MAX)].to_owned();
    // A real server tries once and responds AlreadyExists on a clash; then its clients retry.
    let name = std::iter::repeat_with(|| format!("{prefix}{}", random_suffix(&mut state.chance)))
        .find(|name| state.store.get(&target.key(name)).is_none())
        .unwrap_or(prefix);
    object::metadata_mut(object).insert("name".to_owned(), json!(name));
    Ok(())
}

fn random_suffix(chance: &mut Chance) -> String {
    names::safe(chance.bytes::<5>())
}

/// Checks that the namespace exists and accepts new objects, and that the kind still exists and accepts them too.
fn check_place(state: &State, target: &Target, object: &Value) -> Result<(), ApiError> {
    let resource = &target.resource;
    if let Some(namespace) = &target.namespace {
        let place = ObjectKey { resource: builtin::namespaces(), namespace: String::new(), name: namespace.clone() };
        match state.store.get(&place) {
            None => return Err(ApiError::not_found(&place.resource, namespace)),
            Some(found) if object::is_terminating(found) => {
                // The object has no name yet.
                let names = [object::name(object), text(object, "/metadata/generateName")];
                let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
                return Err(ApiError::namespace_terminating(&resource.id, name, namespace));
            }
            Some(_) => {}
        }
    }
    if resource.custom.is_none() {
        return Ok(());
    }
    // Uses the current definition, because a webhook may have been called since the request began.
    match state.registry.stored_version(&resource.storage).and_then(|now| now.custom.as_ref()) {
        None => Err(ApiError::no_such_resource()),
        Some(custom) if custom.terminating => {
            let why = "create not allowed while custom resource definition is terminating";
            Err(ApiError::forbidden(&resource.id, object::name(object), why))
        }
        Some(_) => Ok(()),
    }
}

/// Removes the metadata of a new object that only the server may set.
fn wipe_metadata(object: &mut Value) {
    let metadata = object::metadata_mut(object);
    for key in SYSTEM_METADATA {
        metadata.remove(key);
    }
}

/// Sets the metadata of a new object that only the server may set.
fn new_metadata(state: &mut State, target: &Target, object: &mut Value) {
    wipe_metadata(object);
    let metadata = object::metadata_mut(object);
    metadata.insert("uid".to_owned(), json!(state.chance.uid()));
    metadata.insert("creationTimestamp".to_owned(), json!(state.now()));
    if target.resource.has_generation {
        metadata.insert("generation".to_owned(), json!(1));
    }
}
