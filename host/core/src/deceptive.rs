//! Characters with which a text that a stranger wrote could pass for another: forge a line, move a terminal's cursor, or hide a
//! part of itself.

/// True for control characters, line and paragraph separators, and those that change the direction of what follows.
#[must_use]
pub fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}
