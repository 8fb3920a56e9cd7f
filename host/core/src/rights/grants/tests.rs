use proptest::prelude::*;

use super::*;

fn rule() -> Rule {
    Rule {
        groups: vec!["apps".into()],
        resources: vec!["deployments".into()],
        verbs: vec!["patch".into()],
        ..Rule::default()
    }
}

fn patch<'a>(key: &'a ObjectKey, subresource: &'a str) -> Access<'a> {
    Access { verb: "patch", group: "apps", resource: "deployments", subresource, namespaced: true, key: Some(key) }
}

#[test]
fn requests_that_no_rule_covers_are_denied() {
    let key = ObjectKey::namespaced("prod", "shop");
    assert!(!Grants::default().allows(&patch(&key, "")));
    let grants = Grants::new(vec![rule()]);
    assert!(grants.allows(&patch(&key, "")));
    assert!(!grants.allows(&Access { verb: "delete", ..patch(&key, "") }));
    assert!(!grants.allows(&Access { group: "", ..patch(&key, "") }));
}

#[test]
fn denials_of_one_cause_merge_and_list_all_rules() {
    let policy = Allowance { rules: vec![Rule { verbs: vec!["get".into()], ..rule() }], ..Allowance::default() };
    let all = || vec!["*".to_owned()];
    let everything = Rule { groups: all(), resources: all(), verbs: all(), ..Rule::default() };
    let grants = Grants::new(vec![everything]).bounded(Layer::Policy, Arc::new(policy));
    let key = ObjectKey::namespaced("prod", "shop");
    let everywhere = Access { key: None, ..patch(&key, "") };
    let services = Access { group: "", resource: "services", ..everywhere };
    let verbs = ["get", "list", "watch"];
    let denials = [&everywhere, &services, &services].map(|access| grants.denied_verbs(&verbs, access));
    let merged = Denial::merged(denials.into_iter().flatten());
    let said: Vec<_> = merged.iter().map(ToString::to_string).collect();
    let expected = "nothing in its policy allows it to list, watch deployments.apps and get, list, watch services; missing: rules: \
        - {apiGroups: [\"apps\"], resources: [\"deployments\"], verbs: [\"list\", \"watch\"]} \
        - {apiGroups: [\"\"], resources: [\"services\"], verbs: [\"get\", \"list\", \"watch\"]}";
    assert_eq!(said, [expected]);
    assert!(grants.denied_verbs(&["get"], &everywhere).is_empty());
}

#[test]
fn only_groups_that_rules_name_are_of_concern() {
    let grants = Grants::new(vec![rule()]);
    assert!(grants.concern_group("apps") && !grants.concern_group("") && !grants.concern_group("invented"));
    assert!(Grants::new(vec![Rule { groups: vec!["*".into()], ..rule() }]).concern_group("invented"));
}

#[test]
fn a_resource_does_not_include_its_subresources() {
    let key = ObjectKey::namespaced("prod", "shop");
    assert!(!Grants::new(vec![rule()]).allows(&patch(&key, "scale")));
    let scale = Rule { resources: vec!["deployments/scale".into()], ..rule() };
    assert!(Grants::new(vec![scale]).allows(&patch(&key, "scale")));
}

#[test]
fn a_rule_for_namespaces_covers_no_other_namespace_and_no_cluster_scope() {
    let grants = Grants::new(vec![Rule { namespaces: vec!["prod".into()], ..rule() }]);
    assert!(grants.allows(&patch(&ObjectKey::namespaced("prod", "a"), "")));
    assert!(!grants.allows(&patch(&ObjectKey::namespaced("test", "a"), "")));
    assert!(!grants.allows(&patch(&ObjectKey::cluster("a"), "")));
}

#[test]
fn a_rule_for_names_does_not_cover_a_collection() {
    let grants = Grants::new(vec![Rule { names: vec!["a".into()], ..rule() }]);
    let key = ObjectKey::namespaced("prod", "a");
    assert!(grants.allows(&patch(&key, "")));
    assert!(!grants.allows(&Access { key: None, ..patch(&key, "") }));
}

