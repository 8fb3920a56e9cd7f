//! Asks the API server what the user of a kubeconfig may do, for operators who check the rights of a host. Changes
//! nothing.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_core::rights::principal::ServiceAccount;
use windlass_kube::ReviewError;
use windlass_kube::client::{Connection, of_user};

/// A rule that a user has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HeldRule {
    /// The verbs; `*` for all.
    pub(crate) verbs: Vec<String>,
    /// API groups; `*` for all.
    pub(crate) api_groups: Vec<String>,
    /// Resources and subresources; `*` for all.
    pub(crate) resources: Vec<String>,
    /// The names of objects. Empty for all.
    pub(crate) resource_names: Vec<String>,
}

/// The rules that a user has in a namespace, including cluster-wide ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HeldRules {
    /// The rules about resources, as far as the server knows.
    pub(crate) resource_rules: Vec<HeldRule>,
    /// True if there may be more rules.
    pub(crate) incomplete: bool,
}

/// A request that a user may or may not be allowed to make.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AskedAccess<'a> {
    /// The namespace. `None` for all, or for a cluster-scoped object.
    pub(crate) namespace: Option<&'a str>,
    /// The API group.
    pub(crate) group: &'a str,
    /// The resource, with its subresource: `deployments/scale`.
    pub(crate) resource: &'a str,
    /// The name of the object. `None` for any.
    pub(crate) name: Option<&'a str>,
    /// The verb.
    pub(crate) verb: &'a str,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AccessAnswer {
    allowed: bool,
}

/// Asks about the connection's user, or about another one whom this user may impersonate.
pub(crate) struct OwnReviews {
    connection: Connection,
    /// `None` for the connection's own user.
    user: Option<String>,
}

impl OwnReviews {
    /// Prepares reviews about `user`, without sending a request yet. The user may be a service account, such as
    /// `system:serviceaccount:prod:deployer`.
    #[must_use]
    pub(crate) fn new(connection: Connection, user: Option<String>) -> Self {
        Self { connection, user }
    }

    /// The rules that the user has in `namespace`.
    pub(crate) async fn rules(&self, namespace: &str) -> Result<HeldRules, ReviewError> {
        self.ask("SelfSubjectRulesReview", json!({"namespace": namespace})).await
    }

    /// Whether the user has this access.
    pub(crate) async fn may(&self, access: AskedAccess<'_>) -> Result<bool, ReviewError> {
        let AskedAccess { namespace, group, resource, name, verb } = access;
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes = json!({
            "namespace": namespace.unwrap_or_default(), "group": group, "resource": resource, "subresource": subresource,
            "name": name.unwrap_or_default(), "verb": verb,
        });
        let spec = json!({"resourceAttributes": attributes});
        let answer: AccessAnswer = self.ask("SelfSubjectAccessReview", spec).await?;
        Ok(answer.allowed)
    }

    async fn ask<T: DeserializeOwned>(&self, kind: &'static str, spec: Value) -> Result<T, ReviewError> {
        let headers = match &self.user {
            None => http::HeaderMap::new(),
            Some(name) => {
                let account = name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
                let account =
                    account.map(|(namespace, name)| ServiceAccount { namespace: namespace.into(), name: name.into() });
                of_user(name, account.as_ref())?
            }
        };
        let question = format!("what {} may do", self.user.as_deref().unwrap_or("the kubeconfig's user"));
        self.connection.review(kind, spec, question, headers).await
    }
}
