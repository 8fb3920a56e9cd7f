//! An API server inside the client. Its answers are ready-made, so only the work of the client is counted.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response};
use http_body_util::StreamBody;
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

/// A client of a server with one Pod, whose first watch sends `events`.
pub(crate) fn client(events: u32) -> Client {
    let watched = Arc::new(AtomicBool::new(false));
    let written = Bytes::from(pod(2).to_string());
    let service = service_fn(move |request: Request<Body>| {
        let is_first = || !watched.swap(true, Ordering::Relaxed);
        let is_watch = request.uri().query().unwrap_or_default().contains("watch=");
        let answer = match (request.method(), request.uri().path()) {
            (&Method::GET, "/api/v1") => vec![resources().into()],
            (&Method::GET, _) if is_watch => {
                if is_first() {
                    watch(events)
                } else {
                    Vec::new()
                }
            }
            (&Method::GET, _) => vec![list().into()],
            _ => vec![written.clone()],
        };
        async move {
            if answer.is_empty() {
                return pending().await;
            }
            // Each event is a separate piece, as in the watch of a real server.
            let pieces = answer.into_iter().map(|piece| Ok::<_, std::io::Error>(Frame::data(piece)));
            Ok::<_, std::io::Error>(Response::new(StreamBody::new(stream::iter(pieces))))
        }
    });
    Client::new(service, "default")
}

fn resources() -> String {
    let pods = json!({"name": "pods", "kind": "Pod", "namespaced": true, "verbs": ["get", "list", "watch", "patch"]});
    json!({"kind": "APIResourceList", "resources": [pods]}).to_string()
}

fn list() -> String {
    json!({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": [pod(1)]}).to_string()
}

/// The lines differ only in their versions. If each line were created separately, that work would be counted as the
/// client's.
fn watch(events: u32) -> Vec<Bytes> {
    let line = json!({"type": "MODIFIED", "object": pod(0)}).to_string() + "\n";
    let (before, behind) = line.split_once(r#""resourceVersion":"0""#).expect("a Pod has a version");
    (2..2 + events).map(|version| format!(r#"{before}"resourceVersion":"{version}"{behind}"#).into()).collect()
}

/// A Pod as a server sends it: about 3 KB, a third of which is `managedFields`.
pub(crate) fn pod(version: u32) -> Value {
    let variables: Vec<_> = (0..12)
        .map(|number| json!({"name": format!("VARIABLE_{number}"), "value": format!("value-{number}")}))
        .collect();
    let fields: serde_json::Map<_, _> =
        (0..20).map(|number| (format!("f:field-{number}"), json!({"f:name": {}, "f:value": {}}))).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "shop", "namespace": "prod", "uid": "2a5e64bb-6c7c-4d6e-9b0d-0c2f5b0a8f10", "generation": 1,
            "resourceVersion": version.to_string(), "creationTimestamp": "2026-11-23T10:00:00Z",
            "labels": {"app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": "shop"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop-7c9d", "controller": true,
                "uid": "0d2b7b62-90b5-4a53-8f0f-0a4f9b7a7c55", "blockOwnerDeletion": true,
            }],
            "managedFields": [{
                "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": fields}}, "time": "2026-11-23T10:00:00Z",
            }],
        },
        "spec": {
            "containers": [{"name": "web", "image": "nginx:1.27", "env": variables, "ports": [{"containerPort": 8080}]}],
            "nodeName": "node-17", "restartPolicy": "Always",
        },
        "status": {"phase": "Running", "podIP": "10.1.2.3", "startTime": "2026-11-23T10:00:01Z"},
    })
}
