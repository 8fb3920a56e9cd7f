//! Simulated time, seeded randomness and no socket: a whole story runs in one thread, and repeats to the byte.

mod support;

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use support::{CONFIG_MAPS, DEPLOYMENTS, JSON, config_map, deployment, owned_config_map, webapp, webapp_definition};
use tokio::sync::mpsc;
use tower::ServiceExt as _;
use windlass_apiserver::{ApiServer, ApiService, Clock, Config, Snapshot};

/// A configuration that depends on nothing outside the process.
fn simulated(seed: u64) -> Config {
    let start = SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 365 * 40);
    Config { clock: Clock::Given(start), seed: Some(seed), ..Config::default() }
}

/// A client in the same process that records each response.
struct Client {
    service: ApiService,
    transcript: String,
}

impl Client {
    fn of(server: &ApiServer) -> Client {
        Client { service: server.service(), transcript: String::new() }
    }

    async fn send(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { JSON };
        let request = Request::builder().method(method).uri(path).header("content-type", media);
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let response = self.service.clone().oneshot(request.body(body).expect("a request")).await.expect("an answer");
        let code = response.status();
        let bytes = response.into_body().collect().await.expect("a whole body").to_bytes();
        writeln!(self.transcript, "{method} {path} {code} {}", String::from_utf8_lossy(&bytes)).expect("a string");
        serde_json::from_slice(&bytes).expect("JSON")
    }

    async fn get(&mut self, path: &str) -> Value {
        self.send("GET", path, &Value::Null).await
    }

    /// Watches a collection, and sends each chunk to `chunks`.
    async fn watch(&self, path: &str, chunks: mpsc::UnboundedSender<String>) {
        let uri = format!("{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds=60");
        let request = Request::get(uri.as_str()).body(Body::empty()).expect("a request");
        let response = self.service.clone().oneshot(request).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
        let mut body = response.into_body();
        let path = path.to_owned();
        tokio::spawn(async move {
            while let Some(Ok(frame)) = body.frame().await {
                let bytes = frame.into_data().expect("data");
                let line = format!("watch {path} {}", String::from_utf8_lossy(&bytes));
                if chunks.send(line).is_err() {
                    return;
                }
            }
        });
    }
}

