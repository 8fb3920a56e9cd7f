//! The parsed parts of a request: its target, and the options of writes and deletes. `server` parses them from the
//! path, the query and the headers, and `verbs` uses them.

mod continuation;
pub(crate) mod decode;
pub(crate) mod delete_options;
pub(crate) mod document;
pub(crate) mod list_options;
pub(crate) mod media;
pub(crate) mod selector;
mod write_options;
pub(crate) mod yaml;

pub(crate) use continuation::Continuation;
use write_options::dry_run_cause;
pub(crate) use write_options::{FieldValidation, WriteKind, WriteOptions};

use std::sync::Arc;

use axum::extract::Query as UrlQuery;
use http::header::USER_AGENT;
use http::{HeaderMap, Uri};
use serde_json::Value;

use crate::cause::Cause;
use crate::object::go;
use crate::resources::resource::ResourceType;
use crate::status_error::ApiError;
use crate::storage::ObjectKey;

/// The query of a request. If a key is repeated, its first value counts.
#[derive(Debug, Default)]
pub(crate) struct Query(pub(crate) Vec<(String, String)>);

impl Query {
    pub(crate) fn of(uri: &Uri) -> Result<Query, ApiError> {
        // Like Go, this ignores parts with a semicolon, which was once a separator.
        let given = uri.query().unwrap_or_default().split('&');
        let kept: Vec<&str> = given.filter(|pair| !pair.contains(';')).collect();
        let malformed = |error: &dyn std::fmt::Display| ApiError::bad_request(format!("malformed query: {error}"));
        let plain = Uri::try_from(format!("/?{}", kept.join("&"))).map_err(|error| malformed(&error))?;
        let UrlQuery(pairs) = UrlQuery::try_from_uri(&plain).map_err(|error| malformed(&error))?;
        Ok(Query(pairs))
    }

    pub(crate) fn get(&self, key: &str) -> &str {
        self.0.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value)
    }

    /// The name that `fieldSelector` selects by `metadata.name=x`. Empty if it does not select one.
    pub(crate) fn name_by_field_selector(&self) -> String {
        selector::required_name(self.get("fieldSelector")).unwrap_or_default()
    }

    /// Whether the key is present, even without a value.
    pub(crate) fn given(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }

    /// All values of a repeated key.
    pub(crate) fn all(&self, key: &str) -> Vec<String> {
        self.0.iter().filter(|(name, _)| name == key).map(|(_, value)| value.clone()).collect()
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        // Parses a flag like Go's API machinery. The first value counts.
        let given = self.0.iter().find(|(name, _)| name == key);
        given.is_some_and(|(_, value)| !matches!(value.to_lowercase().as_str(), "false" | "0"))
    }

    /// The resource version that the client has or wants. If it is invalid, each verb reports this in its own way.
    pub(crate) fn resource_version(&self) -> Result<Option<u64>, Cause> {
        match self.get("resourceVersion") {
            "" => Ok(None),
            text => go::parse_uint(text)
                .map(Some)
                .map_err(|error| Cause::invalid("resourceVersion", &Value::from(text), &error.to_string())),
        }
    }

    /// The value of `key` as a number. `None` if the key is missing.
    pub(crate) fn number(&self, key: &str) -> Result<Option<i64>, ApiError> {
        if !self.given(key) {
            return Ok(None);
        }
        go::parse_int(self.get(key)).map(Some).map_err(|error| ApiError::bad_request(error.to_string()))
    }
}

/// The resource of a request, with the namespace and name.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) resource: Arc<ResourceType>,
    /// `None` for all namespaces, or for a cluster-scoped resource.
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

impl Target {
    /// The key of the object with this name.
    pub(crate) fn key(&self, name: &str) -> ObjectKey {
        ObjectKey {
            resource: self.resource.storage.clone(),
            namespace: self.namespace.clone().unwrap_or_default(),
            name: name.to_owned(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn subresource(&self) -> &str {
        self.subresource.as_deref().unwrap_or_default()
    }
}

pub(crate) fn user_agent(headers: &HeaderMap) -> &str {
    headers.get(USER_AGENT).and_then(|value| std::str::from_utf8(value.as_bytes()).ok()).unwrap_or_default()
}
