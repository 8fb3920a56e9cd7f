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
const MUTATING_POLICIES: &[&str] = &["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"];
const VALIDATING_POLICIES: &[&str] = &["validatingadmissionpolicies", "validatingadmissionpolicybindings"];

const GATEWAY: &str = "gateway.networking.k8s.io";
const GATEWAYS: &[&str] = &["gateways", "httproutes", "grpcroutes", "tlsroutes", "tcproutes", "udproutes"];
const QUOTAS: &[&str] = &["resourcequotas", "limitranges"];

const RUNS_PODS: &str = "runs Pods: code of its choice, with any service account and secret of the namespace";
const STOPS: &str = "deletes Pods or workloads: it can stop what others run";
const REDIRECTS: &str = "writes endpoints: it can send the traffic of a Service elsewhere";
const ROUTES: &str =
    "writes routes from outside: it can send their hosts' traffic elsewhere, and expose what is inside";
const ADDRESSES: &str = "changes addresses of ingresses or gateways: where DNS follows them, it can send their traffic \
                         elsewhere";
const CUTS: &str = "deletes Services, endpoints or routes: it can cut the traffic of others";

/// The harm that some verbs can do to some resources of a group: group, resources, verbs, harm.
///
/// Each of the verbs alone can do what the text says, and that harms others. A wrong warning teaches people to skip the
/// rest.
type Harm = (&'static str, &'static [&'static str], &'static [&'static str], &'static str);

/// The worst comes first.
const HARMS: &[Harm] = &[
    (RBAC, ROLES, PUTS, "writes roles or bindings: it can give itself, or anyone, what the host may give"),
    ("", &["users", "groups", "serviceaccounts"], &["impersonate"], "includes impersonate: it can act as others"),
    ("", &["serviceaccounts/token"], &["create"], "makes tokens of service accounts: it can act as any of them"),
    (
        ADMISSION,
        &["mutatingwebhookconfigurations"],
        PUTS,
        "writes mutating webhooks: it can read, change and refuse what others write to the API",
    ),
    (
        ADMISSION,
        MUTATING_POLICIES,
        PUTS,
        "writes mutating admission policies or their bindings: it can change and refuse what others write to the API",
    ),
    (
        ADMISSION,
        &["validatingwebhookconfigurations"],
        PUTS,
        "writes validating webhooks: it can read and refuse what others write to the API",
    ),
    (
        ADMISSION,
        VALIDATING_POLICIES,
        PUTS,
        "writes validating admission policies or their bindings: it can refuse what others write to the API",
    ),
    ("apiregistration.k8s.io", &["apiservices"], PUTS, "writes APIServices: it can take over whole API groups"),
    ("", &["secrets"], READS, "reads secrets: among them may be tokens that can do more than this policy"),
    (
        "",
        &["secrets"],
        &["create"],
        "creates secrets: if it may read them too, it can make itself the token of a service account",
    ),
    (
        "",
        &["secrets"],
        &["patch"],
        "patches secrets, and reads them in the answers: it can learn and replace others' passwords and tokens",
    ),
    ("", &["nodes/proxy"], CONNECTS, "reaches the kubelets: it can run commands in every Pod of a node"),
    ("", &["pods/exec", "pods/attach", "pods/portforward"], CONNECTS, "reaches into running Pods"),
    ("", &["pods/proxy", "services/proxy"], PROXIES, "reaches into running Pods"),
    ("", &["pods/ephemeralcontainers"], CHANGES, "adds containers to running Pods"),
    (
        "certificates.k8s.io",
        &["certificatesigningrequests/approval"],
        CHANGES,
        "approves certificate requests: who made one gets the identity that it names",
    ),
    (
        "certificates.k8s.io",
        &["certificatesigningrequests/status"],
        CHANGES,
        "fills in issued certificates: who requested one uses what it puts there",
    ),
    (
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        DELETES,
        "deletes CustomResourceDefinitions: with each go all its objects",
    ),
    (
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        CHANGES,
        "changes CustomResourceDefinitions: it can change what others' objects may hold",
    ),
    ("", &["namespaces"], DELETES, "deletes namespaces: with each goes all that is in it"),
    ("", &["namespaces"], CHANGES, "changes namespaces: their labels say how much their Pods may do"),
    ("", &["nodes"], ALL_WRITES, "changes nodes: it can move or stop workloads"),
    ("", &["nodes/status"], CHANGES, "changes nodes: it can move or stop workloads"),
    (
        "",
        &["persistentvolumes"],
        &["create"],
        "creates persistent volumes: Pods that use them can reach files of nodes",
    ),
    (
        "",
        &["persistentvolumes"],
        CHANGES,
        "changes persistent volumes: it decides who gets their data, and whether it is deleted",
    ),
    ("", &["pods"], &["create"], RUNS_PODS),
    ("", &["replicationcontrollers"], PUTS, RUNS_PODS),
    ("apps", &["deployments", "daemonsets", "statefulsets", "replicasets"], PUTS, RUNS_PODS),
    ("batch", &["jobs"], &["create"], RUNS_PODS),
    ("batch", &["cronjobs"], PUTS, RUNS_PODS),
    ("", &["persistentvolumeclaims"], DELETES, "deletes volume claims: their data can go with them"),
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
        &["update", "patch", "delete", "deletecollection"],
        "writes Leases: it can stop other controllers, or have two of one kind lead at once",
    ),
    (
        "",
        &["services"],
        PUTS,
        "writes Services: it can take traffic that is meant for others, and expose Pods outside of the cluster",
    ),
    (
        "",
        &["services/status"],
        CHANGES,
        "changes addresses of load balancers: it can take traffic that is meant for others",
    ),
    (
        "",
        &["pods/status"],
        CHANGES,
        "changes the status of Pods: it can send their Services' traffic elsewhere, and have them replaced",
    ),
    ("", &["pods/resize"], CHANGES, "resizes running Pods: it can take their CPU and memory away"),
    ("", &["pods/log"], &["get"], "reads the logs of Pods: passwords and others' data may stand in them"),
    (
        "",
        &["namespaces/finalize"],
        CHANGES,
        "ends namespaces: what is in them may be left behind, where nobody sees it",
    ),
    (
        "autoscaling",
        &["horizontalpodautoscalers"],
        PUTS,
        "writes HorizontalPodAutoscalers: it can scale what others run up or down",
    ),
    ("", &["endpoints"], PUTS, REDIRECTS),
    ("discovery.k8s.io", &["endpointslices"], PUTS, REDIRECTS),
    ("networking.k8s.io", &["ingresses"], PUTS, ROUTES),
    (GATEWAY, GATEWAYS, PUTS, ROUTES),
    ("networking.k8s.io", &["ingresses/status"], CHANGES, ADDRESSES),
    (GATEWAY, &["gateways/status"], CHANGES, ADDRESSES),
    (
        "networking.k8s.io",
        &["networkpolicies"],
        ALL_WRITES,
        "writes network policies: it can open or cut the connections of Pods",
    ),
    ("", QUOTAS, PUTS, "writes quotas or limit ranges: it can keep a namespace's new Pods from starting"),
    (RBAC, ROLES, DELETES, "deletes roles or bindings: others lose their rights"),
    (
        ADMISSION,
        ADMISSION_RULES,
        DELETES,
        "deletes webhook configurations, admission policies or bindings: nothing enforces them then",
    ),
];

/// Harms that are left out if the rule has one of the verbs in front, with which it can do worse to the same resources.
/// Most plugins have all verbs on the kinds that they own. Their policies would have twice as many warnings otherwise.
const LESSER_HARMS: &[(&[&str], Harm)] = &[
    (
        CHANGES,
        (
            "apiregistration.k8s.io",
            &["apiservices"],
            DELETES,
            "deletes APIServices: it can remove API groups that others serve",
        ),
    ),
    (&["patch"], ("", &["secrets"], &["update"], "updates secrets: it can replace others' passwords and tokens")),
    (CHANGES, ("", &["secrets"], DELETES, "deletes secrets: what only they hold is lost")),
    (CHANGES, ("", &["persistentvolumes"], DELETES, "deletes persistent volumes: their data can go with them")),
    (
        &["create"],
        ("", &["pods"], CHANGES, "changes Pods: it can have them run other images, with the rights that they have"),
    ),
    (&["create"], ("batch", &["jobs"], CHANGES, "changes Jobs: it can stop them")),
    (CHANGES, ("", &["pods", "replicationcontrollers"], DELETES, STOPS)),
    (CHANGES, ("apps", &["deployments", "daemonsets", "statefulsets", "replicasets"], DELETES, STOPS)),
    (CHANGES, ("batch", &["jobs", "cronjobs"], DELETES, STOPS)),
    (
        &["update", "patch", "delete", "deletecollection"],
        (
            "coordination.k8s.io",
            &["leases"],
            &["create"],
            "creates Leases: it can keep controllers from leading whose Lease is not there yet",
        ),
    ),
    (CHANGES, ("", &["services", "endpoints"], DELETES, CUTS)),
    (CHANGES, ("discovery.k8s.io", &["endpointslices"], DELETES, CUTS)),
    (CHANGES, ("networking.k8s.io", &["ingresses"], DELETES, CUTS)),
    (CHANGES, (GATEWAY, GATEWAYS, DELETES, CUTS)),
    (CHANGES, ("", QUOTAS, DELETES, "deletes quotas or limit ranges: nothing bounds what their namespace uses then")),
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
    let lesser = LESSER_HARMS.iter().filter(|(worse, _)| !has(rule, worse)).map(|(_, harm)| harm);
    for (group, resources, verbs, harm) in HARMS.iter().chain(lesser) {
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
    fn each_verb_is_said_to_do_only_what_it_can_do() {
        for (group, resource, verb, can, cannot) in [
            (ADMISSION, "validatingwebhookconfigurations", "create", "read and refuse", "change"),
            (ADMISSION, "mutatingwebhookconfigurations", "patch", "read, change and refuse", "validating"),
            (ADMISSION, "validatingadmissionpolicies", "update", "refuse", "change"),
            (ADMISSION, "mutatingadmissionpolicybindings", "patch", "change and refuse", "read"),
            (ADMISSION, "validatingwebhookconfigurations", "delete", "nothing enforces", "refuse"),
            ("", "secrets", "patch", "reads them", "creates"),
            ("", "secrets", "update", "replace", "reads"),
            ("", "secrets", "create", "if it may read", "replace"),
            ("", "pods/resize", "patch", "resizes", "images"),
            ("", "pods/log", "get", "logs", "resizes"),
            ("", "namespaces/finalize", "update", "left behind", "deletes"),
            ("autoscaling", "horizontalpodautoscalers", "create", "scale", "deletes"),
            ("", "secrets", "delete", "lost", "token"),
            ("", "services/status", "patch", "meant for others", "expose"),
            ("", "services", "delete", "cut the traffic", "expose"),
            ("", "pods/status", "update", "elsewhere", "images"),
            ("networking.k8s.io", "ingresses/status", "patch", "DNS", "expose"),
            (GATEWAY, "gateways/status", "update", "DNS", "expose"),
            ("", "pods", "patch", "other images", "any service account"),
            ("", "pods", "delete", "stop", "runs Pods"),
            ("apps", "statefulsets", "deletecollection", "stop", "runs Pods"),
            ("batch", "jobs", "patch", "stop", "runs Pods"),
            ("batch", "cronjobs", "patch", "runs Pods", "deletes"),
            ("", "persistentvolumeclaims", "delete", "data", "files of nodes"),
            ("", "persistentvolumes", "create", "files of nodes", "data"),
            ("", "persistentvolumes", "patch", "who gets their data", "files"),
            ("", "persistentvolumes", "delete", "data", "files"),
            ("", "resourcequotas", "create", "keep", "deletes"),
            ("", "limitranges", "delete", "nothing bounds", "keep"),
            ("apiregistration.k8s.io", "apiservices", "delete", "remove", "take over"),
            ("apiregistration.k8s.io", "apiservices", "create", "take over", "remove"),
            ("certificates.k8s.io", "certificatesigningrequests/approval", "update", "identity", "itself"),
            ("certificates.k8s.io", "certificatesigningrequests/status", "update", "requested", "identity"),
            ("coordination.k8s.io", "leases", "create", "keep", "two of one kind"),
        ] {
            let said = of_rule(&rule(group, resource, verb));
            let is_right = said.iter().any(|it| it.contains(can)) && !said.iter().any(|it| it.contains(cannot));
            assert!(is_right, "{verb} {resource}: {said:?}");
        }
    }

    #[test]
    fn an_owner_of_an_ordinary_kind_has_a_line_for_the_worst_that_it_can_do() {
        let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"].map(str::to_owned).to_vec();
        for (group, resource, lines) in [
            ("", "configmaps", 0),
            ("", "serviceaccounts", 0),
            ("", "persistentvolumeclaims", 1),
            ("", "pods", 1),
            ("", "services", 1),
            ("apps", "deployments", 1),
            ("batch", "jobs", 1),
            ("networking.k8s.io", "ingresses", 1),
            ("coordination.k8s.io", "leases", 1),
            ("", "secrets", 3),
        ] {
            let said = of_rule(&Rule { verbs: verbs.clone(), ..rule(group, resource, "get") });
            assert_eq!(said.len(), lines, "{resource}: {said:?}");
        }
    }

    #[test]
    fn a_creator_that_also_deletes_is_said_to_delete() {
        for (group, resource) in [("apps", "deployments"), ("", "pods"), ("", "services"), ("", "resourcequotas")] {
            let verbs = ["create", "delete"].map(str::to_owned).to_vec();
            let said = of_rule(&Rule { verbs, ..rule(group, resource, "get") });
            let deletes = of_rule(&rule(group, resource, "delete"));
            assert!(said.contains(&deletes[0]), "{resource}: {said:?}");
        }
    }

    #[test]
    fn nothing_is_said_of_verbs_that_cannot_do_the_harm() {
        for (group, resource, verb) in [
            ("", "configmaps", "patch"),
            ("", "configmaps", "delete"),
            ("apps", "deployments", "get"),
            ("apps", "deployments/scale", "get"),
            ("apps", "deployments/status", "patch"),
            ("", "services", "list"),
            ("", "services/status", "get"),
            ("", "pods/status", "get"),
            ("", "resourcequotas", "get"),
            ("", "persistentvolumeclaims", "create"),
            ("", "serviceaccounts/token", "list"),
            ("", "pods/exec", "list"),
            ("", "nodes/proxy", "watch"),
            ("", "nodes/proxy", "delete"),
            ("", "namespaces", "create"),
            ("apiextensions.k8s.io", "customresourcedefinitions", "create"),
            ("certificates.k8s.io", "certificatesigningrequests", "create"),
            ("coordination.k8s.io", "leases", "watch"),
        ] {
            let said = of_rule(&rule(group, resource, verb));
            assert!(said.is_empty(), "{group} {resource} {verb}: {said:?}");
        }
        for (group, resource, verb) in [("", "secrets", "create"), ("", "secrets", "patch"), (RBAC, "roles", "delete")]
        {
            let said = of_rule(&rule(group, resource, verb));
            assert_eq!(said.len(), 1, "{group} {resource} {verb}: {said:?}");
        }
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
