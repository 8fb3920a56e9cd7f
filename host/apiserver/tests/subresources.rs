//! Subresources other than plain updates: bindings, evictions, tokens and logs. Also `scale`, by every kind of patch.

mod support;

use http::StatusCode;
use serde_json::{Value, json};
use support::{APPLY, Cluster, DEPLOYMENTS, JSON_PATCH, MERGE, STRATEGIC, deployment};

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

async fn with_pod() -> Cluster {
    let cluster = Cluster::quiet().await;
    let pod = json!({
        "metadata": { "name": "a", "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "main", "image": "nginx:1" }, { "name": "side", "image": "nginx:1" }] },
    });
    cluster.post(PODS, &pod).await.expect(StatusCode::CREATED);
    cluster
}

fn about(name: &str, more: &Value) -> Value {
    let mut body = json!({ "metadata": { "name": name } });
    body.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    body
}

#[tokio::test]
async fn a_pod_is_bound_to_a_node_once() {
    let cluster = with_pod().await;
    let path = format!("{PODS}/a/binding");
    let node = about("a", &json!({ "target": { "kind": "Node", "name": "n" } }));
    cluster.post(&path, &about("b", &json!({}))).await.refused(400, "BadRequest");
    let nowhere = cluster.post(&path, &about("a", &json!({ "target": { "kind": "Foo" } }))).await;
    assert_eq!(nowhere.code, StatusCode::INTERNAL_SERVER_ERROR);
    for (precondition, what) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let mut other = node.clone();
        other["metadata"][precondition] = json!("1");
        let refused = cluster.post(&path, &other).await.refused(409, "Conflict");
        assert!(refused.contains(&format!("Precondition failed: {what} in precondition: 1, ")), "{refused}");
    }
    let done = cluster.post(&path, &node).await.expect(StatusCode::CREATED);
    assert_eq!(done["status"], "Success");
    let pod = cluster.get(&format!("{PODS}/a")).await.expect(StatusCode::OK);
    assert_eq!(pod["spec"]["nodeName"], "n");
    let message = cluster.post(&path, &node).await.refused(409, "Conflict");
    assert!(message.ends_with("pod a is already assigned to node \"n\""), "{message}");
    cluster.get(&path).await.refused(405, "MethodNotAllowed");
}

