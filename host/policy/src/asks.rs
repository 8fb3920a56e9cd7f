//! Translates a manifest's requests into the terms of policies: rules about resources, each with its reason.
//!
//! Manifests name kinds, but policies name resources. Only a cluster knows for certain which resource a kind has.
//! Without a cluster, the resource is looked up in the plugin's own CRDs, in the CRDs in its author's folder, and in a
//! table of kinds that every cluster has. If none of them has the kind, the resource is guessed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windlass_core::object::{ObjectKind, plural};
use windlass_core::rights::grants::Rule;
use windlass_core::rights::verbs::SIGNERS;
use windlass_manifest::{Controller, Manifest, Watch};

use super::document::VERBS;

/// One rule that a plugin needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub rule: Rule,
    /// The part of the manifest that needs the rule.
    pub why: String,
    /// Whether the rule's resource is a guess.
    pub guessed: bool,
}

/// The resource of a kind, as policies name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceName {
    /// The plural name, such as `configmaps`.
    pub plural: String,
    pub namespaced: bool,
    /// Whether the name is a guess, because there is no cluster and the kind is not a well-known one.
    pub guessed: bool,
}

/// Kinds with the same plural and scope on every cluster: group, kind, plural, whether namespaced.
const WELL_KNOWN: &[(&str, &str, &str, bool)] = &[
    ("", "ConfigMap", "configmaps", true),
    ("", "Endpoints", "endpoints", true),
    ("", "Event", "events", true),
    ("", "Namespace", "namespaces", false),
    ("", "Node", "nodes", false),
    ("", "PersistentVolume", "persistentvolumes", false),
    ("", "PersistentVolumeClaim", "persistentvolumeclaims", true),
    ("", "Pod", "pods", true),
    ("", "ReplicationController", "replicationcontrollers", true),
    ("", "ResourceQuota", "resourcequotas", true),
    ("", "LimitRange", "limitranges", true),
    ("", "Secret", "secrets", true),
    ("", "Service", "services", true),
    ("", "ServiceAccount", "serviceaccounts", true),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", false),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", false),
    ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", false),
    ("apiregistration.k8s.io", "APIService", "apiservices", false),
    ("apps", "DaemonSet", "daemonsets", true),
    ("apps", "Deployment", "deployments", true),
    ("apps", "ReplicaSet", "replicasets", true),
    ("apps", "StatefulSet", "statefulsets", true),
    ("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers", true),
    ("batch", "CronJob", "cronjobs", true),
    ("batch", "Job", "jobs", true),
    ("certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests", false),
    ("coordination.k8s.io", "Lease", "leases", true),
    ("discovery.k8s.io", "EndpointSlice", "endpointslices", true),
    ("events.k8s.io", "Event", "events", true),
    ("networking.k8s.io", "Ingress", "ingresses", true),
    ("networking.k8s.io", "IngressClass", "ingressclasses", false),
    ("networking.k8s.io", "NetworkPolicy", "networkpolicies", true),
    ("policy", "PodDisruptionBudget", "poddisruptionbudgets", true),
    ("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", false),
    ("rbac.authorization.k8s.io", "Role", "roles", true),
    ("rbac.authorization.k8s.io", "RoleBinding", "rolebindings", true),
    ("scheduling.k8s.io", "PriorityClass", "priorityclasses", false),
    ("storage.k8s.io", "StorageClass", "storageclasses", false),
    ("storage.k8s.io", "VolumeAttachment", "volumeattachments", false),
];

/// Resources of which there are no objects, but about which there are rights: group, plural, whether namespaced.
const WITHOUT_KIND: &[(&str, &str, bool)] = &[("certificates.k8s.io", SIGNERS, false)];

/// The resources of the kinds that a manifest names, from a cluster and from CRDs. The default is empty.
#[derive(Clone, Debug, Default)]
pub struct ClusterNames {
    /// Resources by kind, which is written as text.
    kinds: BTreeMap<String, ResourceName>,
    /// Whether a resource is namespaced, by group and plural.
    scopes: BTreeMap<(String, String), bool>,
    /// CRDs that may not be installed on the cluster yet.
    definitions: Vec<Value>,
}

impl ClusterNames {
    /// The names that a cluster serves: the resources of `kinds`, and in `scopes`, by group and plural, whether a
    /// resource is namespaced.
    #[must_use]
    pub fn served(
        kinds: impl IntoIterator<Item = (ObjectKind, ResourceName)>,
        scopes: impl IntoIterator<Item = ((String, String), bool)>,
    ) -> Self {
        let kinds = kinds.into_iter().map(|(kind, name)| (kind.to_string(), name)).collect();
        Self { kinds, scopes: scopes.into_iter().collect(), definitions: vec![] }
    }