#[test]
fn grants_within_a_namespace_deny_all_others() {
    let grants = Grants::new(vec![rule()]).within(Some("prod"));
    assert!(grants.allows(&patch(&ObjectKey::namespaced("prod", "a"), "")));
    assert!(grants.allows(&patch(&ObjectKey::cluster("a"), "")));
    assert!(!grants.allows(&patch(&ObjectKey::namespaced("kube-system", "a"), "")));
    let key = ObjectKey::cluster("a");
    let all = Access { key: None, ..patch(&key, "") };
    assert!(!grants.allows(&all), "all namespaces are more than one");
}

#[test]
fn events_stay_in_the_namespace_of_their_primary() {
    let [here, there] = ["prod", "kube-system"].map(|namespace| ObjectKey::namespaced(namespace, "a"));
    let cluster = ObjectKey::cluster("a");
    let grants = Grants::default();
    assert!(grants.may_regard(&here, &here));
    assert!(!grants.may_regard(&here, &there));
    assert!(!grants.may_regard(&here, &cluster));
    assert!(grants.may_regard(&cluster, &there));
    assert!(!grants.within(Some("prod")).may_regard(&cluster, &there));
}

#[test]
fn events_of_cluster_scoped_primaries_need_a_rule_for_their_namespace() {
    let [prod, system] = ["prod", "kube-system"].map(|namespace| ObjectKey::namespaced(namespace, "a"));
    let cluster = ObjectKey::cluster("a");
    let policy = |rule: Rule| Grants::new(vec![rule.clone()]).bounded(Layer::Policy, bound(vec![rule]));
    let narrow = policy(Rule { namespaces: vec!["prod".into()], ..rule() });
    assert!(narrow.may_regard(&cluster, &prod) && !narrow.may_regard(&cluster, &system));
    assert!(narrow.may_regard(&cluster, &cluster), "its own");
    assert!(narrow.may_regard(&system, &system), "beside its primary");
    assert!(!policy(rule()).may_regard(&cluster, &prod), "a rule about the cluster is about no namespace");
    assert!(policy(Rule { cluster: false, ..rule() }).may_regard(&cluster, &system));
}

#[test]
fn a_star_matches_everything() {
    let star = || vec!["*".to_owned()];
    let grants = Grants::new(vec![Rule { groups: star(), resources: star(), verbs: star(), ..Rule::default() }]);
    assert!(grants.allows(&patch(&ObjectKey::cluster("a"), "scale")));
}

#[test]
fn an_access_is_displayed_as_in_kubectl() {
    let key = ObjectKey::namespaced("prod", "shop");
    assert_eq!(patch(&key, "scale").to_string(), "patch deployments.apps/scale prod/shop");
}

fn bound(rules: Vec<Rule>) -> Arc<Allowance> {
    Arc::new(Allowance { rules, ..Allowance::default() })
}

fn text(denied: Result<(), Denial>) -> String {
    denied.expect_err("denied").to_string()
}

#[test]
fn every_layer_must_allow_and_a_denial_names_those_that_do_not() {
    let key = ObjectKey::namespaced("prod", "shop");
    let asked = Grants::new(vec![rule()]);
    let granted = asked.clone().bounded(Layer::Policy, bound(vec![rule()]));
    assert!(granted.allows(&patch(&key, "")));
    let nothing = asked.bounded(Layer::Policy, Arc::default()).bounded(Layer::Ceiling, Arc::default());
    let said = text(nothing.check(&patch(&key, "")));
    assert!(said.contains("its policy and the host's ceiling") && !said.contains("manifest"), "{said}");
    let missing =
        r#"rules: - {apiGroups: ["apps"], resources: ["deployments"], verbs: ["patch"], namespaces: ["prod"]}"#;
    assert!(said.contains(missing), "{said}");
    let scale = Rule { resources: vec!["deployments/scale".into()], ..rule() };
    let said = text(granted.bounded(Layer::Ceiling, bound(vec![scale])).check(&patch(&key, "scale")));
    assert!(said.contains("its manifest and its policy allows"), "{said}");
}

#[test]
fn a_cluster_scoped_resource_needs_a_rule_that_says_so() {
    let key = ObjectKey::cluster("node-1");
    let access = Access { namespaced: false, ..patch(&key, "") };
    let namespaced_only = Rule { cluster: false, ..rule() };
    let asked = rule();
    let policy = |rule| Grants::new(vec![asked.clone()]).bounded(Layer::Policy, bound(vec![rule]));
    assert!(policy(rule()).allows(&access));
    let said = text(policy(namespaced_only.clone()).check(&access));
    assert!(said.contains("cluster: true"), "{said}");
    let everywhere = Access { key: None, namespaced: true, ..access };
    assert!(policy(namespaced_only).allows(&everywhere), "all namespaces are not the cluster");
}

