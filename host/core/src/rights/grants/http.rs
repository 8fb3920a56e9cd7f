//! The HTTP requests that a plugin may make according to its manifest, policy and ceiling. Computes the rules that all
//! layers have in common; `egress` matches requests against them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::Deserialize;

/// The scheme of a URL, spelled in manifests and policies as in URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scheme {
    Https,
    Http,
}

impl Scheme {
    /// The default port.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }

    /// The scheme as it is written in URLs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Allows requests to one host, or to all hosts that match a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRule {
    pub scheme: Scheme,
    /// A name in lower case, or an address. `*` stands for exactly one label.
    pub host: String,
    /// `None` for the scheme's default.
    pub port: Option<u16>,
    /// The methods, in upper case; `*` for all methods.
    pub methods: Vec<String>,
    /// Non-public address ranges, in CIDR notation, that may be connected to: loopback, private, link-local and so on.
    /// Public addresses need not be listed.
    pub addresses: Vec<String>,
}

impl HttpRule {
    /// The port of this rule, or else the scheme's default.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.unwrap_or_else(|| self.scheme.default_port())
    }

    /// The address that is this rule's host. `None` if the host is a name or a pattern.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        address(&self.host)
    }

    /// Whether this rule covers `method` at `port` of `host`, whatever address the host resolves to. `host` is as in a
    /// URL or in another rule. A `*` in it stands for any label, which only a `*` of this rule covers. Likewise, only
    /// `*` covers the method `*`.
    #[must_use]
    pub fn covers(&self, scheme: Scheme, host: &str, port: u16, method: &str) -> bool {
        self.scheme == scheme
            && self.port() == port
            && self.methods.iter().any(|allowed| allowed == "*" || allowed == method)
            && covers_host(&self.host, host)
    }

    /// The ranges of its addresses. A range that cannot be parsed is left out.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Cidr> {
        self.addresses.iter().filter_map(|range| range.parse().ok())
    }
}

/// Whether `pattern` matches `host`, or every name that `host` matches. An address is not a name: `*` matches no part
/// of it, and two spellings of the same address are equal.
fn covers_host(pattern: &str, host: &str) -> bool {
    if address(pattern).is_some() || address(host).is_some() {
        return address(pattern) == address(host);
    }
    let covers = |(allowed, label): (&str, &str)| allowed == "*" || allowed == label;
    pattern.split('.').count() == host.split('.').count() && pattern.split('.').zip(host.split('.')).all(covers)
}

/// The address that a rule has as its host, with or without the brackets that URLs use.
pub(crate) fn address(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(within) => within.parse().ok().map(IpAddr::V6),
        None => host.parse().ok(),
    }
}

/// A range of addresses: `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    address: IpAddr,
    bits: u8,
}

/// A text that is not an address range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a range of addresses, such as 10.1.0.0/16 or fd00::/8{}", .why)]
pub struct CidrError {
    text: String,
    why: &'static str,
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let error = |why| CidrError { text: text.to_owned(), why };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| error(""))?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => bits.parse().map_err(|_| error(""))?,
            Some(_) => return Err(error("")),
        };
        if bits > most {
            return Err(error(": too many bits"));
        }
        let range = Self { address, bits };
        if number(address) & !range.mask() == 0 { Ok(range) } else { Err(error(": it has bits beyond its mask")) }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// The address as a left-aligned number.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
        IpAddr::V6(address) => u128::from(address),
    }
}

impl Cidr {
    /// Whether `address` is in the range. An IPv4 address mapped into IPv6 is not converted: convert it first
    /// (`egress::canonical`).
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && (number(address) ^ number(self.address)) & self.mask() == 0
    }

    /// Whether the range is a single address.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.bits == if self.address.is_ipv4() { 32 } else { 128 }
    }

    fn mask(&self) -> u128 {
        match self.bits {
            0 => 0,
            bits => u128::MAX << (128 - u32::from(bits)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(host: &str, methods: &[&str]) -> HttpRule {
        HttpRule {
            scheme: Scheme::Https,
            host: host.to_owned(),
            port: None,
            methods: methods.iter().map(|method| (*method).to_owned()).collect(),
            addresses: vec![],
        }
    }

    #[test]
    fn a_star_covers_one_label_of_a_name_and_no_address() {
        let covers = |pattern: &str, host: &str| rule(pattern, &["GET"]).covers(Scheme::Https, host, 443, "GET");
        for (pattern, host) in [
            ("*.example.com", "api.example.com"),
            ("*.example.com", "*.example.com"),
            ("*.*.com", "*.example.com"),
            ("8.8.8.8", "8.8.8.8"),
            ("[FD00:0::1]", "[fd00::1]"),
            ("fd00::1", "[fd00::1]"),
        ] {
            assert!(covers(pattern, host), "{pattern} {host}");
        }
        for (pattern, host) in [
            ("api.example.com", "*.example.com"),
            ("*.example.com", "example.com"),
            ("*.*.*.*", "8.8.8.8"),
            ("8.8.8.*", "8.8.8.8"),
            ("8.8.8.8", "*.8.8.8"),
            ("*", "[fd00::1]"),
            ("8.8.8.8", "[::ffff:8.8.8.8]"),
        ] {
            assert!(!covers(pattern, host), "{pattern} {host}");
        }
        assert!(!rule("a.b", &["GET"]).covers(Scheme::Https, "a.b", 443, "*"), "a request for all methods");
    }

    #[test]
    fn ranges_are_read_strictly() {
        let range: Cidr = "10.1.0.0/16".parse().expect("a range");
        assert!(range.contains([10, 1, 2, 3].into()) && !range.contains([10, 2, 0, 0].into()));
        assert!(!range.contains("::ffff:10.1.2.3".parse().expect("an address")));
        assert!("127.0.0.1".parse::<Cidr>().is_ok_and(|one| one.to_string() == "127.0.0.1/32"));
        assert!("0.0.0.0/0".parse::<Cidr>().is_ok_and(|all| all.contains([8, 8, 8, 8].into())));
        for wrong in ["", "10.1.0.0/33", "10.1.0.1/16", "10.1.0.0/+8", "10.1/16", "example.com", "fd00::/129"] {
            assert!(wrong.parse::<Cidr>().is_err(), "{wrong}");
        }
    }
}
