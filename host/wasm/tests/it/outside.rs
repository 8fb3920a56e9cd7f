//! `http` and `metrics`: a guest's requests reach the port unchanged, within the limits of the call.

use crate::support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use support::guests::Core;
use support::{load, reconcile, sandbox, trapped};
use tokio::sync::Notify;
use windlass_core::call::http::{HttpBody, HttpRequest, HttpResponse};
use windlass_core::call::ports::{Absent, Answer, Ask, CallContext, MetricChange, Metrics, Ports, port_fn};
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::Limits;

/// Records requests, and responds with a body of this many bytes, or never.
#[derive(Default)]
struct Outside {
    body: Option<usize>,
    asked: Mutex<Vec<HttpRequest>>,
    /// Notified when an unanswered fetch is cancelled.
    given_up: Arc<Notify>,
    values: Mutex<Vec<(MetricChange, String, f64)>>,
}

struct GivenUp(Arc<Notify>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Metrics for Outside {
    fn record(&self, _: &CallContext, change: MetricChange, name: &str, value: f64, _: &[(String, String)]) {
        self.values.lock().expect("not poisoned").push((change, name.to_owned(), value));
    }
}

fn ports(outside: &Arc<Outside>) -> Ports {
    let fetched = outside.clone();
    let port = port_fn(move |_, ask| {
        let Ask::Fetch(request) = ask else { unreachable!("only requests are sent: {ask:?}") };
        fetched.asked.lock().expect("not poisoned").push(*request);
        let (body, given_up) = (fetched.body, GivenUp(fetched.given_up.clone()));
        async move {
            let Some(bytes) = body else {
                let _given_up = given_up;
                return std::future::pending().await;
            };
            let headers = vec![("content-type".to_owned(), "text/plain".to_owned())];
            Answer::Fetch(Ok(HttpResponse { status: 200, headers, body: HttpBody::Text("a".repeat(bytes)) }))
        }
        .boxed()
    });
    Ports { outside: port, metrics: outside.clone(), ..Absent::ports() }
}

/// A guest that POSTs "hi" to `https://a.b/c` with one header and a timeout of a minute, and traps unless the result
/// has this case: 0 for a response, 1 for an error.
fn fetching(case: u32) -> Vec<u8> {
    let import = r#"(import "windlass:plugin/http@0.3.0" "fetch"
        (func $fetch (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))"#;
    let data = r#"(data (i32.const 3000) "POSThttps://a.b/chixy") (data (i32.const 3072)
        "\cb\0b\00\00\01\00\00\00\cc\0b\00\00\01\00\00\00")"#;
    let fetch = format!(
        "(call $fetch (i32.const 3000) (i32.const 4) (i32.const 3004) (i32.const 13) (i32.const 3072) (i32.const 1)
            (i32.const 1) (i32.const 0) (i32.const 3017) (i32.const 2) (i32.const 1) (i32.const 60000) (i32.const 3200))
         (if (i32.ne (i32.load8_u (i32.const 3200)) (i32.const {case})) (then unreachable))"
    );
    Core { imports: import.into(), items: data.into(), reconcile: fetch, ..Core::default() }.component()
}

#[tokio::test]
async fn a_request_arrives_unchanged_with_at_most_the_calls_remaining_time() {
    let plugin = load(&sandbox(Limits::default()), "guest", &fetching(0)).await.expect("it loads");
    let outside = Arc::new(Outside { body: Some(100), ..Outside::default() });
    assert_eq!(reconcile(&plugin, &ports(&outside)).await, CallResult::Done);
    let asked = outside.asked.lock().expect("not poisoned");
    let [HttpRequest { method, url, headers, body, timeout }] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((method.as_str(), url.as_str()), ("POST", "https://a.b/c"));
    assert_eq!(*headers, [("x".to_owned(), "y".to_owned())]);
    assert_eq!(*body, Some(HttpBody::Text("hi".to_owned())));
    assert!(
        timeout.is_some_and(|time| time <= Duration::from_secs(30)),
        "the deadline is nearer than a minute: {timeout:?}"
    );
}

#[tokio::test]
async fn a_response_larger_than_the_limit_does_not_reach_the_guest() {
    let limits = Limits { response_bytes: 1000, ..Limits::default() };
    let plugin = load(&sandbox(limits), "guest", &fetching(1)).await.expect("it loads");
    let outside = Arc::new(Outside { body: Some(1001), ..Outside::default() });
    assert_eq!(reconcile(&plugin, &ports(&outside)).await, CallResult::Done);
}

#[tokio::test]
async fn a_fetch_ends_with_its_call() {
    let plugin = load(&sandbox(support::patient()), "guest", &fetching(0)).await.expect("it loads");
    let outside = Arc::new(Outside::default());
    let (reason, message) = trapped(reconcile(&plugin, &ports(&outside)).await);
    assert_eq!(reason, "waited");
    assert!(message.contains("http.fetch"), "{message}");
    outside.given_up.notified().await;
}

#[tokio::test]
async fn values_of_metrics_beyond_the_limit_are_dropped_and_counted() {
    let import = r#"(import "windlass:plugin/metrics@0.3.0" "add" (func $add (param i32 i32 f64 i32 i32)))"#;
    let flood = "(local $left i32) (local.set $left (i32.const 15))
        (loop $again
          (call $add (i32.const 2048) (i32.const 2) (f64.const 1.5) (i32.const 0) (i32.const 0))
          (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))";
    let limits = Limits { metric_values: 10, ..Limits::default() };
    let plugin = load(&sandbox(limits), "guest", &Core::reconciling(import, flood)).await.expect("it loads");
    let outside = Arc::new(Outside::default());
    assert_eq!(reconcile(&plugin, &ports(&outside)).await, CallResult::Done);
    assert_eq!(*outside.values.lock().expect("not poisoned"), vec![(MetricChange::Add, "v1".to_owned(), 1.5); 10]);
    assert_eq!(plugin.stats().dropped_metric_values, 5);
}
