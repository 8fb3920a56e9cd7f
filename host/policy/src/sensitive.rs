//! Finds requests that an operator should review with care before granting them. Returns the reasons, the worst first.
//! It does not refuse anything.

use windlass_core::rights::grants::{HttpRule, Rule, Scheme};
use windlass_core::rights::verbs::SIGNERS;

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
    "writes routes into the cluster: it can send their hosts' traffic elsewhere, and expose internal services";
const ADDRESSES: &str = "changes addresses of ingresses or gateways: if DNS follows these, it can send their traffic \
                         elsewhere";
const CUTS: &str = "deletes Services, endpoints or routes: it can cut the traffic of others";

/// The harm that some verbs can do to some resources of a group: group, resources, verbs, harm.
///
/// Each of the verbs alone must be enough to do the harm, because a wrong warning teaches people to skip other
/// warnings.
type Harm = (&'static str, &'static [&'static str], &'static [&'static str], &'static str);

/// The worst comes first.
const HARMS: &[Harm] = &[
    (RBAC, ROLES, PUTS, "writes roles or bindings: it can give itself, or anyone, what the host may give"),
    (
        RBAC,
        &["roles", "clusterroles"],
        &["bind"],
        "binds roles: with the right to write bindings, it can give anyone these roles, also rights that the host lacks",
    ),
    (
        RBAC,
        &["roles", "clusterroles"],
        &["escalate"],
        "escalates roles: with the right to write roles, it can put any right into them, also rights that the host lacks",
    ),
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
    ("", &["secrets"], READS, "reads secrets: they may contain tokens with more rights than this policy grants"),
    (
        "",
        &["secrets"],
        &["create"],
        "creates secrets: if it may read them too, it can create a service account's token for itself",
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
        "approves certificate requests: the requester gets the identity that the request names",
    ),
    (
        "certificates.k8s.io",
        &[SIGNERS],
        &["approve"],
        "approves for these signers: with `certificatesigningrequests/approval`, it decides who gets their certificates",
    ),
    (
        "certificates.k8s.io",
        &[SIGNERS],
        &["sign"],
        "signs as these signers: with `certificatesigningrequests/status`, it issues their certificates",
    ),
    (
        "certificates.k8s.io",
        &["certificatesigningrequests/status"],
        CHANGES,
        "fills in issued certificates: the client that requested one uses whatever it puts there",
    ),
    (
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        DELETES,
        "deletes CustomResourceDefinitions: all objects of their kinds are deleted, too",
    ),
    (
        "apiextensions.k8s.io",
        &["customresourcedefinitions"],
        CHANGES,
        "changes CustomResourceDefinitions: it can change what others' objects may hold",
    ),
    ("", &["namespaces"], DELETES, "deletes namespaces: everything in them is deleted, too"),
    ("", &["namespaces"], CHANGES, "changes namespaces: their labels limit what their Pods may do"),
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
        "binds Pods to nodes: it bypasses the scheduler and decides where they run",
    ),
    ("", &["pods/eviction"], &["create"], "evicts Pods: it can stop what runs"),
    (
        "coordination.k8s.io",
        &["leases"],
        &["update", "patch", "delete", "deletecollection"],
        "writes Leases: it can stop other controllers, or let two replicas of one lead at once",
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
    ("", &["pods/log"], &["get"], "reads the logs of Pods: they may contain passwords and others' data"),
    (
        "",
        &["namespaces/finalize"],
        CHANGES,
        "ends namespaces: objects in them may be left behind where no user can see them",
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
        "deletes webhook configurations, admission policies or bindings: they are no longer enforced",
    ),
];

/// Lesser harms. Each comes with a list of verbs that can do worse to the same resources. If the rule has one of these
/// verbs too, the lesser harm is left out. Otherwise the policies of most plugins would have twice as many warnings,
/// since a plugin usually has all verbs on the kinds that it owns.
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
    (CHANGES, ("", &["secrets"], DELETES, "deletes secrets: values that are stored nowhere else are lost")),
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
            "creates Leases: if a controller's Lease does not exist yet, it can keep the controller from leading",
        ),
    ),
    (CHANGES, ("", &["services", "endpoints"], DELETES, CUTS)),
    (CHANGES, ("discovery.k8s.io", &["endpointslices"], DELETES, CUTS)),
    (CHANGES, ("networking.k8s.io", &["ingresses"], DELETES, CUTS)),
    (CHANGES, (GATEWAY, GATEWAYS, DELETES, CUTS)),
    (
        CHANGES,
        ("", QUOTAS, DELETES, "deletes quotas or limit ranges: their namespace can then use more than they allow"),
    ),
];

/// How many harms are listed for a rule with `*` for resources. Such a rule can do nearly all of them.
const HARMS_OF_STAR_MAX: usize = 3;

