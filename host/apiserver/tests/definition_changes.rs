//! The effects of a changed definition on watches and on objects that were stored before.

mod support;

use http::StatusCode;
use serde_json::{Value, json};
use support::{APPLY, Cluster, JSON_PATCH, MERGE, WEBAPPS, version_of, webapp};

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/webapps.apps.kubedojo.io";
const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";

/// Changes the schema's fields of `spec`.
async fn change_schema(cluster: &Cluster, operations: &[(&str, &str, Value)]) -> Value {
    let patch: Vec<Value> = operations
        .iter()
        .map(|(op, field, value)| json!({ "op": op, "path": format!("{SPEC}/{field}"), "value": value }))
        .collect();
    cluster.patch(DEFINITION, JSON_PATCH, &json!(patch)).await.expect(StatusCode::OK)
}

async fn add_field(cluster: &Cluster) -> Value {
    change_schema(cluster, &[("add", "tier", json!({ "type": "string", "default": "web" }))]).await
}

#[tokio::test]
async fn a_watch_ends_when_the_definition_changes_and_not_before() {
    let cluster = Cluster::with_webapps().await;
    let mut watch = cluster.watch(&format!("{WEBAPPS}?watch=true")).await;
    cluster.post(WEBAPPS, &webapp("a")).await.expect(StatusCode::CREATED);
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    cluster.patch(DEFINITION, MERGE, &label).await.expect(StatusCode::OK);
    cluster.post(WEBAPPS, &webapp("b")).await.expect(StatusCode::CREATED);
    add_field(&cluster).await;
    cluster.post(WEBAPPS, &webapp("c")).await.expect(StatusCode::CREATED);
    for name in ["a", "b"] {
        assert_eq!(watch.next_name().await, ("ADDED".to_owned(), name.to_owned()));
    }
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn a_watch_cannot_resume_from_before_the_definition_changed() {
    let cluster = Cluster::with_webapps().await;
    let before = cluster.post(WEBAPPS, &webapp("a")).await.expect(StatusCode::CREATED);
    let changed = add_field(&cluster).await;
    cluster.post(WEBAPPS, &webapp("b")).await.expect(StatusCode::CREATED);
    let from = |object: &Value| format!("{WEBAPPS}?watch=true&resourceVersion={}", version_of(object));
    let (kind, status) = cluster.watch(&from(&before)).await.next().await.expect("an error");
    assert_eq!((kind.as_str(), &status["code"]), ("ERROR", &json!(410)));
    let message = format!("too old resource version: {} ({})", version_of(&before), version_of(&changed));
    assert_eq!(status["message"], message);
    assert_eq!(cluster.watch(&from(&changed)).await.next_name().await.1, "b");
}

#[tokio::test]
async fn stored_objects_are_read_by_the_new_schema() {
    let cluster = Cluster::with_webapps().await;
    let stored = cluster.post(WEBAPPS, &webapp("a")).await.expect(StatusCode::CREATED);
    let path = format!("{WEBAPPS}/a");
    change_schema(
        &cluster,
        &[("add", "tier", json!({ "type": "string", "default": "web" })), ("remove", "replicas", Value::Null)],
    )
    .await;
    let read = cluster.get(&path).await.expect(StatusCode::OK);
    assert_eq!(read["spec"], json!({ "image": "nginx", "tier": "web" }));
    assert_eq!(version_of(&read), version_of(&stored));
    assert_eq!(cluster.get(WEBAPPS).await.expect(StatusCode::OK)["items"][0], read);
    let (_, watched) = cluster.watch(&format!("{WEBAPPS}?watch=true")).await.next().await.expect("the object");
    assert_eq!(watched, read);

    // The storage still has the removed field, because the object was not written since.
    change_schema(&cluster, &[("add", "replicas", json!({ "type": "integer" }))]).await;
    assert_eq!(cluster.get(&path).await.expect(StatusCode::OK)["spec"]["replicas"], 2);
}

#[tokio::test]
async fn a_write_without_changes_migrates_the_stored_object() {
    let cluster = Cluster::with_webapps().await;
    cluster.post(WEBAPPS, &webapp("a")).await.expect(StatusCode::CREATED);
    let path = format!("{WEBAPPS}/a");
    add_field(&cluster).await;
    let read = cluster.get(&path).await.expect(StatusCode::OK);
    let written = cluster.put(&path, &read).await.expect(StatusCode::OK);
    assert_ne!(version_of(&written), version_of(&read));
    let again = cluster.put(&path, &written).await.expect(StatusCode::OK);
    assert_eq!(version_of(&again), version_of(&written));
}

#[tokio::test]
async fn an_object_stored_in_a_version_that_is_gone_cannot_be_read() {
    let cluster = Cluster::with_webapps().await;
    cluster.post(WEBAPPS, &webapp("a")).await.expect(StatusCode::CREATED);
    let definition = cluster.get(DEFINITION).await.expect(StatusCode::OK);
    let mut old = definition["spec"]["versions"][0].clone();
    let version = old["name"].as_str().expect("a name").to_owned();
    let mut new = old.clone();
    old["storage"] = json!(false);
    new["name"] = json!("v9");
    let versions = |versions: Value| json!({ "spec": { "versions": versions } });
    cluster.patch(DEFINITION, MERGE, &versions(json!([old, new]))).await.expect(StatusCode::OK);
    let stored = json!({ "status": { "storedVersions": ["v9"] } });
    cluster.patch(&format!("{DEFINITION}/status"), MERGE, &stored).await.expect(StatusCode::OK);
    cluster.patch(DEFINITION, MERGE, &versions(json!([new]))).await.expect(StatusCode::OK);
    let list = WEBAPPS.replace(&version, "v9");
    let why = format!("request to convert CR from an invalid group/version: apps.kubedojo.io/{version}");
    let refused = cluster.get(&format!("{list}/a")).await.expect(StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(refused["message"], why.as_str());
    let refused = cluster.get(&list).await.expect(StatusCode::TOO_MANY_REQUESTS);
    assert!(refused["message"].as_str().is_some_and(|message| message.ends_with(&why)), "{refused}");
}

#[tokio::test]
async fn a_deletion_event_is_shown_by_the_new_schema() {
    let cluster = Cluster::with_webapps().await;
    cluster.post(WEBAPPS, &webapp("a")).await.expect(StatusCode::CREATED);
    add_field(&cluster).await;
    let mut watch = cluster.watch(&format!("{WEBAPPS}?watch=true")).await;
    cluster.delete(&format!("{WEBAPPS}/a")).await.expect(StatusCode::OK);
    for kind in ["ADDED", "DELETED"] {
        let (found, object) = watch.next().await.expect("an event");
        assert_eq!((found.as_str(), &object["spec"]["tier"]), (kind, &json!("web")));
    }
}

#[tokio::test]
async fn each_version_shows_the_fields_that_it_knows() {
    let cluster = Cluster::with_webapps().await;
    let definition = cluster.get(DEFINITION).await.expect(StatusCode::OK);
    let mut other = definition["spec"]["versions"][0].clone();
    other["name"] = json!("v2");
    other["storage"] = json!(false);
    let fields = other.pointer_mut("/schema/openAPIV3Schema/properties/spec/properties").expect("fields");
    fields["tier"] = json!({ "type": "string", "default": "web" });
    let add = json!([{ "op": "add", "path": "/spec/versions/-", "value": other }]);
    cluster.patch(DEFINITION, JSON_PATCH, &add).await.expect(StatusCode::OK);

    let newer = WEBAPPS.replace("v1beta1", "v2");
    let mut object = webapp("a");
    object["apiVersion"] = json!("apps.kubedojo.io/v2");
    // The stored version does not have the field, so it is lost.
    let created = cluster.post(&newer, &object).await.expect(StatusCode::CREATED);
    assert_eq!(created["spec"], json!({ "image": "nginx", "replicas": 2 }));
}

/// A server whose web apps embed a resource in `spec.template`.
async fn with_embedded() -> Cluster {
    let cluster = Cluster::with_webapps().await;
    let template = json!({
        "type": "object",
        "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true,
    });
    change_schema(&cluster, &[("add", "template", template)]).await;
    cluster
}

fn with_template(template: Value) -> Value {
    let mut object = webapp("a");
    object["spec"]["template"] = template;
    object
}

#[tokio::test]
async fn the_metadata_of_an_embedded_resource_is_pruned() {
    let cluster = with_embedded().await;
    let metadata = json!({ "name": "p", "labels": { "a": "b" }, "annotations": {}, "nonsense": 1 });
    let object = with_template(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "x": 1 }));
    let message = cluster.post(&format!("{WEBAPPS}?fieldValidation=Strict"), &object).await.refused(400, "BadRequest");
    assert!(message.ends_with("strict decoding error: unknown field \"spec.template.metadata.nonsense\""), "{message}");
    let answer = cluster.post(WEBAPPS, &object).await;
    assert_eq!(answer.warnings, ["299 - \"unknown field \\\"spec.template.metadata.nonsense\\\"\""]);
    let stored = answer.expect(StatusCode::CREATED)["spec"]["template"].clone();
    let metadata = json!({ "name": "p", "labels": { "a": "b" } });
    assert_eq!(stored, json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "x": 1 }));
    let message = cluster.patch(&format!("{WEBAPPS}/a?fieldManager=x"), APPLY, &object).await;
    let message = message.expect(StatusCode::INTERNAL_SERVER_ERROR)["message"].to_string();
    assert!(message.contains(".spec.template.metadata.nonsense: field not declared in schema"), "{message}");
}

