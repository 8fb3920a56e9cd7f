//! The string formats that Kubernetes checks. Formats that it does not know pass.
//!
//! The list is that of `apiextensions-apiserver/pkg/apiserver/validation/formats.go`. Rare ones that no operator's
//! definition uses (ISBN, credit cards, social security numbers, colours) are accepted unchecked.

use std::net::{Ipv4Addr, Ipv6Addr};

use jiff::{Timestamp, civil::Date};

/// Whether the text has the named format.
pub(super) fn matches(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => text.as_bytes().get(10).is_some_and(|at| b"Tt".contains(at)) && is_timestamp(text),
        "date" => text.len() == 10 && text.parse::<Date>().is_ok(),
        "duration" => is_duration(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "hostname" | "k8s-long-name" => text.len() <= 253 && text.split('.').all(|label| is_label(label, format)),
        "k8s-short-name" => is_label(text, format),
        "email" => is_email(text),
        "uri" => is_uri(text),
        "byte" => is_base64(text),
        "bsonobjectid" => text.len() == 24 && all_hex(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some(b'3')),
        "uuid4" => is_uuid(text, Some(b'4')),
        "uuid5" => is_uuid(text, Some(b'5')),
        _ => true,
    }
}

fn is_timestamp(text: &str) -> bool {
    // Annotations in brackets are jiff's (RFC 9557), not RFC 3339's.
    !text.contains('[') && text.parse::<Timestamp>().is_ok()
}

/// Go's durations: `1h30m`, `1.5s`, `-2m`; also the bare `0`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = rest.strip_suffix(after).unwrap_or_default();
        let counts = number.matches('.').count() <= 1 && number.contains(|c: char| c.is_ascii_digit());
        let unit = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"].iter().find_map(|unit| {
            // `m` must not eat the front of `ms`.
            let after_unit = after.strip_prefix(unit)?;
            (!after_unit.starts_with(char::is_alphabetic)).then_some(after_unit)
        });
        match unit {
            Some(after_unit) if counts => rest = after_unit,
            _ => return false,
        }
    }
    !text.is_empty() && !text.ends_with(['+', '-'])
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let widest = match (address.parse::<Ipv4Addr>(), address.parse::<Ipv6Addr>()) {
        (Ok(_), _) => 32,
        (_, Ok(_)) => 128,
        _ => return false,
    };
    bits.bytes().all(|b| b.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|bits| bits <= widest)
}

fn is_mac(text: &str) -> bool {
    [':', '-'].iter().any(|separator| {
        let octets: Vec<&str> = text.split(*separator).collect();
        [6, 8, 20].contains(&octets.len()) && octets.iter().all(|octet| octet.len() == 2 && all_hex(octet))
    })
}

fn is_label(label: &str, format: &str) -> bool {
    let letters = |c: char| c.is_ascii_lowercase() || (format == "hostname" && c.is_ascii_uppercase());
    let inner = |c: char| letters(c) || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&label.len()) && label.chars().all(inner) && !label.starts_with('-') && !label.ends_with('-')
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    !local.is_empty() && !domain.is_empty() && !text.contains(char::is_whitespace) && !local.contains('@')
}

/// Go's `url.ParseRequestURI`: absolute, or a path from the root.
fn is_uri(text: &str) -> bool {
    if text.contains(|c: char| c.is_ascii_control() || c == ' ') {
        return false;
    }
    let scheme = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    text.starts_with('/') || text.split_once(':').is_some_and(|(name, rest)| scheme(name) && !rest.is_empty())
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    text.len().is_multiple_of(4)
        && padding <= 2
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let digits: Vec<u8> = text.bytes().filter(|b| *b != b'-').collect();
    let grouped = text.len() == 32 || text.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    grouped
        && digits.len() == 32
        && digits.iter().all(u8::is_ascii_hexdigit)
        && version.is_none_or(|version| digits.get(12) == Some(&version))
}

fn all_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::matches;

    fn each(format: &str, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(matches(format, text), "{text:?} is a {format}");
        }
        for text in bad {
            assert!(!matches(format, text), "{text:?} is no {format}");
        }
    }

    #[test]
    fn known_formats_tell_good_from_bad() {
        each(
            "date-time",
            &["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.5+02:00"],
            &["2026-01-02", "2026-01-02 03:04:05Z", "soon", "", "2026-01-02T03:04:05Z[UTC]"],
        );
        each("date", &["2026-01-02"], &["2026-13-02", "2026-1-2", ""]);
        each("duration", &["1h30m", "1.5s", "0", "-2m", "10ms", "5µs"], &["", "5", "1x", "s", "-", "1.2.3s", "1m-"]);
        each("ipv4", &["10.0.0.1"], &["10.0.0", "::1", "10.0.0.256"]);
        each("ipv6", &["::1"], &["10.0.0.1", ":::"]);
        each("cidr", &["10.0.0.0/8", "fd00::/8"], &["10.0.0.0", "10.0.0.0/33", "x/1", "10.0.0.0/+8"]);
        each("mac", &["00:11:22:33:44:55"], &["00:11:22", "zz:11:22:33:44:55"]);
        each("hostname", &["a.b-c.d", "Example.com"], &["-a", "a..b", ""]);
        each("email", &["a@b.c"], &["a", "@b", "a@", "a b@c"]);
        each("uri", &["https://x.y/z", "/path"], &["x", "", "1:x", "a b:c"]);
        each("byte", &["", "YWJj", "YQ=="], &["YQ=", "YQ", "Y*==", "===="]);
        each("uuid4", &["123e4567-e89b-42d3-a456-426614174000"], &["123e4567-e89b-12d3-a456-426614174000", "x"]);
    }

    #[test]
    fn an_unknown_format_passes() {
        assert!(matches("password", "anything"));
        assert!(matches("no-such-format", ""));
    }
}
