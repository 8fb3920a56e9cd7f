//! Reviews: objects that ask about tokens and rights. The API server answers when it creates them, and stores none.
//!
//! A review is a POST and is sent like all mutations, but it changes nothing.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use kube::Client;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::connect::Connection;
use super::headers::HeaderError;
use super::request::{self, Mutation, RequestError};

/// The time that the server may take for a review; some servers ask a remote authorizer.
pub(crate) const REVIEW_TIMEOUT: Duration = Duration::from_secs(15);

/// The reason why a review has no answer. The text never contains a token.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The server could not be asked, or did not answer.
    #[error("cannot create a {kind} to learn {question}: {source}{advice}")]
    Request {
        /// The kind of the review.
        kind: &'static str,
        /// The question, such as `whether prod/watcher may list pods`.
        question: String,
        source: RequestError,
        /// Advice for the operator, as additional sentences. May be empty.
        advice: &'static str,
    },
    /// The server's answer cannot be parsed.
    #[error("the API server's answer to a {kind} cannot be read, so it is unknown {question}: {source}")]
    Malformed {
        /// The kind of the review.
        kind: &'static str,
        question: String,
        source: serde_json::Error,
    },
    /// No authorizer allowed the request, but not all of them could be asked.
    #[error("the API server cannot decide {question}: {message}")]
    Undecided { question: String, message: String },
    /// The name of the user or the role is not valid in a header.
    #[error("no request can be made: {0}")]
    Unnameable(String),
}

impl From<HeaderError> for ReviewError {
    fn from(error: HeaderError) -> Self {
        Self::Unnameable(error.to_string())
    }
}

/// A review to create.
pub(crate) struct Review {
    /// Such as `TokenReview`.
    pub(crate) kind: &'static str,
    pub(crate) spec: Value,
    /// The question in messages: `whether prod/watcher may list pods`.
    pub(crate) question: String,
    /// Advice for the operator if the server refuses to answer, as additional sentences. May be empty.
    pub(crate) advice_if_refused: &'static str,
    pub(crate) timeout: Duration,
}

#[derive(Deserialize)]
struct Reviewed<T> {
    status: T,
}

/// The status that the server returns for `review`. For an `Option`, the status may be missing.
pub(crate) async fn create<T: DeserializeOwned>(
    client: &Client,
    review: Review,
    headers: HeaderMap,
) -> Result<T, ReviewError> {
    let Review { kind, spec, question, advice_if_refused, timeout } = review;
    let group = if kind == "TokenReview" { "authentication.k8s.io/v1" } else { "authorization.k8s.io/v1" };
    let mutation = Mutation {
        method: Method::POST,
        uri: format!("/apis/{group}/{}s", kind.to_lowercase()),
        content_type: "application/json",
        body: Bytes::from(json!({"apiVersion": group, "kind": kind, "spec": spec}).to_string()),
        headers: headers.into(),
    };
    let answer = match request::mutate(client, mutation, timeout).await {
        Ok(answer) => answer,
        Err(source) => {
            let advice = if source.code() == Some(403) { advice_if_refused } else { "" };
            return Err(ReviewError::Request { kind, question, source, advice });
        }
    };
    match serde_json::from_str::<Reviewed<T>>(&answer.text) {
        Ok(reviewed) => Ok(reviewed.status),
        Err(source) => Err(ReviewError::Malformed { kind, question, source }),
    }
}

impl Connection {
    /// Creates an access review, in the name of the connection's user or of the user in `headers`
    /// ([`of_user`](super::of_user)). Returns the server's answer. `question` is used in messages, such as `what alice
    /// may do`.
    pub async fn review<T: DeserializeOwned>(
        &self,
        kind: &'static str,
        spec: Value,
        question: String,
        headers: HeaderMap,
    ) -> Result<T, ReviewError> {
        let review = Review { kind, spec, question, advice_if_refused: "", timeout: REVIEW_TIMEOUT };
        create(&self.client, review, headers).await
    }
}
