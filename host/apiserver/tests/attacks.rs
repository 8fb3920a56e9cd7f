//! Attempts by a user with few rights to gain more, all of which fail.

mod support;

use http::StatusCode;
use serde_json::{Value, json};

use support::rbac::{BINDINGS, CLUSTER_BINDINGS, CLUSTER_ROLES, Client, PODS, ROLES, binding, cluster, may, role};
use support::{Cluster, JSON, MERGE};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Grants jane `rules` in the whole cluster.
async fn let_jane(cluster: &Cluster, name: &str, rules: &Value) {
    let admin = Client::administrator(cluster);
    admin.post(CLUSTER_ROLES, &role(name, rules)).await.expect(StatusCode::CREATED);
    let bound = binding(name, ("ClusterRole", name), ("User", "jane"));
    admin.post(CLUSTER_BINDINGS, &bound).await.expect(StatusCode::CREATED);
}

fn certificate_request(name: &str) -> Value {
    // `-----BEGIN CERTIFICATE REQUEST-----`
    let request = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";
    let spec = json!({
        "request": request,
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
        "username": "system:admin",
        "groups": ["system:masters"],
    });
    let status = json!({ "conditions": [{ "type": "Approved", "status": "True" }] });
    json!({ "metadata": { "name": name }, "spec": spec, "status": status })
}

#[tokio::test]
async fn certificate_requests_name_their_creator_and_need_an_approver() {
    let cluster = cluster().await;
    let resources =
        ["certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status"];
    let rules = json!([{ "apiGroups": ["certificates.k8s.io"], "resources": resources, "verbs": ["*"] }]);
    let_jane(&cluster, "requests", &rules).await;
    let jane = Client::of(&cluster, "jane's");
    let made = jane.post(REQUESTS, &certificate_request("a:B")).await.expect(StatusCode::CREATED);
    assert_eq!(made["spec"]["username"], "jane");
    assert_eq!(made["spec"]["groups"], json!(["team", "system:authenticated"]));
    assert_eq!(made["status"], json!({}));

    let path = format!("{REQUESTS}/a:B");
    let other = json!({ "spec": { "username": "system:admin" } });
    let changed = jane.send("PATCH", &path, MERGE, &other).await.expect(StatusCode::OK);
    assert_eq!(changed["spec"]["username"], "jane");

    let condition =
        |kind: &str| json!({ "status": { "conditions": [{ "type": kind, "status": "True", "reason": "R" }] } });
    let refused = jane.send("PATCH", &format!("{path}/approval"), MERGE, &condition("Approved")).await;
    let expected = "certificatesigningrequests.certificates.k8s.io \"a:B\" is forbidden: user not permitted to approve \
                    requests with signerName \"kubernetes.io/kube-apiserver-client\"";
    assert_eq!(refused.refused(403, "Forbidden"), expected);
    let refused = jane.send("PATCH", &format!("{path}/status"), MERGE, &condition("Failed")).await;
    assert!(refused.refused(403, "Forbidden").contains("user not permitted to sign requests"));
    jane.send("PATCH", &format!("{path}/status"), MERGE, &condition("Approved")).await.refused(422, "Invalid");

    // Approval takes a right for the signer, here for all signers of its domain.
    let rules = json!([{
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["signers"],
        "resourceNames": ["kubernetes.io/*"],
        "verbs": ["approve"],
    }]);
    let_jane(&cluster, "approver", &rules).await;
    let approved = jane.send("PATCH", &format!("{path}/approval"), MERGE, &condition("Approved")).await;
    let approved = approved.expect(StatusCode::OK);
    let given = &approved["status"]["conditions"][0];
    assert!(given["lastUpdateTime"].is_string() && given["lastTransitionTime"].is_string(), "{given}");
    let back = json!({ "status": { "conditions": [] } });
    jane.send("PATCH", &format!("{path}/approval"), MERGE, &back).await.refused(422, "Invalid");
}

