//! The admin endpoint: the status page, `/healthz`, `/readyz`, `/metrics`, `/plugins` and the keys of each plugin. All
//! of these only read, and show no secrets. One request changes something: POST `/plugins/PLUGIN/resume` (`resume`).
//! The listening address (`--admin-address`) and `authorization` decide who may ask; `caller` refuses requests from
//! foreign web pages.

pub(crate) mod authorization;
mod caller;
mod keys;
mod page;
mod resume;
mod review_answers;
pub(crate) mod security;
pub(crate) mod settings;
mod streams;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::authorization::{AccessRefusal, PROBES};
use self::keys::KeysRefusal;
use self::security::AdminSecurity;
use self::streams::{CONCURRENT_STREAMS_MAX, PluginStreams};
use windlass_core::deceptive;

use crate::listening::connections::{Connection, Connections};
use crate::listening::stall::StallGuard;
use crate::listening::{ACCEPT_RETRY_DELAY, HANDSHAKE_GRACE, HEADER_TIMEOUT, REQUEST_HEADERS_BYTES_MAX};
use crate::observe::metrics::HostMetrics;
use crate::observe::status::Status;

/// The most connections at a time. Beyond that, a new one replaces a silent or idle one.
const ADMIN_CONNECTIONS_MAX: usize = 64;
/// The longest life of a connection, so that a slow reader cannot hold it for ever.
const CONNECTION_AGE_MAX: Duration = Duration::from_mins(5);
/// The age of its connection at which a stream ends. The stream ends before the connection, so that the page opens
/// another one without seeing a failure.
const STREAM_AGE_MAX: Duration = Duration::from_secs(290);

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Answers are outdated within a second, and may be meant for one reader only.
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// An answer, which may be a stream.
type AdminAnswer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The sources of the endpoint's answers.
#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) status: Status,
    pub(crate) metrics: HostMetrics,
}

/// Why the endpoint cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} (--admin-address): {source}")]
pub struct ListenError {
    address: SocketAddr,
    source: std::io::Error,
}

/// Listens on `address`; port 0 selects any free port.
pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    let listening = async {
        let listener = TcpListener::bind(address).await?;
        tracing::info!(address = %listener.local_addr()?, "admin endpoint: / /healthz /readyz /metrics /plugins");
        Ok(listener)
    };
    listening.await.map_err(|source| ListenError { address, source })
}

impl Admin {
    /// Answers requests on `listener` until `stop`, if `security` allows them.
    pub(crate) async fn serve(self, listener: &TcpListener, security: &Arc<AdminSecurity>, stop: &CancellationToken) {
        let connections = match &security.tls {
            Some(_) => Connections::with_grace(ADMIN_CONNECTIONS_MAX, HANDSHAKE_GRACE),
            None => Connections::new(ADMIN_CONNECTIONS_MAX),
        };
        let asked = Arc::new(AdminEndpoint::new(self, security.clone()));
        let accepting = async {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let (asked, stop, place) = (asked.clone(), stop.clone(), connections.place().await);
                        tokio::spawn(async move {
                            stop.run_until_cancelled(asked.connection(stream, &place)).await;
                        });
                    }
                    Err(error) => {
                        tracing::debug!(%error, "the admin endpoint cannot accept a connection");
                        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    }
                }
            }
        };
        stop.run_until_cancelled(accepting).await;
    }

    fn answer<B>(&self, request: &Request<B>, streams: &PluginStreams, until: Instant) -> AdminAnswer {
        let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
        let allowed = if resume::plugin_of(request.uri().path()).is_some() { "POST" } else { "GET, HEAD" };
        if !is_get || allowed == "POST" {
            let mut response = respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, format!("only {allowed}\n"));
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            return response;
        }
        match request.uri().path() {
            "/" => page::answer(),
            "/watch" => streams.open(self, until).unwrap_or_else(|| {
                let why = format!("{CONCURRENT_STREAMS_MAX} status pages are open, which is the limit: close one\n");
                respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, why)
            }),
            "/healthz" => respond(StatusCode::OK, TEXT, "ok\n".to_owned()),
            "/readyz" => match self.status.ready() {
                Ok(notes) => {
                    let lines =
                        std::iter::once("ok".to_owned()).chain(notes.iter().map(|note| format!("warning: {note}")));
                    respond(StatusCode::OK, TEXT, lines.collect::<Vec<_>>().join("\n") + "\n")
                }
                Err(why) => respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("not ready: {why}\n")),
            },
            "/metrics" => respond(StatusCode::OK, OPEN_METRICS, self.metrics.text()),
            "/plugins" => respond(StatusCode::OK, JSON, format!("{:#}\n", self.plugins())),
            path => match self.plugin(path).or_else(|| keys::answer(&self.status, path, request.uri().query())) {
                Some(Ok(shown)) => respond(StatusCode::OK, JSON, format!("{shown:#}\n")),
                Some(Err((code, why))) => respond(code, TEXT, why),
                None => {
                    let known = "not found; there are /, /healthz, /readyz, /metrics, /plugins, /plugins/PLUGIN, \
                                 /plugins/PLUGIN/keys, /plugins/PLUGIN/keys/NAMESPACE/NAME, /plugins/PLUGIN/resume and /watch\n";
                    respond(StatusCode::NOT_FOUND, TEXT, known.to_owned())
                }
            },
        }
    }

    /// Every plugin with its counts.
    fn plugins(&self) -> Value {
        let mut shown = self.status.to_json();
        shown["plugins"].as_array_mut().into_iter().flatten().for_each(|plugin| self.count(plugin));
        shown
    }

    /// The plugin that `path` names, with its counts, if `path` names one.
    fn plugin(&self, path: &str) -> Option<Result<Value, KeysRefusal>> {
        let name = path.strip_prefix("/plugins/").filter(|name| !name.contains('/'))?;
        Some(keys::find(&self.status, name).map(|plugin| {
            let mut shown = self.status.plugin_json(&plugin);
            self.count(&mut shown);
            shown
        }))
    }

    fn count(&self, plugin: &mut Value) {
        let Some(name) = plugin["name"].as_str().map(str::to_owned) else { return };
        plugin["usage"]["cpuSeconds"] = self.metrics.cpu_seconds(&name).into();
        plugin["usage"]["writes"] = self.metrics.committed_writes(&name).into();
    }

    /// A summary of each plugin, as JSON. Times of failures are seconds since `began`.
    fn summaries(&self, began: Instant) -> BTreeMap<Arc<str>, String> {
        let counted = self.status.summaries(began).into_iter().map(|(name, mut shown)| {
            shown["cpuSeconds"] = self.metrics.cpu_seconds(&name).into();
            shown["writes"] = self.metrics.committed_writes(&name).into();
            (name, shown.to_string())
        });
        counted.collect()
    }
}

