//! The address at which other systems deliver to hooks, over HTTP. A request whose sender is not known to be authentic
//! gets the same answer whatever is wrong with it, and takes the same way: its body is read and its signature computed,
//! also if no such hook exists.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::deliveries::DELIVERY_RETRY_AFTER;
use super::settings::HookSettings;
use super::signature::HookRefusal;
use super::{DeliveryResult, HookName, Hooks};
use crate::listening::connections::{Connection, Connections};
use crate::listening::stall::StallGuard;
use crate::listening::tls::{ServerTls, ServerTlsError, TlsNames};
use crate::listening::{ACCEPT_RETRY_DELAY, HANDSHAKE_GRACE, HEADER_TIMEOUT, REQUEST_HEADERS_BYTES_MAX};

/// The most connections at a time, each with one request. Beyond that, a new one replaces a silent one, or else the one
/// whose request began first.
const HOOK_CONNECTIONS_MAX: usize = 64;
/// The largest body of a request. With the most connections, bodies take 16 MiB.
const HOOK_BODY_BYTES_MAX: usize = 256 << 10;
/// How long a body may take to arrive.
const HOOK_BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest life of a connection.
const HOOK_CONNECTION_AGE_MAX: Duration = Duration::from_secs(30);

/// The names of the address of hooks and its flags.
const HOOKS_TLS: TlsNames =
    TlsNames { address: "address of hooks", certificate: "--hooks-tls-cert-file", key: "--hooks-tls-private-key-file" };

/// Why the host cannot receive deliveries.
#[derive(Debug, thiserror::Error)]
pub enum HookListenError {
    /// The address cannot be used.
    #[error("cannot listen on {address} (--hooks-address): {source}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: std::io::Error,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] ServerTlsError),
}

/// The address of hooks, on which the host listens.
pub(crate) struct HookEndpoint {
    listener: TcpListener,
    /// `None` for plain HTTP.
    tls: Option<ServerTls>,
}

/// Listens as `settings` say.
pub(crate) async fn listen(settings: &HookSettings) -> Result<HookEndpoint, HookListenError> {
    let tls = settings.tls.clone().map(|files| ServerTls::from_files(files, HOOKS_TLS)).transpose()?;
    let address = settings.address;
    let listening = async {
        let listener = TcpListener::bind(address).await?;
        let (address, encrypted) = (listener.local_addr()?, tls.is_some());
        tracing::info!(%address, encrypted, "address of hooks: POST /hooks/PLUGIN/NAME");
        Ok(listener)
    };
    let listener = listening.await.map_err(|source| HookListenError::Address { address, source })?;
    Ok(HookEndpoint { listener, tls })
}

impl HookEndpoint {
    /// Takes over new certificates, for ever.
    pub(crate) async fn follow_certificate(&self) {
        match &self.tls {
            Some(tls) => tls.follow().await,
            None => std::future::pending().await,
        }
    }

    /// Delivers requests to `hooks` until `stop`.
    pub(crate) async fn serve(self: &Arc<Self>, hooks: &Hooks, stop: &CancellationToken) {
        let connections = Connections::with_grace(HOOK_CONNECTIONS_MAX, HANDSHAKE_GRACE);
        let receiver = Arc::new(HookReceiver { hooks: hooks.clone(), turn: Mutex::new(()) });
        let accepting = async {
            loop {
                match self.listener.accept().await {
                    Ok((stream, _)) => {
                        let (endpoint, receiver, stop) = (self.clone(), receiver.clone(), stop.clone());
                        let place = connections.place().await;
                        tokio::spawn(async move {
                            stop.run_until_cancelled(endpoint.connection(stream, &receiver, &place)).await;
                        });
                    }
                    Err(error) => {
                        tracing::debug!(%error, "the address of hooks cannot accept a connection");
                        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    }
                }
            }
        };
        stop.run_until_cancelled(accepting).await;
    }

    async fn connection(&self, stream: TcpStream, receiver: &HookReceiver, place: &Connection) {
        let connection = async {
            let Some(tls) = &self.tls else { return receiver.conversation(stream, place).await };
            if let Some(stream) = tls.accept(stream).await {
                receiver.conversation(stream, place).await;
            }
        };
        tokio::select! {
            biased;
            _ = tokio::time::timeout(HOOK_CONNECTION_AGE_MAX, connection) => {}
            () = place.closed() => {}
        }
    }
}

/// Answers requests.
struct HookReceiver {
    hooks: Hooks,
    /// Held while a signature is checked. That takes CPU time on the threads that run plugins, and many requests must
    /// not take more than one of them.
    turn: Mutex<()>,
}

