//! HTTP clients of stock toolchains, which speak `wasi:http`: a guest in the canonical ABI's own terms sends requests, and
//! says what it saw by asking to be called again after as many milliseconds.

use crate::support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use support::guests::{Core, wasi_http};
use support::ports::quiet;
use support::{called, load, patient, sandbox};
use windlass_core::http::{HttpBody, HttpError, HttpReason, HttpRequest, HttpResponse};
use windlass_core::outcome::CallResult;
use windlass_core::ports::{Answer, Ask, Ports, port_fn};
use windlass_wasm::{Limits, Plugin};

/// A server that answers as a test says, and remembers what it was asked.
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

/// A guest that does `reconcile`, in a sandbox with `limits`.
async fn guest(limits: Limits, reconcile: &str) -> Arc<Plugin> {
    let component = Core::calling_http("", reconcile).with_wasi(&wasi_http("0.2.12"));
    load(&sandbox(limits), "guest", &component).await.expect("it loads")
}

/// What a guest that does `reconcile` says of the answers through `ports`.
async fn said(ports: &Ports, reconcile: &str) -> CallResult {
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
    assert_eq!(said(&ports, get).await, number(5203));
    let asked = server.lock().expect("not poisoned").remove(0);
    assert_eq!((&*asked.method, &*asked.url, asked.body), ("GET", "https://host.example/first", None));
}
