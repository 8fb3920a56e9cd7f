//! Sends requests of the host itself, to addresses that the operator has configured.

use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use windlass_core::call::http::{HttpError, HttpReason, HttpResponse};
use windlass_core::rights::egress::{HttpTarget, UrlHost};
use windlass_core::rights::grants::Scheme;
use windlass_egress::bounded_stream::BoundedStream;
use windlass_egress::exchange::exchange;
use windlass_egress::tls::{self, Trust};
use windlass_egress::{HttpLimits, connect, failed};

/// Sends `request` to `target` on a new connection, and reads the whole answer. Only the `limits` are checked.
pub(crate) async fn post_own(
    target: &HttpTarget,
    request: Request<Full<Bytes>>,
    trust: &Trust,
    limits: &HttpLimits,
) -> Result<HttpResponse, HttpError> {
    let late = || failed(HttpReason::Timeout, format!("the exchange had not ended after {:?}", limits.time));
    let sent = async {
        let addresses = addresses(target).await?;
        let stream = connect::to_one_of(&addresses, limits.connect).await?;
        let stream = BoundedStream::new(stream, limits.wire_bytes());
        match target.scheme {
            Scheme::Http => exchange(stream, request, limits).await,
            Scheme::Https => {
                let stream = tls::handshake(trust.config()?, &target.host, stream).await?;
                exchange(stream, request, limits).await
            }
        }
    };
    tokio::time::timeout(limits.time, sent).await.unwrap_or_else(|_| Err(late()))
}

async fn addresses(target: &HttpTarget) -> Result<Vec<SocketAddr>, HttpError> {
    let name = match &target.host {
        UrlHost::Address(address) => return Ok(vec![SocketAddr::new(*address, target.port)]),
        UrlHost::Name(name) => name,
    };
    let unknown = |why: &dyn std::fmt::Display| failed(HttpReason::Dns, format!("cannot resolve {name}: {why}"));
    let found: Vec<_> =
        tokio::net::lookup_host((name.as_str(), target.port)).await.map_err(|error| unknown(&error))?.collect();
    if found.is_empty() { Err(unknown(&"it has no address")) } else { Ok(found) }
}
