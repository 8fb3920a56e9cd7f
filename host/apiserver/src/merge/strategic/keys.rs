//! How strategic merge patches treat the lists of the built-in kinds.
//!
//! The facts are the `patchStrategy` and `patchMergeKey` tags of `k8s.io/api`. A list that is not here is replaced.

/// Lists that are merged: the field around (`*` is any), the field, and the key of its items; no key for lists of
/// scalars. The first that fits holds.
const MERGED: &[(&str, &str, &str)] = &[
    ("*", "containers", "name"),
    ("*", "initContainers", "name"),
    ("*", "ephemeralContainers", "name"),
    ("containers", "ports", "containerPort"),
    ("initContainers", "ports", "containerPort"),
    ("ephemeralContainers", "ports", "containerPort"),
    ("*", "env", "name"),
    ("*", "volumeMounts", "mountPath"),
    ("*", "volumeDevices", "devicePath"),
    ("spec", "volumes", "name"),
    ("spec", "imagePullSecrets", "name"),
    ("spec", "hostAliases", "ip"),
    ("spec", "topologySpreadConstraints", "topologyKey"),
    ("spec", "schedulingGates", "name"),
    ("spec", "resourceClaims", "name"),
    ("status", "podIPs", "ip"),
    ("status", "hostIPs", "ip"),
    ("status", "resourceClaimStatuses", "name"),
    ("metadata", "ownerReferences", "uid"),
    ("metadata", "finalizers", ""),
    ("spec", "ports", "port"),
    ("spec", "podCIDRs", ""),
    ("", "secrets", "name"),
    ("", "webhooks", "name"),
    ("*", "matchConditions", "name"),
    ("spec", "variables", "name"),
    ("spec", "drivers", "name"),
    ("status", "addresses", "type"),
    ("status", "conditions", "type"),
];

/// Where in an object a patch is: the names of the field and of the one around it, list items left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    parent: &'a str,
    name: &'a str,
}

impl<'a> Field<'a> {
    pub(super) fn root() -> Self {
        Self { parent: "", name: "" }
    }

    pub(super) fn field(self, name: &'a str) -> Self {
        Self { parent: self.name, name }
    }

    pub(super) fn name(self) -> &'a str {
        self.name
    }

    /// How a patch of the list here is taken.
    pub(super) fn strategy(self) -> Strategy {
        let fits = |around: &str| around == "*" || around == self.parent;
        match MERGED.iter().find(|(around, name, _)| *name == self.name && fits(around)) {
            None => Strategy::Replace,
            Some((_, _, "")) => Strategy::MergeScalars,
            Some((_, _, key)) => Strategy::MergeBy(key),
        }
    }
}

/// How a patch of a list is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// As the whole new list.
    Replace,
    /// As scalars to add.
    MergeScalars,
    /// As items to merge with those that have the same key.
    MergeBy(&'static str),
}
