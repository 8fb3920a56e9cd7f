//! Roles and bindings as objects: their validation, their defaults, and the aggregation of cluster roles.

mod support;

use http::StatusCode;
use serde_json::{Value, json};

use support::{Cluster, MERGE};

const GROUP: &str = "/apis/rbac.authorization.k8s.io/v1";

fn path(plural: &str) -> String {
    match plural {
        "roles" | "rolebindings" => format!("{GROUP}/namespaces/default/{plural}"),
        _ => format!("{GROUP}/{plural}"),
    }
}

fn named(name: &str, content: &Value) -> Value {
    let mut object = content.clone();
    object["metadata"]["name"] = json!(name);
    object
}

fn may(verb: &str) -> Value {
    json!({ "apiGroups": [""], "resources": ["pods"], "verbs": [verb] })
}

#[tokio::test]
async fn roles_are_validated() {
    let cluster = Cluster::quiet().await;
    let selector = |expression: Value| json!({ "aggregationRule": { "clusterRoleSelectors": [{ "matchExpressions": [expression] }] } });
    let at = "aggregationRule.clusterRoleSelectors[0]";
    let cases = [
        (
            "roles",
            json!({ "rules": [{ "verbs": ["get"], "nonResourceURLs": ["/a"] }] }),
            "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: namespaced rules cannot apply to non-resource URLs"
                .to_owned(),
        ),
        (
            "clusterroles",
            json!({ "rules": [{ "verbs": ["get"], "resources": ["pods"] }] }),
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group".to_owned(),
        ),
        (
            "clusterroles",
            json!({ "aggregationRule": {} }),
            "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if \
             aggregationRule is non-nil"
                .to_owned(),
        ),
        (
            "clusterroles",
            selector(json!({ "key": "a", "operator": "Exists", "values": ["b"] })),
            format!(
                "[{at}.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or \
                 'DoesNotExist', {at}: Invalid value: null: invalid label selector.]"
            ),
        ),
    ];
    for (plural, content, expected) in cases {
        let refused = cluster.post(&path(plural), &named("r", &content)).await.refused(422, "Invalid");
        assert!(refused.ends_with(&format!("\"r\" is invalid: {expected}")), "{refused}");
    }
    let odd = selector(json!({ "key": "a", "operator": "In", "values": ["-"] }));
    let refused = cluster.post(&path("clusterroles"), &named("r", &odd)).await.refused(422, "Invalid");
    assert!(refused.contains(&format!("{at}.matchExpressions[0].values[0]: Invalid value: \"-\": a valid label")));
    // Any name that can be part of a path is valid.
    cluster.post(&path("roles"), &named("system:A b", &json!({}))).await.expect(StatusCode::CREATED);
    let refused = cluster.post(&path("roles"), &named("a%b", &json!({}))).await.refused(422, "Invalid");
    assert!(refused.ends_with("metadata.name: Invalid value: \"a%b\": may not contain '%'"), "{refused}");
}

#[tokio::test]
async fn bindings_are_validated() {
    let cluster = Cluster::quiet().await;
    let bound = |subject: Value| json!({ "roleRef": { "kind": "ClusterRole", "name": "r" }, "subjects": [subject] });
    let account = json!({ "kind": "ServiceAccount", "name": "s" });
    let made = cluster.post(&path("rolebindings"), &named("b", &bound(account.clone()))).await;
    let made = made.expect(StatusCode::CREATED);
    assert_eq!(
        (&made["subjects"], &made["roleRef"]["apiGroup"]),
        (&json!([account]), &json!("rbac.authorization.k8s.io"))
    );
    let cases = [
        ("clusterrolebindings", bound(account), "subjects[0].namespace: Required value"),
        (
            "rolebindings",
            bound(json!({ "kind": "ServiceAccount", "name": "s", "apiGroup": "a" })),
            "subjects[0].apiGroup: Unsupported value: \"a\": supported values: \"\"",
        ),
        (
            "rolebindings",
            bound(json!({ "kind": "Group", "name": "s", "apiGroup": "a" })),
            "subjects[0].apiGroup: Unsupported value: \"a\": supported values: \"rbac.authorization.k8s.io\"",
        ),
        (
            "clusterrolebindings",
            json!({ "roleRef": { "kind": "Role", "name": "r" } }),
            "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
        ),
        (
            "rolebindings",
            json!({ "roleRef": { "kind": "Role", "name": "a/b" } }),
            "roleRef.name: Invalid value: \"a/b\": may not contain '/'",
        ),
    ];
    for (plural, content, expected) in cases {
        let refused = cluster.post(&path(plural), &named("c", &content)).await.refused(422, "Invalid");
        assert!(refused.ends_with(&format!("\"c\" is invalid: {expected}")), "{refused}");
    }
    let other = json!({ "roleRef": { "name": "other" } });
    let refused = cluster.patch(&format!("{}/b", path("rolebindings")), MERGE, &other).await.refused(422, "Invalid");
    let expected = "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"ClusterRole\",\"Name\":\
                    \"other\"}: cannot change roleRef";
    assert!(refused.ends_with(expected), "{refused}");
}

