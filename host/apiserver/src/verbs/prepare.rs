//! The steps that creates and updates share: decoding by the schema, the server's metadata, validation, the commit.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::size;
use crate::authz::{Access, Attributes, ResourceAttributes, User};
use crate::cause::Cause;
use crate::merge::apply::{self, Manager};
use crate::merge::fields::{Doubles, Set};
use crate::object;
use crate::request::delete_options::{FOREGROUND, ORPHAN};
use crate::request::{FieldValidation, Target, WriteKind, WriteOptions, decode, document};
use crate::resources::resource::ResourceType;
use crate::resources::{convert, crd};
use crate::rules::{defaults, validation};
use crate::schema::typed::{self, Reading, TypeError};
use crate::schema::{Malformed, numbers};
use crate::status_error::ApiError;
use crate::storage::state::State;

/// Decodes the body of a create or update, which must be of the kind at `target`. Its warnings do not depend on its
/// name and namespace, which [`decode::check`] checks.
pub(super) fn decode_body(target: &Target, options: &WriteOptions, object: &mut Value) -> Result<(), ApiError> {
    decode::check_body(target, object)?;
    decode_fields(&target.resource, options, object)
}

/// Removes unknown fields and warns about them; strict field validation makes them errors.
pub(super) fn decode_fields(
    resource: &ResourceType,
    options: &WriteOptions,
    object: &mut Value,
) -> Result<(), ApiError> {
    let kind = (&*resource.kind, &*resource.version);
    let unknown = prune(resource, object, Reading::Json).map_err(|error| not_handled(kind, &error.to_string()))?;
    options.warnings.add(field_warnings(kind, options, &unknown)?);
    Ok(())
}

/// Decodes the body for a subresource with a kind of its own, such as a Scale, and warns about unknown fields.
pub(super) fn decode_subresource(target: &Target, options: &WriteOptions, body: &mut Value) -> Result<(), ApiError> {
    const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";
    let Some(subresource) = target.resource.subresources.iter().find(|it| it.name == target.subresource()) else {
        return Ok(());
    };
    // Definitions do not describe this type, which is the same as for built-in kinds.
    let name = if subresource.type_name.is_empty() { SCALE } else { &subresource.type_name };
    let Some(entry) = typed::entry(name) else { return Ok(()) };
    let kind = (&*subresource.kind, &*subresource.version);
    let unknown = typed::decode(entry, body, Reading::Json).map_err(|error| not_handled(kind, &error.to_string()))?;
    options.warnings.add(field_warnings(kind, options, &unknown)?);
    Ok(())
}

/// Brings a decoded object into the stored form: fills in defaults, and removes duplicate owners.
pub(super) fn normalise(resource: &ResourceType, options: &WriteOptions, object: &mut Value) {
    match &resource.custom {
        Some(custom) if options.kind == WriteKind::Apply => custom.schema.fill_defaults(object),
        _ => set_defaults(resource, object),
    }
    options.warnings.add(owner_warning(options.kind, &remove_double_owners(object)));
}

/// Keeps one of several equal owner references, and returns the UIDs of the others.
fn remove_double_owners(object: &mut Value) -> Vec<String> {
    let mut doubles = Vec::new();
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    let Some(owners) = owners else { return doubles };
    let mut seen = HashSet::new();
    owners.retain(|owner| {
        let is_new = seen.insert(owner.clone());
        if !is_new {
            doubles.push(object::text(owner, "/uid").to_owned());
        }
        is_new
    });
    doubles
}

/// A real server checks the body of a write before admission, and the result of a patch after it.
fn owner_warning(kind: WriteKind, doubles: &[String]) -> Option<String> {
    let when = match kind {
        WriteKind::Create | WriteKind::Update => "",
        WriteKind::Patch | WriteKind::Apply => " after mutating admission happens",
    };
    let warning = format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may \
         reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        doubles.join(", ")
    );
    (!doubles.is_empty()).then_some(warning)
}

/// Removes and returns the fields that the schema does not know. A built-in kind is decoded into its type.
pub(super) fn prune(resource: &ResourceType, object: &mut Value, reading: Reading) -> Result<Vec<String>, TypeError> {
    match (&resource.custom, typed::entry(resource.type_name)) {
        (None, Some(entry)) => {
            let forgets_managers = has_empty_managers(object);
            let unknown = typed::decode(entry, object, reading)?;
            if forgets_managers {
                object::metadata_mut(object).insert("managedFields".to_owned(), json!([]));
            }
            Ok(unknown)
        }
        (custom, _) => {
            let mut unknown = prune_metadata(object);
            let Some(custom) = custom else { return Ok(unknown) };
            unknown.extend(custom.schema.prune(object));
            // In a configuration, only unknown fields are checked. The result of the apply is decoded like any body.
            let malformed = if reading == Reading::Applied { Malformed::Dropped } else { Malformed::Refused };
            unknown.extend(custom.schema.coerce_embedded(object, malformed)?);
            Ok(unknown)
        }
    }
}

