//! The server responds to any bytes with a `Status`, and then serves the next request on the same connection.

mod support;

use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config as Cases, TestRunner};
use serde_json::{Value, json};
use support::{Cluster, config_map, deployment};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(20);

/// The parts of one request.
#[derive(Clone, Debug)]
struct Hostile {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, &'static str)>,
    body: Vec<u8>,
}

impl Hostile {
    fn bytes(&self) -> Vec<u8> {
        let headers: Vec<String> = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let (method, path, length) = (self.method, &self.path, self.body.len());
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{}", headers.concat());
        let mut bytes = format!("{head}content-length: {length}\r\n\r\n").into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// Reads a response: its code, headers and body. Leaves the body of a watch unread.
struct Answered {
    code: u16,
    head: String,
    body: Vec<u8>,
}

async fn answer(stream: &mut TcpStream, is_head: bool) -> Answered {
    let mut read = Vec::new();
    let end = loop {
        if let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        let count = tokio::time::timeout(ARRIVAL_TIMEOUT, stream.read_buf(&mut read)).await.expect("an answer in time");
        assert!(count.expect("a live connection") > 0, "the connection ended without an answer");
    };
    let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
    let code = head.split(' ').nth(1).expect("a code").parse().expect("a number");
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).map(|length| length.trim().parse());
    let length: usize = length.unwrap_or(Ok(0)).expect("a number");
    let length = if is_head { 0 } else { length };
    while read.len() < end + length {
        let count = tokio::time::timeout(ARRIVAL_TIMEOUT, stream.read_buf(&mut read)).await.expect("a body in time");
        assert!(count.expect("a live connection") > 0, "the connection ended within an answer");
    }
    Answered { code, head, body: read[end..end + length].to_vec() }
}

/// Sends the request, and then on the same connection another request, which must succeed.
async fn survives(cluster: &Cluster, request: &Hostile) {
    let mut stream = TcpStream::connect(cluster.server.address()).await.expect("the server listens");
    stream.write_all(&request.bytes()).await.expect("it reads");
    let answered = answer(&mut stream, request.method == "HEAD").await;
    let is_text = request.headers.iter().any(|(_, value)| value.contains("yaml") || value.contains("protobuf"));
    let is_page = answered.body.is_empty() || answered.body == b"404 page not found\n";
    if answered.code >= 400 && request.method != "HEAD" && !is_text && !is_page {
        let status: Value = serde_json::from_slice(&answered.body).expect("a Status");
        assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(answered.code)), "{status}");
    }
    let goes_on = !answered.head.contains("connection: close") && !answered.head.contains("chunked");
    if goes_on {
        stream.write_all(b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("it reads on");
        assert_eq!(answer(&mut stream, false).await.code, 200);
    }
}

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// A server with a few objects, which some requests name.
async fn furnished() -> Cluster {
    let cluster = Cluster::with_webapps().await;
    cluster.post(support::CONFIG_MAPS, &config_map("a")).await;
    cluster.post(support::DEPLOYMENTS, &deployment("a")).await;
    cluster.post(support::WEBAPPS, &support::webapp("a")).await;
    cluster
}

fn paths() -> impl Strategy<Value = String> {
    let known = select(vec![
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/default/configmaps/a",
        "/api/v1/namespaces/default/pods/a/binding",
        "/api/v1/namespaces/default/serviceaccounts/default/token",
        "/api/v1/namespaces",
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/default/finalize",
        "/api/v1/events",
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/apps/v1/namespaces/default/deployments/a",
        "/apis/apps/v1/namespaces/default/deployments/a/scale",
        "/apis/apps/v1/namespaces/default/deployments/a/status",
        "/apis/apps.kubedojo.io/v1beta1/namespaces/default/webapps",
        "/apis/apps.kubedojo.io/v1beta1/namespaces/default/webapps/a",
        "/apis/apps.kubedojo.io/v1beta1/namespaces/default/webapps/a/status",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/webapps.apps.kubedojo.io",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/apis/events.k8s.io/v1/namespaces/default/events",
        "/apis/batch/v1/namespaces/default/jobs",
        "/version",
        "/healthz",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/apis/apps/v1",
        "/api",
        "/apis",
        "/apis/apps",
    ])
    .prop_map(str::to_owned);
    let segment = select(vec![
        "api",
        "apis",
        "v1",
        "namespaces",
        "default",
        "pods",
        "watch",
        "proxy",
        "scale",
        "",
        ".",
        "..",
        "%00",
        "%2F",
        "%ff",
        "%",
        "%zz",
        "a%20b",
        "é",
        "x.y",
        "openapi",
        "-",
    ]);
    let odd = proptest::collection::vec(segment, 0..8).prop_map(|segments| {
        // Escapes the only character that a request line must not contain.
        let path = format!("/{}", segments.join("/"));
        path.replace('é', "%C3%A9")
    });
    prop_oneof![4 => known, 1 => odd]
}

