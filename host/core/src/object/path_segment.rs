//! Names as segments of a URL path: which are valid, and how they are encoded (ADR 34).

use std::borrow::Cow;
use std::fmt::Write as _;

/// The reason why no object can have this name, whatever its kind. `None` if an object can have it. Each kind has
/// further rules, which the server checks. The rules are those of `k8s.io/apimachinery/pkg/api/validation/path`. In
/// addition, a name must not be empty.
#[must_use]
pub fn flaw(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("it is empty"),
        "." => Some("a name may not be '.'"),
        ".." => Some("a name may not be '..'"),
        name if name.contains('/') => Some("a name may not contain '/'"),
        name if name.contains('%') => Some("a name may not contain '%'"),
        _ => None,
    }
}

/// Appends `text` with everything but unreserved characters percent-encoded.
pub fn encode(target: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            target.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(target, "%{byte:02X}");
        }
    }
}

/// Decodes a path segment. A percent sign that encodes nothing stays.
#[must_use]
pub fn decode(segment: &str) -> Cow<'_, str> {
    let Some((first, rest)) = segment.split_once('%') else { return segment.into() };
    let mut bytes = first.as_bytes().to_vec();
    for part in rest.split('%') {
        let encoded = part.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if let Some(byte) = encoded.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            bytes.push(byte);
            bytes.extend(part.bytes().skip(2));
        } else {
            bytes.push(b'%');
            bytes.extend(part.bytes());
        }
    }
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_names_that_kubernetes_refuses_everywhere_have_a_flaw() {
        for name in ["", ".", "..", "a/b", "/", "a%2fb", "%"] {
            assert!(flaw(name).is_some(), "{name:?}");
        }
        for name in ["a", "a b", "x?y=z", "x#y", "é", "x\\y", "...", "system:node", "a*", "\u{1b}[31m", "a\nb"] {
            assert_eq!(flaw(name), None, "{name:?}");
        }
    }

    #[test]
    fn a_percent_sign_that_encodes_nothing_stays() {
        for (segment, text) in [("a%20b", "a b"), ("%", "%"), ("%zz%41", "%zzA"), ("a%4", "a%4"), ("%C3%A9", "é")] {
            assert_eq!(decode(segment), text);
        }
    }

    proptest! {
        #[test]
        fn an_encoded_name_is_one_step_of_a_path_and_stands_for_itself(name in any::<String>()) {
            let mut encoded = String::new();
            encode(&mut encoded, &name);
            prop_assert!(encoded.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~%".contains(&byte)));
            prop_assert_eq!(decode(&encoded), name);
        }
    }
}
