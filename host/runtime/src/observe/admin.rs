//! The admin endpoint: `/healthz`, `/readyz`, `/metrics`, `/plugins` and the keys of each plugin. It reads and never
//! changes anything, and shows nothing that is secret. Who may ask is a matter of where it listens (`--admin-address`)
//! and of `authorization`; pages in a browser may not (`caller`).

pub(crate) mod authorization;
mod caller;
mod connections;
mod keys;
mod review_answers;
pub(crate) mod security;
pub(crate) mod settings;
pub(crate) mod tls;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use self::connections::{Connection, Connections};
use self::security::AdminSecurity;
use crate::observe::metrics::HostMetrics;
use crate::observe::status::Status;

/// Connections at the same time. Of more, those that ask stay.
const MOST_CONNECTIONS: usize = 64;
/// How long a request's headers or a TLS handshake may take to arrive, and how long a connection may be idle between
/// two requests.
const HEADER_LIMIT: Duration = Duration::from_secs(2);
/// How long a new connection keeps its place in any case, where a handshake comes before the first request.
const HANDSHAKE_GRACE: Duration = Duration::from_millis(100);
/// The size of a request's headers.
const HEADER_BYTES: usize = 16 << 10;
/// How long a connection lasts: a slow reader must not hold it for ever.
const CONNECTION_LIMIT: Duration = Duration::from_mins(5);
/// The pause after a connection could not be accepted, as when files run out.
const PAUSE: Duration = Duration::from_millis(100);

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The sources of the pages.
#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) status: Status,
    pub(crate) metrics: HostMetrics,
}

/// Why the endpoint cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} (--admin-address): {source}")]
pub struct ListenError {
    address: SocketAddr,
    source: std::io::Error,
}

/// Listens on `address`; port 0 is any.
pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    let listening = async {
        let listener = TcpListener::bind(address).await?;
        tracing::info!(address = %listener.local_addr()?, "admin endpoint: /healthz /readyz /metrics /plugins");
        Ok(listener)
    };
    listening.await.map_err(|source| ListenError { address, source })
}

impl Admin {
    /// Answers on `listener` until `stop`, whom `security` lets ask.
    pub(crate) async fn serve(self, listener: &TcpListener, security: &Arc<AdminSecurity>, stop: &CancellationToken) {
        let connections = match &security.tls {
            Some(_) => Connections::with_grace(MOST_CONNECTIONS, HANDSHAKE_GRACE),
            None => Connections::new(MOST_CONNECTIONS),
        };
        let accepting = async {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let (admin, stop, place) = (self.clone(), stop.clone(), connections.place().await);
                        let security = security.clone();
                        tokio::spawn(async move {
                            stop.run_until_cancelled(admin.connection(stream, &security, &place)).await;
                        });
                    }
                    Err(error) => {
                        tracing::debug!(%error, "the admin endpoint cannot accept a connection");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        };
        stop.run_until_cancelled(accepting).await;
    }

    async fn connection(&self, stream: TcpStream, security: &AdminSecurity, place: &Connection) {
        let connection = async {
            let Some(tls) = &security.tls else { return self.conversation(stream, security, place).await };
            if let Some(stream) = tls.accept(stream).await {
                self.conversation(stream, security, place).await;
            }
        };
        tokio::select! {
            biased;
            // A client that takes for ever loses its connection.
            _ = tokio::time::timeout(CONNECTION_LIMIT, connection) => {}
            () = place.closed() => {}
        }
    }

