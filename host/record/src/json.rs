//! Reads JSON that a plugin or a stranger wrote, within a bound: a value of two bytes takes thirty times as many in memory.

use serde_json::Value;

/// The most values of a document. The largest objects that a cluster keeps have a hundredth of that.
pub(crate) const DOCUMENT_VALUES_MAX: usize = 2_000_000;

/// The document that `text` is. None: it is none, or has more than [`DOCUMENT_VALUES_MAX`].
pub(crate) fn document(text: &str) -> Option<Value> {
    if values(text.as_bytes()) > DOCUMENT_VALUES_MAX { None } else { serde_json::from_str(text).ok() }
}

/// How many values a JSON document has, at most.
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
