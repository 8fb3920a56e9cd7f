//! The four kinds of PATCH. Each computes a new state from the current one; `update` does the rest.

use serde_json::{Value, json};

use super::create::{self, Tracking};
use super::{Written, prepare, update};
use crate::cause::Cause;
use crate::merge::apply::{self, Conflict, Manager, conflict_message};
use crate::merge::fields::{Doubles, Set, go_text};
use crate::merge::json_patch::{self, JsonPatchError};
use crate::merge::lists::Place;
use crate::merge::merge_patch;
use crate::merge::strategic::{self, StrategicError};
use crate::object::{self, text};
use crate::request::media::PatchKind;
use crate::request::{FieldValidation, Target, WriteOptions, decode, document};
use crate::schema::typed::Reading;
use crate::status_error::ApiError;
use crate::storage::state::State;

/// The prefix of errors of JSON and merge patches.
const DECODING: &str = "error decoding patch: ";

/// Patches the object at `target`, by any kind of patch but [`apply`].
pub(crate) fn patch(
    state: &mut State,
    target: &Target,
    options: &WriteOptions,
    kind: PatchKind,
    body: &[u8],
) -> Result<Written, ApiError> {
    let current = super::get(state, target, &options.consultation)?;
    let mut object = patched(&current, kind, body, target.resource.root())?;
    decoded(target, options, kind, body, &mut object)?;
    if object::name(&object).is_empty() {
        return Err(update::nameless(target));
    }
    decode::check(target, &mut object)?;
    // The result of the patch is decoded; the patch itself is not an object.
    let options = WriteOptions { field_validation: FieldValidation::Ignore, ..options.clone() };
    prepare::decode_fields(&target.resource, &options, &mut object)?;
    update::replace(state, target, &options, &current, object, Tracking::Update)
}

/// Decodes the result of a patch, and adds the warnings. A real server blames the patch for every error here.
fn decoded(
    target: &Target,
    options: &WriteOptions,
    kind: PatchKind,
    body: &[u8],
    object: &mut Value,
) -> Result<(), ApiError> {
    let (made, reading) = match kind {
        PatchKind::Strategic => (None, Reading::Converter),
        _ => (Some(object.to_string()), Reading::Json),
    };
    let refuse = |error: &str| {
        let shown = made
            .clone()
            .unwrap_or_else(|| serde_json::from_slice(body).map_or_else(|_| String::new(), |patch| go_text(&patch)));
        ApiError::invalid_patch(&Cause::invalid("patch", &json!(shown), error))
    };
    let unknown = prepare::prune(&target.resource, object, reading).map_err(|error| refuse(&error.to_string()))?;
    if options.field_validation == FieldValidation::Ignore {
        return Ok(());
    }
    let duplicates = if kind == PatchKind::Json { Vec::new() } else { document::problems(body, &[]) };
    let unknown = unknown.iter().map(|field| format!("unknown field {field:?}"));
    let lines: Vec<String> = duplicates.into_iter().chain(unknown).collect();
    if options.field_validation == FieldValidation::Strict && !lines.is_empty() {
        return Err(refuse(&prepare::strict_error(&lines)));
    }
    options.warnings.add(lines);
    Ok(())
}

/// Applies a patch, other than an apply, to `current` and returns the result.
pub(super) fn patched(current: &Value, kind: PatchKind, body: &[u8], root: Place<'_>) -> Result<Value, ApiError> {
    match kind {
        PatchKind::Json => {
            let patch = json_of(body, DECODING)?;
            json_patch::patched(current, &patch).map_err(|error| match error {
                JsonPatchError::Malformed(_) => ApiError::bad_request(error.to_string()),
                JsonPatchError::TooLong(_) => ApiError::too_much(&error.to_string()),
                JsonPatchError::DoesNotFit => ApiError::unfit_patch(),
            })
        }
        PatchKind::Merge => {
            let mut object = current.clone();
            merge_patch::merge(&mut object, &patch_object(body, DECODING)?);
            Ok(object)
        }
        PatchKind::Strategic | PatchKind::Apply => strategic::strategic_merge(current, &patch_object(body, "")?, root)
            .map_err(|error| match error {
                StrategicError::NoMergeKey(item, key) => {
                    let item = go_text(&item);
                    ApiError::internal(format!("map: {item} does not contain declared merge key: {key}"))
                }
                error => ApiError::bad_request(error.to_string()),
            }),
    }
}

/// A patch that must be a map; `prefix` starts its errors.
fn patch_object(body: &[u8], prefix: &str) -> Result<Value, ApiError> {
    match json_of(body, prefix)? {
        Value::Null => Ok(json!({})),
        patch @ Value::Object(_) => Ok(patch),
        other => Err(ApiError::bad_request(format!(
            "{prefix}json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            object::go_kind(&other)
        ))),
    }
}

fn json_of(body: &[u8], prefix: &str) -> Result<Value, ApiError> {
    let parsed = serde_json::from_slice(body);
    parsed.map_err(|error| ApiError::bad_request(format!("{prefix}{}", decode::go_syntax_error(&error, body))))
}

