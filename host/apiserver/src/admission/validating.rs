//! Validation: first policies, then all webhooks at once.

use serde_json::Value;

use super::plugins::AdmissionPlugins;
use super::policies;
use super::request::AdmissionRequest;
use super::webhook::{Asked, Turn, give_up};
use crate::clock::Chance;
use crate::consultation::Consultation;
use crate::status_error::ApiError;

/// Lets policies and webhooks validate the object after the write. A deletion has no such object.
pub(crate) fn validate(
    plugins: &AdmissionPlugins,
    request: &AdmissionRequest<'_>,
    consultation: &Consultation,
    chance: &mut Chance,
    object: Option<&Value>,
) -> Result<(), ApiError> {
    policies::judge(plugins.policies(), request, consultation, object)?;
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
    // All answers are read, even after a denial, because each may have warnings.
    let verdicts: Vec<_> = replies.into_iter().map(|(webhook, reply)| webhook.heard(request, reply, false)).collect();
    verdicts.into_iter().try_for_each(|verdict| verdict.map(drop))
}
