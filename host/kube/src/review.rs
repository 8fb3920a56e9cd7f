//! Asks the API server whether a service account may watch something: before a watch is read on its behalf.
//!
//! A review is a POST and goes the way of all mutations, under a system role, but it changes nothing. What follows from
//! the answer is decided by whoever asks, who keeps the last answer when there is none.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::rights::principal::{Principal, ServiceAccount};

use crate::client::headers;
use crate::client::request::{self, Mutation, RequestError};
use crate::discovery::Resource;

const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// How long the server may take for a review: some ask an authorizer elsewhere.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(15);
/// The verbs that a watch needs.
const VERBS: [&str; 2] = ["list", "watch"];

/// The answer of the cluster's authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewVerdict {
    /// It may do all that was asked about.
    Allowed,
    /// It may not.
    Denied {
        /// The first verb that it may not.
        verb: &'static str,
        /// The server's reason, which may be empty.
        reason: String,
    },
}

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The server could not be asked, or did not answer.
    #[error("cannot ask whether {account} may {verb} {resource}: {source}")]
    Request {
        /// The account.
        account: String,
        /// The verb that was asked about.
        verb: &'static str,
        /// The resource in plural.
        resource: String,
        /// The error.
        source: RequestError,
    },
    /// The server's answer makes no sense.
    #[error("the API server's answer whether {account} may {verb} {resource} cannot be read: {source}")]
    Malformed {
        /// The account.
        account: String,
        /// The verb that was asked about.
        verb: &'static str,
        /// The resource in plural.
        resource: String,
        /// The error.
        source: serde_json::Error,
    },
    /// The server found nobody who allows it, but could not ask all who might.
    #[error("the API server cannot tell whether {account} may {verb} {resource}: {message}")]
    Undecided {
        /// The account.
        account: String,
        /// The verb that was asked about.
        verb: &'static str,
        /// The resource in plural.
        resource: String,
        /// The server's message.
        message: String,
    },
    /// The role cannot be named in a request.
    #[error("no request can be made: {0}")]
    Role(String),
}

#[derive(Deserialize)]
struct Review {
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    allowed: bool,
    denied: bool,
    reason: String,
    evaluation_error: String,
}

/// Whether `account` may list and watch `resource` in `namespace`, or all of it. Asked in the name of `role`, which needs
/// the right to create `SubjectAccessReview`s.
pub async fn may_watch(
    client: &Client,
    role: &Principal,
    account: &ServiceAccount,
    resource: &Resource,
    namespace: Option<&str>,
) -> Result<ReviewVerdict, ReviewError> {
    for verb in VERBS {
        let verdict = review(client, role, account, resource, namespace, verb).await?;
        if verdict != ReviewVerdict::Allowed {
            return Ok(verdict);
        }
    }
    Ok(ReviewVerdict::Allowed)
}

async fn review(
    client: &Client,
    role: &Principal,
    account: &ServiceAccount,
    resource: &Resource,
    namespace: Option<&str>,
    verb: &'static str,
) -> Result<ReviewVerdict, ReviewError> {
    let (named, plural) = (format!("{}/{}", account.namespace, account.name), resource.plural.clone());
    let mutation = Mutation {
        method: Method::POST,
        uri: PATH.to_owned(),
        content_type: "application/json",
        body: Bytes::from(question(account, resource, namespace, verb).to_string()),
        headers: headers::of_principal(role).map_err(|error| ReviewError::Role(error.to_string()))?.into(),
    };
    let answer = match request::mutate(client, mutation, REVIEW_TIMEOUT).await {
        Ok(answer) => answer,
        Err(source) => return Err(ReviewError::Request { account: named, verb, resource: plural, source }),
    };
    let review: Review = match serde_json::from_str(&answer.text) {
        Ok(review) => review,
        Err(source) => return Err(ReviewError::Malformed { account: named, verb, resource: plural, source }),
    };
    let Status { allowed, denied, reason, evaluation_error } = review.status;
    match (allowed, denied || evaluation_error.is_empty()) {
        (true, _) => Ok(ReviewVerdict::Allowed),
        (false, true) => Ok(ReviewVerdict::Denied { verb, reason }),
        (false, false) => {
            Err(ReviewError::Undecided { account: named, verb, resource: plural, message: evaluation_error })
        }
    }
}

/// The account comes with its groups: rules may be about those.
fn question(account: &ServiceAccount, resource: &Resource, namespace: Option<&str>, verb: &str) -> Value {
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": account.user(),
            "groups": account.groups(),
            "resourceAttributes": {
                "group": resource.group(),
                "version": resource.kind.version(),
                "resource": resource.plural,
                "verb": verb,
                "namespace": namespace.unwrap_or_default(),
            },
        },
    })
}
