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

/// All built-in resources, in the order of discovery.
pub(crate) fn resources() -> Vec<ResourceType> {
    let mut all = core();
    all.extend(workloads());
    all.extend(others());
    all
}

fn core() -> Vec<ResourceType> {
    let core = |plural, kind| Builtin::new("", plural, kind);
    vec![
        core("configmaps", "ConfigMap").namespaced().short(&["cm"]).done(),
        core("endpoints", "Endpoints").singular("endpoints").namespaced().short(&["ep"]).create_on_update().done(),
        core("events", "Event").namespaced().short(&["ev"]).create_on_update().done(),
        core("namespaces", "Namespace").short(&["ns"]).status().other_subresources(&["finalize"]).done(),
        core("nodes", "Node").short(&["no"]).status().done(),
        core("persistentvolumeclaims", "PersistentVolumeClaim").namespaced().short(&["pvc"]).status().returned().done(),
        core("persistentvolumes", "PersistentVolume").short(&["pv"]).status().returned().done(),
        core("pods", "Pod").namespaced().short(&["po"]).in_all().status().generation().returned().done(),
        core("podtemplates", "PodTemplate").namespaced().generation().done(),
        core("replicationcontrollers", "ReplicationController")
            .namespaced()
            .short(&["rc"])
            .in_all()
            .status()
            .scale("status.replicas", None)
            .generation()
            .done(),
        core("limitranges", "LimitRange").namespaced().short(&["limits"]).done(),
        core("resourcequotas", "ResourceQuota").namespaced().short(&["quota"]).status().done(),
        core("secrets", "Secret").namespaced().done(),
        core("serviceaccounts", "ServiceAccount").namespaced().short(&["sa"]).returned().done(),
        core("services", "Service").namespaced().short(&["svc"]).in_all().status().returned().done(),
    ]
}

fn workloads() -> Vec<ResourceType> {
    let apps = |plural, kind| Builtin::new("apps", plural, kind).namespaced();
    let batch = |plural, kind| Builtin::new("batch", plural, kind).namespaced().in_all().status().generation();
    let selector = Some("spec.selector");
    vec![
        apps("controllerrevisions", "ControllerRevision").done(),
        apps("daemonsets", "DaemonSet").short(&["ds"]).in_all().status().generation().done(),
        apps("deployments", "Deployment")
            .short(&["deploy"])
            .in_all()
            .status()
            .scale("status.replicas", selector)
            .generation()
            .done(),
        apps("replicasets", "ReplicaSet")
            .short(&["rs"])
            .in_all()
            .status()
            .scale("status.replicas", selector)
            .generation()
            .done(),
        apps("statefulsets", "StatefulSet")
            .short(&["sts"])
            .in_all()
            .status()
            .scale("status.replicas", selector)
            .generation()
            .done(),
        batch("jobs", "Job").done(),
        batch("cronjobs", "CronJob").short(&["cj"]).done(),
    ]
}

fn others() -> Vec<ResourceType> {
    let rbac = |plural, kind| Builtin::new("rbac.authorization.k8s.io", plural, kind).create_on_update();
    let review = |group, plural, kind| Builtin::new(group, plural, kind).create_only();
    let authorization = "authorization.k8s.io";
    vec![
        Builtin::new("events.k8s.io", "events", "Event").namespaced().short(&["ev"]).create_on_update().done(),
        review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview").done(),
        review(authorization, "localsubjectaccessreviews", "LocalSubjectAccessReview").namespaced().done(),
        review(authorization, "selfsubjectaccessreviews", "SelfSubjectAccessReview").done(),
        review(authorization, "selfsubjectrulesreviews", "SelfSubjectRulesReview").done(),
        review(authorization, "subjectaccessreviews", "SubjectAccessReview").done(),
        Builtin::new("autoscaling", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
            .version("v2")
            .namespaced()
            .short(&["hpa"])
            .in_all()
            .status()
            .done(),
        Builtin::new("coordination.k8s.io", "leases", "Lease")
            .namespaced()
            .create_on_update()
            .versioned_updates()
            .done(),
        Builtin::new("discovery.k8s.io", "endpointslices", "EndpointSlice").namespaced().generation().done(),
        Builtin::new("networking.k8s.io", "ingresses", "Ingress")
            .namespaced()
            .short(&["ing"])
            .status()
            .generation()
            .done(),
        Builtin::new("networking.k8s.io", "ingressclasses", "IngressClass").generation().done(),
        Builtin::new("networking.k8s.io", "networkpolicies", "NetworkPolicy")
            .namespaced()
            .short(&["netpol"])
            .generation()
            .done(),
        Builtin::new("policy", "poddisruptionbudgets", "PodDisruptionBudget")
            .namespaced()
            .short(&["pdb"])
            .status()
            .generation()
            .done(),
        rbac("clusterrolebindings", "ClusterRoleBinding").done(),
        rbac("clusterroles", "ClusterRole").done(),
        rbac("rolebindings", "RoleBinding").namespaced().done(),
        rbac("roles", "Role").namespaced().done(),
        Builtin::new("scheduling.k8s.io", "priorityclasses", "PriorityClass").short(&["pc"]).generation().done(),
        Builtin::new("storage.k8s.io", "storageclasses", "StorageClass").short(&["sc"]).done(),
        Builtin::new("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition")
            .short(&["crd", "crds"])
            .category("api-extensions")
            .status()
            .generation()
            .versioned_updates()
            .done(),
    ]
}

/// Describes one built-in, starting from what most of them are: v1, cluster-scoped, no subresource.
struct Builtin(ResourceType);

impl Builtin {
    fn new(group: &str, plural: &str, kind: &str) -> Builtin {
        let storage = if plural == "events" { event_storage() } else { GroupResource::new(group, plural) };
        Builtin(ResourceType {
            id: GroupResource::new(group, plural),
            storage,
            version: "v1".to_owned(),
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
        })
    }

    fn done(self) -> ResourceType {
        self.0
    }

    fn version(mut self, version: &str) -> Builtin {
        version.clone_into(&mut self.0.version);
        self
    }

    fn singular(mut self, singular: &str) -> Builtin {
        singular.clone_into(&mut self.0.singular);
        self
    }

    fn short(mut self, names: &[&str]) -> Builtin {
        self.0.short_names = names.iter().map(|&name| name.to_owned()).collect();
        self
    }

    fn category(mut self, name: &str) -> Builtin {
        self.0.categories.push(name.to_owned());
        self
    }

    fn in_all(self) -> Builtin {
        self.category("all")
    }

    fn namespaced(mut self) -> Builtin {
        self.0.namespaced = true;
        self
    }

    fn status(mut self) -> Builtin {
        self.0.has_status = true;
        self
    }

    fn scale(mut self, status_replicas: &str, label_selector: Option<&str>) -> Builtin {
        self.0.scale = Some(ScalePaths {
            spec_replicas: "spec.replicas".to_owned(),
            status_replicas: status_replicas.to_owned(),
            label_selector: label_selector.map(str::to_owned),
        });
        self
    }

    fn other_subresources(mut self, names: &'static [&'static str]) -> Builtin {
        self.0.other_subresources = names;
        self
    }

    fn generation(mut self) -> Builtin {
        self.0.has_generation = true;
        self
    }

    fn versioned_updates(mut self) -> Builtin {
        self.0.unconditional_update = false;
        self
    }

    fn create_on_update(mut self) -> Builtin {
        self.0.create_on_update = true;
        self
    }

    fn create_only(mut self) -> Builtin {
        self.0.create_only = true;
        self
    }

    fn returned(mut self) -> Builtin {
        self.0.returns_deleted = true;
        self
    }
}