#[tokio::test]
async fn an_eviction_needs_the_disruption_budgets_permission() {
    let cluster = with_pod().await;
    let budget = json!({ "metadata": { "name": "b" }, "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } } });
    cluster.post(BUDGETS, &budget).await.expect(StatusCode::CREATED);
    let ready = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    cluster.patch(&format!("{PODS}/a/status"), MERGE, &ready).await.expect(StatusCode::OK);
    let path = format!("{PODS}/a/eviction");
    let evict = |more: Value| about("a", &more);

    let early = cluster.post(&path, &evict(json!({}))).await;
    assert_eq!(early.code, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(early.body["details"]["retryAfterSeconds"], 10);
    assert_eq!(early.body["details"]["causes"][0]["reason"], "DisruptionBudget");

    let status = |allowed: i64, healthy: i64| json!({ "status": { "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": 1 } });
    let path_of_status = format!("{BUDGETS}/b/status");
    cluster.patch(&path_of_status, MERGE, &status(0, 1)).await.expect(StatusCode::OK);
    let full = cluster.post(&path, &evict(json!({}))).await;
    let expected = "The disruption budget b needs 1 healthy pods and has 1 currently";
    assert_eq!(full.body["details"]["causes"][0]["message"], expected);

    cluster.patch(&path_of_status, MERGE, &status(1, 2)).await.expect(StatusCode::OK);
    let other = evict(json!({ "deleteOptions": { "preconditions": { "uid": "other" } } }));
    cluster.post(&path, &other).await.refused(409, "Conflict");
    cluster.post(&format!("{path}?dryRun=All"), &evict(json!({}))).await.expect(StatusCode::CREATED);
    cluster.get(&format!("{PODS}/a")).await.expect(StatusCode::OK);
    cluster.post(&path, &evict(json!({}))).await.expect(StatusCode::CREATED);
    let budget = cluster.get(&format!("{BUDGETS}/b")).await.expect(StatusCode::OK);
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert!(budget["status"]["disruptedPods"]["a"].is_string());
}

#[tokio::test]
async fn a_service_account_gets_a_token_that_the_server_accepts() {
    let cluster = Cluster::quiet().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    cluster.post(accounts, &json!({ "metadata": { "name": "robot" } })).await.expect(StatusCode::CREATED);
    let path = format!("{accounts}/robot/token");
    let issued = cluster.post(&path, &json!({ "spec": {} })).await.expect(StatusCode::CREATED);
    assert_eq!(issued["spec"]["expirationSeconds"], 3600);
    let token = issued["status"]["token"].as_str().expect("a token");
    let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", support::JSON)];
    let review = cluster.send("POST", reviews, &headers, b"{}").await.expect(StatusCode::CREATED);
    assert_eq!(review["status"]["userInfo"]["username"], "system:serviceaccount:default:robot");

    let short = json!({ "spec": { "expirationSeconds": 5 } });
    cluster.post(&path, &short).await.refused(422, "Invalid");
    let bound = json!({ "spec": { "boundObjectRef": { "apiVersion": "v1", "kind": "Secret", "name": "none" } } });
    cluster.post(&path, &bound).await.refused(404, "NotFound");
    cluster.post(&format!("{accounts}/none/token"), &json!({ "spec": {} })).await.refused(404, "NotFound");
    let earlier = json!({ "metadata": { "uid": "1" }, "spec": {} });
    let refused = cluster.post(&path, &earlier).await.refused(409, "Conflict");
    assert!(refused.contains("the UID in the token request (1) does not match"), "{refused}");
}

#[tokio::test]
async fn a_log_request_must_select_one_container() {
    let cluster = with_pod().await;
    let path = format!("{PODS}/a/log");
    let message = cluster.get(&path).await.refused(400, "BadRequest");
    assert_eq!(message, "a container name must be specified for pod a, choose one of: [main side]");
    let message = cluster.get(&format!("{path}?container=x")).await.refused(400, "BadRequest");
    assert_eq!(message, "container x is not valid for pod a");
    let log = cluster.get(&format!("{path}?container=side")).await.expect(StatusCode::OK);
    assert!(log.as_str().expect("text").contains("no containers"));
}

#[tokio::test]
async fn a_scale_accepts_every_kind_of_patch() {
    let cluster = Cluster::quiet().await;
    cluster.post(DEPLOYMENTS, &deployment("a")).await.expect(StatusCode::CREATED);
    let path = format!("{DEPLOYMENTS}/a/scale");
    let replicas = |number: i64| json!({ "spec": { "replicas": number } });
    let merged = cluster.patch(&path, MERGE, &replicas(3)).await.expect(StatusCode::OK);
    assert_eq!(merged["spec"]["replicas"], 3);
    let merged = cluster.patch(&path, STRATEGIC, &replicas(4)).await.expect(StatusCode::OK);
    assert_eq!(merged["spec"]["replicas"], 4);
    let change = json!([{ "op": "replace", "path": "/spec/replicas", "value": 5 }]);
    let patched = cluster.patch(&path, JSON_PATCH, &change).await.expect(StatusCode::OK);
    assert_eq!(patched["spec"]["replicas"], 5);

    let config = json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": { "name": "a" },
        "spec": { "replicas": 6 },
    });
    cluster.patch(&format!("{path}?fieldManager=m"), APPLY, &config).await.refused(409, "Conflict");
    let forced = format!("{path}?fieldManager=m&force=true");
    let applied = cluster.patch(&forced, APPLY, &config).await.expect(StatusCode::OK);
    assert_eq!((&applied["kind"], &applied["spec"]["replicas"]), (&json!("Scale"), &json!(6)));
    let parent = cluster.get(&format!("{DEPLOYMENTS}/a")).await.expect(StatusCode::OK);
    let managers = parent["metadata"]["managedFields"].as_array().expect("managers");
    let manager = managers.iter().find(|manager| manager["manager"] == "m").expect("it is recorded");
    assert_eq!((&manager["operation"], &manager["subresource"]), (&json!("Apply"), &json!("scale")));
}

#[tokio::test]
async fn a_status_update_may_change_annotations() {
    let cluster = Cluster::quiet().await;
    cluster.post(DEPLOYMENTS, &deployment("a")).await.expect(StatusCode::CREATED);
    let change =
        json!({ "metadata": { "annotations": { "a": "b" }, "labels": { "c": "d" } }, "spec": { "replicas": 9 } });
    let path = format!("{DEPLOYMENTS}/a/status");
    let written = cluster.patch(&path, MERGE, &change).await.expect(StatusCode::OK);
    assert_eq!(written["metadata"]["annotations"], json!({ "a": "b" }));
    assert_eq!(written["metadata"].get("labels"), None, "a Deployment's labels are kept");
    assert_eq!(written["spec"]["replicas"], 2);
}