    /// Adds `definitions`, which are objects of kind `CustomResourceDefinition`. They are used if the cluster does not
    /// know a kind.
    #[must_use]
    pub fn with_definitions(self, definitions: Vec<Value>) -> Self {
        Self { definitions, ..self }
    }

    /// Whether a resource is namespaced. `None` if this is not known.
    pub(crate) fn is_namespaced(&self, manifest: &Manifest, group: &str, plural: &str) -> Option<bool> {
        let served = self.scopes.get(&(group.to_owned(), plural.to_owned())).copied();
        let table = || well_known().find(|it| (it.0, it.1) == (group, plural)).map(|it| it.2);
        let defined =
            || self.defined(manifest).find(|it| (it.group, it.plural) == (group, plural)).map(|it| it.namespaced);
        let watched = || {
            let kinds = manifest.controllers.iter().flat_map(Controller::all_watches).map(Watch::object_kind);
            let named = kinds.filter(|kind| kind.group() == group).map(|kind| self.name(manifest, &kind));
            named.filter(|name| name.plural == plural && !name.guessed).map(|name| name.namespaced).next()
        };
        served.or_else(table).or_else(defined).or_else(watched)
    }

    /// The resource of a kind: from the cluster, from a CRD, from the table, or a guess.
    pub(crate) fn name(&self, manifest: &Manifest, kind: &ObjectKind) -> ResourceName {
        if let Some(served) = self.kinds.get(&kind.to_string()) {
            return served.clone();
        }
        let is_it = |definition: &Definition<'_>| definition.group == kind.group() && definition.kind == &*kind.kind;
        let defined = self.defined(manifest).find(is_it).map(|it| (it.plural, it.namespaced));
        let table = || {
            let found = WELL_KNOWN.iter().find(|(group, name, ..)| *group == kind.group() && **name == *kind.kind);
            found.map(|(_, _, plural, namespaced)| (*plural, *namespaced))
        };
        match defined.or_else(table) {
            Some((plural, namespaced)) => ResourceName { plural: plural.to_owned(), namespaced, guessed: false },
            None => ResourceName { plural: plural(&kind.kind), namespaced: true, guessed: true },
        }
    }

    /// The plugin's own CRDs, and then all others.
    fn defined<'a>(&'a self, manifest: &'a Manifest) -> impl Iterator<Item = Definition<'a>> {
        let brought = manifest.crds.iter().filter_map(|crd| crd.get("spec"));
        brought.chain(self.definitions.iter().filter_map(|crd| crd.get("spec"))).filter_map(Definition::of)
    }
}

/// The resources that every cluster has: group, plural, whether namespaced.
fn well_known<'a>() -> impl Iterator<Item = (&'a str, &'a str, bool)> {
    let with_kind = WELL_KNOWN.iter().map(|(group, _, plural, namespaced)| (*group, *plural, *namespaced));
    with_kind.chain(WITHOUT_KIND.iter().copied())
}

/// The names and scope of a custom resource.
struct Definition<'a> {
    group: &'a str,
    kind: &'a str,
    plural: &'a str,
    namespaced: bool,
}

impl<'a> Definition<'a> {
    /// `None` if `spec` is incomplete.
    fn of(spec: &'a Value) -> Option<Self> {
        let names = spec.get("names")?;
        Some(Self {
            group: spec["group"].as_str()?,
            kind: names["kind"].as_str()?,
            plural: names["plural"].as_str()?,
            namespaced: spec["scope"] != "Cluster",
        })
    }
}

/// All rules that the manifest asks for. Rules that differ only in their verbs are merged.
#[must_use]
pub fn asks(manifest: &Manifest, names: &ClusterNames) -> Vec<Ask> {
    let mut asks: Vec<Ask> = Vec::new();
    for controller in &manifest.controllers {
        for access in controller.implied_access() {
            let name = names.name(manifest, &access.kind);
            let subresource = access.subresource.map(|subresource| format!("/{subresource}")).unwrap_or_default();
            let rule = Rule {
                groups: vec![access.kind.group().to_owned()],
                resources: vec![format!("{}{subresource}", name.plural)],
                verbs: access.verbs.iter().map(|verb| (*verb).to_owned()).collect(),
                namespaces: if name.namespaced { access.namespaces } else { vec![] },
                names: vec![],
                cluster: !name.namespaced,
            };
            let place = access.named_at.map(|pointer| format!(", which its configuration names at {pointer:?}"));
            let place = place.unwrap_or_default();
            let why = format!("the controller {} {} {}{place}", controller.name, access.does, access.kind);
            join(&mut asks, Ask { rule, why, guessed: name.guessed });
        }
    }
    for rule in manifest.permission_rules() {
        let (cluster, unknown) = scope(manifest, &rule, names);
        let rule = Rule { cluster: cluster && rule.namespaces.is_empty(), ..rule };
        let guessed = unknown && rule.namespaces.is_empty();
        join(&mut asks, Ask { rule, why: "a permission of the manifest".to_owned(), guessed });
    }
    asks
}

