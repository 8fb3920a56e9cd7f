use std::future::pending;
use std::net::SocketAddr;

use futures::future::ready;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use windlass_core::call::http::HttpBody;
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::rights::grants::{Allowance, Grants, HttpRule, Layer};
use windlass_core::rights::principal::Principal;
use windlass_core::secret::confidential::Confidential;
use windlass_egress::connect::SystemResolver;

use super::*;
use crate::traces::tests::collected;

/// The policy of most tests. [`Rules::to`] grants whatever port a test's server has.
#[derive(Clone)]
struct Rules {
    hosts: Vec<(Scheme, String, u16)>,
    addresses: Vec<String>,
}

impl Rules {
    fn to(scheme: Scheme, host: &str, server: SocketAddr) -> Self {
        Self { hosts: vec![(scheme, host.to_owned(), server.port())], addresses: vec![] }
    }

    fn and(mut self, scheme: Scheme, host: &str, port: u16) -> Self {
        self.hosts.push((scheme, host.to_owned(), port));
        self
    }

    fn reaching(mut self, network: &str) -> Self {
        self.addresses.push(network.to_owned());
        self
    }

    fn call(&self) -> Arc<CallContext> {
        let rules = |addresses: &[String]| Allowance {
            http: self
                .hosts
                .iter()
                .map(|(scheme, host, port)| HttpRule {
                    scheme: *scheme,
                    host: host.clone(),
                    port: Some(*port),
                    methods: vec!["*".to_owned()],
                    addresses: addresses.to_vec(),
                })
                .collect(),
            ..Allowance::default()
        };
        let grants = Grants::asked(rules(&[])).bounded(Layer::Policy, Arc::new(rules(&self.addresses)));
        Arc::new(CallContext {
            trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
            ..CallContext::detached(
                Principal { grants: LiveGrants::new(grants), ..Principal::of_plugin("caller", "0", "test") },
                "caller",
                ObjectKind::new("v1", "ConfigMap"),
                ObjectKey::namespaced("prod", "shop"),
            )
        })
    }
}

/// A server that reads one request on each connection, reports it to the test, and answers `answer`.
pub(crate) async fn serving(answer: impl Into<Vec<u8>>) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let (listener, answer) = (listener().await, answer.into());
    let address = listener.local_addr().expect("bound");
    let (requests, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            answered(stream, &answer, &requests).await;
        }
    });
    (address, received)
}

pub(crate) async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.expect("a free port")
}

/// Reads to the end of the headers and, where there is a length, of the body.
async fn answered(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &[u8],
    requests: &mpsc::UnboundedSender<String>,
) {
    let mut request = Vec::new();
    let is_whole = |request: &[u8]| {
        let text = String::from_utf8_lossy(request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |it| it.parse().expect("a length"));
        body.len() >= length
    };
    while !is_whole(&request) {
        match stream.read_buf(&mut request).await {
            Ok(read) if read > 0 => {}
            _ => return,
        }
    }
    let _ = requests.send(String::from_utf8_lossy(&request).into_owned());
    let _ = stream.write_all(answer).await;
    let _ = stream.shutdown().await;
}

pub(crate) fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX-Kind: a\r\n\r\n{body}", body.len())
}

/// Names that a test makes up. The first look-up gets the first answer, and so on; the last one stays.
struct Names(Mutex<Vec<Vec<SocketAddr>>>);

impl Names {
    fn are(answers: &[&[SocketAddr]]) -> Arc<Self> {
        Arc::new(Self(Mutex::new(answers.iter().map(|answer| answer.to_vec()).collect())))
    }
}

impl Resolve for Names {
    fn resolve(&self, _: String, _: u16) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>> {
        let mut answers = self.0.lock().expect("not poisoned");
        let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
        ready(Ok(answer)).boxed()
    }
}

fn egress() -> Egress {
    with(HttpLimits::default(), Trust::default(), Arc::new(SystemResolver))
}

fn with(limits: HttpLimits, trust: Trust, resolver: Arc<dyn Resolve>) -> Egress {
    // A documentation address, so that no test's server is where the API server is.
    Egress::new(limits, trust, resolver, ApiServer::at("https://192.0.2.1:6443"), HttpTotals::default())
}