    async fn conversation<S>(&self, stream: S, security: &AdminSecurity, place: &Connection)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin,
    {
        let answer = |request: Request<Incoming>| async move {
            place.asks();
            let request = request.map(drop);
            Ok::<_, Infallible>(match refusal(&request, security).await {
                Some(refusal) => refusal,
                None => self.answer(&request),
            })
        };
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEADER_LIMIT).max_buf_size(HEADER_BYTES);
        // What a client does wrong is the client's.
        let _ = builder.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
    }

    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET\n".to_owned());
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match request.uri().path() {
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
            path => match keys::answer(&self.status, path, request.uri().query()) {
                Some(Ok(shown)) => respond(StatusCode::OK, JSON, format!("{shown:#}\n")),
                Some(Err((code, why))) => respond(code, TEXT, why),
                None => {
                    let known = "not found; there are /healthz, /readyz, /metrics, /plugins, /plugins/PLUGIN/keys and \
                                 /plugins/PLUGIN/keys/NAMESPACE/NAME\n";
                    respond(StatusCode::NOT_FOUND, TEXT, known.to_owned())
                }
            },
        }
    }

    /// Every plugin, with what is counted of it.
    fn plugins(&self) -> Value {
        let mut shown = self.status.to_json();
        for plugin in shown["plugins"].as_array_mut().into_iter().flatten() {
            let Some(name) = plugin["name"].as_str().map(str::to_owned) else { continue };
            plugin["usage"]["cpuSeconds"] = self.metrics.cpu_seconds(&name).into();
            plugin["usage"]["writes"] = self.metrics.committed_writes(&name).into();
        }
        shown
    }
}

/// The answer to a request that gets no page. None: it gets one.
async fn refusal<B>(request: &Request<B>, security: &AdminSecurity) -> Option<Response<Full<Bytes>>> {
    if let Some(why) = caller::refusal(request) {
        return Some(respond(StatusCode::FORBIDDEN, TEXT, format!("{why}\n")));
    }
    let refusal = security.check(request).await.err()?;
    let mut response = respond(refusal.code(), TEXT, format!("{refusal}\n"));
    let headers = response.headers_mut();
    match refusal.code() {
        StatusCode::UNAUTHORIZED => {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"windlass\""));
            // Has a browser ask for a password, which is the token.
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
    Some(response)
}

fn respond(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn serving(stop: &CancellationToken) -> SocketAddr {
        let listener = listen("127.0.0.1:0".parse().expect("an address")).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let admin = Admin { status: Status::new(CancellationToken::new()), metrics: HostMetrics::new() };
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
        assert!(asked(address, "GET /plugins").await.contains(r#""plugins": []"#));
        let keys = asked(address, "GET /plugins/webapp/keys").await;
        assert!(keys.starts_with("HTTP/1.1 404") && keys.contains("no plugin webapp; there are: none"), "{keys}");
        assert!(asked(address, "GET /").await.starts_with("HTTP/1.1 404"));
        let refused = asked(address, "POST /plugins").await;
        assert!(refused.starts_with("HTTP/1.1 405") && refused.contains("allow: GET, HEAD"), "{refused}");
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
        tokio::time::timeout(HEADER_LIMIT / 2, idle.read_to_end(&mut rest)).await.expect("soon").expect("closed");
    }

    #[tokio::test]
    async fn a_probe_is_answered_whatever_number_of_connections_is_silent() {
        let stop = CancellationToken::new();
        let address = serving(&stop).await;
        let mut silent = Vec::new();
        for number in 0..3 * MOST_CONNECTIONS {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            // Some begin a request that never ends, and some have had an answer and stay.
            let sent = ["", "GET /healthz HTTP/1.1\r\n", "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"][number % 3];
            stream.write_all(sent.as_bytes()).await.expect("sent");
            silent.push(stream);
        }
        let probe = asked(address, "GET /healthz");
        // Less than the time after which the silent ones are closed in any case.
        let answer = tokio::time::timeout(HEADER_LIMIT / 2, probe).await.expect("before they are all closed");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }

    #[tokio::test]
    async fn a_web_page_is_refused() {
        let stop = CancellationToken::new();
        let refused = asked(serving(&stop).await, "GET /plugins HTTP/1.1\r\nOrigin: https://example.com\r\nX:").await;
        assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_nothing_is_sent_away() {
        let stop = CancellationToken::new();
        let mut silent = TcpStream::connect(serving(&stop).await).await.expect("it listens");
        silent.write_all(b"GET /healthz HTTP/1.1\r\n").await.expect("sent");
        let mut rest = Vec::new();
        silent.read_to_end(&mut rest).await.expect("closed, after a time that this clock skips");
    }
}
