//! The server as a `tower::Service`. It serves requests without a socket, and `listen` uses it for connections.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use http::Request;
use tower::{BoxError, Service};

use super::Context;
use crate::authz::User;

/// Serves requests within the process, for clients that accept a service instead of an address, such as
/// `kube::Client::new`. Cloning is cheap, and all clones belong to the same server.
#[derive(Clone)]
pub struct ApiService {
    context: Context,
    /// The user that the client certificate of the connection names.
    certified: Option<Arc<User>>,
}

/// The error if the server has sent no response, as if the connection was lost. The request may or may not have been
/// carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection was closed before a response arrived")]
pub struct ConnectionDropped;

impl ApiService {
    pub(crate) fn new(context: Context) -> ApiService {
        ApiService { context, certified: None }
    }
}

#[cfg(feature = "tls")]
impl ApiService {
    /// A service whose requests come from this user.
    pub(crate) fn certified(self, user: Option<User>) -> ApiService {
        ApiService { certified: user.map(Arc::new), ..self }
    }
}

impl<B> Service<Request<B>> for ApiService
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = ConnectionDropped;
    type Future = Pin<Box<dyn Future<Output = Result<Response, ConnectionDropped>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), ConnectionDropped>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let context = self.context.clone();
        let mut request = request.map(Body::new);
        if let Some(user) = &self.certified {
            request.extensions_mut().insert(Arc::clone(user));
        }
        Box::pin(async move { super::react::respond(&context, request).await })
    }
}

impl std::fmt::Debug for ApiService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiService").finish_non_exhaustive()
    }
}
