//! Requests of the command line, for the person who runs it: any path, and reviews of access. Neither changes anything.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{HeaderMap, HeaderValue, USER_AGENT};
use serde_json::{Value, json};

use super::connect::Connection;
use super::headers::HOST_AGENT;
use super::request::{self, Mutation, Query, RequestError};

/// The API group whose objects are all reviews: the server answers them and keeps none.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/";
/// How long the server may take for a review: some ask an authorizer elsewhere.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(15);

impl Connection {
    /// GETs `path` with `query` and these further headers, and reads the whole answer, of at most `bytes_max` bytes, within
    /// `timeout`.
    pub async fn get(
        &self,
        path: &str,
        query: &[(&str, &str)],
        mut headers: HeaderMap,
        bytes_max: usize,
        timeout: Duration,
    ) -> Result<String, RequestError> {
        let mut parameters = Query::default();
        query.iter().for_each(|(name, value)| parameters.add(name, value));
        headers.insert(USER_AGENT, HeaderValue::from_static(HOST_AGENT));
        request::get_as(&self.client, &parameters.onto(path), headers.into(), bytes_max, timeout).await
    }

    /// Creates a review of the API group `authorization.k8s.io`, such as a `SelfSubjectRulesReview`, and returns the
    /// server's answer. `headers` may name another user ([`of_user`](super::of_user)).
    pub async fn review(
        &self,
        kind: &str,
        resource: &str,
        spec: &Value,
        headers: HeaderMap,
    ) -> Result<String, RequestError> {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
        let mutation = Mutation {
            method: Method::POST,
            uri: format!("{REVIEWS}{resource}"),
            content_type: "application/json",
            body: Bytes::from(review.to_string()),
            headers: headers.into(),
        };
        Ok(request::mutate(&self.client, mutation, REVIEW_TIMEOUT).await?.text)
    }
}
