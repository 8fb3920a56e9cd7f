//! Connections: accepts them, serves HTTP/1 and HTTP/2 on them, and closes them when the server stops.

use std::io::{Error, ErrorKind};
use std::pin::pin;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::service::ApiService;

/// The pause before the next `accept` if the process has no free file descriptor.
const LISTEN_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The layer under HTTP on a connection.
#[derive(Clone)]
pub(crate) enum Transport {
    Plain,
    #[cfg(feature = "tls")]
    Tls(tokio_rustls::TlsAcceptor),
}

/// Serves until `stop` is cancelled, and then until all open requests are finished.
pub(crate) async fn serve(listener: TcpListener, transport: Transport, service: ApiService, stop: CancellationToken) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(connection(stream, transport.clone(), service.clone(), stop.clone()));
            }
            Err(error) if is_of_the_client(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "the embedded API server cannot accept a connection: it will try again");
                tokio::time::sleep(LISTEN_RETRY_DELAY).await;
            }
        }
    }
    connections.close();
    connections.wait().await;
}

async fn connection(stream: TcpStream, transport: Transport, service: ApiService, stop: CancellationToken) {
    // Watch events are small and must not be delayed by Nagle's algorithm.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    match transport {
        Transport::Plain => speak(stream, service, stop).await,
        #[cfg(feature = "tls")]
        Transport::Tls(acceptor) => {
            let shaken = tokio::select! {
                biased;
                () = stop.cancelled() => None,
                shaken = crate::tls::shake_hands(acceptor, stream) => shaken,
            };
            if let Some((stream, user)) = shaken {
                speak(stream, service.certified(user), stop).await;
            }
        }
    }
}

/// Serves HTTP on one connection.
async fn speak<S>(stream: S, service: ApiService, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let builder = Builder::new(TokioExecutor::new());
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)));
    let ended = tokio::select! {
        biased;
        ended = served.as_mut() => ended,
        () = stop.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::trace!(error, "a connection of the embedded API server failed");
    }
}

fn is_of_the_client(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset)
}
