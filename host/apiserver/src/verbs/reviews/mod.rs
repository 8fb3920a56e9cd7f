//! Reviews: questions that are asked by a POST and stored nowhere. Answered by what authenticates and authorizes requests.

mod access;
mod token;

use serde_json::{Value, json};

use crate::authn::Authenticator;
use crate::authz::{Access, PolicyRule, User};
use crate::object::text;
use crate::request::Target;
use crate::status_error::ApiError;
use crate::storage::state::State;

/// The review with its answer. `user` asks.
pub(crate) fn answer(
    state: &State,
    authenticator: &Authenticator,
    user: &User,
    target: &Target,
    mut review: Value,
) -> Result<Value, ApiError> {
    review["apiVersion"] = json!(target.resource.api_version());
    review["kind"] = json!(target.resource.kind);
    if !review["metadata"].is_object() {
        review["metadata"] = json!({});
    }
    let access = Access::of(state);
    review["status"] = match target.resource.kind.as_str() {
        "SelfSubjectReview" => json!({ "userInfo": user.info() }),
        "SelfSubjectRulesReview" => rules(access, user, &review)?,
        "TokenReview" => token::status(state, authenticator, &review)?,
        "SelfSubjectAccessReview" => access::of_self(access, user, target, &review)?,
        _ => access::of_subject(access, target, &review)?,
    };
    Ok(review)
}

fn rules(access: Access<'_>, user: &User, review: &Value) -> Result<Value, ApiError> {
    let namespace = text(review, "/spec/namespace");
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let (rules, error) = access.rules(user, namespace);
    let part =
        |wanted: fn(&PolicyRule) -> bool| -> Vec<&PolicyRule> { rules.iter().filter(|rule| wanted(rule)).collect() };
    let mut status = json!({
        "resourceRules": part(|rule| !rule.resources.is_empty()),
        "nonResourceRules": part(|rule| !rule.non_resource_urls.is_empty()),
        "incomplete": error.is_some(),
    });
    if let Some(error) = error {
        status["evaluationError"] = json!(error);
    }
    Ok(status)
}