/// Returns whether a permission covers cluster-scoped resources, and whether the scope of any of its resources is a
/// guess.
///
/// A permission of an untrusted author may multiply out to very many pairs of group and resource. So this iterates over
/// the known resources and looks each up in the permission, not the other way round.
fn scope(manifest: &Manifest, rule: &Rule, names: &ClusterNames) -> (bool, bool) {
    let groups: BTreeSet<&str> = rule.groups.iter().map(String::as_str).collect();
    let resources: BTreeSet<&str> = rule.resources.iter().filter_map(|name| name.split('/').next()).collect();
    let defined = names.defined(manifest).map(|it| (it.group, it.plural, it.namespaced));
    let served = names.scopes.iter().map(|((group, plural), namespaced)| (&**group, &**plural, *namespaced));
    let mut scopes = BTreeMap::new();
    for (group, plural, namespaced) in served.chain(well_known()).chain(defined) {
        if groups.contains(group) && resources.contains(plural) {
            scopes.entry((group, plural)).or_insert(namespaced);
        }
    }
    for watch in manifest.controllers.iter().flat_map(Controller::all_watches) {
        let kind = watch.object_kind();
        let Some(name) = names.kinds.get(&kind.to_string()).filter(|name| !name.guessed) else { continue };
        if let (Some(group), Some(plural)) = (groups.get(kind.group()), resources.get(name.plural.as_str())) {
            scopes.entry((group, plural)).or_insert(name.namespaced);
        }
    }
    (scopes.values().any(|namespaced| !namespaced), scopes.len() < groups.len() * resources.len())
}

/// Adds `ask`. If a rule differs only in its verbs, the verbs are merged into it.
fn join(asks: &mut Vec<Ask>, ask: Ask) {
    let Some(other) = asks.iter_mut().find(|other| differ_only_in_verbs(&other.rule, &ask.rule)) else {
        return asks.push(ask);
    };
    let held = |verb: &&&str| other.rule.verbs.iter().chain(&ask.rule.verbs).any(|held| held == **verb);
    other.rule.verbs = VERBS.iter().filter(held).map(|verb| (*verb).to_owned()).collect();
    if !other.why.contains(&ask.why) {
        other.why = format!("{}; {}", other.why, ask.why);
    }
}

/// Whether two rules are equal except for their verbs.
fn differ_only_in_verbs(one: &Rule, other: &Rule) -> bool {
    let Rule { groups, resources, verbs: _, namespaces, names, cluster } = one;
    (groups, resources, namespaces, names, cluster)
        == (&other.groups, &other.resources, &other.namespaces, &other.names, &other.cluster)
}

/// A manifest's requests on one line.
pub fn in_one_line(manifest: &Manifest) -> String {
    let implied = manifest.controllers.iter().flat_map(Controller::implied_access);
    let mut asked: Vec<String> = implied
        .map(|access| {
            let subresource = access.subresource.map(|name| format!("/{name}")).unwrap_or_default();
            format!("{}{subresource} ({})", access.kind, access.verbs.join(", "))
        })
        .collect();
    asked.extend(manifest.controllers.iter().flat_map(Controller::all_watches).filter_map(|watch| {
        let (pointer, changes) = (watch.lacks_kind()?, watch.verbs.iter().map(|verb| verb.as_str()));
        let verbs: Vec<_> = ["get", "list", "watch"].into_iter().chain(changes).collect();
        Some(format!("kinds that its configuration names at {pointer:?} ({})", verbs.join(", ")))
    }));
    asked.extend(manifest.permissions.iter().map(|permission| {
        format!(
            "{} of {:?} ({})",
            permission.resources.join(", "),
            permission.api_groups.join(", "),
            permission.verbs.join(", ")
        )
    }));
    asked.extend(manifest.crd_names().map(|name| format!("to install {name}")));
    asked.extend(manifest.http.iter().map(|http| format!("HTTP to {}", http.host)));
    asked.dedup();
    asked.join("; ")
}

#[cfg(test)]
mod tests {
    use windlass_manifest::ConfiguredKinds;

    use super::*;

