//! Which HTTP requests a plugin may send, and to which addresses, decided without I/O (§4).
//!
//! Two decisions, one before a name is resolved and one after. [`allow`] reads the URL ([`Target`]) and finds the rules
//! that cover it. [`check_address`] says of each address that the name turned out to have whether those rules reach it:
//! addresses that are not public are denied unless a rule names them, whatever the name says. The host's `egress` asks
//! both for every request, so a redirect that a plugin follows, which is a request of its own, is asked about anew.

mod address;
mod target;

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

pub use self::address::{AddressClass, canonical};
pub use self::target::{Host, Scheme, Target, TargetError, is_method};

/// What one rule allows: every dimension must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRule {
    /// With TLS or without.
    pub scheme: Scheme,
    /// A name, in which `*` stands for exactly one label, or an address, which only itself matches.
    pub host: String,
    /// None: the scheme's own.
    pub port: Option<u16>,
    /// Such as `GET`; `*` for all.
    pub methods: Vec<String>,
    /// Addresses that are reached although they are not public.
    pub addresses: Vec<IpNet>,
}

impl HttpRule {
    /// Whether this rule is about `method` on `target`, wherever that may lead.
    #[must_use]
    pub fn covers(&self, method: &str, target: &Target) -> bool {
        self.scheme == target.scheme
            && self.port.unwrap_or(self.scheme.default_port()) == target.port
            && self.methods.iter().any(|allowed| allowed == "*" || allowed == method)
            && host_matches(&self.host, &target.host)
    }
}

fn host_matches(pattern: &str, host: &Host) -> bool {
    match host {
        Host::Address(address) => {
            let bare = pattern.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(pattern);
            bare.parse() == Ok(*address)
        }
        Host::Name(name) => {
            let same = |(pattern, label): (&str, &str)| pattern == "*" || pattern.eq_ignore_ascii_case(label);
            pattern.split('.').count() == name.split('.').count() && pattern.split('.').zip(name.split('.')).all(same)
        }
    }
}

/// Addresses that rules name, beside the public ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    networks: Vec<IpNet>,
}

/// Why a request may not be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no rule allows it to {method} {target}: it needs an `http` rule with this scheme, host, port and method")]
pub struct NotAllowed {
    /// The method.
    pub method: String,
    /// Where to, without path and query.
    pub target: String,
}

/// Finds the rules that cover `method` on `target`, and with them the addresses that it may reach.
pub fn allow(rules: &[HttpRule], method: &str, target: &Target) -> Result<Reach, NotAllowed> {
    let mut covering = rules.iter().filter(|rule| rule.covers(method, target)).peekable();
    if covering.peek().is_none() {
        return Err(NotAllowed { method: method.to_owned(), target: target.to_string() });
    }
    Ok(Reach { networks: covering.flat_map(|rule| rule.addresses.iter().copied()).collect() })
}

/// What the host knows of the address that it is about to connect to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings<'a> {
    /// Where the Kubernetes API server is.
    pub api_server: &'a [SocketAddr],
    /// The address is one of this machine's own.
    pub is_own: bool,
}

/// Why an address may not be connected to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct AddressDenied {
    /// The address.
    pub address: IpAddr,
    /// What it is.
    pub class: AddressClass,
}

impl fmt::Display for AddressDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, class } = self;
        let prefix = if address.is_ipv4() { 32 } else { 128 };
        let how = if class.needs_exact() { "as exactly" } else { "in `addresses`, such as" };
        write!(f, "{address} is {class}: only an `http` rule that names it reaches it, {how} {address}/{prefix}")
    }
}

/// Whether a request with this `reach` may connect to `socket`.
///
/// Every reading of the address must be public or named by a rule: the address itself, and each IPv4 address that it
/// carries inside. What only some rule for a wide network would cover by accident, such as the API server or a cloud's
/// metadata service, must be named by itself.
pub fn check_address(socket: SocketAddr, reach: &Reach, around: Surroundings<'_>) -> Result<(), AddressDenied> {
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

impl Reach {
    fn names(&self, address: IpAddr, class: AddressClass) -> bool {
        let is_single = |network: &IpNet| network.prefix_len() == network.max_prefix_len();
        self.networks.iter().any(|network| network.contains(&address) && (!class.needs_exact() || is_single(network)))
    }
}

#[cfg(test)]
mod tests;
