//! Parses JSON from untrusted sources within a limit: a value of two bytes can take sixty bytes of memory once it is
//! parsed.

use serde_json::Value;

/// The maximum number of values in a document. The largest objects in a cluster have a hundredth as many.
pub(crate) const DOCUMENT_VALUES_MAX: usize = 2_000_000;

/// Parses `text`. `None` if it is not JSON, or has more than [`DOCUMENT_VALUES_MAX`] values.
pub(crate) fn document(text: &str) -> Option<Value> {
    if values(text.as_bytes()) > DOCUMENT_VALUES_MAX { None } else { serde_json::from_str(text).ok() }
}

/// An upper bound for the number of values in a JSON document.
pub(crate) fn values(json: &[u8]) -> usize {
    let (mut count, mut is_text, mut is_escaped) = (1, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b':' | b'[' | b'{' if !is_text => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_before_they_take_memory() {
        assert_eq!(["1", "[1,2]", r#"{"a":"[1,2]"}"#, r#"["\",,"]"#].map(|it| values(it.as_bytes())), [1, 3, 3, 2]);
        assert_eq!(document(r#"{"a":1}"#), Some(serde_json::json!({"a": 1})));
        assert_eq!(document(&format!("[{}1]", "1,".repeat(DOCUMENT_VALUES_MAX))), None);
    }
}
