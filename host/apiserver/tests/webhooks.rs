//! Calls of admission webhooks.

mod support;

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};
use support::hook::Hook;
use support::{CONFIG_MAPS, Cluster, DEPLOYMENTS, MERGE, config_map, deployment};
use tokio::net::TcpListener;

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

fn it() -> String {
    format!("{CONFIG_MAPS}/it")
}

#[tokio::test]
async fn a_mutating_webhook_changes_the_stored_object() {
    let (cluster, hook) = (Cluster::quiet().await, Hook::start().await);
    let stored = cluster.post(MUTATING, &hook.configuration("label", "label", "configmaps")).await;
    let stored = stored.expect(StatusCode::CREATED);
    assert_eq!(stored["webhooks"][0]["failurePolicy"], "Fail");
    assert_eq!(stored["webhooks"][0]["reinvocationPolicy"], "Never");

    let made = cluster.post(&format!("{CONFIG_MAPS}?fieldManager=me"), &config_map("it")).await;
    let made = made.expect(StatusCode::CREATED);
    assert_eq!(made["metadata"]["labels"], json!({ "by": "webhook" }));
    assert_eq!(cluster.get(&it()).await.expect(StatusCode::OK), made);

    let asked = hook.asked();
    let [question] = asked.as_slice() else { panic!("asked once: {asked:?}") };
    assert_eq!(question["kind"], json!({ "group": "", "version": "v1", "kind": "ConfigMap" }));
    assert_eq!(question["resource"], json!({ "group": "", "version": "v1", "resource": "configmaps" }));
    assert_eq!(question["requestResource"], question["resource"]);
    assert_eq!((&question["operation"], &question["name"]), (&json!("CREATE"), &json!("it")));
    assert_eq!((&question["namespace"], &question["dryRun"]), (&json!("default"), &json!(false)));
    assert_eq!(question["userInfo"]["username"], "windlass");
    let options = json!({ "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me" });
    assert_eq!(question["options"], options);
    assert_eq!(question["oldObject"], Value::Null);
    assert_eq!(question["object"]["data"], json!({ "a": "b" }));
    assert!(question["object"]["metadata"].get("uid").is_none(), "the server has not decided anything yet");

    cluster.delete(&format!("{MUTATING}/label")).await.expect(StatusCode::OK);
    cluster.post(CONFIG_MAPS, &config_map("later")).await.expect(StatusCode::CREATED);
    assert_eq!(hook.asked().len(), 1, "a configuration that is gone asks nobody");
}

#[tokio::test]
async fn a_validating_webhook_sees_the_final_object() {
    let (cluster, hook) = (Cluster::quiet().await, Hook::start().await);
    cluster.post(VALIDATING, &hook.configuration("warn", "warn", "configmaps")).await.expect(StatusCode::CREATED);
    let mut object = config_map("");
    object["metadata"] = json!({ "generateName": "made-" });
    let answer = cluster.post(CONFIG_MAPS, &object).await;
    assert_eq!(answer.warnings, ["299 - \"beware\""]);
    let made = answer.expect(StatusCode::CREATED);
    let seen = &hook.asked()[0];
    for field in ["name", "uid"] {
        assert_eq!(seen["object"]["metadata"][field], made["metadata"][field], "{field}");
    }
    assert!(seen.get("name").is_none(), "the request did not name it");
}

#[tokio::test]
async fn a_denied_write_changes_nothing() {
    let (cluster, hook) = (Cluster::quiet().await, Hook::start().await);
    cluster.post(CONFIG_MAPS, &config_map("it")).await.expect(StatusCode::CREATED);
    cluster.post(VALIDATING, &hook.configuration("deny", "deny", "configmaps")).await.expect(StatusCode::CREATED);
    let before = cluster.get(CONFIG_MAPS).await.expect(StatusCode::OK);

    let expected = "admission webhook \"deny.example.com\" denied the request: not today";
    let change = json!({ "data": { "a": "c" } });
    assert_eq!(cluster.post(CONFIG_MAPS, &config_map("new")).await.refused(403, "Forbidden"), expected);
    assert_eq!(cluster.patch(&it(), MERGE, &change).await.refused(403, "Forbidden"), expected);
    assert_eq!(cluster.delete(&it()).await.refused(403, "Forbidden"), expected);
    assert_eq!(cluster.delete(CONFIG_MAPS).await.refused(403, "Forbidden"), expected);
    assert_eq!(cluster.get(CONFIG_MAPS).await.expect(StatusCode::OK), before);

    let asked = hook.asked();
    let update = &asked[1];
    assert_eq!((&update["operation"], &update["options"]["kind"]), (&json!("UPDATE"), &json!("UpdateOptions")));
    assert_eq!((&update["object"]["data"]["a"], &update["oldObject"]["data"]["a"]), (&json!("c"), &json!("b")));
    for deletion in &asked[2..] {
        assert_eq!((&deletion["operation"], &deletion["name"]), (&json!("DELETE"), &json!("it")));
        assert_eq!((&deletion["object"], &deletion["oldObject"]["data"]["a"]), (&Value::Null, &json!("b")));
        assert_eq!(deletion["options"]["kind"], "DeleteOptions");
    }
}

