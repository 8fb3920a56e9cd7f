//! The `WebApp` kind. The CRD is in examples/webapp/crd.yaml.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

pub(crate) const API_VERSION: &str = "apps.kubedojo.io/v1beta1";

/// The desired state.
#[derive(CustomResource, Debug, Clone, Serialize, Deserialize)]
#[kube(group = "apps.kubedojo.io", version = "v1beta1", kind = "WebApp", namespaced)]
#[kube(status = "WebAppStatus", schema = "disabled")]
pub(crate) struct WebAppSpec {
    pub(crate) image: String,
    pub(crate) replicas: i32,
    pub(crate) port: i32,
}

/// The observed state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WebAppStatus {
    pub(crate) observed_generation: Option<i64>,
    pub(crate) ready_replicas: i32,
    pub(crate) phase: String,
    pub(crate) conditions: Vec<Condition>,
}
