//! Tracks whether the API server answers, using the results of every request of a [`Connection`](crate::Connection).
//!
//! While the server does not answer, calls pause in the whole host instead of failing one by one. [`Observed`] is the
//! layer that reports results, and that starts a single task which probes the server until it answers.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, HeaderMap, USER_AGENT};
use http::{Request, Response, StatusCode, Uri};
use kube::client::Body;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tower::{BoxError, Service, ServiceExt as _};
use windlass_core::error::chained;
use windlass_core::retry::RetryPolicy;

use crate::client::failure::was_never_sent;
use crate::client::headers::HOST_AGENT;
use crate::client::observer::{EndedRequest, RequestObserver};
use crate::client::transport::TooManyWatches;

/// The number of consecutive failures that count as an outage, if each request may have reached the server. A refused
/// connection counts at once.
const OUTAGE_FAILURES_MIN: u32 = 3;
/// A request that is cancelled after this time without the beginning of an answer counts as failed.
const UNANSWERED_AFTER: Duration = Duration::from_secs(5);
/// The time that a probe may take; its answer has only a few bytes.
const REACHABILITY_PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// The waits between two probes. They are short, because all calls wait for the server.
const REACHABILITY_PROBE_BACKOFF: RetryPolicy =
    RetryPolicy::doubling(Duration::from_millis(250), Duration::from_secs(5)).jitter(0.5, 1.0);

/// Whether the API server answers. Clones share the state.
#[derive(Clone, Debug)]
pub struct Reachability {
    shared: Arc<ReachabilityInner>,
}

/// The current or the last outage of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The number of outages that have begun. 0 before the first one.
    pub number: u64,
    /// When the server stopped answering. `None` if it answers.
    pub since: Option<Instant>,
}

#[derive(Debug)]
struct ReachabilityInner {
    server: String,
    outage: watch::Sender<Outage>,
    /// The number of consecutive failures. [`OUTAGE_FAILURES_MIN`] of them begin an outage, unless a single failure is
    /// enough.
    failures: AtomicU32,
}

impl Reachability {
    /// The reachability of a server that receives no requests. It never changes.
    #[must_use]
    pub fn always() -> Self {
        Self::new("")
    }

    /// The server counts as reachable until a request fails.
    pub(crate) fn new(server: &str) -> Self {
        let outage = watch::Sender::new(Outage { number: 0, since: None });
        Self { shared: Arc::new(ReachabilityInner { server: server.to_owned(), outage, failures: AtomicU32::new(0) }) }
    }

    /// Whether the server answers, as far as is known.
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        self.shared.outage.borrow().since.is_none()
    }

    /// Completes once the server is reachable, which may be at once. Cancel-safe.
    pub async fn reachable(&self) {
        // The sender is in `self`, so this cannot fail.
        let _ = self.shared.outage.subscribe().wait_for(|outage| outage.since.is_none()).await;
    }

    /// The current or the last outage.
    pub(crate) fn outage(&self) -> Outage {
        *self.shared.outage.borrow()
    }

    /// A receiver that changes whenever an outage begins or ends.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Outage> {
        self.shared.outage.subscribe()
    }
}

impl ReachabilityInner {
    fn succeeded(&self) {
        self.failures.store(0, Ordering::Relaxed);
        if self.outage.borrow().since.is_none() {
            return;
        }
        let mut began = None;
        self.outage.send_if_modified(|outage| {
            began = outage.since.take();
            began.is_some()
        });
        if let Some(began) = began {
            tracing::info!(server = self.server, outage = ?began.elapsed(), "the API server answers again");
        }
    }

    /// Counts a failure. Returns the number of the outage that begins with it. `None` if no outage begins.
    fn failed(&self, cause: &str, alone_is_outage: bool) -> Option<u64> {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if !alone_is_outage && failures < OUTAGE_FAILURES_MIN {
            return None;
        }
        let begins = self.outage.send_if_modified(|outage| {
            let begins = outage.since.is_none();
            if begins {
                *outage = Outage { number: outage.number + 1, since: Some(Instant::now()) };
            }
            begins
        });
        if !begins {
            return None;
        }
        tracing::warn!("the API server {} cannot be reached: {cause}; calls pause until it answers", self.server);
        Some(self.outage.borrow().number)
    }
}

