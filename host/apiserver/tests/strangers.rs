//! No web page can use the server: neither a page of another origin, nor a page whose host name resolves to loopback.

mod support;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use support::{CONFIG_MAPS, Cluster, JSON};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Methods and paths, one of each kind.
const REQUESTS: [(&str, &str); 14] = [
    ("GET", "/"),
    ("GET", "/version"),
    ("GET", "/healthz"),
    ("GET", "/api"),
    ("GET", "/apis"),
    ("GET", "/apis/apps/v1"),
    ("GET", "/openapi/v2"),
    ("GET", "/openapi/v3"),
    ("GET", CONFIG_MAPS),
    ("GET", "/api/v1/namespaces/default/configmaps?watch=true"),
    ("POST", CONFIG_MAPS),
    ("DELETE", CONFIG_MAPS),
    ("OPTIONS", CONFIG_MAPS),
    ("GET", "/nothing"),
];

const STRANGERS: [&str; 9] = [
    "example.com",
    "localhost.example.com",
    "127.0.0.1.example.com:8001",
    "localhost.",
    "10.0.0.1",
    "0.0.0.0:8001",
    "[fe80::1]",
    "[::ffff:10.0.0.1]:80",
    "",
];

const OURS: [&str; 7] = ["localhost", "LOCALHOST:8001", "LocalHost", "127.0.0.1:1", "127.9.9.9", "[::1]", "[::1]:8001"];

#[tokio::test]
async fn every_path_is_closed_to_other_names() {
    let cluster = Cluster::quiet().await;
    for (method, path) in REQUESTS {
        for host in STRANGERS {
            let answer = cluster.send(method, path, &[("host", host), ("content-type", JSON)], b"").await;
            assert_eq!(answer.code, StatusCode::FORBIDDEN, "{method} {path} {host:?}");
        }
    }
    for host in OURS {
        let answer = cluster.send("GET", CONFIG_MAPS, &[("host", host)], b"").await;
        assert_eq!(answer.code, StatusCode::OK, "{host}");
    }
}

#[tokio::test]
async fn every_path_is_closed_to_web_pages() {
    let cluster = Cluster::quiet().await;
    let pages = [
        ("origin", "http://example.com"),
        ("origin", "http://localhost:3000"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ];
    for (method, path) in REQUESTS {
        for page in pages {
            let answer = cluster.send(method, path, &[page, ("content-type", JSON)], b"").await;
            assert_eq!(answer.code, StatusCode::FORBIDDEN, "{method} {path} {page:?}");
        }
    }
    // The user has entered the URL in the browser.
    let answer = cluster.send("GET", CONFIG_MAPS, &[("sec-fetch-site", "none")], b"").await;
    assert_eq!(answer.code, StatusCode::OK);
    // A page's form, from a browser that sends neither header.
    for media in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        let answer = cluster.send("POST", CONFIG_MAPS, &[("content-type", media)], b"{}").await;
        assert_eq!(answer.code, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{media}");
    }
    // A body without a type cannot be a page's, since a browser would send the page's origin with it.
    cluster.send("POST", CONFIG_MAPS, &[], br#"{"metadata":{"name":"a"}}"#).await.expect(StatusCode::CREATED);
}

/// Sends bytes over a new connection. Returns the code of the response.
async fn code(cluster: &Cluster, request: &str) -> String {
    let mut stream = TcpStream::connect(cluster.server.address()).await.expect("the server listens");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.expect("an answer");
    String::from_utf8_lossy(&answer[9..]).into_owned()
}

#[tokio::test]
async fn an_absolute_url_or_several_hosts_do_not_bypass_the_check() {
    let cluster = Cluster::quiet().await;
    let cases = [
        ("GET http://example.com/version HTTP/1.1\r\nhost: localhost\r\n\r\n", "403"),
        ("GET http://localhost/version HTTP/1.1\r\nhost: localhost\r\n\r\n", "200"),
        ("GET /version HTTP/1.1\r\nhost: localhost\r\nhost: example.com\r\n\r\n", "403"),
        ("GET /version HTTP/1.1\r\nhost: example.com\r\nhost: localhost\r\n\r\n", "403"),
        ("GET /version HTTP/1.1\r\nhost: localhost@example.com\r\n\r\n", "403"),
        // Only programs omit the host.
        ("GET /version HTTP/1.0\r\n\r\n", "200"),
    ];
    for (request, expected) in cases {
        assert_eq!(code(&cluster, request).await, expected, "{request:?}");
    }
}

#[tokio::test]
async fn the_authority_of_http_2_is_checked() {
    let cluster = Cluster::quiet().await;
    let stream = TcpStream::connect(cluster.server.address()).await.expect("the server listens");
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    let cases = [("localhost", StatusCode::OK), ("[::1]:80", StatusCode::OK), ("example.com", StatusCode::FORBIDDEN)];
    for (host, expected) in cases {
        let request = Request::get(format!("http://{host}{CONFIG_MAPS}")).body(Full::new(Bytes::new()));
        let answer = sender.send_request(request.expect("a request")).await.expect("an answer");
        assert_eq!(answer.status(), expected, "{host}");
    }
}
