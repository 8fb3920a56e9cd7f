//! Finds requests that an operator should look at twice before granting them, and the reasons, sorted by possible harm.
//! It refuses nothing.

use windlass_core::rights::grants::{HttpRule, Rule, Scheme};

const ALL_WRITES: &[&str] = &["create", "update", "patch", "delete", "deletecollection"];
const PUTS: &[&str] = &["create", "update", "patch"];
const CHANGES: &[&str] = &["update", "patch"];
const DELETES: &[&str] = &["delete", "deletecollection"];
const READS: &[&str] = &["get", "list", "watch"];
const CONNECTS: &[&str] = &["get", "create"];
const PROXIES: &[&str] = &["get", "create", "update", "patch", "delete"];

const RBAC: &str = "rbac.authorization.k8s.io";
const ROLES: &[&str] = &["roles", "clusterroles", "rolebindings", "clusterrolebindings"];

const ADMISSION: &str = "admissionregistration.k8s.io";
/// The resources that decide which requests the API server admits or changes.
const ADMISSION_RULES: &[&str] = &[
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

const CERTIFICATES: &[&str] = &["certificatesigningrequests/approval", "certificatesigningrequests/status"];
const GATEWAYS: &[&str] = &["gateways", "httproutes", "grpcroutes", "tlsroutes", "tcproutes", "udproutes"];

const RUNS_PODS: &str = "runs Pods: code of its choice, with any service account and secret of the namespace";
const REDIRECTS: &str = "writes endpoints: it can send the traffic of a Service elsewhere";
const ROUTES: &str =
    "writes routes from outside: it can send their hosts' traffic elsewhere, and expose what is inside";

/// The harm that some verbs can do to some resources of a group: group, resources, verbs, harm. The worst comes first.
///
/// Each has only verbs that can do what it says: a warning that is wrong teaches people to skip the others.
const HARMS: &[(&str, &[&str], &[&str], &str)] = &[
    (
        RBAC,
        ROLES,
        &["create", "update", "patch", "escalate", "bind"],
        "writes roles or bindings: it can give itself, or anyone, what the host may give",
    ),
    ("", &["users", "groups", "serviceaccounts"], &["impersonate"], "includes impersonate: it can act as others"),
    ("", &["serviceaccounts/token"], &["create"], "makes tokens of service accounts: it can act as any of them"),
    (
        ADMISSION,
        ADMISSION_RULES,
        PUTS,
        "writes webhook configurations or admission policies: it can change and block every request to the API",
    ),
    (
        "apiregistration.k8s.io",
        &["apiservices"],
        ALL_WRITES,
        "writes APIServices: it can take over whole API groups, or remove them",
    ),
    ("", &["secrets"], READS, "reads secrets: among them may be tokens that can do more than this policy"),
    ("", &["secrets"], &["create"], "creates secrets: it can make itself the token of a service account"),
    ("", &["secrets"], CHANGES, "changes secrets: it can replace others' passwords"),
    ("", &["nodes/proxy"], PROXIES, "reaches the kubelets: it can run commands in every Pod of a node"),
    ("", &["pods/exec", "pods/attach", "pods/portforward"], CONNECTS, "reaches into running Pods"),
    ("", &["pods/proxy", "services/proxy"], PROXIES, "reaches into running Pods"),
    ("", &["pods/ephemeralcontainers"], CHANGES, "adds containers to running Pods"),
    (
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        DELETES,
        "deletes CustomResourceDefinitions: with each go all its objects",
    ),
    (
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        PUTS,
        "writes CustomResourceDefinitions: it can change what others' objects may hold",
    ),
    ("", &["namespaces"], DELETES, "deletes namespaces: with each goes all that is in it"),
    ("", &["namespaces"], CHANGES, "changes namespaces: their labels say how much their Pods may do"),
    ("certificates.k8s.io", CERTIFICATES, CHANGES, "has certificates signed: it can make itself an identity"),
    ("", &["nodes"], ALL_WRITES, "changes nodes: it can move or stop workloads"),
    ("", &["nodes/status"], CHANGES, "changes nodes: it can move or stop workloads"),
    ("", &["persistentvolumes"], PUTS, "writes persistent volumes: it can reach files of nodes"),
    ("", &["pods", "replicationcontrollers"], PUTS, RUNS_PODS),
    ("apps", &["deployments", "daemonsets", "statefulsets", "replicasets"], PUTS, RUNS_PODS),
    ("batch", &["jobs", "cronjobs"], PUTS, RUNS_PODS),
    (
        "",
        &["pods/binding", "bindings"],
        &["create"],
        "binds Pods to nodes: it decides past the scheduler where they run",
    ),
    ("", &["pods/eviction"], &["create"], "evicts Pods: it can stop what runs"),
    (
        "coordination.k8s.io",
        &["leases"],
        ALL_WRITES,
        "writes Leases: it can stop other controllers, or have two of one kind lead at once",
    ),
    (
        "",
        &["services"],
        PUTS,
        "writes Services: it can send their traffic elsewhere, and expose Pods outside of the cluster",
    ),
    ("", &["endpoints"], PUTS, REDIRECTS),
    ("discovery.k8s.io", &["endpointslices"], PUTS, REDIRECTS),
    ("networking.k8s.io", &["ingresses"], PUTS, ROUTES),
    ("gateway.networking.k8s.io", GATEWAYS, PUTS, ROUTES),
    (
        "networking.k8s.io",
        &["networkpolicies"],
        ALL_WRITES,
        "writes network policies: it can open or cut the connections of Pods",
    ),
    (RBAC, ROLES, DELETES, "deletes roles or bindings: others lose their rights"),
    (
        ADMISSION,
        ADMISSION_RULES,
        DELETES,
        "deletes webhook configurations or admission policies: they protect nothing then",
    ),
];

/// The most harms that are listed of a rule with `*` for resources, which has nearly all of them.
const HARMS_OF_STAR_MAX: usize = 3;

/// The reasons why `rule` is sensitive. Empty if none is known.
pub(crate) fn of_rule(rule: &Rule) -> Vec<&'static str> {
    let stars = [
        (is_star(&rule.groups), "`*` for groups: every kind that exists now or is installed later"),
        (is_star(&rule.resources), "`*` for resources: all of them, their subresources included"),
        (is_star(&rule.verbs), "`*` for verbs: all of them, escalate, bind and impersonate included"),
    ];
    let mut found: Vec<_> = stars.into_iter().filter(|(found, _)| *found).map(|(_, why)| why).collect();
    let about =
        |group: &str, resources: &[&str]| names(&rule.groups, group) && resources.iter().any(|it| covers(rule, it));
    let mut harms: Vec<&'static str> = Vec::new();
    for (group, resources, verbs, harm) in HARMS {
        if about(group, resources) && has(rule, verbs) && !harms.contains(harm) {
            harms.push(harm);
        }
    }
    if is_star(&rule.resources) && harms.len() > HARMS_OF_STAR_MAX {
        harms.truncate(HARMS_OF_STAR_MAX);
        harms.push("and more of that kind: name the resources that it needs, and this says what is sensitive of them");
    }
    found.append(&mut harms);
    let scales = rule.resources.iter().any(|it| it.ends_with("/scale"));
    let rest = [
        (scales && has(rule, CHANGES), "scales workloads: it can stop them"),
        (has(rule, &["deletecollection"]), "deletes whole collections at once"),
        (rule.cluster && has(rule, ALL_WRITES), "writes cluster-scoped objects: no namespace bounds it"),
    ];
    found.extend(rest.into_iter().filter(|(found, _)| *found).map(|(_, why)| why));
    found
}