#[test]
fn a_star_covers_subresources_as_in_rbac() {
    let key = ObjectKey::namespaced("prod", "shop");
    let of = |resource: &str| Grants::new(vec![Rule { resources: vec![resource.into()], ..rule() }]);
    assert!(of("*").allows(&patch(&key, "scale")) && of("*/scale").allows(&patch(&key, "scale")));
    assert!(!of("*/scale").allows(&patch(&key, "")) && !of("*/scale").allows(&patch(&key, "status")));
    assert!(!of("deployments/*").allows(&patch(&key, "scale")), "RBAC knows no such thing");
}

#[test]
fn the_host_namespace_is_denied_to_every_plugin() {
    let all = || vec!["*".to_owned()];
    let rule = Rule { groups: all(), resources: all(), verbs: all(), ..Rule::default() };
    let forbidden = Forbidden { host_namespace: Some("windlass".into()), ..Forbidden::default() };
    let grants = Grants::new(vec![rule]).without(forbidden);
    let inside = ObjectKey::namespaced("windlass", "token");
    assert!(text(grants.check(&patch(&inside, ""))).contains("the host itself lives"));
    assert!(grants.hides(&inside) && !grants.hides(&ObjectKey::namespaced("prod", "a")));
    assert!(!grants.may_regard(&ObjectKey::cluster("a"), &inside));
    let itself = ObjectKey::cluster("windlass");
    let of_namespace =
        |verb| Access { verb, group: "", resource: "namespaces", namespaced: false, ..patch(&itself, "") };
    assert!(grants.allows(&of_namespace("get")) && !grants.allows(&of_namespace("delete")));
    assert!(grants.allows(&Access { resource: "things", ..of_namespace("delete") }));
}

#[test]
fn kinds_of_another_plugin_are_neither_written_nor_read() {
    let foreign = ForeignKind { group: "apps".into(), resource: "deployments".into(), plugin: "owner".into() };
    let forbidden = Forbidden { foreign: vec![foreign], ..Forbidden::default() };
    let grants = Grants::new(vec![Rule { verbs: vec!["*".into()], ..rule() }]).without(forbidden);
    let key = ObjectKey::namespaced("prod", "shop");
    for verb in ["get", "patch"] {
        let said = text(grants.check(&Access { verb, ..patch(&key, "") }));
        assert!(said.contains("the plugin owner installs that kind"), "{said}");
    }
}

