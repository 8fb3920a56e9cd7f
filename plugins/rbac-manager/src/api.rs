//! The fields of an `RBACDefinition` and of the objects around it that the plugin reads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_sdk::LabelSelector;

/// The group and version of the definitions.
pub(crate) const API_VERSION: &str = "rbacmanager.reactiveops.io/v1beta1";
/// The kind of the definitions.
pub(crate) const KIND: &str = "RBACDefinition";
/// The group of roles and bindings.
pub(crate) const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
/// The group and version of roles and bindings.
pub(crate) const RBAC_VERSION: &str = "rbac.authorization.k8s.io/v1";
/// The label of all objects that come from a definition, and its value.
pub(crate) const LABEL: (&str, &str) = ("rbac-manager", "reactiveops");
/// The annotation of a service account with the image pull secrets that come from a definition.
pub(crate) const PULL_SECRETS: &str = "rbacmanager.reactiveops.io/managed-pull-secrets";

/// Subjects with their roles. Unlike most kinds, it has no `spec`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Definition {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) rbac_bindings: Vec<BindingSpec>,
}

/// Some subjects, and the roles that they have.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BindingSpec {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) subjects: Vec<SubjectSpec>,
    #[serde(default)]
    pub(crate) cluster_role_bindings: Vec<ClusterRoleBindingSpec>,
    #[serde(default)]
    pub(crate) role_bindings: Vec<RoleBindingSpec>,
}

/// A subject. The last two fields are for service accounts.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubjectSpec {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    #[serde(default)]
    pub(crate) image_pull_secrets: Vec<String>,
    pub(crate) automount_service_account_token: Option<bool>,
}

/// A role in the whole cluster.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterRoleBindingSpec {
    pub(crate) cluster_role: String,
}

/// A role in one namespace, or in those that a selector matches.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RoleBindingSpec {
    pub(crate) cluster_role: Option<String>,
    pub(crate) role: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) namespace_selector: Option<LabelSelector>,
}

/// The metadata that the plugin reads.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ObjectMeta {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) deletion_timestamp: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) owner_references: Vec<Value>,
}

impl ObjectMeta {
    /// Whether the object is being deleted.
    pub(crate) fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whether the object with this UID owns this one.
    pub(crate) fn is_owned_by(&self, uid: &str) -> bool {
        self.owner_references.iter().any(|owner| owner["uid"] == uid)
    }

    /// Whether the object comes from a definition.
    pub(crate) fn has_label(&self) -> bool {
        self.labels.get(LABEL.0).is_some_and(|value| value == LABEL.1)
    }
}

/// An object of which only the metadata matters.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct MetadataOnly {
    pub(crate) metadata: ObjectMeta,
}

/// A subject of a binding, without the fields that follow from its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub(crate) struct Subject {
    pub(crate) kind: String,
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
}

impl Subject {
    /// The subject as a binding has it.
    pub(crate) fn in_binding(&self) -> Value {
        let mut subject = json!(self);
        if self.kind != "ServiceAccount" {
            subject["apiGroup"] = json!(RBAC_GROUP);
        }
        subject
    }
}

/// The role of a binding.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Role {
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// A role binding or a cluster role binding.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Binding {
    pub(crate) metadata: ObjectMeta,
    pub(crate) role_ref: Role,
    #[serde(default)]
    pub(crate) subjects: Vec<Subject>,
}

/// A service account.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceAccount {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) image_pull_secrets: Vec<Value>,
    pub(crate) automount_service_account_token: Option<bool>,
}
