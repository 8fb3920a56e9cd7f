//! Asks the API server whether a service account may watch a resource, before a watch is read on the account's behalf,
//! or whether the host itself may, before it relies on a watch that it can do without.
//!
//! The question is asked under a system role. The caller decides what follows, and keeps the last answer if there is no
//! new one.

use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::rights::principal::{Principal, ServiceAccount};

use crate::client::headers;
use crate::client::review::{REVIEW_TIMEOUT, Review, ReviewError, create};
use crate::discovery::Resource;

/// The verbs that a watch needs.
const VERBS: [&str; 2] = ["list", "watch"];

/// The answer of the cluster's authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewVerdict {
    /// The account may use all verbs.
    Allowed,
    /// The account may not.
    Denied {
        /// The first verb that is denied.
        verb: &'static str,
        /// The server's reason, which may be empty.
        reason: String,
    },
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    allowed: bool,
    denied: bool,
    reason: String,
    evaluation_error: String,
}

/// Whether `account` may list and watch `resource` in `namespace`, or in all namespaces. `None` stands for the client's
/// own user. Asked in the name of `role`, which needs the right to create `SubjectAccessReview`s of accounts. Every
/// user may ask about itself.
pub async fn may_watch(
    client: &Client,
    role: &Principal,
    account: Option<&ServiceAccount>,
    resource: &Resource,
    namespace: Option<&str>,
) -> Result<ReviewVerdict, ReviewError> {
    for verb in VERBS {
        let subject =
            account.map_or_else(|| "the host".to_owned(), |account| format!("{}/{}", account.namespace, account.name));
        let question = format!("whether {subject} may {verb} {}", resource.plural);
        let review = Review {
            kind: if account.is_some() { "SubjectAccessReview" } else { "SelfSubjectAccessReview" },
            spec: spec(account, resource, namespace, verb),
            question: question.clone(),
            advice_if_refused: "",
            timeout: REVIEW_TIMEOUT,
        };
        let Status { allowed, denied, reason, evaluation_error } =
            create(client, review, headers::of_principal(role)?).await?;
        if allowed {
            continue;
        }
        if denied || evaluation_error.is_empty() {
            return Ok(ReviewVerdict::Denied { verb, reason });
        }
        return Err(ReviewError::Undecided { question, message: evaluation_error });
    }
    Ok(ReviewVerdict::Allowed)
}

/// Includes the account's groups, because rules may refer to them.
fn spec(account: Option<&ServiceAccount>, resource: &Resource, namespace: Option<&str>, verb: &str) -> Value {
    let attributes = json!({
        "group": resource.group(),
        "version": resource.kind.version(),
        "resource": resource.plural,
        "verb": verb,
        "namespace": namespace.unwrap_or_default(),
    });
    match account {
        Some(account) => {
            json!({"user": account.user(), "groups": account.groups(), "resourceAttributes": attributes})
        }
        None => json!({"resourceAttributes": attributes}),
    }
}
