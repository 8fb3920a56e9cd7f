//! Reviews: questions about tokens and rights that the API server answers as it creates them, and keeps none.
//!
//! A review is a POST and goes the way of all mutations, but it changes nothing.

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

/// How long the server may take for a review: some ask an authorizer elsewhere.
pub(crate) const REVIEW_TIMEOUT: Duration = Duration::from_secs(15);

/// Why there is no answer to a review. The text never has a token in it.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The server could not be asked, or did not answer.
    #[error("cannot create a {kind} to learn {question}: {source}{advice}")]
    Request {
        /// The kind of the review.
        kind: &'static str,
        /// The question, such as `whether prod/watcher may list pods`.
        question: String,
        /// The error.
        source: RequestError,
        /// Advice for the operator, as further sentences. May be empty.
        advice: &'static str,
    },
    /// The server's answer makes no sense.
    #[error("the API server's answer to a {kind} cannot be read, so it is unknown {question}: {source}")]
    Malformed {
        /// The kind of the review.
        kind: &'static str,
        /// The question.
        question: String,
        /// The error.
        source: serde_json::Error,
    },
    /// The server found nobody who allows it, but could not ask all who might.
    #[error("the API server cannot tell {question}: {message}")]
    Undecided {
        /// The question.
        question: String,
        /// The server's message.
        message: String,
    },
    /// No header can carry the name of the user or the role.
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
    /// The question as messages say it: `whether prod/watcher may list pods`.
    pub(crate) question: String,
    /// Advice for the operator if the server refuses to answer, as further sentences. May be empty.
    pub(crate) advice_if_refused: &'static str,
    pub(crate) timeout: Duration,
}

#[derive(Deserialize)]
struct Reviewed<T> {
    status: T,
}

/// The status that the server gives `review`. A status may be absent if `T` is an `Option`.
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
    /// Creates a review of access in the name of the connection's user, or of another that `headers` name
    /// ([`of_user`](super::of_user)). Returns the server's answer. `question` is for messages, such as `what alice may
    /// do`.
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
