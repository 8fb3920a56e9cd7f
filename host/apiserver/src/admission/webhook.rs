//! One webhook of a configuration, parsed when the configuration is stored.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::conditions::MatchCondition;
use super::expressions;
use super::matching::ResourceMatcher;
use super::request::AdmissionRequest;
use super::review::{self, WebhookAnswer};
use crate::clock::Chance;
use crate::consultation::{Consultation, Question, QuestionKey, WebhookClient, WebhookReply, reviews};
use crate::object::{self, text};
use crate::resources::resource::ResourceType;
use crate::status_error::ApiError;

/// A webhook, and the conditions for calling it.
#[derive(Debug)]
pub(crate) struct Webhook {
    /// Identifies the webhook and the version of its configuration.
    pub(super) id: String,
    pub(super) name: String,
    matcher: ResourceMatcher,
    conditions: Vec<MatchCondition>,
    /// True if a failure of the webhook does not fail the request.
    is_ignored: bool,
    /// True if this webhook is called again after a later one has changed the object.
    pub(super) is_reinvoked: bool,
    bears_dry_run: bool,
    timeout: Duration,
    client: WebhookClient,
    /// The first version of `AdmissionReview` that both sides support.
    version: &'static str,
}

impl Webhook {
    /// The webhook at `index` of a valid configuration.
    pub(super) fn read(configuration: &Value, index: usize, webhook: &Value) -> Webhook {
        let versions = object::strings(webhook, "/admissionReviewVersions");
        let seconds = webhook["timeoutSeconds"].as_u64().unwrap_or(10);
        Webhook {
            id: format!("{}/{index}/{}", object::name(configuration), object::resource_version(configuration)),
            name: text(webhook, "/name").to_owned(),
            matcher: ResourceMatcher::read(webhook, "rules"),
            conditions: MatchCondition::read_all(webhook, false),
            is_ignored: text(webhook, "/failurePolicy") == "Ignore",
            is_reinvoked: text(webhook, "/reinvocationPolicy") == "IfNeeded",
            bears_dry_run: ["None", "NoneOnDryRun"].contains(&text(webhook, "/sideEffects")),
            timeout: Duration::from_secs(seconds),
            client: WebhookClient::read(&webhook["clientConfig"]),
            version: reviews::version(&versions),
        }
    }

    /// The resource in whose version the webhook sees the object. `None` if the webhook does not apply to the request.
    pub(super) fn matched<'r>(
        &self,
        request: &'r AdmissionRequest<'_>,
        consultation: &Consultation,
        object: Option<&Value>,
    ) -> Result<Option<&'r Arc<ResourceType>>, ApiError> {
        let Some(resource) = self.matcher.matched(request, object)? else { return Ok(None) };
        let seen = self.conditions.first().map(|_| review::request(request, consultation, resource, object));
        let Some(seen) = seen else { return Ok(Some(resource)) };
        let holds = MatchCondition::all_hold(&self.conditions, &expressions::values(seen), self.is_ignored);
        let holds = holds.map_err(|why| ApiError::forbidden(&request.resource.id, request.name, &why))?;
        Ok(holds.then_some(resource))
    }

    /// The webhook's reply, or the question if the webhook has not been asked yet.
    pub(super) fn ask<'c>(
        &self,
        request: &AdmissionRequest<'_>,
        consultation: &'c Consultation,
        resource: &Arc<ResourceType>,
        object: Option<&Value>,
        turn: &mut Turn<'_>,
    ) -> Result<Asked<'c>, ApiError> {
        if request.dry_run && !self.bears_dry_run {
            let message = format!("admission webhook {:?} does not support dry run", self.name);
            return Err(ApiError::bad_request(message));
        }
        // Each attempt to serve a request draws the UID, even if it is not needed, so that all attempts draw the same
        // sequence.
        let uid = turn.chance.uid();
        let phase = if turn.is_mutating { "mutating" } else { "validating" };
        let key = QuestionKey {
            webhook: format!("{phase}/{}", self.id),
            round: turn.round,
            object: format!("{}/{}", request.namespace, request.old.map_or(request.name, object::name)),
            version: request.old.map(object::resource_version).unwrap_or_default().to_owned(),
        };
        if let Some(reply) = consultation.reply(&key) {
            return Ok(Asked::Before(reply));
        }
        let mut seen = review::request(request, consultation, resource, object);
        seen["uid"] = json!(uid);
        let body = json!({
            "kind": "AdmissionReview",
            "apiVersion": format!("admission.k8s.io/{}", self.version),
            "request": seen,
        });
        let (client, timeout) = (self.client.clone(), self.timeout);
        Ok(Asked::Now(Box::new(Question { key, client, timeout, uid, body: body.to_string() })))
    }

    /// Interprets a reply, and adds its warnings to the request's. Returns the answer, `None` if the webhook has failed
    /// and failures are ignored, or the error that ends the request.
    pub(super) fn heard(
        &self,
        request: &AdmissionRequest<'_>,
        reply: &WebhookReply,
        is_mutating: bool,
    ) -> Result<Option<WebhookAnswer>, ApiError> {
        let call_failed = |why: &String| format!("failed to call webhook: {why}");
        let read = |body: &Bytes| WebhookAnswer::read(self.version, is_mutating, &reply.uid, body);
        let answer = reply.body.as_ref().map_err(call_failed).and_then(read);
        if let Ok(answer) = &answer {
            request.warnings.add(answer.warnings.clone());
        }
        match answer {
            Ok(answer) if answer.allowed => Ok(Some(answer)),
            Ok(answer) => Err(ApiError::denied_by_webhook(&self.name, &answer.status)),
            Err(why) if self.is_ignored => {
                tracing::warn!(webhook = self.name, why, "a webhook failed; its failure policy allows the request");
                Ok(None)
            }
            Err(why) => Err(ApiError::internal_error(&format!("failed calling webhook {:?}: {why}", self.name))),
        }
    }
}

/// The context of a call.
pub(super) struct Turn<'a> {
    pub(super) is_mutating: bool,
    pub(super) round: u8,
    pub(super) chance: &'a mut Chance,
}

/// A question to a webhook: already answered, or still to be asked.
pub(super) enum Asked<'c> {
    Before(&'c WebhookReply),
    Now(Box<Question>),
}

/// Stops processing a request until these questions are answered. The returned error never reaches a client.
pub(super) fn give_up(consultation: &Consultation, questions: Vec<Question>) -> ApiError {
    consultation.leave(questions);
    ApiError::internal("a webhook is still to be asked")
}