#[test]
fn definitions_and_finalizers_are_granted_by_name() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let asked = Allowance { crds: names(&["as.example.com"]), finalizers: names(&["x/a"]), ..Allowance::default() };
    let policy = Allowance { crds: names(&["*"]), ..Allowance::default() };
    let grants = Grants::asked(asked).bounded(Layer::Policy, Arc::new(policy));
    assert!(grants.check_crd("as.example.com").is_ok());
    assert!(text(grants.check_crd("bs.example.com")).contains("its manifest"));
    let said = text(grants.check_finalizer("x/a"));
    assert!(said.contains("its policy") && said.contains(r#"finalizers: ["x/a"]"#), "{said}");
}

#[test]
fn a_star_covers_no_write_of_an_object_of_the_host() {
    let all = || vec!["*".to_owned()];
    let everything = Rule { groups: all(), resources: all(), verbs: all(), ..Rule::default() };
    let literal = Rule { resources: vec!["*".into(), "clusterpluginpolicies".into()], ..everything.clone() };
    let key = ObjectKey::cluster("shop");
    let policies = Access {
        verb: "create",
        group: HOST_GROUP,
        resource: "clusterpluginpolicies",
        subresource: "",
        namespaced: false,
        key: Some(&key),
    };
    let grants = |policy: &Rule| Grants::new(vec![literal.clone()]).bounded(Layer::Policy, bound(vec![policy.clone()]));
    let denied = text(grants(&everything).check(&policies));
    assert!(denied.contains("nothing in its policy"), "{denied}");
    for verb in ["update", "patch", "delete", "deletecollection"] {
        assert!(!grants(&everything).allows(&Access { verb, ..policies }), "{verb}");
    }
    for verb in ["get", "list", "watch"] {
        assert!(grants(&everything).allows(&Access { verb, ..policies }), "{verb}");
    }
    assert!(grants(&literal).allows(&policies));
    let of_status = Rule { resources: vec!["*".into(), "clusterpluginpolicies/status".into()], ..everything.clone() };
    let allowed = |access: &Access<'_>| Grants::new(vec![of_status.clone()]).allows(access);
    assert!(!allowed(&policies) && allowed(&Access { subresource: "status", ..policies }), "it names a subresource");
    assert!(grants(&everything).allows(&Access { group: "apps.windlass.dev", ..policies }));

    let named = ["*", "clusterpluginpolicies.windlass.dev", "webapps.apps.windlass.dev"].map(str::to_owned);
    let installs = |crds: &[String], name: &str| {
        Grants::asked(Allowance { crds: crds.to_vec(), ..Allowance::default() }).check_crd(name).is_ok()
    };
    assert!(!installs(&named[..1], &named[1]) && installs(&named[1..2], &named[1]));
    assert!(installs(&named[..1], &named[2]));
}

#[test]
fn a_denial_is_counted_while_grants_change() {
    let live = LiveGrants::new(Grants::new(vec![rule()]));
    let key = ObjectKey::namespaced("prod", "shop");
    assert!(live.check(&patch(&key, "")).is_ok() && live.denials().snapshot().is_empty());
    live.replace(Grants::default());
    assert!(live.clone().check(&patch(&key, "")).is_err());
    let counted = live.denials().snapshot();
    assert_eq!((counted[0].resource.as_str(), counted[0].cause, counted[0].count), ("deployments.apps", "manifest", 1));
}

fn words(of: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    proptest::sample::subsequence(of, 0..=of.len()).prop_map(|words| words.into_iter().map(str::to_owned).collect())
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let whats = (
        words(&["", "apps", "*"]),
        words(&["*", "*/scale", "a", "a/scale", "b", "b/scale"]),
        words(&["get", "patch", "*"]),
    );
    (whats, words(&["prod", "test"]), words(&["x", "y"]), any::<bool>()).prop_map(
        |((groups, resources, verbs), namespaces, names, cluster)| Rule {
            groups,
            resources,
            verbs,
            namespaces,
            names,
            cluster,
        },
    )
}

/// Checks every request that a rule of [`any_rule`] can cover.
fn each_access(check: impl Fn(&Access<'_>)) {
    let keys = [
        None,
        Some(ObjectKey::cluster("x")),
        Some(ObjectKey::namespaced("prod", "")),
        Some(ObjectKey::namespaced("prod", "x")),
        Some(ObjectKey::namespaced("test", "y")),
        Some(ObjectKey::namespaced("other", "z")),
    ];
    for key in &keys {
        let scopes: &[bool] = match key {
            None => &[true, false],
            Some(key) => &[key.namespace.is_some()],
        };
        for (&namespaced, resource) in scopes.iter().flat_map(|scope| ["a", "b", "c"].map(|resource| (scope, resource)))
        {
            for (group, subresource) in [("", ""), ("apps", ""), ("apps", "scale"), ("other", "status")] {
                for verb in ["get", "patch", "delete"] {
                    check(&Access { verb, group, resource, subresource, namespaced, key: key.as_ref() });
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn the_intersection_of_two_rules_allows_exactly_what_both_allow(a in any_rule(), b in any_rule()) {
        let both = a.and(&b);
        each_access(|access| {
            let allowed = both.as_ref().is_some_and(|both| both.allows(access));
            assert_eq!(allowed, a.allows(access) && b.allows(access), "{access} by {a:?} and {b:?}: {both:?}");
        });
    }
}

#[test]
fn common_rules_are_the_intersection_of_all_layers() {
    let wide = Rule { verbs: vec!["get".into(), "patch".into()], ..rule() };
    let [prod, test] = ["prod", "test"].map(|it| Rule { namespaces: vec![it.into()], cluster: false, ..wide.clone() });
    let policy = bound(vec![prod.clone(), test]);
    let ceiling = bound(vec![Rule { names: vec!["shop".into()], ..prod.clone() }]);
    let grants = Grants::new(vec![wide.clone()]);
    assert_eq!(grants.common_rules(), std::slice::from_ref(&wide));
    let grants = grants.bounded(Layer::Policy, policy).bounded(Layer::Ceiling, ceiling);
    assert_eq!(grants.common_rules(), [Rule { names: vec!["shop".into()], ..prod }]);
}