impl HookReceiver {
    /// Answers one request.
    async fn conversation<S>(&self, stream: S, place: &Connection)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin,
    {
        let answer = |request: Request<Incoming>| async move { Ok::<_, Infallible>(self.answer(request, place).await) };
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(REQUEST_HEADERS_BYTES_MAX);
        // A connection that serves one request needs no limits between requests.
        builder.keep_alive(false);
        // Errors of the client are not the host's concern.
        let _ = builder.serve_connection(TokioIo::new(StallGuard::new(stream)), service_fn(answer)).await;
    }

    async fn answer<B>(&self, request: Request<B>, place: &Connection) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes>,
    {
        let (parts, body) = request.into_parts();
        let name = if parts.method == Method::POST { name_of(parts.uri.path()) } else { None };
        let result = if let Ok(Some(body)) = tokio::time::timeout(HOOK_BODY_TIMEOUT, received(body)).await {
            // Only now: otherwise, connections whose bodies never arrive would take the places of those that come.
            place.asks();
            self.deliver(name.as_ref(), &parts.headers, &body, place).await
        } else {
            let result = DeliveryResult::Refused(HookRefusal::Body);
            self.hooks.count(name.as_ref(), &result);
            result
        };
        response(&result)
    }

    async fn deliver(
        &self,
        name: Option<&HookName>,
        headers: &HeaderMap,
        body: &[u8],
        place: &Connection,
    ) -> DeliveryResult {
        let checked = {
            let _turn = self.turn.lock().await;
            self.hooks.authenticated(name, headers, body, windlass_world::now())
        };
        if checked.is_ok() {
            place.proves();
        }
        self.hooks.deliver(name, checked, body, windlass_world::now()).await
    }
}

/// Reads a body into one buffer. `None` if it is too large, or does not arrive.
///
/// Each frame is dropped before the next is read. A frame of one byte keeps the whole buffer into which the server has
/// read it, so if frames were collected, many small ones would take a thousand times what arrives.
async fn received<B: Body<Data = Bytes>>(body: B) -> Option<Vec<u8>> {
    let (mut body, mut received) = (pin!(body), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        let length = received.len() + data.len();
        if length > HOOK_BODY_BYTES_MAX {
            return None;
        }
        // The maximum is a power of two, so the buffer never exceeds it.
        received.reserve_exact(length.next_power_of_two() - received.len());
        received.extend_from_slice(&data);
    }
    Some(received)
}

/// The hook that `path` names. Its parts may be any text.
fn name_of(path: &str) -> Option<HookName> {
    let (plugin, hook) = path.strip_prefix("/hooks/")?.split_once('/')?;
    Some((plugin.into(), hook.into()))
}

fn response(result: &DeliveryResult) -> Response<Full<Bytes>> {
    let (status, body) = match result {
        DeliveryResult::Queued(queued) => (StatusCode::ACCEPTED, json!({"queued": queued})),
        DeliveryResult::Duplicate => (StatusCode::ACCEPTED, json!({"duplicate": true})),
        DeliveryResult::Refused(_) => (StatusCode::NOT_FOUND, json!({"error": "not found"})),
        DeliveryResult::Limited(_) => {
            (StatusCode::TOO_MANY_REQUESTS, json!({"error": "too many deliveries: send this one again later"}))
        }
        DeliveryResult::NotServing => {
            let error = "no controller of this replica takes the delivery: send it again, another replica may answer";
            (StatusCode::SERVICE_UNAVAILABLE, json!({"error": error}))
        }
        DeliveryResult::InWork => {
            let error = "a delivery with this id is being mapped: send it again later";
            (StatusCode::SERVICE_UNAVAILABLE, json!({"error": error}))
        }
        DeliveryResult::NotJson => {
            (StatusCode::BAD_REQUEST, json!({"error": "the body is not JSON: send JSON in UTF-8"}))
        }
        DeliveryResult::Failed => (
            StatusCode::INTERNAL_SERVER_ERROR,
            json!({"error": "the plugin's mapper failed: the host's log has the reason"}),
        ),
    };
    let retry_after = match result {
        DeliveryResult::Limited(wait) => Some(*wait),
        DeliveryResult::NotServing | DeliveryResult::InWork => Some(DELIVERY_RETRY_AFTER),
        _ => None,
    };
    let mut response = Response::new(Full::new(format!("{body}\n").into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(wait) = retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs() + u64::from(wait.subsec_nanos() > 0)));
    }
    response
}

#[cfg(test)]
mod tests;
