//! A request once its path, query and headers are read: the resource that it is for, and the options of writes and
//! deletes. `server` makes these, `verbs` act on them.

pub(crate) mod decode;
pub(crate) mod document;
pub(crate) mod media;
pub(crate) mod selector;

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http::header::USER_AGENT;
use serde_json::json;

use crate::authz::User;
use crate::cause::Cause;
use crate::resources::resource::ResourceType;
use crate::status_error::ApiError;
use crate::storage::ObjectKey;

/// The query, with the last value of a repeated key.
#[derive(Debug, Default)]
pub(crate) struct Query(pub(crate) Vec<(String, String)>);

impl Query {
    pub(crate) fn get(&self, key: &str) -> &str {
        self.0.iter().rev().find(|(name, _)| name == key).map_or("", |(_, value)| value)
    }

    /// The name that `fieldSelector` picks (`metadata.name=x`), or nothing.
    pub(crate) fn name_by_field_selector(&self) -> &str {
        let mut terms = self.get("fieldSelector").split(',');
        let named = terms.find_map(|term| term.trim().strip_prefix("metadata.name="));
        named.map(|name| name.trim_start_matches('=')).unwrap_or_default()
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        matches!(self.get(key), "true" | "1" | "True" | "TRUE" | "t")
    }

    /// The version that the client has or wants.
    pub(crate) fn resource_version(&self) -> Result<Option<u64>, ApiError> {
        self.number("resourceVersion").map_err(|_| {
            let text = self.get("resourceVersion");
            ApiError::bad_request(format!(
                "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing \
                 {text:?}: invalid syntax"
            ))
        })
    }

    /// A number, or none if the key is absent or empty.
    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, ApiError> {
        match self.get(key) {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| ApiError::bad_request(format!("invalid value for query parameter {key}: {text:?}"))),
        }
    }
}

/// The resource of a request, and where in it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) resource: Arc<ResourceType>,
    /// None is all namespaces, or a cluster-scoped resource.
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

impl Target {
    /// The place of the object called `name`.
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

/// How the server treats fields that the schema does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The options of create, update and patch.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) force: bool,
    /// As given; applying requires it.
    pub(crate) explicit_manager: Option<String>,
    /// The field manager, by default what the User-Agent begins with.
    pub(crate) manager: String,
    pub(crate) field_validation: FieldValidation,
    /// Whose rights limit the roles that it may grant.
    pub(crate) user: Arc<User>,
    /// The body, for what only its text tells.
    pub(crate) body: Bytes,
}

impl WriteOptions {
    /// The options of the server's own writes, as the component `manager` of a cluster would make them.
    pub(crate) fn of_component(manager: &str) -> WriteOptions {
        WriteOptions {
            dry_run: false,
            force: false,
            explicit_manager: None,
            manager: manager.to_owned(),
            field_validation: FieldValidation::Ignore,
            user: Arc::new(User::component(manager)),
            body: Bytes::new(),
        }
    }

    pub(crate) fn read(query: &Query, headers: &HeaderMap, user: &Arc<User>) -> Result<WriteOptions, ApiError> {
        let explicit = query.get("fieldManager");
        let agent = user_agent(headers);
        let default_manager = agent.split('/').next().unwrap_or_default();
        let manager = if explicit.is_empty() { default_manager } else { explicit };
        let field_validation = match query.get("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let cause = Cause::not_supported("fieldValidation", &json!(other), &["Ignore", "Strict", "Warn"]);
                return Err(ApiError::invalid_options("PatchOptions", &cause));
            }
        };
        Ok(WriteOptions {
            dry_run: dry_run(query)?,
            force: query.flag("force"),
            explicit_manager: (!explicit.is_empty()).then(|| explicit.to_owned()),
            manager: if manager.is_empty() { "unknown".to_owned() } else { manager.to_owned() },
            field_validation,
            user: Arc::clone(user),
            body: Bytes::new(),
        })
    }
}

/// Whether nothing is to be stored.
pub(crate) fn dry_run(query: &Query) -> Result<bool, ApiError> {
    match query.get("dryRun") {
        "" => Ok(false),
        "All" => Ok(true),
        other => {
            let cause = Cause::not_supported("dryRun", &json!(other), &["All"]);
            Err(ApiError::invalid_options("PatchOptions", &cause))
        }
    }
}

pub(crate) fn user_agent(headers: &HeaderMap) -> &str {
    headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
