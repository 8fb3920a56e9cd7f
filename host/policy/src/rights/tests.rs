//! Tests which rights follow from which grants.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::rights::grants::{Allowance, Forbidden, ForeignKind, Layer, Rule};
use windlass_core::rights::principal::ServiceAccount;
use windlass_manifest::Manifest;

use super::role::{RoleContent, objects};
use super::*;
use crate::asks::ClusterNames;

/// A plugin with one controller and a CRD of its primary.
fn manifest(more: &Value) -> Manifest {
    let mut manifest = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "shop", "version": "0.1.0",
        "controllers": [{"name": "shops", "primary": {"apiVersion": "example.com/v1", "kind": "Shop"}}],
        "crds": [{
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "shops.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Shop", "plural": "shops"}},
        }],
    });
    for (field, value) in more.as_object().expect("fields") {
        manifest[field] = value.clone();
    }
    Manifest::from_json(&manifest.to_string()).expect("valid")
}

fn owning(kind: &Value) -> Manifest {
    manifest(&json!({
        "controllers": [{
            "name": "shops", "primary": {"apiVersion": "example.com/v1", "kind": "Shop"}, "owns": [kind],
            "options": {"finalizer": true},
        }],
    }))
}

fn deployments() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment"})
}

fn list(items: &[&str]) -> Vec<String> {
    items.iter().map(|&item| item.to_owned()).collect()
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Rule {
    Rule { groups: list(&[group]), resources: list(resources), verbs: list(verbs), cluster: false, ..Rule::default() }
}

/// A rule for all namespaced resources.
fn everything() -> Rule {
    Rule { groups: list(&["*"]), ..rule("", &["*"], &["*"]) }
}

fn policy(rules: Vec<Rule>) -> Allowance {
    Allowance { rules, crds: list(&["*"]), finalizers: list(&["*"]), ..Allowance::default() }
}

/// One plugin under a policy, on a host with these options.
#[derive(Default)]
struct Setting {
    policy: Option<Allowance>,
    forbidden: Forbidden,
    impersonate: Option<ServiceAccount>,
    secrets: BTreeSet<(String, String)>,
    options: RightsOptions,
}

impl Setting {
    fn under(rules: Vec<Rule>) -> Self {
        Self { policy: Some(policy(rules)), ..Self::default() }
    }

    fn derive(&self, manifest: &Manifest) -> Result<HostRights, RightsError> {
        self.derive_all(&[manifest])
    }

    fn derive_all(&self, manifests: &[&Manifest]) -> Result<HostRights, RightsError> {
        let names = ClusterNames::default();
        let source = |manifest| {
            let asked = windlass_core::rights::grants::Grants::asked(asked(manifest, &names)?);
            let grants = asked.within(self.options.only.as_deref()).without(self.forbidden.clone());
            let grants = match &self.policy {
                Some(policy) => grants.bounded(Layer::Policy, Arc::new(policy.clone())),
                None => grants,
            };
            let (impersonate, secrets) = (self.impersonate.clone(), self.secrets.clone());
            Ok(RightsSource { manifest, names: &names, grants, impersonate, secrets })
        };
        derive(&self.options, &manifests.iter().copied().map(source).collect::<Result<Vec<_>, RightsError>>()?)
    }

    /// The rights of the host, as lines.
    fn host(&self, manifest: &Manifest) -> Vec<String> {
        lines(&self.derive(manifest).expect("all kinds are known").host)
    }
}

/// Formats rights as `where: verbs resource of group [names]`, without the rights that every host has.
fn lines(rights: &Rights) -> Vec<String> {
    let mut lines = Vec::new();
    for (scope, rules) in rights.scopes() {
        let place = match scope {
            RightsScope::Cluster => "*",
            RightsScope::Namespace(namespace) => namespace,
        };
        for rule in rules {
            let verbs: Vec<_> = role::in_order(&rule.verbs).into_iter().map(String::as_str).collect();
            let resources: Vec<_> = rule.resources.iter().map(String::as_str).collect();
            let groups: Vec<_> = rule.groups.iter().map(String::as_str).collect();
            let names: Vec<_> = rule.names.iter().map(String::as_str).collect();
            let mut line = format!("{place}: {} {} of {}", verbs.join(","), resources.join(","), groups.join(","));
            if !names.is_empty() {
                line = format!("{line} named {}", names.join(","));
            }
            lines.push(line);
        }
    }
    let of_every_host = [
        "*: list,watch customresourcedefinitions of apiextensions.k8s.io",
        "*: get apiservices of apiregistration.k8s.io",
    ];
    lines.retain(|line| !of_every_host.contains(&&**line));
    lines.sort_unstable();
    lines
}

#[test]
fn a_host_without_plugins_watches_crds_and_has_leases() {
    let options = RightsOptions { leases: Some("windlass".to_owned()), ..RightsOptions::default() };
    let rights = derive(&options, &[]).expect("nothing to find out");
    let expected = [
        "windlass: create,patch events of events.k8s.io",
        "windlass: get,list,watch,create,update,delete leases of coordination.k8s.io",
    ];
    assert_eq!(lines(&rights.host), expected);
    let [role, binding, ..] = &objects(&rights, &ServiceAccount { namespace: "w".into(), name: "w".into() })[..] else {
        panic!("a role of the cluster comes first")
    };
    assert_eq!((role.kind(), binding.kind()), ("ClusterRole", "ClusterRoleBinding"));
    assert!(matches!(&role.content, RoleContent::Rules(rules) if rules.len() == 2), "{role:?}");
}

#[test]
fn a_host_that_accepts_tokens_may_create_token_reviews() {
    let rights = derive(&RightsOptions { reviews_tokens: true, ..RightsOptions::default() }, &[]).expect("no plugins");
    let expected =
        ["*: create subjectaccessreviews of authorization.k8s.io", "*: create tokenreviews of authentication.k8s.io"];
    assert_eq!(lines(&rights.host), expected);
}

#[test]
fn a_host_of_plugin_objects_reads_only_what_they_name() {
    let named = |name: &str| BTreeSet::from([name.to_owned()]);
    let objects = NamedByObjects {
        namespace: "windlass".to_owned(),
        config_maps: named("files"),
        pull_secrets: named("registry"),
    };
    let options = RightsOptions { objects: Some(objects), ..RightsOptions::default() };
    let rights = derive(&options, &[]).expect("no plugins");
    let expected = [
        "*: list,watch clusterpluginpolicies,clusterplugins of windlass.dev",
        "*: patch clusterplugins/status of windlass.dev",
        "default: create,patch events of events.k8s.io",
        "windlass: get configmaps of  named files",
        "windlass: get secrets of  named registry",
    ];
    assert_eq!(lines(&rights.host), expected);
}

#[test]
fn without_a_policy_the_manifest_alone_decides() {
    let expected = [
        "*: create,patch events of events.k8s.io",
        "*: get,create,patch customresourcedefinitions of apiextensions.k8s.io named shops.example.com",
        "*: get,list,watch,create,update,patch,delete deployments of apps",
        // Adding the finalizer is a patch.
        "*: get,list,watch,patch shops of example.com",
        "*: get,update,patch shops/status of example.com",
        "*: update shops/finalizers of example.com",
    ];
    assert_eq!(Setting::default().host(&owning(&deployments())), expected);
}

#[test]
fn a_policy_for_namespaces_leads_to_rights_only_there() {
    let in_prod = |rule: Rule| Rule { namespaces: list(&["prod"]), ..rule };
    let setting = Setting::under(vec![
        in_prod(rule("example.com", &["shops"], &["list", "watch"])),
        in_prod(rule("apps", &["deployments"], &["list", "watch", "create", "patch"])),
        in_prod(rule("example.com", &["shops/status"], &["patch"])),
    ]);
    let expected = [
        "*: get,create,patch customresourcedefinitions of apiextensions.k8s.io named shops.example.com",
        "prod: create,patch events of events.k8s.io",
        "prod: get,list,watch,create,patch deployments of apps",
        "prod: list,watch,patch shops of example.com",
        "prod: patch shops/status of example.com",
        "prod: update shops/finalizers of example.com",
    ];
    assert_eq!(setting.host(&owning(&deployments())), expected);
    let nothing = Setting { policy: Some(Allowance::default()), ..Setting::default() };
    let rights = nothing.derive(&owning(&deployments())).expect("all kinds are known");
    assert!(lines(&rights.host).is_empty(), "{rights:?}");
    assert!(rights.remarks.iter().any(|remark| remark.contains("its watch of apps/v1 Deployment")), "{rights:?}");
}

#[test]
fn verbs_about_consequences_are_rights_if_manifest_and_policy_name_them() {
    let rbac = "rbac.authorization.k8s.io";
    let asks = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let manifest = manifest(&json!({
        "permissions": [
            asks("certificates.k8s.io", "signers", &["approve"]), asks(rbac, "clusterroles", &["bind"]), asks(rbac, "roles", &["*"]),
        ],
    }));
    let whole = |rule: Rule| Rule { cluster: true, ..rule };
    let named = |rule: Rule, names: &[&str]| Rule { names: list(names), ..rule };
    let setting = Setting::under(vec![
        named(whole(rule("certificates.k8s.io", &["signers"], &["approve"])), &["kubernetes.io/kubelet-serving"]),
        named(whole(rule(rbac, &["clusterroles"], &["bind", "escalate"])), &["view"]),
        rule(rbac, &["roles"], &["*"]),
    ]);
    let roles = "*: get,list,watch,create,update,patch,delete,deletecollection roles of rbac.authorization.k8s.io";
    let expected = [
        "*: approve signers of certificates.k8s.io named kubernetes.io/kubelet-serving",
        "*: bind clusterroles of rbac.authorization.k8s.io named view",
        roles,
    ];
    let about_roles = |setting: &Setting| {
        let lines = setting.host(&manifest).into_iter();
        lines.filter(|line| line.contains("roles") || line.contains("signers")).collect::<Vec<_>>()
    };
    assert_eq!(about_roles(&setting), expected);
    let confined = RightsOptions { only: Some("prod".to_owned()), ..RightsOptions::default() };
    let confined = Setting { options: confined, ..setting };
    assert_eq!(about_roles(&confined)[..2], expected[..2], "signers and cluster roles have no namespace");
}

#[test]
fn a_waiting_controller_needs_no_rights_and_is_one_remark() {
    let (shop, secrets) =
        (json!({"apiVersion": "example.com/v1", "kind": "Shop"}), json!({"apiVersion": "v1", "kind": "Secret"}));
    let manifest = manifest(&json!({
        "controllers": [
            {"name": "shops", "primary": shop, "owns": [secrets], "options": {"finalizer": true}},
            {"name": "deployments", "primary": deployments()},
        ],
    }));
    let setting = Setting::under(vec![
        rule("example.com", &["shops"], &["list", "watch"]),
        rule("apps", &["deployments"], &["list", "watch"]),
    ]);
    let rights = setting.derive_all(&[&manifest, &manifest]).expect("all kinds are known");
    let shops: Vec<_> = lines(&rights.host).into_iter().filter(|line| line.contains("shops ")).collect();
    assert_eq!(shops, ["*: list,watch shops of example.com"], "what the policy grants, and no finalizer");
    assert_eq!(rights.remarks.len(), 1, "{:?}", rights.remarks);
    assert!(
        rights.remarks[0].contains("controller shops of the plugin shop is left out")
            && rights.remarks[0].contains("v1 Secret")
    );
}

#[test]
fn the_only_namespace_of_a_host_narrows_namespaced_rights() {
    let nodes = json!({"permissions": [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get"]}]});
    let of_cluster = Rule { cluster: true, ..everything() };
    let options = RightsOptions { only: Some("prod".to_owned()), ..RightsOptions::default() };
    let setting = Setting { options, ..Setting::under(vec![of_cluster]) };
    let found = setting.host(&manifest(&nodes));
    assert!(
        found.contains(&"*: get nodes of ".to_owned()) && found.contains(&"prod: get pods of ".to_owned()),
        "{found:?}"
    );
    assert!(!found.iter().any(|line| line.contains("pods") && line.starts_with('*')), "{found:?}");
    // The policy lacks `cluster: true`.
    let setting = Setting { policy: Some(policy(vec![everything()])), ..setting };
    assert!(!setting.host(&manifest(&nodes)).iter().any(|line| line.contains("nodes")));
}

#[test]
fn names_narrow_the_verbs_that_rbac_can_narrow() {
    let secrets = json!({"permissions": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}]});
    let shops = rule("example.com", &["shops"], &["list", "watch"]);
    let named = Rule { names: list(&["a"]), namespaces: list(&["prod"]), ..rule("", &["secrets"], &["get", "create"]) };
    let found = Setting::under(vec![shops, named]).host(&manifest(&secrets));
    let of_secrets: Vec<_> = found.iter().filter(|line| line.contains("secrets")).collect();
    assert_eq!(of_secrets, ["prod: create secrets of ", "prod: get secrets of  named a"]);
}

#[test]
fn a_star_for_verbs_means_all_verbs_that_a_host_uses() {
    let all = json!({"permissions": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let found = Setting::under(vec![everything()]).host(&manifest(&all));
    let expected = "*: get,list,watch,create,update,patch,delete,deletecollection * of *".to_owned();
    assert!(found.contains(&expected), "{found:?}");
    assert!(!found.iter().any(|line| line.contains("shops")), "it is among that: {found:?}");
}

#[test]
fn requests_denied_to_every_plugin_need_no_right() {
    let others = json!({"permissions": [
        {"apiGroups": ["other.com"], "resources": ["carts"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "namespaces": ["windlass", "prod"]},
    ]});
    let foreign = ForeignKind { group: "other.com".into(), resource: "carts".into(), plugin: "cart".into() };
    let forbidden = Forbidden { host_namespace: Some("windlass".into()), foreign: vec![foreign] };
    let setting = Setting { forbidden, ..Setting::under(vec![everything()]) };
    let found = setting.host(&manifest(&others));
    assert!(!found.iter().any(|line| line.contains("carts") || line.starts_with("windlass")), "{found:?}");
    assert!(found.contains(&"prod: get pods of ".to_owned()), "{found:?}");
}

#[test]
fn an_account_writes_and_the_host_watches_and_impersonates_it() {
    let account = ServiceAccount { namespace: "prod".into(), name: "deployer".into() };
    let setting = Setting { impersonate: Some(account.clone()), ..Setting::under(vec![everything()]) };
    let rights = setting.derive(&owning(&deployments())).expect("all kinds are known");
    let groups = "system:authenticated,system:serviceaccounts,system:serviceaccounts:prod";
    let expected = [
        "*: create subjectaccessreviews of authorization.k8s.io".to_owned(),
        "*: get,create,patch customresourcedefinitions of apiextensions.k8s.io named shops.example.com".to_owned(),
        format!("*: impersonate groups of  named {groups}"),
        "*: list,watch deployments of apps".to_owned(),
        "*: list,watch,patch shops of example.com".to_owned(),
        "prod: impersonate serviceaccounts of  named deployer".to_owned(),
    ];
    assert_eq!(lines(&rights.host), expected);
    let own = lines(&rights.accounts[&account]);
    let expected = [
        "*: create,patch events of events.k8s.io",
        "*: get,list,watch shops of example.com",
        "*: get,list,watch,create,update,patch,delete deployments of apps",
        "*: get,update,patch shops/status of example.com",
        "*: update shops/finalizers of example.com",
    ];
    assert_eq!(own, expected);
}

#[test]
fn secrets_of_a_configuration_are_granted_by_name() {
    let secrets = [("prod".to_owned(), "smtp".to_owned())].into();
    let setting = Setting { secrets, ..Setting::under(vec![]) };
    assert!(setting.host(&manifest(&json!({}))).contains(&"prod: get secrets of  named smtp".to_owned()));
}

#[test]
fn an_unknown_resource_is_an_error_and_never_guessed() {
    let gadget = owning(&json!({"apiVersion": "other.com/v1", "kind": "Gadget"}));
    let error = Setting::default().derive(&gadget).expect_err("its resource is not known").to_string();
    assert!(error.contains("other.com/v1 Gadget") && error.contains("--kubeconfig"), "{error}");
    let permission = json!({"permissions": [{"apiGroups": ["other.com"], "resources": ["gadgets"], "verbs": ["get"]}]});
    let permission = manifest(&permission);
    assert!(Setting::default().derive(&permission).is_ok(), "in a role of the cluster it does not matter");
    let options = RightsOptions { only: Some("prod".to_owned()), ..RightsOptions::default() };
    let error = Setting { options, ..Setting::default() }.derive(&permission).expect_err("where?").to_string();
    assert!(error.contains("gadgets.other.com") && error.contains("cluster-scoped"), "{error}");
}

#[test]
fn a_watch_of_one_name_is_a_right_to_that_name() {
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "namespaces": ["prod"], "fieldSelector": "metadata.name=settings",
        "mapping": {"type": "all"},
    });
    let watching = manifest(&json!({
        "controllers": [{
            "name": "shops", "primary": {"apiVersion": "example.com/v1", "kind": "Shop"}, "watches": [settings],
        }],
    }));
    let named = Rule { names: list(&["settings"]), ..rule("", &["configmaps"], &["list", "watch"]) };
    let setting = Setting::under(vec![rule("example.com", &["shops"], &["list", "watch"]), named]);
    let found = setting.host(&watching);
    assert!(found.contains(&"prod: list,watch configmaps of  named settings".to_owned()), "{found:?}");
}

fn prod() -> RightsScope {
    RightsScope::Namespace("prod".to_owned())
}

fn simplified(rules: impl IntoIterator<Item = (RightsScope, RoleRule)>) -> Rights {
    let mut rights = Rights::default();
    for (scope, rule) in rules {
        rights.add(scope, rule);
    }
    rights.simplified()
}

#[test]
fn rules_are_merged_in_any_order() {
    let rules = [
        (RightsScope::Cluster, RoleRule::new("apps", "deployments", &["list"])),
        (RightsScope::Cluster, RoleRule::new("apps", "deployments", &["watch", "list"])),
        (RightsScope::Cluster, RoleRule::new("apps", "replicasets", &["list", "watch"])),
    ];
    let mut both = RoleRule::new("apps", "deployments", &["list", "watch"]);
    both.resources.insert("replicasets".to_owned());
    let expected = Rights([(RightsScope::Cluster, [both].into())].into());
    assert_eq!(simplified(rules.clone()), expected);
    assert_eq!(simplified(rules.into_iter().rev()), expected);
}

#[test]
fn rights_that_another_rule_includes_are_left_out() {
    let wide = RoleRule::new("", "pods", &["get", "list"]);
    let cluster = (RightsScope::Cluster, wide.clone());
    let alone = simplified([cluster.clone()]);
    for narrower in [
        (prod(), RoleRule::new("", "pods", &["get"])),
        (RightsScope::Cluster, RoleRule::new("", "pods", &["get"]).named(["a"])),
    ] {
        assert_eq!(simplified([cluster.clone(), narrower]), alone);
    }
    let more = simplified([cluster, (prod(), RoleRule::new("", "pods", &["get", "delete"]))]);
    let added = Rights(
        [(RightsScope::Cluster, [wide].into()), (prod(), [RoleRule::new("", "pods", &["delete"])].into())].into(),
    );
    assert_eq!(more, added);
    let all = RoleRule::new("*", "*", &["get"]);
    let scale = RoleRule::new("apps", "deployments/scale", &["get"]);
    assert_eq!(simplified([(prod(), all.clone()), (prod(), scale)]), simplified([(prod(), all)]));
}

#[test]
fn rbac_cannot_narrow_creations_to_names() {
    let rule = RoleRule::new("", "secrets", &["get", "create", "deletecollection"]).named(["a"]);
    let unnamed = RoleRule::new("", "secrets", &["create", "deletecollection"]);
    let expected = Rights([(prod(), [unnamed, RoleRule::new("", "secrets", &["get"]).named(["a"])].into())].into());
    assert_eq!(simplified([(prod(), rule)]), expected);
}

#[test]
fn a_cluster_right_holds_in_each_namespace_but_not_vice_versa() {
    let pods = RoleRule::new("", "pods", &["get"]);
    let (of_cluster, of_prod) =
        (simplified([(RightsScope::Cluster, pods.clone())]), simplified([(prod(), pods.clone())]));
    assert!(of_cluster.allow(&prod(), &pods, "get") && of_cluster.allow(&RightsScope::Cluster, &pods, "get"));
    assert!(of_prod.allow(&prod(), &pods, "get") && !of_prod.allow(&RightsScope::Cluster, &pods, "get"));
    assert!(!of_cluster.allow(&prod(), &pods, "list"));
    assert!(of_cluster.allow(&prod(), &pods.clone().named(["a"]), "get"));
}

#[test]
fn huge_rights_are_not_simplified() {
    let many = |letter: char| (0..100).map(|at| format!("{letter}{at}")).collect::<BTreeSet<_>>();
    let rule = RoleRule { groups: many('g'), resources: many('r'), ..RoleRule::new("", "", &["get"]) };
    assert_eq!(simplified([(prod(), rule.clone())]).0[&prod()], BTreeSet::from([rule]));
}
