//! Finds requests that an operator should look at twice before granting them, and the reasons, sorted by possible harm.
//! It refuses nothing.

use windlass_core::rights::grants::{HttpRule, Rule, Scheme};

const WRITES: [&str; 6] = ["create", "update", "patch", "delete", "deletecollection", "*"];
const READS: [&str; 4] = ["get", "list", "watch", "*"];
const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// The resources that decide which requests the API server admits or changes.
const ADMISSION_RULES: [&str; 6] = [
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

/// The reasons why `rule` is sensitive. Empty if none is known.
pub(crate) fn of_rule(rule: &Rule) -> Vec<&'static str> {
    let about =
        |group: &str, resources: &[&str]| names(&rule.groups, group) && resources.iter().any(|it| covers(rule, it));
    let (reads, writes) = (has(rule, &READS), has(rule, &WRITES));
    let workloads = about("", &["pods", "replicationcontrollers"])
        || about("apps", &["deployments", "daemonsets", "statefulsets", "replicasets"])
        || about("batch", &["jobs", "cronjobs"]);
    let findings = [
        (is_star(&rule.groups), "`*` for groups: every kind that exists now or is installed later"),
        (is_star(&rule.resources), "`*` for resources: all of them, their subresources included"),
        (is_star(&rule.verbs), "`*` for verbs: all of them, escalate, bind and impersonate included"),
        (
            about(RBAC, &["roles", "clusterroles", "rolebindings", "clusterrolebindings"]) && writes,
            "writes roles or bindings: it can give itself, or anyone, what the host may give",
        ),
        (
            about(ADMISSION, &ADMISSION_RULES) && writes,
            "writes webhook configurations or admission policies: it can change and block every request to the API",
        ),
        (
            about("apiextensions.k8s.io", &["customresourcedefinitions"]) && writes,
            "writes CustomResourceDefinitions: deleting one deletes all its objects",
        ),
        (
            about("apiregistration.k8s.io", &["apiservices"]) && writes,
            "writes APIServices: it can take over whole API groups",
        ),
        (about("", &["secrets"]) && reads, "reads secrets: among them may be tokens that can do more than this policy"),
        (about("", &["secrets"]) && writes, "writes secrets: it can make itself a token, or change others' passwords"),
        (
            about("", &["serviceaccounts/token"]) && writes,
            "makes tokens of service accounts: it can act as any of them",
        ),
        (
            about("", &["users", "groups", "serviceaccounts"]) && rule.verbs.iter().any(|verb| verb == "*"),
            "includes impersonate: it can act as others",
        ),
        (
            about("", &["pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy"]),
            "reaches into running Pods",
        ),
        (about("", &["pods/ephemeralcontainers"]) && writes, "adds containers to running Pods"),
        (about("", &["pods/binding", "bindings"]) && writes, "binds Pods to nodes: it bypasses the scheduler"),
        (about("", &["pods/eviction"]) && writes, "evicts Pods: it can stop what runs"),
        (
            (about("", &["endpoints"]) || about("discovery.k8s.io", &["endpointslices"])) && writes,
            "writes endpoints: it can send the traffic of a Service elsewhere",
        ),
        (about("", &["nodes/proxy"]), "reaches the kubelets: it can run commands in every Pod of a node"),
        (about("", &["nodes", "nodes/status"]) && writes, "changes nodes: it can move or stop workloads"),
        (about("", &["namespaces"]) && writes, "writes namespaces: deleting one deletes all that is in it"),
        (about("", &["persistentvolumes"]) && writes, "writes persistent volumes: it can reach files of nodes"),
        (
            about("certificates.k8s.io", &["certificatesigningrequests", "certificatesigningrequests/approval"])
                && writes,
            "has certificates signed: it can create an identity for itself",
        ),
        (
            workloads && has(rule, &["create", "update", "patch", "*"]),
            "runs Pods: code of its choice, with any service account and secret of the namespace",
        ),
        (has(rule, &["deletecollection"]), "deletes whole collections at once"),
        (rule.cluster && writes, "writes cluster-scoped objects: no namespace bounds it"),
    ];
    findings.into_iter().filter(|(found, _)| *found).map(|(_, why)| why).collect()
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
    rule.verbs.iter().any(|verb| verbs.contains(&&**verb))
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
            ("*", "things", "get", "groups"),
            ("", "configmaps", "*", "verbs"),
        ] {
            let said = of_rule(&rule(group, resource, verb)).join("\n").to_lowercase();
            assert!(said.contains(&word.to_lowercase()), "{group} {resource} {verb}: {said}");
        }
        let cluster = Rule { cluster: true, ..rule("example.com", "things", "patch") };
        assert!(of_rule(&cluster)[0].contains("cluster-scoped"));
        for harmless in
            [rule("", "configmaps", "patch"), rule("apps", "deployments", "get"), rule("", "services", "create")]
        {
            assert!(of_rule(&harmless).is_empty(), "{harmless:?}");
        }
    }
}
