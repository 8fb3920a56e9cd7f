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

    /// The requests that both rules allow. `None` if there are none.
    pub(super) fn and(&self, other: &Self, addresses: Vec<String>) -> Option<Self> {
        if self.scheme != other.scheme || self.port() != other.port() {
            return None;
        }
        let methods: Vec<_> = match (self.any_method(), other.any_method()) {
            (true, _) => other.methods.clone(),
            (_, true) => self.methods.clone(),
            _ => self.methods.iter().filter(|method| other.methods.contains(method)).cloned().collect(),
        };
        let host = narrower_host(&self.host, &other.host)?;
        (!methods.is_empty()).then_some(Self { scheme: self.scheme, host, port: self.port, methods, addresses })
    }

    fn any_method(&self) -> bool {
        self.methods.iter().any(|method| method == "*")
    }
}

/// The pattern of the names that both patterns match. `None` if there are none. An address is not a name: `*` matches
/// no part of it, and two spellings of the same address are equal.
fn narrower_host(a: &str, b: &str) -> Option<String> {
    if let (None, None) = (address(a), address(b)) {
        return narrower_name(a, b);
    }
    (address(a) == address(b)).then(|| a.to_owned())
}

/// Whether `pattern` matches `host`, or every name that `host` matches. As in [`narrower_host`], an address is not a
/// name.
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

fn narrower_name(a: &str, b: &str) -> Option<String> {
    let (a, b): (Vec<_>, Vec<_>) = (a.split('.').collect(), b.split('.').collect());
    if a.len() != b.len() {
        return None;
    }
    let labels = a.into_iter().zip(b).map(|pair| match pair {
        (label, "*") | ("*", label) => Some(label),
        (a, b) => (a == b).then_some(a),
    });
    labels.collect::<Option<Vec<_>>>().map(|labels| labels.join("."))
}

/// The addresses that lie in a range of `a` and in a range of `b`. A range that cannot be parsed is empty.
pub(super) fn common_addresses(a: &[String], b: &[String]) -> Vec<String> {
    let read = |list: &[String]| list.iter().filter_map(|text| text.parse::<Cidr>().ok()).collect::<Vec<_>>();
    let (a, b) = (read(a), read(b));
    let pairs = a.iter().flat_map(|a| b.iter().filter_map(|b| a.and(b)));
    pairs.map(|range| range.to_string()).collect()
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

    /// The intersection: if two ranges overlap, one contains the other.
    fn and(&self, other: &Self) -> Option<Self> {
        let (outer, inner) = if self.bits <= other.bits { (self, other) } else { (other, self) };
        outer.contains(inner.address).then_some(*inner)
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
    fn combined_rules_allow_only_what_both_allow() {
        let asked = rule("*.example.com", &["GET", "POST"]);
        let granted = rule("api.example.com", &["GET"]);
        let both = granted.and(&asked, vec![]).expect("they overlap");
        assert_eq!((both.host.as_str(), both.methods.as_slice()), ("api.example.com", &["GET".to_owned()][..]));
        assert_eq!(asked.and(&granted, vec![]), Some(both));
        assert_eq!(asked.and(&rule("example.com", &["GET"]), vec![]), None);
        assert_eq!(asked.and(&rule("api.example.com", &["PUT"]), vec![]), None);
        assert_eq!(asked.and(&HttpRule { port: Some(8443), ..granted.clone() }, vec![]), None);
        assert!(asked.and(&HttpRule { port: Some(443), ..granted }, vec![]).is_some());
    }

    #[test]
    fn two_rules_share_an_address_only_if_both_list_it() {
        let all = ["*"];
        assert_eq!(rule("8.8.8.8", &all).and(&rule("*.*.*.*", &all), vec![]), None);
        assert_eq!(rule("*.*.*.*", &all).and(&rule("8.8.8.8", &all), vec![]), None);
        assert_eq!(rule("8.8.8.8", &all).and(&rule("8.8.8.9", &all), vec![]), None);
        assert!(rule("8.8.8.8", &all).and(&rule("8.8.8.8", &all), vec![]).is_some());
        assert!(rule("[2001:DB8::0:1]", &all).and(&rule("2001:db8::1", &all), vec![]).is_some());
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
    fn two_nested_ranges_intersect_in_the_inner_one() {
        let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
        let common = common_addresses(&list(&["10.0.0.0/8", "fd00::/8"]), &list(&["10.1.0.0/16", "192.168.0.0/16"]));
        assert_eq!(common, ["10.1.0.0/16"]);
        assert!(common_addresses(&list(&["10.0.0.0/8"]), &[]).is_empty());
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
