//! Brings stored objects into the version of a request, where that takes a webhook.

use std::sync::Arc;

use serde_json::Value;

use crate::resources::converter;
use crate::resources::resource::ResourceType;
use crate::status_error::ApiError;
use crate::storage::change_log::Change;
use crate::storage::state::Shared;
use crate::webhooks;

/// The objects in the version of `resource`, with one question for all.
pub(super) async fn converted(
    shared: &Shared,
    resource: &ResourceType,
    mut objects: Vec<Arc<Value>>,
) -> Result<Vec<Arc<Value>>, ApiError> {
    let (Some(webhook), Some(custom)) = (resource.converter(), &resource.custom) else { return Ok(objects) };
    let desired = resource.api_version();
    let is_other = |object: &Arc<Value>| object["apiVersion"] != desired.as_str();
    let others: Vec<Arc<Value>> = objects.iter().filter(|object| is_other(object)).cloned().collect();
    if others.is_empty() {
        return Ok(objects);
    }
    let originals: Vec<&Value> = others.iter().map(|object| &**object).collect();
    let uid = shared.lock().chance.uid();
    let review = webhook.review(&originals, &desired, &uid).to_string();
    let answer = webhooks::call(shared, &webhook.client, converter::TIMEOUT, review).await;
    let answer = answer.as_ref().map(|body| &**body).map_err(String::as_str);
    let converted = webhook.read_answer(&originals, &desired, &uid, answer).map_err(ApiError::internal)?;
    for (place, object) in objects.iter_mut().filter(|object| is_other(object)).zip(converted) {
        *place = custom.converted(object);
    }
    Ok(objects)
}

/// The same of one object.
pub(super) async fn converted_one(
    shared: &Shared,
    resource: &ResourceType,
    object: Arc<Value>,
) -> Result<Arc<Value>, ApiError> {
    let converted = converted(shared, resource, vec![Arc::clone(&object)]).await?;
    Ok(converted.into_iter().next().unwrap_or(object))
}

/// The same of changes, with the states before them.
pub(super) async fn converted_changes(
    shared: &Shared,
    resource: &ResourceType,
    mut changes: Vec<Change>,
) -> Result<Vec<Change>, ApiError> {
    if resource.converter().is_none() {
        return Ok(changes);
    }
    let states = changes.iter().flat_map(|change| [Some(&change.object), change.previous.as_ref()]);
    let mut states = converted(shared, resource, states.flatten().cloned().collect()).await?.into_iter();
    for change in &mut changes {
        let places = [Some(&mut change.object), change.previous.as_mut()];
        for (place, state) in places.into_iter().flatten().zip(&mut states) {
            *place = state;
        }
    }
    Ok(changes)
}
