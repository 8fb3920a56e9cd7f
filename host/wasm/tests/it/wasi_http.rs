//! HTTP clients of stock toolchains, which use `wasi:http`. A guest written directly in the canonical ABI sends
//! requests. It reports a number by asking to be called again after that many milliseconds.

use crate::support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use support::guests::{CLAIM, CLAIM_IMPORT, Core, wasi_http};
use support::ports::quiet;
use support::{call_of, call_with, called, load, sandbox, trapped};
use tokio::sync::Notify;
use windlass_core::call::http::{HttpBody, HttpError, HttpReason, HttpRequest, HttpResponse, REQUEST_BODY_BYTES_MAX};
use windlass_core::call::ports::{Answer, Ask, Claimed, Ports, port_fn};
use windlass_core::life::instances::Instances;
use windlass_core::object::ObjectKey;
use windlass_core::queue::outcome::CallResult;
use windlass_core::rights::egress::{self, HttpTarget};
use windlass_core::rights::grants::{Allowance, Grants, HttpRule, LiveGrants, Scheme};
use windlass_wasm::{CallLimits, CompositionRequest, Limits, Plugin, Replay, Request};

/// A server that responds as a test says, and records the requests.
type Server = Arc<Mutex<Vec<HttpRequest>>>;

fn server<F>(answer: F) -> (Server, Ports)
where
    F: Fn(HttpRequest) -> BoxFuture<'static, Result<HttpResponse, HttpError>> + Send + Sync + 'static,
{
    let server = Server::default();
    let asked = server.clone();
    let quiet = quiet();
    let others = quiet.outside.clone();
    let outside = port_fn(move |call, ask| match ask {
        Ask::Fetch(request) => {
            asked.lock().expect("not poisoned").push((*request).clone());
            answer(*request).map(Answer::Fetch).boxed()
        }
        ask => others.ask(call, ask),
    });
    (server, Ports { outside, ..quiet })
}

fn response(status: u16, body: &str) -> HttpResponse {
    let headers = vec![("content-type".to_owned(), "text/plain".to_owned())];
    HttpResponse { status, headers, body: HttpBody::Text(body.to_owned()) }
}

/// A guest that runs `reconcile`, in a sandbox with `limits`.
async fn guest(limits: Limits, reconcile: &str) -> Arc<Plugin> {
    let component = Core::calling_http("", reconcile).with_wasi(&wasi_http("0.2.12"));
    load(&sandbox(limits), "guest", &component).await.expect("it loads")
}

/// The result of a guest that runs `reconcile`, with `ports`.
async fn called_with(ports: &Ports, reconcile: &str) -> CallResult {
    let plugin = guest(Limits::default(), reconcile).await;
    called(&plugin, ports, Some("{}")).await.result
}

fn number(number: u64) -> CallResult {
    CallResult::RequeueAfter(Duration::from_millis(number))
}

#[tokio::test]
async fn a_request_brings_its_response() {
    let (server, ports) = server(|_| ready(Ok(response(203, "hello"))).boxed());
    let get = "(global.set $a (call $send (call $to (i32.const 0)))) (call $wait (global.get $a))
        (call $say (i32.add (call $seen (global.get $a)) (i32.mul (i32.const 1000) (call $read))))";
    assert_eq!(called_with(&ports, get).await, number(5203));
    let asked = server.lock().expect("not poisoned").remove(0);
    assert_eq!((&*asked.method, &*asked.url, asked.body), ("GET", "https://host.example/first", None));
}

/// A response with the URL's last segment as its body. The response for `/first` comes only after `told` is notified.
fn late(told: &Arc<Notify>) -> (Server, Ports) {
    let told = told.clone();
    server(move |request| {
        let told = told.clone();
        async move {
            if request.url.ends_with("first") {
                told.notified().await;
            }
            Ok(response(200, &request.url))
        }
        .boxed()
    })
}

/// Sends a request to each path, with the futures `$a` and `$b`.
const SEND_BOTH: &str = "(global.set $a (call $send (call $to (i32.const 0))))
    (global.set $b (call $send (call $to (i32.const 1))))";
