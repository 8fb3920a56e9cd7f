//! The kinds that the server has without any CRD: a table of facts. What is done to their objects stands in `defaults`,
//! `validation` and `table`.

use crate::resources::resource::{GroupResource, ResourceType, ScalePaths};

/// Where events are kept, whichever of the two groups writes them.
pub(crate) fn event_storage() -> GroupResource {
    GroupResource::new("", "events")
}

pub(crate) fn namespaces() -> GroupResource {
    GroupResource::new("", "namespaces")
}

pub(crate) fn custom_resource_definitions() -> GroupResource {
    GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions")
}

/// All built-in resources, in the order of discovery: API version, plural, kind, and what sets it apart from most of
/// them, which are cluster-scoped and have no subresource. [`tell`] says what each word means.
const RESOURCES: [(&str, &str, &str, &str); 43] = [
    ("v1", "configmaps", "ConfigMap", "namespaced short:cm"),
    ("v1", "endpoints", "Endpoints", "namespaced singular:endpoints short:ep create-on-update"),
    ("v1", "events", "Event", "namespaced short:ev create-on-update"),
    ("v1", "namespaces", "Namespace", "short:ns status finalize"),
    ("v1", "nodes", "Node", "short:no status"),
    ("v1", "persistentvolumeclaims", "PersistentVolumeClaim", "namespaced short:pvc status returned"),
    ("v1", "persistentvolumes", "PersistentVolume", "short:pv status returned"),
    ("v1", "pods", "Pod", "namespaced short:po category:all status generation returned"),
    ("v1", "podtemplates", "PodTemplate", "namespaced generation"),
    (
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        "namespaced short:rc category:all status scale generation",
    ),
    ("v1", "limitranges", "LimitRange", "namespaced short:limits"),
    ("v1", "resourcequotas", "ResourceQuota", "namespaced short:quota status"),
    ("v1", "secrets", "Secret", "namespaced"),
    ("v1", "serviceaccounts", "ServiceAccount", "namespaced short:sa returned"),
    ("v1", "services", "Service", "namespaced short:svc category:all status returned"),
    ("apps/v1", "controllerrevisions", "ControllerRevision", "namespaced"),
    ("apps/v1", "daemonsets", "DaemonSet", "namespaced short:ds category:all status generation"),
    (
        "apps/v1",
        "deployments",
        "Deployment",
        "namespaced short:deploy category:all status scale:spec.selector generation",
    ),
    ("apps/v1", "replicasets", "ReplicaSet", "namespaced short:rs category:all status scale:spec.selector generation"),
    (
        "apps/v1",
        "statefulsets",
        "StatefulSet",
        "namespaced short:sts category:all status scale:spec.selector generation",
    ),
    ("batch/v1", "jobs", "Job", "namespaced category:all status generation"),
    ("batch/v1", "cronjobs", "CronJob", "namespaced short:cj category:all status generation"),
    ("events.k8s.io/v1", "events", "Event", "namespaced short:ev create-on-update"),
    ("authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview", "create-only"),
    ("authentication.k8s.io/v1", "tokenreviews", "TokenReview", "create-only"),
    ("authorization.k8s.io/v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", "namespaced create-only"),
    ("authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", "create-only"),
    ("authorization.k8s.io/v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", "create-only"),
    ("authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview", "create-only"),
    (
        "autoscaling/v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        "namespaced short:hpa category:all status",
    ),
    ("coordination.k8s.io/v1", "leases", "Lease", "namespaced versioned-updates create-on-update"),
    ("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", "namespaced generation"),
    ("networking.k8s.io/v1", "ingresses", "Ingress", "namespaced short:ing status generation"),
    ("networking.k8s.io/v1", "ingressclasses", "IngressClass", "generation"),
    ("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", "namespaced short:netpol generation"),
    ("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", "namespaced short:pdb status generation"),
    ("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", "create-on-update"),
    ("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", "create-on-update"),
    ("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", "namespaced create-on-update"),
    ("rbac.authorization.k8s.io/v1", "roles", "Role", "namespaced create-on-update"),
    ("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", "short:pc generation"),
    ("storage.k8s.io/v1", "storageclasses", "StorageClass", "short:sc"),
    (
        "apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "short:crd short:crds category:api-extensions status generation versioned-updates",
    ),
];

/// All built-in resources, in the order of discovery.
pub(crate) fn resources() -> Vec<ResourceType> {
    RESOURCES.iter().map(|(api_version, plural, kind, facts)| resource(api_version, plural, kind, facts)).collect()
}

fn resource(api_version: &str, plural: &str, kind: &str, facts: &str) -> ResourceType {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let storage = if plural == "events" { event_storage() } else { GroupResource::new(group, plural) };
    let mut resource = ResourceType {
        id: GroupResource::new(group, plural),
        storage,
        version: version.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: false,
        has_status: false,
        scale: None,
        other_subresources: &[],
        has_generation: false,
        unconditional_update: true,
        create_on_update: false,
        create_only: false,
        returns_deleted: false,
        custom: None,
    };
    for fact in facts.split_whitespace() {
        tell(&mut resource, fact);
    }
    resource
}

/// Writes one word of the table into the resource.
fn tell(resource: &mut ResourceType, fact: &str) {
    match fact.split_once(':').unwrap_or((fact, "")) {
        ("namespaced", _) => resource.namespaced = true,
        ("singular", name) => name.clone_into(&mut resource.singular),
        ("short", name) => resource.short_names.push(name.to_owned()),
        ("category", name) => resource.categories.push(name.to_owned()),
        ("status", _) => resource.has_status = true,
        ("scale", selector) => {
            resource.scale = Some(ScalePaths {
                spec_replicas: "spec.replicas".to_owned(),
                status_replicas: "status.replicas".to_owned(),
                label_selector: (!selector.is_empty()).then(|| selector.to_owned()),
            });
        }
        ("finalize", _) => resource.other_subresources = &["finalize"],
        ("generation", _) => resource.has_generation = true,
        ("versioned-updates", _) => resource.unconditional_update = false,
        ("create-on-update", _) => resource.create_on_update = true,
        ("create-only", _) => resource.create_only = true,
        ("returned", _) => resource.returns_deleted = true,
        _ => unreachable!("{fact:?} is no word of the table"),
    }
}
