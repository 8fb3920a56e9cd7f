//! Asks the API server whose a bearer token is, and what its user may do at a path: for the host's own admin address,
//! which trusts whom the cluster trusts.
//!
//! Both reviews are POSTs and go the way of all mutations, under a system role, but they change nothing. Answers are
//! kept, and refusals told, by whoever asks.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use kube::Client;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_core::rights::principal::Principal;

use crate::client::headers;
use crate::client::request::{self, Mutation, RequestError};

const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// Somebody waits for the answer, a monitoring system mostly for ten seconds.
const TOKEN_REVIEW_TIMEOUT: Duration = Duration::from_secs(5);

/// Why it is not known whose a token is, or what its user may do. It never has the token in it.
#[derive(Debug, thiserror::Error)]
pub enum TokenReviewError {
    /// The server could not be asked, or refused to tell.
    #[error("cannot create a {kind}: {source}{}", advice(source))]
    Request {
        /// The review.
        kind: &'static str,
        /// The error.
        source: RequestError,
    },
    /// The server's answer makes no sense.
    #[error("the API server's answer to a {kind} cannot be read: {source}")]
    Malformed {
        /// The review.
        kind: &'static str,
        /// The error.
        source: serde_json::Error,
    },
    /// The role cannot be named in a request.
    #[error("no request can be made: {0}")]
    Role(String),
}

fn advice(error: &RequestError) -> &'static str {
    match error.code() {
        Some(403) => ". Grant the host's account what `windlass rbac --admin-auth token` prints",
        _ => "",
    }
}

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

#[derive(Deserialize)]
struct Reviewed<T> {
    #[serde(default)]
    status: T,
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
pub async fn whose_token(
    client: &Client,
    role: &Principal,
    token: &str,
) -> Result<Option<TokenUser>, TokenReviewError> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let status: TokenStatus = ask(client, role, "TokenReview", TOKENS, &review).await?;
    Ok(status.authenticated.then_some(status.user))
}

/// Whether `user` may do `verb` at `path`, which is no resource of the API server: by `nonResourceURLs` of a `ClusterRole`. As for
/// the API server itself, the verb is the request's method in lower case.
/// Asked in the name of `role`, which needs the right to create `SubjectAccessReview`s.
///
/// If the cluster cannot evaluate all of its rules, those count that it could: no rule of RBAC denies.
pub async fn may_access(
    client: &Client,
    role: &Principal,
    user: &TokenUser,
    verb: &str,
    path: &str,
) -> Result<bool, TokenReviewError> {
    let mut spec = json!(user);
    spec["nonResourceAttributes"] = json!({"path": path, "verb": verb});
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
    let status: AccessStatus = ask(client, role, "SubjectAccessReview", ACCESS, &review).await?;
    Ok(status.allowed)
}

async fn ask<T: for<'de> Deserialize<'de> + Default>(
    client: &Client,
    role: &Principal,
    kind: &'static str,
    path: &str,
    review: &Value,
) -> Result<T, TokenReviewError> {
    let mutation = Mutation {
        method: Method::POST,
        uri: path.to_owned(),
        content_type: "application/json",
        body: Bytes::from(review.to_string()),
        headers: headers::of_principal(role).map_err(|error| TokenReviewError::Role(error.to_string()))?.into(),
    };
    let answer = request::mutate(client, mutation, TOKEN_REVIEW_TIMEOUT).await;
    let answer = answer.map_err(|source| TokenReviewError::Request { kind, source })?;
    let reviewed: Reviewed<T> =
        serde_json::from_str(&answer.text).map_err(|source| TokenReviewError::Malformed { kind, source })?;
    Ok(reviewed.status)
}
