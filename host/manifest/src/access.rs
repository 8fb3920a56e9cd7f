//! The access that a controller implies by watching and owning kinds of objects. Manifests name kinds and grants name
//! resources in the plural. Only discovery knows which kind belongs to which resource.

use windlass_core::object::ObjectKind;

use super::{Controller, Watch};

const READ: &[&str] = &["get", "list", "watch"];
const OWN: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];
const STATUS: &[&str] = &["get", "update", "patch"];

/// An access to objects of one kind that a controller implies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImpliedAccess {
    /// The verb that joins controller and kind in a message, such as "owns".
    pub does: &'static str,
    pub kind: ObjectKind,
    /// The subresource of the kind. `None` means the objects themselves.
    pub subresource: Option<&'static str>,
    pub verbs: Vec<&'static str>,
    /// Empty means all namespaces, and cluster-scoped objects.
    pub namespaces: Vec<String>,
    /// Where the configuration names the kind. `None` if the manifest does.
    pub named_at: Option<String>,
}

impl Controller {
    /// The access that the watches imply: reading watched objects, reading and writing owned objects, and writing the
    /// status of primaries unless the options say `status: false` or the configuration names their kind. Watches whose
    /// kinds are not filled in imply none, and neither does a timer.
    #[must_use]
    pub fn implied_access(&self) -> Vec<ImpliedAccess> {
        let reading = |does: &'static str, watch: &Watch| {
            let changes = watch.verbs.iter().map(|verb| verb.as_str());
            access(does, watch, None, &READ.iter().copied().chain(changes).collect::<Vec<_>>())
        };
        let is_timer = self.primary.timer.is_some();
        let primary = Some(reading("reconciles", &self.primary)).filter(|_| !is_timer);
        let status = access("writes the status of", &self.primary, Some("status"), STATUS);
        // The plugin knows only the metadata of objects whose kinds an operator names.
        let may_have = self.options.status && self.primary.kinds_from.is_none() && !is_timer;
        let status = Some(status).filter(|status| may_have && !has_no_status(&status.kind));
        let owned = self.owns.iter().map(|watch| access("owns", watch, None, OWN));
        let watched = self.watches.iter().map(|watch| reading("watches", watch));
        let all = primary.into_iter().chain(status).chain(owned).chain(watched);
        all.filter(|access| !access.kind.kind.is_empty()).collect()
    }
}

/// Built-in kinds without a status, as group and kind. A policy that grants writes of their status would confuse its
/// reviewers.
const WITHOUT_STATUS: &[(&str, &str)] = &[
    ("", "ConfigMap"),
    ("", "Endpoints"),
    ("", "Event"),
    ("", "LimitRange"),
    ("", "PodTemplate"),
    ("", "Secret"),
    ("", "ServiceAccount"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("apps", "ControllerRevision"),
    ("coordination.k8s.io", "Lease"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("events.k8s.io", "Event"),
    ("networking.k8s.io", "IngressClass"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("node.k8s.io", "RuntimeClass"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "StorageClass"),
];

fn has_no_status(kind: &ObjectKind) -> bool {
    WITHOUT_STATUS.contains(&(kind.group(), &*kind.kind))
}

fn access(
    does: &'static str,
    watch: &Watch,
    subresource: Option<&'static str>,
    verbs: &[&'static str],
) -> ImpliedAccess {
    ImpliedAccess {
        does,
        kind: watch.object_kind(),
        subresource,
        verbs: verbs.to_vec(),
        namespaces: watch.namespaces.clone(),
        named_at: watch.kinds_from.clone(),
    }
}
