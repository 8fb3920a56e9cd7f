//! The TLS handshake of one connection, and the user that its client certificate names.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificates;
use crate::authz::User;

/// How long a client may take for its handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes the handshake. `None` if the client does not complete it.
pub(crate) async fn shake_hands(
    acceptor: TlsAcceptor,
    stream: TcpStream,
) -> Option<(TlsStream<TcpStream>, Option<User>)> {
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a TLS handshake failed");
            return None;
        }
        Err(_) => return None,
    };
    let (_, session) = stream.get_ref();
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    let user = certificate.and_then(certificates::user);
    Some((stream, user))
}
