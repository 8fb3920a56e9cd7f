//! Validation: policies, and then the webhooks, all at once.

use serde_json::Value;

use super::plugins::AdmissionPlugins;
use super::policies;
use super::request::AdmissionRequest;
use super::webhook::{Turn, give_up};
use crate::clock::Chance;
use crate::consultation::{Consultation, Question};
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
    let mut asked = Vec::new();
    for webhook in plugins.validating() {
        if let Some(resource) = webhook.matched(request, consultation, object)? {
            let mut turn = Turn { is_mutating: false, round: 0, chance };
            asked.push((webhook, webhook.question(request, consultation, resource, object, &mut turn)?));
        }
    }
    let unanswered = |question: &&Question| consultation.reply(&question.key).is_none();
    let outstanding: Vec<Question> = asked.iter().map(|(_, question)| question).filter(unanswered).cloned().collect();
    if !outstanding.is_empty() {
        return Err(give_up(consultation, outstanding));
    }
    for (webhook, question) in &asked {
        let Some(reply) = consultation.reply(&question.key) else { continue };
        warnings.extend(webhook.heard(reply, false)?.into_iter().flat_map(|answer| answer.warnings));
    }
    Ok(warnings)
}
