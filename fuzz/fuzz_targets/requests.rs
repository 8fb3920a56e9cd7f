//! Feeds any request body to each kind of endpoint of the embedded API server. An input is up to eight requests with
//! the byte 0x1e between them. The first three bytes of each request choose its method, path and media type. The server
//! must answer each request, and each refusal must be a `Status`. A panic of the server or of a controller, or an input
//! that takes too long, ends the target.
#![no_main]

use std::time::{Duration, SystemTime};

use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, Full};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;
use windlass_apiserver::{ApiServer, Clock, Config, Snapshot};

const SEPARATOR: u8 = 0x1e;
const REQUESTS_PER_INPUT_MAX: usize = 8;

const METHODS: [&str; 5] = ["POST", "PUT", "PATCH", "DELETE", "GET"];

const PATHS: [&str; 24] = [
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/configmaps/a",
    "/api/v1/namespaces/default/configmaps/a?fieldManager=a&force=true&fieldValidation=Strict",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/pods/a/binding",
    "/api/v1/namespaces/default/secrets?dryRun=All",
    "/api/v1/namespaces/default/services",
    "/api/v1/namespaces/default/serviceaccounts/default/token",
    "/api/v1/namespaces/default/events",
    "/api/v1/namespaces/a",
    "/api/v1/namespaces/a/finalize",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/deployments/a?fieldManager=a&force=true",
    "/apis/apps/v1/namespaces/default/deployments/a/scale?fieldManager=a",
    "/apis/apps/v1/namespaces/default/deployments/a/status",
    "/apis/batch/v1/namespaces/default/cronjobs",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/as.example.com",
    "/apis/example.com/v1/namespaces/default/as",
    "/apis/example.com/v1/namespaces/default/as/a?fieldManager=a",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings/a",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    "/reactors",
];

const TYPES: [&str; 7] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// A server, and the state in which each input finds it.
struct Fixture {
    runtime: Runtime,
    server: ApiServer,
    snapshot: Snapshot,
}

thread_local! {
    static FIXTURE: Fixture = Fixture::start();
}

impl Fixture {
    fn start() -> Fixture {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let config = Config { clock: Clock::Given(SystemTime::UNIX_EPOCH), seed: Some(1), ..Config::default() };
        let server = runtime.block_on(async {
            let server = ApiServer::in_process(&config);
            for (path, object) in first_objects() {
                let code = send(&server, "POST", path, TYPES[0], object.to_string().as_bytes()).await;
                assert!(code.is_success(), "{path}: {code}");
            }
            settle().await;
            server
        });
        let snapshot = server.snapshot();
        Fixture { runtime, server, snapshot }
    }

    fn run(&self, input: &[u8]) {
        self.server.restore(&self.snapshot);
        self.server.reactors().clear();
        self.runtime.block_on(async {
            for request in input.split(|byte| *byte == SEPARATOR).take(REQUESTS_PER_INPUT_MAX) {
                let [method, path, media, body @ ..] = request else { continue };
                let pick = |byte: u8, list: &[&'static str]| list[usize::from(byte) % list.len()];
                send(&self.server, pick(*method, &METHODS), pick(*path, &PATHS), pick(*media, &TYPES), body).await;
            }
            settle().await;
        });
    }
}

/// Lets the controllers finish their work. Time is simulated, so this takes no time.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

fn first_objects() -> [(&'static str, Value); 4] {
    let rules =
        json!([{ "rule": "self.size() < 5 && self.all(c, c != 'x')", "messageExpression": "'no: ' + self[0]" }]);
    let schema = json!({
        "type": "object",
        "properties": { "spec": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {
                "list": { "type": "array", "maxItems": 9, "items": { "type": "string", "maxLength": 9 }, "x-kubernetes-validations": rules },
                "number": { "type": "integer", "default": 1 },
            },
        } },
    });
    let definition = json!({
        "metadata": { "name": "as.example.com" },
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": { "plural": "as", "kind": "A" },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    });
    let pod = json!({ "containers": [{ "name": "a", "image": "a" }] });
    let template = json!({ "metadata": { "labels": { "a": "b" } }, "spec": pod });
    let deployment = json!({ "selector": { "matchLabels": { "a": "b" } }, "template": template });
    let named = |spec: &Value| json!({ "metadata": { "name": "a" }, "spec": spec });
    [
        (PATHS[16], definition),
        (PATHS[0], json!({ "metadata": { "name": "a" }, "data": { "a": "b" } })),
        (PATHS[3], named(&pod)),
        (PATHS[11], named(&deployment)),
    ]
}

async fn send(server: &ApiServer, method: &str, path: &str, media: &str, body: &[u8]) -> http::StatusCode {
    let body = Full::from(body.to_vec());
    let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, media).body(body);
    let answer = server.service().oneshot(request.expect("a request")).await;
    // Reactors may drop a connection, so a missing answer is no failure.
    let Ok(answer) = answer else { return http::StatusCode::OK };
    let code = answer.status();
    let is_text = answer.headers().get(CONTENT_TYPE).is_some_and(|media| media != "application/json");
    let bytes = answer.into_body().collect().await.expect("a body in memory").to_bytes();
    if (code.is_client_error() || code.is_server_error()) && !is_text {
        let status: Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(status["kind"], "Status", "{method} {path}: {status}");
    }
    code
}

fuzz_target!(|input: &[u8]| FIXTURE.with(|fixture| fixture.run(input)));
