//! Reads, writes and watches the Leases by which replicas divide the plugins among them (ADR 12). `core::lease` decides
//! what to write and when; the code that runs an election calls this module.
//!
//! Every write is locked by `resourceVersion` to exactly the state that was read, or creates the lease, so two replicas
//! never both succeed. Labels and annotations that other clients have set on a lease are kept.

mod notes;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::life::lease::{ElectionAnswer, FoundLease, LeaseRecord, LeaseVersion};
use windlass_core::object::ObjectKind;
use windlass_core::object::compact::Version;
use windlass_core::object::progress::Stamp;
use windlass_core::object::selector::{ParsedSelector, Selector, SelectorError};
use windlass_core::rights::principal::{Principal, Role};

use crate::client::headers;
use crate::client::request::{self, MUTATION_ANSWER_BYTES_MAX, Mutation, Query, RequestError, SERVER_TIMEOUT_QUERY};
use crate::client::restores::Restores;
use crate::events::{micro_time, timestamp};

/// The label with the installation that a lease belongs to.
const INSTANCE_LABEL: &str = "windlass.dev/instance";
/// The label with the purpose of a lease: [`LeaseKind`].
const KIND_LABEL: &str = "windlass.dev/lease";
/// The annotation of a member's lease with the plugins that the member can serve.
const SERVES: &str = "windlass.dev/serves";
const JSON: &str = "application/json";

pub use self::notes::Notes;

/// The purpose of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseKind {
    /// Shows that a replica is alive.
    Member,
    /// The holder of the lease runs plugins.
    Plugins,
    /// The lease has no holder. Its annotations list the plugin files that were rolled back.
    Rejected,
    /// The lease has no holder. Its annotations have the last due times of plugins' timers.
    Timers,
}

impl LeaseKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Plugins => "plugins",
            Self::Rejected => "rejected",
            Self::Timers => "timers",
        }
    }
}

/// The reason why a lease could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The server did not answer, or refused.
    #[error("cannot {verb} the lease {namespace}/{name}: {source}")]
    Request { verb: &'static str, namespace: Arc<str>, name: String, source: RequestError },
    /// The server's answer is not a Lease.
    #[error("the API server's answer about the lease {namespace}/{name} cannot be read: {source}")]
    Malformed { namespace: Arc<str>, name: String, source: serde_json::Error },
    /// The name of the role, the replica or the instance is not valid in a request.
    #[error("no request can be made: {0}")]
    Unnameable(String),
}

/// The leases of one installation. Clones share everything.
#[derive(Clone)]
pub struct Leases {
    client: Client,
    /// The host in its role in elections.
    role: Arc<Principal>,
    headers: HeaderMap,
    namespace: Arc<str>,
    instance: Arc<str>,
    /// Selects the leases of the instance.
    selector: ParsedSelector<Selector>,
    /// Receives the `resourceVersion` after each write.
    restores: Restores,
}

#[derive(Deserialize)]
struct Lease {
    metadata: Value,
    #[serde(default)]
    spec: LeaseSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeaseSpec {
    holder_identity: Option<Arc<str>>,
    lease_duration_seconds: Option<u32>,
    lease_transitions: Option<u32>,
    acquire_time: Option<Arc<str>>,
}

/// Parses the name and the state of a lease.
fn read(text: &str) -> Result<(LeaseVersion, LeaseRecord), serde_json::Error> {
    let Lease { mut metadata, spec } = serde_json::from_str(text)?;
    if let Some(metadata) = metadata.as_object_mut() {
        // A cache does not keep `managedFields`, so they must not distinguish two states.
        metadata.remove("managedFields");
    }
    let record = LeaseRecord {
        holder: spec.holder_identity.unwrap_or_default(),
        duration: Duration::from_secs(spec.lease_duration_seconds.unwrap_or(1).into()),
        transitions: spec.lease_transitions.unwrap_or_default(),
        acquired: spec.acquire_time,
    };
    // All of the metadata, so that a write can keep the fields that other clients have set.
    Ok((metadata.to_string().into(), record))
}

/// The `resourceVersion` in the metadata of a lease.
fn resource_version(metadata: &LeaseVersion) -> Version {
    let metadata: Value = serde_json::from_str(metadata).unwrap_or_default();
    metadata["resourceVersion"].as_str().unwrap_or_default().into()
}

impl Leases {
    /// The leases of `instance` in `namespace`, read and written in the name of this `replica`.
    pub fn new(
        client: Client,
        role: Principal,
        namespace: impl Into<Arc<str>>,
        instance: impl Into<Arc<str>>,
    ) -> Result<Self, LeaseError> {
        debug_assert_eq!(role.role, Role::Lease);
        let headers = headers::of_principal(&role).map_err(|error| LeaseError::Unnameable(error.to_string()))?;
        let (role, namespace, instance) = (Arc::new(role), namespace.into(), instance.into());
        let selector = format!("{INSTANCE_LABEL}={instance}").parse();
        let selector = selector.map_err(|error: SelectorError| LeaseError::Unnameable(error.to_string()))?;
        Ok(Self { client, role, headers, namespace, instance, selector, restores: Restores::default() })
    }

