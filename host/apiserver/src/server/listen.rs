//! Connections: accepts them, serves HTTP/1 and HTTP/2 on them, and closes them when the server stops.

use std::io::{Error, ErrorKind};
use std::pin::pin;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::service::ApiService;

/// Between two tries to accept, when the process has no file descriptor to spare.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves until `stop`, and then until the open requests are answered.
pub(crate) async fn serve(listener: TcpListener, service: ApiService, stop: CancellationToken) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(connection(stream, service.clone(), stop.clone()));
            }
            Err(error) if is_of_the_client(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "the embedded API server cannot accept a connection; it tries again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    connections.close();
    connections.wait().await;
}

async fn connection(stream: TcpStream, service: ApiService, stop: CancellationToken) {
    // Watch events are small and must not wait for each other.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
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
