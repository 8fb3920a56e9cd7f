//! The make-up of the built-in kinds, by field name.
//!
//! The facts are the `+listType`, `+mapType`, `+structType` and `+default` markers of `k8s.io/api`. A name means the
//! same wherever it occurs, with the exceptions that the tables make by naming the field around it. A list that is not
//! here is atomic; a map that is not here is a struct, merged field by field.

use super::ListKind;

/// Lists with an identity: the field around (`*` is any), the field, its keys. The first that fits holds.
/// No keys: a set.
const LISTS: &[(&str, &str, &[&str])] = &[
    // Any pod, wherever its spec stands.
    ("*", "containers", &["name"]),
    ("*", "initContainers", &["name"]),
    ("*", "ephemeralContainers", &["name"]),
    ("containers", "ports", &["containerPort", "protocol"]),
    ("initContainers", "ports", &["containerPort", "protocol"]),
    ("ephemeralContainers", "ports", &["containerPort", "protocol"]),
    ("*", "env", &["name"]),
    ("*", "volumeMounts", &["mountPath"]),
    ("*", "volumeDevices", &["devicePath"]),
    ("resources", "claims", &["name"]),
    ("spec", "volumes", &["name"]),
    ("spec", "imagePullSecrets", &["name"]),
    ("spec", "hostAliases", &["ip"]),
    ("spec", "topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("spec", "schedulingGates", &["name"]),
    ("spec", "resourceClaims", &["name"]),
    ("status", "podIPs", &["ip"]),
    ("status", "resourceClaimStatuses", &["name"]),
    // Metadata.
    ("metadata", "ownerReferences", &["uid"]),
    ("metadata", "finalizers", &[]),
    // Services, service accounts, nodes.
    ("spec", "ports", &["port", "protocol"]),
    ("", "secrets", &["name"]),
    ("spec", "podCIDRs", &[]),
    ("status", "addresses", &["type"]),
    ("spec", "drivers", &["name"]),
    // Admission.
    ("", "webhooks", &["name"]),
    ("*", "matchConditions", &["name"]),
    ("spec", "variables", &["name"]),
    // Jobs.
    ("onExitCodes", "values", &[]),
    ("uncountedTerminatedPods", "failed", &[]),
    ("uncountedTerminatedPods", "succeeded", &[]),
    // Everyone's conditions.
    ("status", "conditions", &["type"]),
    ("*", "x-kubernetes-validations", &["rule"]),
];

/// Maps that are one value: the field around (`*` is any) and the field.
const ATOMIC_MAPS: &[(&str, &str)] = &[
    // Label selectors, and selectors that are plain maps.
    ("*", "selector"),
    ("*", "podSelector"),
    ("*", "namespaceSelector"),
    ("*", "objectSelector"),
    ("*", "labelSelector"),
    ("*", "nodeSelector"),
    ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
    ("nodeAffinity", "required"),
    // References to something in one piece.
    ("metadata", "ownerReferences"),
    ("valueFrom", "secretKeyRef"),
    ("valueFrom", "configMapKeyRef"),
    ("valueFrom", "fieldRef"),
    ("valueFrom", "resourceFieldRef"),
    ("*", "secretRef"),
    ("*", "nodePublishSecretRef"),
    ("*", "nodeStageSecretRef"),
    ("*", "nodeExpandSecretRef"),
    ("*", "controllerPublishSecretRef"),
    ("*", "controllerExpandSecretRef"),
    ("*", "claimRef"),
    ("*", "targetRef"),
    ("*", "roleRef"),
    ("*", "involvedObject"),
    ("*", "regarding"),
    ("*", "related"),
    ("spec", "dataSource"),
    ("defaultBackend", "resource"),
    ("", "secrets"),
];

/// Maps whose keys are the user's, by name.
const FREE_KEYS: &[&str] = &[
    "labels",
    "annotations",
    "matchLabels",
    "data",
    "binaryData",
    "stringData",
    "limits",
    "requests",
    "overhead",
    "capacity",
    "allocatable",
    "allocatedResources",
    "allocatedResourceStatuses",
    "hard",
    "used",
    "parameters",
    "volumeAttributes",
    "disruptedPods",
    "properties",
    "matchLabelExpressions",
];

/// Structs that the Go types hold by value on the way from the object down, outside lists, and lists that they write
/// even when they are empty.
const ALWAYS_THERE: &[(&str, &str)] = &[
    ("", "metadata"),
    ("", "spec"),
    ("", "status"),
    ("spec", "template"),
    ("spec", "jobTemplate"),
    ("jobTemplate", "spec"),
    ("jobTemplate", "metadata"),
    ("spec", "containers"),
    ("spec", "names"),
    ("template", "spec"),
    ("template", "metadata"),
    ("spec", "strategy"),
    ("spec", "updateStrategy"),
    ("status", "loadBalancer"),
    ("status", "nodeInfo"),
    ("status", "daemonEndpoints"),
];

pub(super) fn list(parent: &str, name: &str) -> ListKind {
    match LISTS.iter().find(|(around, field, _)| *field == name && fits(around, parent)) {
        None => ListKind::Atomic,
        Some((_, _, [])) => ListKind::Set,
        Some((_, _, keys)) => ListKind::Map(keys.iter().map(|key| (*key).to_owned()).collect()),
    }
}

pub(super) fn is_atomic_map(parent: &str, name: &str) -> bool {
    ATOMIC_MAPS.iter().any(|(around, field)| *field == name && fits(around, parent))
}

pub(super) fn has_free_keys(name: &str) -> bool {
    FREE_KEYS.contains(&name)
}

pub(super) fn is_always_there(parent: &str, name: &str) -> bool {
    ALWAYS_THERE.contains(&(parent, name))
}

fn fits(around: &str, parent: &str) -> bool {
    around == "*" || around == parent
}
