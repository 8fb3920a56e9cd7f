//! The texts of errors that wrap others, without repeats.

use std::ops::Range;

/// The text to report for an error whose whole text is `inner`, given the text of an error that wraps it.
pub(crate) fn around(outer: &str, inner: &str, told: &str) -> String {
    match find(outer, inner).or_else(|| find(outer, told)) {
        Some(place) => [&outer[..place.start], told, &outer[place.end..]].concat(),
        None => before(outer, told),
    }
}

/// Joins two texts, if neither is empty.
pub(crate) fn before(outer: &str, told: &str) -> String {
    let colon = if outer.is_empty() || told.is_empty() { "" } else { ": " };
    [outer, colon, told].concat()
}

/// The place where one text contains another as a separate part: at its beginning or end, or separated from the words
/// around it by punctuation (by spaces, if it has several words itself), and not as a part of a name such as `shop-1`.
/// Anywhere else it occurs by chance. The last such place counts, because context mostly comes before an error.
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

/// The characters of names, beside letters and digits.
const OF_NAMES: [char; 4] = ['-', '_', '.', '/'];

/// Non-ASCII characters count as letters. A repeated text is better than a missing one, and Unicode's tables would
/// enlarge the component.
fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || !letter.is_ascii()
}
