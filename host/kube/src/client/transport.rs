//! The transport of requests. It uses HTTP/2 if the server offers it in the TLS handshake, so that a thousand watches
//! need only a dozen connections. Otherwise it uses HTTP/1.1, as kube's own client always does.
//!
//! hyper keeps one HTTP/2 connection per pool, and requests beyond the server's stream limit wait in it without notice.
//! So watches, which last long, are spread over pools below that limit. All other requests share another pool, in which
//! they never wait for a watch.

use std::error::Error;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::uri::Scheme;
use http::{Request, Response, Uri};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper_rustls::{DefaultServerNameResolver, FixedServerNameResolver, HttpsConnector, ResolveServerName};
use hyper_util::client::legacy::connect::{Connection as _, HttpConnector};
use hyper_util::client::legacy::{self, Builder};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt as _, RustlsTlsError};
use kube::{Client, Config};
use rustix::process::{Resource, getrlimit};
use tokio::time::{Instant, timeout};
use tower::{BoxError, Service, ServiceBuilder};

use crate::client::observer::RequestObserver;
use crate::client::reachability::{Observed, Reachability};

/// The flow-control window of a stream, as in Go's HTTP/2 transport: the server may be 4 MiB ahead of the reader.
const STREAM_WINDOW: u32 = 4 << 20;
/// The flow-control window of a connection, as in Go's transport: so large that unread watches never block other
/// watches.
const CONNECTION_WINDOW: u32 = 1 << 30;
/// The number of ended streams for which late frames are accepted. A connection has fewer streams, so every late frame
/// is recognised.
const ENDED_STREAMS_MAX: usize = 1024;
/// The time after which HTTP/2 is tried again. A handshake without it may have been with a proxy, or with an older
/// replica of the server during a rolling upgrade.
const HTTP1_PERIOD: Duration = Duration::from_mins(1);

/// The number of open files that watches must leave to everything else: other requests, directories, the cache of
/// machine code, HTTP requests of plugins.
const RESERVED_FILES: usize = 256;

type Pool = legacy::Client<Dial, Body>;
type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// Limits and timeouts, which tests shorten.
#[derive(Clone, Debug)]
pub(crate) struct Tuning {
    /// The time for establishing TCP and TLS together.
    pub(crate) connect_limit: Duration,
    /// The time without a frame after which the server is pinged.
    pub(crate) ping_after: Duration,
    /// The time that the server may take to answer a ping.
    pub(crate) ping_limit: Duration,
    /// The maximum number of watches on a connection: fewer than the 100 streams that kube-apiserver
    /// (`secure_serving.go`) and most proxies allow.
    pub(crate) watches_per_connection: usize,
    /// The maximum number of watches over HTTP/1.1, where each watch needs a connection of its own. `None` to allow as
    /// many as the limit on open files allows.
    pub(crate) watches_over_http1: Option<usize>,
    /// Whether plain HTTP connections use HTTP/2 from the first byte. Only tests set this, because only they know that
    /// their server does so.
    pub(crate) plain_is_http2: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            connect_limit: Duration::from_secs(10),
            ping_after: Duration::from_secs(15),
            ping_limit: Duration::from_secs(10),
            watches_per_connection: 80,
            watches_over_http1: None,
            plain_is_http2: false,
        }
    }
}

/// A client like `Client::try_from(config)`, on a [`Transport`]. Reports to `reachability` what it learns about the
/// server, and to `observer` how each request ended.
pub(crate) fn client(
    config: &Config,
    tuning: Tuning,
    reachability: &Reachability,
    observer: &RequestObserver,
) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        // Returns an error which says that this binary is built without kube's proxy features.
        return Client::try_from(config.clone());
    }
    let transport = Transport::new(config, tuning)?;
    // From the outside in, in the order of kube's own stack.
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .service(Observed::new(transport, reachability.clone(), &config.cluster_url).reporting_to(observer));
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// There is no connection left for a watch. The request was not sent, so this says nothing about the server.
#[derive(Debug, thiserror::Error)]
#[error(
    "{most} watches are open, as many as the limit on open files allows: over HTTP/1.1, each needs a connection; raise \
     the limit (ulimit -n), or let the server offer HTTP/2"
)]
pub(crate) struct TooManyWatches {
    most: usize,
}

/// A connection that was meant for HTTP/2 showed that the server speaks only HTTP/1.1.
#[derive(Debug, thiserror::Error)]
#[error("the server does not speak HTTP/2")]
struct NotHttp2;

