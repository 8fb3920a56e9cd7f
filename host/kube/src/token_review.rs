//! Asks the API server for the user of a bearer token, and whether the user may access a path. For the host's own admin
//! address, which trusts the cluster's users.
//!
//! Both questions are asked under a system role. The caller caches answers and logs refusals.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::Client;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_core::rights::principal::Principal;

use crate::client::headers;
use crate::client::review::{Review, ReviewError, create};

/// The time that the server may take for a review, for which a client waits. A monitoring system usually waits ten
/// seconds.
const TOKEN_REVIEW_TIMEOUT: Duration = Duration::from_secs(5);

/// Advice for the operator of a host that may not create these reviews.
const ADVICE_IF_REFUSED: &str = ". Grant the host's account what `windlass rbac --admin-auth token` prints";

/// The user of a token, as the cluster knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct TokenUser {
    /// The name, such as `system:serviceaccount:monitoring:prometheus`.
    #[serde(rename(serialize = "user"))]
    pub username: String,
    /// Distinguishes two users of the same name over time.
    pub uid: String,
    pub groups: Vec<String>,
    /// Additional data from the authenticator, which an authorizer may use.
    pub extra: BTreeMap<String, Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenStatus {
    authenticated: bool,
    user: TokenUser,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AccessStatus {
    allowed: bool,
}

/// The user of `token`. `None` if the cluster does not know the token, or it has expired. Asked in the name of `role`,
/// which needs the right to create `TokenReview`s.
pub async fn whose_token(client: &Client, role: &Principal, token: &str) -> Result<Option<TokenUser>, ReviewError> {
    let question = "which user a token belongs to".to_owned();
    let status: TokenStatus = ask(client, role, "TokenReview", json!({"token": token}), question).await?;
    Ok(status.authenticated.then_some(status.user))
}

/// Whether `user` may use `verb` on `path`, which is not a resource of the API server: by `nonResourceURLs` of a
/// `ClusterRole`. As for the API server itself, the verb is the request's method in lower case. Asked in the name of
/// `role`, which needs the right to create `SubjectAccessReview`s.
///
/// If the cluster could not evaluate all of its rules, the evaluated ones count, because RBAC rules never deny.
pub async fn may_access(
    client: &Client,
    role: &Principal,
    user: &TokenUser,
    verb: &str,
    path: &str,
) -> Result<bool, ReviewError> {
    let mut spec = json!(user);
    spec["nonResourceAttributes"] = json!({"path": path, "verb": verb});
    let question = format!("whether {} may {verb} {path}", user.username);
    let status: AccessStatus = ask(client, role, "SubjectAccessReview", spec, question).await?;
    Ok(status.allowed)
}

async fn ask<T: DeserializeOwned + Default>(
    client: &Client,
    role: &Principal,
    kind: &'static str,
    spec: Value,
    question: String,
) -> Result<T, ReviewError> {
    let timeout = TOKEN_REVIEW_TIMEOUT;
    let review = Review { kind, spec, question, advice_if_refused: ADVICE_IF_REFUSED, timeout };
    let status: Option<T> = create(client, review, headers::of_principal(role)?).await?;
    Ok(status.unwrap_or_default())
}
