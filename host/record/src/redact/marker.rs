//! Markers, which replace redacted values in a recording.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;

use crate::json;

/// The beginning of a marker.
const BEGINS: &str = "<redacted:";
const ENDS: &str = ">";
/// The beginning of a marker in Base64: the characters that are the same whatever follows.
const BEGINS_IN_BASE64: &str = "PHJlZGFjdGVk";
/// The digest in markers of a replay, which does not know the key.
const UNKNOWN: &str = "unknown";
/// The text before the length of a hidden whole text: `<redacted:1f2e3d4c5b6a, 120 bytes>`.
const OF_LENGTH: &str = ", ";
const UNIT: &str = " bytes";
/// The number of hexadecimal digits in a marker.
const MARKER_DIGITS: usize = 12;

/// Creates markers. Equal values get equal markers. Without the key, a guess of a value cannot be tested.
#[derive(Clone)]
pub(crate) struct Markers {
    /// `None` in a replay, which does not know the key of the recording.
    key: Option<[u8; 32]>,
}

impl Markers {
    /// Creates markers with a new key. The key is not stored anywhere.
    pub(crate) fn with_new_key() -> Self {
        let mut key = [0; 32];
        windlass_world::fill(&mut key);
        Self { key: Some(key) }
    }

    /// Creates markers for a replay, whose recorded values are already redacted.
    pub(crate) fn of_replay() -> Self {
        Self { key: None }
    }

    /// The marker for `value`.
    pub(crate) fn of(&self, value: &[u8]) -> String {
        let Some(key) = &self.key else {
            let known = std::str::from_utf8(value).ok().filter(|value| is_marker(value));
            return known.map_or_else(|| format!("{BEGINS}{UNKNOWN}{ENDS}"), str::to_owned);
        };
        let mut hash = Hmac::<Sha256>::new_from_slice(key).unwrap_or_else(|_| unreachable!("any length is a key"));
        hash.update(value);
        let mut marker = BEGINS.to_owned();
        for byte in &hash.finalize().into_bytes()[..MARKER_DIGITS / 2] {
            let _ = write!(marker, "{byte:02x}");
        }
        marker + ENDS
    }

    /// The marker for a text that is hidden as a whole because it cannot be parsed. It includes the text's length in
    /// bytes.
    pub(crate) fn of_whole(&self, value: &[u8]) -> String {
        let marker = self.of(value);
        if self.key.is_none() {
            return marker;
        }
        format!("{}{OF_LENGTH}{}{UNIT}{ENDS}", marker.trim_end_matches(ENDS), value.len())
    }

    /// The marker for a Base64 value of `data`. The marker is encoded in Base64 too. Also returns the decoded value, if
    /// it is text.
    pub(crate) fn of_base64(&self, value: &str) -> (String, Option<String>) {
        match STANDARD.decode(value) {
            Ok(bytes) => (STANDARD.encode(self.of(&bytes)), String::from_utf8(bytes).ok()),
            Err(_) => (self.of(value.as_bytes()), None),
        }
    }
}

/// Whether `text` consists of one marker, possibly in Base64.
pub(super) fn is_whole(text: &str) -> bool {
    is_marker(text) || decoded(text).is_some()
}

fn is_marker(value: &str) -> bool {
    let inner = value.strip_prefix(BEGINS).and_then(|rest| rest.strip_suffix(ENDS));
    inner.is_some_and(is_name)
}

