//! Reviews: questions that are asked by a POST and stored nowhere. There is no authorization here, so all is allowed, but
//! for what a service account's annotation `windlass.dev/deny` says: so that tests can have a denial.

use serde_json::{Value, json};

use crate::object::text;
use crate::request::Target;
use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::state::State;

/// Resources that the account is denied, by kubectl's names with their groups (`deployments.apps`), with commas between;
/// `*` is all.
const DENY: &str = "/metadata/annotations/windlass.dev~1deny";

/// The review with its answer.
pub(crate) fn answer(state: &State, target: &Target, mut review: Value) -> Value {
    review["apiVersion"] = json!(target.resource.api_version());
    review["kind"] = json!(target.resource.kind);
    review["status"] = match target.resource.kind.as_str() {
        "SelfSubjectReview" => json!({ "userInfo": { "username": "windlass", "groups": ["system:masters"] } }),
        "SelfSubjectRulesReview" => json!({
            "incomplete": false,
            "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
            "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
        }),
        _ if is_denied(state, &review) => {
            json!({ "allowed": false, "reason": "the service account's annotation windlass.dev/deny says so" })
        }
        _ => json!({ "allowed": true, "reason": "the embedded API server allows everything" }),
    };
    review
}

fn is_denied(state: &State, review: &Value) -> bool {
    let user = text(review, "/spec/user").strip_prefix("system:serviceaccount:");
    let Some((namespace, name)) = user.and_then(|user| user.split_once(':')) else { return false };
    let key = ObjectKey {
        resource: GroupResource::new("", "serviceaccounts"),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let Some(account) = state.store.get(&key) else { return false };
    let of = |field: &str| text(review, &format!("/spec/resourceAttributes/{field}"));
    let asked = GroupResource::new(of("group"), of("resource")).to_string();
    text(account, DENY).split(',').map(str::trim).any(|denied| denied == "*" || denied == asked)
}