/// An empty list of managers means a reset (`isResetManagedFields`). Decoding would drop it, as it drops other empty
/// lists.
fn has_empty_managers(object: &Value) -> bool {
    object.pointer("/metadata/managedFields").is_some_and(|managers| *managers == json!([]))
}

/// Prunes the result of a webhook and fills in defaults. Removes an empty list of managers, which is not a reset here.
pub(super) fn complete(resource: &ResourceType, object: &mut Value) -> Result<(), ApiError> {
    prune(resource, object, Reading::Json).map_err(|error| ApiError::internal_error(&error.to_string()))?;
    if has_empty_managers(object) {
        object::metadata_mut(object).remove("managedFields");
    }
    set_defaults(resource, object);
    Ok(())
}

/// The error of a body that is not of the kind's type.
fn not_handled((kind, version): (&str, &str), error: &str) -> ApiError {
    ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}"))
}

fn prune_metadata(object: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    object::metadata_mut(object).retain(|key, _| {
        let known = object::METADATA.contains(&key.as_str());
        if !known {
            unknown.push(format!("metadata.{key}"));
        }
        known
    });
    unknown
}

fn set_defaults(resource: &ResourceType, object: &mut Value) {
    if let Some(custom) = &resource.custom {
        custom.schema.default(object);
        return;
    }
    defaults::apply(resource, object);
    if let Some(entry) = typed::entry(resource.type_name) {
        typed::fill_zeros(entry, object);
    }
}

/// Ignores the unknown and duplicate fields of a request, warns about them or returns an error, by its field
/// validation.
pub(super) fn field_warnings(
    kind: (&str, &str),
    options: &WriteOptions,
    unknown: &[String],
) -> Result<Vec<String>, ApiError> {
    if options.field_validation == FieldValidation::Ignore {
        return Ok(Vec::new());
    }
    let lines = document::problems(&options.body, unknown);
    let mut twice = options.duplicate_keys.clone();
    if options.field_validation == FieldValidation::Strict {
        // Go's YAML reader reports all its findings as one error.
        let of_yaml = (!twice.is_empty()).then(|| format!("yaml: unmarshal errors:\n  {}", twice.join("\n  ")));
        if let Some(error) = of_yaml.as_ref().filter(|_| options.kind == WriteKind::Apply) {
            let why = format!("error strict decoding YAML: error converting YAML to JSON: {error}");
            return Err(ApiError::bad_request(why));
        }
        let lines: Vec<String> = of_yaml.into_iter().chain(lines).collect();
        return if lines.is_empty() { Ok(lines) } else { Err(not_handled(kind, &strict_error(&lines))) };
    }
    twice.extend(lines);
    Ok(twice)
}

/// Joins the problems of strict decoding as a real server does.
pub(super) fn strict_error(lines: &[String]) -> String {
    format!("strict decoding error: {}", lines.join(", "))
}

/// Records in `metadata.managedFields` what this request changed.
pub(super) fn track(state: &State, target: &Target, options: &WriteOptions, live: Option<&Value>, object: &mut Value) {
    if target.resource.custom.is_some() && !is_trackable(&target.resource, live, object) {
        object::metadata_mut(object).remove("managedFields");
        return;
    }
    let now = state.now();
    let api_version = target.resource.api_version();
    let manager =
        Manager { name: &options.manager, api_version: &api_version, subresource: target.subresource(), now: &now };
    apply::track_update(live, object, &manager, target.resource.root());
}

/// Whether a custom resource has managers after a write. It has none if a value does not have the type of its field
/// (`UpdateNoErrors` of `managedfields/internal/fieldmanager.go`), or if a manager of the live object uses a version
/// that is gone. A built-in kind is decoded into its type, so it always has managers.
fn is_trackable(resource: &ResourceType, live: Option<&Value>, object: &Value) -> bool {
    let has_fields = |object: &Value| Set::mistakes(object, resource.root(), Doubles::Allowed).is_empty();
    let has_versions = |live: &Value| {
        let entries = object::items(live, "/metadata/managedFields");
        entries.iter().all(|entry| super::gone_version(resource, entry).is_none())
    };
    has_fields(object) && live.is_none_or(|live| has_fields(live) && has_versions(live))
}

