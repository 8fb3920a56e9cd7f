//! Reviews: questions that are asked by a POST and stored nowhere. There is no authorization here, so all is allowed.

use serde_json::{Value, json};

use crate::request::Target;

/// The review with its answer.
pub(crate) fn answer(target: &Target, mut review: Value) -> Value {
    review["apiVersion"] = json!(target.resource.api_version());
    review["kind"] = json!(target.resource.kind);
    review["status"] = match target.resource.kind.as_str() {
        "SelfSubjectReview" => json!({ "userInfo": { "username": "windlass", "groups": ["system:masters"] } }),
        "SelfSubjectRulesReview" => json!({
            "incomplete": false,
            "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }],
            "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
        }),
        _ => json!({ "allowed": true, "reason": "the embedded API server allows everything" }),
    };
    review
}