fn is_not_http2(error: &(dyn Error + 'static)) -> bool {
    error.is::<NotHttp2>() || error.source().is_some_and(is_not_http2)
}

/// The innermost service, which sends requests with absolute URIs. Clones share its connections.
#[derive(Clone)]
pub(crate) struct Transport {
    shared: Arc<TransportInner>,
}

struct TransportInner {
    http2: Http2,
    /// For everything except watches.
    short: Pool,
    watches: Mutex<Vec<WatchPool>>,
    http1: Pool,
    /// Every watch over HTTP/1.1 holds a clone, so the clones count the watches.
    http1_watches: Arc<()>,
    only_http1: OnlyHttp1,
    tuning: Tuning,
}

/// Whether the server has shown that it speaks only HTTP/1.1.
struct OnlyHttp1 {
    /// True for plain HTTP, because only a TLS handshake can show that the server speaks HTTP/2.
    always: bool,
    until: Mutex<Option<Instant>>,
}

impl OnlyHttp1 {
    fn new(always: bool) -> Self {
        Self { always, until: Mutex::default() }
    }

    fn holds(&self) -> bool {
        self.always || self.until().is_some_and(|until| Instant::now() < until)
    }

    /// Records a handshake without HTTP/2.
    fn learn(&self) {
        *self.until() = Some(Instant::now() + HTTP1_PERIOD);
    }

    fn until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection for watches.
struct WatchPool {
    pool: Pool,
    /// Every watch holds a clone, first in its request and then in its response. So the clones count the watches.
    open: Arc<()>,
}

impl Transport {
    fn new(config: &Config, tuning: Tuning) -> Result<Self, kube::Error> {
        let dial = |protocols: &[&[u8]], only_http2| {
            let connect_limit = tuning.connect_limit;
            Ok::<_, kube::Error>(Dial { connector: connector(config, &tuning, protocols)?, connect_limit, only_http2 })
        };
        let http2 = Http2 { builder: http2(&tuning), dial: dial(&[b"h2", b"http/1.1"], true)? };
        let mut http1 = Builder::new(TokioExecutor::new());
        http1.timer(TokioTimer::new()).pool_timer(TokioTimer::new());
        let plain = config.cluster_url.scheme() != Some(&Scheme::HTTPS);
        Ok(Self {
            shared: Arc::new(TransportInner {
                short: http2.pool(),
                http2,
                watches: Mutex::default(),
                http1: http1.build(dial(&[b"http/1.1"], false)?),
                http1_watches: Arc::new(()),
                only_http1: OnlyHttp1::new(plain && !tuning.plain_is_http2),
                tuning,
            }),
        })
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        async move { shared.send(request).await }.boxed()
    }
}

impl TransportInner {
    async fn send(&self, request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        if self.only_http1.holds() {
            return self.send_http1(request).await;
        }
        let spare = spare(&request);
        match (self.send_http2(request).await, spare) {
            // No byte of the request has been sent.
            (Err(error), Some(spare)) if is_not_http2(&*error) => {
                self.only_http1.learn();
                self.send_http1(spare).await
            }
            (result, _) => result,
        }
    }

    async fn send_http1(&self, request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        let place = if is_watch(request.uri()) { self.place_over_http1()? } else { Arc::new(()) };
        let response = self.http1.request(request).await?;
        Ok(held(response, place))
    }

    /// Reserves a place for another watch over HTTP/1.1.
    fn place_over_http1(&self) -> Result<Arc<()>, TooManyWatches> {
        let most = self.tuning.watches_over_http1.unwrap_or_else(files_for_watches);
        let place = Arc::clone(&self.http1_watches);
        // The count includes this clone and the transport's own.
        if Arc::strong_count(&place) > most + 1 { Err(TooManyWatches { most }) } else { Ok(place) }
    }

    async fn send_http2(&self, request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        let (pool, place) =
            if is_watch(request.uri()) { self.place_for_watch() } else { (self.short.clone(), Arc::new(())) };
        let response = pool.request(request).await?;
        Ok(held(response, place))
    }

    /// The first connection with a free place, so that the last ones become empty.
    fn place_for_watch(&self) -> (Pool, Arc<()>) {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let most = self.tuning.watches_per_connection;
        let free = watches.iter().position(|pool| Arc::strong_count(&pool.open) <= most);
        let at = free.unwrap_or_else(|| {
            watches.push(WatchPool { pool: self.http2.pool(), open: Arc::new(()) });
            watches.len() - 1
        });
        (watches[at].pool.clone(), Arc::clone(&watches[at].open))
    }
}

/// Attaches `place` to `response`, so that it is freed when the body is dropped.
fn held(response: Response<Incoming>, place: Arc<()>) -> Response<ResponseBody> {
    response.map(|body| {
        let body = body.map_frame(move |frame| {
            let _ = &place;
            frame
        });
        body.map_err(BoxError::from).boxed_unsync()
    })
}

/// The number of files for watches: the current limit, which the host raises at its start, minus a reserve.
fn files_for_watches() -> usize {
    let files = getrlimit(Resource::Nofile).current;
    files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(RESERVED_FILES))
}

fn is_watch(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1")))
}

/// A copy of the request, to send if HTTP/2 is not available. `None` if the body is a stream, which this crate never
/// sends.
fn spare(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

struct Http2 {
    builder: Builder,
    dial: Dial,
}

impl Http2 {
    /// A pool with a single connection. It is opened when it is first needed, and reopened after it has ended.
    fn pool(&self) -> Pool {
        self.builder.build(self.dial.clone())
    }
}

fn http2(tuning: &Tuning) -> Builder {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http2_only(true)
        .timer(TokioTimer::new())
        // The pool considers a connection idle if no request began on it for a while, even if it carries watches.
        .pool_idle_timeout(None)
        .http2_keep_alive_interval(tuning.ping_after)
        .http2_keep_alive_timeout(tuning.ping_limit)
        .http2_keep_alive_while_idle(true)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_max_concurrent_reset_streams(ENDED_STREAMS_MAX);
    builder
}

/// A TCP and TLS connector like that of kube's own stack, offering `protocols`.
fn connector(
    config: &Config,
    tuning: &Tuning,
    protocols: &[&[u8]],
) -> Result<HttpsConnector<HttpConnector>, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    // This serves the purpose of HTTP/2 pings: it detects a vanished peer.
    tcp.set_keepalive(Some(tuning.ping_after));
    tcp.set_keepalive_interval(Some(tuning.ping_limit / 2));
    tcp.set_keepalive_retries(Some(2));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(tuning.ping_after + tuning.ping_limit));
    let mut tls = config.rustls_client_config()?;
    tls.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let names: Arc<dyn ResolveServerName + Send + Sync> = match config.tls_server_name.clone() {
        Some(name) => {
            let name = name.try_into().map_err(RustlsTlsError::InvalidServerName).map_err(kube::Error::RustlsTls)?;
            Arc::new(FixedServerNameResolver::new(name))
        }
        None => Arc::new(DefaultServerNameResolver::default()),
    };
    Ok(HttpsConnector::new(tcp, tls, false, names))
}

