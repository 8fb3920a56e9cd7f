//! The `PodSet` kind, and the part of a Pod that the plugin reads. The CRD is crd.json.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_sdk::conditions::Condition;
use windlass_sdk::{Object, ObjectRef};

/// The group and version.
pub(crate) const API_VERSION: &str = "examples.windlass.dev/v1";
/// The kind.
pub(crate) const KIND: &str = "PodSet";

/// A number of identical Pods.
pub(crate) type PodSet = Object<Spec, Status>;

/// The desired state.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Spec {
    /// The desired number of Pods.
    pub(crate) replicas: usize,
    /// Selects the Pods that count.
    pub(crate) selector: Selector,
    /// The template of the Pods, without a name. The plugin reads only its labels.
    pub(crate) template: Value,
}

/// The labels that an object must have.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Selector {
    /// Labels, each with its value.
    pub(crate) match_labels: serde_json::Map<String, Value>,
    pub(crate) match_expressions: Vec<Expression>,
}

/// A condition on one label.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Expression {
    pub(crate) key: String,
    pub(crate) operator: Operator,
    #[serde(default)]
    pub(crate) values: Vec<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// The observed state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    /// The generation that the other fields are about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    /// The number of Pods, without those that are being deleted or have ended.
    pub(crate) replicas: usize,
    /// The number of ready Pods.
    pub(crate) ready_replicas: usize,
    /// The state in detail: `Ready`.
    pub(crate) conditions: Vec<Condition>,
}

/// The part of a Pod that decides whether it counts, and which Pod is deleted first.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Pod {
    pub(crate) metadata: PodMetadata,
    #[serde(default)]
    pub(crate) status: PodStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodMetadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    /// The time in Kubernetes' form. Sorting the texts sorts the times.
    pub(crate) creation_timestamp: String,
    pub(crate) deletion_timestamp: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodStatus {
    pub(crate) phase: String,
    pub(crate) conditions: Vec<Value>,
}

impl Pod {
    /// The pointers of all fields that the plugin reads.
    pub(crate) const FIELDS: [&str; 4] =
        ["/metadata/creationTimestamp", "/metadata/deletionTimestamp", "/status/phase", "/status/conditions"];

    /// Whether the Pod counts: it is neither being deleted nor ended.
    pub(crate) fn is_active(&self) -> bool {
        self.metadata.deletion_timestamp.is_none() && !matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether the Pod reports that it is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
    }

    /// The reference to this Pod. It does not match a later Pod of the same name.
    pub(crate) fn target(&self) -> ObjectRef {
        let PodMetadata { name, namespace, uid, .. } = &self.metadata;
        ObjectRef::namespaced("v1", "Pod", namespace, name).with_uid(uid)
    }
}