/// Polls both futures.
const POLL_BOTH: &str = "(call $poll-two (call $subscribe (global.get $a)) (call $subscribe (global.get $b)))";

#[tokio::test]
async fn a_poll_ends_with_the_first_answer_whichever_request_is_older() {
    let (server, ports) = late(&Arc::new(Notify::new()));
    let first = format!(
        "{SEND_BOTH} {POLL_BOTH} (call $say (i32.add (i32.mul (i32.const 1000)) (call $seen (global.get $b))))
         (if (i32.ne (call $seen (global.get $a)) (i32.const 0)) (then unreachable))"
    );
    // One future is ready: the second, at index 1.
    assert_eq!(called_with(&ports, &first).await, number(11_200));
    let urls: Vec<_> = server.lock().expect("not poisoned").iter().map(|request| request.url.clone()).collect();
    assert_eq!(urls, ["https://host.example/first", "https://host.example/second"]);
    let (_, ports) = self::server(|request| ready(Ok(response(200, &request.url))).boxed());
    let both = format!("{SEND_BOTH} (call $say {POLL_BOTH})");
    assert_eq!(called_with(&ports, &both).await, number(20), "both at once come in the order of the list");
}

#[tokio::test]
async fn a_timer_ends_a_wait_for_an_answer_that_then_still_comes() {
    let told = Arc::new(Notify::new());
    let (_, ports) = late(&told);
    told.notify_one();
    let timely = "(global.set $a (call $send (call $to (i32.const 0))))
        (call $say (call $poll-two (call $subscribe (global.get $a)) (call $after (i64.const 60000000000))))";
    assert_eq!(called_with(&ports, timely).await, number(10));
    // The response to the second request makes the server respond to the first one, too.
    let ports = {
        let told = Arc::new(Notify::new());
        let (_, ports) = server(move |request| {
            let told = told.clone();
            async move {
                if request.url.ends_with("first") {
                    told.notified().await;
                } else {
                    told.notify_one();
                }
                Ok(response(200, ""))
            }
            .boxed()
        });
        ports
    };
    let late = "(global.set $a (call $send (call $to (i32.const 0))))
        (if (i32.ne (call $poll-two (call $subscribe (global.get $a)) (call $after (i64.const 1000000))) (i32.const 11))
          (then unreachable))
        (if (i32.ne (call $seen (global.get $a)) (i32.const 0)) (then unreachable))
        (call $wait (call $send (call $to (i32.const 1))))
        (call $wait (global.get $a))
        (call $say (call $seen (global.get $a)))";
    assert_eq!(called_with(&ports, late).await, number(200));
}

#[tokio::test]
async fn a_response_is_seen_at_a_poll_and_can_be_taken_once() {
    let (_, ports) = server(|_| ready(Ok(response(204, ""))).boxed());
    let looks = "(global.set $a (call $send (call $to (i32.const 0))))
        ;; The answer has come, but the guest has not looked.
        (if (i32.ne (call $seen (global.get $a)) (i32.const 0)) (then unreachable))
        (if (i32.eqz (call $ready (call $subscribe (global.get $a)))) (then unreachable))
        (if (i32.ne (call $seen (global.get $a)) (i32.const 204)) (then unreachable))
        (call $wait (global.get $a))
        (call $say (call $seen (global.get $a)))";
    assert_eq!(called_with(&ports, looks).await, number(2000));
    let (_, ports) = server(|_| std::future::pending().boxed());
    let in_vain = "(global.set $a (call $send (call $to (i32.const 0))))
        (call $say (call $ready (call $subscribe (global.get $a))))";
    assert_eq!(called_with(&ports, in_vain).await, number(0));
}

