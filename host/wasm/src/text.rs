//! Text that a guest wrote, made fit for a line of a log or of an error: a guest must not be able to forge a line, move
//! a terminal's cursor, hide what it wrote, or fill a disk.

use std::fmt::Write as _;

/// `text` on one line, control and direction characters escaped, and at most `limit` bytes long; what is cut off is
/// counted.
pub(crate) fn single_line(text: &str, limit: usize) -> String {
    let mut line = String::with_capacity(text.len().min(limit));
    for (at, character) in text.char_indices() {
        let before = line.len();
        if is_deceptive(character) {
            // Writing to a String cannot fail.
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

/// `fields` as `key=value key="a value"`, on one line and at most about `limit` bytes long.
pub(crate) fn fields(fields: &[(String, String)], limit: usize) -> String {
    let mut line = String::new();
    for (index, (key, value)) in fields.iter().enumerate() {
        if line.len() >= limit {
            let _ = write!(line, " … ({} more fields)", fields.len() - index);
            break;
        }
        if index > 0 {
            line.push(' ');
        }
        push_token(&mut line, key, limit);
        line.push('=');
        push_token(&mut line, value, limit);
    }
    line
}

/// `text` cut to at most `limit` bytes, between characters, its end replaced with an ellipsis.
pub(crate) fn shortened(mut text: String, limit: usize) -> String {
    const ELLIPSIS: &str = "…";
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit.saturating_sub(ELLIPSIS.len())));
        text.push_str(ELLIPSIS);
    }
    text
}

fn push_token(line: &mut String, token: &str, limit: usize) {
    let token = single_line(token, limit);
    if token.is_empty() || token.contains([' ', '=', '"']) {
        let _ = write!(line, "\"{}\"", token.replace('\\', "\\\\").replace('"', "\\\""));
    } else {
        line.push_str(&token);
    }
}

/// Control characters, line and paragraph separators, and those that change the direction of what follows.
fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
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
    fn a_field_cannot_pass_for_another() {
        let pairs = [("a".into(), "1 b=2".into()), ("c d".into(), String::new()), ("e".into(), "\"".into())];
        assert_eq!(fields(&pairs, 100), r#"a="1 b=2" "c d"="" e="\"""#);
    }

    #[test]
    fn many_fields_are_cut() {
        let pairs = vec![("key".to_owned(), "value".to_owned()); 1000];
        let line = fields(&pairs, 50);
        assert!(line.len() < 100 && line.ends_with("more fields)"), "{line}");
    }

    #[test]
    fn a_shortened_text_keeps_within_its_limit() {
        assert_eq!(shortened("grüße".into(), 7), "grüße");
        assert_eq!(shortened("grüße".into(), 6), "gr…");
    }
}