fn is_name(inner: &str) -> bool {
    let (inner, length) = inner.split_once(OF_LENGTH).map_or((inner, None), |(inner, length)| (inner, Some(length)));
    let number = length.map(|length| length.strip_suffix(UNIT).unwrap_or_default());
    if number.is_some_and(|it| it.is_empty() || !it.bytes().all(|byte| byte.is_ascii_digit())) {
        return false;
    }
    inner == UNKNOWN || (inner.len() == MARKER_DIGITS && inner.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Whether `text` contains a marker, possibly in Base64.
#[must_use]
pub fn is_redacted(text: &str) -> bool {
    text.contains(BEGINS) || text.contains(BEGINS_IN_BASE64)
}

/// Decodes a marker in Base64.
fn decoded(text: &str) -> Option<String> {
    let bytes = text.starts_with(BEGINS_IN_BASE64).then(|| STANDARD.decode(text).ok())??;
    String::from_utf8(bytes).ok().filter(|text| is_marker(text))
}

/// Replaces all markers in `text` by the same word. Also returns whether a replay made any of them.
fn levelled(text: &str) -> (String, bool) {
    let text = decoded(text).map_or_else(|| text.to_owned(), |marker| format!("base64 of {marker}"));
    let (mut level, mut rest, mut is_unknown) = (String::new(), text.as_str(), false);
    while let Some((before, after)) = rest.split_once(BEGINS) {
        level.push_str(before);
        level.push_str(BEGINS);
        rest = after;
        if let Some((name, behind)) = after.split_once(ENDS).filter(|(name, _)| is_name(name)) {
            is_unknown |= name == UNKNOWN;
            rest = behind;
        }
    }
    level.push_str(rest);
    (level, is_unknown)
}

/// Whether two texts are equal as far as this can be known. A secret in a replay cannot be compared with a redacted
/// value of the recording, so the two count as equal.
fn same_text(recorded: &str, replayed: &str) -> bool {
    if recorded == replayed {
        return true;
    }
    if !is_redacted(recorded) || !is_redacted(replayed) {
        return false;
    }
    let (recorded, replayed) = (levelled(recorded), levelled(replayed));
    recorded.0 == replayed.0 && (recorded.1 || replayed.1)
}

/// Compares JSON as [`same_text`] compares texts. JSON inside texts is compared as JSON.
pub(crate) fn same(recorded: &Value, replayed: &Value) -> bool {
    match (recorded, replayed) {
        (Value::String(recorded), Value::String(replayed)) => {
            same_text(recorded, replayed)
                || {
                    let document = |text: &str| json::document(text).filter(|it| it.is_object() || it.is_array());
                    matches!((document(recorded), document(replayed)), (Some(recorded), Some(replayed)) if same(&recorded, &replayed))
                }
        }
        (Value::Array(recorded), Value::Array(replayed)) => {
            recorded.len() == replayed.len() && recorded.iter().zip(replayed).all(|(a, b)| same(a, b))
        }
        (Value::Object(recorded), Value::Object(replayed)) => {
            recorded.len() == replayed.len()
                && recorded.iter().all(|(name, a)| replayed.get(name).is_some_and(|b| same(a, b)))
        }
        (recorded, replayed) => recorded == replayed,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_values_have_equal_markers_under_one_key() {
        let markers = Markers::with_new_key();
        assert_eq!(markers.of(b"hunter2"), markers.of(b"hunter2"));
        assert_ne!(markers.of(b"hunter2"), markers.of(b"hunter3"));
        assert_ne!(markers.of(b"hunter2"), Markers::with_new_key().of(b"hunter2"));
        assert!(is_marker(&markers.of(b"hunter2")));
        let whole = markers.of_whole(b"hunter2");
        assert!(is_marker(&whole) && whole.ends_with(", 7 bytes>"), "{whole}");
        assert_eq!(Markers::of_replay().of_whole(whole.as_bytes()), whole);
        assert!(!is_marker("<redacted:1f2e3d4c5b6a, seven bytes>"));
    }

    #[test]
    fn base64_gets_the_base64_of_the_decoded_values_marker() {
        let markers = Markers::with_new_key();
        let (encoded, plain) = markers.of_base64(&STANDARD.encode("hunter2"));
        assert_eq!(plain.as_deref(), Some("hunter2"));
        assert_eq!(STANDARD.decode(&encoded).expect("Base64"), markers.of(b"hunter2").into_bytes());
        assert!(is_redacted(&encoded));
    }

    #[test]
    fn a_replay_keeps_recorded_markers_and_hides_its_own_secrets() {
        let (recording, replay) = (Markers::with_new_key(), Markers::of_replay());
        let marker = recording.of(b"hunter2");
        assert_eq!(replay.of(marker.as_bytes()), marker);
        assert_eq!(replay.of(b"hunter2"), "<redacted:unknown>");
        assert_ne!(
            recording.of(marker.as_bytes()),
            marker,
            "a Secret that looks like a marker is redacted all the same"
        );
    }

    #[test]
    fn a_replays_secret_equals_any_redacted_value_and_nothing_else() {
        let recording = Markers::with_new_key();
        let (a, b) = (recording.of(b"a"), recording.of(b"b"));
        let unknown = Markers::of_replay().of(b"c");
        assert!(
            same(&json!(a), &json!(unknown))
                && same(&json!({"url": format!("x://{a}@h")}), &json!({"url": format!("x://{unknown}@h")}))
        );
        assert!(!same(&json!(a), &json!(b)) && !same(&json!(format!("x{a}")), &json!(format!("y{unknown}"))));
        assert!(!same(&json!("plain"), &json!(unknown)) && !same(&json!([a]), &json!([])));
        assert!(same(&json!(STANDARD.encode(&a)), &json!(STANDARD.encode(&unknown))));
        assert!(same(&json!("{\"a\": 1, \"b\": 2}"), &json!("{\"b\":2,\"a\":1}")));
    }
}