#[tokio::test]
async fn bodies_are_sent_whole_whenever_they_are_written() {
    let write = |text: u32, length: u32| {
        format!(
            "(call $write-all (global.get $b) (i32.const {text}) (i32.const {length}) (i32.const 1104))
             (if (i32.load8_u (i32.const 1104)) (then unreachable))"
        )
    };
    let (before, after) = (write(8192, 5), write(8197, 7));
    let finish = "(if (call $finished (global.get $b)) (then unreachable))";
    let begin = "(local.set 0 (call $to (i32.const 0)))
        (drop (call $set-method (local.get 0) (i32.const 2) (i32.const 0) (i32.const 0)))
        (global.set $b (call $opened (local.get 0)))";
    let send = "(global.set $a (call $send (local.get 0)))";
    let see = "(call $wait (global.get $a)) (call $say (call $seen (global.get $a)))";
    for order in [
        format!("{begin} {before} {after} {finish} {send} {see}"),
        format!("{begin} {before} {send} {after} {finish} {see}"),
        format!("{begin} {send} {before} {after} {finish} {see}"),
    ] {
        let (server, ports) = server(|_| ready(Ok(response(201, ""))).boxed());
        assert_eq!(called_with(&ports, &order).await, number(201), "{order}");
        let asked = server.lock().expect("not poisoned").remove(0);
        assert_eq!((&*asked.method, asked.body), ("POST", Some(HttpBody::Text("host.example".to_owned()))), "{order}");
    }
    // The host has nothing to send, so the guest would wait forever.
    let plugin = guest(Limits::default(), &format!("{begin} {send} {see}")).await;
    let (reason, message) = trapped(called(&plugin, &quiet(), Some("{}")).await.result);
    assert_eq!((reason, message.contains("has not finished")), ("wasi", true), "{message}");
    // Given up: nothing is sent.
    let (server, ports) = server(|_| ready(Ok(response(201, ""))).boxed());
    let dropped =
        format!("{begin} {send} {before} (call $drop-output (global.get $b)) (call $drop-body (global.get $c)) {see}");
    assert_eq!(called_with(&ports, &dropped).await, number(1000 + 35));
    assert!(server.lock().expect("not poisoned").is_empty());
}

#[tokio::test]
async fn a_body_without_end_stops_at_the_bound_with_an_error_that_says_so() {
    let (server, ports) = server(|request| {
        let is_too_large = request.body.is_some_and(|body| body.size() > REQUEST_BODY_BYTES_MAX);
        let (reason, message) = (HttpReason::InvalidRequest, "the body is too large".to_owned());
        ready(if is_too_large { Err(HttpError { reason, message }) } else { Ok(response(200, "")) }).boxed()
    });
    // Writes until there is an error. Its code is `HTTP-request-body-size`, and the response has the same code.
    let endless = "(local.set 0 (call $to (i32.const 0)))
        (global.set $b (call $opened (local.get 0)))
        (global.set $a (call $send (local.get 0)))
        (loop $more
          (call $write-all (global.get $b) (i32.const 65536) (i32.const 65536) (i32.const 1104))
          (br_if $more (i32.eqz (i32.load8_u (i32.const 1104)))))
        (if (i32.load8_u (i32.const 1108)) (then unreachable))
        (call $error-code (i32.load (i32.const 1112)) (i32.const 1200))
        (if (i32.ne (i32.load8_u (i32.const 1200)) (i32.const 1)) (then unreachable))
        (if (i32.ne (i32.load8_u (i32.const 1208)) (i32.const 17)) (then unreachable))
        (if (i32.ne (call $finished (global.get $b)) (i32.const 1017)) (then unreachable))
        (call $wait (global.get $a)) (call $say (call $seen (global.get $a)))";
    assert_eq!(called_with(&ports, endless).await, number(1017));
    assert_eq!(server.lock().expect("not poisoned").len(), 1, "the port refuses and counts it, as for other guests");
}

/// A server that decides as the host does: by `grants`, before it resolves a name.
fn granted(grants: Grants) -> (Server, Ports) {
    let grants = LiveGrants::new(grants);
    server(move |request| {
        let failed = |reason, message| Err(HttpError { reason, message });
        let is_refused = request.headers.iter().any(|(name, _)| egress::is_hosts_header(name));
        if !egress::is_method(&request.method) || is_refused {
            return ready(failed(HttpReason::InvalidRequest, "malformed".to_owned())).boxed();
        }
        let answer = match HttpTarget::parse(&request.url) {
            Err(error) => failed(HttpReason::InvalidRequest, error.to_string()),
            Ok(target) => match egress::allow(&grants, &request.method, &target) {
                Err(denial) => failed(HttpReason::NotGranted, denial.to_string()),
                Ok(_) => Ok(response(200, &request.url)),
            },
        };
        ready(answer).boxed()
    })
}

