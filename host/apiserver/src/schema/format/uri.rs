//! Checks URIs, like Go's `url.ParseRequestURI`: a URI is absolute, or a path from the root. A fragment is part of the
//! path.

use std::net::Ipv6Addr;

/// Whether the text is a request URI.
pub(super) fn is_request_uri(text: &str) -> bool {
    if text.bytes().any(|byte| byte.is_ascii_control()) || text.is_empty() {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = split_scheme(text) else { return false };
    let rest = rest.split_once('?').map_or(rest, |(before, _)| before);
    if !rest.starts_with('/') {
        return !scheme.is_empty();
    }
    match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        Some(rest) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            is_authority(scheme, authority) && has_good_escapes(path)
        }
        None => has_good_escapes(rest),
    }
}

/// Splits a text into its scheme and the text after it. The scheme may be missing; then it is empty. `None` if the text
/// begins with a colon.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let end = text.find(|c: char| !is_inner(c)).unwrap_or(text.len());
    let (scheme, rest) = text.split_at(end);
    match rest.strip_prefix(':') {
        Some(_) if scheme.is_empty() => None,
        Some(rest) if scheme.starts_with(|c: char| c.is_ascii_alphabetic()) => Some((scheme, rest)),
        _ => Some(("", text)),
    }
}

fn is_authority(scheme: &str, authority: &str) -> bool {
    match authority.rsplit_once('@') {
        None => is_host(scheme, authority),
        Some((user, host)) => is_host(scheme, host) && is_user(user),
    }
}

fn is_user(user: &str) -> bool {
    user.chars().all(|c| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c)) && has_good_escapes(user)
}

fn is_host(scheme: &str, host: &str) -> bool {
    match host.rfind('[') {
        Some(0) => host.rsplit_once(']').is_some_and(|(literal, port)| is_port(port) && is_literal(&literal[1..])),
        Some(_) => false,
        None => {
            // A web address may not have a list of hosts with ports. Other URIs may, such as those of databases.
            let is_web = ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
            let colon = if is_web { host.find(':') } else { host.rfind(':') };
            colon.is_none_or(|at| is_port(&host[at..])) && is_host_text(host)
        }
    }
}

fn is_port(port: &str) -> bool {
    port.is_empty() || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether the text is an IPv6 address, which may have a zone after `%25`.
fn is_literal(literal: &str) -> bool {
    let (address, zone) = match literal.find("%25") {
        Some(at) => (&literal[..at], Some(&literal[at + 3..])),
        None => (literal, None),
    };
    address.parse::<Ipv6Addr>().is_ok() && zone.is_none_or(|zone| !zone.is_empty() && is_zone(zone))
}

/// Whether the text is a host name in which only non-ASCII bytes and the percent sign are escaped.
fn is_host_text(host: &str) -> bool {
    escapes(host).is_some_and(|found| found.iter().all(|byte| *byte >= 0x80 || *byte == b'%')) && is_plain_host(host)
}

/// Whether the text is a zone in which only spaces, percent signs and characters of host names are escaped.
fn is_zone(zone: &str) -> bool {
    let may_be_escaped = |byte: &u8| *byte == b'%' || *byte == b' ' || is_host_byte(*byte);
    escapes(zone).is_some_and(|found| found.iter().all(may_be_escaped)) && is_plain_host(zone)
}

fn is_plain_host(host: &str) -> bool {
    host.bytes().all(|byte| byte >= 0x80 || byte == b'%' || is_host_byte(byte))
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
}

fn has_good_escapes(text: &str) -> bool {
    escapes(text).is_some()
}

/// The bytes that are escaped, like `%41`. `None` if a percent sign is not followed by two hexadecimal digits.
fn escapes(text: &str) -> Option<Vec<u8>> {
    let digit = |c: Option<char>| c.and_then(|c| c.to_digit(16)).and_then(|digit| u8::try_from(digit).ok());
    text.split('%')
        .skip(1)
        .map(|after| {
            let mut characters = after.chars();
            Some(digit(characters.next())? * 16 + digit(characters.next())?)
        })
        .collect()
}
