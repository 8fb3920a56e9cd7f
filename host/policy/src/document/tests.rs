//! Tests which policies and ceilings are accepted and rejected, and compares the published schema.

use windlass_core::life::instances::Instances;
use windlass_core::object::ObjectKey;
use windlass_core::rights::egress::{self, HttpTarget, NetworkFacts, UrlHost};
use windlass_core::rights::grants::{Access, Grants, HttpRule, Layer, LiveGrants, Rule, Scheme};

use super::*;
use crate::SecretKeyRef;

const FULL: &str = "\
apiVersion: windlass.dev/v1alpha1
kind: PluginPolicy
plugin: webapp
paused: true
impersonate: prod/deployer
hooks:
- name: pushed
  secretKeyRefs: [{namespace: ops, name: hooks, key: pushed}, {namespace: ops, name: hooks, key: next}]
rules:
- apiGroups: [apps]
  resources: [deployments, deployments/scale]
  verbs: [get, patch]
  namespaces: [prod]
  names: [shop]
- {apiGroups: [\"\"], resources: [nodes], verbs: [get], cluster: true}
http:
- {scheme: https, host: \"*.Example.com\", port: 8443, methods: [get], addresses: [10.0.0.0/8]}
crds: [webapps.apps.kubedojo.io]
finalizers: [windlass.dev/webapp]
";

fn read(text: &str) -> Result<Policy, String> {
    policy(Path::new("webapp.policy.yaml"), text.as_bytes(), "webapp").map_err(|error| error.to_string())
}

fn wrong(from: &str, to: &str) -> String {
    assert!(FULL.contains(from), "{from}");
    read(&FULL.replacen(from, to, 1)).expect_err(to)
}

#[test]
fn a_policy_has_the_values_of_its_document() {
    let policy = read(FULL).expect("valid");
    assert!(policy.paused);
    assert_eq!(policy.impersonate, Some(ServiceAccount { namespace: "prod".into(), name: "deployer".into() }));
    let Allowance { rules, http, crds, finalizers } = &*policy.allowance;
    assert_eq!(
        (rules[0].names.as_slice(), rules[0].cluster, rules[1].cluster),
        (&["shop".to_owned()][..], false, true)
    );
    assert_eq!((http[0].host.as_str(), http[0].methods.as_slice()), ("*.example.com", &["GET".to_owned()][..]));
    assert_eq!((crds.len(), finalizers.len()), (1, 1));
    let least = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: webapp\n";
    assert_eq!(read(least).expect("valid").allowance, Arc::default());
}

#[test]
fn instances_are_used_once_by_default() {
    let instances = |text: &str| read(&FULL.replace("paused: true", text)).map(|policy| policy.instances);
    assert_eq!(instances("paused: true"), Ok(Instances::Fresh));
    assert_eq!(instances("instances: fresh"), Ok(Instances::Fresh));
    assert_eq!(instances("instances: reuse"), Ok(Instances::Reuse));
    let said = instances("instances: reused").expect_err("misspelt");
    assert!(said.contains(":4:") && said.contains("did you mean `reuse`?"), "{said}");
}

#[test]
fn verbs_about_consequences_stand_only_beside_what_they_are_for() {
    let least = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: webapp\nrules:\n- ";
    let rule =
        |text: &str| read(&format!("{least}{{{text}, cluster: true}}\n")).map(|policy| policy.allowance.rules.clone());
    let signers = "apiGroups: [certificates.k8s.io], resources: [signers], verbs: [approve, sign]";
    assert!(rule(signers).is_ok());
    let named =
        rule(&format!("{signers}, names: [kubernetes.io/kubelet-serving]")).expect("a signer's name has a slash");
    assert_eq!(named[0].names, ["kubernetes.io/kubelet-serving"]);
    assert!(
        rule("apiGroups: [rbac.authorization.k8s.io], resources: [roles, clusterroles], verbs: [get, bind, escalate]")
            .is_ok()
    );
    for (wrong, words) in [
        (
            "apiGroups: [rbac.authorization.k8s.io], resources: [roles, rolebindings], verbs: [bind]",
            "`bind` is only for roles and",
        ),
        ("apiGroups: [\"\"], resources: [signers], verbs: [approve]", "`approve` is only for signers of"),
        ("apiGroups: [\"*\"], resources: [\"*\"], verbs: [escalate]", "write a separate rule for it"),
        ("apiGroups: [\"\"], resources: [users], verbs: [impersonate]", "not a verb that plugins can use"),
        ("apiGroups: [\"\"], resources: [secrets], verbs: [get], names: [a/b]", "cannot be the name"),
        (
            "apiGroups: [certificates.k8s.io], resources: [signers], verbs: [sign], names: [\"a.io/*\"]",
            "cannot be the name",
        ),
    ] {
        let said = rule(wrong).expect_err(wrong);
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn misspelt_fields_are_reported_with_line_and_suggestion() {
    for (from, to, line, words) in [
        ("paused:", "pausd:", ":4:", "did you mean `paused`?"),
        ("  names:", "  name:", ":14:", "did you mean `names`?"),
        ("verbs: [get, patch]", "verbs: [get, pach]", ":10:", "did you mean `patch`?"),
        ("scheme: https", "scheme: htps", ":17:", "did you mean `https`?"),
    ] {
        let said = wrong(from, to);
        assert!(said.contains(&format!("webapp.policy.yaml{line}")) && said.contains(words), "{to}: {said}");
    }
}

#[test]
fn invalid_values_are_refused_with_advice() {
    for (from, to, words) in [
        ("plugin: webapp", "plugin: shop", "is for the plugin"),
        ("plugin: webapp\n", "", "`plugin: webapp` is missing"),
        ("kind: PluginPolicy", "kind: Role", "kind: PluginPolicy"),
        ("prod/deployer", "deployer", "not a service account"),
        ("deployments/scale", "deployments/*", "name each subresource"),
        ("deployments/scale", "deployments.apps", "apiGroups"),
        ("deployments/scale", "Deployment", "plurals in lower case"),
        ("[apps]", "[apps/v1]", "without the version"),
        ("[apps]", "[\"*.example.com\"]", "not a group"),
        ("names: [shop]", "names: [\"shop-*\"]", "not patterns"),
        ("names: [shop]", "names: [\"\"]", "complete names"),
        ("verbs: [get, patch]", "verbs: []", "allows nothing"),
        ("namespaces: [prod]", "namespaces: [\"*\"]", "leave `namespaces` out"),
        ("cluster: true", "cluster: true, namespaces: [prod]", "a separate rule"),
        ("10.0.0.0/8", "10.0.0.1/8", "not a range of addresses"),
        ("\"*.Example.com\"", "https://example.com", "not a host name"),
        ("\"*.Example.com\"", "127.1", "not a host name"),
        ("webapps.apps.kubedojo.io", "webapps", "PLURAL.GROUP"),
        ("windlass.dev/webapp]", "webapp]", "not a finalizer"),
        ("paused: true", "paused: true\npaused: false", "duplicate"),
    ] {
        let said = wrong(from, to);
        assert!(said.contains(words), "{to}: {said}");
    }
}

#[test]
fn a_value_of_the_wrong_type_is_reported_with_its_field() {
    for (from, to, place, field) in [
        ("plugin: webapp", "plugin: [webapp]", ":3:9:", "`plugin`: "),
        ("verbs: [get, patch]", "verbs: get", ":12:10:", "`rules[0].verbs`: "),
        ("names: [shop]", "names: [[shop]]", ":14:11:", "`rules[0].names[0]`: "),
        ("port: 8443", "port: many", ":17:48:", "`http[0].port`: "),
    ] {
        let said = wrong(from, to);
        assert!(said.contains(&format!("webapp.policy.yaml{place} {field}")), "{to}: {said}");
    }
}

#[test]
fn a_yaml_error_is_reported_with_its_place() {
    let said = read("apiVersion: windlass.dev/v1alpha1\nkind: [PluginPolicy\nplugin: webapp\n").expect_err("broken");
    assert!(said.contains("webapp.policy.yaml:"), "{said}");
    assert!(read("").is_err() && read("[]").is_err() && read("- a").is_err());
    assert!(policy(Path::new("a"), b"\xff\xfe\x00", "webapp").is_err());
}

#[test]
fn multiplying_aliases_are_refused_quickly() {
    let mut text = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: webapp\n".to_owned();
    text.push_str("a: &a [x, x, x, x, x, x, x, x, x]\n");
    // Expanded, the aliases stand for almost four hundred million entries, which would take minutes to parse.
    for (before, name) in ('a'..='h').zip('b'..='i') {
        let line = format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(", "));
        text.push_str(&line);
    }
    let began = std::time::Instant::now();
    assert!(read(&text).is_err());
    assert!(began.elapsed() < std::time::Duration::from_secs(30));
    assert!(read(&"#".repeat((1 << 20) + 1)).is_err_and(|said| said.contains("at most")));
}

#[test]
fn a_ceiling_is_a_policy_without_a_plugin() {
    let text = FULL.replace("PluginPolicy", "PluginCeiling");
    let is_ours = |line: &&str| {
        ["plugin:", "paused:", "impersonate:", "hooks:", "- name: pushed", "  secretKeyRefs:"]
            .iter()
            .any(|it| line.starts_with(it))
    };
    let bare = text.lines().filter(|line| !is_ours(line)).collect::<Vec<_>>().join("\n");
    assert_eq!(ceiling(Path::new("c"), bare.as_bytes()).expect("valid").rules.len(), 2);
    let said = ceiling(Path::new("c"), text.as_bytes()).expect_err("of policies").to_string();
    assert!(said.contains("c:4:9: `paused`") && said.contains("`plugin`") && said.contains("c:7:3: `hooks`"), "{said}");
}

fn schema() -> serde_json::Value {
    let text = include_str!("../../../../docs/schema/policy.schema.json");
    serde_json::from_str(text).expect("the schema is JSON")
}

/// Replaces the field `from` by the unknown field `to`, and returns the fields that the parser would accept there. The
/// parser's error lists them.
fn known_fields(from: &str, to: &str) -> Vec<String> {
    let said = wrong(from, to);
    let (_, list) = said.split_once("expected one of ").expect("it lists what it knows");
    let list = list.split(';').next().unwrap_or_default();
    list.split(", ").map(|name| name.trim_matches('`').to_owned()).collect()
}

#[test]
fn the_published_schema_knows_the_same_fields() {
    let schema = schema();
    for (definition, from, to) in [
        (&schema["$defs"]["document"], "paused: true", "unknown: true"),
        (&schema["$defs"]["rule"], "  names: [shop]", "  unknown: [shop]"),
        (&schema["$defs"]["http"], "port: 8443", "unknown: 8443"),
        (&schema["$defs"]["hook"], "- name: pushed", "- name: pushed\n  unknown: 1"),
        (&schema["$defs"]["secretKeyRef"], "key: pushed", "key: pushed, unknown: 1"),
    ] {
        let mut known = known_fields(from, to);
        let properties = definition["properties"].as_object().expect("it has properties");
        known.sort();
        let mut published: Vec<_> = properties.keys().cloned().collect();
        published.sort();
        assert_eq!(published, known);
        assert_eq!(definition["additionalProperties"], false);
        assert!(properties.values().all(|property| property["description"].is_string()), "{definition}");
    }
}

#[test]
fn the_published_schema_has_the_same_required_fields_and_words() {
    let schema = schema();
    for (definition, field, from, to) in [
        ("rule", "apiGroups", "- apiGroups: [apps]\n  resources", "- resources"),
        ("rule", "resources", "  resources: [deployments, deployments/scale]\n", ""),
        ("rule", "verbs", "  verbs: [get, patch]\n", ""),
        ("http", "scheme", "scheme: https, ", ""),
        ("http", "host", "host: \"*.Example.com\", ", ""),
        ("http", "methods", "methods: [get], ", ""),
        ("hook", "name", "- name: pushed\n  secretKeyRefs", "- secretKeyRefs"),
        (
            "hook",
            "secretKeyRefs",
            "- name: pushed\n  secretKeyRefs: [{namespace: ops, name: hooks, key: pushed}, {namespace: ops, name: hooks, key: next}]",
            "- name: pushed",
        ),
        ("secretKeyRef", "key", ", key: pushed}", "}"),
    ] {
        let said = wrong(from, to);
        assert!(said.contains(&format!("missing field `{field}`")), "{said}");
        let required = schema["$defs"][definition]["required"].as_array().expect("a list");
        assert!(required.iter().any(|it| it == field), "{definition} {field}");
    }
    let count = |definition: &str| schema["$defs"][definition]["required"].as_array().map(Vec::len);
    assert_eq!((count("rule"), count("http"), count("document")), (Some(3), Some(3), Some(2)));
    let verbs = &schema["$defs"]["rule"]["properties"]["verbs"]["items"]["enum"];
    assert_eq!(*verbs, serde_json::json!(VERBS));
    let document = &schema["$defs"]["document"]["properties"];
    assert_eq!(document["kind"]["enum"], serde_json::json!([POLICY, CEILING]));
    assert_eq!(document["apiVersion"]["const"], API_VERSION);
}

#[test]
fn a_hook_has_a_name_and_the_keys_of_secrets() {
    let key = |key: &str| SecretKeyRef { namespace: "ops".into(), name: "hooks".into(), key: key.into() };
    let pushed = OpenHook { name: "pushed".into(), secrets: vec![key("pushed"), key("next")] };
    assert_eq!(read(FULL).map(|policy| policy.hooks), Ok(vec![pushed]));
    for (from, to, words) in [
        ("- name: pushed", "- name: Push/ed", "\"Push/ed\" is not the name of a hook"),
        ("key: pushed", "key: \"a b\"", "cannot be a key"),
        ("name: hooks, key: pushed", "name: ../x, key: pushed", "\"ops/../x\" cannot be the name of a Secret"),
        ("rules:", "- {name: pushed, secretKeyRefs: [{namespace: a, name: b, key: c}]}\nrules:", "appears twice"),
        ("rules:", "- {name: merged, secretKeyRefs: []}\nrules:", "`secretKeyRefs` has 0 entries"),
    ] {
        let said = wrong(from, to);
        assert!(said.contains(words), "{to}: {said}");
    }
}

#[test]
fn byte_order_marks_and_crlf_are_accepted() {
    let plain = read(FULL).expect("valid");
    assert_eq!(read(&FULL.replace('\n', "\r\n")).expect("line ends of Windows"), plain);
    assert_eq!(read(&format!("\u{feff}{FULL}")).expect("a byte order mark"), plain);
    assert_eq!(read(&format!("---\n{FULL}...\n")).expect("marks of documents"), plain);
}

#[test]
fn object_names_may_have_all_characters_of_kubernetes() {
    for name in ["system:node-proxier", "A", "a.b_c", "a b", "x?y=z", "D\\team", "é"] {
        assert!(read(&FULL.replace("names: [shop]", &format!("names: [{name:?}]"))).is_ok(), "{name}");
    }
}

/// A policy that consists only of the missing rules that a denial lists.
fn pasted(denial: &str) -> Arc<Allowance> {
    let (_, missing) = denial.split_once("missing: ").expect("it says what is missing");
    let head = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: webapp\n";
    let text = format!("{head}{}\n", missing.replacen(": - ", ":\n- ", 1));
    read(&text).unwrap_or_else(|error| panic!("{text}: {error}")).allowance
}

#[test]
fn adding_the_missing_rule_of_a_denial_is_enough() {
    let all = || vec!["*".to_owned()];
    let everything = Rule { groups: all(), resources: all(), verbs: all(), ..Rule::default() };
    let asked = Allowance { rules: vec![everything], crds: all(), finalizers: all(), ..Allowance::default() };
    let with = |policy: Arc<Allowance>| Grants::asked(asked.clone()).bounded(Layer::Policy, policy);
    let nothing = with(Arc::default());
    let (shop, node, all_of) =
        (ObjectKey::namespaced("prod", "shop"), ObjectKey::cluster("n"), ObjectKey::namespaced("prod", ""));
    for (namespaced, key) in
        [(true, Some(&shop)), (true, Some(&all_of)), (true, None), (false, Some(&node)), (false, None)]
    {
        for (group, subresource) in [("", ""), ("apps", "scale")] {
            let access = Access { verb: "patch", group, resource: "things", subresource, namespaced, key };
            let denial = nothing.check(&access).expect_err("nothing is granted").to_string();
            assert_eq!(with(pasted(&denial)).check(&access), Ok(()), "{denial}");
        }
    }
    let denial = nothing.check_crd("webapps.apps.kubedojo.io").expect_err("nothing").to_string();
    assert_eq!(with(pasted(&denial)).check_crd("webapps.apps.kubedojo.io"), Ok(()));
    let denial = nothing.check_finalizer("windlass.dev/webapp").expect_err("nothing").to_string();
    assert_eq!(with(pasted(&denial)).check_finalizer("windlass.dev/webapp"), Ok(()));
}

#[test]
fn adding_the_missing_http_rule_of_a_denial_is_enough() {
    for (scheme, url, host) in [
        (Scheme::Https, "https://api.example.com/", "api.example.com"),
        (Scheme::Http, "http://127.0.0.1:8080/", "127.0.0.1"),
        (Scheme::Https, "https://[::1]:8443/", "::1"),
    ] {
        let target = HttpTarget::parse(url).expect("a URL");
        let rule = HttpRule {
            scheme,
            host: host.into(),
            port: Some(target.port),
            methods: vec!["GET".into()],
            addresses: vec![],
        };
        let asked = Allowance { http: vec![rule], ..Allowance::default() };
        let with = |policy| LiveGrants::new(Grants::asked(asked.clone()).bounded(Layer::Policy, policy));
        let denial = egress::allow(&with(Arc::default()), "GET", &target).expect_err("nothing").to_string();
        let granted = with(pasted(&denial));
        let reach = egress::allow(&granted, "GET", &target).expect("it was pasted");
        let UrlHost::Address(address) = target.host else { continue };
        let socket = std::net::SocketAddr::new(address, target.port);
        let denied = egress::check_address(socket, &reach, NetworkFacts::default()).expect_err("loopback");
        let granted = with(pasted(&egress::deny(&granted, "GET", &target, &denied).to_string()));
        let reach = egress::allow(&granted, "GET", &target).expect("it covers the host as well");
        assert_eq!(egress::check_address(socket, &reach, NetworkFacts::default()), Ok(()), "{url}");
    }
}

#[test]
fn a_policy_sets_when_a_next_version_is_promoted() {
    let with = |after: &str| FULL.replace("paused: true", &format!("rollout: {{promoteAfter: {after}}}"));
    let read_after = |after: &str| read(&with(after)).map(|policy| policy.promote_after);
    let hours = PromoteAfter { calls: 100, time: Duration::from_hours(2) };
    assert_eq!(read_after("{calls: 100, time: 2h}"), Ok(Some(hours)));
    assert_eq!(read(FULL).map(|policy| policy.promote_after), Ok(None));
    for (after, words) in [
        ("{calls: 0, time: 2h}", "at least 1 call"),
        ("{calls: 1, time: soon}", "such as 10m"),
        ("{calls: 1, time: 2é}", "such as 10m"),
        ("{calls: 1}", "missing field `time`"),
    ] {
        let said = read_after(after).expect_err(after);
        assert!(said.contains(words), "{after}: {said}");
    }
    let of_nobody = with("{calls: 1, time: 1s}").replace("PluginPolicy", "PluginCeiling");
    let said = ceiling(Path::new("c"), of_nobody.as_bytes()).expect_err("of policies").to_string();
    assert!(said.contains("`rollout`"), "{said}");
}

#[test]
fn the_shadow_strategy_is_a_word_or_a_map() {
    let with = |rollout: &str| FULL.replace("paused: true", &format!("rollout: {rollout}"));
    let read_rollout = |rollout: &str| read(&with(rollout)).map(|policy| (policy.rollout, policy.promote_after));
    let minute = PromoteAfter { calls: 1, time: Duration::from_mins(1) };
    for (rollout, expected) in [
        ("shadow", (RolloutStrategy::Shadow, None)),
        ("{strategy: shadow}", (RolloutStrategy::Shadow, None)),
        ("{strategy: shadow, promoteAfter: {calls: 1, time: 1m}}", (RolloutStrategy::Shadow, Some(minute))),
        ("{promoteAfter: {calls: 1, time: 1m}}", (RolloutStrategy::Replace, Some(minute))),
        ("{strategy: replace}", (RolloutStrategy::Replace, None)),
    ] {
        assert_eq!(read_rollout(rollout), Ok(expected), "{rollout}");
    }
    assert_eq!(read(FULL).map(|policy| policy.rollout), Ok(RolloutStrategy::Replace));
    for (rollout, words) in [
        ("shade", "expected `shadow`, or a map"),
        ("{}", "is empty"),
        ("{strategy: shade}", "unknown variant"),
        ("{strategies: shadow}", "unknown field `strategies`"),
    ] {
        let said = read_rollout(rollout).expect_err(rollout);
        assert!(said.contains(words), "{rollout}: {said}");
    }
}
