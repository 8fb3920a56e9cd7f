//! Mutating webhooks. They are called one after the other. If a later webhook changes the object, earlier ones are
//! called again if their configuration asks for that.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::plugins::AdmissionPlugins;
use super::request::AdmissionRequest;
use super::webhook::{Asked, Turn, Webhook, give_up};
use crate::clock::Chance;
use crate::consultation::Consultation;
use crate::merge::json_patch;
use crate::object;
use crate::resources::resource::ResourceType;
use crate::status_error::ApiError;

/// Lets the webhooks change the object. A deletion has no object. `complete` fills in fields that a patch left out.
/// Returns whether anything changed.
pub(crate) fn mutate(
    plugins: &AdmissionPlugins,
    request: &AdmissionRequest<'_>,
    consultation: &Consultation,
    chance: &mut Chance,
    object: Option<&mut Value>,
    complete: &dyn Fn(&mut Value) -> Result<(), ApiError>,
) -> Result<bool, ApiError> {
    let mut rounds = Rounds { request, consultation, chance, complete, object };
    let (mut invoked, mut again) = (BTreeSet::new(), BTreeSet::new());
    let mut has_changed = false;
    for webhook in plugins.mutating() {
        let Some(changed) = rounds.ask(webhook, 0)? else { continue };
        if changed {
            again.append(&mut invoked);
            has_changed = true;
        }
        if webhook.is_reinvoked {
            invoked.insert(&webhook.id);
        }
    }
    if has_changed {
        for webhook in plugins.mutating() {
            if again.contains(&webhook.id) && rounds.ask(webhook, 1)? == Some(true) {
                again.append(&mut invoked);
            }
        }
    }
    Ok(has_changed)
}

struct Rounds<'a> {
    request: &'a AdmissionRequest<'a>,
    consultation: &'a Consultation,
    chance: &'a mut Chance,
    complete: &'a dyn Fn(&mut Value) -> Result<(), ApiError>,
    object: Option<&'a mut Value>,
}

impl Rounds<'_> {
    /// Asks the webhook. Returns whether it changed the object, or `None` if it does not apply to the request.
    fn ask(&mut self, webhook: &Webhook, round: u8) -> Result<Option<bool>, ApiError> {
        let object = self.object.as_deref();
        let Some(resource) = webhook.matched(self.request, self.consultation, object)? else { return Ok(None) };
        let mut turn = Turn { is_mutating: true, round, chance: self.chance };
        let reply = match webhook.ask(self.request, self.consultation, resource, object, &mut turn)? {
            Asked::Before(reply) => reply,
            Asked::Now(question) => return Err(give_up(self.consultation, vec![*question])),
        };
        let Some(answer) = webhook.heard(self.request, reply, true)? else { return Ok(Some(false)) };
        match &answer.patch {
            Some(patch) if *patch != json!([]) => self.apply(webhook, resource, patch).map(Some),
            _ => Ok(Some(false)),
        }
    }

    fn apply(&mut self, webhook: &Webhook, resource: &Arc<ResourceType>, patch: &Value) -> Result<bool, ApiError> {
        let Some(object) = &mut self.object else {
            return Err(ApiError::internal_error(&format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                webhook.name
            )));
        };
        let patched = json_patch::patched(&self.request.in_form_of(resource, object), patch)
            .map_err(|error| ApiError::internal_error(&error.to_string()))?;
        if !patched.is_object() || object::depth(&patched) > object::OBJECT_DEPTH_MAX {
            return Err(ApiError::internal_error(&format!("the patch of webhook {:?} makes no object", webhook.name)));
        }
        let mut patched = self.request.back_from(resource, &patched);
        (self.complete)(&mut patched)?;
        let has_changed = **object != patched;
        **object = patched;
        Ok(has_changed)
    }
}
