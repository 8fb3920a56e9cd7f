//! Asks the API server what the user of a kubeconfig may do: for people, who check the rights of a host. Nothing is
//! changed by it.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::rights::principal::ServiceAccount;
use windlass_kube::RequestError;
use windlass_kube::client::{self, Connection, HeaderError};

/// Why it is not known what a user may do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OwnReviewError {
    /// The server could not be asked, or refused to tell.
    #[error("cannot ask the API server what {user} may do: {source}")]
    Request {
        /// The user.
        user: String,
        /// The error.
        source: RequestError,
    },
    /// The server's answer makes no sense.
    #[error("the API server's answer to what {user} may do cannot be read: {source}")]
    Malformed {
        /// The user.
        user: String,
        /// The error.
        source: serde_json::Error,
    },
    /// The user cannot be named in a request.
    #[error("no request can be made: {0}")]
    User(#[from] HeaderError),
}

/// A rule that somebody has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HeldRule {
    /// The verbs; `*` for all.
    pub(crate) verbs: Vec<String>,
    /// API groups; `*` for all.
    pub(crate) api_groups: Vec<String>,
    /// Resources and subresources; `*` for all.
    pub(crate) resources: Vec<String>,
    /// The names of objects. Empty: all.
    pub(crate) resource_names: Vec<String>,
}

/// The rules that somebody has in a namespace, those of the cluster included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HeldRules {
    /// About resources, as far as the server can tell.
    pub(crate) resource_rules: Vec<HeldRule>,
    /// There may be more.
    pub(crate) incomplete: bool,
}

/// One request that somebody may or may not make.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AskedAccess<'a> {
    /// The namespace. None: all, or an object without one.
    pub(crate) namespace: Option<&'a str>,
    /// The API group.
    pub(crate) group: &'a str,
    /// The resource, with its subresource: `deployments/scale`.
    pub(crate) resource: &'a str,
    /// The object. None: any.
    pub(crate) name: Option<&'a str>,
    /// The verb.
    pub(crate) verb: &'a str,
}

#[derive(Deserialize)]
struct ReviewAnswer<T> {
    status: T,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AccessAnswer {
    allowed: bool,
}

/// Asks as the connection's user, or as another one that this user may impersonate.
pub(crate) struct OwnReviews {
    connection: Connection,
    /// None: the connection's own.
    user: Option<String>,
}

impl OwnReviews {
    /// Nothing is asked yet. `user` may be a service account, as `system:serviceaccount:prod:deployer`.
    #[must_use]
    pub(crate) fn new(connection: Connection, user: Option<String>) -> Self {
        Self { connection, user }
    }

    /// The rules that the user has in `namespace`.
    pub(crate) async fn rules(&self, namespace: &str) -> Result<HeldRules, OwnReviewError> {
        self.ask("SelfSubjectRulesReview", "selfsubjectrulesreviews", json!({"namespace": namespace})).await
    }

    /// Whether the user may do it.
    pub(crate) async fn may(&self, access: AskedAccess<'_>) -> Result<bool, OwnReviewError> {
        let AskedAccess { namespace, group, resource, name, verb } = access;
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes = json!({
            "namespace": namespace.unwrap_or_default(), "group": group, "resource": resource, "subresource": subresource,
            "name": name.unwrap_or_default(), "verb": verb,
        });
        let spec = json!({"resourceAttributes": attributes});
        let answer: AccessAnswer = self.ask("SelfSubjectAccessReview", "selfsubjectaccessreviews", spec).await?;
        Ok(answer.allowed)
    }

    async fn ask<T: for<'de> Deserialize<'de>>(
        &self,
        kind: &str,
        resource: &str,
        spec: Value,
    ) -> Result<T, OwnReviewError> {
        let user = || self.user.clone().unwrap_or_else(|| "the kubeconfig's user".to_owned());
        let headers = match &self.user {
            None => http::HeaderMap::new(),
            Some(name) => {
                let account = name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
                let account =
                    account.map(|(namespace, name)| ServiceAccount { namespace: namespace.into(), name: name.into() });
                client::of_user(name, account.as_ref())?
            }
        };
        let answer = self.connection.review(kind, resource, &spec, headers).await;
        let text = answer.map_err(|source| OwnReviewError::Request { user: user(), source })?;
        let answered: ReviewAnswer<T> =
            serde_json::from_str(&text).map_err(|source| OwnReviewError::Malformed { user: user(), source })?;
        Ok(answered.status)
    }
}
