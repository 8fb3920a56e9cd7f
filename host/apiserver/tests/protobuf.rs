//! Protobuf over HTTP, as typed Go clients request and send it.

mod support;

use http::StatusCode;
use http_body_util::BodyExt as _;
use serde_json::json;
use support::{
    APPLY, CONFIG_MAPS, Cluster, DEPLOYMENTS, JSON, JSON_PATCH, MERGE, STRATEGIC, WEBAPPS, config_map, webapp,
};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TYPED: (&str, &str) = ("accept", "application/vnd.kubernetes.protobuf,application/json");

/// Sends a request. Returns the response's code, media type and bytes.
async fn send(
    cluster: &Cluster,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> (u16, String, Vec<u8>) {
    let response = cluster.open(method, path, headers, body).await;
    let media = response.headers()["content-type"].to_str().expect("text").to_owned();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a whole body").to_bytes();
    (code, media, bytes.to_vec())
}

#[tokio::test]
async fn an_object_is_read_and_written_back_as_protobuf() {
    let cluster = Cluster::quiet().await;
    cluster.post(CONFIG_MAPS, &config_map("a")).await.expect(StatusCode::CREATED);
    let path = format!("{CONFIG_MAPS}/a");
    let (code, media, bytes) = send(&cluster, "GET", &path, &[TYPED], b"").await;
    assert_eq!((code, media.as_str()), (200, PROTOBUF));
    assert!(bytes.starts_with(b"k8s\0"));
    let before = cluster.get(&path).await.expect(StatusCode::OK);
    let (code, ..) = send(&cluster, "PUT", &path, &[TYPED, ("content-type", PROTOBUF)], &bytes).await;
    assert_eq!(code, 200);
    let after = cluster.get(&path).await.expect(StatusCode::OK);
    assert_eq!(before, after, "an update with the same object changes nothing");

    let (code, media, bytes) = send(&cluster, "GET", &format!("{CONFIG_MAPS}/absent"), &[TYPED], b"").await;
    assert_eq!((code, media.as_str()), (404, PROTOBUF));
    assert!(String::from_utf8_lossy(&bytes).contains("configmaps \"absent\" not found"));
}

#[tokio::test]
async fn each_frame_of_a_watch_follows_its_length() {
    let cluster = Cluster::quiet().await;
    cluster.post(CONFIG_MAPS, &config_map("first")).await.expect(StatusCode::CREATED);
    cluster.post(CONFIG_MAPS, &config_map("second")).await.expect(StatusCode::CREATED);
    let path = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=1");
    let (code, media, bytes) = send(&cluster, "GET", &path, &[TYPED], b"").await;
    assert_eq!((code, media.as_str()), (200, "application/vnd.kubernetes.protobuf;stream=watch"));
    let mut rest = bytes.as_slice();
    let mut names = Vec::new();
    while let Some((length, frames)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*length)).expect("a length");
        let (frame, others) = frames.split_at(length);
        assert_eq!(&frame[..7], b"\n\x05ADDED", "the type comes first");
        let text = String::from_utf8_lossy(frame).into_owned();
        names.extend(["first", "second"].into_iter().filter(|name| text.contains(name)));
        rest = others;
    }
    assert_eq!(names, ["first", "second"]);
}

#[tokio::test]
async fn a_watch_has_no_yaml() {
    let cluster = Cluster::quiet().await;
    let response =
        cluster.open("GET", &format!("{CONFIG_MAPS}?watch=true"), &[("accept", "application/yaml")], b"").await;
    assert_eq!(response.status(), StatusCode::NOT_ACCEPTABLE);
}

#[tokio::test]
async fn custom_resources_have_no_protobuf_form() {
    let cluster = Cluster::with_webapps().await;
    let (code, media, _) = send(&cluster, "GET", WEBAPPS, &[TYPED], b"").await;
    assert_eq!((code, media.as_str()), (200, "application/json"));
    cluster.send("GET", WEBAPPS, &[("accept", PROTOBUF)], b"").await.refused(406, "NotAcceptable");
    let body = webapp("a").to_string();
    let refused = cluster.send("POST", WEBAPPS, &[("content-type", PROTOBUF)], body.as_bytes()).await;
    refused.refused(415, "UnsupportedMediaType");
    let metadata = ("accept", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    cluster.post(WEBAPPS, &webapp("a")).await.expect(StatusCode::CREATED);
    let (code, media, bytes) = send(&cluster, "GET", WEBAPPS, &[metadata], b"").await;
    assert_eq!((code, media.as_str()), (200, PROTOBUF));
    assert!(String::from_utf8_lossy(&bytes).contains("PartialObjectMetadataList"));
}

#[tokio::test]
async fn a_broken_body_is_a_bad_request() {
    let cluster = Cluster::quiet().await;
    let headers = [("content-type", PROTOBUF)];
    for body in [&b"k8s\0\x0a\x7f"[..], b"{}", json!({}).to_string().as_bytes()] {
        cluster.send("POST", CONFIG_MAPS, &headers, body).await.refused(400, "BadRequest");
    }
}

#[tokio::test]
async fn an_object_that_protobuf_cannot_hold_is_not_stored() {
    let cluster = Cluster::quiet().await;
    cluster.post(DEPLOYMENTS, &support::deployment("a")).await.expect(StatusCode::CREATED);
    cluster.post(CONFIG_MAPS, &config_map("a")).await.expect(StatusCode::CREATED);
    let (one, map) = (format!("{DEPLOYMENTS}/a"), format!("{CONFIG_MAPS}/a"));
    let wrong = [
        ("PATCH", one.clone(), MERGE, r#"{"spec":{"replicas":"2"}}"#),
        ("PATCH", one.clone(), MERGE, r#"{"spec":{"replicas":3000000000}}"#),
        ("PATCH", one.clone(), STRATEGIC, r#"{"spec":{"template":{"spec":{"nodeSelector":{"a":1}}}}}"#),
        (
            "PATCH",
            one.clone(),
            JSON_PATCH,
            r#"[{"op":"add","path":"/spec/template/spec/containers/0/env","value":{}}]"#,
        ),
        ("PATCH", format!("{one}/status"), MERGE, r#"{"status":{"conditions":[{"lastUpdateTime":"today"}]}}"#),
        (
            "PATCH",
            format!("{one}?fieldManager=a"),
            APPLY,
            r#"{"apiVersion":"apps/v1","kind":"Deployment","spec":{"paused":1}}"#,
        ),
        ("PUT", map.clone(), JSON, r#"{"metadata":{"name":"a"},"data":{"a":true}}"#),
        ("PUT", map.clone(), JSON, r#"{"metadata":{"name":"a"},"binaryData":{"a":"_"}}"#),
        ("PATCH", map, MERGE, r#"{"immutable":"yes"}"#),
    ];
    for (method, path, media, body) in wrong {
        let refused = cluster.send(method, &path, &[("content-type", media)], body.as_bytes()).await;
        assert!(!refused.code.is_success(), "{body}: {}", refused.body);
    }
    for path in [DEPLOYMENTS, CONFIG_MAPS] {
        assert_eq!(send(&cluster, "GET", path, &[TYPED], b"").await.0, 200);
    }
}
