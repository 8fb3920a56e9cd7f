//! The fields of the `WebApp` kind that the plugin reads and writes. The CRD is in examples/webapp/crd.yaml.

use serde::{Deserialize, Serialize};
use windlass_sdk::conditions::Condition;
use windlass_sdk::{Metadata, ObjectRef};

/// The group and version.
pub(crate) const API_VERSION: &str = "apps.kubedojo.io/v1beta1";
/// The kind.
pub(crate) const KIND: &str = "WebApp";

/// An application that answers HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct WebApp {
    /// Name, namespace, generation.
    pub(crate) metadata: Metadata,
    /// The desired state.
    pub(crate) spec: Spec,
    /// The observed state, as this plugin last wrote it.
    #[serde(default)]
    pub(crate) status: Status,
}

impl WebApp {
    /// The reference to the object of another kind with the same namespace and name.
    pub(crate) fn sibling(&self, api_version: &str, kind: &str) -> ObjectRef {
        self.metadata.sibling(api_version, kind)
    }

    /// Whether the spec is newer than the spec that the status is about.
    pub(crate) fn is_changed(&self) -> bool {
        self.status.observed_generation != self.metadata.generation
    }
}

/// The desired state. The defaults are the CRD's.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Spec {
    /// The container image.
    pub(crate) image: String,
    /// The desired number of Pods.
    #[serde(default = "two")]
    pub(crate) replicas: i64,
    /// The port that the container listens on.
    #[serde(default = "port_8080")]
    pub(crate) port: i64,
}

fn two() -> i64 {
    2
}

fn port_8080() -> i64 {
    8080
}

/// The observed state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    /// The generation that the other fields are about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    /// The number of ready Pods.
    pub(crate) ready_replicas: i64,
    /// The state in one word. `None` before the first reconcile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<Phase>,
    /// The state in detail: `Ready` and `Progressing`.
    pub(crate) conditions: Vec<Condition>,
}

/// The state in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Phase {
    /// The current spec has not been ready yet.
    Pending,
    /// All replicas of the current spec are ready.
    Running,
    /// The current spec was ready, and is not now.
    Degraded,
}
