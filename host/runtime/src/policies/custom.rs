//! The API groups in which plugins may define kinds.

/// True if definitions may bring kinds of `group`. Kubernetes' own groups have no dot, or are listed here. Other groups
/// that end with `.k8s.io`, such as `gateway.networking.k8s.io`, belong to definitions that the project has approved.
pub(crate) fn is_custom(group: &str) -> bool {
    const BUILT_IN: [&str; 18] = [
        "admissionregistration",
        "apiextensions",
        "apiregistration",
        "authentication",
        "authorization",
        "certificates",
        "coordination",
        "discovery",
        "events",
        "flowcontrol.apiserver",
        "internal.apiserver",
        "networking",
        "node",
        "rbac.authorization",
        "resource",
        "scheduling",
        "storage",
        "storagemigration",
    ];
    let is_built_in = || group.strip_suffix(".k8s.io").is_some_and(|group| BUILT_IN.contains(&group));
    group.contains('.') && !is_built_in()
}