#[tokio::test]
async fn embedded_resources_are_validated() {
    let cluster = with_embedded().await;
    for (template, why) in [
        (json!({}), "spec.template.kind: Required value"),
        (json!({ "apiVersion": "a/b/c", "kind": "Pod" }), "\"a/b/c\": unexpected GroupVersion string: a/b/c"),
        (
            json!({ "apiVersion": "v1", "kind": "A.B" }),
            "may have mixed case, but should otherwise match: a DNS-1035 label",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a/b" } }),
            "spec.template.metadata.name: Invalid value: \"a/b\": may not contain '/'",
        ),
        (
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "labels": { "a": "?" } } }),
            "spec.template.metadata.labels: Invalid value: \"?\"",
        ),
    ] {
        let message = cluster.post(WEBAPPS, &with_template(template)).await.refused(422, "Invalid");
        assert!(message.contains(why), "{message}");
    }
}

#[tokio::test]
async fn an_embedded_resource_with_mistyped_fields_is_a_bad_request() {
    let cluster = with_embedded().await;
    for (template, why) in [
        (json!({ "apiVersion": 1, "kind": "Pod" }), "spec.template.apiVersion: Invalid value: 1: must be a string"),
        (
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": 1 } }),
            "spec.template.metadata: Invalid value: {\"name\":1}: json: cannot unmarshal number into Go struct field \
             ObjectMeta.name of type string",
        ),
    ] {
        let message = cluster.post(WEBAPPS, &with_template(template)).await.refused(400, "BadRequest");
        assert!(message.ends_with(why), "{message}");
    }
}