#[tokio::test]
async fn an_aggregated_role_has_each_rule_once_and_no_other() {
    let cluster = Cluster::quiet().await;
    let roles = path("clusterroles");
    for (name, rules) in [("a", json!([may("get")])), ("b", json!([may("get"), may("list")]))] {
        let role = json!({ "metadata": { "labels": { "tier": name } }, "rules": rules });
        cluster.post(&roles, &named(name, &role)).await.expect(StatusCode::CREATED);
    }
    // A rule with the same meaning, but written differently.
    let odd = json!({
        "metadata": { "labels": { "tier": "b" } },
        "rules": [{ "verbs": ["list"], "resourceNames": [], "resources": ["pods"], "apiGroups": [""] }],
    });
    cluster.post(&roles, &named("c", &odd)).await.expect(StatusCode::CREATED);
    let all = json!({
        "aggregationRule": { "clusterRoleSelectors": [
            { "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["a", "b"] }] },
            { "matchLabels": { "tier": "a" } },
        ] },
        "rules": [may("delete")],
    });
    let expected = json!([may("get"), may("list")]);
    let made = cluster.post(&roles, &named("all", &all)).await.expect(StatusCode::CREATED);
    let rules_after = async |version: &str| {
        let path = format!("{roles}?watch=true&fieldSelector=metadata.name%3Dall&resourceVersion={version}");
        let mut watch = cluster.watch(&path).await;
        loop {
            let (_, object) = watch.next().await.expect("the watch goes on");
            if object["rules"] == expected {
                return;
            }
        }
    };
    rules_after(support::version_of(&made)).await;
    // Rules that a client adds are removed again.
    let changed = cluster.patch(&format!("{roles}/all"), MERGE, &json!({ "rules": [may("delete")] })).await;
    rules_after(support::version_of(&changed.expect(StatusCode::OK))).await;
}

#[tokio::test]
async fn two_roles_that_aggregate_each_other_do_not_change_forever() {
    let cluster = Cluster::quiet().await;
    let aggregated = json!({
        "metadata": { "labels": { "in": "both" } },
        "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "in": "both" } }] },
    });
    cluster.post(&path("clusterroles"), &named("one", &aggregated)).await.expect(StatusCode::CREATED);
    let mut other = named("other", &aggregated);
    other["rules"] = json!([may("get")]);
    cluster.post(&path("clusterroles"), &other).await.expect(StatusCode::CREATED);
    let roles = format!("{}?watch=true&resourceVersion=0&fieldSelector=metadata.name%3Done", path("clusterroles"));
    let mut watch = cluster.watch(&roles).await;
    let (_, seen) = watch.next().await.expect("the role");
    let seen = if seen["rules"] == json!([may("get")]) { seen } else { watch.next().await.expect("its rules").1 };
    assert_eq!(seen["rules"], json!([may("get")]));
    // Without a client's write there is no further change.
    let label = json!({ "metadata": { "labels": { "seen": "yes" } } });
    cluster.patch(&format!("{}/one", path("clusterroles")), MERGE, &label).await.expect(StatusCode::OK);
    assert_eq!(watch.next().await.expect("the patch").1["metadata"]["labels"]["seen"], "yes");
}
