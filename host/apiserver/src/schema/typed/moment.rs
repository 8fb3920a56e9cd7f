//! The canonical form of a time: in UTC, with whole seconds or microseconds.

use jiff::Timestamp;

/// Normalizes a `metav1.Time`. `None` if the text is empty.
pub(super) fn seconds(text: &str) -> Result<Option<String>, String> {
    read(text, "2006-01-02T15:04:05Z07:00", "%Y-%m-%dT%H:%M:%SZ")
}

/// Normalizes a `metav1.MicroTime`. `None` if the text is empty.
pub(super) fn micros(text: &str) -> Result<Option<String>, String> {
    read(text, "2006-01-02T15:04:05.000000Z07:00", "%Y-%m-%dT%H:%M:%S.%6fZ")
}

fn read(text: &str, layout: &str, form: &str) -> Result<Option<String>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let has_date = text.len() >= 20 && text.as_bytes()[10] == b'T' && !text.contains('[');
    let needs_fraction = layout.contains('.') && !text.contains('.');
    match text.parse::<Timestamp>() {
        Ok(moment) if has_date && !needs_fraction => Ok(Some(moment.strftime(form).to_string())),
        _ => Err(format!("parsing time \"{text}\" as \"{layout}\": {}", why(text, needs_fraction))),
    }
}

/// The place where Go's parser stops, in Go's words. Covers the usual mistakes: no date, no time, no fraction.
fn why(text: &str, needs_fraction: bool) -> String {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (rest, element) = match text.get(10..) {
        _ if digits < 4 => (text, "2006"),
        Some(rest) if needs_fraction && rest.len() >= 9 => (&rest[9..], ".000000"),
        Some(rest) if !rest.starts_with('T') => (rest, "T"),
        Some(rest) => (rest.get(9..).unwrap_or(rest), "Z07:00"),
        None => (text.get(4..).unwrap_or(""), "-"),
    };
    format!("cannot parse \"{rest}\" as \"{element}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_utc_with_its_own_precision() {
        assert_eq!(seconds("2026-01-01T00:00:00.7+02:00"), Ok(Some("2025-12-31T22:00:00Z".to_owned())));
        assert_eq!(micros("2026-01-01T00:00:00.123456789Z"), Ok(Some("2026-01-01T00:00:00.123456Z".to_owned())));
        assert_eq!(seconds(""), Ok(None));
    }

    #[test]
    fn an_invalid_time_is_refused_as_go_refuses_it() {
        let error = "parsing time \"now\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"now\" as \"2006\"";
        assert_eq!(seconds("now"), Err(error.to_owned()));
        let error = "parsing time \"2026-01-01T00:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\"";
        assert_eq!(micros("2026-01-01T00:00:00Z"), Err(error.to_owned()));
    }
}
