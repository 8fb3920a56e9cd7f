//! Reviews: requests that are posted and never stored. The code that authenticates and authorizes requests answers
//! them.

mod access;
mod token;

use serde_json::{Value, json};

use crate::authn::Authenticator;
use crate::authz::{Access, PolicyRule, User};
use crate::object::{self, text};
use crate::request::Target;
use crate::status_error::ApiError;
use crate::storage::state::State;

/// The review with its result. `user` asks.
pub(crate) fn answer(
    state: &State,
    authenticator: &Authenticator,
    user: &User,
    target: &Target,
    mut review: Value,
) -> Result<Value, ApiError> {
    if let Some(namespace) = &target.namespace {
        object::metadata_mut(&mut review).insert("namespace".to_owned(), json!(namespace));
    }
    review["apiVersion"] = json!(target.resource.api_version());
    review["kind"] = json!(target.resource.kind);
    if !review["metadata"].is_object() {
        review["metadata"] = json!({});
    }
    let access = Access::of(state);
    review["status"] = match target.resource.kind.as_str() {
        "SelfSubjectReview" => json!({ "userInfo": user.info() }),
        "SelfSubjectRulesReview" => {
            let status = rules(access, user, &review)?;
            review["spec"] = json!({});
            status
        }
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
        // A real server gives the same result if a binding's role is missing.
        "incomplete": false,
    });
    if let Some(error) = error {
        status["evaluationError"] = json!(error);
    }
    Ok(status)
}