/// The result of a guest that sends a request with these parts, and the number of requests to the port. Only `GET
/// https://host.example` is granted. `change` alters its headers, which are in local 0.
async fn asked((method, scheme, authority, path): (&str, &str, &str, &str), change: &str) -> (CallResult, usize) {
    let rule = HttpRule {
        scheme: Scheme::Https,
        host: "host.example".to_owned(),
        port: None,
        methods: vec!["GET".to_owned()],
        addresses: vec![],
    };
    let (server, ports) = granted(Grants::asked(Allowance { http: vec![rule], ..Allowance::default() }));
    let texts = [method, scheme, authority, path].concat();
    let at = |texts: &[&str]| 12_000 + texts.concat().len();
    let items = format!("(data (i32.const 12000) \"{}\")", support::guests::escaped(texts.as_bytes()));
    let (scheme_at, authority_at) = (at(&[method]), at(&[method, scheme]));
    let path_at = at(&[method, scheme, authority]);
    // If the crate refuses to set a part, the guest reports 1 to 4.
    let asks = format!(
        "(local.set 0 (call $fields)) {change}
         (local.set 0 (call $request (local.get 0)))
         (block $set
           (if (call $set-method (local.get 0) (i32.const 9) (i32.const 12000) (i32.const {}))
             (then (call $say (i32.const 1)) (br $set)))
           (if (call $set-scheme (local.get 0) (i32.const 1) (i32.const 2) (i32.const {scheme_at}) (i32.const {}))
             (then (call $say (i32.const 2)) (br $set)))
           (if (call $set-authority (local.get 0) (i32.const 1) (i32.const {authority_at}) (i32.const {}))
             (then (call $say (i32.const 3)) (br $set)))
           (if (call $set-path (local.get 0) (i32.const 1) (i32.const {path_at}) (i32.const {}))
             (then (call $say (i32.const 4)) (br $set)))
           (if (i32.lt_s (local.tee 0 (call $try-send (local.get 0))) (i32.const 0))
             (then (call $say (i32.sub (i32.const 0) (local.get 0))) (br $set)))
           (call $wait (local.get 0))
           (call $say (call $seen (local.get 0))))",
        method.len(),
        scheme.len(),
        authority.len(),
        path.len(),
    );
    let component = Core::calling_http(&items, &asks).with_wasi(&wasi_http("0.2.12"));
    let plugin = load(&sandbox(Limits::default()), "guest", &component).await.expect("it loads");
    let result = called(&plugin, &ports, Some("{}")).await.result;
    let asked = server.lock().expect("not poisoned").len();
    (result, asked)
}

const DENIED: u64 = 1015;
const METHOD_INVALID: u64 = 1018;
const URI_INVALID: u64 = 1019;

