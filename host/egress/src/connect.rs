//! Resolves a name, checks every address, and connects.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::net::TcpStream;
use windlass_core::call::http::{HttpError, HttpReason};
use windlass_core::rights::egress::{self, AddressDenied, AddressReach, HttpTarget, NetworkFacts, UrlHost};

use crate::failed;

/// The most addresses of one name that are checked.
const ADDRESSES_PER_NAME_MAX: usize = 16;

/// Finds the addresses of a name: the system, or a test.
pub trait Resolve: Send + Sync {
    /// The addresses of `name`, with `port`.
    fn resolve(&self, name: String, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>>;
}

/// The system's resolver, which knows `/etc/hosts` and the cluster's own names.
#[derive(Clone, Copy, Debug)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: String, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        async move { Ok(tokio::net::lookup_host((name, port)).await?.collect()) }.boxed()
    }
}

/// The addresses of `target`'s host, in their canonical form.
///
/// A look-up blocks a thread of the host until the system's resolver gives up, even if the caller no longer waits. For
/// that time it keeps `held`, such as a permit.
pub async fn resolve<T: Send + 'static>(
    resolver: &dyn Resolve,
    target: &HttpTarget,
    held: T,
) -> Result<Vec<SocketAddr>, HttpError> {
    let canonical = |socket: SocketAddr| SocketAddr::new(egress::canonical(socket.ip()), socket.port());
    let name = match &target.host {
        UrlHost::Address(address) => return Ok(vec![canonical(SocketAddr::new(*address, target.port))]),
        UrlHost::Name(name) => name,
    };
    let look_up = resolver.resolve(name.clone(), target.port);
    let looking_up = tokio::spawn(async move {
        let found = look_up.await;
        drop(held);
        found
    });
    let dns = |error: &dyn std::fmt::Display| failed(HttpReason::Dns, format!("cannot resolve {name}: {error}"));
    let found = looking_up.await.map_err(|error| dns(&error))?.map_err(|error| dns(&error))?;
    if found.is_empty() {
        return Err(dns(&"it has no address"));
    }
    Ok(found.into_iter().take(ADDRESSES_PER_NAME_MAX).map(canonical).collect())
}

/// Checks that a request with this `reach` may connect to each of `addresses`. If one is denied, none may be used,
/// because a name with both allowed and denied addresses cannot be trusted.
pub fn check(addresses: &[SocketAddr], reach: &AddressReach, api_server: &[SocketAddr]) -> Result<(), AddressDenied> {
    addresses.iter().try_for_each(|socket| {
        egress::check_address(*socket, reach, NetworkFacts { api_server, is_own: is_own(*socket) })
    })
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
pub async fn to_one_of(addresses: &[SocketAddr], limit: Duration) -> Result<TcpStream, HttpError> {
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
}