/// Opens connections within a time limit, and checks their protocol.
#[derive(Clone)]
struct Dial {
    connector: HttpsConnector<HttpConnector>,
    connect_limit: Duration,
    /// Whether a TLS connection must have negotiated HTTP/2.
    only_http2: bool,
}

impl Service<Uri> for Dial {
    type Response = <HttpsConnector<HttpConnector> as Service<Uri>>::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let must_agree = self.only_http2 && to.scheme() == Some(&Scheme::HTTPS);
        let limit = self.connect_limit;
        let connecting = timeout(limit, self.connector.call(to));
        let checked = move |stream: Self::Response| {
            if must_agree && !stream.connected().is_negotiated_h2() { Err(NotHttp2.into()) } else { Ok(stream) }
        };
        connecting
            .then(move |connected| {
                ready(
                    connected.map_err(|_| format!("no connection within {limit:?}").into()).flatten().and_then(checked),
                )
            })
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::copy_bidirectional;
    use tokio::net::{TcpListener, TcpStream};
    use windlass_apiserver::ApiServer;

    use super::*;
    use crate::client::request::{self, WatchEnd, WatchStream};

    const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

    /// Connections to an API server that can be counted and silenced, as if the network was cut.
    struct Network {
        _server: ApiServer,
        address: SocketAddr,
        connections: Arc<AtomicUsize>,
        silence: tokio::sync::watch::Sender<()>,
    }

