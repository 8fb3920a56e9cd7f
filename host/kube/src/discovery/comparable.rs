//! Finds out from the server whether the versions of a resource can be compared as numbers (KEP-5504). A proof of
//! freshness needs this (ADR 11).
//!
//! Kubernetes guarantees this from 1.35 on, for built-in resources and for resources of CRDs. An aggregated API server
//! may use other versions. `discovery` asks once per group-version.

use kube::Client;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::OnceCell;
use windlass_core::object::ObjectKind;

use crate::client::ServerVersion;
use crate::client::request::{self, READ_TIMEOUT, RequestError};

/// The groups that only the API server itself can serve: it restores their `APIService` objects if they are changed.
/// Aggregated APIs that the Kubernetes project defines, such as `metrics.k8s.io`, are not among them.
const OWN_GROUPS: [&str; 23] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// The answers of one server. Without an answer, versions count as not comparable, which only costs additional lists.
#[derive(Debug, Default)]
pub(crate) struct Comparability {
    promised: OnceCell<bool>,
}

#[derive(Deserialize)]
struct ApiService {
    spec: ApiServiceSpec,
}

#[derive(Deserialize)]
struct ApiServiceSpec {
    /// The service that serves the group-version. `None` if the API server itself serves it.
    service: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct CrdDocument {
    spec: CrdSpec,
}

#[derive(Deserialize)]
struct CrdSpec {
    versions: Vec<CrdVersion>,
}

#[derive(Deserialize)]
struct CrdVersion {
    name: String,
    served: bool,
}

impl Comparability {
    /// Whether the resources in `kind`'s group-version, one of which is `plural`, have comparable versions. An error
    /// means that the server could not answer now.
    pub(crate) async fn of(&self, client: &Client, kind: &ObjectKind, plural: &str) -> Result<bool, RequestError> {
        Ok(self.is_promised(client).await? && is_own(client, kind, plural).await?)
    }

    async fn is_promised(&self, client: &Client) -> Result<bool, RequestError> {
        let ask = async || {
            let answer = unless_refused(request::get(client, "/version", READ_TIMEOUT).await)?;
            let version: Option<ServerVersion> = answer.and_then(|text| serde_json::from_str(&text).ok());
            Ok(version.is_some_and(|version| version.has_comparable_versions()))
        };
        self.promised.get_or_try_init(ask).await.copied()
    }
}

/// Whether the API server itself serves `kind`'s group-version.
pub(super) async fn is_own(client: &Client, kind: &ObjectKind, plural: &str) -> Result<bool, RequestError> {
    let (group, version) = (kind.group(), kind.version());
    let mut path = "/apis/apiregistration.k8s.io/v1/apiservices/".to_owned();
    request::encode(&mut path, &format!("{version}.{group}"));
    match request::get(client, &path, READ_TIMEOUT).await {
        Ok(text) => {
            let service: Result<ApiService, _> = serde_json::from_str(&text);
            return Ok(service.is_ok_and(|service| service.spec.service.is_none()));
        }
        // Every aggregated group-version has an `APIService`, so this one is not aggregated. A server without
        // aggregation answers 404 as well.
        Err(error) if error.code() == Some(404) => return Ok(true),
        Err(error) => unless_refused(Err(error))?,
    };
    if OWN_GROUPS.contains(&group) {
        return Ok(true);
    }
    let mut path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/".to_owned();
    request::encode(&mut path, &format!("{plural}.{group}"));
    let answer = unless_refused(request::get(client, &path, READ_TIMEOUT).await)?;
    let definition: Option<CrdDocument> = answer.and_then(|text| serde_json::from_str(&text).ok());
    let serves = |definition: CrdDocument| definition.spec.versions.iter().any(|it| it.served && it.name == version);
    Ok(definition.is_some_and(serves))
}

/// The text of the answer. `None` if the server refuses the request and will refuse it later too.
fn unless_refused(answer: Result<String, RequestError>) -> Result<Option<String>, RequestError> {
    match answer {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.code().is_some_and(|code| (400..500).contains(&code) && code != 429) => Ok(None),
        Err(error) => Err(error),
    }
}