/// Server-side apply: makes the object match the configuration in the fields that the configuration names.
pub(crate) fn apply(
    state: &mut State,
    target: &Target,
    options: &WriteOptions,
    mut config: Value,
) -> Result<Written, ApiError> {
    let name = options.explicit_manager.as_ref().unwrap_or(&options.manager);
    check_type(target, &config)?;
    if config.pointer("/metadata/managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    typed_config(target, &config)?;
    decode::check_config(target, &mut config)?;
    keep_own_part(target, &mut config);

    let current = super::current(state, target, &options.consultation)?;
    check_managed_versions(target, current.as_deref())?;
    let given = take_identity(&mut config);
    if current.is_none() && !given.uid.is_empty() {
        return Err(uid_of_nothing(target, &given.uid));
    }
    let now = state.now();
    let api_version = target.resource.api_version();
    let manager = Manager { name, api_version: &api_version, subresource: target.subresource(), now: &now };
    let mut merged =
        apply::server_side_apply(current.as_deref(), &config, &manager, options.force, target.resource.root())
            .map_err(|conflicts| refused(&conflicts))?;
    decode::drop_empty_metadata(&mut merged);
    match current {
        Some(current) => {
            // The update that follows reports a wrong version or UID, together with other errors.
            for (key, value) in [("resourceVersion", given.version), ("uid", given.uid)] {
                if !value.is_empty() {
                    object::metadata_mut(&mut merged).insert(key.to_owned(), json!(value));
                }
            }
            prepare::decode_fields(&target.resource, options, &mut merged)?;
            update::replace(state, target, options, &current, merged, Tracking::Applied)
        }
        None if target.subresource.is_some() => Err(ApiError::not_found(&target.resource.id, target.name())),
        None => {
            prepare::may_create(state, target, &options.user)?;
            prepare::decode_fields(&target.resource, options, &mut merged)?;
            create::insert(state, target, options, merged, Tracking::Applied)
        }
    }
}

/// An apply reads the object in the version of each field manager.
fn check_managed_versions(target: &Target, current: Option<&Value>) -> Result<(), ApiError> {
    let entries = current.map(|current| object::items(current, "/metadata/managedFields")).unwrap_or_default();
    match entries.iter().find_map(|entry| super::gone_version(&target.resource, entry)) {
        None => Ok(()),
        Some(version) => {
            Err(ApiError::internal(format!("request to convert CR to an invalid group/version: {version}")))
        }
    }
}

/// An applied configuration must name its type.
fn check_type(target: &Target, config: &Value) -> Result<(), ApiError> {
    if !config.is_object() && !config.is_null() {
        return Err(ApiError::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value \
             of type map[string]interface {{}}",
            object::go_kind(config)
        )));
    }
    let (version, kind) = (text(config, "/apiVersion"), text(config, "/kind"));
    if version == target.resource.api_version() && kind == target.resource.kind {
        return Ok(());
    }
    let version = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
    Err(ApiError::bad_request(format!("invalid object type: {version}, Kind={kind}")))
}

/// A configuration is typed by the schema, so unknown fields are an error, whatever the field validation is. It is not
/// decoded further: a manager that applies a zero owns the field, although the object will not have it.
fn typed_config(target: &Target, config: &Value) -> Result<(), ApiError> {
    let mistakes = || Set::mistakes(config, target.resource.root(), Doubles::Refused);
    let lines = if target.resource.custom.is_some() {
        mistakes()
    } else {
        match prepare::prune(&target.resource, &mut config.clone(), Reading::Applied) {
            Err(error) => vec![error.to_string()],
            Ok(unknown) => {
                let undeclared = unknown.iter().map(|field| format!(".{field}: field not declared in schema"));
                undeclared.chain(mistakes()).collect()
            }
        }
    };
    let errors = match lines.as_slice() {
        [] => return Ok(()),
        [only] => only.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    // Shows the configuration's own namespace and name, which it may leave out.
    let Target { resource, .. } = target;
    Err(ApiError::internal(format!(
        "failed to create typed patch object ({}/{}; {}/{}, Kind={}): {errors}",
        object::namespace(config),
        object::name(config),
        resource.id.group,
        resource.version,
        resource.kind
    )))
}

/// Only the fields that the subresource may write count as applied.
fn keep_own_part(target: &Target, config: &mut Value) {
    let fields = object::as_map_mut(config);
    match target.subresource() {
        "status" => fields.retain(|key, _| matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status")),
        _ if target.resource.has_status => {
            fields.remove("status");
        }
        _ => {}
    }
    if target.subresource() == "status" {
        object::metadata_mut(config)
            .retain(|key, _| matches!(key.as_str(), "name" | "namespace" | "uid" | "resourceVersion"));
    }
}

/// The object that a configuration names.
struct GivenIdentity {
    version: String,
    uid: String,
}

/// Removes from a configuration the version, the UID and other fields that cannot be owned.
fn take_identity(config: &mut Value) -> GivenIdentity {
    let metadata = object::metadata_mut(config);
    for key in ["creationTimestamp", "generation", "selfLink", "deletionTimestamp", "managedFields"] {
        metadata.remove(key);
    }
    let mut taken =
        |key: &str| metadata.remove(key).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
    GivenIdentity { version: taken("resourceVersion"), uid: taken("uid") }
}

fn uid_of_nothing(target: &Target, uid: &str) -> ApiError {
    let why = format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
    ApiError::conflict(&target.resource.id, target.name(), &why)
}

fn refused(conflicts: &[Conflict]) -> ApiError {
    let cause = |conflict: &Conflict| Cause {
        reason: "FieldManagerConflict",
        message: conflict.message(),
        field: conflict.field.clone(),
    };
    let causes: Vec<Cause> = conflicts.iter().map(cause).collect();
    ApiError::apply_conflict(conflict_message(conflicts), &causes)
}
