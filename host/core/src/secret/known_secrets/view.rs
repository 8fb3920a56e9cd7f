//! A text as a reader decodes it: URL or JSON escapes undone, or line breaks removed. Each byte of the view is mapped
//! to the part of the text that it stands for.

use std::ops::Range;

use crate::secret::credentials::percent_byte;

/// One decoding step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// `%41` becomes `A`.
    Url,
    /// As `Url`, and `+` becomes a blank.
    Form,
    /// `\u0041` becomes `A`.
    Json,
    /// White space is removed, even if written as `\n`.
    Folded,
}

/// Applies `readings` to `text`, one after the other. `None` if the last of them changes nothing.
pub(super) fn read(text: &[u8], readings: &[Reading]) -> Option<Vec<u8>> {
    let mut bytes = text.to_vec();
    for reading in readings {
        let mut next = Vec::with_capacity(bytes.len());
        reading.each(&bytes, &mut |byte, _| next.push(byte));
        if next == bytes {
            return None;
        }
        bytes = next;
    }
    Some(bytes)
}

/// The part of `text` that each byte returned by [`read`] stands for.
pub(super) fn places(text: &[u8], readings: &[Reading]) -> Vec<Range<usize>> {
    let mut bytes = text.to_vec();
    let mut places: Vec<Range<usize>> = (0..text.len()).map(|at| at..at + 1).collect();
    for reading in readings {
        let (mut next, mut next_places) = (Vec::new(), Vec::new());
        reading.each(&bytes, &mut |byte, at| {
            next.push(byte);
            next_places.push(places[at.start].start..places[at.end - 1].end);
        });
        (bytes, places) = (next, next_places);
    }
    places
}

impl Reading {
    /// Passes each decoded byte to `found`, with the range of the bytes that it was decoded from.
    fn each(self, bytes: &[u8], found: &mut dyn FnMut(u8, Range<usize>)) {
        let mut at = 0;
        while at < bytes.len() {
            at += self.step(&bytes[at..], &mut |byte, part| found(byte, at + part.start..at + part.end));
        }
    }

    /// Decodes the beginning of `rest`, which is not empty. Passes each decoded byte to `found`, with its range in
    /// `rest`. Returns the number of bytes that were consumed.
    fn step(self, rest: &[u8], found: &mut dyn FnMut(u8, Range<usize>)) -> usize {
        let first = rest[0];
        match self {
            Self::Url | Self::Form => {
                if let Some(byte) = percent_byte(rest) {
                    found(byte, 0..3);
                    return 3;
                }
                found(if self == Self::Form && first == b'+' { b' ' } else { first }, 0..1);
                1
            }
            Self::Json => {
                let Some((character, length)) = json_escape(rest) else {
                    found(first, 0..1);
                    return 1;
                };
                character.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| found(byte, 0..length));
                length
            }
            Self::Folded => {
                let (taken, is_blank) = blank(rest);
                if !is_blank {
                    rest[..taken].iter().enumerate().for_each(|(at, byte)| found(*byte, at..at + 1));
                }
                taken
            }
        }
    }
}

/// The character of an escape at the beginning of `rest`, and the escape's length.
fn json_escape(rest: &[u8]) -> Option<(char, usize)> {
    let character = match rest.strip_prefix(b"\\")?.first()? {
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        character @ (b'"' | b'\\' | b'/') => char::from(*character),
        b'u' => return unicode_escape(rest),
        _ => return None,
    };
    Some((character, 2))
}

/// Decodes `\u00e4`, or a surrogate pair.
fn unicode_escape(rest: &[u8]) -> Option<(char, usize)> {
    let unit = |rest: &[u8]| {
        let digits = rest.strip_prefix(b"\\u")?.get(..4)?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let first = unit(rest)?;
    if let Some(character) = char::from_u32(first.into()) {
        return Some((character, 6));
    }
    let second = unit(&rest[6..])?;
    Some((char::decode_utf16([first, second]).next()?.ok()?, 12))
}

/// If `rest` begins with white space: the length of this white space, including the backslashes of its escapes, and
/// true. Otherwise: the length of the text that is not white space, and false. A run of backslashes is consumed at
/// once, because looking at the run again for each backslash would take quadratic time.
fn blank(rest: &[u8]) -> (usize, bool) {
    if rest[0].is_ascii_whitespace() {
        return (1, true);
    }
    let backslashes = rest.iter().take_while(|byte| **byte == b'\\').count();
    let is_blank = backslashes > 0 && rest.get(backslashes).is_some_and(|byte| b"nrt".contains(byte));
    if is_blank { (backslashes + 1, true) } else { (backslashes.max(1), false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_backslashes_is_read_in_linear_time() {
        let text = [&b"\\ ".repeat(2)[..], b"a\\nb"].concat();
        assert_eq!(read(&text, &[Reading::Folded]).as_deref(), Some(&b"\\\\ab"[..]));
        let places = places(&text, &[Reading::Folded]);
        assert_eq!(places, [0..1, 2..3, 4..5, 7..8]);
        // Quadratic time would be 10¹³ steps.
        let (run, rest) = (4 << 20, b"\\".repeat(4 << 20));
        assert_eq!(read(&[&rest[..], b" "].concat(), &[Reading::Folded]).map(|view| view.len()), Some(run));
    }
}