#[tokio::test]
async fn the_parts_of_a_request_are_parsed_as_strictly_as_a_url() {
    let host = "host.example";
    for (parts, seen) in [
        (("GET", "https", host, "/a?b=c"), 200),
        (("GET", "https", "HOST.example:443", ""), 200),
        (("GET", "https", "host.example:444", "/"), DENIED),
        (("GET", "http", host, "/"), DENIED),
        (("POST", "https", host, "/"), DENIED),
        (("GET", "https", "other.example", "/"), DENIED),
        (("GET", "https", "169.254.169.254", "/latest/meta-data"), DENIED),
        (("GET", "https", "[::ffff:169.254.169.254]", "/"), DENIED),
        (("GET", "https", "127.1", "/"), URI_INVALID),
        (("GET", "https", "0x7f000001", "/"), URI_INVALID),
        (("GET", "https", "host.example@other.example", "/"), URI_INVALID),
        (("GET", "https", "user:word@host.example", "/"), URI_INVALID),
        (("GET", "https", "host.example:0", "/"), URI_INVALID),
        (("GET", "https", "host.example:99999", "/"), URI_INVALID),
        (("GET", "https", "", "/"), 3),
        (("GET", "https", "host.example/x", "/"), 3),
        (("GET", "https", "host.example?x", "/"), 3),
        (("GET", "https", "host.example#x", "/"), 3),
        (("GET", "https", "host.example\\other.example", "/"), 3),
        (("GET", "https", "host.example\r\nhost: other", "/"), 3),
        // Not a path: it would be appended to the host name.
        (("GET", "https", host, ".evil.example/"), 4),
        (("GET", "https", host, "@evil.example/"), 4),
        (("GET", "https", host, ":8443/"), 4),
        (("GET", "https", host, "/a b"), 4),
        (("GET", "https", host, "/a\r\nx: y"), 4),
        (("GET", "https", host, "/%zz"), URI_INVALID),
        (("GET", "ftp", host, "/"), URI_INVALID),
        (("GET", "file", "etc", "/passwd"), URI_INVALID),
        (("CONNECT", "https", host, "/"), METHOD_INVALID),
        (("TRACE", "https", host, "/"), METHOD_INVALID),
        (("get", "https", host, "/"), METHOD_INVALID),
        (("GET / HTTP/1.1\r\n", "https", host, "/"), 1),
    ] {
        let (result, asked) = self::asked(parts, "").await;
        assert_eq!(result, number(seen), "{parts:?}");
        assert_eq!(asked, usize::from(seen >= 200), "what the port decides, it counts: {parts:?}");
    }
    let long = format!("/{}", "a".repeat(9 << 10));
    assert_eq!(self::asked(("GET", "https", host, &long), "").await.0, number(1020));
}

#[tokio::test]
async fn headers_of_the_connection_are_the_hosts() {
    let append = |name: &str, value: &str| {
        let (name_at, value_at) = (20_000, 20_100);
        let stored = |at: usize, text: &str| -> String {
            text.bytes().enumerate().fold(String::new(), |stores, (place, byte)| {
                stores + &format!("(i32.store8 (i32.const {}) (i32.const {byte}))", at + place)
            })
        };
        // `forbidden` is case 1 of the error, `invalid-syntax` case 0.
        format!(
            "{} {} (call $append (local.get 0) (i32.const {name_at}) (i32.const {}) (i32.const {value_at}) (i32.const {})
               (i32.const 1104))
             (global.set $b (if (result i32) (i32.load8_u (i32.const 1104))
               (then (i32.add (i32.const 1) (i32.load8_u (i32.const 1105)))) (else (i32.const 0))))",
            stored(name_at, name),
            stored(value_at, value),
            name.len(),
            value.len(),
        )
    };
    let parts = ("GET", "https", "host.example", "/");
    for (name, value, error) in [
        ("accept", "a", 0),
        ("host", "other.example", 2),
        ("Host", "other.example", 2),
        ("connection", "upgrade", 2),
        ("upgrade", "websocket", 2),
        ("transfer-encoding", "chunked", 2),
        ("te", "trailers", 2),
        ("trailer", "x", 2),
        ("expect", "100-continue", 2),
        ("proxy-authorization", "x", 2),
        ("proxy-anything", "x", 2),
        ("x", "a\r\nb: c", 1),
        ("x y", "a", 1),
        ("content-length", "-5", 1),
    ] {
        let check =
            format!("{} (if (i32.ne (global.get $b) (i32.const {error})) (then unreachable))", append(name, value));
        assert_eq!(self::asked(parts, &check).await.0, number(200), "{name}: {value}");
    }
    // The host checks a `content-length`, and sets the header itself.
    assert_eq!(self::asked(parts, &append("content-length", "0")).await.0, number(200));
    assert_eq!(self::asked(parts, &append("content-length", "5")).await, (number(1017), 0));
}

