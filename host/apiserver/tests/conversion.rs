//! Custom resources whose versions a webhook converts. `v1`, the stored version, has a host and a port; `v2` has an
//! address that combines them.

mod support;

use hyper::StatusCode;
use serde_json::{Value, json};
use support::hook::Hook;
use support::{APPLY, Cluster, MERGE, version_of};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = "/apis/x.io/v1/namespaces/default/things";
const V2: &str = "/apis/x.io/v2/namespaces/default/things";

fn definition(client: &Value) -> Value {
    let version = |name: &str, fields: Value| {
        let spec = json!({ "type": "object", "properties": fields });
        json!({
            "name": name,
            "served": true,
            "storage": name == "v1",
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec } } },
        })
    };
    json!({
        "metadata": { "name": "things.x.io" },
        "spec": {
            "group": "x.io",
            "scope": "Namespaced",
            "names": { "plural": "things", "kind": "Thing" },
            "versions": [
                version("v1", json!({ "host": { "type": "string" }, "port": { "type": "integer" } })),
                version("v2", json!({ "address": { "type": "string" } })),
            ],
            "conversion": {
                "strategy": "Webhook",
                "webhook": { "conversionReviewVersions": ["v1"], "clientConfig": client },
            },
        },
    })
}

async fn converting() -> (Cluster, Hook) {
    let (cluster, hook) = (Cluster::quiet().await, Hook::start().await);
    cluster.post(DEFINITIONS, &definition(&hook.client("convert"))).await.expect(StatusCode::CREATED);
    (cluster, hook)
}

fn by_address(name: &str, address: &str) -> Value {
    json!({ "apiVersion": "x.io/v2", "kind": "Thing", "metadata": { "name": name }, "spec": { "address": address } })
}

/// A Thing that is larger than a chunk of a watch.
fn large(name: &str) -> Value {
    let spec = json!({ "host": "h".repeat(300 * 1024), "port": 1 });
    json!({ "apiVersion": "x.io/v1", "kind": "Thing", "metadata": { "name": name }, "spec": spec })
}

async fn get(cluster: &Cluster, collection: &str, name: &str) -> Value {
    cluster.get(&format!("{collection}/{name}")).await.expect(StatusCode::OK)
}

