//! Makes a guest's text safe for a line of a log or an error. A guest must not be able to forge a line, move a
//! terminal's cursor, hide text, or fill a disk.

use std::borrow::Cow;

pub(crate) use windlass_core::deceptive::single_line;

/// `fields`, each `redacted` and on a single line, with at most about `limit` bytes in total. Fields beyond that are
/// not redacted, because that takes time.
pub(crate) fn fields<'a>(
    fields: &'a [(String, String)],
    limit: usize,
    redacted: impl Fn(&'a str) -> Cow<'a, str>,
) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut bytes = 0;
    for (index, (key, value)) in fields.iter().enumerate() {
        if bytes >= limit {
            pairs.push(("…".to_owned(), format!("{} more fields", fields.len() - index)));
            break;
        }
        let (key, value) = (single_line(&redacted(key), limit), single_line(&redacted(value), limit));
        // Including quotes, brackets and commas.
        bytes += key.len() + value.len() + 8;
        pairs.push((key, value));
    }
    pairs
}

/// `fields` as a JSON list of pairs, which the log's formats parse again. `None` if there are none.
pub(crate) fn list(fields: &[(String, String)]) -> Option<String> {
    if fields.is_empty() { None } else { serde_json::to_string(fields).ok() }
}

/// `text` truncated to at most `limit` bytes between characters, with an ellipsis at its end.
pub(crate) fn shortened(mut text: String, limit: usize) -> String {
    const ELLIPSIS: &str = "…";
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit.saturating_sub(ELLIPSIS.len())));
        text.push_str(ELLIPSIS);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn log_fields_are_quoted_so_that_values_cannot_forge_fields() {
        let pairs = [("a".into(), "1 b=2".into()), ("c d".into(), String::new()), ("e".into(), "\"".into())];
        let written = list(&fields(&pairs, 100, Cow::from)).expect("fields");
        assert_eq!(serde_json::from_str::<Vec<(String, String)>>(&written).expect("pairs"), pairs);
        assert_eq!(list(&fields(&[], 100, Cow::from)), None);
    }

    #[test]
    fn many_fields_are_cut() {
        let pairs = vec![("key".to_owned(), "value".to_owned()); 1000];
        let searches = Cell::new(0);
        let redacted = |text| {
            searches.set(searches.get() + 1);
            Cow::from(text)
        };
        let list = list(&fields(&pairs, 50, redacted)).expect("fields");
        assert_eq!(searches.get(), 8, "what is left out is not looked through");
        assert!(list.len() < 100 && list.ends_with(r#"["…","996 more fields"]]"#), "{list}");
    }

    #[test]
    fn a_shortened_text_keeps_within_its_limit() {
        assert_eq!(shortened("grüße".into(), 7), "grüße");
        assert_eq!(shortened("grüße".into(), 6), "gr…");
    }
}
