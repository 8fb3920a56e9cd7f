//! Decides which HTTP requests a plugin may send, and to which addresses, without I/O (ADR 7).
//!
//! There are two decisions, one before a host name is resolved and one after. [`allow`] reads the URL ([`HttpTarget`])
//! and finds the rules that cover it. [`check_address`] then checks each address that the name resolved to. Addresses
//! that are not public are denied unless a rule lists them, whatever the host name. The host's `egress` makes both
//! decisions for every request. A redirect that a plugin follows is a new request, so it is checked like any other.

mod address;
mod target;

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::rights::grants::{Cause, Cidr, Denial, HttpRule, Layer, LiveGrants};

pub use self::address::{AddressClass, canonical};
pub use self::target::{HttpTarget, TargetError, UrlHost, is_host_pattern, is_hosts_header, is_method};

/// The non-public addresses that a request may reach: every layer must list them. If one layer lists a whole network
/// and another lists a single address of that network, this address does not count as listed by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressReach {
    /// The ranges that each of the operator's layers lists. If empty, only public addresses may be reached.
    layers: Vec<Vec<Cidr>>,
}

/// Finds the rules that cover `method` on `target`, and the addresses that they allow. Counts a denial.
pub fn allow(grants: &LiveGrants, method: &str, target: &HttpTarget) -> Result<AddressReach, Denial> {
    let current = grants.current();
    if let Some(layers) = current.ranges(|rule| covers(rule, method, target)) {
        return Ok(AddressReach { layers });
    }
    let lacking = current.lacking_http(|rule| covers(rule, method, target));
    let denial = Denial {
        access: format!("{method} {target}"),
        cause: Cause::NoRule(if lacking.is_empty() { vec![Layer::Policy] } else { lacking }),
        missing: missing_rule(method, target, ""),
    };
    grants.note(method, &target.to_string(), &denial);
    Err(denial)
}

/// The denial of `method` on `target` because of the address that it resolved to. Counts the denial.
#[must_use]
pub fn deny(grants: &LiveGrants, method: &str, target: &HttpTarget, denied: &AddressDenied) -> Denial {
    let AddressDenied { address, class } = denied;
    let prefix = if address.is_ipv4() { 32 } else { 128 };
    let names = |rule: &HttpRule| covers(rule, method, target) && AddressReach::of([rule]).names(*address, *class);
    // A manifest cannot ask for addresses; only the operator's layers list them.
    let mut lacking = grants.current().lacking_http(names);
    lacking.retain(|layer| *layer != Layer::Manifest);
    let denial = Denial {
        access: format!("{method} {target} at {address}, which is {class}"),
        cause: Cause::NoRule(if lacking.is_empty() { vec![Layer::Policy] } else { lacking }),
        missing: missing_rule(method, target, &format!(", addresses: [\"{address}/{prefix}\"]")),
    };
    grants.note(method, &target.to_string(), &denial);
    denial
}

/// An `http` item as it is written in a policy.
fn missing_rule(method: &str, target: &HttpTarget, more: &str) -> String {
    let HttpTarget { scheme, host, port, .. } = target;
    let port = if *port == scheme.default_port() { String::new() } else { format!(", port: {port}") };
    format!("http: - {{scheme: {scheme}, host: \"{host}\"{port}, methods: [{method}]{more}}}")
}

/// Whether `rule` covers `method` on `target`, whatever address it resolves to.
fn covers(rule: &HttpRule, method: &str, target: &HttpTarget) -> bool {
    rule.covers(target.scheme, &target.host.to_string(), target.port, method)
}

/// The host's knowledge of the address that it is about to connect to.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkFacts<'a> {
    /// The addresses of the Kubernetes API server.
    pub api_server: &'a [SocketAddr],
    /// Whether the address belongs to this machine.
    pub is_own: bool,
}

/// The reason why a plugin may not connect to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressDenied {
    pub address: IpAddr,
    pub class: AddressClass,
}

impl fmt::Display for AddressDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}", self.address, self.class)
    }
}

/// Whether a request with this `reach` may connect to `socket`.
///
/// The address itself and each IPv4 address embedded in it must be public or listed by a rule. Some addresses, such as
/// the API server or a cloud's metadata service, need a rule for exactly that address, because a rule for a wide
/// network would cover them by accident.
pub fn check_address(socket: SocketAddr, reach: &AddressReach, around: NetworkFacts<'_>) -> Result<(), AddressDenied> {
    let address = canonical(socket.ip());
    let mut classes: Vec<(IpAddr, AddressClass)> = address::readings(address)
        .filter_map(|reading| AddressClass::of(reading).map(|class| (reading, class)))
        .collect();
    let is_api_server = |known: &&SocketAddr| address::readings(address).any(|read| read == canonical(known.ip()));
    match around.api_server.iter().find(is_api_server) {
        Some(known) if known.port() == socket.port() => classes.push((address, AddressClass::ApiServer)),
        Some(_) => classes.push((address, AddressClass::ApiServerMachine)),
        None => {}
    }
    if around.is_own {
        classes.push((address, AddressClass::Own));
    }
    match classes.into_iter().find(|(address, class)| !reach.names(*address, *class)) {
        Some((address, class)) => Err(AddressDenied { address, class }),
        None => Ok(()),
    }
}

impl AddressReach {
    /// The addresses that any of `rules` allows, as if they were the only layer.
    pub fn of<'a>(rules: impl IntoIterator<Item = &'a HttpRule>) -> Self {
        Self { layers: vec![rules.into_iter().flat_map(HttpRule::ranges).collect()] }
    }

    fn names(&self, address: IpAddr, class: AddressClass) -> bool {
        let lists = |range: &Cidr| range.contains(address) && (!class.needs_exact() || range.is_single());
        !self.layers.is_empty() && self.layers.iter().all(|ranges| ranges.iter().any(lists))
    }
}

#[cfg(test)]
mod tests;
