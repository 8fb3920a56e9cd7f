//! The scale subresource: an `autoscaling/v1` Scale as a view of the parent's replica fields.

use std::sync::Arc;

use serde_json::{Value, json};

use super::admit::Admitted;
use super::create::Tracking;
use super::{Written, patch, prepare, update};
use crate::cause::Cause;
use crate::consultation::Consultation;
use crate::merge::lists::Place;
use crate::object::{self, text};
use crate::request::media::PatchKind;
use crate::request::{FieldValidation, Target, WriteOptions};
use crate::resources::resource::{GroupResource, ScalePaths};
use crate::status_error::ApiError;
use crate::storage::state::State;

pub(crate) fn get(state: &mut State, target: &Target, consultation: &Consultation) -> Result<Value, ApiError> {
    let parent = super::get(state, target, consultation)?;
    let paths = paths(target)?;
    if target.resource.custom.is_some() && object::at_path(&parent, &paths.spec_replicas).is_none() {
        let path = &paths.spec_replicas;
        return Err(ApiError::internal_error(&format!("the spec replicas field \".{path}\" does not exist")));
    }
    Ok(scale_of(&parent, paths))
}

/// PUT of a whole Scale.
pub(crate) fn update(
    state: &mut State,
    target: &Target,
    options: &WriteOptions,
    mut scale: Value,
) -> Result<Written, ApiError> {
    prepare::decode_subresource(target, options, &mut scale)?;
    let parent = super::get(state, target, &options.consultation)?;
    let given = object::name(&scale);
    if !given.is_empty() && given != target.name() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({})",
            target.name()
        )));
    }
    write(state, target, options, &parent, scale)
}

/// Server-side apply of a Scale: applies its only field to the parent.
pub(crate) fn apply(
    state: &mut State,
    target: &Target,
    options: &WriteOptions,
    config: &Value,
) -> Result<Written, ApiError> {
    let paths = paths(target)?;
    check_type(config)?;
    // A Scale only changes replicas: its labels or owners are not the parent's.
    let mut metadata = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion"] {
        object::copy_field(&mut metadata, &config["metadata"], key);
    }
    let mut parent = json!({
        "apiVersion": target.resource.api_version(),
        "kind": target.resource.kind,
        "metadata": metadata,
    });
    if let Some(replicas) = config.pointer("/spec/replicas") {
        check_replicas(target, replicas)?;
        object::set_path(&mut parent, &paths.spec_replicas, replicas.clone());
    }
    if let Some(current) = super::current(state, target, &options.consultation)? {
        let old = scale_of(&current, paths);
        let mut scale = old.clone();
        object::copy_field(object::map_mut_value(&mut scale, "spec"), &config["spec"], "replicas");
        Admitted::update(target, options, &old).admit(state, Some(&mut scale))?;
        if config.pointer("/spec/replicas").is_some() {
            object::set_path(&mut parent, &paths.spec_replicas, scale["spec"]["replicas"].clone());
        }
    }
    let written = patch::apply(state, target, &admitted(options), parent)?;
    Ok(Written { object: Arc::new(scale_of(&written.object, paths)), ..written })
}

fn check_type(config: &Value) -> Result<(), ApiError> {
    let (api_version, kind) = (text(config, "/apiVersion"), text(config, "/kind"));
    if (api_version, kind) == ("autoscaling/v1", "Scale") {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("cannot apply a {kind} of {api_version} as a Scale of autoscaling/v1")))
}

fn check_replicas(target: &Target, replicas: &Value) -> Result<(), ApiError> {
    if replicas.is_null() || replicas.as_i64().is_some_and(|replicas| replicas >= 0) {
        return Ok(());
    }
    if target.resource.custom.is_some() {
        let field = format!(".{}", paths(target)?.spec_replicas);
        let cause = Cause::invalid(field, replicas, "should be a non-negative integer");
        return Err(ApiError::invalid(&target.resource, target.name(), &[cause]));
    }
    let cause = Cause::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
    Err(ApiError::invalid_kind(&GroupResource::new("autoscaling", "Scale"), target.name(), &[cause]))
}

