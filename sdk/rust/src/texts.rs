//! The texts of errors that wrap other errors, without repeats.

use std::ops::Range;

/// Puts `message`, the text to report for an error, into the text of the error that wraps it (`outer`), in place of the
/// error's whole text (`inner`).
pub(crate) fn around(outer: &str, inner: &str, message: &str) -> String {
    match find(outer, inner).or_else(|| find(outer, message)) {
        Some(place) => [&outer[..place.start], message, &outer[place.end..]].concat(),
        None => before(outer, message),
    }
}

/// Joins two texts with a colon, unless one of them is empty.
pub(crate) fn before(outer: &str, message: &str) -> String {
    let colon = if outer.is_empty() || message.is_empty() { "" } else { ": " };
    [outer, colon, message].concat()
}

/// Finds one text as a separate part of another: at its beginning or end, or separated from the words around it by
/// punctuation (by spaces, if it has several words itself), and not inside a name such as `shop-1`. Any other
/// occurrence is taken for chance. If there are several such places, the last one is returned, because context mostly
/// comes before an error.
fn find(outer: &str, inner: &str) -> Option<Range<usize>> {
    if inner.is_empty() {
        return None;
    }
    let by_spaces = inner.contains(' ');
    let mut places = outer.rmatch_indices(inner).map(|(start, _)| start..start + inner.len());
    places.find(|place| is_set_off(&outer[..place.start], &outer[place.end..], by_spaces))
}

fn is_set_off(before: &str, after: &str, by_spaces: bool) -> bool {
    let is_nothing = |letter| letter == ' ' && !by_spaces;
    let (mut left, mut right) = (before.trim_end_matches(is_nothing), after.trim_start_matches(is_nothing));
    if left.len() == before.len() {
        left = left.strip_suffix(OF_NAMES).unwrap_or(left);
    }
    if right.len() == after.len() {
        right = right.strip_prefix(OF_NAMES).unwrap_or(right);
    }
    !left.ends_with(is_of_word) && !right.starts_with(is_of_word)
}

/// The characters that names contain besides letters and digits.
const OF_NAMES: [char; 4] = ['-', '_', '.', '/'];

/// Whether a character belongs to a word. Every non-ASCII character counts as a letter, because Unicode's tables would
/// enlarge the component. At worst a text is repeated.
fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || !letter.is_ascii()
}
