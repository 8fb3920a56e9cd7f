//! The addresses of the Kubernetes API server, which plugins may reach only if a rule lists them.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use windlass_egress::connect::Resolve;

/// The time for which the API server's addresses are cached.
const API_SERVER_ADDRESSES_TTL: Duration = Duration::from_mins(1);

/// The addresses of the Kubernetes API server, from its URL.
pub(crate) struct ApiServer {
    host: Option<String>,
    port: u16,
    known: Mutex<Option<(Instant, Arc<[SocketAddr]>)>>,
}

impl ApiServer {
    /// The API server at `url`.
    pub(crate) fn at(url: &str) -> Self {
        let uri: Option<http::Uri> = url.parse().ok();
        let https = uri.as_ref().and_then(http::Uri::scheme_str) != Some("http");
        let port = uri.as_ref().and_then(http::Uri::port_u16).unwrap_or(if https { 443 } else { 80 });
        let host = uri.as_ref().and_then(http::Uri::host);
        let host = host.map(|host| host.trim_start_matches('[').trim_end_matches(']').to_owned());
        Self { host, port, known: Mutex::default() }
    }

    /// The addresses of the API server. If its name cannot be resolved, the addresses known before still hold.
    pub(super) async fn addresses(&self, resolver: &dyn Resolve) -> Arc<[SocketAddr]> {
        let Some(host) = &self.host else { return Arc::default() };
        if let Ok(address) = host.parse::<IpAddr>() {
            return [SocketAddr::new(address, self.port)].into();
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match known {
            Some((at, addresses)) if at.elapsed() < API_SERVER_ADDRESSES_TTL => addresses,
            known => match resolver.resolve(host.clone(), self.port).await {
                Ok(addresses) => {
                    let addresses: Arc<[SocketAddr]> = addresses.into();
                    let new = Some((Instant::now(), addresses.clone()));
                    *self.known.lock().unwrap_or_else(PoisonError::into_inner) = new;
                    addresses
                }
                Err(_) => known.map(|(_, addresses)| addresses).unwrap_or_default(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_egress::connect::SystemResolver;

    use super::*;

    #[tokio::test]
    async fn the_api_server_is_where_its_url_says() {
        for (url, socket) in [
            ("https://10.0.0.1", "10.0.0.1:443"),
            ("http://127.0.0.1:8001/", "127.0.0.1:8001"),
            ("https://[fd00::1]:6443", "[fd00::1]:6443"),
        ] {
            let addresses = ApiServer::at(url).addresses(&SystemResolver).await;
            assert_eq!(*addresses, [socket.parse().expect("an address")], "{url}");
        }
    }
}