    /// Reports to `restores` what writes reveal about the server.
    #[must_use]
    pub fn reporting_to(self, restores: &Restores) -> Self {
        Self { restores: restores.clone(), ..self }
    }

    /// The watch specification for all these leases.
    #[must_use]
    pub fn watch(&self) -> WatchSpec {
        let kind = ObjectKind::new("coordination.k8s.io/v1", "Lease");
        WatchSpec {
            namespace: Some(self.namespace.clone()),
            label_selector: Some(self.selector.clone()),
            ..WatchSpec::all(kind)
        }
    }

    /// The state in an event of a watch. `None` if it is not a valid lease, which counts as no lease.
    #[must_use]
    pub fn watched(text: &str) -> FoundLease {
        read(text).ok()
    }

    #[must_use]
    pub fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    /// Reads the current lease.
    pub async fn get(&self, name: &str, limit: Duration) -> Result<ElectionAnswer, LeaseError> {
        let (path, headers) = (self.path(Some(name)), self.headers.clone().into());
        match request::get_as(&self.client, &path, headers, MUTATION_ANSWER_BYTES_MAX, limit).await {
            Ok(text) => Ok(ElectionAnswer::Found(Some(self.read(name, &text)?))),
            Err(error) if error.code() == Some(404) => Ok(ElectionAnswer::Found(None)),
            Err(source) => Err(self.failed("get", name, source)),
        }
    }

    /// Writes `record` over the state `over`, or creates the lease. `serves` is the value of the member's annotation.
    pub async fn write(
        &self,
        name: &str,
        kind: LeaseKind,
        over: Option<&LeaseVersion>,
        record: &LeaseRecord,
        serves: Option<&str>,
        limit: Duration,
    ) -> Result<ElectionAnswer, LeaseError> {
        let (verb, method, path) = match over {
            Some(_) => ("update", Method::PUT, self.path(Some(name))),
            None => ("create", Method::POST, self.path(None)),
        };
        let mut document = self.document(name, kind, over, record);
        if kind == LeaseKind::Member {
            notes::put(&mut document["metadata"], SERVES, serves);
        }
        let (body, began) = (document.to_string(), Stamp::take());
        match self.send(verb, method, &path, name, body, limit).await {
            Ok(text) => {
                let (version, LeaseRecord { acquired, .. }) = self.read(name, &text)?;
                // Each write changes the lease's `renewTime`, so each has its own revision.
                self.restores.wrote_lease(name, began, &resource_version(&version));
                Ok(ElectionAnswer::Written { version, acquired })
            }
            // The lease was changed, created or deleted by another client.
            Err(error) if matches!(error.code(), Some(409 | 404)) && !is_namespace_missing(&error) => {
                Ok(ElectionAnswer::Conflict)
            }
            Err(source) => Err(self.failed(verb, name, source)),
        }
    }