/// The reasons why `rule` is sensitive.
pub(crate) fn of_http(rule: &HttpRule) -> Vec<&'static str> {
    let findings = [
        (true, "what the plugin reads in the cluster it can send there"),
        (rule.host.contains('*'), "a wildcard: every host of that form"),
        (rule.scheme == Scheme::Http, "in the clear: who listens on the way reads and changes it"),
        (!rule.addresses.is_empty(), "lifts the denial of addresses that plugins may never reach otherwise"),
    ];
    findings.into_iter().filter(|(found, _)| *found).map(|(_, why)| why).collect()
}

/// The reason why installing CRDs is sensitive.
pub(crate) const CRDS: &str = "installs and changes these definitions: they are the cluster's, not a namespace's";

/// The reason why a finalizer other than the plugin's own is sensitive.
pub(crate) fn of_finalizer(name: &str, own: &str) -> Option<&'static str> {
    (name != own).then_some("not the plugin's own: others may rely on it, and objects wait for who removes it")
}

fn is_star(list: &[String]) -> bool {
    list.iter().any(|item| item == "*")
}

fn names(list: &[String], value: &str) -> bool {
    list.iter().any(|item| item == "*" || item == value)
}

fn has(rule: &Rule, verbs: &[&str]) -> bool {
    rule.verbs.iter().any(|verb| verb == "*" || verbs.contains(&&**verb))
}

