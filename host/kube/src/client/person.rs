//! Requests of the command line for arbitrary paths, on behalf of its user. These requests change nothing.

use std::time::Duration;

use http::header::{HeaderMap, HeaderValue, USER_AGENT};

use super::connect::Connection;
use super::headers::HOST_AGENT;
use super::request::{self, Query, RequestError};

impl Connection {
    /// GETs `path` with `query` and additional headers, and reads the whole answer of at most `bytes_max` bytes within
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
        for (name, value) in query {
            parameters.add(name, value);
        }
        headers.insert(USER_AGENT, HeaderValue::from_static(HOST_AGENT));
        request::get_as(&self.client, &parameters.onto(path), headers.into(), bytes_max, timeout).await
    }
}