#[tokio::test]
async fn a_stored_object_that_becomes_an_embedded_resource_loses_bad_fields() {
    let cluster = Cluster::with_webapps().await;
    let free = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    change_schema(&cluster, &[("add", "template", free)]).await;
    let metadata = json!({ "name": "p", "labels": { "a": 1 } });
    let object = with_template(json!({ "apiVersion": 1, "kind": "Pod", "metadata": metadata }));
    cluster.post(WEBAPPS, &object).await.expect(StatusCode::CREATED);
    change_schema(&cluster, &[("add", "template/x-kubernetes-embedded-resource", json!(true))]).await;
    let read = cluster.get(&format!("{WEBAPPS}/a")).await.expect(StatusCode::OK);
    assert_eq!(read["spec"]["template"], json!({ "kind": "Pod", "metadata": { "name": "p" } }));
}

#[tokio::test]
async fn every_request_for_a_deprecated_version_has_a_warning() {
    let cluster = Cluster::with_webapps().await;
    cluster.post(WEBAPPS, &webapp("a")).await.expect(StatusCode::CREATED);
    let deprecated = json!([{ "op": "add", "path": "/spec/versions/0/deprecated", "value": true }]);
    cluster.patch(DEFINITION, JSON_PATCH, &deprecated).await.expect(StatusCode::OK);
    for path in [WEBAPPS, &format!("{WEBAPPS}/a")] {
        let answer = cluster.get(path).await;
        assert_eq!(answer.warnings, ["299 - \"apps.kubedojo.io/v1beta1 WebApp is deprecated\""], "{path}");
    }
}