    impl Network {
        async fn start() -> Self {
            let server = ApiServer::start(windlass_apiserver::Config::default()).await.expect("a server");
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let (connections, silence) = (Arc::<AtomicUsize>::default(), tokio::sync::watch::Sender::new(()));
            let (count, to, silent) = (Arc::clone(&connections), server.address(), silence.clone());
            tokio::spawn(async move {
                while let Ok((mut from, _)) = listener.accept().await {
                    count.fetch_add(1, Ordering::Relaxed);
                    let mut silent = silent.subscribe();
                    tokio::spawn(async move {
                        let mut to = TcpStream::connect(to).await.expect("the server");
                        tokio::select! {
                            _ = copy_bidirectional(&mut from, &mut to) => {}
                            // Both ends stay open.
                            Ok(()) = silent.changed() => std::future::pending().await,
                        }
                    });
                }
            });
            Self { _server: server, address, connections, silence }
        }

        fn client(&self, tuning: Tuning) -> Client {
            let config = Config::new(format!("http://{}", self.address).parse().expect("a URL"));
            client(&config, tuning, &Reachability::always(), &RequestObserver::default()).expect("a client")
        }

        fn connections(&self) -> usize {
            self.connections.load(Ordering::Relaxed)
        }
    }

    async fn watches(client: &Client, count: usize) -> Vec<WatchStream> {
        let watches = (0..count).map(|number| async move {
            let uri = format!("/api/v1/configmaps?watch=true&labelSelector=n%3D{number}");
            request::watch(client, &uri, "application/json", ANSWER_TIMEOUT).await.expect("a watch")
        });
        futures::future::join_all(watches).await
    }

    #[tokio::test]
    async fn watches_share_connections_and_other_requests_have_their_own() {
        let network = Network::start().await;
        let client = network.client(Tuning { plain_is_http2: true, watches_per_connection: 8, ..Tuning::default() });
        let open = [watches(&client, 10).await, watches(&client, 10).await];
        assert_eq!(network.connections(), 3);
        request::get(&client, "/version", ANSWER_TIMEOUT).await.expect("an answer");
        request::get(&client, "/version", ANSWER_TIMEOUT).await.expect("an answer");
        assert_eq!(network.connections(), 4);
        drop(open);
        watches(&client, 20).await;
        assert_eq!(network.connections(), 4, "ended watches leave their places");
    }

    #[tokio::test]
    async fn a_dead_peer_ends_its_watches_and_the_next_request_reconnects() {
        let network = Network::start().await;
        let soon = Duration::from_millis(100);
        // Long enough for a live peer to answer on a busy machine.
        let ping_limit = Duration::from_secs(2);
        let client = network.client(Tuning { plain_is_http2: true, ping_after: soon, ping_limit, ..Tuning::default() });
        let mut open = watches(&client, 2).await;
        network.silence.send_replace(());
        for watch in &mut open {
            assert_eq!(timeout(ANSWER_TIMEOUT, watch.line()).await, Ok(Err(WatchEnd::Clean)));
        }
        assert_eq!(watches(&client, 1).await.len(), 1);
        assert_eq!(network.connections(), 2);
    }

    #[tokio::test]
    async fn plain_http_is_http1() {
        let network = Network::start().await;
        let client = network.client(Tuning::default());
        let _open = watches(&client, 3).await;
        assert_eq!(network.connections(), 3);
    }

    #[tokio::test]
    async fn watches_over_http1_leave_connections_to_other_requests_and_say_so() {
        let network = Network::start().await;
        let client = network.client(Tuning { watches_over_http1: Some(2), ..Tuning::default() });
        let open = watches(&client, 2).await;
        let uri = "/api/v1/configmaps?watch=true";
        let refused = request::watch(&client, uri, "application/json", ANSWER_TIMEOUT).await.expect_err("one too many");
        assert!(refused.to_string().contains("ulimit"), "{refused}");
        request::get(&client, "/version", ANSWER_TIMEOUT).await.expect("an answer");
        drop(open);
        assert_eq!(watches(&client, 2).await.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_handshake_without_http2_is_trusted_for_a_minute_only() {
        let (tls, plain) = (OnlyHttp1::new(false), OnlyHttp1::new(true));
        assert!(!tls.holds() && plain.holds());
        tls.learn();
        tokio::time::advance(Duration::from_mins(1) / 2).await;
        assert!(tls.holds(), "or each request would shake hands twice");
        tokio::time::advance(Duration::from_mins(1) / 2).await;
        assert!(!tls.holds() && plain.holds());
    }

    #[test]
    fn a_watch_is_known_by_its_query() {
        for (uri, watch) in [
            ("/api/v1/pods?watch=true", true),
            ("/api/v1/pods?limit=1&watch=1", true),
            ("/api/v1/pods?watch=false", false),
            ("/api/v1/watch", false),
        ] {
            assert_eq!(is_watch(&Uri::from_static(uri)), watch, "{uri}");
        }
    }
}
