//! The `PodSet` kind and the part of a Pod that counts here. The CRD is crd.json.

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
    /// How many Pods.
    pub(crate) replicas: usize,
    /// Which Pods count.
    pub(crate) selector: Selector,
    /// The Pods, without names. Nothing but its labels is read here.
    pub(crate) template: Value,
}

/// Which labels an object must have.
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
    /// The generation that the rest is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    /// How many Pods there are, without those that are going or have ended.
    pub(crate) replicas: usize,
    /// How many of them are ready.
    pub(crate) ready_replicas: usize,
    /// The state in detail: `Ready`.
    pub(crate) conditions: Vec<Condition>,
}

/// The part of a Pod that decides whether it counts, and which Pod goes first.
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
    /// In Kubernetes' form, in which times and their texts have the same order.
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
    /// The pointers of all that is read here.
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

    /// The reference to this very Pod, and to no later one with its name.
    pub(crate) fn target(&self) -> ObjectRef {
        let PodMetadata { name, namespace, uid, .. } = &self.metadata;
        ObjectRef::namespaced("v1", "Pod", namespace, name).with_uid(uid)
    }
}
