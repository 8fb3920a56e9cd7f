//! The formats that a schema can require for a text or a number.
//!
//! Kubernetes ignores formats that `apiextensions-apiserver/pkg/apiserver/validation/formats.go` does not name. Each
//! format accepts exactly the values that `kube-openapi/pkg/validation/strfmt` and its `govalidator` accept, however
//! strange.

mod addresses;
mod email;
mod numerals;
mod times;
mod uri;

use std::sync::LazyLock;

use regex::Regex;

use super::Kind;

/// A format that Kubernetes checks.
#[derive(Clone, Debug)]
pub(super) struct Format {
    /// The name as it is in the schema. Errors use this name.
    pub(super) name: String,
    accepts: fn(&str) -> bool,
}

impl Format {
    /// The format for a value of this type. `None` if Kubernetes does not know the name, as in
    /// `StripUnsupportedFormatsPostProcessorForVersion`. Dashes in the name of a text format are ignored.
    pub(super) fn known(name: &str, kind: Option<Kind>) -> Option<Self> {
        let accepts = match kind {
            None | Some(Kind::String) => of_text(&name.replace('-', ""))?,
            Some(Kind::Integer) if ["int32", "int64"].contains(&name) => any,
            Some(Kind::Number) if ["float", "double"].contains(&name) => any,
            Some(_) => return None,
        };
        Some(Self { name: name.to_owned(), accepts })
    }

    /// The length in nanoseconds of a text in the format `duration`.
    pub(super) fn duration(text: &str) -> Option<i64> {
        times::duration(text)
    }

    /// Whether a text has the format. A number format accepts every text.
    pub(super) fn accepts(&self, text: &str) -> bool {
        (self.accepts)(text)
    }
}

fn any(_: &str) -> bool {
    true
}

fn of_text(name: &str) -> Option<fn(&str) -> bool> {
    Some(match name {
        "bsonobjectid" => is_object_id,
        "byte" => is_base64,
        "cidr" => addresses::is_cidr,
        "creditcard" => numerals::is_credit_card,
        "date" => times::is_date,
        "datetime" => times::is_date_time,
        "duration" => times::is_duration,
        "email" => email::is_address,
        "hexcolor" => is_hex_color,
        "hostname" => is_hostname,
        "ipv4" => addresses::is_ipv4,
        "ipv6" => addresses::is_ipv6,
        "isbn" => numerals::is_isbn,
        "isbn10" => numerals::is_isbn10,
        "isbn13" => numerals::is_isbn13,
        "k8slongname" => is_long_name,
        "k8sshortname" => is_short_name,
        "mac" => addresses::is_mac,
        "password" => any,
        "rgbcolor" => is_rgb_color,
        "ssn" => numerals::is_social_security_number,
        "uri" => uri::is_request_uri,
        "uuid" => |text| is_uuid(text, None, false),
        "uuid3" => |text| is_uuid(text, Some(b'3'), false),
        "uuid4" => |text| is_uuid(text, Some(b'4'), true),
        "uuid5" => |text| is_uuid(text, Some(b'5'), true),
        _ => return None,
    })
}

/// Compiles a pattern of this module.
fn pattern(source: &str) -> Regex {
    Regex::new(source).unwrap_or_else(|error| unreachable!("{source}: {error}"))
}

/// Like `IsHostname` in `strfmt/default.go`. A name of one label may have a dash only as its second character. A name
/// of several labels must end in a label of letters. Letters and symbols are those of Unicode.
fn is_hostname(text: &str) -> bool {
    static LABEL: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[0-9\p{S}\p{L}-]+$"));
    static LETTERS: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\p{L}+$"));
    const LABEL_BYTES_MAX: usize = 63;
    if text.len() > 255 || text.split('.').any(|label| label.len() > LABEL_BYTES_MAX || !LABEL.is_match(label)) {
        return false;
    }
    match text.rsplit_once('.') {
        None => {
            let mut characters = text.chars();
            characters.next() != Some('-') && !characters.skip(1).any(|c| c == '-')
        }
        Some((labels, last)) => {
            last.chars().count() >= 2
                && LETTERS.is_match(last)
                && labels.split('.').all(|label| !label.starts_with('-') && !label.ends_with('-'))
        }
    }
}

/// Like `IsShortName` in `strfmt/kubernetes-extensions.go`.
fn is_short_name(text: &str) -> bool {
    text.len() <= 63 && is_name_part(text)
}

/// Like `IsLongName` in `strfmt/kubernetes-extensions.go`: labels may have any length.
fn is_long_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_name_part)
}

fn is_name_part(part: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !part.is_empty() && part.bytes().all(is_inner) && !part.starts_with('-') && !part.ends_with('-')
}

/// Like `IsBase64` in `govalidator`: the standard alphabet with padding, and at least one byte.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    !digits.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - digits.len() <= 2
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
}

/// Like `ObjectIDFromHex` in `strfmt/bson/objectid.go`.
fn is_object_id(text: &str) -> bool {
    text.len() == 24 && all_hexadecimal(text)
}

/// Like `IsHexcolor` in `govalidator`.
fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    [3, 6].contains(&digits.len()) && all_hexadecimal(digits)
}

/// Like `IsRGBcolor` in `govalidator`.
fn is_rgb_color(text: &str) -> bool {
    let Some(inside) = text.strip_prefix("rgb(").and_then(|text| text.strip_suffix(')')) else { return false };
    let parts: Vec<&str> = inside.split(',').map(|part| part.trim_matches(is_go_space)).collect();
    let is_part = |part: &&str| {
        part.bytes().all(|byte| byte.is_ascii_digit())
            && (*part == "0" || !part.starts_with('0'))
            && part.parse::<u8>().is_ok()
    };
    parts.len() == 3 && parts.iter().all(is_part)
}

/// Like `IsUUID` and similar functions in `strfmt/default.go`: any of the dashes may be missing, and version 3 has no
/// variant.
fn is_uuid(text: &str, version: Option<u8>, has_variant: bool) -> bool {
    let mut rest = text.as_bytes();
    let mut digits = Vec::with_capacity(32);
    for length in [8, 4, 4, 4, 12] {
        if !digits.is_empty() {
            rest = rest.strip_prefix(b"-").unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(length) else { return false };
        digits.extend_from_slice(group);
        rest = after;
    }
    rest.is_empty()
        && digits.iter().all(u8::is_ascii_hexdigit)
        && version.is_none_or(|version| digits[12] == version)
        && (!has_variant || b"89abAB".contains(&digits[16]))
}

fn all_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether `\s` in a Go pattern matches the character.
fn is_go_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}

#[cfg(test)]
mod tests;
