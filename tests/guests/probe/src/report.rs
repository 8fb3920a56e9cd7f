//! The report for a test, as log lines, which work whatever state the API server is in.
//!
//! A line is `probe `, a word, a space, and a JSON object in ASCII, so that the host need not escape anything.

use std::fmt::Write as _;

use serde_json::{Value, json};
use windlass_sdk::Request;
use windlass_sdk::log::{self, Level};

use crate::wire::{Answer, document};

/// The maximum length of a line. The host cuts lines at 8 KiB, and drops a call's log beyond 256 KiB.
const LINE_BYTES_MAX: usize = 6 << 10;
/// The number of bytes to show of a value that is too long.
const SHOWN_HEAD_BYTES: usize = 512;

/// The request of this call, without its object.
pub(crate) fn request(request: &Request) -> Value {
    json!({
        "controller": request.controller, "namespace": request.namespace, "name": request.name, "uid": request.uid,
        "deleting": request.deleting, "attempt": request.attempt, "traceId": request.trace_id,
        "generation": request.object_json().map(document).map(|it| it["metadata"]["generation"].clone()),
    })
}

/// Reports that the primary is gone, so there is no script to run.
pub(crate) fn gone(request: &Request) {
    line("gone", &self::request(request));
}

/// Reports the start of a script.
pub(crate) fn begin(run: &str, request: &Value) {
    line("begin", &json!({"run": run, "request": request}));
}

/// Reports the outcome of a step.
pub(crate) fn result(run: &str, id: &str, call: &str, answer: &Answer) {
    let (word, value) = match answer {
        Ok(value) => ("ok", value),
        Err(error) => ("error", error),
    };
    let mut result = json!({"run": run, "id": id, "call": call});
    result[word] = shortened(value);
    line("result", &result);
}

/// Reports that a script was ended by `step`.
pub(crate) fn end(run: &str, step: &str) {
    line("end", &json!({"run": run, "by": step}));
}

/// The value or, if it is too long, its length, its FNV-1a hash and its beginning.
fn shortened(value: &Value) -> Value {
    let text = ascii(&value.to_string());
    if text.len() <= LINE_BYTES_MAX {
        return value.clone();
    }
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    json!({"shortened": {"bytes": text.len(), "hash": format!("{hash:016x}"), "head": &text[..SHOWN_HEAD_BYTES]}})
}

fn line(word: &str, value: &Value) {
    log::write(Level::Info, &format!("probe {word} {}", ascii(&value.to_string())), &[]);
}

/// JSON text with only ASCII characters.
fn ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() && character != '\u{7f}' {
            ascii.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(ascii, "\\u{unit:04x}");
            }
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_ascii_with_the_same_json_value() {
        let value = json!({"text": "grüße \u{202e}𝄞\u{7f}\n"});
        let text = ascii(&value.to_string());
        assert!(text.bytes().all(|byte| (b' '..0x7f).contains(&byte)), "{text}");
        assert_eq!(document(&text), value);
    }

    #[test]
    fn a_value_that_is_too_long_shows_its_length_and_its_beginning() {
        let short = shortened(&Value::from("x".repeat(LINE_BYTES_MAX)));
        assert_eq!(short["shortened"]["bytes"], LINE_BYTES_MAX + 2);
        assert_ne!(
            short["shortened"]["hash"],
            shortened(&Value::from("y".repeat(LINE_BYTES_MAX)))["shortened"]["hash"]
        );
    }
}