#[tokio::test]
async fn failures_have_the_nearest_code_and_their_message_is_logged() {
    for (reason, code) in [
        (HttpReason::NotGranted, 15),
        (HttpReason::Dns, 1),
        (HttpReason::Connect, 6),
        (HttpReason::Tls, 12),
        (HttpReason::Timeout, 33),
        (HttpReason::TooLarge, 28),
        (HttpReason::Protocol, 35),
        (HttpReason::Other, 38),
        (HttpReason::InvalidRequest, 35),
    ] {
        let (_, ports) = server(move |_| ready(Err(HttpError { reason, message: "it is so".to_owned() })).boxed());
        let get = "(global.set $a (call $send (call $to (i32.const 0)))) (call $wait (global.get $a))
            (call $say (call $seen (global.get $a)))";
        let plugin = guest(Limits::default(), get).await;
        let call = call_of(&plugin, &ObjectKey::namespaced("prod", "shop"));
        let result = call_with(&plugin, &ports, call.clone(), None, CallLimits::default()).await.result;
        assert_eq!(result, number(1000 + code), "{reason:?}");
        let lines = format!("{:?}", call.lines);
        assert!(lines.contains("GET https://host.example: it is so"), "{lines}");
    }
    // More than the host passes at once.
    let (_, ports) = server(|_| ready(Ok(response(200, &"a".repeat(2_000)))).boxed());
    let get = "(global.set $a (call $send (call $to (i32.const 0)))) (call $wait (global.get $a))
        (call $say (call $seen (global.get $a)))";
    let plugin = guest(Limits { response_bytes: 1_000, ..Limits::default() }, get).await;
    assert_eq!(called(&plugin, &ports, Some("{}")).await.result, number(1028));
}

#[tokio::test]
async fn requests_under_way_are_bounded_and_those_given_up_count() {
    let (server, ports) = server(|_| std::future::pending().boxed());
    let many = "(loop $more
        (global.set $a (call $try-send (call $to (i32.const 0))))
        (if (i32.gt_s (global.get $a) (i32.const 0)) (then (call $drop-future (global.get $a)) (br $more))))
        (call $say (i32.sub (i32.const 0) (global.get $a)))";
    assert_eq!(called_with(&ports, many).await, number(1011));
    assert_eq!(server.lock().expect("not poisoned").len(), 32);
    // Requests whose responses were seen do not count.
    let (server, ports) = self::server(|_| ready(Ok(response(200, ""))).boxed());
    let one_by_one = "(local.set 0 (i32.const 100)) (loop $more
        (global.set $a (call $send (call $to (i32.const 0)))) (call $wait (global.get $a)) (call $drop-future (global.get $a))
        (br_if $more (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))";
    assert_eq!(called_with(&ports, one_by_one).await, CallResult::Done);
    assert_eq!(server.lock().expect("not poisoned").len(), 100);
}

#[tokio::test]
async fn a_deadline_during_a_wait_names_the_awaited_import() {
    let (_, ports) = server(|_| std::future::pending().boxed());
    let plugin = guest(support::limits(), "(call $wait (call $send (call $to (i32.const 0))))").await;
    let (reason, message) = trapped(called(&plugin, &ports, Some("{}")).await.result);
    assert_eq!((reason, message.contains("wasi:http/outgoing-handler#handle")), ("waited", true), "{message}");
}

#[tokio::test]
async fn the_oldest_request_is_answered_first_where_time_stands_still() {
    let told = Arc::new(Notify::new());
    let (_, ports) = late(&told);
    let polls = format!("{SEND_BOTH} (call $say {POLL_BOTH})");
    let timer = "(global.set $a (call $send (call $to (i32.const 1))))
        (call $say (call $poll-two (call $subscribe (global.get $a)) (call $after (i64.const 1))))";
    for guest in [guest(Limits::default(), &polls).await, guest(Limits::default(), timer).await] {
        let replay = Some(Replay { now: Duration::from_secs(1_000_000_000), seed: [7; 32] });
        let call = call_of(&guest, &ObjectKey::namespaced("prod", "shop"));
        told.notify_one();
        let limits = CallLimits { replay, ..CallLimits::default() };
        assert_eq!(call_with(&guest, &ports, call, None, limits).await.result, number(10));
    }
}

