//! Resolves a name, checks every address, and connects.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::net::TcpStream;
use tokio::time::Instant;
use windlass_core::call::http::{HttpError, HttpReason};
use windlass_core::rights::egress::{self, AddressDenied, AddressReach, HttpTarget, NetworkFacts, UrlHost};

use super::{EgressInner, HttpPermit, failed};

/// The time for which the API server's addresses are cached.
const API_SERVER_ADDRESSES_TTL: Duration = Duration::from_mins(1);
/// The most addresses of one name that are checked.
const ADDRESSES_PER_NAME_MAX: usize = 16;

/// Finds the addresses of a name: the system, or a test.
pub(crate) trait Resolve: Send + Sync {
    /// The addresses of `name`, with `port`.
    fn resolve(&self, name: String, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>>;
}

/// The system's resolver, which knows `/etc/hosts` and the cluster's own names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: String, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        async move { Ok(tokio::net::lookup_host((name, port)).await?.collect()) }.boxed()
    }
}

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
    async fn addresses(&self, resolver: &dyn Resolve) -> Arc<[SocketAddr]> {
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

impl EgressInner {
    /// The addresses of `target`, if all of them may be connected to. If one is denied, none is used, because a name
    /// with both allowed and denied addresses cannot be trusted.
    pub(super) async fn checked_addresses(
        &self,
        target: &HttpTarget,
        reach: &AddressReach,
        permit: &HttpPermit,
    ) -> Result<Result<Vec<SocketAddr>, AddressDenied>, HttpError> {
        let (found, api_server) =
            tokio::join!(self.resolve(target, permit), self.api_server.addresses(self.resolver.as_ref()));
        let addresses = found?;
        for socket in &addresses {
            let around = NetworkFacts { api_server: &api_server, is_own: is_own(*socket) };
            if let Err(denied) = egress::check_address(*socket, reach, around) {
                return Ok(Err(denied));
            }
        }
        Ok(Ok(addresses))
    }

    async fn resolve(&self, target: &HttpTarget, permit: &HttpPermit) -> Result<Vec<SocketAddr>, HttpError> {
        let canonical = |socket: SocketAddr| SocketAddr::new(egress::canonical(socket.ip()), socket.port());
        let name = match &target.host {
            UrlHost::Address(address) => return Ok(vec![canonical(SocketAddr::new(*address, target.port))]),
            UrlHost::Name(name) => name,
        };
        // A look-up blocks a thread of the host until the system's resolver gives up, even if the caller no longer
        // waits. For that time it holds one of the plugin's permits.
        let (look_up, permit) = (self.resolver.resolve(name.clone(), target.port), permit.clone());
        let looking_up = tokio::spawn(async move {
            let found = look_up.await;
            drop(permit);
            found
        });
        let dns = |error: &dyn std::fmt::Display| failed(HttpReason::Dns, format!("cannot resolve {name}: {error}"));
        let found = looking_up.await.map_err(|error| dns(&error))?.map_err(|error| dns(&error))?;
        if found.is_empty() {
            return Err(dns(&"it has no address"));
        }
        Ok(found.into_iter().take(ADDRESSES_PER_NAME_MAX).map(canonical).collect())
    }
}

/// True if `socket` is at an address of this machine: a packet to the machine's own address has that address as its
/// source. Connecting a UDP socket sends nothing; it asks the system for the route.
fn is_own(socket: SocketAddr) -> bool {
    let any: IpAddr = if socket.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let source = UdpSocket::bind((any, 0)).and_then(|probe| {
        probe.connect(socket)?;
        probe.local_addr()
    });
    source.is_ok_and(|source| source.ip() == socket.ip())
}

/// Connects to the first of `addresses` that answers within `limit`.
pub(super) async fn to_one_of(addresses: &[SocketAddr], limit: Duration) -> Result<TcpStream, HttpError> {
    let mut last = String::new();
    for address in addresses {
        match tokio::time::timeout(limit, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // A request is written once and in full: waiting for more would only delay it.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => last = format!("{address}: {error}"),
            Err(_) => last = format!("{address}: no answer within {limit:?}"),
        }
    }
    Err(failed(HttpReason::Connect, format!("cannot connect to {last}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_this_machine_is_known_as_its_own() {
        assert!(is_own("127.0.0.1:1".parse().expect("an address")));
        // An address that is reserved for documentation, so no machine has it.
        assert!(!is_own("192.0.2.1:1".parse().expect("an address")));
    }

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