/// The conclusion about the server from the result of a request.
#[derive(Debug, PartialEq, Eq)]
enum Answering {
    Answered,
    NoConnection(String),
    Failed(String),
    /// The result shows nothing about the server: the request was not sent, because no connection was free.
    Unknown,
}

fn verdict<B>(result: &Result<Response<B>, BoxError>) -> Answering {
    match result {
        Ok(response) if is_from_gateway(response.status(), response.headers()) => {
            Answering::Failed(format!("a gateway in front of it answers {}", response.status()))
        }
        Ok(_) => Answering::Answered,
        Err(error) if error.is::<TooManyWatches>() => Answering::Unknown,
        Err(error) if was_never_sent(&**error) => Answering::NoConnection(chained(&**error)),
        Err(error) => Answering::Failed(chained(&**error)),
    }
}

/// Whether the answer comes from a load balancer or the like that has no API server behind it. An API server's own 503,
/// about an aggregated API that is down, is a `Status` or has the audit ID that the server adds to every answer.
fn is_from_gateway(status: StatusCode, headers: &HeaderMap) -> bool {
    let gateway =
        [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT].contains(&status);
    let json = headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    gateway && !json && !headers.contains_key("audit-id")
}

/// A service that reports its results to a [`Reachability`] and an observer.
#[derive(Clone)]
pub(crate) struct Observed<S> {
    inner: S,
    reachability: Reachability,
    observer: RequestObserver,
    /// The path of the server's version, which needs no rights. Probes send no credentials.
    version: Uri,
    /// The runtime on which the prober is started, whatever thread a request fails on.
    runtime: Handle,
}

impl<S> Observed<S> {
    /// Must be called on the runtime that will run the prober.
    pub(crate) fn new(inner: S, reachability: Reachability, server: &Uri) -> Self {
        let version = format!("{}/version", server.to_string().trim_end_matches('/'));
        let version = version.parse().unwrap_or_else(|_| server.clone());
        let observer = RequestObserver::default();
        Self { inner, reachability, observer, version, runtime: Handle::current() }
    }

    /// Also reports requests to `observer`, except the prober's requests.
    pub(crate) fn reporting_to(mut self, observer: &RequestObserver) -> Self {
        self.observer = observer.clone();
        self
    }
}

impl<S, B> Service<Request<Body>> for Observed<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone + Send + Sync + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let method = request.method().clone();
        let exchange = self.inner.call(request);
        let observed = self.clone();
        async move {
            let since = Instant::now();
            let waiting = PendingRequest { since, report: Some(|verdict| observed.report(verdict)) };
            let result = exchange.await;
            let code = result.as_ref().ok().map(Response::status);
            observed.observer.report(&EndedRequest { method: &method, code, took: since.elapsed() });
            waiting.end(verdict(&result));
            result
        }
        .boxed()
    }
}

impl<S, B> Observed<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone + Send + Sync + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    fn report(&self, verdict: Answering) {
        let shared = &self.reachability.shared;
        let began = match verdict {
            Answering::Answered => {
                shared.succeeded();
                None
            }
            Answering::Unknown => None,
            Answering::NoConnection(cause) => shared.failed(&cause, true),
            Answering::Failed(cause) => shared.failed(&cause, false),
        };
        if let Some(number) = began {
            let prober = probe(self.inner.clone(), self.version.clone(), Arc::downgrade(shared), number);
            self.runtime.spawn(prober);
        }
    }
}

/// A request in progress, which may be dropped.
struct PendingRequest<F: FnOnce(Answering)> {
    since: Instant,
    report: Option<F>,
}

impl<F: FnOnce(Answering)> PendingRequest<F> {
    fn end(mut self, verdict: Answering) {
        if let Some(report) = self.report.take() {
            report(verdict);
        }
    }
}

impl<F: FnOnce(Answering)> Drop for PendingRequest<F> {
    fn drop(&mut self) {
        let waited = self.since.elapsed();
        if let Some(report) = self.report.take().filter(|_| waited >= UNANSWERED_AFTER) {
            report(Answering::Failed(format!("no answer within {waited:?}")));
        }
    }
}