/// The running endpoint.
struct AdminEndpoint {
    admin: Admin,
    security: Arc<AdminSecurity>,
    streams: PluginStreams,
    /// Held while an answer is made. Making one takes CPU time on the threads that run plugins, and many requests must
    /// not occupy more than one thread.
    turn: Mutex<()>,
}

impl AdminEndpoint {
    fn new(admin: Admin, security: Arc<AdminSecurity>) -> Self {
        Self { admin, security, streams: PluginStreams::new(), turn: Mutex::new(()) }
    }

    async fn connection(&self, stream: TcpStream, place: &Connection) {
        // The peer's address proves nothing: the proxies of some service meshes connect from loopback on behalf of any
        // client.
        let is_local = stream.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
        let connection = async {
            let Some(tls) = &self.security.tls else { return self.conversation(stream, place, is_local).await };
            if let Some(stream) = tls.accept(stream).await {
                self.conversation(stream, place, is_local).await;
            }
        };
        tokio::select! {
            biased;
            // A client that takes too long loses its connection.
            _ = tokio::time::timeout(CONNECTION_AGE_MAX, connection) => {}
            () = place.closed() => {}
        }
    }

    async fn conversation<S>(&self, stream: S, place: &Connection, is_local: bool)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin,
    {
        let until = Instant::now() + STREAM_AGE_MAX;
        let answer = |request: Request<Incoming>| async move {
            place.asks();
            let mut answer = self.answer(&request.map(drop), is_local, until).await;
            // Some answers contain strangers' text, so browsers must not guess the content type.
            answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            answer.headers_mut().insert(CACHE_CONTROL, NO_STORE);
            Ok::<_, Infallible>(answer)
        };
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(REQUEST_HEADERS_BYTES_MAX);
        // Errors of the client are not the host's concern.
        let _ = builder.serve_connection(TokioIo::new(StallGuard::new(stream)), service_fn(answer)).await;
    }

    /// The answer to `request`; `is_local` if it comes from this machine. A stream ends at `until` at the latest.
    async fn answer<B>(&self, request: &Request<B>, is_local: bool, until: Instant) -> AdminAnswer {
        if let Some(why) = caller::refusal(request) {
            return respond(StatusCode::FORBIDDEN, TEXT, format!("{why}\n"));
        }
        let is_local = is_local && !caller::is_forwarded(request.headers());
        let user = match self.security.check(request, is_local).await {
            Ok(user) => user,
            Err(refusal) => return refused(&refusal),
        };
        // Probes do not wait: the kubelet kills a host whose probe takes too long.
        let _turn = if PROBES.contains(&request.uri().path()) { None } else { Some(self.turn.lock().await) };
        let resumed = resume::plugin_of(request.uri().path()).filter(|_| *request.method() == Method::POST);
        match resumed {
            Some(plugin) => resume::answer(&self.admin.status, plugin, user.as_deref()),
            None => self.admin.answer(request, &self.streams, self.security.until(until)),
        }
    }
}

/// The answer to a refused request.
fn refused(refusal: &AccessRefusal) -> AdminAnswer {
    let mut response = respond(refusal.code(), TEXT, format!("{refusal}\n"));
    let headers = response.headers_mut();
    match refusal.code() {
        StatusCode::UNAUTHORIZED => {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"windlass\""));
            // Makes a browser ask for a password, which is the token.
            headers.append(
                WWW_AUTHENTICATE,
                HeaderValue::from_static("Basic realm=\"windlass: the password is a token\""),
            );
        }
        StatusCode::TOO_MANY_REQUESTS => {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        _ => {}
    }
    response
}

fn respond(status: StatusCode, content_type: &'static str, body: String) -> AdminAnswer {
    // Plain text is shown as it is, and quotes strangers' text.
    let body = if content_type == TEXT { deceptive::escape(&body).into_owned() } else { body };
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests;