/// Whether a user who may update or apply an object may also create it.
pub(super) fn may_create(state: &State, target: &Target, user: &User) -> Result<(), ApiError> {
    let attributes = Attributes::Resource(ResourceAttributes {
        verb: "create".to_owned(),
        group: target.resource.id.group.clone(),
        resource: target.resource.id.plural.clone(),
        subresource: String::new(),
        namespace: target.namespace.clone().unwrap_or_default(),
        name: target.name().to_owned(),
    });
    let decision = Access::of(state).decide(user, &attributes);
    if decision.allowed || !state.by_roles { Ok(()) } else { Err(attributes.refuse(user, &decision.reason)) }
}

/// Returns all errors of the object, including the `known` ones, as a single error. Adds warnings for errors that are
/// tolerated.
pub(super) fn validate(
    target: &Target,
    options: &WriteOptions,
    object: &Value,
    previous: Option<&Value>,
    known: Vec<Cause>,
) -> Result<(), ApiError> {
    let resource = &target.resource;
    let mut causes = known;
    causes.extend(validation::metadata(resource, object));
    let mut warnings = Vec::new();
    if let Some(custom) = &resource.custom {
        let found = validation::custom(resource, &custom.schema, target.subresource(), object, previous);
        causes.extend(found.causes);
        warnings = found.warnings;
    } else {
        causes.extend(validation::builtin(resource, target.subresource(), object, previous));
        if crd::is_definition(&resource.id) && target.subresource.is_none() {
            warnings = crd::format_warnings(object, previous);
        }
    }
    if !causes.is_empty() {
        return Err(ApiError::invalid(resource, object::name(object), &causes));
    }
    options.warnings.add(advice(object));
    options.warnings.add(warnings);
    Ok(())
}

/// Whether the write increments `metadata.generation`: any change outside metadata does. If status is a subresource, a
/// change of the status does not.
pub(super) fn content_differs(resource: &ResourceType, one: &Value, other: &Value) -> bool {
    let counts = |key: &str| key != "metadata" && !(key == "status" && resource.has_status);
    let content = |object: &Value| -> Vec<(String, Value)> {
        let fields = object.as_object().into_iter().flatten();
        fields.filter(|(key, _)| counts(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    content(one) != content(other)
}

/// Whether two states differ in more than the timestamps of field managers.
pub(super) fn is_same(one: &Value, other: &Value) -> bool {
    let timeless = |object: &Value| {
        let mut object = object.clone();
        let managers = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
        for manager in managers.into_iter().flatten() {
            object::as_map_mut(manager).remove("time");
        }
        object
    };
    // Most writes change a field outside metadata, so these fields are compared first, without a copy.
    let body = |object: &Value| object.as_object().map(|map| map.iter().filter(|(key, _)| *key != "metadata").count());
    body(one) == body(other) && timeless(one) == timeless(other)
}

/// Stores the object. A dry run only returns what would be stored.
pub(super) fn commit(
    state: &mut State,
    target: &Target,
    options: &WriteOptions,
    object: Value,
) -> Result<Arc<Value>, ApiError> {
    if options.dry_run {
        return Ok(Arc::new(object));
    }
    let key = target.key(object::name(&object));
    let storage = state.registry.stored_version(&target.resource.storage);
    let mut object = match storage.filter(|storage| storage.converter().is_some()).map(Arc::clone) {
        Some(storage) => {
            let object = super::in_version(state, &storage, Arc::new(object), &options.consultation)?;
            Arc::unwrap_or_clone(object)
        }
        None => convert::for_storage(&state.registry, &target.resource, object),
    };
    size::fit(target, options.kind, &mut object, state.store.get(&key).is_none())?;
    let stored = state.commit(&key, object);
    Ok(convert::for_reader(&target.resource, &stored))
}

/// Brings a valid object into the form in which it is read again: whole numbers become integers, and forbidden nulls
/// are removed. A built-in kind has this form by its type.
pub(super) fn settle(resource: &ResourceType, object: &mut Value) {
    if resource.custom.is_some() || crd::is_definition(&resource.id) {
        numbers::settle(object);
    }
    if let Some(custom) = &resource.custom {
        custom.schema.default(object);
    }
}

/// Warnings that are not about unknown fields: a deprecated version, a finalizer whose name may clash.
fn advice(object: &Value) -> Vec<String> {
    let unqualified = object::finalizers(object).into_iter().filter(|name| {
        !name.contains('/') && !["kubernetes", ORPHAN, FOREGROUND, crd::CLEANUP_FINALIZER].contains(name)
    });
    unqualified
        .map(|name| {
            format!(
                "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name to avoid accidental conflicts \
                 with other finalizer writers"
            )
        })
        .collect()
}

/// Removes the fields that only the status subresource may write.
pub(super) fn without_status(resource: &ResourceType, object: &mut Value) {
    if resource.has_status {
        object::as_map_mut(object).remove("status");
        if resource.custom.is_none() {
            object["status"] = json!({});
        }
    }
}
