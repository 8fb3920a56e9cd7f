//! Characters with which untrusted text can deceive a reader: forge a line, move a terminal's cursor, or hide a part
//! of itself.

use std::borrow::Cow;
use std::fmt::Write as _;

/// True for control characters, line and paragraph separators, bidirectional controls, and invisible characters or
/// unusual blanks.
#[must_use]
pub fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{00ad}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{2800}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}')
}

/// Escapes deceptive characters in `text` as Rust does: `\u{202e}`. Line breaks stay.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_with(text, |character, into| {
        // Writing to a `String` cannot fail.
        let _ = write!(into, "{}", character.escape_default());
    })
}

/// Escapes deceptive characters in the JSON document `json` as JSON does: `\u202e`. Its meaning stays the same.
#[must_use]
pub fn escape_json(json: &str) -> Cow<'_, str> {
    escape_with(json, |character, into| {
        // All of these have four hex digits, and writing to a `String` cannot fail.
        let _ = write!(into, "\\u{:04x}", u32::from(character));
    })
}

/// Escapes deceptive characters in the labels and help of an `OpenMetrics` text. Backslashes are doubled there.
#[must_use]
pub fn escape_metrics(metrics: &str) -> Cow<'_, str> {
    escape_with(metrics, |character, into| {
        // Writing to a `String` cannot fail.
        let _ = write!(into, "\\{}", character.escape_default());
    })
}

/// As [`escape`], and on a single line.
#[must_use]
pub fn escape_line(text: &str) -> Cow<'_, str> {
    if text.contains('\n') { escape(text).replace('\n', "\\n").into() } else { escape(text) }
}

/// `text` on one line, with control and direction characters escaped, cut to `limit` bytes. Says how much was cut
/// off.
#[must_use]
pub fn single_line(text: &str, limit: usize) -> String {
    let mut line = String::with_capacity(text.len().min(limit));
    for (at, character) in text.char_indices() {
        let before = line.len();
        if is_deceptive(character) {
            // Writing to a `String` cannot fail.
            let _ = write!(line, "{}", character.escape_default());
        } else {
            line.push(character);
        }
        if line.len() > limit {
            line.truncate(before);
            let _ = write!(line, "… ({} more bytes)", text.len() - at);
            break;
        }
    }
    line
}

fn escape_with(text: &str, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    let must_go = |character: char| is_deceptive(character) && character != '\n';
    if !text.contains(must_go) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if must_go(character) {
            escape(character, &mut escaped);
        } else {
            escaped.push(character);
        }
    }
    escaped.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_cannot_be_forged() {
        assert_eq!(
            single_line("ok\n2026 ERROR \u{1b}[2J\u{202e}x\u{2028}", 100),
            "ok\\n2026 ERROR \\u{1b}[2J\\u{202e}x\\u{2028}"
        );
    }

    #[test]
    fn a_long_line_is_cut_between_characters_and_says_so() {
        assert_eq!(single_line("grüße", 3), "gr… (5 more bytes)");
        assert_eq!(single_line("short", 5), "short");
        assert_eq!(single_line("\n\n\n", 5), "\\n\\n… (1 more bytes)");
    }

    #[test]
    fn escaped_text_means_the_same_and_cannot_move_a_cursor() {
        let forged = "lines\nstay, \u{9b}2J, \u{202e}back and \u{2028}apart, \u{1b}[31m";
        assert_eq!(escape(forged), "lines\nstay, \\u{9b}2J, \\u{202e}back and \\u{2028}apart, \\u{1b}[31m");
        let json = format!("{:#}", serde_json::json!({ "text": forged }));
        let escaped = escape_json(&json);
        assert!(!escaped.replace('\n', "").contains(is_deceptive), "{escaped}");
        let read: serde_json::Value = serde_json::from_str(&escaped).expect("it is JSON");
        assert_eq!(read["text"], forged);
        assert!(matches!(escape_json("{\n}"), Cow::Borrowed(_)));
        assert_eq!(escape_line("a\nb\u{1b}"), "a\\nb\\u{1b}");
        assert_eq!(escape_metrics("m{a=\"\u{1b}\"} 1\n"), "m{a=\"\\\\u{1b}\"} 1\n");
    }
}