/// A story with definitions, owners and dependents, workloads and a deleted namespace, seen by four watches. Returns
/// the transcript.
async fn story(server: &ApiServer) -> String {
    let mut client = Client::of(server);
    let (sender, mut chunks) = mpsc::unbounded_channel();
    let webapps = "/apis/apps.kubedojo.io/v1beta1/namespaces/default/webapps";
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    client.send("POST", definitions, &webapp_definition()).await;
    for path in [CONFIG_MAPS, DEPLOYMENTS, webapps, "/api/v1/namespaces"] {
        client.watch(path, sender.clone()).await;
    }
    drop(sender);
    let owner = client.send("POST", webapps, &webapp("a")).await;
    for number in 0..3 {
        let mut dependent = owned_config_map(&format!("c{number}"), &owner, true);
        dependent["metadata"]["name"] = Value::Null;
        dependent["metadata"]["generateName"] = json!("c-");
        client.send("POST", CONFIG_MAPS, &dependent).await;
    }
    client.send("POST", DEPLOYMENTS, &deployment("web")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.send("PATCH", &format!("{DEPLOYMENTS}/web"), &json!({ "spec": { "replicas": 5 } })).await;
    client.send("DELETE", &format!("{webapps}/a"), &Value::Null).await;
    client.send("POST", "/api/v1/namespaces", &json!({ "metadata": { "name": "other" } })).await;
    client.send("POST", "/api/v1/namespaces/other/configmaps", &config_map("x")).await;
    client.send("DELETE", "/api/v1/namespaces/other", &Value::Null).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    client.send("DELETE", &format!("{definitions}/webapps.apps.kubedojo.io"), &Value::Null).await;
    for path in [CONFIG_MAPS, DEPLOYMENTS, "/api/v1/namespaces", "/api/v1/serviceaccounts"] {
        client.get(path).await;
    }
    let mut transcript = client.transcript;
    while let Some(chunk) = chunks.recv().await {
        transcript.push_str(&chunk);
    }
    transcript
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_bytes() {
    let first = story(&ApiServer::in_process(&simulated(7))).await;
    let second = story(&ApiServer::in_process(&simulated(7))).await;
    assert_eq!(first, second);
    // The story contains a garbage collection, a rollout and the end of a namespace.
    assert_eq!(first.matches("\"type\":\"DELETED\"").count(), 3 + 1 + 1, "{first}");
    assert!(first.contains("\"readyReplicas\":5"), "{first}");
    assert!(first.contains("\"type\":\"BOOKMARK\""), "{first}");
    let other = story(&ApiServer::in_process(&simulated(8))).await;
    assert_ne!(first, other);
}

#[tokio::test(start_paused = true)]
async fn a_story_repeats_exactly_from_a_snapshot() {
    let server = ApiServer::in_process(&simulated(7));
    let snapshot = server.snapshot();
    let first = story(&server).await;
    server.restore(&snapshot);
    assert_eq!(story(&server).await, first);
    // The snapshot replaces another server's randomness and time too.
    let other = ApiServer::from_snapshot(&simulated(9), &snapshot);
    assert_eq!(story(&other).await, first);
}

#[tokio::test(start_paused = true)]
async fn pending_work_is_done_after_a_restore() {
    let server = ApiServer::in_process(&simulated(7));
    let mut client = Client::of(&server);
    client.send("POST", DEPLOYMENTS, &deployment("web")).await;
    let owner = client.send("POST", CONFIG_MAPS, &config_map("owner")).await;
    client.send("POST", CONFIG_MAPS, &owned_config_map("dependent", &owner, true)).await;
    client.send("DELETE", &format!("{CONFIG_MAPS}/owner"), &Value::Null).await;
    let snapshot = server.snapshot();
    drop(server);
    tokio::time::sleep(Duration::from_hours(1)).await;

    let server = ApiServer::from_snapshot(&simulated(7), &snapshot);
    let mut client = Client::of(&server);
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/dependent")).await["kind"], "ConfigMap");
    assert!(client.get(&format!("{DEPLOYMENTS}/web")).await["status"]["readyReplicas"].is_null());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/dependent")).await["code"], 404);
    assert_eq!(client.get(&format!("{DEPLOYMENTS}/web")).await["status"]["readyReplicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn ten_hours_of_backoff_pass_at_once() {
    let server = ApiServer::in_process(&simulated(1));
    let mut client = Client::of(&server);
    let begun = tokio::time::Instant::now();
    let mut pause = Duration::from_secs(1);
    let mut tries = 0;
    while begun.elapsed() < Duration::from_hours(10) {
        client.send("POST", DEPLOYMENTS, &deployment(&format!("try-{tries}"))).await;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1000));
        tries += 1;
    }
    let last = client.get(&format!("{DEPLOYMENTS}/try-{}", tries - 1)).await;
    assert_eq!(last["status"]["readyReplicas"], 2);
    let first = client.get(&format!("{DEPLOYMENTS}/try-0")).await;
    let hours = |object: &Value| object["metadata"]["creationTimestamp"].as_str().expect("a time")[11..13].to_owned();
    assert_eq!((hours(&first).as_str(), hours(&last).as_str()), ("00", "09"));
}

#[tokio::test(start_paused = true)]
async fn a_restore_ends_the_watches_opened_before_it() {
    let server = ApiServer::in_process(&simulated(1));
    let client = Client::of(&server);
    let snapshot: Snapshot = server.snapshot();
    let (sender, mut chunks) = mpsc::unbounded_channel();
    client.watch(CONFIG_MAPS, sender).await;
    server.restore(&snapshot);
    let first = chunks.recv().await.expect("the first chunk");
    assert!(first.contains("k8s.io/initial-events-end"), "{first}");
    assert_eq!(chunks.recv().await, None);
}
