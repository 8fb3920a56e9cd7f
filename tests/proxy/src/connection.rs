//! Accepting clients and serving HTTP/1.1 and HTTP/2 (prior knowledge) to them.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::forward;
use crate::socket::{Socket, close_by_reset};
use crate::state::Shared;

/// A client's connection, which the code that serves its requests may end.
#[derive(Clone, Debug)]
pub(crate) struct Connection(CancellationToken);

impl Connection {
    /// Resets the connection. Never returns: the caller is cancelled with the connection.
    pub(crate) async fn reset<T>(&self) -> T {
        self.0.cancel();
        pending().await
    }
}

/// Serves all clients until dropped; then all connections end.
pub(crate) async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let mut served = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    served.spawn(serve(Arc::clone(&shared), stream));
                }
                Err(error) => tracing::warn!(%error, "a connection could not be accepted"),
            },
            Some(ended) = served.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "serving a connection failed");
                }
            }
        }
    }
}

async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    let Some(registration) = shared.connect() else {
        return close_by_reset(&stream);
    };
    // Events are small and must not be delayed by Nagle's algorithm.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let reset = registration.reset.clone();
    let socket = Socket::new(stream, Arc::clone(&shared.silence), reset.clone());
    let service = service_fn(|request| {
        let (shared, connection) = (Arc::clone(&shared), Connection(reset.clone()));
        async move { Ok::<_, Infallible>(forward::forward(shared, connection, request).await) }
    });
    let http = auto::Builder::new(TokioExecutor::new());
    tokio::select! {
        // Checked first, so that nothing more is written to a connection that will be reset.
        biased;
        () = reset.cancelled() => {}
        ended = http.serve_connection(TokioIo::new(socket), service) => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended");
            }
        }
    }
    drop(registration);
}
