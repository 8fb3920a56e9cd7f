//! The objects that plugins/webapp writes.

use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};

const API_VERSION: &str = "apps.kubedojo.io/v1beta1";

fn selector(app: &DynamicObject) -> Value {
    json!({"app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": app.metadata.name})
}

fn child(app: &DynamicObject, api_version: &str, kind: &str, spec: &Value) -> Value {
    let mut labels = selector(app);
    labels["app.kubernetes.io/managed-by"] = json!("windlass");
    let owner = json!({
        "apiVersion": API_VERSION, "kind": "WebApp", "name": app.metadata.name, "uid": app.metadata.uid,
        "controller": true, "blockOwnerDeletion": true,
    });
    let metadata = json!({
        "name": app.metadata.name, "namespace": app.metadata.namespace, "labels": labels, "ownerReferences": [owner],
    });
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
}

pub(crate) fn deployment(app: &DynamicObject) -> Value {
    let port = json!({"name": "http", "containerPort": app.data["spec"]["port"], "protocol": "TCP"});
    let container = json!({"name": "web", "image": app.data["spec"]["image"], "ports": [port]});
    let mut deployment = child(app, "apps/v1", "Deployment", &json!({}));
    let labels = deployment["metadata"]["labels"].clone();
    deployment["spec"] = json!({
        "replicas": app.data["spec"]["replicas"],
        "selector": {"matchLabels": selector(app)},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    });
    deployment
}

pub(crate) fn service(app: &DynamicObject) -> Value {
    let port = json!({"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"});
    child(app, "v1", "Service", &json!({"selector": selector(app), "ports": [port]}))
}

pub(crate) fn status(app: &DynamicObject) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "observedGeneration": app.metadata.generation, "lastTransitionTime": Timestamp::now().strftime("%FT%TZ").to_string(),
        })
    };
    let count = format!("0 of {} replicas are ready", app.data["spec"]["replicas"]);
    let conditions = [
        condition("Ready", "False", "ReplicasNotReady", &count),
        condition("Progressing", "True", "RollingOut", "the Deployment is rolling out this spec"),
    ];
    let status = json!({
        "observedGeneration": app.metadata.generation, "readyReplicas": 0, "phase": "Pending", "conditions": conditions,
    });
    json!({"apiVersion": API_VERSION, "kind": "WebApp", "status": status})
}

pub(crate) fn event(app: &DynamicObject, number: usize) -> Value {
    let metadata = &app.metadata;
    let name = format!("{}.{number:x}", metadata.name.as_deref().unwrap_or_default());
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "type": "Normal", "reason": "Created", "action": "Create",
        "metadata": {"name": name, "namespace": metadata.namespace},
        "eventTime": Timestamp::now().strftime("%FT%T%.6fZ").to_string(),
        "reportingController": "floor", "reportingInstance": "floor",
        "note": format!("Deployment {}: created", metadata.name.as_deref().unwrap_or_default()),
        "regarding": {
            "apiVersion": API_VERSION, "kind": "WebApp", "name": metadata.name, "namespace": metadata.namespace,
            "uid": metadata.uid,
        },
    })
}