#[tokio::test]
async fn a_request_ends_with_its_call_and_its_handle_finds_an_error_in_the_next() {
    let (server, ports) = server(|_| std::future::pending().boxed());
    let keeps = "(if (i32.eqz (global.get $a))
        (then (global.set $a (call $send (call $to (i32.const 0)))))
        (else (call $wait (global.get $a)) (call $say (call $seen (global.get $a)))))";
    let plugin = guest(Limits::default(), keeps).await;
    let mut results = vec![];
    for _ in 0..2 {
        let call = call_of(&plugin, &ObjectKey::namespaced("prod", "shop"));
        let limits = CallLimits { instances: Instances::Reuse, ..CallLimits::default() };
        results.push(call_with(&plugin, &ports, call, None, limits).await.result);
    }
    assert_eq!(results, [CallResult::Done, number(1007)]);
    assert_eq!(server.lock().expect("not poisoned").len(), 1);
}

#[tokio::test]
async fn functions_of_a_later_version_are_refused_and_give_their_handles_back() {
    let later = wasi_http("0.2.99").replace(
        "http-error-code: func",
        "describe-all: func(of: list<headers>, body: borrow<outgoing-body>) -> result<_, header-error>;
    http-error-code: func",
    );
    let core = Core::calling_http(
        "",
        "(local.set 0 (call $to (i32.const 0)))
         (call $body (local.get 0) (i32.const 1104)) (global.set $c (i32.load (i32.const 1108)))
         (local.set 0 (i32.const 4500)) (loop $more
           (i32.store (i32.const 1300) (call $fields))
           (call $later (i32.const 1300) (i32.const 1) (global.get $c) (i32.const 1104))
           (if (i32.ne (i32.load8_u (i32.const 1104)) (i32.const 1)) (then unreachable))
           (br_if $more (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))",
    );
    let import = r#"(import "wasi:http/types@0.2.99" "describe-all" (func $later (param i32 i32 i32 i32)))"#;
    let imports = core.imports.replace("0.2.12", "0.2.99") + import;
    let component = Core { imports, ..core }.with_wasi(&later);
    let sandbox = sandbox(Limits { host_calls: 100_000, ..Limits::default() });
    let plugin = load(&sandbox, "guest", &component).await.expect("it loads");
    assert_eq!(called(&plugin, &quiet(), Some("{}")).await.result, CallResult::Done);
}

#[tokio::test]
async fn a_composer_sends_no_request() {
    let core = Core::calling_http("", "(drop (call $send (call $to (i32.const 0))))");
    let bytes = core.composing(&wasi_http("0.2.12"));
    let plugin = load(&sandbox(Limits::default()), "guest", &bytes).await.expect("it loads");
    let call = call_of(&plugin, &ObjectKey::namespaced("prod", "shop"));
    let request = CompositionRequest {
        request: Request {
            controller: "guest".into(),
            key: call.primary_key.clone(),
            uid: None,
            object: None,
            deleting: false,
            attempt: 0,
            trace_id: call.trace_id.clone(),
        },
        parent: "{}".into(),
        children: vec![],
        related: vec![],
        config: "{}".into(),
    };
    let answer = plugin.compose(request, call, CallLimits::default()).await.answer;
    let (reason, message) = trapped(answer.expect_err("it is stopped"));
    assert_eq!(reason, "forbidden-import");
    assert!(message.contains("`compose` calls `wasi:http/outgoing-handler#handle`"), "{message}");
}

#[tokio::test]
async fn a_panic_of_the_http_port_ends_the_call() {
    let panics_at_once = server(|_| panic!("the port has a bug")).1;
    let panics_later = server(|_| async { panic!("the port has a bug") }.boxed()).1;
    for ports in [panics_at_once, panics_later] {
        let plugin = guest(Limits::default(), "(call $wait (call $send (call $to (i32.const 0))))").await;
        let (reason, message) = trapped(called(&plugin, &ports, Some("{}")).await.result);
        assert_eq!((reason, message.contains("the port has a bug")), ("host", true), "{message}");
    }
}

#[tokio::test]
async fn unread_bodies_are_bounded_and_read_ones_leave_nothing() {
    let get = "(global.set $a (call $send (call $to (i32.const 0)))) (call $wait (global.get $a))
        (if (i32.ne (call $seen (global.get $a)) (i32.const 200)) (then unreachable))
        (call $drop-future (global.get $a))";
    let many = |then: &str| {
        format!(
            "(local.set 0 (i32.const 20)) (loop $more {get} {then}
          (br_if $more (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))"
        )
    };
    let mebibyte = "a".repeat(1 << 20);
    let (_, ports) = server(move |_| ready(Ok(response(200, &mebibyte))).boxed());
    let limits = || Limits { response_bytes: 2 << 20, ..Limits::default() };
    let kept = guest(limits(), &many("")).await;
    let (reason, message) = trapped(called(&kept, &ports, Some("{}")).await.result);
    assert_eq!((reason, message.contains("more than 16 MiB of HTTP bodies")), ("wasi", true), "{message}");
    for then in ["(drop (call $read))", "(call $drop-response (global.get $response))"] {
        let plugin = guest(limits(), &many(then)).await;
        assert_eq!(called(&plugin, &ports, Some("{}")).await.result, CallResult::Done, "{then}");
    }
}

#[tokio::test]
async fn headers_are_bounded_in_one_list_and_in_all() {
    let append = "(call $append (global.get $a) (i32.const 8193) (i32.const 3) (i32.const 131072) (i32.const 8192)
        (i32.const 1104)) (if (i32.load8_u (i32.const 1104)) (then unreachable))";
    let value = "(memory.fill (i32.const 131072) (i32.const 97) (i32.const 8192))";
    let one = format!("{value} (global.set $a (call $fields)) (loop $more {append} (br $more))");
    let many = format!("{value} (loop $more (global.set $a (call $fields)) {append} (br $more))");
    let copies = format!(
        "{value} (global.set $a (call $fields)) {append} {append} (loop $more (drop (call $clone (global.get $a))) (br $more))"
    );
    for attack in [one, many, copies] {
        let plugin = guest(Limits::default(), &attack).await;
        let (reason, message) = trapped(called(&plugin, &quiet(), Some("{}")).await.result);
        assert_eq!((reason, message.contains("its HTTP headers have more than")), ("wasi", true), "{message}");
    }
    // Dropped headers do not count.
    let dropped = format!(
        "{value} (local.set 0 (i32.const 2000)) (loop $more (global.set $a (call $fields)) {append}
          (call $drop-fields (global.get $a))
          (br_if $more (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))"
    );
    assert_eq!(called_with(&quiet(), &dropped).await, CallResult::Done);
}