#[tokio::test]
async fn a_failing_webhook_fails_the_request_unless_its_policy_is_ignore() {
    let (cluster, hook) = (Cluster::quiet().await, Hook::start().await);
    let nowhere = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    let failing = |name: &str, client: Value, policy: &str| {
        let mut configuration = hook.configuration(name, "x", "configmaps");
        configuration["webhooks"][0]["clientConfig"] = client;
        configuration["webhooks"][0]["failurePolicy"] = json!(policy);
        configuration
    };
    let url = format!("https://{}/broken", hook.address);
    for (name, client, why) in [
        (
            "lost",
            json!({ "url": format!("https://{nowhere}/x") }),
            format!("Post \"https://{nowhere}/x?timeout=10s\": dial tcp {nowhere}: connect: connection refused"),
        ),
        (
            "broken",
            hook.client("broken"),
            "an error on the server (\"oh no\") has prevented the request from succeeding".to_owned(),
        ),
        (
            "untrusted",
            json!({ "url": url }),
            format!(
                "Post \"{url}?timeout=10s\": tls: failed to verify certificate: x509: certificate signed by unknown authority"
            ),
        ),
        (
            "unknown",
            json!({ "service": { "namespace": "default", "name": "none" } }),
            "Post \"https://none.default.svc:443/?timeout=10s\": service \"none\" not found".to_owned(),
        ),
    ] {
        let ignoring = failing(name, client.clone(), "Ignore");
        cluster.post(VALIDATING, &ignoring).await.expect(StatusCode::CREATED);
        cluster.post(CONFIG_MAPS, &config_map(name)).await.expect(StatusCode::CREATED);
        let change = json!({ "webhooks": failing(name, client, "Fail")["webhooks"] });
        let path = format!("{VALIDATING}/{name}");
        cluster.patch(&path, MERGE, &change).await.expect(StatusCode::OK);
        let message = cluster.post(CONFIG_MAPS, &config_map("it")).await.refused(500, "InternalError");
        let expected = format!(
            "Internal error occurred: failed calling webhook \"{name}.example.com\": failed to call webhook: {why}"
        );
        assert_eq!(message, expected);
        cluster.delete(&path).await.expect(StatusCode::OK);
    }
}

#[tokio::test]
async fn a_webhook_may_be_a_service_with_the_external_name_localhost() {
    let (cluster, hook) = (Cluster::quiet().await, Hook::start().await);
    let service =
        json!({ "metadata": { "name": "hook" }, "spec": { "type": "ExternalName", "externalName": "localhost" } });
    cluster.post("/api/v1/namespaces/default/services", &service).await.expect(StatusCode::CREATED);
    let mut configuration = hook.configuration("label", "x", "configmaps");
    let client = &mut configuration["webhooks"][0]["clientConfig"];
    client["service"] =
        json!({ "namespace": "default", "name": "hook", "path": "/label", "port": hook.address.port() });
    client.as_object_mut().expect("a map").remove("url");
    cluster.post(MUTATING, &configuration).await.expect(StatusCode::CREATED);
    let made = cluster.post(CONFIG_MAPS, &config_map("it")).await.expect(StatusCode::CREATED);
    assert_eq!(made["metadata"]["labels"], json!({ "by": "webhook" }));
}

#[tokio::test]
async fn a_webhooks_own_certificate_is_trusted_and_its_path_is_cleaned() {
    let (cluster, hook) = (Cluster::quiet().await, Hook::start().await);
    for (name, path) in [("clean", "//label"), ("moved", "/moved//moved/label/"), ("twice", "/moved/moved/label")] {
        let mut configuration = hook.configuration("label", "label", "configmaps");
        configuration["webhooks"][0]["clientConfig"] = hook.client_as_of_envtest(path);
        cluster.post(MUTATING, &configuration).await.expect(StatusCode::CREATED);
        let made = cluster.post(CONFIG_MAPS, &config_map(name)).await.expect(StatusCode::CREATED);
        assert_eq!(made["metadata"]["labels"], json!({ "by": "webhook" }), "{path}");
        cluster.delete(&format!("{MUTATING}/label")).await.expect(StatusCode::OK);
    }
}