fn queries() -> impl Strategy<Value = String> {
    let key = select(vec![
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "fieldSelector",
        "labelSelector",
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
        "timeoutSeconds",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "gracePeriodSeconds",
        "propagationPolicy",
        "orphanDependents",
        "includeObject",
        "pretty",
        "watch",
        "x",
    ]);
    let value = select(vec![
        "",
        "0",
        "1",
        "-1",
        "true",
        "false",
        "All",
        "Strict",
        "NotOlderThan",
        "Exact",
        "99999999999999999999",
        "9223372036854775807",
        "metadata.name%3Da",
        "a%3D%3D%3Db",
        "%28%29",
        "%00",
        "%ff",
        "Foreground",
        "a,b",
        "%",
        "!",
        "eyJ9",
    ]);
    proptest::collection::vec((key, value), 0..4).prop_map(|pairs| {
        let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
        if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
    })
}

fn json_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(vec!["", "a", "default", "1Gi", "2026-01-01T00:00:00Z", "\u{0}", "🦀"]).prop_map(Value::from),
    ];
    let key = select(vec![
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "namespace",
        "labels",
        "annotations",
        "finalizers",
        "generateName",
        "ownerReferences",
        "managedFields",
        "uid",
        "resourceVersion",
        "deletionTimestamp",
        "spec",
        "status",
        "data",
        "replicas",
        "selector",
        "template",
        "containers",
        "image",
        "ports",
        "rules",
        "versions",
        "schema",
        "names",
        "openAPIV3Schema",
        "properties",
        "type",
        "pattern",
        "items",
        "default",
        "op",
        "path",
        "value",
        "from",
        "$patch",
        "$setElementOrder/containers",
        "resourceAttributes",
        "token",
        "",
        "a.b/c",
    ]);
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|fields| fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

/// An object of a kind with some of its parts replaced.
fn objects() -> impl Strategy<Value = Value> {
    let base = prop_oneof![
        Just(config_map("a")),
        Just(deployment("a")),
        Just(support::webapp("a")),
        Just(support::webapp_definition()),
    ];
    let place = select(vec![
        "/metadata",
        "/metadata/name",
        "/metadata/labels",
        "/metadata/ownerReferences",
        "/metadata/managedFields",
        "/spec",
        "/data",
        "/spec/template",
        "/spec/selector",
        "/spec/replicas",
        "/spec/template/spec/containers",
        "/spec/versions",
        "/spec/versions/0/schema/openAPIV3Schema",
        "/spec/names",
        "/spec/versions/0/additionalPrinterColumns",
        "/kind",
    ]);
    (base, place, json_values()).prop_map(|(mut object, place, value)| {
        if let Some(found) = object.pointer_mut(place) {
            *found = value;
        }
        object
    })
}

fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let odd = select(vec![
        String::new(),
        "null".to_owned(),
        "{".to_owned(),
        "[[[[".to_owned(),
        "[".repeat(100_000),
        format!("{}{}", "{\"a\":".repeat(5000), "1"),
        format!("{{\"spec\":{}{}}}", "[".repeat(90), "]".repeat(90)),
        "{\"metadata\":{\"name\":\"a\",\"name\":\"b\"},\"metadata\":{}}".to_owned(),
        "{\"spec\":{\"replicas\":1e999}}".to_owned(),
        "{\"spec\":{\"replicas\":123456789012345678901234567890}}".to_owned(),
        "{\"spec\":{\"replicas\":-0.0}}".to_owned(),
        "\"\\ud800\"".to_owned(),
        "a: &a [*a, *a]".to_owned(),
        "a: &a [1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c]"
            .to_owned(),
        "---\n---\n".to_owned(),
        "[{\"op\":\"copy\",\"from\":\"\",\"path\":\"/data\"},{\"op\":\"copy\",\"from\":\"\",\"path\":\"/data/x\"}]"
            .to_owned(),
    ]);
    let protobuf = proptest::collection::vec(any::<u8>(), 0..64).prop_map(|bytes| [b"k8s\0".to_vec(), bytes].concat());
    prop_oneof![
        3 => objects().prop_map(|value| value.to_string().into_bytes()),
        2 => json_values().prop_map(|value| value.to_string().into_bytes()),
        1 => odd.prop_map(String::into_bytes),
        1 => protobuf,
        1 => proptest::collection::vec(any::<u8>(), 0..64),
    ]
}

fn requests() -> impl Strategy<Value = Hostile> {
    let method = select(vec!["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW"]);
    let content = select(vec![
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "text/plain",
        ";;",
    ]);
    let accept = select(vec![
        "application/json",
        "*/*",
        "application/yaml",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        "application/vnd.kubernetes.protobuf",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "image/png",
        ",;=",
    ]);
    let other = select(vec![
        ("x", "y"),
        ("impersonate-group", "a"),
        ("impersonate-extra-%zz", "a"),
        ("authorization", "Bearer"),
    ]);
    (method, paths(), queries(), content, accept, other, bodies()).prop_map(
        |(method, path, query, content, accept, other, body)| Hostile {
            method,
            path: path + &query,
            headers: vec![("content-type", content), ("accept", accept), other],
            body,
        },
    )
}

#[test]
fn every_request_is_answered_and_the_connection_survives() {
    let cluster = RUNTIME.block_on(furnished());
    // `PROPTEST_CASES=10000` tries more requests.
    let cases = Cases::default().cases * 4;
    let mut runner = TestRunner::new(Cases { cases, failure_persistence: None, ..Cases::default() });
    let result = runner.run(&requests(), |request| {
        RUNTIME.block_on(survives(&cluster, &request));
        Ok(())
    });
    result.expect("every request is survived");
}

#[tokio::test]
async fn a_refused_body_does_not_break_the_connection() {
    let cluster = furnished().await;
    let big = vec![b'x'; 200_000];
    let request = |method, path: &str, headers| Hostile { method, path: path.to_owned(), headers, body: big.clone() };
    let json = vec![("content-type", "application/json")];
    let refused = [
        request("POST", "/version", json.clone()),
        request("PUT", "/api/v1/namespaces", json.clone()),
        request("POST", "/nothing", json.clone()),
        request("POST", support::CONFIG_MAPS, vec![("accept", "image/png"), ("content-type", "application/json")]),
        request("POST", support::CONFIG_MAPS, Vec::new()),
        request(
            "POST",
            support::CONFIG_MAPS,
            vec![("origin", "http://example.com"), ("content-type", "application/json")],
        ),
    ];
    for request in refused {
        let mut stream = TcpStream::connect(cluster.server.address()).await.expect("the server listens");
        stream.write_all(&request.bytes()).await.expect("it reads");
        let answered = answer(&mut stream, false).await;
        assert!((400..500).contains(&answered.code), "{} {}: {}", request.method, request.path, answered.code);
        stream.write_all(b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("it reads on");
        assert_eq!(answer(&mut stream, false).await.code, 200, "{} {}", request.method, request.path);
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_the_connection_is_closed() {
    let cluster = Cluster::quiet().await;
    let mut stream = TcpStream::connect(cluster.server.address()).await.expect("the server listens");
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        support::CONFIG_MAPS,
        64 * 1024 * 1024
    );
    stream.write_all(head.as_bytes()).await.expect("it reads");
    let chunk = vec![b' '; 64 * 1024];
    // The server may stop reading at any time after the limit.
    for _ in 0..64 {
        if stream.write_all(&chunk).await.is_err() {
            break;
        }
    }
    let answered = answer(&mut stream, false).await;
    assert_eq!(answered.code, 413);
    assert!(answered.head.contains("connection: close"), "{}", answered.head);
}
