//! Validation: policies, and then the webhooks, all at once.

use serde_json::Value;

use super::plugins::AdmissionPlugins;
use super::policies;
use super::request::AdmissionRequest;
use super::webhook::{Asked, Turn, give_up};
use crate::clock::Chance;
use crate::consultation::Consultation;
use crate::status_error::ApiError;

/// Has policies and webhooks judge the state that the request makes; of a deletion there is none. Answers their warnings.
pub(crate) fn validate(
    plugins: &AdmissionPlugins,
    request: &AdmissionRequest<'_>,
    consultation: &Consultation,
    chance: &mut Chance,
    object: Option<&Value>,
) -> Result<Vec<String>, ApiError> {
    let mut warnings = policies::judge(plugins.policies(), request, consultation, object)?;
    let (mut replies, mut outstanding) = (Vec::new(), Vec::new());
    for webhook in plugins.validating() {
        let Some(resource) = webhook.matched(request, consultation, object)? else { continue };
        let mut turn = Turn { is_mutating: false, round: 0, chance };
        match webhook.ask(request, consultation, resource, object, &mut turn)? {
            Asked::Before(reply) => replies.push((webhook, reply)),
            Asked::Now(question) => outstanding.push(*question),
        }
    }
    if !outstanding.is_empty() {
        return Err(give_up(consultation, outstanding));
    }
    for (webhook, reply) in replies {
        warnings.extend(webhook.heard(reply, false)?.into_iter().flat_map(|answer| answer.warnings));
    }
    Ok(warnings)
}