/// Sends probes until the server answers one of them, or any other request. Also ends when the client is dropped.
async fn probe<S, B>(service: S, version: Uri, shared: Weak<ReachabilityInner>, number: u64)
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone,
{
    let mut pauses = REACHABILITY_PROBE_BACKOFF.begin();
    loop {
        // A panic must not leave the host paused forever.
        let asked = AssertUnwindSafe(ask(service.clone(), &version)).catch_unwind().await;
        let Some(shared) = shared.upgrade() else { return };
        match asked {
            Ok(Answering::Answered) => shared.succeeded(),
            Ok(verdict) => tracing::debug!(server = shared.server, ?verdict, "still no answer"),
            Err(_) => {
                tracing::error!(server = shared.server, "a probe of the API server panicked; the next probe follows");
            }
        }
        let mut outage = shared.outage.subscribe();
        drop(shared);
        let over = outage.wait_for(|outage| outage.since.is_none() || outage.number != number);
        if timeout(pauses.pause(windlass_world::random()), over).await.is_ok() {
            return;
        }
    }
}

async fn ask<S, B>(service: S, version: &Uri) -> Answering
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
{
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = version.clone();
    request.headers_mut().insert(USER_AGENT, http::HeaderValue::from_static(HOST_AGENT));
    match timeout(REACHABILITY_PROBE_TIMEOUT, service.oneshot(request)).await {
        Ok(result) => verdict(&result),
        Err(_) => Answering::Failed(format!("no answer within {REACHABILITY_PROBE_TIMEOUT:?}")),
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Mutex;

    use super::*;

    #[derive(Clone, Copy, PartialEq)]
    enum Server {
        Up,
        Resets,
        /// Breaks every connection, except that the first version probe panics.
        PanicsOnce,
        Silent,
    }

    /// A server that a test switches, and the times of its version probes.
    #[derive(Clone)]
    struct Script {
        server: Arc<Mutex<Server>>,
        asked: Arc<Mutex<Vec<Instant>>>,
    }

    impl Script {
        fn new(server: Server) -> Self {
            Self { server: Arc::new(Mutex::new(server)), asked: Arc::default() }
        }

        fn set(&self, server: Server) {
            *self.server.lock().expect("no panic") = server;
        }

        async fn answer(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
            let probe = request.uri().path() == "/version";
            if probe {
                self.asked.lock().expect("no panic").push(Instant::now());
            }
            let server = *self.server.lock().expect("no panic");
            match server {
                Server::Up => Ok(Response::new(Body::empty())),
                Server::PanicsOnce if probe => {
                    self.set(Server::Up);
                    panic!("as scripted")
                }
                Server::Resets | Server::PanicsOnce => Err("reset".into()),
                Server::Silent => pending().await,
            }
        }
    }

    async fn request<S>(service: &S) -> bool
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = BoxError> + Clone,
    {
        service.clone().oneshot(Request::new(Body::empty())).await.is_ok()
    }

    fn observed(
        script: &Script,
        reachability: &Reachability,
    ) -> impl Service<Request<Body>, Response = Response<Body>, Error = BoxError> + Clone + use<> {
        reporting(script, reachability, &RequestObserver::default())
    }

    fn reporting(
        script: &Script,
        reachability: &Reachability,
        observer: &RequestObserver,
    ) -> impl Service<Request<Body>, Response = Response<Body>, Error = BoxError> + Clone + use<> {
        let script = script.clone();
        let service = tower::service_fn(move |request| script.clone().answer(request));
        Observed::new(service, reachability.clone(), &Uri::from_static("http://server")).reporting_to(observer)
    }

    #[tokio::test(start_paused = true)]
    async fn an_observer_sees_the_end_of_each_request_but_no_probes() {
        let (script, reachability) = (Script::new(Server::Up), Reachability::new("server"));
        let (observer, codes) = (RequestObserver::default(), Arc::new(Mutex::new(Vec::new())));
        let heard = codes.clone();
        observer.observe(move |request| heard.lock().expect("no panic").push(request.code));
        let service = reporting(&script, &reachability, &observer);
        assert!(request(&service).await);
        script.set(Server::Resets);
        for _ in 0..3 {
            assert!(!request(&service).await);
        }
        script.set(Server::Up);
        reachability.reachable().await;
        assert_eq!(*codes.lock().expect("no panic"), [Some(StatusCode::OK), None, None, None]);
    }

    #[tokio::test(start_paused = true)]
    async fn three_failures_in_a_row_are_an_outage_that_an_answer_ends() {
        let (script, reachability) = (Script::new(Server::Resets), Reachability::new("server"));
        let service = observed(&script, &reachability);
        assert!(!request(&service).await && !request(&service).await && reachability.is_reachable());
        script.set(Server::Up);
        assert!(request(&service).await);
        script.set(Server::Resets);
        assert!(!request(&service).await && !request(&service).await && reachability.is_reachable(), "not in a row");
        let mut outage = reachability.watch();
        assert!(!request(&service).await && !reachability.is_reachable());
        let began = Instant::now();
        assert_eq!(*outage.borrow_and_update(), Outage { number: 1, since: Some(began) });
        assert!(!request(&service).await, "it is the same outage");
        script.set(Server::Up);
        assert!(request(&service).await && reachability.is_reachable(), "before the prober asks again");
        assert_eq!(*outage.borrow_and_update(), Outage { number: 1, since: None });
        reachability.reachable().await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_prober_asks_ever_less_often_until_the_server_answers() {
        let (script, reachability) = (Script::new(Server::Resets), Reachability::new("server"));
        let service = observed(&script, &reachability);
        for _ in 0..3 {
            request(&service).await;
        }
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(!reachability.is_reachable());
        script.set(Server::Up);
        reachability.reachable().await;
        let asked = script.asked.lock().expect("no panic").clone();
        let mut planned = (0..).map(|before| REACHABILITY_PROBE_BACKOFF.planned(before));
        for pair in asked.windows(2) {
            let (pause, whole) = (pair[1] - pair[0], planned.next().expect("without end"));
            // The timer has a resolution of one millisecond.
            assert!(pause >= whole / 2 && pause <= whole + Duration::from_millis(1), "{pause:?} of {whole:?}");
        }
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(script.asked.lock().expect("no panic").len(), asked.len(), "nobody asks any more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_of_the_prober_does_not_leave_requests_paused() {
        let (script, reachability) = (Script::new(Server::PanicsOnce), Reachability::new("server"));
        let service = observed(&script, &reachability);
        for _ in 0..3 {
            request(&service).await;
        }
        timeout(Duration::from_mins(1), reachability.reachable()).await.expect("reachable again");
    }

    #[tokio::test(start_paused = true)]
    async fn the_prober_ends_with_its_client() {
        let (script, reachability) = (Script::new(Server::Resets), Reachability::new("server"));
        let service = observed(&script, &reachability);
        for _ in 0..3 {
            request(&service).await;
        }
        drop((service, reachability));
        tokio::time::sleep(Duration::from_mins(1)).await;
        let asked = script.asked.lock().expect("no panic").len();
        assert!(asked <= 2, "{asked}");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_given_up_count_if_they_had_time() {
        let (script, reachability) = (Script::new(Server::Silent), Reachability::new("server"));
        let service = observed(&script, &reachability);
        for (patience, reachable) in [(Duration::from_secs(5) / 2, true), (Duration::from_secs(5), false)] {
            for _ in 0..3 {
                timeout(patience, request(&service)).await.expect_err("silence");
            }
            assert_eq!(reachability.is_reachable(), reachable, "{patience:?}");
        }
    }

    #[test]
    fn every_answer_of_an_api_server_counts_but_not_that_of_a_gateway() {
        let judged = |status: u16, header: (&'static str, &'static str)| {
            let response = Response::builder().status(status).header(header.0, header.1);
            verdict(&response.body(()).map_err(BoxError::from)) == Answering::Answered
        };
        let html = ("content-type", "text/html");
        for status in [200, 401, 403, 404, 429, 500] {
            assert!(judged(status, html), "{status}");
        }
        for status in [502, 503, 504] {
            assert!(!judged(status, html), "{status}");
            assert!(judged(status, ("content-type", "application/json")), "{status}");
            assert!(judged(status, ("audit-id", "1")), "{status}");
        }
    }
}
