//! Converts stored objects to the version of a request, if that needs a webhook.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use crate::clock::Chance;
use crate::resources::converter;
use crate::resources::resource::ResourceType;
use crate::status_error::ApiError;
use crate::storage::change_log::Change;
use crate::storage::state::{Shared, State};
use crate::webhooks;

/// Converts objects to the version of `resource`, all with one conversion review.
pub(super) async fn converted(
    shared: &Shared,
    resource: &ResourceType,
    objects: Vec<Arc<Value>>,
) -> Result<Vec<Arc<Value>>, ApiError> {
    converted_by(shared, resource, objects, || shared.lock().chance.uid()).await
}

async fn converted_by(
    shared: &Shared,
    resource: &ResourceType,
    mut objects: Vec<Arc<Value>>,
    uid: impl FnOnce() -> String,
) -> Result<Vec<Arc<Value>>, ApiError> {
    let (Some(webhook), Some(custom)) = (resource.converter(), &resource.custom) else { return Ok(objects) };
    let desired = resource.api_version();
    let is_other = |object: &Arc<Value>| object["apiVersion"] != desired.as_str();
    let others: Vec<Arc<Value>> = objects.iter().filter(|object| is_other(object)).cloned().collect();
    if others.is_empty() {
        return Ok(objects);
    }
    let originals: Vec<&Value> = others.iter().map(|object| &**object).collect();
    let uid = uid();
    let review = webhook.review(&originals, &desired, &uid).to_string();
    let answer = webhooks::call(shared, &webhook.client, converter::CONVERSION_TIMEOUT, review).await;
    let answer = answer.as_ref().map(|body| &**body).map_err(String::as_str);
    let converted = webhook.read_answer(&originals, &desired, &uid, answer).map_err(ApiError::internal)?;
    for (place, object) in objects.iter_mut().filter(|object| is_other(object)).zip(converted) {
        *place = custom.converted(object);
    }
    Ok(objects)
}

/// Converts one object to the version of `resource`.
pub(super) async fn converted_one(
    shared: &Shared,
    resource: &ResourceType,
    object: Arc<Value>,
) -> Result<Arc<Value>, ApiError> {
    let converted = converted(shared, resource, vec![Arc::clone(&object)]).await?;
    Ok(converted.into_iter().next().unwrap_or(object))
}

/// Converts the changes of a watch to its version. Each change is converted only once, even if the client reads slowly.
pub(super) struct Conversion {
    /// The source of the reviews' UIDs. It is separate from the server's, because the number of reviews depends on
    /// timing.
    chance: Chance,
    /// Changes that are already converted, but not sent yet.
    pub(super) ready: VecDeque<Change>,
}

impl Conversion {
    /// The conversion for a new watch. `None` if no webhook is needed.
    pub(super) fn begin(state: &mut State, resource: &ResourceType) -> Option<Conversion> {
        resource.converter()?;
        Some(Conversion { chance: state.chance.fork(), ready: VecDeque::new() })
    }

    /// Converts the current objects with one review.
    pub(super) async fn objects(
        &mut self,
        shared: &Shared,
        resource: &ResourceType,
        objects: Vec<Arc<Value>>,
    ) -> Result<Vec<Arc<Value>>, ApiError> {
        converted_by(shared, resource, objects, || self.chance.uid()).await
    }

    pub(super) fn take_ready(&mut self) -> Option<VecDeque<Change>> {
        (!self.ready.is_empty()).then(|| std::mem::take(&mut self.ready))
    }

    /// Converts changes with one review. `with_previous` is false for a watch without selectors, which does not need
    /// the old states.
    pub(super) async fn convert(
        &mut self,
        shared: &Shared,
        resource: &ResourceType,
        changes: &mut [Change],
        with_previous: bool,
    ) -> Result<(), ApiError> {
        let states = changes.iter().flat_map(|change| {
            std::iter::once(&change.object).chain(change.previous.as_ref().filter(|_| with_previous))
        });
        let states = states.cloned().collect();
        let mut states = self.objects(shared, resource, states).await?.into_iter();
        for change in changes {
            let Some(object) = states.next() else { break };
            let has_previous = with_previous && change.previous.is_some();
            let previous = if has_previous { states.next() } else { change.previous.take() };
            change.show_instead(object, previous);
        }
        Ok(())
    }
}
