//! Asks the API server whose a bearer token is, and what its user may do at a path: for the host's own admin address,
//! which trusts whom the cluster trusts.
//!
//! Both questions are asked under a system role. Answers are kept, and refusals told, by whoever asks.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::Client;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_core::rights::principal::Principal;

use crate::client::headers;
use crate::client::review::{Review, ReviewError, create};

/// Somebody waits for the answer, a monitoring system mostly for ten seconds.
const TOKEN_REVIEW_TIMEOUT: Duration = Duration::from_secs(5);

/// Advice for the operator of a host that may not create these reviews.
const ADVICE_IF_REFUSED: &str = ". Grant the host's account what `windlass rbac --admin-auth token` prints";

/// The user of a token, as the cluster knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct TokenUser {
    /// Its name, such as `system:serviceaccount:monitoring:prometheus`.
    #[serde(rename(serialize = "user"))]
    pub username: String,
    /// Tells two users of one name apart, over time.
    pub uid: String,
    /// Its groups.
    pub groups: Vec<String>,
    /// Further things that its authenticator has said of it, which an authorizer may go by.
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

/// The user of `token`. None: the cluster does not know the token, or it has expired. Asked in the name of `role`,
/// which needs the right to create `TokenReview`s.
pub async fn whose_token(client: &Client, role: &Principal, token: &str) -> Result<Option<TokenUser>, ReviewError> {
    let question = "whose a token is".to_owned();
    let status: TokenStatus = ask(client, role, "TokenReview", json!({"token": token}), question).await?;
    Ok(status.authenticated.then_some(status.user))
}

/// Whether `user` may do `verb` at `path`, which is no resource of the API server: by `nonResourceURLs` of a
/// `ClusterRole`. As for the API server itself, the verb is the request's method in lower case. Asked in the name of
/// `role`, which needs the right to create `SubjectAccessReview`s.
///
/// If the cluster cannot evaluate all of its rules, those count that it could: no rule of RBAC denies.
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
