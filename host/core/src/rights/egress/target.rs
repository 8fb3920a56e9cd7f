//! Parses URLs strictly: a URL that two parsers could read differently is refused.
//!
//! The WHATWG parser accepts much that people mistype and attackers write: backslashes, tabs, user names, addresses in
//! octal. Plugins are programs, and a program can write a URL properly. So only case is normalised, and the URL that
//! was checked against a rule is, byte for byte, the URL that is resolved and sent.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::rights::grants::{self, Scheme};

const URL_BYTES_MAX: usize = 8 << 10;
/// The longest host name (RFC 1035).
const HOST_NAME_BYTES_MAX: usize = 253;
/// The longest label of a host name.
const HOST_LABEL_BYTES_MAX: usize = 63;

/// Headers that the host sets itself, because a plugin could use them to misstate the connection or the body's length.
const HOSTS_HEADERS: [&str; 12] = [
    "alt-used",
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];
const HOSTS_HEADER_PREFIX: &str = "proxy-";

/// The host of a URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UrlHost {
    /// A name, in lower case and without a trailing dot.
    Name(String),
    Address(IpAddr),
}

impl fmt::Display for UrlHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// The destination of a request. Displayed without path and query, which may hold secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpTarget {
    pub scheme: Scheme,
    pub host: UrlHost,
    pub port: u16,
    /// The path and query; begins with `/`. A fragment is never part of it.
    pub path_and_query: String,
}

impl fmt::Display for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority())
    }
}

/// The reason why a text is not a valid request URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("the URL is longer than {URL_BYTES_MAX} bytes")]
    TooLong,
    /// The scheme is neither `http` nor `https`.
    #[error("the URL does not begin with `https://` or `http://`")]
    Scheme,
    /// A character that must be percent-encoded.
    #[error("the URL holds {0:?}, which must be percent-encoded in a path or query, and cannot be in a host")]
    Character(char),
    /// `%` without two hexadecimal digits after it.
    #[error("the URL holds a `%` that is not followed by two hexadecimal digits")]
    Percent,
    /// The URL has a user name or password.
    #[error("the URL holds a user name: send credentials in the header `authorization`")]
    UserInfo,
    /// The host is missing or invalid.
    #[error(
        "the URL has no valid host: a host is a name of letters, digits, dashes and dots (other characters in \
         punycode), four decimal numbers, or an IPv6 address in brackets"
    )]
    Host,
    /// The port is invalid.
    #[error("the port of the URL is not a number from 1 to 65535")]
    Port,
}

impl HttpTarget {
    pub fn parse(url: &str) -> Result<Self, TargetError> {
        if url.len() > URL_BYTES_MAX {
            return Err(TargetError::TooLong);
        }
        if let Some(wrong) = url.chars().find(|character| !is_written_plainly(*character)) {
            return Err(TargetError::Character(wrong));
        }
        let (scheme, rest) = scheme(url).ok_or(TargetError::Scheme)?;
        let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(TargetError::UserInfo);
        }
        let (host, port) = host_and_port(authority)?;
        check_percents(path)?;
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self { scheme, host, port: port.unwrap_or(scheme.default_port()), path_and_query: format!("{slash}{path}") })
    }

    /// The value of the `Host` header. It includes the port only if this is not the scheme's default.
    #[must_use]
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if *port == self.scheme.default_port() { host.to_string() } else { format!("{host}:{port}") }
    }
}

/// Whether `host` can be the host of a rule: an address, or a name that a URL can have, where `*` stands for any label.
#[must_use]
pub fn is_host_pattern(host: &str) -> bool {
    let is_name = host.len() <= HOST_NAME_BYTES_MAX && host.split('.').all(|label| label == "*" || is_label(label));
    grants::address(host).is_some() || (is_name && !ends_in_number(host))
}

/// Whether a plugin may use `method`: an RFC 9110 token in upper case, and not a method that turns the connection into
/// a tunnel or echoes headers that the host added.
#[must_use]
pub fn is_method(method: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_uppercase() || byte == b'-' || byte == b'_';
    (1..=32).contains(&method.len()) && method.bytes().all(is_token) && !matches!(method, "CONNECT" | "TRACE")
}

/// Whether only the host may set the header `name` (in lower case).
#[must_use]
pub fn is_hosts_header(name: &str) -> bool {
    HOSTS_HEADERS.contains(&name) || name.starts_with(HOSTS_HEADER_PREFIX)
}

/// Whether `character` is printable ASCII that RFC 3986 allows unencoded.
fn is_written_plainly(character: char) -> bool {
    character.is_ascii_graphic() && !matches!(character, '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}')
}

fn scheme(url: &str) -> Option<(Scheme, &str)> {
    let (name, rest) = url.split_once("://")?;
    let scheme = [Scheme::Https, Scheme::Http].into_iter().find(|known| name.eq_ignore_ascii_case(known.as_str()))?;
    Some((scheme, rest))
}

fn host_and_port(authority: &str) -> Result<(UrlHost, Option<u16>), TargetError> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (inside, port) = rest.split_once(']').ok_or(TargetError::Host)?;
        let address: Ipv6Addr = inside.parse().map_err(|_| TargetError::Host)?;
        let port = if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or(TargetError::Port)?) };
        (UrlHost::Address(address.into()), port)
    } else {
        match authority.split_once(':') {
            Some((host, port)) => (name_or_ipv4(host)?, Some(port)),
            None => (name_or_ipv4(authority)?, None),
        }
    };
    Ok((host, port.map(self::port).transpose()?))
}

fn port(text: &str) -> Result<u16, TargetError> {
    let is_plain = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_plain && *port > 0).ok_or(TargetError::Port)
}

fn name_or_ipv4(text: &str) -> Result<UrlHost, TargetError> {
    let name = text.strip_suffix('.').unwrap_or(text);
    if name.len() > HOST_NAME_BYTES_MAX || !name.split('.').all(is_label) {
        return Err(TargetError::Host);
    }
    // Resolvers accept `127.1`, `0x7f000001` and `0177.0.0.1` as addresses. Only the unambiguous form is accepted here.
    if ends_in_number(name) {
        let address: Ipv4Addr = text.parse().map_err(|_| TargetError::Host)?;
        return Ok(UrlHost::Address(address.into()));
    }
    Ok(UrlHost::Name(name.to_ascii_lowercase()))
}

/// `_` is not allowed in host names, but some host names have it.
fn is_label(label: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=HOST_LABEL_BYTES_MAX).contains(&label.len())
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Whether parsers may take `name` for an address.
fn ends_in_number(name: &str) -> bool {
    name.rsplit('.').next().is_some_and(is_number)
}

fn is_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    label.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn check_percents(path: &str) -> Result<(), TargetError> {
    let is_code = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    if path.split('%').skip(1).all(is_code) { Ok(()) } else { Err(TargetError::Percent) }
}