#[tokio::test]
async fn requests_go_on_while_the_call_waits_for_something_else() {
    let fetched = Arc::new(Notify::new());
    let told = fetched.clone();
    let (_, ports) = server(move |_| {
        let told = told.clone();
        async move {
            // The first poll, where the request is sent, does not end the wait.
            tokio::task::yield_now().await;
            told.notify_one();
            Ok(response(200, ""))
        }
        .boxed()
    });
    let others = ports.outside.clone();
    let outside = port_fn(move |call, ask| {
        let Ask::Claim(_) = ask else { return others.ask(call, ask) };
        let fetched = fetched.clone();
        async move {
            fetched.notified().await;
            Answer::Claim(Ok(Claimed::default()))
        }
        .boxed()
    });
    let reconcile = format!("(global.set $a (call $send (call $to (i32.const 0)))) {CLAIM}");
    let core = Core::calling_http("", &reconcile);
    let core = Core { imports: core.imports.clone() + CLAIM_IMPORT, ..core };
    let plugin = load(&sandbox(Limits::default()), "guest", &core.with_wasi(&wasi_http("0.2.12"))).await;
    let plugin = plugin.expect("it loads");
    let ports = Ports { outside, ..ports };
    assert_eq!(called(&plugin, &ports, Some("{}")).await.result, CallResult::Done);
}