/// The reasons why `rule` is sensitive. Empty if none is known.
pub(crate) fn of_rule(rule: &Rule) -> Vec<&'static str> {
    let stars = [
        (is_star(&rule.groups), "`*` for groups: every kind that exists now or is installed later"),
        (is_star(&rule.resources), "`*` for resources: all of them, including their subresources"),
        (is_star(&rule.verbs), "`*` for verbs: all of them, including escalate, bind and impersonate"),
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
        harms.push("and more: replace `*` by the resources that it needs to see which of them are sensitive");
    }
    found.append(&mut harms);
    let scales = rule.resources.iter().any(|it| it.ends_with("/scale"));
    let rest = [
        (scales && has(rule, CHANGES), "scales workloads: it can stop them"),
        (has(rule, &["deletecollection"]), "deletes whole collections at once"),
        (rule.cluster && has(rule, ALL_WRITES), "writes cluster-scoped objects: it is not limited to a namespace"),
    ];
    found.extend(rest.into_iter().filter(|(found, _)| *found).map(|(_, why)| why));
    found
}

/// The reasons why `rule` is sensitive.
pub(crate) fn of_http(rule: &HttpRule) -> Vec<&'static str> {
    let findings = [
        (true, "the plugin can send there what it reads in the cluster"),
        (rule.host.contains('*'), "a wildcard: every host that matches it"),
        (rule.scheme == Scheme::Http, "unencrypted: anyone on the network path can read and change it"),
        (!rule.addresses.is_empty(), "allows addresses that plugins may not reach otherwise"),
    ];
    findings.into_iter().filter(|(found, _)| *found).map(|(_, why)| why).collect()
}

/// The reason why installing CRDs is sensitive.
pub(crate) const CRDS: &str =
    "installs and changes these definitions, which affect the whole cluster, not only a namespace";

/// The reason why a finalizer other than the plugin's own is sensitive.
pub(crate) fn of_finalizer(name: &str, own: &str) -> Option<&'static str> {
    (name != own)
        .then_some("not the plugin's own: others may rely on it, and objects are not deleted until it is removed")
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
            ("", "namespaces", "delete", "everything in them"),
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
    fn each_verb_is_reported_with_its_own_harm() {
        for (group, resource, verb, can, cannot) in [
            (ADMISSION, "validatingwebhookconfigurations", "create", "read and refuse", "change"),
            (ADMISSION, "mutatingwebhookconfigurations", "patch", "read, change and refuse", "validating"),
            (ADMISSION, "validatingadmissionpolicies", "update", "refuse", "change"),
            (ADMISSION, "mutatingadmissionpolicybindings", "patch", "change and refuse", "read"),
            (ADMISSION, "validatingwebhookconfigurations", "delete", "no longer enforced", "refuse"),
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
            ("", "limitranges", "delete", "use more", "keep"),
            ("apiregistration.k8s.io", "apiservices", "delete", "remove", "take over"),
            ("apiregistration.k8s.io", "apiservices", "create", "take over", "remove"),
            ("certificates.k8s.io", "certificatesigningrequests/approval", "update", "identity", "itself"),
            ("certificates.k8s.io", "certificatesigningrequests/status", "update", "requested", "identity"),
            ("certificates.k8s.io", "signers", "approve", "decides who", "issues"),
            ("certificates.k8s.io", "signers", "sign", "issues", "decides who"),
            (RBAC, "clusterroles", "bind", "binds roles", "writes roles or"),
            (RBAC, "roles", "escalate", "escalates roles", "writes roles or"),
            ("coordination.k8s.io", "leases", "create", "keep", "two replicas"),
        ] {
            let said = of_rule(&rule(group, resource, verb));
            let is_right = said.iter().any(|it| it.contains(can)) && !said.iter().any(|it| it.contains(cannot));
            assert!(is_right, "{verb} {resource}: {said:?}");
        }
    }

    #[test]
    fn a_plugin_with_all_verbs_on_a_kind_gets_few_warnings() {
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
    fn create_does_not_hide_the_harm_of_delete() {
        for (group, resource) in [("apps", "deployments"), ("", "pods"), ("", "services"), ("", "resourcequotas")] {
            let verbs = ["create", "delete"].map(str::to_owned).to_vec();
            let said = of_rule(&Rule { verbs, ..rule(group, resource, "get") });
            let deletes = of_rule(&rule(group, resource, "delete"));
            assert!(said.contains(&deletes[0]), "{resource}: {said:?}");
        }
    }

    #[test]
    fn verbs_that_cannot_do_the_harm_are_not_reported() {
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
    fn a_rule_with_stars_lists_only_the_worst_harms() {
        let verbs = ["get", "list", "watch", "update", "delete"].map(str::to_owned).to_vec();
        let said = of_rule(&Rule { verbs, ..rule("*", "*", "get") });
        assert!(said.len() <= 6, "{said:?}");
        assert!(said[0].contains("groups") && said[1].contains("resources") && said[2].contains("roles"), "{said:?}");
        let janitor = of_rule(&Rule { verbs: vec!["list".into(), "delete".into()], ..rule("*", "*", "get") });
        assert!(!janitor.iter().any(|why| why.contains("makes") || why.contains("runs")), "{janitor:?}");
    }
}
