//! The endpoint as its clients see it, over TCP.

use futures::FutureExt as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::listening::stall::STALL_TIMEOUT;
use crate::observe::status::PluginPhase;

async fn serving(stop: &CancellationToken) -> SocketAddr {
    serving_status(stop, Status::new(CancellationToken::new())).await
}

async fn serving_status(stop: &CancellationToken, status: Status) -> SocketAddr {
    let listener = listen("127.0.0.1:0".parse().expect("an address")).await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let admin = Admin { status, metrics: HostMetrics::new() };
    let (security, stop) = (Arc::new(AdminSecurity::default()), stop.clone());
    tokio::spawn(async move { admin.serve(&listener, &security, &stop).await });
    address
}

async fn asked(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = format!("{request} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answered");
    answer
}

#[tokio::test]
async fn each_path_answers_in_its_form() {
    let stop = CancellationToken::new();
    let address = serving(&stop).await;
    assert!(asked(address, "GET /healthz").await.starts_with("HTTP/1.1 200 OK"));
    let unready = asked(address, "GET /readyz").await;
    assert!(unready.starts_with("HTTP/1.1 503") && unready.contains("being loaded"), "{unready}");
    let metrics = asked(address, "GET /metrics?x=y").await;
    assert!(metrics.contains("openmetrics-text") && metrics.ends_with("# EOF\n"), "{metrics}");
    let plugins = asked(address, "GET /plugins").await;
    assert!(plugins.contains(r#""plugins": []"#) && plugins.contains("cache-control: no-store\r\n"), "{plugins}");
    let keys = asked(address, "GET /plugins/webapp/keys").await;
    assert!(keys.starts_with("HTTP/1.1 404") && keys.contains("no plugin webapp; there are: none"), "{keys}");
    let unknown = asked(address, "GET /plugins/webapp").await;
    assert!(unknown.starts_with("HTTP/1.1 404") && unknown.contains("there is no plugin webapp"), "{unknown}");
    assert!(asked(address, "GET /other").await.starts_with("HTTP/1.1 404"));
    let page = asked(address, "GET /").await;
    assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains("content-type: text/html"), "{page}");
    for header in ["content-security-policy: default-src 'none'; ", "x-content-type-options: nosniff", "no-store"] {
        assert!(page.contains(header), "{header}");
    }
    let refused = asked(address, "POST /plugins").await;
    assert!(refused.starts_with("HTTP/1.1 405") && refused.contains("allow: GET, HEAD"), "{refused}");
    let refused = asked(address, "GET /plugins/webapp/resume").await;
    assert!(refused.starts_with("HTTP/1.1 405") && refused.contains("allow: POST"), "{refused}");
    let unknown = asked(address, "POST /plugins/webapp/resume").await;
    assert!(unknown.starts_with("HTTP/1.1 404") && unknown.contains("there is no plugin webapp"), "{unknown}");
}

#[tokio::test]
async fn its_connections_end_with_the_host() {
    let stop = CancellationToken::new();
    let mut idle = TcpStream::connect(serving(&stop).await).await.expect("it listens");
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
    let mut first = [0; 12];
    idle.read_exact(&mut first).await.expect("answered");
    stop.cancel();
    let mut rest = Vec::new();
    tokio::time::timeout(HEADER_TIMEOUT / 2, idle.read_to_end(&mut rest)).await.expect("soon").expect("closed");
}

#[tokio::test]
async fn a_probe_is_answered_whatever_number_of_connections_is_silent() {
    let stop = CancellationToken::new();
    let address = serving(&stop).await;
    let mut silent = Vec::new();
    for number in 0..3 * ADMIN_CONNECTIONS_MAX {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        // Some connections begin a request that never ends. Others have got an answer and stay open.
        let sent = ["", "GET /healthz HTTP/1.1\r\n", "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"][number % 3];
        stream.write_all(sent.as_bytes()).await.expect("sent");
        silent.push(stream);
    }
    let probe = asked(address, "GET /healthz");
    // The answer must come before the silent connections would be closed anyway.
    let answer = tokio::time::timeout(HEADER_TIMEOUT / 2, probe).await.expect("before they are all closed");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

#[tokio::test]
async fn answers_are_made_one_at_a_time_except_for_probes() {
    let admin = Admin { status: Status::new(CancellationToken::new()), metrics: HostMetrics::new() };
    let endpoint = AdminEndpoint::new(admin, Arc::default());
    let status = |path: &str| {
        let request = Request::get(path).body(()).expect("a request");
        endpoint.answer(&request, true, Instant::now()).now_or_never().map(|answer| answer.status().as_u16())
    };
    let turn = endpoint.turn.lock().await;
    assert_eq!(["/healthz", "/readyz", "/plugins", "/metrics"].map(status), [Some(200), Some(503), None, None]);
    drop(turn);
    assert_eq!(["/plugins", "/metrics"].map(status), [Some(200), Some(200)]);
}

#[tokio::test]
async fn without_tokens_nothing_is_changed_from_another_machine() {
    let admin = Admin { status: Status::new(CancellationToken::new()), metrics: HostMetrics::new() };
    admin.status.plugin("webapp");
    let endpoint = AdminEndpoint::new(admin, Arc::default());
    let status = async |request: http::request::Builder, is_local| {
        let request = request.header("host", "windlass").body(()).expect("a request");
        endpoint.answer(&request, is_local, Instant::now()).await.status().as_u16()
    };
    assert_eq!(status(Request::get("/plugins/webapp"), false).await, 200);
    assert_eq!(status(Request::post("/plugins/webapp/resume"), false).await, 403);
    assert_eq!(status(Request::post("/plugins/webapp/resume"), true).await, 200);
    for header in ["Forwarded", "Via", "X-Forwarded-For"] {
        let forwarded = Request::post("/plugins/webapp/resume").header(header, "for=192.0.2.7");
        assert_eq!(status(forwarded, true).await, 403, "{header}");
        let read = Request::get("/plugins/webapp").header(header, "for=192.0.2.7");
        assert_eq!(status(read, true).await, 200, "{header}");
    }
    let from_a_page = Request::post("/plugins/webapp/resume").header("origin", "http://windlass");
    assert_eq!(status(from_a_page, true).await, 403);
}

#[tokio::test]
async fn a_web_page_is_refused() {
    let stop = CancellationToken::new();
    let refused = asked(serving(&stop).await, "GET /plugins HTTP/1.1\r\nOrigin: https://example.com\r\nX:").await;
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_disconnected() {
    let stop = CancellationToken::new();
    let address = serving(&stop).await;
    for sent in ["", "GET /healthz HTTP/1.1\r\n", "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"] {
        let mut silent = TcpStream::connect(address).await.expect("it listens");
        silent.write_all(sent.as_bytes()).await.expect("sent");
        let mut rest = Vec::new();
        silent.read_to_end(&mut rest).await.expect("closed, after a time that this clock skips");
    }
}

/// A connection that has requested the stream, and the beginning of the answer.
async fn watching(address: SocketAddr) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(b"GET /watch HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
    let mut come = Vec::new();
    while !come.ends_with(b"\n\n\r\n") && !come.ends_with(b"close one\n") {
        assert!(stream.read_buf(&mut come).await.expect("an answer") > 0, "{}", String::from_utf8_lossy(&come));
    }
    (stream, String::from_utf8(come).expect("text"))
}

#[tokio::test]
async fn a_stream_begins_at_once_is_limited_in_number_and_ends_with_the_host() {
    let stop = CancellationToken::new();
    let address = serving(&stop).await;
    // A request for the headers alone does not count.
    for _ in 0..=CONCURRENT_STREAMS_MAX {
        let head = asked(address, "HEAD /watch").await;
        assert!(head.contains("content-type: text/event-stream") && head.ends_with("\r\n\r\n"), "{head}");
    }
    let mut pages = Vec::new();
    for _ in 0..CONCURRENT_STREAMS_MAX {
        let (stream, first) = watching(address).await;
        assert!(first.starts_with("HTTP/1.1 200 OK") && first.contains("content-type: text/event-stream"), "{first}");
        assert!(first.contains("event: state\ndata: {") && first.contains(r#""plugins":[]}"#), "{first}");
        assert!(first.contains("connection: close\r\n"), "the next one needs a younger connection: {first}");
        pages.push(stream);
    }
    let (_, refused) = watching(address).await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("16 status pages are open"), "{refused}");
    stop.cancel();
    for mut stream in pages {
        let mut rest = Vec::new();
        let end = tokio::time::timeout(HEADER_TIMEOUT, stream.read_to_end(&mut rest));
        end.await.expect("soon").expect("closed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_does_not_read_is_dropped_with_its_pending_events() {
    let (stop, status) = (CancellationToken::new(), Status::new(CancellationToken::new()));
    for number in 0..4000 {
        status.plugin(&format!("plugin-{number}")).set(PluginPhase::NotLoaded, Some("x".repeat(1000)));
    }
    let address = serving_status(&stop, status).await;
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut page = socket.connect(address).await.expect("it listens");
    page.write_all(b"GET /watch HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sent");
    tokio::time::sleep(2 * STALL_TIMEOUT).await;
    let mut come = Vec::new();
    // The stream ends with what was already sent, or with a reset.
    let _ = page.read_to_end(&mut come).await;
    assert!(!come.is_empty() && come.len() < 4000 * 1000, "{} bytes", come.len());
}

#[tokio::test]
async fn a_request_with_more_headers_than_any_client_has_is_refused() {
    let stop = CancellationToken::new();
    let address = serving(&stop).await;
    let long = format!("GET /healthz HTTP/1.1\r\nX-Long: {}\r\nX:", "x".repeat(REQUEST_HEADERS_BYTES_MAX));
    let many = format!("GET /healthz HTTP/1.1\r\n{}X:", "X-Many: x\r\n".repeat(200));
    for request in [long, many] {
        let refused = asked(address, &request).await;
        assert!(refused.starts_with("HTTP/1.1 431"), "{refused}");
    }
    let fits = asked(
        address,
        &format!("GET /healthz HTTP/1.1\r\nX-Long: {}\r\nX:", "x".repeat(REQUEST_HEADERS_BYTES_MAX / 2)),
    )
    .await;
    assert!(fits.starts_with("HTTP/1.1 200 OK"), "{fits}");
}

#[tokio::test(start_paused = true)]
async fn a_client_with_a_trickling_or_endless_request_is_disconnected() {
    let stop = CancellationToken::new();
    let address = serving(&stop).await;
    for (begin, rest) in [
        ("GET /healthz HTTP/1.1\r\nX-Slow: ", "x"),
        ("GET /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"),
    ] {
        let mut slow = TcpStream::connect(address).await.expect("it listens");
        slow.write_all(begin.as_bytes()).await.expect("sent");
        let began = Instant::now();
        // Writing fails once the server has closed the connection.
        while slow.write_all(rest.as_bytes()).await.is_ok() {
            tokio::time::sleep(HEADER_TIMEOUT / 8).await;
            assert!(began.elapsed() < 4 * HEADER_TIMEOUT, "{begin:?} is still read");
        }
    }
}