#[tokio::test]
async fn a_forbidden_user_cannot_probe_kinds_by_content_negotiation() {
    let cluster = cluster().await;
    let definition = support::webapp_definition();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    Client::administrator(&cluster).post(definitions, &definition).await.expect(StatusCode::CREATED);
    let jane = Client::of(&cluster, "jane's").with(&[("accept", "application/vnd.kubernetes.protobuf")]);
    let of = |answer: support::Answer| answer.code;
    assert_eq!(of(jane.get(support::WEBAPPS).await), StatusCode::FORBIDDEN);
    assert_eq!(of(jane.get("/apis/apps.kubedojo.io/v1beta1/namespaces/default/others").await), StatusCode::FORBIDDEN);
    let admin = Client::administrator(&cluster).with(&[("accept", "application/vnd.kubernetes.protobuf")]);
    assert_eq!(of(admin.get(support::WEBAPPS).await), StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test]
async fn a_request_path_is_authorized_as_it_is_served() {
    let cluster = cluster().await;
    let group = "example.com";
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut definition = support::webapp_definition();
    definition["metadata"]["name"] = json!(format!("watch.{group}"));
    definition["spec"]["group"] = json!(group);
    definition["spec"]["scope"] = json!("Cluster");
    definition["spec"]["names"] = json!({ "plural": "watch", "kind": "Watch" });
    let admin = Client::administrator(&cluster);
    admin.post(definitions, &definition).await.expect(StatusCode::CREATED);
    let path = "/apis/example.com/v1beta1/watch";
    let object = json!({ "apiVersion": "example.com/v1beta1", "kind": "Watch", "metadata": { "name": "secret" }, "spec": { "image": "nginx" } });
    admin.post(path, &object).await.expect(StatusCode::CREATED);
    // The server authorizes this path as a watch of a resource called `secret`.
    let_jane(&cluster, "watcher", &json!([{ "apiGroups": [group], "resources": ["secret"], "verbs": ["watch"] }]))
        .await;
    let answer = Client::of(&cluster, "jane's").get(&format!("{path}/secret")).await;
    assert_eq!(answer.code, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_definition_of_a_built_in_resource_gives_no_access_to_its_objects() {
    let cluster = cluster().await;
    let rules = json!([{
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "verbs": ["create", "get", "list", "watch", "delete"],
    }]);
    let_jane(&cluster, "definer", &rules).await;
    let jane = Client::of(&cluster, "jane's");
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let name = "clusterroles.rbac.authorization.k8s.io";
    let mut definition = support::webapp_definition();
    definition["metadata"] = json!({ "name": name, "annotations": { "api-approved.kubernetes.io": "unapproved" } });
    definition["spec"]["group"] = json!("rbac.authorization.k8s.io");
    definition["spec"]["scope"] = json!("Cluster");
    definition["spec"]["names"] = json!({ "plural": "clusterroles", "kind": "Odd" });
    let admin = Client::administrator(&cluster);
    let before = admin.get(CLUSTER_ROLES).await.expect(StatusCode::OK);
    jane.post(definitions, &definition).await.expect(StatusCode::CREATED);
    jane.send("DELETE", &format!("{definitions}/{name}"), JSON, &Value::Null).await.expect(StatusCode::OK);
    let path = format!("{definitions}?watch=true&fieldSelector=metadata.name%3D{name}");
    let mut watch = cluster.watch_with(&path, &[("authorization", &admin.token)]).await;
    let gone = admin.get(&format!("{definitions}/{name}")).await.code == StatusCode::NOT_FOUND;
    while !gone && watch.next().await.expect("the watch goes on").0 != "DELETED" {}
    assert_eq!(admin.get(CLUSTER_ROLES).await.expect(StatusCode::OK)["items"], before["items"]);
}

#[tokio::test]
async fn an_impersonated_node_has_only_the_groups_of_nodes() {
    let cluster = cluster().await;
    let node = |name: &'static str| Client::of(&cluster, "jane's").with(&[("impersonate-user", name)]);
    let rules = json!([
        { "apiGroups": ["authentication.k8s.io"], "resources": ["nodes"], "verbs": ["impersonate:arbitrary-node"] },
        {
            "apiGroups": ["authentication.k8s.io"],
            "resources": ["selfsubjectreviews"],
            "verbs": ["impersonate-on:arbitrary-node:create", "create"],
        },
    ]);
    let_jane(&cluster, "nodes", &rules).await;
    let review = node("system:node:a").post(REVIEWS, &json!({})).await.expect(StatusCode::CREATED);
    let expected = json!({ "username": "system:node:a", "groups": ["system:nodes", "system:authenticated"] });
    assert_eq!(review["status"]["userInfo"], expected);
    // Neither user name contains a valid node name.
    node("system:node:A").post(REVIEWS, &json!({})).await.refused(403, "Forbidden");
    node("system:node:").post(REVIEWS, &json!({})).await.refused(403, "Forbidden");
}

#[tokio::test]
async fn a_node_account_may_act_only_as_its_own_node() {
    let cluster = cluster().await;
    let admin = Client::administrator(&cluster);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    admin.post(accounts, &json!({ "metadata": { "name": "agent" } })).await.expect(StatusCode::CREATED);
    for name in ["a", "b"] {
        admin.post("/api/v1/nodes", &json!({ "metadata": { "name": name } })).await.expect(StatusCode::CREATED);
    }
    let bound = json!({ "spec": { "boundObjectRef": { "kind": "Node", "apiVersion": "v1", "name": "a" } } });
    let token = admin.post(&format!("{accounts}/agent/token"), &bound).await.expect(StatusCode::CREATED);
    let token = token["status"]["token"].as_str().expect("a token").to_owned();
    let rules = json!([
        { "apiGroups": ["authentication.k8s.io"], "resources": ["nodes"], "verbs": ["impersonate:associated-node"] },
        {
            "apiGroups": ["authentication.k8s.io"],
            "resources": ["selfsubjectreviews"],
            "verbs": ["impersonate-on:associated-node:create"],
        },
    ]);
    admin.post(CLUSTER_ROLES, &role("agent", &rules)).await.expect(StatusCode::CREATED);
    let mut bound = binding("agent", ("ClusterRole", "agent"), ("ServiceAccount", "agent"));
    bound["subjects"] = json!([{ "kind": "ServiceAccount", "name": "agent", "namespace": "default" }]);
    admin.post(CLUSTER_BINDINGS, &bound).await.expect(StatusCode::CREATED);
    let agent = |node: &'static str| Client::of(&cluster, &token).with(&[("impersonate-user", node)]);
    let review = agent("system:node:a").post(REVIEWS, &json!({})).await.expect(StatusCode::CREATED);
    assert_eq!(review["status"]["userInfo"]["groups"], json!(["system:nodes", "system:authenticated"]));
    agent("system:node:b").post(REVIEWS, &json!({})).await.refused(403, "Forbidden");
}

#[tokio::test]
async fn groups_and_extras_of_an_impersonated_user_need_their_own_rights() {
    let cluster = cluster().await;
    let verbs = json!(["impersonate:user-info"]);
    let rules = json!([
        { "apiGroups": ["authentication.k8s.io"], "resources": ["*"], "verbs": verbs },
        { "apiGroups": [""], "resources": ["pods"], "verbs": ["impersonate-on:user-info:list"] },
    ]);
    let_jane(&cluster, "any", &rules).await;
    let admin = Client::administrator(&cluster);
    admin.post(ROLES, &role("lister", &may(&["list"], "pods"))).await.expect(StatusCode::CREATED);
    let bound = binding("lister", ("Role", "lister"), ("User", "joe"));
    admin.post(BINDINGS, &bound).await.expect(StatusCode::CREATED);
    let joe =
        |more: (&'static str, &'static str)| Client::of(&cluster, "jane's").with(&[("impersonate-user", "joe"), more]);
    joe(("impersonate-extra-a.b%2fc", "d")).get(PODS).await.expect(StatusCode::OK);
    let refused = [
        ("impersonate-group", ""),
        ("impersonate-group", "system:masters"),
        ("impersonate-extra-scopes", "a"),
        ("impersonate-extra-a.b%2fc", ""),
        ("impersonate-extra-a.b%2f%41", "d"),
        ("impersonate-extra-a_b%2fc", "d"),
    ];
    for more in refused {
        assert_eq!(joe(more).get(PODS).await.code, StatusCode::FORBIDDEN, "{more:?}");
    }
}