#[tokio::test]
async fn a_webhook_sees_the_defaults_that_admission_adds_to_a_pod() {
    let (cluster, hook) = (Cluster::quiet().await, Hook::start().await);
    cluster.post(MUTATING, &hook.configuration("label", "label", "pods")).await.expect(StatusCode::CREATED);
    let pod = json!({ "metadata": { "name": "it" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let pods = "/api/v1/namespaces/default/pods";
    cluster.post(pods, &pod).await.expect(StatusCode::CREATED);
    let change = json!({ "spec": { "tolerations": null } });
    cluster.patch(&format!("{pods}/it"), MERGE, &change).await.expect(StatusCode::OK);
    for question in hook.asked() {
        assert_eq!(question["object"]["spec"]["tolerations"].as_array().map(Vec::len), Some(2));
    }
}

#[tokio::test]
async fn a_conflicting_write_during_a_webhook_call_repeats_the_call() {
    let (cluster, mut hook) = (Arc::new(Cluster::quiet().await), Hook::start().await);
    cluster.post(CONFIG_MAPS, &config_map("it")).await.expect(StatusCode::CREATED);
    let mut configuration = hook.configuration("gate", "gate", "configmaps");
    // The webhook is not called for the fast write.
    let condition = json!([{ "name": "slow", "expression": "!has(object.data.fast) || has(object.data.slow)" }]);
    configuration["webhooks"][0]["matchConditions"] = condition;
    cluster.post(VALIDATING, &configuration).await.expect(StatusCode::CREATED);

    let slow = Arc::clone(&cluster);
    let slow = tokio::spawn(async move { slow.patch(&it(), MERGE, &json!({ "data": { "slow": "1" } })).await });
    hook.arrivals.recv().await.expect("it is asked");
    // The call does not hold the lock, so other requests are served.
    cluster.patch(&it(), MERGE, &json!({ "data": { "fast": "1" } })).await.expect(StatusCode::OK);
    hook.gate.add_permits(1);
    hook.arrivals.recv().await.expect("it is asked again");
    hook.gate.add_permits(1);
    let written = slow.await.expect("no panic").expect(StatusCode::OK);
    assert_eq!(written["data"], json!({ "a": "b", "fast": "1", "slow": "1" }));
    let asked = hook.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1]["oldObject"]["data"], json!({ "a": "b", "fast": "1" }));
}

#[tokio::test]
async fn a_webhook_sees_that_a_request_is_a_dry_run() {
    let (cluster, hook) = (Cluster::quiet().await, Hook::start().await);
    cluster.post(MUTATING, &hook.configuration("label", "label", "configmaps")).await.expect(StatusCode::CREATED);
    let made = cluster.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("it")).await.expect(StatusCode::CREATED);
    assert_eq!(made["metadata"]["labels"], json!({ "by": "webhook" }));
    assert_eq!(hook.asked()[0]["dryRun"], json!(true));
    cluster.get(&it()).await.expect(StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_webhook_of_scales_sees_the_scale() {
    let (cluster, hook) = (Cluster::quiet().await, Hook::start().await);
    cluster.post(DEPLOYMENTS, &deployment("web")).await.expect(StatusCode::CREATED);
    cluster.post(VALIDATING, &hook.configuration("x", "x", "deployments/scale")).await.expect(StatusCode::CREATED);
    let change = json!({ "spec": { "replicas": 5 } });
    cluster.patch(&format!("{DEPLOYMENTS}/web/scale"), MERGE, &change).await.expect(StatusCode::OK);
    cluster.patch(&format!("{DEPLOYMENTS}/web"), MERGE, &change).await.expect(StatusCode::OK);
    let asked = hook.asked();
    let [question] = asked.as_slice() else { panic!("asked once: {asked:?}") };
    assert_eq!(question["kind"], json!({ "group": "autoscaling", "version": "v1", "kind": "Scale" }));
    assert_eq!(question["subResource"], "scale");
    assert_eq!(
        (&question["object"]["spec"]["replicas"], &question["oldObject"]["spec"]["replicas"]),
        (&json!(5), &json!(2))
    );
}

#[tokio::test]
async fn webhooks_are_not_called_for_webhook_configurations() {
    let (cluster, hook) = (Cluster::quiet().await, Hook::start().await);
    let mut configuration = hook.configuration("deny", "deny", "*");
    configuration["webhooks"][0]["rules"][0]["apiGroups"] = json!(["*"]);
    cluster.post(VALIDATING, &configuration).await.expect(StatusCode::CREATED);
    cluster.post(CONFIG_MAPS, &config_map("it")).await.refused(403, "Forbidden");
    cluster.delete(&format!("{VALIDATING}/deny")).await.expect(StatusCode::OK);
}
