//! Creates, updates and patches over HTTP: metadata, conflicts, subresources, dry runs, errors.

mod support;

use http::StatusCode;
use serde_json::{Value, json};
use support::{
    APPLY, CONFIG_MAPS, Cluster, DEPLOYMENTS, JSON_PATCH, MERGE, STRATEGIC, WEBAPPS, config_map, deployment,
    version_of, webapp,
};

#[tokio::test]
async fn a_created_object_gets_the_servers_metadata() {
    let cluster = Cluster::with_webapps().await;
    let object = cluster.post(WEBAPPS, &webapp("a")).await.expect(StatusCode::CREATED);
    assert_eq!(object["metadata"]["generation"], 1);
    assert_eq!(object["metadata"]["namespace"], "default");
    assert_eq!(object["metadata"]["uid"].as_str().map(str::len), Some(36));
    assert_eq!(object["spec"]["replicas"], 2);
    assert_eq!(object["metadata"]["managedFields"][0]["manager"], "test");
}

#[tokio::test]
async fn generate_name_gives_different_names() {
    let cluster = Cluster::quiet().await;
    let mut object = config_map("");
    object["metadata"] = json!({ "generateName": "x-" });
    let mut names = Vec::new();
    for _ in 0..3 {
        let created = cluster.post(CONFIG_MAPS, &object).await.expect(StatusCode::CREATED);
        names.push(created["metadata"]["name"].as_str().expect("a name").to_owned());
    }
    names.sort();
    names.dedup();
    assert!(names.len() == 3 && names.iter().all(|name| name.len() == 7), "{names:?}");
}

#[tokio::test]
async fn a_generated_name_has_at_most_63_characters() {
    let cluster = Cluster::quiet().await;
    let object = json!({ "metadata": { "generateName": "x".repeat(100) } });
    let created = cluster.post(CONFIG_MAPS, &object).await.expect(StatusCode::CREATED);
    assert_eq!(created["metadata"]["name"].as_str().map(str::len), Some(63));
    assert_eq!(created["metadata"]["generateName"].as_str().map(str::len), Some(100));
}