fn get(url: String) -> HttpRequest {
    HttpRequest { method: "GET".to_owned(), url, headers: vec![], body: None, timeout: None }
}

async fn fetched(egress: &Egress, rules: &Rules, url: String) -> Result<HttpResponse, HttpError> {
    egress.fetch(rules.call(), get(url)).await
}

fn reason_of<T: std::fmt::Debug>(result: Result<T, HttpError>) -> HttpReason {
    result.expect_err("it must fail").reason
}

#[tokio::test]
async fn a_granted_request_and_its_response_arrive_unchanged() {
    let (server, mut received) = serving(ok("grüße")).await;
    let rules = Rules::to(Scheme::Http, "127.0.0.1", server).reaching("127.0.0.0/8");
    let request = HttpRequest {
        method: "POST".to_owned(),
        headers: vec![("X-Token".to_owned(), "a".to_owned()), ("Accept".to_owned(), "*/*".to_owned())],
        body: Some(HttpBody::Text("hello".to_owned())),
        ..get(format!("http://{server}/path?query#fragment"))
    };
    let egress = egress();
    let response = egress.fetch(rules.call(), request).await.expect("answered");
    assert_eq!((response.status, response.body), (200, HttpBody::Text("grüße".to_owned())));
    assert!(response.headers.contains(&("x-kind".to_owned(), "a".to_owned())), "{:?}", response.headers);
    let request = received.recv().await.expect("it was asked");
    assert!(request.starts_with("POST /path?query HTTP/1.1\r\n"), "{request}");
    for line in [
        format!("host: {server}\r\n"),
        "x-token: a\r\n".to_owned(),
        "content-length: 5\r\n".to_owned(),
        "connection: close\r\n".to_owned(),
        format!("user-agent: windlass/{} (caller)\r\n", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(request.contains(&line), "{line:?} is missing in {request}");
    }
    assert!(request.ends_with("\r\n\r\nhello") && !request.contains("traceparent"), "{request}");
    assert_eq!(egress.0.totals.of("caller", "ok"), 1);
}

#[tokio::test]
async fn a_sampled_fetch_continues_the_trace_unless_the_plugin_sets_its_own() {
    let (server, mut received) = serving(ok("")).await;
    let rules = Rules::to(Scheme::Http, "127.0.0.1", server).reaching("127.0.0.0/8");
    let (tracer, mut exports) = collected(1.0);
    let root = tracer.root("0af7651916cd43dd8448eb211c80319c", 0);
    let call = rules.call().within(&root);
    let egress = egress();
    let url = format!("http://{server}/path");
    egress.fetch(call.clone(), get(url.clone())).await.expect("answered");
    let request = received.recv().await.expect("it was asked");
    drop(root);
    tracer.end().await;
    let exported = exports.recv().await.expect("spans");
    let span = &exported["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    let parent =
        format!("traceparent: 00-0af7651916cd43dd8448eb211c80319c-{}-01\r\n", span["spanId"].as_str().expect("an id"));
    assert!(request.contains(&parent), "{parent} is missing in {request}");
    assert_eq!((&span["name"], &span["kind"]), (&"GET".into(), &3.into()));
    let shown = span["attributes"].to_string();
    assert!(shown.contains("127.0.0.1") && !shown.contains("/path"), "{shown}");
    let own = HttpRequest { headers: vec![("Traceparent".to_owned(), "mine".to_owned())], ..get(url) };
    egress.fetch(call, own).await.expect("answered");
    let request = received.recv().await.expect("it was asked");
    assert!(request.contains("traceparent: mine\r\n") && !request.contains("traceparent: 00"), "{request}");
}

#[tokio::test]
async fn the_span_of_a_fetch_that_fails_has_no_secret_of_the_configuration() {
    let rules = Rules::to(Scheme::Http, "127.0.0.1", "127.0.0.1:1".parse().expect("an address"));
    let (tracer, mut exports) = collected(1.0);
    let root = tracer.root("0af7651916cd43dd8448eb211c80319c", 0);
    let config = Confidential::holding("{}", [Confidential::from("hunter22")]);
    let call = CallContext { config, ..(*rules.call().within(&root)).clone() };
    let denied = egress().fetch(Arc::new(call), get("http://hunter22.example/".to_owned())).await;
    assert!(denied.is_err_and(|error| error.message.contains("hunter22")));
    drop(root);
    tracer.end().await;
    let exported = exports.recv().await.expect("spans");
    let received = exported["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["status"]["message"].to_string();
    assert!(received.contains("<redacted>.example") && !received.contains("hunter22"), "{received}");
}

#[tokio::test]
async fn a_body_that_is_no_text_comes_back_as_bytes() {
    let (server, _received) = serving(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n\xff\xfe".to_vec()).await;
    let rules = Rules::to(Scheme::Http, "127.0.0.1", server).reaching("127.0.0.0/8");
    let response = fetched(&egress(), &rules, format!("http://{server}/")).await.expect("a 404 is a response");
    assert_eq!((response.status, response.body), (404, HttpBody::Bytes(vec![0xff, 0xfe])));
}

#[tokio::test]
async fn a_host_that_no_rule_names_is_not_asked() {
    let (server, mut received) = serving(ok("")).await;
    let other = Rules::to(Scheme::Http, "localhost", server).reaching("127.0.0.0/8");
    let egress = egress();
    let error = fetched(&egress, &other, format!("http://{server}/")).await.expect_err("another host");
    assert_eq!(error.reason, HttpReason::NotGranted);
    assert!(error.message.contains("methods: [GET]"), "{error}");
    assert!(received.try_recv().is_err());
    assert_eq!(egress.0.totals.of("caller", "not-granted"), 1);
}

#[tokio::test]
async fn a_request_revoked_while_it_waits_for_its_turn_is_not_sent() {
    let (server, mut received) = serving(ok("")).await;
    let rules = Rules::to(Scheme::Http, "127.0.0.1", server).reaching("127.0.0.0/8");
    let egress = with(HttpLimits { concurrent: 1, ..HttpLimits::default() }, Trust::default(), Names::are(&[&[]]));
    let call = rules.call();
    let permit = egress.0.permit(&call.principal.plugin).await.expect("the only one");
    let mut waiting = egress.fetch(call.clone(), get(format!("http://{server}/")));
    assert!((&mut waiting).now_or_never().is_none(), "it waits");
    call.principal.grants.replace(Grants::default());
    drop(permit);
    assert_eq!(reason_of(waiting.await), HttpReason::NotGranted);
    assert!(received.try_recv().is_err(), "nothing was sent");
}

#[tokio::test]
async fn a_name_that_leads_to_loopback_is_reached_only_if_that_is_granted() {
    let (server, mut received) = serving(ok("inside")).await;
    let url = || format!("http://localhost:{}/", server.port());
    let rules = Rules::to(Scheme::Http, "localhost", server);
    let (call, egress) = (rules.call(), egress());
    let error = egress.fetch(call.clone(), get(url())).await.expect_err("loopback");
    assert_eq!(error.reason, HttpReason::Connect, "a later look-up may find another address");
    assert!(error.message.contains("loopback") && error.message.contains("addresses: ["), "{error}");
    let denials = call.principal.grants.denials().snapshot();
    assert_eq!((denials.len(), denials[0].count), (1, 1), "it is counted");
    assert_eq!(egress.0.totals.of("caller", "connect"), 1);
    assert!(received.try_recv().is_err(), "nothing was sent");
    let granted = rules.reaching("127.0.0.0/8").reaching("::1");
    assert_eq!(fetched(&egress, &granted, url()).await.expect("granted").status, 200);
}

#[tokio::test]
async fn a_name_is_reached_as_soon_as_it_leads_to_an_allowed_address() {
    let (server, _received) = serving(ok("")).await;
    let names = Names::are(&[&["10.0.0.1:80".parse().expect("an address")], &[server]]);
    let rules = Rules::to(Scheme::Http, "split.example.com", server).reaching("127.0.0.1/32");
    let egress = with(HttpLimits::default(), Trust::default(), names);
    let url = || format!("http://split.example.com:{}/", server.port());
    assert_eq!(reason_of(fetched(&egress, &rules, url()).await), HttpReason::Connect);
    assert_eq!(fetched(&egress, &rules, url()).await.expect("the second answer").status, 200);
}

#[tokio::test]
async fn other_forms_of_loopback_are_loopback() {
    let (server, mut received) = serving(ok("")).await;
    let port = server.port();
    for host in
        ["[::ffff:127.0.0.1]", "[::1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "0.0.0.0", "[::]"]
    {
        let rules = Rules::to(Scheme::Http, host, server);
        let error = fetched(&egress(), &rules, format!("http://{host}:{port}/")).await;
        assert_eq!(reason_of(error), HttpReason::NotGranted, "{host}");
    }
    for host in ["2130706433", "0x7f.1", "0177.0.0.1", "127.1"] {
        let rules = Rules::to(Scheme::Http, host, server);
        let error = fetched(&egress(), &rules, format!("http://{host}:{port}/")).await;
        assert_eq!(reason_of(error), HttpReason::InvalidRequest, "{host}");
    }
    assert!(received.try_recv().is_err(), "nothing was sent");
    let mapped = Rules::to(Scheme::Http, "[::ffff:127.0.0.1]", server).reaching("127.0.0.1/32");
    assert!(fetched(&egress(), &mapped, format!("http://[::ffff:127.0.0.1]:{port}/")).await.is_ok());
}

#[tokio::test]
async fn a_redirect_is_returned_and_the_following_request_is_checked_again() {
    let (inside, mut received) = serving(ok("secret")).await;
    let moved =
        format!("HTTP/1.1 302 Found\r\nLocation: http://localhost:{}/\r\nContent-Length: 0\r\n\r\n", inside.port());
    let (server, _) = serving(moved).await;
    let rules = Rules::to(Scheme::Http, "127.0.0.1", server)
        .and(Scheme::Http, "localhost", inside.port())
        .reaching("127.0.0.1/32");
    let response = fetched(&egress(), &rules, format!("http://{server}/")).await.expect("a redirect");
    assert_eq!(response.status, 302);
    let location = response.headers.iter().find(|(name, _)| name == "location").expect("it says where").1.clone();
    let elsewhere = Names::are(&[&["10.0.0.1:80".parse().expect("an address")]]);
    let egress = with(HttpLimits::default(), Trust::default(), elsewhere);
    let denied = fetched(&egress, &rules, location).await.expect_err("a private address");
    assert!(denied.reason == HttpReason::Connect && denied.message.contains("10.0.0.1/32"), "{denied}");
    assert!(received.try_recv().is_err(), "it was never asked");
}

#[tokio::test]
async fn a_name_is_resolved_once_and_only_the_checked_address_is_used() {
    let (server, mut received) = serving(ok("")).await;
    let (other, mut other_received) = serving(ok("")).await;
    // The first answer is checked and connected to, and the name is not resolved again.
    let names = Names::are(&[&[server], &[other]]);
    let rules = Rules::to(Scheme::Http, "rebinding.example.com", server).reaching("127.0.0.1/32");
    let egress = with(HttpLimits::default(), Trust::default(), names.clone());
    fetched(&egress, &rules, format!("http://rebinding.example.com:{}/", server.port()))
        .await
        .expect("the first answer");
    assert!(received.try_recv().is_ok() && other_received.try_recv().is_err());
    assert_eq!(names.0.lock().expect("not poisoned").len(), 1, "one look-up");
}

#[tokio::test]
async fn one_denied_address_among_others_denies_the_name() {
    let (server, mut received) = serving(ok("")).await;
    let names = Names::are(&[&[server, "10.0.0.1:80".parse().expect("an address")]]);
    let rules = Rules::to(Scheme::Http, "both.example.com", server).reaching("127.0.0.1/32");
    let egress = with(HttpLimits::default(), Trust::default(), names);
    let error = fetched(&egress, &rules, format!("http://both.example.com:{}/", server.port())).await;
    let error = error.expect_err("a private address");
    assert!(error.reason == HttpReason::Connect && error.message.contains("10.0.0.1/32"), "{error}");
    assert!(received.try_recv().is_err());
}

#[tokio::test]
async fn the_api_server_is_not_asked_over_http() {
    let (server, mut received) = serving(ok("")).await;
    let api_server = ApiServer::at(&format!("http://{server}"));
    let egress = Egress::new(
        HttpLimits::default(),
        Trust::default(),
        Arc::new(SystemResolver),
        api_server,
        HttpTotals::default(),
    );
    let rules = Rules::to(Scheme::Http, "127.0.0.1", server).reaching("127.0.0.0/8");
    let error = fetched(&egress, &rules, format!("http://{server}/")).await.expect_err("the API server");
    assert!(error.message.contains("API server"), "{error}");
    assert!(received.try_recv().is_err());
    let named = rules.reaching("127.0.0.1/32");
    assert!(fetched(&egress, &named, format!("http://{server}/")).await.is_ok());
}

#[tokio::test]
async fn headers_and_methods_that_are_the_hosts_are_refused() {
    let (server, mut received) = serving(ok("")).await;
    let rules = Rules::to(Scheme::Http, "127.0.0.1", server).reaching("127.0.0.0/8");
    let url = || format!("http://{server}/");
    for (name, value) in [
        ("Host", "other"),
        ("Connection", "keep-alive"),
        ("Transfer-Encoding", "chunked"),
        ("Content-Length", "0"),
        ("Proxy-Authorization", "a"),
        ("TE", "trailers"),
        ("Upgrade", "h2c"),
        ("Expect", "100-continue"),
        ("a b", "c"),
        ("a\r\nb", "c"),
        ("", "c"),
        ("a", "b\r\nc: d"),
        ("a", "b\0"),
    ] {
        let request = HttpRequest { headers: vec![(name.to_owned(), value.to_owned())], ..get(url()) };
        assert_eq!(
            reason_of(egress().fetch(rules.call(), request).await),
            HttpReason::InvalidRequest,
            "{name:?}: {value:?}"
        );
    }
    for method in ["CONNECT", "TRACE", "get", "GET /x HTTP/1.1\r\nA: b\r\n\r\nGET"] {
        let request = HttpRequest { method: method.to_owned(), ..get(url()) };
        assert_eq!(reason_of(egress().fetch(rules.call(), request).await), HttpReason::InvalidRequest, "{method:?}");
    }
    let many = (0..200).map(|at| (format!("x-{at}"), String::new())).collect();
    let request = HttpRequest { headers: many, ..get(url()) };
    assert_eq!(reason_of(egress().fetch(rules.call(), request).await), HttpReason::InvalidRequest);
    let large = HttpRequest { body: Some(HttpBody::Bytes(vec![0; (1 << 20) + 1])), ..get(url()) };
    assert_eq!(reason_of(egress().fetch(rules.call(), large).await), HttpReason::InvalidRequest);
    assert!(received.try_recv().is_err(), "nothing was sent");
}

#[tokio::test]
async fn a_response_over_the_limit_is_not_read_to_its_end() {
    let limits = HttpLimits { response_bytes: 1000, ..HttpLimits::default() };
    let announced = b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n".to_vec();
    let chunked = [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
        b"64\r\n".to_vec(),
        vec![b'a'; 100],
        b"\r\n".to_vec(),
    ];
    let [head, chunk @ ..] = chunked;
    let unannounced = [head, chunk.concat().repeat(11)].concat();
    for answer in [announced, unannounced] {
        let (server, _received) = serving(answer).await;
        let rules = Rules::to(Scheme::Http, "127.0.0.1", server).reaching("127.0.0.0/8");
        let egress = with(limits.clone(), Trust::default(), Arc::new(SystemResolver));
        assert_eq!(reason_of(fetched(&egress, &rules, format!("http://{server}/")).await), HttpReason::TooLarge);
    }
}

#[tokio::test]
async fn headers_without_end_are_too_large() {
    let one = b"a: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n".to_vec();
    let many = [b"HTTP/1.1 200 OK\r\n".to_vec(), one.repeat(101)].concat();
    let long = [b"HTTP/1.1 200 OK\r\na: ".to_vec(), vec![b'b'; 80 << 10]].concat();
    for answer in [[many, b"\r\n".to_vec()].concat(), long] {
        let (server, _received) = serving(answer).await;
        let rules = Rules::to(Scheme::Http, "127.0.0.1", server).reaching("127.0.0.0/8");
        assert_eq!(reason_of(fetched(&egress(), &rules, format!("http://{server}/")).await), HttpReason::TooLarge);
    }
}

#[tokio::test]
async fn a_protocol_error_is_distinguished_from_an_unreachable_server() {
    for answer in [
        "",
        "SSH-2.0-OpenSSH_9.9\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ] {
        let (server, _received) = serving(answer).await;
        let rules = Rules::to(Scheme::Http, "127.0.0.1", server).reaching("127.0.0.0/8");
        assert_eq!(
            reason_of(fetched(&egress(), &rules, format!("http://{server}/")).await),
            HttpReason::Protocol,
            "{answer:?}"
        );
    }
    let gone = listener().await.local_addr().expect("bound");
    let rules = Rules::to(Scheme::Http, "127.0.0.1", gone).reaching("127.0.0.0/8");
    assert_eq!(reason_of(fetched(&egress(), &rules, format!("http://{gone}/")).await), HttpReason::Connect);
    let nowhere = Rules::to(Scheme::Http, "does-not-exist.invalid", gone);
    let url = format!("http://does-not-exist.invalid:{}/", gone.port());
    assert_eq!(
        reason_of(fetched(&with(HttpLimits::default(), Trust::default(), Names::are(&[&[]])), &nowhere, url).await),
        HttpReason::Dns
    );
}

#[tokio::test]
async fn a_slow_server_is_left_after_the_time_asked_for() {
    let listener = listener().await;
    let server = listener.local_addr().expect("bound");
    // The server accepts the connection, and then does nothing.
    let rules = Rules::to(Scheme::Http, "127.0.0.1", server).reaching("127.0.0.0/8");
    let request = HttpRequest { timeout: Some(Duration::from_millis(50)), ..get(format!("http://{server}/")) };
    let error = egress().fetch(rules.call(), request).await.expect_err("no answer");
    assert_eq!(error.reason, HttpReason::Timeout);
    // The host's own limit holds whatever is asked for.
    let limits = HttpLimits { time: Duration::from_millis(50), ..HttpLimits::default() };
    let request = HttpRequest { timeout: Some(Duration::from_hours(1)), ..get(format!("http://{server}/")) };
    let egress = with(limits, Trust::default(), Arc::new(SystemResolver));
    assert_eq!(reason_of(egress.fetch(rules.call(), request).await), HttpReason::Timeout);
}

/// A resolver that never answers, and counts the look-ups.
struct Silent(mpsc::UnboundedSender<()>);

impl Resolve for Silent {
    fn resolve(&self, _: String, _: u16) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>> {
        let _ = self.0.send(());
        pending().boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugins_look_ups_are_limited_even_if_its_requests_time_out() {
    let (asked, mut asks) = mpsc::unbounded_channel();
    let egress = with(HttpLimits::default(), Trust::default(), Arc::new(Silent(asked)));
    let rules = Rules::to(Scheme::Http, "slow.example.com", "127.0.0.1:80".parse().expect("an address"));
    for _ in 0..10 {
        let request =
            HttpRequest { timeout: Some(Duration::from_millis(1)), ..get("http://slow.example.com/".to_owned()) };
        assert_eq!(reason_of(egress.fetch(rules.call(), request).await), HttpReason::Timeout);
    }
    let mut count = 0;
    while asks.try_recv().is_ok() {
        count += 1;
    }
    assert_eq!(count, HttpLimits::default().concurrent);
}

/// Creates an authority. Returns a server with its certificate for `localhost`, and a file with the authority's own
/// certificate.
pub(crate) async fn tls_server() -> (SocketAddr, tempfile::NamedTempFile) {
    let mut params = CertificateParams::new(vec![]).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a certificate");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, &authority).expect("a certificate");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), authority.pem()).expect("written");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .expect("they fit");
    let (listener, acceptor) = (listener().await, TlsAcceptor::from(Arc::new(config)));
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        let (requests, _received) = mpsc::unbounded_channel();
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                answered(stream, ok("over TLS").as_bytes(), &requests).await;
            }
        }
    });
    (address, file)
}

#[tokio::test]
async fn https_trusts_an_authority_of_the_operator_only_for_its_name() {
    let (server, authority) = tls_server().await;
    let added = || Trust::with(Some(authority.path())).expect("an authority");
    let rules = Rules::to(Scheme::Https, "localhost", server)
        .and(Scheme::Https, "127.0.0.1", server.port())
        .reaching("127.0.0.0/8")
        .reaching("::1");
    let trusting = with(HttpLimits::default(), added(), Arc::new(SystemResolver));
    let response = fetched(&trusting, &rules, format!("https://localhost:{}/", server.port())).await.expect("trusted");
    assert_eq!(response.body, HttpBody::Text("over TLS".to_owned()));
    let other_name = fetched(&trusting, &rules, format!("https://{server}/")).await;
    assert_eq!(reason_of(other_name), HttpReason::Tls);
    let untrusting = fetched(&egress(), &rules, format!("https://localhost:{}/", server.port())).await;
    assert_eq!(reason_of(untrusting), HttpReason::Tls);
    let listener = listener().await;
    let plain = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("it is asked");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.expect("sent");
        stream
    });
    let rules = rules.and(Scheme::Https, "localhost", plain.port());
    let no_tls = fetched(&trusting, &rules, format!("https://localhost:{}/", plain.port())).await;
    assert_eq!(reason_of(no_tls), HttpReason::Tls);
}

#[tokio::test]
async fn few_interim_answers_are_skipped_and_many_end_the_exchange() {
    let early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let rules = |server| Rules::to(Scheme::Http, "127.0.0.1", server).reaching("127.0.0.0/8");
    let (server, _received) = serving(format!("{}{}", early.repeat(8), ok("late"))).await;
    let response = fetched(&egress(), &rules(server), format!("http://{server}/")).await.expect("answered");
    assert_eq!((response.status, response.body), (200, HttpBody::Text("late".to_owned())));
    let (server, _received) = serving(format!("{}{}", early.repeat(9), ok("late"))).await;
    let error = fetched(&egress(), &rules(server), format!("http://{server}/")).await.expect_err("too many");
    assert_eq!(error.reason, HttpReason::TooLarge);
    assert!(error.message.contains("interim"), "{error}");
}

/// Bodies are bounded by their content, and the bytes around them are bounded too.
#[tokio::test]
async fn headers_and_interim_responses_count_towards_the_limit() {
    let limits =
        HttpLimits { response_bytes: 1000, header_bytes: 8 << 10, interim: usize::MAX, ..HttpLimits::default() };
    let most = limits.wire_bytes();
    let egress = with(limits, Trust::default(), Arc::new(SystemResolver));
    let interim = "HTTP/1.1 100 Continue\r\n\r\n";
    let extended = format!("1;{}\r\na\r\n", "x".repeat(100));
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for answer in
        [interim.repeat(most / interim.len() + 1), format!("{chunked}{}", extended.repeat(most / extended.len() + 1))]
    {
        let (server, _received) = serving(answer).await;
        let rules = Rules::to(Scheme::Http, "127.0.0.1", server).reaching("127.0.0.0/8");
        let error = fetched(&egress, &rules, format!("http://{server}/")).await.expect_err("too much");
        assert_eq!((error.reason, error.message.contains("framing")), (HttpReason::TooLarge, true), "{error}");
    }
    // A body in small chunks is accepted.
    let (server, _received) = serving(format!("{chunked}{}0\r\n\r\n", "1\r\na\r\n".repeat(500))).await;
    let rules = Rules::to(Scheme::Http, "127.0.0.1", server).reaching("127.0.0.0/8");
    let response = fetched(&egress, &rules, format!("http://{server}/")).await.expect("answered");
    assert_eq!(response.body, HttpBody::Text("a".repeat(500)));
}
