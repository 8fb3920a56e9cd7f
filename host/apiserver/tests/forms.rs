//! The forms of responses: discovery, Tables, partial metadata, the two versions of Events; and the request counts.

mod support;

use std::io::Read as _;

use http::StatusCode;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use support::{CONFIG_MAPS, Cluster, WEBAPPS, config_map, webapp};

const TABLE: (&str, &str) = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json");

#[tokio::test]
async fn a_table_has_the_columns_of_the_definition() {
    let cluster = Cluster::with_webapps().await;
    cluster.post(WEBAPPS, &webapp("a")).await.expect(StatusCode::CREATED);
    let table = cluster.send("GET", WEBAPPS, &[TABLE], b"").await.expect(StatusCode::OK);
    let columns: Vec<&Value> =
        table["columnDefinitions"].as_array().expect("columns").iter().map(|column| &column["name"]).collect();
    assert_eq!(columns, ["Name", "Image", "Replicas"]);
    assert_eq!(table["rows"][0]["cells"], json!(["a", "nginx", 2]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

#[tokio::test]
async fn a_request_can_ask_for_metadata_alone() {
    let cluster = Cluster::quiet().await;
    cluster.post(CONFIG_MAPS, &config_map("a")).await.expect(StatusCode::CREATED);
    let accept = ("accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io");
    let list = cluster.send("GET", CONFIG_MAPS, &[accept], b"").await.expect(StatusCode::OK);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert!(list["items"][0].get("data").is_none());
    cluster.send("GET", CONFIG_MAPS, &[("accept", "text/html")], b"").await.refused(406, "NotAcceptable");
}

#[tokio::test]
async fn the_root_lists_the_paths_and_metrics_count_requests() {
    let cluster = Cluster::with_webapps().await;
    let root = cluster.get("/").await.expect(StatusCode::OK);
    for path in ["/api/v1", "/apis/apps/v1", "/apis/apps.kubedojo.io/v1beta1", "/metrics"] {
        assert!(root["paths"].as_array().is_some_and(|paths| paths.contains(&json!(path))), "{path}");
    }
    cluster.get(CONFIG_MAPS).await.expect(StatusCode::OK);
    let metrics = cluster.open("GET", "/metrics", &[], b"").await;
    assert_eq!(metrics.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
    let metrics = metrics.into_body().collect().await.expect("a body").to_bytes();
    let counted = "apiserver_request_total{group=\"\",resource=\"configmaps\",subresource=\"\",verb=\"LIST\"} 1\n";
    assert!(String::from_utf8_lossy(&metrics).contains(counted), "{metrics:?}");
}

#[tokio::test]
async fn discovery_shows_a_definition_at_once() {
    let cluster = Cluster::with_webapps().await;
    let path = "/apis/apps.kubedojo.io/v1beta1";
    let resources = cluster.get(path).await.expect(StatusCode::OK);
    let names: Vec<&Value> =
        resources["resources"].as_array().expect("resources").iter().map(|resource| &resource["name"]).collect();
    assert_eq!(names, ["webapps", "webapps/status", "webapps/scale"]);
    // The SHA-256 digest of `apps.kubedojo.io/v1beta1/WebApp`.
    assert_eq!(resources["resources"][0]["storageVersionHash"], "JIkpfOUSb9c=");
    let list = cluster.get(&format!("{path}/webapps")).await.expect(StatusCode::OK);
    assert_eq!(list["metadata"]["continue"], "");
    let accept = ("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    let all = cluster.send("GET", "/apis", &[accept], b"").await.expect(StatusCode::OK);
    assert_eq!(all["kind"], "APIGroupDiscoveryList");
    let groups = all["items"].as_array().expect("groups");
    let found = groups.iter().find(|group| group["metadata"]["name"] == "apps.kubedojo.io").expect("the group");
    assert_eq!(found["versions"][0]["resources"][0]["shortNames"], json!(["wa"]));
    let openapi = cluster.get("/openapi/v3/apis/apps.kubedojo.io/v1beta1").await.expect(StatusCode::OK);
    assert!(openapi["paths"].as_object().expect("paths").keys().any(|path| path.ends_with("/webapps/{name}")));
}

#[tokio::test]
async fn an_event_of_the_new_version_is_read_in_the_old() {
    let cluster = Cluster::quiet().await;
    let event = json!({
        "metadata": { "name": "e", "namespace": "default" },
        "regarding": { "kind": "Pod", "name": "p", "namespace": "default", "uid": "u" },
        "note": "it happened",
        "reason": "Happened",
        "action": "Reconcile",
        "reportingController": "windlass.dev/webapp",
        "reportingInstance": "one",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal",
    });
    cluster.post("/apis/events.k8s.io/v1/namespaces/default/events", &event).await.expect(StatusCode::CREATED);
    let path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.uid%3Du,involvedObject.name%3Dp";
    let list = cluster.get(path).await.expect(StatusCode::OK);
    assert_eq!(list["items"][0]["message"], "it happened");
    assert_eq!(list["items"][0]["reportingComponent"], "windlass.dev/webapp");
    let path = "/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=regarding.name%3Dother";
    assert_eq!(cluster.get(path).await.expect(StatusCode::OK)["items"], json!([]));
}

#[tokio::test]
async fn requests_are_counted_by_client_verb_and_resource() {
    let cluster = Cluster::with_webapps().await;
    cluster.get(WEBAPPS).await.expect(StatusCode::OK);
    cluster.get(WEBAPPS).await.expect(StatusCode::OK);
    cluster.get(&format!("{WEBAPPS}/a/status")).await.refused(404, "NotFound");
    let counts = cluster.server.requests();
    let count = |verb: &str, resource: &str| {
        let found = counts.iter().find(|count| count.verb == verb && count.resource == resource);
        found.map_or(0, |count| count.count)
    };
    assert_eq!(count("list", "webapps.apps.kubedojo.io"), 2);
    assert_eq!(count("get", "webapps.apps.kubedojo.io/status"), 1);
    assert!(counts.iter().all(|count| count.user_agent == "test/1"));
}

#[tokio::test]
async fn the_server_is_ready_and_reports_its_version() {
    let cluster = Cluster::quiet().await;
    assert_eq!(cluster.get("/readyz").await.expect(StatusCode::OK), json!("ok"));
    assert_eq!(cluster.get("/version").await.expect(StatusCode::OK)["major"], "1");
    assert!(cluster.server.kubeconfig().contains(&cluster.server.url()));
}

/// A page could read by DNS rebinding, and write by a POST that needs no CORS preflight.
#[tokio::test]
async fn a_web_page_can_neither_read_nor_write() {
    let cluster = Cluster::quiet().await;
    for page in [
        [("host", "rebound.example.com"), ("sec-fetch-site", "same-origin")],
        [("host", "127.0.0.1.example.com"), ("accept", "*/*")],
        [("host", "localhost@example.com"), ("accept", "*/*")],
        [("host", "10.0.0.1"), ("accept", "*/*")],
        [("host", "127.0.0.1"), ("origin", "null")],
        [("host", "127.0.0.1"), ("origin", "http://127.0.0.1")],
        [("host", "127.0.0.1"), ("sec-fetch-site", "cross-site")],
        [("host", "localhost"), ("host", "example.com")],
    ] {
        cluster.send("GET", CONFIG_MAPS, &page, b"").await.refused(403, "Forbidden");
        let written = cluster.send("POST", CONFIG_MAPS, &page, config_map("a").to_string().as_bytes()).await;
        written.refused(403, "Forbidden");
    }
    // A browser sends the origin with every POST. A client that sends no origin may omit the content type, as with a
    // real server.
    let untyped = cluster.send("POST", CONFIG_MAPS, &[], config_map("a").to_string().as_bytes()).await;
    untyped.expect(StatusCode::CREATED);
    for host in ["localhost:1", "LOCALHOST", "[::1]:1", "127.0.0.9"] {
        let list = cluster.send("GET", CONFIG_MAPS, &[("host", host)], b"").await.expect(StatusCode::OK);
        assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{host}");
    }
}

#[tokio::test]
async fn missing_paths_have_the_errors_of_their_handlers() {
    let cluster = Cluster::with_webapps().await;
    cluster.post(WEBAPPS, &webapp("a")).await.expect(StatusCode::CREATED);
    for path in ["/api/v2", "/api/v1/none", "/apis/apps/v2", "/apis/apps/v1/none", &format!("{CONFIG_MAPS}/a/b/c")] {
        let answer = cluster.get(path).await;
        assert_eq!(answer.body["details"], json!({}), "{path}");
        assert_eq!(answer.refused(404, "NotFound"), "the server could not find the requested resource");
    }
    for path in ["/none", "/apis/none", "/apis/none/v1/x", "/apis/apps.kubedojo.io/v1beta1/x", "/healthz/none"] {
        let answer = cluster.send("POST", path, &[], b"").await;
        assert_eq!((answer.code, answer.body), (StatusCode::NOT_FOUND, json!("404 page not found\n")), "{path}");
    }
    let answer = cluster.get(&format!("{WEBAPPS}/a/odd")).await;
    assert_eq!(answer.refused(404, "NotFound"), "webapps.apps.kubedojo.io \"a\" not found");
    cluster.send("POST", "/version", &[], b"").await.refused(405, "MethodNotAllowed");
}

#[tokio::test]
async fn a_long_response_is_compressed_for_clients_that_accept_it() {
    let cluster = Cluster::quiet().await;
    let mut object = config_map("long");
    object["data"]["a"] = json!("x".repeat(128 * 1024));
    cluster.post(CONFIG_MAPS, &object).await.expect(StatusCode::CREATED);
    cluster.post(CONFIG_MAPS, &config_map("short")).await.expect(StatusCode::CREATED);
    for (name, takes, packed) in [
        ("long", "deflate, gzip", true),
        ("long", "gzip;q=1", false),
        ("long", "identity", false),
        ("short", "gzip", false),
    ] {
        let path = format!("{CONFIG_MAPS}/{name}");
        let response = cluster.open("GET", &path, &[("accept-encoding", takes)], b"").await;
        let encoding = response.headers().get("content-encoding").map(|value| value.to_str().expect("text").to_owned());
        let bytes = response.into_body().collect().await.expect("a whole body").to_bytes();
        assert_eq!(encoding.as_deref(), packed.then_some("gzip"), "{name} {takes}");
        let mut text = String::new();
        if packed {
            flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("gzip");
        } else {
            text = String::from_utf8(bytes.to_vec()).expect("text");
        }
        let read: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(read["metadata"]["name"], name);
    }
}

/// The server sends the list in pieces.
#[tokio::test]
async fn a_long_list_is_the_same_compressed_and_in_each_encoding() {
    let cluster = Cluster::quiet().await;
    for name in ["a", "b", "c"] {
        let mut object = config_map(name);
        object["data"]["a"] = json!("x".repeat(100 * 1024));
        cluster.post(CONFIG_MAPS, &object).await.expect(StatusCode::CREATED);
    }
    let read = async |accept: &str, takes: &str| {
        let headers = [("accept", accept), ("accept-encoding", takes)];
        let response = cluster.open("GET", CONFIG_MAPS, &headers, b"").await;
        let length = response.headers()["content-length"].to_str().expect("text").to_owned();
        let bytes = response.into_body().collect().await.expect("a whole body").to_bytes();
        assert_eq!(length, bytes.len().to_string(), "{accept} {takes}");
        if takes == "identity" {
            return bytes.to_vec();
        }
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut unpacked).expect("gzip");
        unpacked
    };
    for accept in ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"] {
        assert!(read(accept, "identity").await == read(accept, "gzip").await, "{accept}");
    }
    let json: Value = serde_json::from_slice(&read("application/json", "identity").await).expect("JSON");
    let names: Vec<&Value> =
        json["items"].as_array().expect("a list").iter().map(|it| &it["metadata"]["name"]).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let yaml: Value = serde_saphyr::from_slice(&read("application/yaml", "identity").await).expect("YAML");
    assert!(yaml == json);
}

#[tokio::test]
async fn unknown_media_types_are_refused_by_the_first_handler() {
    let cluster = Cluster::with_webapps().await;
    let types = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let html = [("accept", "text/html")];
    let answer = cluster.send("GET", CONFIG_MAPS, &html, b"").await;
    assert_eq!(answer.body["details"], json!({}));
    let streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    let why = format!("406: Not Acceptable\n\nAvailable representations: {types}, {streams}");
    assert_eq!(answer.refused(406, "NotAcceptable"), why);
    let message = cluster.send("GET", WEBAPPS, &html, b"").await.refused(406, "NotAcceptable");
    assert_eq!(message, "only the following media types are accepted: application/json, application/yaml");
    let odd = [("content-type", "application/odd")];
    let message =
        cluster.send("PATCH", &format!("{CONFIG_MAPS}/a"), &odd, b"{}").await.refused(415, "UnsupportedMediaType");
    assert_eq!(message, "415: Unsupported Media Type");
    let answer = cluster.send("GET", "/openapi/v3/none", &[], b"").await;
    assert_eq!((answer.code, answer.body), (StatusCode::NOT_FOUND, json!("")));
    cluster.get(&format!("{CONFIG_MAPS}?limit=1;2")).await.expect(StatusCode::OK);
}
