//! Authorization by roles: rights, impersonation, and the reviews that report them.

mod support;

use hyper::StatusCode;
use serde_json::{Value, json};
use support::rbac::{
    BINDINGS, CLUSTER_BINDINGS, CLUSTER_ROLES, Client, PODS, ROLES, binding, cluster, grant, may, role,
};
use support::{Answer, CONFIG_MAPS, Cluster, JSON, config_map};

#[tokio::test]
async fn a_request_that_no_role_allows_is_forbidden() {
    let cluster = cluster().await;
    let jane = Client::of(&cluster, "jane's");
    let refused = jane.get(PODS).await.refused(403, "Forbidden");
    let expected =
        r#"pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default""#;
    assert_eq!(refused, expected);
    let refused = jane.send("DELETE", "/apis/apps/v1/namespaces/a/deployments/b/scale", JSON, &Value::Null).await;
    let expected = "deployments.apps \"b\" is forbidden: User \"jane\" cannot delete resource \"deployments/scale\" in \
                    API group \"apps\" in the namespace \"a\"";
    assert_eq!(refused.refused(403, "Forbidden"), expected);
    // The refusal does not reveal whether the resource exists.
    jane.get("/apis/example.com/v1/things").await.refused(403, "Forbidden");
    let refused = jane.get("/metrics").await.refused(403, "Forbidden");
    assert_eq!(refused, r#"forbidden: User "jane" cannot get path "/metrics""#);
}

#[tokio::test]
async fn a_request_without_a_token_is_anonymous() {
    let cluster = cluster().await;
    assert_eq!(Client::of(&cluster, "stolen").get("/version").await.refused(401, "Unauthorized"), "Unauthorized");
    cluster.get("/version").await.expect(StatusCode::OK);
    cluster.get("/healthz").await.expect(StatusCode::OK);
    let refused = cluster.get("/api").await.refused(403, "Forbidden");
    assert_eq!(refused, r#"forbidden: User "system:anonymous" cannot get path "/api""#);
    Client::of(&cluster, "jane's").get("/api").await.expect(StatusCode::OK);
    Client::administrator(&cluster).get("/metrics/cadvisor").await.expect(StatusCode::NOT_FOUND);
    let kubeconfig = cluster.server.kubeconfig();
    assert!(kubeconfig.contains(&format!("token: {}", cluster.server.token().expect("a token"))), "{kubeconfig}");
}

#[tokio::test]
async fn a_role_binding_applies_to_its_subjects_in_its_namespace() {
    let cluster = cluster().await;
    grant(&cluster, "reader", &may(&["get", "list"], "configmaps")).await;
    let jane = Client::of(&cluster, "jane's");
    jane.get(CONFIG_MAPS).await.expect(StatusCode::OK);
    jane.get("/api/v1/namespaces/kube-system/configmaps").await.refused(403, "Forbidden");
    jane.get("/api/v1/configmaps").await.refused(403, "Forbidden");
    jane.get(&format!("{CONFIG_MAPS}?watch=true")).await.refused(403, "Forbidden");
    jane.post(CONFIG_MAPS, &config_map("a")).await.refused(403, "Forbidden");
    // An apply that creates the object needs the rights to patch and to create.
    grant(&cluster, "patcher", &may(&["patch"], "configmaps")).await;
    let path = format!("{CONFIG_MAPS}/a?fieldManager=jane");
    let apply = "application/apply-patch+yaml";
    jane.send("PATCH", &path, apply, &config_map("a")).await.refused(403, "Forbidden");
    Client::administrator(&cluster).post(CONFIG_MAPS, &config_map("a")).await.expect(StatusCode::CREATED);
    jane.send("PATCH", &path, apply, &config_map("a")).await.expect(StatusCode::OK);
}

#[tokio::test]
async fn a_continue_token_gives_no_right_to_other_objects() {
    let cluster = cluster().await;
    let administrator = Client::administrator(&cluster);
    for name in ["a", "b"] {
        administrator
            .post("/api/v1/namespaces/kube-system/configmaps", &config_map(name))
            .await
            .expect(StatusCode::CREATED);
    }
    let first = administrator.get("/api/v1/configmaps?limit=1").await.expect(StatusCode::OK);
    let token = first["metadata"]["continue"].as_str().expect("a token");
    grant(&cluster, "jane", &may(&["list"], "configmaps")).await;
    let jane = Client::of(&cluster, "jane's");
    let own = jane.get(&format!("{CONFIG_MAPS}?continue={token}")).await.expect(StatusCode::OK);
    assert_eq!(own["items"], json!([]));
    jane.get(&format!("/api/v1/configmaps?continue={token}")).await.refused(403, "Forbidden");
    let rest = administrator.get(&format!("/api/v1/configmaps?continue={token}")).await.expect(StatusCode::OK);
    assert_eq!(rest["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_name_after_an_escaped_comma_in_a_selector_gives_no_right() {
    let cluster = cluster().await;
    let rules =
        json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"], "resourceNames": ["mine"] }]);
    grant(&cluster, "jane", &rules).await;
    let jane = Client::of(&cluster, "jane's");
    jane.get(&format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dmine")).await.expect(StatusCode::OK);
    let seems = format!("{CONFIG_MAPS}?fieldSelector=metadata.namespace!%3D%5C,metadata.name%3Dmine");
    jane.get(&seems).await.expect(StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_refusal_names_the_missing_role_of_a_binding() {
    let cluster = cluster().await;
    let vain = binding("vain", ("ClusterRole", "nothing"), ("User", "jane"));
    Client::administrator(&cluster).post(CLUSTER_BINDINGS, &vain).await.expect(StatusCode::CREATED);
    let refused = Client::of(&cluster, "jane's").get("/api/v1/nodes").await.refused(403, "Forbidden");
    let expected = "nodes is forbidden: User \"jane\" cannot list resource \"nodes\" in API group \"\" at the cluster \
                    scope: RBAC: clusterrole.rbac.authorization.k8s.io \"nothing\" not found";
    assert_eq!(refused, expected);
}

#[tokio::test]
async fn a_user_cannot_grant_more_rights_than_it_has() {
    let cluster = cluster().await;
    let write_roles = json!([
        { "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["create", "patch"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"] },
    ]);
    grant(&cluster, "writer", &write_roles).await;
    let jane = Client::of(&cluster, "jane's");
    jane.post(ROLES, &role("less", &may(&["get"], "configmaps"))).await.expect(StatusCode::CREATED);
    let refused = jane.post(ROLES, &role("more", &may(&["get", "delete"], "configmaps"))).await;
    let expected = "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"jane\" (groups=[\"team\" \
                    \"system:authenticated\"]) is attempting to grant RBAC permissions not currently \
                    held:\n{APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"delete\"]}";
    assert_eq!(refused.refused(403, "Forbidden"), expected);
    let more = json!({ "rules": may(&["*"], "configmaps") });
    let path = format!("{ROLES}/less");
    let merge = support::MERGE;
    jane.send("PATCH", &path, merge, &more).await.refused(403, "Forbidden");
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    jane.send("PATCH", &path, merge, &label).await.expect(StatusCode::OK);
    // Any change of a role needs the role's rights, even a change of a label, since aggregation selects roles by label.
    let strong = role("strong", &may(&["delete"], "configmaps"));
    Client::administrator(&cluster).post(ROLES, &strong).await.expect(StatusCode::CREATED);
    jane.send("PATCH", &format!("{ROLES}/strong"), merge, &label).await.refused(403, "Forbidden");

    jane.post(BINDINGS, &binding("own", ("Role", "less"), ("User", "joe"))).await.expect(StatusCode::CREATED);
    let admin = binding("admin", ("ClusterRole", "cluster-admin"), ("User", "jane"));
    let refused = jane.post(BINDINGS, &admin).await.refused(403, "Forbidden");
    assert!(refused.contains("is attempting to grant RBAC permissions not currently held"), "{refused}");
    jane.post(BINDINGS, &binding("vain", ("ClusterRole", "nothing"), ("User", "joe"))).await.refused(404, "NotFound");

    let bind = json!([{
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterroles"],
        "resourceNames": ["cluster-admin"],
        "verbs": ["bind"],
    }]);
    grant(&cluster, "binder", &bind).await;
    jane.post(BINDINGS, &admin).await.expect(StatusCode::CREATED);
    jane.get(PODS).await.expect(StatusCode::OK);
}

#[tokio::test]
async fn a_right_to_escalate_one_role_does_not_allow_creating_roles() {
    let cluster = cluster().await;
    let rbac = "rbac.authorization.k8s.io";
    let rules = json!([
        { "apiGroups": [rbac], "resources": ["roles", "rolebindings"], "verbs": ["create", "update", "patch"] },
        { "apiGroups": [rbac], "resources": ["roles"], "resourceNames": ["mine"], "verbs": ["escalate"] },
    ]);
    grant(&cluster, "writer", &rules).await;
    let jane = Client::of(&cluster, "jane's");
    let mine = role("mine", &may(&["delete"], "pods"));
    // This is refused as in a real server, because the path of a creation has no name.
    jane.post(ROLES, &mine).await.refused(403, "Forbidden");
    jane.send("PUT", &format!("{ROLES}/mine"), JSON, &mine).await.expect(StatusCode::CREATED);
    // An unknown kind of role is an error, even if it differs only in case.
    let odd = binding("odd", ("CLUSTERROLE", "cluster-admin"), ("User", "jane"));
    jane.post(BINDINGS, &odd).await.expect(StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn defaults_come_before_the_check_of_escalation() {
    let cluster = cluster().await;
    let rbac = "rbac.authorization.k8s.io";
    let rules = json!([
        { "apiGroups": [rbac], "resources": ["rolebindings"], "verbs": ["create", "patch"] },
        { "apiGroups": [rbac], "resources": ["clusterroles"], "resourceNames": ["view"], "verbs": ["bind"] },
    ]);
    grant(&cluster, "binder", &rules).await;
    let jane = Client::of(&cluster, "jane's");
    let without_group = json!({
        "metadata": { "name": "viewers" },
        "roleRef": { "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "kind": "User", "name": "joe" }],
    });
    jane.post(BINDINGS, &without_group).await.expect(StatusCode::CREATED);
    // Changes of unknown fields and finalizers need no rights to the binding's role.
    let strong = binding("strong", ("ClusterRole", "cluster-admin"), ("User", "joe"));
    Client::administrator(&cluster).post(BINDINGS, &strong).await.expect(StatusCode::CREATED);
    let change = json!({ "odd": 1, "metadata": { "finalizers": ["example.com/a"] } });
    let path = format!("{BINDINGS}/strong");
    jane.send("PATCH", &path, support::MERGE, &change).await.expect(StatusCode::OK);
}

#[tokio::test]
async fn only_a_user_with_all_rights_changes_an_aggregated_role() {
    let cluster = cluster().await;
    let rbac = "rbac.authorization.k8s.io";
    let rules = json!([
        { "apiGroups": [rbac], "resources": ["clusterroles"], "verbs": ["create", "patch"] },
        { "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] },
    ]);
    let admin = Client::administrator(&cluster);
    admin.post(CLUSTER_ROLES, &role("writer", &rules)).await.expect(StatusCode::CREATED);
    let bound = binding("writer", ("ClusterRole", "writer"), ("User", "jane"));
    admin.post(CLUSTER_BINDINGS, &bound).await.expect(StatusCode::CREATED);
    let selectors = json!({ "clusterRoleSelectors": [{ "matchLabels": { "nobody": "has" } }] });
    let mut all = role("all", &json!([]));
    all["aggregationRule"] = selectors.clone();
    let jane = Client::of(&cluster, "jane's");
    let expected = "clusterroles.rbac.authorization.k8s.io \"all\" is forbidden: must have cluster-admin privileges to use \
                    the aggregationRule";
    assert_eq!(jane.post(CLUSTER_ROLES, &all).await.refused(403, "Forbidden"), expected);
    admin.post(CLUSTER_ROLES, &all).await.expect(StatusCode::CREATED);
    let path = format!("{CLUSTER_ROLES}/all");
    let own = json!({ "aggregationRule": null, "rules": may(&["get"], "pods") });
    assert_eq!(jane.send("PATCH", &path, support::MERGE, &own).await.refused(403, "Forbidden"), expected);
    // The rules are checked first.
    let more = json!({ "rules": may(&["delete"], "pods") });
    let refused = jane.send("PATCH", &path, support::MERGE, &more).await.refused(403, "Forbidden");
    assert!(refused.contains("not currently held"), "{refused}");
}

#[tokio::test]
async fn a_user_with_the_right_to_impersonate_acts_as_another_user() {
    let cluster = cluster().await;
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let user = |answer: Answer| answer.expect(StatusCode::CREATED)["status"]["userInfo"].clone();
    let admin = || Client::administrator(&cluster);

    let account = admin().with(&[("impersonate-user", "system:serviceaccount:default:robot")]);
    let expected = json!({
        "username": "system:serviceaccount:default:robot",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
    });
    assert_eq!(user(account.post(reviews, &json!({})).await), expected);
    account.get(PODS).await.refused(403, "Forbidden");

    let headers = [
        ("impersonate-user", "joe"),
        ("impersonate-group", "a"),
        ("impersonate-group", "b"),
        ("impersonate-uid", "1"),
        ("impersonate-extra-example.com%2fscopes", "view"),
    ];
    let expected = json!({
        "username": "joe",
        "uid": "1",
        "groups": ["a", "b", "system:authenticated"],
        "extra": { "example.com/scopes": ["view"] },
    });
    assert_eq!(user(admin().with(&headers).post(reviews, &json!({})).await), expected);

    let jane = || Client::of(&cluster, "jane's");
    let refused = jane().with(&[("impersonate-user", "joe")]).get(PODS).await.refused(403, "Forbidden");
    let expected = "pods is forbidden: User \"jane\" cannot impersonate-on:user-info:list resource \"pods\" in API group \
                    \"\" in the namespace \"default\"";
    assert_eq!(refused, expected);
    let joe =
        json!([{ "apiGroups": [""], "resources": ["users"], "resourceNames": ["joe"], "verbs": ["impersonate"] }]);
    admin().post(CLUSTER_ROLES, &role("joe", &joe)).await.expect(StatusCode::CREATED);
    let bound = binding("joe", ("ClusterRole", "joe"), ("User", "jane"));
    admin().post(CLUSTER_BINDINGS, &bound).await.expect(StatusCode::CREATED);
    assert_eq!(user(jane().with(&headers[..1]).post(reviews, &json!({})).await)["username"], "joe");
    // Each header's value needs its own right.
    let refused = jane().with(&headers).post(reviews, &json!({})).await.refused(403, "Forbidden");
    let expected = r#"groups "a" is forbidden: User "jane" cannot impersonate resource "groups" in API group "" at the cluster scope"#;
    assert_eq!(refused, expected);
}

#[tokio::test]
async fn constrained_impersonation_is_limited_to_some_requests() {
    let cluster = cluster().await;
    let admin = Client::administrator(&cluster);
    let rules = json!([
        { "apiGroups": ["authentication.k8s.io"], "resources": ["users"], "verbs": ["impersonate:user-info"] },
        { "apiGroups": [""], "resources": ["pods"], "verbs": ["impersonate-on:user-info:list"] },
    ]);
    admin.post(CLUSTER_ROLES, &role("lister", &rules)).await.expect(StatusCode::CREATED);
    let bound = binding("lister", ("ClusterRole", "lister"), ("User", "jane"));
    admin.post(CLUSTER_BINDINGS, &bound).await.expect(StatusCode::CREATED);
    let bound = binding("joe", ("ClusterRole", "view"), ("User", "joe"));
    admin.post(CLUSTER_BINDINGS, &bound).await.expect(StatusCode::CREATED);
    let joe = Client::of(&cluster, "jane's").with(&[("impersonate-user", "joe")]);
    joe.get(PODS).await.expect(StatusCode::OK);
    joe.get(&format!("{PODS}/a")).await.refused(403, "Forbidden");
    joe.get(CONFIG_MAPS).await.refused(403, "Forbidden");
    let masters = joe.with(&[("impersonate-group", "system:masters")]);
    masters.get(PODS).await.refused(403, "Forbidden");
}

#[tokio::test]
async fn access_reviews_agree_with_the_responses_to_requests() {
    let cluster = cluster().await;
    grant(&cluster, "reader", &may(&["list"], "pods")).await;
    let group = "/apis/authorization.k8s.io/v1";
    let jane = Client::of(&cluster, "jane's");
    let asked = |verb: &str| json!({ "verb": verb, "resource": "pods", "namespace": "default" });
    for (verb, allowed) in [("list", true), ("delete", false)] {
        let review = json!({ "spec": { "resourceAttributes": asked(verb) } });
        let own = jane.post(&format!("{group}/selfsubjectaccessreviews"), &review).await.expect(StatusCode::CREATED);
        assert_eq!(own["status"]["allowed"], allowed, "{own}");
        let review = json!({ "spec": { "groups": ["team"], "resourceAttributes": asked(verb) } });
        let admin = Client::administrator(&cluster);
        let path = format!("{group}/namespaces/default/localsubjectaccessreviews");
        let local = admin.post(&path, &review).await.expect(StatusCode::CREATED);
        assert_eq!(local["status"], own["status"]);
    }
    let review = json!({ "spec": { "resourceAttributes": asked("list") } });
    let own = jane.post(&format!("{group}/selfsubjectaccessreviews"), &review).await.expect(StatusCode::CREATED);
    let reason = r#"RBAC: allowed by RoleBinding "reader/default" of Role "reader" to Group "team""#;
    assert_eq!(own["status"]["reason"], reason);

    let review = json!({ "spec": { "namespace": "default" } });
    let rules = jane.post(&format!("{group}/selfsubjectrulesreviews"), &review).await.expect(StatusCode::CREATED);
    let expected = json!({ "verbs": ["list"], "apiGroups": [""], "resources": ["pods"] });
    assert!(rules["status"]["resourceRules"].as_array().expect("rules").contains(&expected), "{rules}");
    // A review of another user needs a right.
    jane.post(&format!("{group}/subjectaccessreviews"), &review).await.refused(403, "Forbidden");
    let nobody = json!({ "spec": { "resourceAttributes": asked("list") } });
    let admin = Client::administrator(&cluster);
    admin.post(&format!("{group}/subjectaccessreviews"), &nobody).await.refused(422, "Invalid");
}

#[tokio::test]
async fn an_aggregated_role_includes_the_roles_that_its_labels_select() {
    let cluster = cluster().await;
    let admin = Client::administrator(&cluster);
    let bound = binding("view", ("ClusterRole", "view"), ("User", "jane"));
    admin.post(CLUSTER_BINDINGS, &bound).await.expect(StatusCode::CREATED);
    let jane = Client::of(&cluster, "jane's");
    jane.get(PODS).await.expect(StatusCode::OK);
    jane.get("/api/v1/namespaces/default/secrets").await.refused(403, "Forbidden");

    let view = admin.get(&format!("{CLUSTER_ROLES}/view")).await.expect(StatusCode::OK);
    let version = support::version_of(&view).to_owned();
    let mut more = role("more", &may(&["get", "list"], "secrets"));
    more["metadata"]["labels"] = json!({ "rbac.authorization.k8s.io/aggregate-to-view": "true" });
    admin.post(CLUSTER_ROLES, &more).await.expect(StatusCode::CREATED);
    let path = format!("{CLUSTER_ROLES}?watch=true&fieldSelector=metadata.name%3Dview&resourceVersion={version}");
    let mut watch = cluster.watch_with(&path, &[("authorization", &admin.token)]).await;
    assert_eq!(watch.next_name().await, ("MODIFIED".to_owned(), "view".to_owned()));
    jane.get("/api/v1/namespaces/default/secrets").await.expect(StatusCode::OK);
}

#[tokio::test]
async fn a_token_review_reports_the_user_of_a_token() {
    let cluster = cluster().await;
    let admin = Client::administrator(&cluster);
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let of = |token: &str| json!({ "spec": { "token": token } });
    let known = admin.post(reviews, &of("jane's")).await.expect(StatusCode::CREATED);
    assert_eq!(known["status"]["user"], json!({ "username": "jane", "groups": ["team", "system:authenticated"] }));
    assert_eq!(known["status"]["authenticated"], true);
    let unknown = admin.post(reviews, &of("stolen")).await.expect(StatusCode::CREATED);
    assert_ne!(unknown["status"]["authenticated"], true);
    admin.post(reviews, &of("")).await.refused(400, "BadRequest");
}

#[tokio::test]
async fn without_authorization_everyone_may_impersonate_anyone() {
    let cluster = Cluster::quiet().await;
    assert_eq!(cluster.server.token(), None);
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let impersonating = [("impersonate-user", "joe"), ("content-type", JSON)];
    let review = cluster.send("POST", reviews, &impersonating, b"{}").await.expect(StatusCode::CREATED);
    assert_eq!(review["status"]["userInfo"]["username"], "joe");
    let review = Client::of(&cluster, "any").post(reviews, &json!({})).await.expect(StatusCode::CREATED);
    assert_eq!(review["status"]["userInfo"]["groups"][0], "system:masters");

    let mut robot = json!({ "metadata": { "name": "robot" } });
    robot["metadata"]["annotations"] = json!({ "windlass.dev/deny": "configmaps, deployments.apps" });
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    cluster.post(accounts, &robot).await.expect(StatusCode::CREATED);
    for (group, resource, allowed) in [("", "configmaps", false), ("apps", "deployments", false), ("", "pods", true)] {
        let attributes = json!({ "verb": "get", "group": group, "resource": resource });
        let user = "system:serviceaccount:default:robot";
        let review = json!({ "spec": { "user": user, "resourceAttributes": attributes } });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = cluster.post(path, &review).await.expect(StatusCode::CREATED);
        assert_eq!(answer["status"]["allowed"], allowed, "{resource}");
    }
}