    #[test]
    fn kinds_of_the_configuration_are_asked_for_with_their_place() {
        let manifest = serde_json::json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
            "controllers": [{
                "name": "janitor",
                "primary": {"kindsFrom": "/kinds", "verbs": ["delete"], "projection": {"type": "metadata"}},
            }],
            "config": {"schema": {}},
        });
        let manifest = Manifest::from_json(&manifest.to_string()).expect("valid");
        assert_eq!(
            in_one_line(&manifest),
            r#"kinds that its configuration names at "/kinds" (get, list, watch, delete)"#
        );
        let config = serde_json::json!({"kinds": [{"apiVersion": "apps/v1", "kind": "Deployment"}]});
        let kinds = ConfiguredKinds::read(&manifest.controllers, &config).expect("kinds");
        let asks = asks(&manifest.with_kinds(&kinds), &ClusterNames::default());
        let [Ask { rule, why, guessed: false }] = &*asks else { panic!("one rule: {asks:?}") };
        assert_eq!(
            (&*rule.resources, &*rule.verbs),
            (&["deployments".to_owned()][..], &["get", "list", "watch", "delete"].map(str::to_owned)[..])
        );
        assert!(
            why.contains("janitor.deployment.apps") && why.contains(r#"its configuration names at "/kinds""#),
            "{why}"
        );
    }

    fn manifest() -> Manifest {
        let manifest = serde_json::json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
            "controllers": [{
                "name": "gadgets",
                "primary": {"apiVersion": "example.com/v1", "kind": "Gadget"},
                "owns": [{"apiVersion": "v1", "kind": "Secret", "namespaces": ["prod"]}],
                "watches": [
                    {"apiVersion": "v1", "kind": "Secret", "namespaces": ["prod"], "mapping": {"type": "all"}},
                    {"apiVersion": "other.com/v1", "kind": "Policy", "mapping": {"type": "all"}},
                    {"apiVersion": "v1", "kind": "Node", "mapping": {"type": "all"}},
                ],
            }],
            "permissions": [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get"]}],
            "crds": [{
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "gadgetry.example.com"},
                "spec": {"group": "example.com", "scope": "Cluster", "names": {"kind": "Gadget", "plural": "gadgetry"}},
            }],
        });
        Manifest::from_json(&manifest.to_string()).expect("valid")
    }

    #[test]
    fn without_a_cluster_names_are_well_known_defined_or_guessed() {
        let asks = asks(&manifest(), &ClusterNames::default());
        let said: Vec<_> = asks
            .iter()
            .map(|ask| (ask.rule.resources.join(","), ask.rule.verbs.len(), ask.rule.cluster, ask.guessed))
            .collect();
        assert_eq!(
            said,
            [
                ("gadgetry".to_owned(), 3, true, false),
                ("gadgetry/status".to_owned(), 3, true, false),
                ("secrets".to_owned(), 7, false, false),
                ("policies".to_owned(), 3, false, true),
                ("nodes".to_owned(), 3, true, false),
                ("nodes,pods".to_owned(), 1, true, false),
            ]
        );
    }

    #[test]
    fn a_crd_in_the_authors_folder_gives_the_name_and_scope() {
        let manifest = serde_json::json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
            "controllers": [{"name": "a", "primary": {"apiVersion": "example.com/v1", "kind": "Tenancy"}}],
            "permissions": [{"apiGroups": ["example.com"], "resources": ["tenants/finalizers"], "verbs": ["update"]}],
        });
        let manifest = Manifest::from_json(&manifest.to_string()).expect("valid");
        let definition = |group: &str| {
            serde_json::json!({
                "spec": {"group": group, "scope": "Cluster", "names": {"kind": "Tenancy", "plural": "tenants"}},
            })
        };
        let said = |group: &str| -> Vec<_> {
            let names = ClusterNames::default().with_definitions(vec![serde_json::json!({}), definition(group)]);
            let asks = asks(&manifest, &names);
            asks.iter().map(|ask| (ask.rule.resources.join(","), ask.rule.cluster, ask.guessed)).collect()
        };
        let named = |resource: &str, cluster, guessed| (resource.to_owned(), cluster, guessed);
        assert_eq!(
            said("example.com"),
            [
                named("tenants", true, false),
                named("tenants/status", true, false),
                named("tenants/finalizers", true, false)
            ]
        );
        assert_eq!(
            said("other.com"),
            [
                named("tenancies", false, true),
                named("tenancies/status", false, true),
                named("tenants/finalizers", false, true)
            ]
        );
    }

    #[test]
    fn a_resource_is_known_by_its_group_too() {
        let manifest = manifest();
        let asked = |group: &str| Rule {
            groups: vec![group.to_owned()],
            resources: vec!["widgets/status".to_owned()],
            ..Rule::default()
        };
        let names = manifest.controllers.iter().flat_map(Controller::all_watches).map(|watch| {
            (
                watch.object_kind().to_string(),
                ResourceName { plural: "widgets".to_owned(), namespaced: true, guessed: false },
            )
        });
        let kinds = names.filter(|(kind, _)| kind.contains("other.com")).collect();
        let names = ClusterNames { kinds, ..ClusterNames::default() };
        assert_eq!(scope(&manifest, &asked("example.com"), &names), (false, true), "another group's");
        assert_eq!(scope(&manifest, &asked("other.com"), &names), (false, false));
    }
}