/// PATCH of the Scale, by any kind of patch but [`apply`].
pub(crate) fn patch(
    state: &mut State,
    target: &Target,
    options: &WriteOptions,
    kind: PatchKind,
    body: &[u8],
) -> Result<Written, ApiError> {
    let parent = super::get(state, target, &options.consultation)?;
    // A Scale contains no list, so merge and strategic patches are the same.
    let kind = if kind == PatchKind::Strategic { PatchKind::Merge } else { kind };
    let mut scale = patch::patched(&scale_of(&parent, paths(target)?), kind, body, Place::Unknown)?;
    prepare::decode_subresource(target, options, &mut scale)?;
    write(state, target, options, &parent, scale)
}

fn write(
    state: &mut State,
    target: &Target,
    options: &WriteOptions,
    parent: &Arc<Value>,
    mut scale: Value,
) -> Result<Written, ApiError> {
    let paths = paths(target)?;
    // Webhooks see the Scale, not its parent.
    let old = scale_of(parent, paths);
    Admitted::update(target, options, &old).admit(state, Some(&mut scale))?;
    let replicas = scale.pointer("/spec/replicas").unwrap_or(&Value::Null);
    check_replicas(target, replicas)?;
    let mut object = Value::clone(parent);
    let replicas = if replicas.is_null() { json!(0) } else { replicas.clone() };
    object::set_path(&mut object, &paths.spec_replicas, replicas);
    let metadata = object::metadata_mut(&mut object);
    for key in ["resourceVersion", "uid"] {
        metadata.insert(key.to_owned(), json!(text(&scale, &format!("/metadata/{key}"))));
    }
    let options = admitted(options);
    prepare::decode_fields(&target.resource, &options, &mut object)?;
    let written = update::replace(state, target, &options, parent, object, Tracking::Update)?;
    Ok(Written { object: Arc::new(scale_of(&written.object, paths)), ..written })
}

/// Admission has seen the Scale, so it does not see the parent. The parent's unknown fields are not the client's fault.
fn admitted(options: &WriteOptions) -> WriteOptions {
    WriteOptions { is_admitted: true, field_validation: FieldValidation::Ignore, ..options.clone() }
}

fn paths(target: &Target) -> Result<&ScalePaths, ApiError> {
    target.resource.scale.as_ref().ok_or_else(ApiError::no_such_resource)
}

fn scale_of(parent: &Value, paths: &ScalePaths) -> Value {
    let number = |path: &str| object::at_path(parent, path).and_then(Value::as_i64).unwrap_or(0);
    let mut metadata = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        object::copy_field(&mut metadata, &parent["metadata"], key);
    }
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {},
        "status": { "replicas": number(&paths.status_replicas) },
    });
    // Go omits a zero in the spec, but not in the status.
    if number(&paths.spec_replicas) != 0 {
        scale["spec"]["replicas"] = json!(number(&paths.spec_replicas));
    }
    let selector = paths.label_selector.as_ref().and_then(|path| object::at_path(parent, path));
    if let Some(selector) = selector {
        scale["status"]["selector"] = json!(selector_text(selector));
    }
    scale
}

/// A label selector as a string; custom resources store it so already.
pub(crate) fn selector_text(selector: &Value) -> String {
    if let Some(text) = selector.as_str() {
        return text.to_owned();
    }
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let equal = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), format!("{key}={}", value.as_str().unwrap_or_default())));
    let tests = object::items(selector, "/matchExpressions").iter().map(|expression| {
        let key = text(expression, "/key");
        let mut values = object::strings(expression, "/values");
        values.sort_unstable();
        let values = values.join(",");
        let test = match text(expression, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        (key, test)
    });
    let mut all: Vec<(&str, String)> = equal.chain(tests).collect();
    all.sort_by_key(|(key, _)| *key);
    all.into_iter().map(|(_, test)| test).collect::<Vec<_>>().join(",")
}