#[tokio::test]
async fn an_object_that_is_too_large_for_etcd_is_refused() {
    const EVENTS: &str = "/api/v1/namespaces/default/events";
    const REQUEST_BYTES_MAX: usize = 1_572_864;
    let cluster = Cluster::quiet().await;
    let event = |name: &str, length: usize| json!({ "metadata": { "name": name }, "involvedObject": {}, "message": "x".repeat(length) });
    cluster.post(EVENTS, &event("a", REQUEST_BYTES_MAX - 1000)).await.expect(StatusCode::CREATED);
    let refused = cluster.post(EVENTS, &event("b", REQUEST_BYTES_MAX)).await.expect(StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(refused["message"], "etcdserver: request is too large");
    // This Event is small enough without its managed fields.
    let slim = cluster.post(EVENTS, &event("c", REQUEST_BYTES_MAX - 230)).await.expect(StatusCode::CREATED);
    assert_eq!(slim["metadata"]["managedFields"], Value::Null);
    let path = format!("{EVENTS}/a");
    let larger = json!({ "reason": "x".repeat(1000) });
    cluster.patch(&path, MERGE, &larger).await.expect(StatusCode::INTERNAL_SERVER_ERROR);
    cluster.patch(&format!("{path}?dryRun=All"), MERGE, &larger).await.expect(StatusCode::OK);
}

#[tokio::test]
async fn unknown_fields_of_a_discarded_status_are_reported() {
    let cluster = Cluster::with_webapps().await;
    let mut object = webapp("a");
    object["status"] = json!({ "odd": 1 });
    let path = format!("{WEBAPPS}?fieldValidation=Strict");
    let message = cluster.post(&path, &object).await.refused(400, "BadRequest");
    assert!(message.ends_with("unknown field \"status.odd\""), "{message}");
    let created = cluster.post(WEBAPPS, &object).await.expect(StatusCode::CREATED);
    assert_eq!(created["status"], Value::Null);
}

#[tokio::test]
async fn an_update_of_an_old_version_is_a_conflict() {
    let cluster = Cluster::quiet().await;
    let old = cluster.post(CONFIG_MAPS, &config_map("a")).await.expect(StatusCode::CREATED);
    let mut new = old.clone();
    new["data"]["a"] = json!("c");
    let path = format!("{CONFIG_MAPS}/a");
    cluster.put(&path, &new).await.expect(StatusCode::OK);
    let message = cluster.put(&path, &new).await.refused(409, "Conflict");
    assert_eq!(
        message,
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to \
         the latest version and try again"
    );
    new["metadata"]["resourceVersion"] = json!("");
    cluster.put(&path, &new).await.expect(StatusCode::OK);
}

#[tokio::test]
async fn an_update_that_changes_nothing_keeps_the_version() {
    let cluster = Cluster::with_webapps().await;
    let before = cluster.post(WEBAPPS, &webapp("a")).await.expect(StatusCode::CREATED);
    let path = format!("{WEBAPPS}/a");
    let same = cluster.put(&path, &before).await.expect(StatusCode::OK);
    assert_eq!(version_of(&same), version_of(&before));
    let config = webapp("a");
    let first =
        cluster.patch(&format!("{path}?fieldManager=m&force=true"), APPLY, &config).await.expect(StatusCode::OK);
    let second = cluster.patch(&format!("{path}?fieldManager=m"), APPLY, &config).await.expect(StatusCode::OK);
    assert_eq!(version_of(&first), version_of(&second));
}

#[tokio::test]
async fn status_and_spec_are_written_separately() {
    let cluster = Cluster::with_webapps().await;
    let mut object = webapp("a");
    object["status"] = json!({ "phase": "Forged" });
    let created = cluster.post(WEBAPPS, &object).await.expect(StatusCode::CREATED);
    assert!(created.get("status").is_none(), "{created}");

    let path = format!("{WEBAPPS}/a/status");
    let change = json!({ "spec": { "image": "other" }, "status": { "phase": "Running" } });
    let updated = cluster.patch(&path, MERGE, &change).await.expect(StatusCode::OK);
    assert_eq!(updated["status"]["phase"], "Running");
    assert_eq!(updated["spec"]["image"], "nginx");
    assert_eq!(updated["metadata"]["generation"], 1);

    let change = json!({ "spec": { "image": "other" }, "status": { "phase": "Forged" } });
    let updated = cluster.patch(&format!("{WEBAPPS}/a"), MERGE, &change).await.expect(StatusCode::OK);
    assert_eq!(updated["status"]["phase"], "Running");
    assert_eq!(updated["metadata"]["generation"], 2);
}

#[tokio::test]
async fn every_kind_of_patch_is_applied() {
    let cluster = Cluster::quiet().await;
    cluster.post(DEPLOYMENTS, &deployment("a")).await.expect(StatusCode::CREATED);
    let path = format!("{DEPLOYMENTS}/a");
    let change = json!([{ "op": "replace", "path": "/spec/replicas", "value": 3 }]);
    let object = cluster.patch(&path, JSON_PATCH, &change).await.expect(StatusCode::OK);
    assert_eq!(object["spec"]["replicas"], 3);
    let object = cluster.patch(&path, MERGE, &json!({ "spec": { "replicas": 4 } })).await.expect(StatusCode::OK);
    assert_eq!(object["spec"]["replicas"], 4);
    let containers = json!([{ "name": "side", "image": "b" }]);
    let change = json!({ "spec": { "template": { "spec": { "containers": containers } } } });
    let object = cluster.patch(&path, STRATEGIC, &change).await.expect(StatusCode::OK);
    assert_eq!(object["spec"]["template"]["spec"]["containers"].as_array().map(Vec::len), Some(2));
    let message = cluster.patch(&path, "text/plain", &change).await.refused(415, "UnsupportedMediaType");
    assert_eq!(message, "415: Unsupported Media Type");
}

#[tokio::test]
async fn an_apply_creates_and_conflicts_with_other_managers() {
    let cluster = Cluster::with_webapps().await;
    let path = format!("{WEBAPPS}/a");
    cluster.patch(&format!("{path}?fieldManager=one"), APPLY, &webapp("a")).await.expect(StatusCode::CREATED);
    let mut other = webapp("a");
    other["spec"]["image"] = json!("httpd");
    let refused = cluster.patch(&format!("{path}?fieldManager=two"), APPLY, &other).await;
    assert_eq!(refused.body["details"]["causes"][0]["field"], ".spec.image");
    let message = refused.refused(409, "Conflict");
    assert_eq!(message, "Apply failed with 1 conflict: conflict with \"one\": .spec.image");
    let forced = cluster.patch(&format!("{path}?fieldManager=two&force=true"), APPLY, &other).await;
    assert_eq!(forced.expect(StatusCode::OK)["spec"]["image"], "httpd");
    cluster.patch(&path, APPLY, &other).await.refused(422, "Invalid");
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let cluster = Cluster::quiet().await;
    cluster.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a")).await.expect(StatusCode::CREATED);
    cluster.get(&format!("{CONFIG_MAPS}/a")).await.refused(404, "NotFound");
}

#[tokio::test]
async fn a_dry_run_of_a_creation_returns_the_given_version() {
    let cluster = Cluster::quiet().await;
    let mut object = config_map("a");
    object["metadata"]["resourceVersion"] = json!("7");
    assert_eq!(cluster.post(CONFIG_MAPS, &object).await.code, StatusCode::INTERNAL_SERVER_ERROR);
    let answer = cluster.post(&format!("{CONFIG_MAPS}?dryRun=All"), &object).await.expect(StatusCode::CREATED);
    assert_eq!(answer["metadata"]["resourceVersion"], "7");
    object["metadata"]["resourceVersion"] = json!("x");
    cluster.post(CONFIG_MAPS, &object).await.expect(StatusCode::CREATED);
}

#[tokio::test]
async fn a_dry_run_responds_like_the_real_write_and_changes_nothing() {
    let cluster = Cluster::with_webapps().await;
    let mut object = webapp("a");
    object["metadata"]["finalizers"] = json!(["x.example.com/y"]);
    cluster.post(WEBAPPS, &object).await.expect(StatusCode::CREATED);
    cluster.post(CONFIG_MAPS, &config_map("a")).await.expect(StatusCode::CREATED);
    let path = format!("{WEBAPPS}/a");
    let before = cluster.get(&path).await.expect(StatusCode::OK);
    let dry = |path: &str| format!("{path}?dryRun=All&fieldManager=one");
    let mut changed = before.clone();
    changed["spec"]["image"] = json!("httpd");
    let mut applied = webapp("a");
    applied["spec"]["image"] = json!("httpd");
    let merged = json!({"spec": {"image": "httpd"}});
    for answer in [
        cluster.put(&dry(&path), &changed).await,
        cluster.patch(&dry(&path), MERGE, &merged).await,
        cluster.patch(&format!("{}&force=true", dry(&path)), APPLY, &applied).await,
    ] {
        let answer = answer.expect(StatusCode::OK);
        assert_eq!((&answer["spec"]["image"], &answer["metadata"]["generation"]), (&json!("httpd"), &json!(2)));
        assert_eq!(answer["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    }
    let status = cluster.patch(&dry(&format!("{path}/status")), MERGE, &json!({"status": {"phase": "Running"}})).await;
    assert_eq!(status.expect(StatusCode::OK)["status"]["phase"], "Running");
    let scale = cluster.patch(&dry(&format!("{path}/scale")), MERGE, &json!({"spec": {"replicas": 5}})).await;
    assert_eq!(scale.expect(StatusCode::OK)["spec"]["replicas"], 5);
    let new = cluster.patch(&dry(&format!("{WEBAPPS}/b")), APPLY, &webapp("b")).await.expect(StatusCode::CREATED);
    assert!(new["metadata"]["uid"].is_string() && new["metadata"].get("resourceVersion").is_none(), "{new}");
    cluster.post(&dry(WEBAPPS), &webapp("a")).await.refused(409, "AlreadyExists");
    let terminating = cluster.delete(&dry(&path)).await.expect(StatusCode::OK);
    assert!(terminating["metadata"]["deletionTimestamp"].is_string(), "{terminating}");
    let gone = cluster.delete(&dry(&format!("{CONFIG_MAPS}/a"))).await.expect(StatusCode::OK);
    assert_eq!(gone["status"], "Success");
    assert_eq!(cluster.get(&path).await.expect(StatusCode::OK), before);
    cluster.get(&format!("{CONFIG_MAPS}/a")).await.expect(StatusCode::OK);
    cluster.get(&format!("{WEBAPPS}/b")).await.refused(404, "NotFound");
}

#[tokio::test]
async fn the_scale_subresource_changes_replicas() {
    let cluster = Cluster::with_webapps().await;
    cluster.post(WEBAPPS, &webapp("a")).await.expect(StatusCode::CREATED);
    let path = format!("{WEBAPPS}/a/scale");
    let scale = cluster.get(&path).await.expect(StatusCode::OK);
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(2)));
    cluster.patch(&path, MERGE, &json!({ "spec": { "replicas": 5 } })).await.expect(StatusCode::OK);
    let object = cluster.get(&format!("{WEBAPPS}/a")).await.expect(StatusCode::OK);
    assert_eq!(object["spec"]["replicas"], 5);
    let message = cluster.patch(&path, MERGE, &json!({ "spec": { "replicas": 51 } })).await.refused(422, "Invalid");
    assert_eq!(
        message,
        "WebApp.apps.kubedojo.io \"a\" is invalid: spec.replicas: Invalid value: 51: spec.replicas in body should be \
         less than or equal to 50"
    );
}

#[tokio::test]
async fn unknown_fields_are_errors_or_warnings() {
    let cluster = Cluster::with_webapps().await;
    let mut object = webapp("a");
    object["spec"]["colour"] = json!("red");
    let message = cluster.post(&format!("{WEBAPPS}?fieldValidation=Strict"), &object).await.refused(400, "BadRequest");
    assert!(message.ends_with("strict decoding error: unknown field \"spec.colour\""), "{message}");
    let answer = cluster.post(&format!("{WEBAPPS}?fieldValidation=Warn"), &object).await;
    assert_eq!(answer.warnings, ["299 - \"unknown field \\\"spec.colour\\\"\""]);
    assert!(answer.expect(StatusCode::CREATED)["spec"].get("colour").is_none());
}

#[tokio::test]
async fn each_kind_of_bad_request_has_its_own_status() {
    let cluster = Cluster::quiet().await;
    let json = [("content-type", "application/json")];
    cluster.send("POST", CONFIG_MAPS, &json, b"{").await.refused(400, "BadRequest");
    cluster.send("POST", CONFIG_MAPS, &json, b"[]").await.refused(400, "BadRequest");
    cluster.send("POST", CONFIG_MAPS, &json, br#"{"metadata":{"labels":[]}}"#).await.refused(400, "BadRequest");
    cluster.send("POST", CONFIG_MAPS, &[("content-type", "text/csv")], b"a").await.refused(415, "UnsupportedMediaType");
    cluster.send("PUT", CONFIG_MAPS, &json, b"{}").await.refused(405, "MethodNotAllowed");
    cluster.post(CONFIG_MAPS, &deployment("a")).await.refused(400, "BadRequest");
    cluster.put(&format!("{CONFIG_MAPS}/other"), &config_map("a")).await.refused(400, "BadRequest");
    cluster.get("/apis/apps/v1/things").await.refused(404, "NotFound");
    cluster.post("/api/v1/namespaces/nope/configmaps", &config_map("a")).await.refused(404, "NotFound");
    let message = cluster.post(CONFIG_MAPS, &config_map("A_b")).await.refused(422, "Invalid");
    assert!(message.starts_with("ConfigMap \"A_b\" is invalid: metadata.name: Invalid value: \"A_b\": "), "{message}");
    cluster.post(CONFIG_MAPS, &config_map("a")).await.expect(StatusCode::CREATED);
    let message = cluster.post(CONFIG_MAPS, &config_map("a")).await.refused(409, "AlreadyExists");
    assert_eq!(message, "configmaps \"a\" already exists");
    // An invalid object is reported before the existing name.
    let mut invalid = config_map("a");
    invalid["metadata"]["labels"] = json!({ "l": "no label!" });
    cluster.post(CONFIG_MAPS, &invalid).await.refused(422, "Invalid");
}

#[tokio::test]
async fn a_deployments_selector_is_validated_and_immutable() {
    let cluster = Cluster::quiet().await;
    let mut object = deployment("a");
    object["spec"]["template"]["metadata"]["labels"]["app"] = json!("b");
    let message = cluster.post(DEPLOYMENTS, &object).await.refused(422, "Invalid");
    assert!(message.contains("`selector` does not match template `labels`"), "{message}");
    cluster.post(DEPLOYMENTS, &deployment("a")).await.expect(StatusCode::CREATED);
    let mut changed = deployment("a");
    changed["spec"]["selector"]["matchLabels"] = json!({ "app": "b" });
    changed["spec"]["template"]["metadata"]["labels"] = json!({ "app": "b" });
    let message = cluster.put(&format!("{DEPLOYMENTS}/a"), &changed).await.refused(422, "Invalid");
    assert!(message.ends_with("field is immutable"), "{message}");
}

/// The fields that `manager` owns.
fn owned_by<'a>(object: &'a Value, manager: &str) -> &'a Value {
    let entries = object["metadata"]["managedFields"].as_array().expect("managed fields");
    let entry = entries.iter().find(|entry| entry["manager"] == manager);
    &entry.unwrap_or_else(|| panic!("{manager} is not in {entries:?}"))["fieldsV1"]
}

#[tokio::test]
async fn an_applied_status_has_its_manager() {
    let cluster = Cluster::with_webapps().await;
    cluster.post(WEBAPPS, &webapp("a")).await.expect(StatusCode::CREATED);
    let config =
        json!({ "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp", "status": { "phase": "Running" } });
    let path = format!("{WEBAPPS}/a/status?fieldManager=me");
    let applied = cluster.patch(&path, APPLY, &config).await.expect(StatusCode::OK);
    assert_eq!(*owned_by(&applied, "me"), json!({ "f:status": { "f:phase": {} } }));
    assert!(owned_by(&applied, "test").is_object());
}

#[tokio::test]
async fn an_empty_managed_fields_entry_resets_the_managers() {
    let cluster = Cluster::quiet().await;
    let mut object = cluster.post(CONFIG_MAPS, &config_map("a")).await.expect(StatusCode::CREATED);
    object["metadata"]["managedFields"] = json!([{}]);
    let reset = cluster.put(&format!("{CONFIG_MAPS}/a"), &object).await.expect(StatusCode::OK);
    assert!(reset["metadata"].get("managedFields").is_none(), "{reset}");
}

#[tokio::test]
async fn lists_and_structs_that_always_exist_have_no_owner() {
    let cluster = Cluster::with_webapps().await;
    let created = cluster.post(DEPLOYMENTS, &deployment("a")).await.expect(StatusCode::CREATED);
    let containers = &owned_by(&created, "test")["f:spec"]["f:template"]["f:spec"]["f:containers"];
    assert!(containers.is_object() && containers.get(".").is_none(), "{containers}");
    let items = containers.as_object().expect("items");
    assert!(items.values().all(|item| item.get(".").is_some()), "{containers}");
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/webapps.apps.kubedojo.io";
    let definition = cluster.get(definition).await.expect(StatusCode::OK);
    let names = &owned_by(&definition, "test")["f:spec"]["f:names"];
    assert!(names.is_object() && names.get(".").is_none(), "{names}");
}

#[tokio::test]
async fn a_json_patch_cannot_grow_an_object_without_bound() {
    let cluster = Cluster::quiet().await;
    let mut object = config_map("a");
    object["data"]["a"] = json!("x".repeat(1000));
    cluster.post(CONFIG_MAPS, &object).await.expect(StatusCode::CREATED);
    let path = format!("{CONFIG_MAPS}/a");
    let wider: Vec<_> =
        (0..40).map(|n| json!({ "op": "copy", "from": "/data", "path": format!("/data/{n}") })).collect();
    cluster.patch(&path, JSON_PATCH, &json!(wider)).await.refused(422, "Invalid");
    let longer = vec![json!({ "op": "test", "path": "/kind", "value": "ConfigMap" }); 10_001];
    let message = cluster.patch(&path, JSON_PATCH, &json!(longer)).await.refused(413, "RequestEntityTooLarge");
    assert!(message.ends_with("The allowed maximum operations in a JSON patch is 10000, got 10001"), "{message}");
    let deeper = |n: usize| json!({ "op": "add", "path": format!("/data{}", "/x".repeat(n)), "value": {} });
    let deeper: Vec<_> = (1..5000).map(deeper).collect();
    cluster.patch(&path, JSON_PATCH, &json!(deeper[..1000])).await.refused(422, "Invalid");
}

#[tokio::test]
async fn an_object_that_is_too_deep_is_refused() {
    let cluster = Cluster::quiet().await;
    let text = format!(r#"{{"metadata": {{"name": "a"}}, "data": {}1{}}}"#, r#"{"a":"#.repeat(110), "}".repeat(110));
    let answer = cluster.send("POST", CONFIG_MAPS, &[("content-type", "application/json")], text.as_bytes()).await;
    let message = answer.refused(400, "BadRequest");
    assert!(message.contains("nests deeper"), "{message}");
}

#[tokio::test]
async fn a_json_patch_that_cannot_be_applied_is_refused_without_details() {
    let cluster = Cluster::quiet().await;
    cluster.post(CONFIG_MAPS, &config_map("a")).await.expect(StatusCode::CREATED);
    let path = format!("{CONFIG_MAPS}/a");
    let absent = json!([{ "op": "remove", "path": "/data/none" }]);
    let answer = cluster.patch(&path, JSON_PATCH, &absent).await;
    assert_eq!(answer.body["details"], json!({}));
    let message = answer.refused(422, "Invalid");
    assert_eq!(message, "the server rejected our request due to an error in our request");
    let replaced = json!([{ "op": "replace", "path": "/data/none", "value": "x" }]);
    let changed = cluster.patch(&path, JSON_PATCH, &replaced).await.expect(StatusCode::OK);
    assert_eq!(changed["data"]["none"], "x");
    let message = cluster.patch(&path, JSON_PATCH, &json!({})).await.refused(400, "BadRequest");
    let why = "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp";
    assert_eq!(message, format!("error decoding patch: {why}"));
}

#[tokio::test]
async fn duplicate_owners_are_removed_with_a_warning() {
    let cluster = Cluster::quiet().await;
    let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1" });
    let mut object = config_map("a");
    object["metadata"]["ownerReferences"] = json!([owner, owner]);
    let answer = cluster.post(CONFIG_MAPS, &object).await;
    assert_eq!(answer.warnings.len(), 1);
    assert!(answer.warnings[0].contains("contains duplicate entries; API server dedups owner references in 1.20+"));
    assert!(answer.warnings[0].ends_with("duplicate UID(s) observed: 1\""), "{}", answer.warnings[0]);
    assert_eq!(answer.expect(StatusCode::CREATED)["metadata"]["ownerReferences"], json!([owner]));
    let twice = json!({ "metadata": { "ownerReferences": [owner, owner] } });
    let answer = cluster.patch(&format!("{CONFIG_MAPS}/a"), MERGE, &twice).await;
    assert!(answer.warnings[0].contains("duplicate entries after mutating admission happens;"));
}

#[tokio::test]
async fn a_patch_cannot_remove_the_name() {
    let cluster = Cluster::quiet().await;
    cluster.post(CONFIG_MAPS, &config_map("a")).await.expect(StatusCode::CREATED);
    let path = format!("{CONFIG_MAPS}/a");
    let why = "the name of the object (a based on URL) was undeterminable: name must be provided";
    let remove = json!([{ "op": "remove", "path": "/metadata" }]);
    assert_eq!(cluster.patch(&path, JSON_PATCH, &remove).await.refused(400, "BadRequest"), why);
    assert_eq!(cluster.patch(&path, MERGE, &json!({ "metadata": null })).await.refused(400, "BadRequest"), why);
    let text = cluster.send("PATCH", &path, &[("content-type", MERGE)], b"x").await.refused(400, "BadRequest");
    assert_eq!(text, "error decoding patch: invalid character 'x' looking for beginning of value");
}
