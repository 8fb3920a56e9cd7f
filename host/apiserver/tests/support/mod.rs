//! Shared by the tests: their server, a small HTTP client, and the objects that they use.
#![allow(dead_code, reason = "every test file uses its own part")]

#[cfg(feature = "tls")]
pub(crate) mod hook;
pub(crate) mod rbac;

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use windlass_apiserver::{ApiServer, Config, StandIns};

/// How long a test waits for a response or event, which should arrive at once.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

pub(crate) const WEBAPPS: &str = "/apis/apps.kubedojo.io/v1beta1/namespaces/default/webapps";
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// A server and its client.
pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

impl Cluster {
    /// Starts a server without stand-ins, so only the test changes objects.
    pub(crate) async fn quiet() -> Cluster {
        Cluster::start(Config { stand_ins: StandIns::NONE, ..Config::default() }).await
    }

    pub(crate) async fn start(config: Config) -> Cluster {
        Cluster { server: ApiServer::start(config).await.expect("a loopback port is free") }
    }

    /// Starts a server with the `WebApp` definition.
    pub(crate) async fn with_webapps() -> Cluster {
        let cluster = Cluster::quiet().await;
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        cluster.post(definitions, &webapp_definition()).await.expect(StatusCode::CREATED);
        cluster
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let response = self.open(method, path, headers, body).await;
        let code = response.status();
        let warnings = response.headers().get_all("warning");
        let warnings = warnings.iter().map(|value| value.to_str().expect("text").to_owned()).collect();
        let bytes = response.into_body().collect().await.expect("a whole body").to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Answer { code, warnings, body }
    }

    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> hyper::Response<Incoming> {
        self.try_send(method, path, headers, body).await.expect("an answer")
    }

    /// The response, or an error if the connection ends without one.
    pub(crate) async fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> hyper::Result<hyper::Response<Incoming>> {
        let stream = TcpStream::connect(self.server.address()).await.expect("the server listens");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("it speaks HTTP");
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("user-agent", "test/1");
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", self.server.address().to_string());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body))).expect("a well-formed request");
        tokio::time::timeout(ARRIVAL_TIMEOUT, sender.send_request(request)).await.expect("an answer in time")
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"").await
    }

    pub(crate) async fn post(&self, path: &str, object: &Value) -> Answer {
        self.send("POST", path, &[("content-type", JSON)], object.to_string().as_bytes()).await
    }

    pub(crate) async fn put(&self, path: &str, object: &Value) -> Answer {
        self.send("PUT", path, &[("content-type", JSON)], object.to_string().as_bytes()).await
    }

    pub(crate) async fn patch(&self, path: &str, media: &str, change: &Value) -> Answer {
        self.send("PATCH", path, &[("content-type", media)], change.to_string().as_bytes()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, &[], b"").await
    }

    /// Starts a watch at `path`, which must contain `watch=true`.
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        self.watch_with(path, &[]).await
    }

    pub(crate) async fn watch_with(&self, path: &str, headers: &[(&str, &str)]) -> Watch {
        let response = self.open("GET", path, headers, b"").await;
        assert_eq!(response.status(), StatusCode::OK);
        Watch { body: response.into_body(), buffer: Vec::new() }
    }

    /// Waits until the object is gone, by a watch of the collection.
    pub(crate) async fn wait_gone(&self, collection: &str, name: &str) {
        let list = self.get(collection).await.expect(StatusCode::OK);
        let present = list["items"].as_array().expect("a list").iter().any(|item| item["metadata"]["name"] == name);
        if !present {
            return;
        }
        let version = list["metadata"]["resourceVersion"].as_str().expect("a version");
        let path = format!("{collection}?watch=true&fieldSelector=metadata.name%3D{name}&resourceVersion={version}");
        let mut watch = self.watch(&path).await;
        while watch.next().await.expect("the watch goes on").0 != "DELETED" {}
    }
}

impl Answer {
    /// The body. Panics if the code is not the expected one.
    #[track_caller]
    pub(crate) fn expect(self, code: StatusCode) -> Value {
        assert_eq!(self.code, code, "{}", self.body);
        self.body
    }

    /// The message of a failure with this code and reason.
    #[track_caller]
    pub(crate) fn refused(self, code: u16, reason: &str) -> String {
        assert_eq!((self.code.as_u16(), self.body["reason"].as_str()), (code, Some(reason)), "{}", self.body);
        assert_eq!(self.body["kind"], "Status");
        self.body["message"].as_str().expect("a message").to_owned()
    }
}

/// A running watch.
pub(crate) struct Watch {
    body: Incoming,
    buffer: Vec<u8>,
}

impl Watch {
    /// The next event, or `None` when the watch has ended.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).expect("a line is an event");
                return Some((event["type"].as_str().expect("a type").to_owned(), event["object"].clone()));
            }
            let frame = tokio::time::timeout(ARRIVAL_TIMEOUT, self.body.frame()).await.expect("an event in time")?;
            if let Ok(data) = frame.expect("a frame").into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    /// The type and the object's name of the next event.
    pub(crate) async fn next_name(&mut self) -> (String, String) {
        let (kind, object) = self.next().await.expect("the watch goes on");
        (kind, object["metadata"]["name"].as_str().unwrap_or_default().to_owned())
    }
}

pub(crate) fn version_of(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().expect("a resource version")
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "b" } })
}

pub(crate) fn owned_config_map(name: &str, owner: &Value, blocks: bool) -> Value {
    let mut object = config_map(name);
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": blocks,
    }]);
    object
}

pub(crate) fn webapp(name: &str) -> Value {
    json!({
        "apiVersion": "apps.kubedojo.io/v1beta1",
        "kind": "WebApp",
        "metadata": { "name": name },
        "spec": { "image": "nginx" },
    })
}

pub(crate) fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "web", "image": "nginx:1" }] },
            },
        },
    })
}

pub(crate) fn webapp_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "webapps.apps.kubedojo.io" },
        "spec": {
            "group": "apps.kubedojo.io",
            "scope": "Namespaced",
            "names": { "plural": "webapps", "kind": "WebApp", "shortNames": ["wa"] },
            "versions": [{
                "name": "v1beta1",
                "served": true,
                "storage": true,
                "subresources": {
                    "status": {},
                    "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.readyReplicas" },
                },
                "additionalPrinterColumns": [
                    { "name": "Image", "type": "string", "jsonPath": ".spec.image" },
                    { "name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas" },
                ],
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "required": ["spec"],
                    "properties": {
                        "spec": {
                            "type": "object",
                            "required": ["image"],
                            "properties": {
                                "image": { "type": "string" },
                                "replicas": { "type": "integer", "minimum": 1, "maximum": 50, "default": 2 },
                            },
                        },
                        "status": {
                            "type": "object",
                            "properties": { "readyReplicas": { "type": "integer" }, "phase": { "type": "string" } },
                        },
                    },
                }},
            }],
        },
    })
}