#[tokio::test]
async fn an_object_is_written_in_one_version_and_read_in_another() {
    let (cluster, _hook) = converting().await;
    let made = cluster.post(V2, &by_address("a", "h:1")).await.expect(StatusCode::CREATED);
    assert_eq!((&made["apiVersion"], &made["spec"]), (&json!("x.io/v2"), &json!({ "address": "h:1" })));
    let read = get(&cluster, V1, "a").await;
    assert_eq!((&read["apiVersion"], &read["spec"]), (&json!("x.io/v1"), &json!({ "host": "h", "port": 1 })));
    assert_eq!(read["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(get(&cluster, V2, "a").await, made);
}

#[tokio::test]
async fn updates_and_patches_are_made_in_the_version_of_the_request() {
    let (cluster, _hook) = converting().await;
    let mut object = cluster.post(V2, &by_address("a", "h:1")).await.expect(StatusCode::CREATED);
    let path = format!("{V2}/a");
    object["spec"]["address"] = json!("h:2");
    cluster.put(&path, &object).await.expect(StatusCode::OK);
    assert_eq!(get(&cluster, V1, "a").await["spec"]["port"], 2);
    cluster.put(&path, &object).await.refused(409, "Conflict");

    cluster.patch(&path, MERGE, &json!({ "spec": { "address": "h:3" } })).await.expect(StatusCode::OK);
    assert_eq!(get(&cluster, V1, "a").await["spec"]["port"], 3);

    let applied = by_address("a", "h:4");
    let applied = cluster.patch(&format!("{path}?fieldManager=me&force=true"), APPLY, &applied).await;
    assert_eq!(applied.expect(StatusCode::OK)["spec"], json!({ "address": "h:4" }));
    assert_eq!(get(&cluster, V1, "a").await["spec"]["port"], 4);
}

#[tokio::test]
async fn a_webhooks_own_certificate_is_trusted_and_its_path_is_cleaned() {
    let (cluster, hook) = (Cluster::quiet().await, Hook::start().await);
    let client = hook.client_as_of_envtest("//moved//convert");
    cluster.post(DEFINITIONS, &definition(&client)).await.expect(StatusCode::CREATED);
    cluster.post(V2, &by_address("a", "h:1")).await.expect(StatusCode::CREATED);
    assert_eq!(get(&cluster, V1, "a").await["spec"], json!({ "host": "h", "port": 1 }));
}

#[tokio::test]
async fn a_list_is_converted_with_one_review() {
    let (cluster, hook) = converting().await;
    for name in ["a", "b"] {
        let object = json!({ "kind": "Thing", "apiVersion": "x.io/v1", "metadata": { "name": name }, "spec": { "host": name, "port": 1 } });
        cluster.post(V1, &object).await.expect(StatusCode::CREATED);
    }
    assert!(hook.asked().is_empty(), "the stored version needs no conversion");
    let list = cluster.get(V2).await.expect(StatusCode::OK);
    let addresses: Vec<&Value> =
        list["items"].as_array().expect("items").iter().map(|item| &item["spec"]["address"]).collect();
    assert_eq!(addresses, ["a:1", "b:1"]);
    assert_eq!(hook.asked().len(), 1);
}

#[tokio::test]
async fn a_watch_shows_events_in_its_version() {
    let (cluster, _hook) = converting().await;
    cluster.post(V2, &by_address("a", "h:1")).await.expect(StatusCode::CREATED);
    let mut watch = cluster.watch(&format!("{V2}?watch=true")).await;
    let mut seen = async || {
        let (kind, object) = watch.next().await.expect("the watch goes on");
        format!("{kind} {} {}", object["apiVersion"], object["spec"]["address"])
    };
    assert_eq!(seen().await, "ADDED \"x.io/v2\" \"h:1\"");
    cluster.patch(&format!("{V1}/a"), MERGE, &json!({ "spec": { "port": 2 } })).await.expect(StatusCode::OK);
    assert_eq!(seen().await, "MODIFIED \"x.io/v2\" \"h:2\"");
    cluster.delete(&format!("{V2}/a")).await.expect(StatusCode::OK);
    assert_eq!(seen().await, "DELETED \"x.io/v2\" \"h:2\"");
}

#[tokio::test]
async fn a_watch_converts_each_change_once_however_slowly_it_is_read() {
    let (cluster, hook) = converting().await;
    let made = cluster.post(V1, &large("a")).await.expect(StatusCode::CREATED);
    for port in 2..=7 {
        let change = json!({ "spec": { "port": port } });
        cluster.patch(&format!("{V1}/a"), MERGE, &change).await.expect(StatusCode::OK);
    }
    // Each event is longer than a chunk.
    let version = version_of(&made);
    let mut watch = cluster.watch(&format!("{V2}?watch=true&resourceVersion={version}")).await;
    for port in 2..=7 {
        let (kind, object) = watch.next().await.expect("the watch goes on");
        let address = object["spec"]["address"].as_str().expect("an address");
        assert!(kind == "MODIFIED" && address.ends_with(&format!(":{port}")), "{kind} {port}");
    }
    let objects: Vec<usize> =
        hook.asked().iter().map(|question| question["objects"].as_array().expect("objects").len()).collect();
    assert_eq!(objects, [6]);
}

#[tokio::test]
async fn a_request_that_cannot_be_converted_fails_and_changes_nothing() {
    let (cluster, hook) = converting().await;
    let made = cluster.post(V2, &by_address("a", "h:1")).await.expect(StatusCode::CREATED);
    let conversion = &definition(&hook.client("broken"))["spec"]["conversion"];
    let change = json!({ "spec": { "conversion": conversion } });
    cluster.patch(&format!("{DEFINITIONS}/things.x.io"), MERGE, &change).await.expect(StatusCode::OK);

    let failure = "Kind=Thing failed: an error on the server (\"oh no\") has prevented the request from succeeding";
    let message = |answer: support::Answer| {
        answer.expect(StatusCode::INTERNAL_SERVER_ERROR)["message"].as_str().expect("a message").to_owned()
    };
    let read = cluster.get(&format!("{V2}/a")).await;
    assert_eq!(message(read), format!("conversion webhook for x.io/v1, {failure}"));
    let written = cluster.post(V2, &by_address("b", "h:1")).await;
    assert_eq!(message(written), format!("conversion webhook for x.io/v2, {failure}"));
    cluster.get(&format!("{V1}/b")).await.expect(StatusCode::NOT_FOUND);
    assert_eq!(version_of(&get(&cluster, V1, "a").await), version_of(&made));
}

#[tokio::test]
async fn the_configuration_of_a_conversion_webhook_is_validated() {
    let cluster = Cluster::quiet().await;
    let mut definition = definition(&json!({ "url": "http://localhost:1" }));
    definition["spec"]["conversion"]["webhook"]["conversionReviewVersions"] = json!(["v9"]);
    let message = cluster.post(DEFINITIONS, &definition).await.refused(422, "Invalid");
    for why in [
        "spec.conversion.webhookClientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme",
        "spec.conversion.conversionReviewVersions: Invalid value: [\"v9\"]: must include at least one of v1, v1beta1",
    ] {
        assert!(message.contains(why), "{message}");
    }
}
