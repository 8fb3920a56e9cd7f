//! Objects of built-in kinds follow their schemas: unknown, mistyped and zero fields, the form of quantities, and the
//! OpenAPI documents. The expected responses are those of Kubernetes 1.36.3.

mod support;

use http::StatusCode;
use serde_json::{Value, json};

use support::{CONFIG_MAPS, Cluster, DEPLOYMENTS, JSON, MERGE, STRATEGIC};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn deployment(spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "web" },
        "spec": {
            "selector": { "matchLabels": { "a": "b" } },
            "template": {
                "metadata": { "labels": { "a": "b" } },
                "spec": { "containers": [{ "name": "c", "image": "x" }] },
            },
        },
    });
    for (name, value) in spec.as_object().expect("a spec") {
        object["spec"][name] = value.clone();
    }
    object
}

#[tokio::test]
async fn unknown_and_duplicate_fields_are_reported_in_body_order() {
    let cluster = Cluster::quiet().await;
    let body = br#"{"zzz": 1, "metadata": {"name": "c"}, "data": {"a": "1", "a": "2"}, "foo": {"b": 1, "b": 2}}"#;
    let strict = format!("{CONFIG_MAPS}?fieldValidation=Strict");
    let refused = cluster.send("POST", &strict, &[("content-type", JSON)], body).await;
    assert_eq!(
        refused.body["message"],
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"zzz\", \
         duplicate field \"data.a\", unknown field \"foo\""
    );
    let made = cluster.send("POST", CONFIG_MAPS, &[("content-type", JSON)], body).await;
    assert_eq!(made.warnings.len(), 3, "{:?}", made.warnings);
    let made = made.expect(StatusCode::CREATED);
    assert_eq!((&made["data"], made.get("foo"), made.get("zzz")), (&json!({ "a": "2" }), None, None));
}

#[tokio::test]
async fn mistyped_values_are_refused_with_a_real_servers_message() {
    let cluster = Cluster::quiet().await;
    let refused =
        cluster.post(DEPLOYMENTS, &deployment(&json!({ "replicas": "two" }))).await.refused(400, "BadRequest");
    assert_eq!(
        refused,
        "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct \
         field DeploymentSpec.spec.replicas of type int32"
    );
    cluster.post(DEPLOYMENTS, &deployment(&json!({}))).await.expect(StatusCode::CREATED);
    let patch = json!({ "spec": { "replicas": "two" } });
    let strategic = cluster.patch(&format!("{DEPLOYMENTS}/web"), STRATEGIC, &patch).await;
    let expected = " \"\" is invalid: patch: Invalid value: \"map[spec:map[replicas:two]]\": unrecognized type: int32";
    assert_eq!((strategic.code.as_u16(), &strategic.body["message"]), (422, &json!(expected)));
    let merge = cluster.patch(&format!("{DEPLOYMENTS}/web"), MERGE, &patch).await;
    assert_eq!(merge.code.as_u16(), 422);
}

#[tokio::test]
async fn quantities_are_canonical_and_zeros_are_encoded_as_in_go() {
    let cluster = Cluster::quiet().await;
    let mut object = deployment(&json!({ "paused": false, "minReadySeconds": 0 }));
    let resources = json!({ "limits": { "cpu": 0.5, "memory": "1.5Gi" }, "requests": { "memory": "1024Ki" } });
    object["spec"]["template"]["spec"]["containers"][0]["resources"] = resources;
    let made = cluster.post(DEPLOYMENTS, &object).await.expect(StatusCode::CREATED);
    let container = &made["spec"]["template"]["spec"]["containers"][0];
    let canonical = json!({ "limits": { "cpu": "500m", "memory": "1536Mi" }, "requests": { "memory": "1Mi" } });
    assert_eq!(container["resources"], canonical);
    assert_eq!((made["spec"].get("paused"), made["spec"].get("minReadySeconds")), (None, None));
    assert_eq!(made["status"], json!({}));
}

#[tokio::test]
async fn services_are_validated() {
    let cluster = Cluster::quiet().await;
    for (spec, message) in [
        (json!({ "ports": [] }), "spec.ports: Required value"),
        (
            json!({ "ports": [{ "port": 80, "nodePort": 30000 }] }),
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
        ),
        (json!({ "type": "ExternalName" }), "spec.externalName: Required value"),
    ] {
        let service = json!({ "metadata": { "name": "s" }, "spec": spec });
        let refused = cluster.post(SERVICES, &service).await;
        assert_eq!(refused.body["message"], format!("Service \"s\" is invalid: {message}"));
    }
}

#[tokio::test]
async fn the_openapi_documents_describe_every_built_in_kind() {
    let cluster = Cluster::quiet().await;
    let index = cluster.get("/openapi/v3").await.expect(StatusCode::OK);
    for path in index["paths"].as_object().expect("paths").keys() {
        let document = cluster.get(&format!("/openapi/v3/{path}")).await.expect(StatusCode::OK);
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        let text = document.to_string();
        for reference in text.split("#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(schemas.contains_key(reference), "{path}: {reference}");
        }
        assert!(!text.contains("x-go"), "{path}");
    }
    let v2 = cluster.get("/openapi/v2").await.expect(StatusCode::OK);
    let replicas = &v2["definitions"]["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["replicas"];
    assert!(replicas["description"].as_str().is_some_and(|text| text.starts_with("Number of desired pods")));
}