fn covers(rule: &Rule, resource: &str) -> bool {
    let subresource = resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
    rule.resources.iter().any(|item| item == "*" || item == resource || Some(item) == subresource.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(group: &str, resource: &str, verb: &str) -> Rule {
        let list = |item: &str| vec![item.to_owned()];
        Rule { groups: list(group), resources: list(resource), verbs: list(verb), cluster: false, ..Rule::default() }
    }

    #[test]
    fn harmful_requests_are_sensitive() {
        for (group, resource, verb, word) in [
            ("", "secrets", "get", "tokens"),
            ("", "pods/exec", "create", "running Pods"),
            ("", "*/exec", "create", "running Pods"),
            ("", "serviceaccounts/token", "create", "act as any"),
            ("", "nodes/proxy", "get", "kubelets"),
            ("apps", "deployments", "create", "runs Pods"),
            (RBAC, "clusterroles", "patch", "roles"),
            (ADMISSION, "validatingwebhookconfigurations", "update", "webhook"),
            (ADMISSION, "validatingadmissionpolicybindings", "delete", "admission policies"),
            (ADMISSION, "mutatingadmissionpolicies", "create", "admission policies"),
            ("", "endpoints", "patch", "traffic"),
            ("discovery.k8s.io", "endpointslices", "create", "traffic"),
            ("", "pods/binding", "create", "scheduler"),
            ("", "pods/eviction", "create", "evicts"),
            ("apiextensions.k8s.io", "customresourcedefinitions", "delete", "definition"),
            ("coordination.k8s.io", "leases", "update", "controllers"),
            ("", "services", "create", "traffic"),
            ("networking.k8s.io", "ingresses", "patch", "traffic"),
            ("gateway.networking.k8s.io", "httproutes", "create", "traffic"),
            ("networking.k8s.io", "networkpolicies", "delete", "connections"),
            ("apps", "deployments/scale", "patch", "scales"),
            ("*", "*/scale", "update", "scales"),
            ("", "serviceaccounts", "impersonate", "act as others"),
            ("", "namespaces", "delete", "all that is in it"),
            ("*", "things", "get", "groups"),
            ("", "configmaps", "*", "verbs"),
        ] {
            let said = of_rule(&rule(group, resource, verb)).join("\n").to_lowercase();
            assert!(said.contains(&word.to_lowercase()), "{group} {resource} {verb}: {said}");
        }
        let cluster = Rule { cluster: true, ..rule("example.com", "things", "patch") };
        assert!(of_rule(&cluster)[0].contains("cluster-scoped"));
    }

    #[test]
    fn nothing_is_said_of_verbs_that_cannot_do_the_harm() {
        for (group, resource, verb) in [
            ("", "configmaps", "patch"),
            ("apps", "deployments", "get"),
            ("apps", "deployments/scale", "get"),
            ("", "services", "list"),
            ("", "serviceaccounts/token", "list"),
            ("", "pods/exec", "list"),
            ("", "nodes/proxy", "watch"),
            ("", "namespaces", "create"),
            ("", "secrets", "delete"),
            ("certificates.k8s.io", "certificatesigningrequests", "create"),
            ("coordination.k8s.io", "leases", "watch"),
        ] {
            let said = of_rule(&rule(group, resource, verb));
            assert!(said.is_empty(), "{group} {resource} {verb}: {said:?}");
        }
        let created = of_rule(&rule("", "secrets", "create"));
        assert!(created.len() == 1 && created[0].contains("token"), "{created:?}");
        let changed = of_rule(&rule("", "secrets", "patch"));
        assert!(changed.len() == 1 && !changed[0].contains("token"), "{changed:?}");
        let deleted = of_rule(&rule(RBAC, "roles", "delete"));
        assert!(deleted.len() == 1 && !deleted[0].contains("itself"), "{deleted:?}");
    }

    #[test]
    fn a_rule_over_everything_says_the_worst_and_not_all_of_it() {
        let verbs = ["get", "list", "watch", "update", "delete"].map(str::to_owned).to_vec();
        let said = of_rule(&Rule { verbs, ..rule("*", "*", "get") });
        assert!(said.len() <= 6, "{said:?}");
        assert!(said[0].contains("groups") && said[1].contains("resources") && said[2].contains("roles"), "{said:?}");
        let janitor = of_rule(&Rule { verbs: vec!["list".into(), "delete".into()], ..rule("*", "*", "get") });
        assert!(!janitor.iter().any(|why| why.contains("makes") || why.contains("runs")), "{janitor:?}");
    }
}