    /// Deletes the lease if it is in the state `over`.
    pub async fn delete(&self, name: &str, over: &LeaseVersion, limit: Duration) -> Result<ElectionAnswer, LeaseError> {
        let metadata: Value = serde_json::from_str(over).unwrap_or_default();
        let preconditions = json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]});
        let body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}).to_string();
        match self.send("delete", Method::DELETE, &self.path(Some(name)), name, body, limit).await {
            Ok(_) => Ok(ElectionAnswer::Found(None)),
            Err(error) if error.code() == Some(404) => Ok(ElectionAnswer::Found(None)),
            Err(error) if error.code() == Some(409) => Ok(ElectionAnswer::Conflict),
            Err(source) => Err(self.failed("delete", name, source)),
        }
    }

    fn document(&self, name: &str, kind: LeaseKind, over: Option<&LeaseVersion>, record: &LeaseRecord) -> Value {
        let now = micro_time(timestamp());
        let mut metadata: Value = over.and_then(|over| serde_json::from_str(over).ok()).unwrap_or_else(|| json!({}));
        metadata["name"] = name.into();
        metadata["namespace"] = (*self.namespace).into();
        metadata["labels"][INSTANCE_LABEL] = (*self.instance).into();
        metadata["labels"][KIND_LABEL] = kind.as_str().into();
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": {
                "holderIdentity": &*record.holder,
                "leaseDurationSeconds": record.duration.as_secs(),
                "leaseTransitions": record.transitions,
                "acquireTime": record.acquired.as_deref().unwrap_or(&now),
                "renewTime": now,
            },
        })
    }

    async fn send(
        &self,
        verb: &'static str,
        method: Method,
        path: &str,
        name: &str,
        body: String,
        limit: Duration,
    ) -> Result<String, RequestError> {
        let mut query = Query::default();
        if method != Method::DELETE {
            query.add("fieldManager", &self.role.field_manager());
        }
        query.add("timeout", SERVER_TIMEOUT_QUERY);
        let (uri, headers) = (query.onto(path), self.headers.clone().into());
        let mut mutation = Mutation { method, uri, content_type: JSON, body: Bytes::from(body), headers };
        mutation.end_within(limit);
        let began = Instant::now();
        let result = request::mutate(&self.client, mutation, limit).await;
        // At trace level, because there are two per second for each lease.
        tracing::trace!(
            target: "windlass::audit",
            role = "lease", replica = %self.role.replica, verb, object = %format_args!("{}/{name}", self.namespace),
            code = result.as_ref().map_or_else(RequestError::code, |answer| Some(answer.code)),
            took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            "mutation"
        );
        result.map(|answer| answer.text)
    }

    fn path(&self, name: Option<&str>) -> String {
        let mut path = String::from("/apis/coordination.k8s.io/v1/namespaces/");
        request::encode(&mut path, &self.namespace);
        path.push_str("/leases");
        if let Some(name) = name {
            path.push('/');
            request::encode(&mut path, name);
        }
        path
    }

    fn read(&self, name: &str, text: &str) -> Result<(LeaseVersion, LeaseRecord), LeaseError> {
        let (namespace, name) = (&self.namespace, name.to_owned());
        read(text).map_err(|source| LeaseError::Malformed { namespace: namespace.clone(), name, source })
    }

    fn failed(&self, verb: &'static str, name: &str, source: RequestError) -> LeaseError {
        LeaseError::Request { verb, namespace: self.namespace.clone(), name: name.to_owned(), source }
    }
}

/// A create also returns 404 if the namespace does not exist. Reading the lease again would not reveal that.
fn is_namespace_missing(error: &RequestError) -> bool {
    let RequestError::Refused { status, .. } = error else { return false };
    status.code == 404 && status.details.as_ref().is_some_and(|details| details.kind == "namespaces")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_distinguished_from_other_states_by_its_cached_header() {
        let text = |fields: &str, version: u32| {
            format!(
                r#"{{"metadata":{{"resourceVersion":"{version}","name":"a"{fields}}},"spec":{{"holderIdentity":"x",
                "leaseDurationSeconds":15,"leaseTransitions":2,"acquireTime":"2026-01-01T00:00:00.000000Z"}}}}"#
            )
        };
        let (first, record) = read(&text("", 1)).expect("a lease");
        let (same, _) = read(&text(r#","managedFields":[{"manager":"m"}]"#, 1)).expect("a lease");
        let (next, _) = read(&text("", 2)).expect("a lease");
        assert!(first == same && first != next);
        assert_eq!((&*record.holder, record.duration, record.transitions), ("x", Duration::from_secs(15), 2));
    }

    #[test]
    fn a_lease_without_a_holder_is_free() {
        let (_, record) = read(r#"{"metadata":{"name":"a"}}"#).expect("a lease");
        assert!(record.holder.is_empty());
    }
}
