//! Checks the formats of network addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Like `isIPv4` in `strfmt/default.go`: leading zeros are allowed, and so is an IPv6 address that ends in an IPv4
/// address.
pub(super) fn is_ipv4(text: &str) -> bool {
    text.contains('.') && without_leading_zeros(text).parse::<IpAddr>().is_ok()
}

/// Like `IsIPv6` in `govalidator`: zones are not allowed.
pub(super) fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

/// Like `isCIDR` in `strfmt/default.go`: leading zeros and bits outside the mask are allowed.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let address = without_leading_zeros(address);
    let widest = if address.parse::<Ipv4Addr>().is_ok() {
        32
    } else if address.parse::<Ipv6Addr>().is_ok() {
        128
    } else {
        return false;
    };
    bits.bytes().all(|byte| byte.is_ascii_digit())
        && without_leading_zeros(bits).parse::<u8>().is_ok_and(|bits| bits <= widest)
}

/// Like Go's `net.ParseMAC`: six, eight or twenty bytes, which are separated by colons or dashes, in pairs separated by
/// dots, or not separated.
pub(super) fn is_mac(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (separator, digits) = match (bytes.get(2), bytes.get(4)) {
        (Some(separator @ (b':' | b'-')), _) => (Some(*separator), 2),
        (_, Some(b'.')) => (Some(b'.'), 4),
        _ => (None, bytes.len()),
    };
    let groups: Vec<&[u8]> = bytes.split(|byte| Some(*byte) == separator).collect();
    groups.iter().all(|group| group.len() == digits && group.iter().all(u8::is_ascii_hexdigit))
        && [12, 16, 40].contains(&(groups.len() * digits))
}

/// Removes leading zeros from numbers, which Go allowed before 1.17. The library uses a copy of that code
/// (`utils/internal/third_party/forked/golang/net`).
fn without_leading_zeros(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut in_number = false;
    while let Some(c) = characters.next() {
        let is_digit_next = characters.peek().is_some_and(char::is_ascii_hexdigit);
        if c == '0' && !in_number && is_digit_next {
            continue;
        }
        in_number = c.is_ascii_hexdigit();
        kept.push(c);
    }
    kept
}
