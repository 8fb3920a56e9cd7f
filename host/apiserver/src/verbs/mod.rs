//! The verbs, one per file. All are functions of the locked [`State`](crate::storage::state::State) and a checked
//! request; they know nothing of HTTP. `server` calls them; the garbage collector and the other controllers call them
//! for their own writes.

mod admit;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod patch;
mod prepare;
pub(crate) mod reviews;
pub(crate) mod scale;
mod size;
mod storage_key;
pub(crate) mod subresources;
pub(crate) mod update;

use std::sync::Arc;

use serde_json::Value;

use crate::consultation::Consultation;
use crate::object::text;
use crate::request::{Query, Target};
use crate::resources::convert;
use crate::resources::resource::ResourceType;
use crate::status_error::ApiError;
use crate::storage::state::State;

/// The result of a write.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) object: Arc<Value>,
    pub(crate) created: bool,
}

/// The object at `target`, in the request's version unless a webhook has to convert it.
pub(crate) fn stored(state: &State, target: &Target) -> Result<Arc<Value>, ApiError> {
    let key = target.key(target.name());
    let found = state.store.get(&key).ok_or_else(|| ApiError::not_found(&target.resource.id, target.name()))?;
    check_stored_version(&target.resource, found)?;
    Ok(convert::for_reader(&target.resource, found))
}

/// The error for an object that cannot be read, because its definition no longer has the stored version:
/// `apiextensions-apiserver/pkg/apiserver/conversion/converter.go`.
fn check_stored_version(resource: &ResourceType, stored: &Value) -> Result<(), ApiError> {
    gone_version(resource, stored).map_or(Ok(()), |version| Err(ApiError::internal(unreadable(version))))
}

fn unreadable(version: &str) -> String {
    format!("request to convert CR from an invalid group/version: {version}")
}

/// The API version of an object, or of an entry of its managed fields, if its definition no longer has it.
fn gone_version<'a>(resource: &ResourceType, versioned: &'a Value) -> Option<&'a str> {
    let custom = resource.custom.as_ref()?;
    let version = text(versioned, "/apiVersion");
    let name = version.rsplit('/').next().unwrap_or_default();
    (!custom.schemas.contains_key(name)).then_some(version)
}

/// The object at `target` as it was at a revision.
pub(crate) fn get_at(state: &State, target: &Target, revision: u64) -> Result<Arc<Value>, ApiError> {
    let key = target.key(target.name());
    let found = state.store.get_at(&key, revision).map_err(list::expired)?;
    let found = found.map(|object| convert::for_reader(&target.resource, &object));
    found.ok_or_else(|| ApiError::not_found(&target.resource.id, target.name()))
}

/// Checks that the state is at least as new as a read requires.
pub(crate) fn check_reached(state: &State, query: &Query) -> Result<(), ApiError> {
    let asked = query.resource_version().map_err(|cause| ApiError::internal(cause.to_string()))?;
    let current = state.store.revision();
    asked.filter(|asked| *asked > current).map_or(Ok(()), |asked| Err(ApiError::future_version(asked, current)))
}

/// The object at `target`, in the request's version.
pub(crate) fn get(state: &mut State, target: &Target, consultation: &Consultation) -> Result<Arc<Value>, ApiError> {
    current(state, target, consultation)?.ok_or_else(|| ApiError::not_found(&target.resource.id, target.name()))
}

/// The object at `target` in the request's version, if it exists.
fn current(state: &mut State, target: &Target, consultation: &Consultation) -> Result<Option<Arc<Value>>, ApiError> {
    let resource = &target.resource;
    let Some(found) = state.store.get(&target.key(target.name())) else { return Ok(None) };
    check_stored_version(resource, found)?;
    let found = convert::for_reader(resource, found);
    in_version(state, resource, found, consultation).map(Some)
}

/// The object in the version of `resource`, converted by its definition's webhook if needed.
fn in_version(
    state: &mut State,
    resource: &ResourceType,
    object: Arc<Value>,
    consultation: &Consultation,
) -> Result<Arc<Value>, ApiError> {
    let (Some(webhook), Some(custom)) = (resource.converter(), &resource.custom) else { return Ok(object) };
    let version = resource.api_version();
    if object["apiVersion"] == version.as_str() {
        return Ok(object);
    }
    let converted = webhook.convert(consultation, &object, &version, state.chance.uid());
    match converted.map_err(ApiError::internal)? {
        None => Err(ApiError::internal("a conversion webhook is still to be asked")),
        Some(converted) => Ok(custom.converted(converted)),
    }
}
