//! How deeply a script may nest. The parser calls itself for each level, and beyond what its stack holds it would end without a word.

/// Brackets within brackets, and blocks within blocks. Nobody writes a hundred.
const DEEPEST: usize = 100;

/// A place in the script that is nested too deeply, counted from one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooDeep {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// Looks for brackets and blocks that nest too deeply. Strings and comments count for nothing.
pub(crate) fn check(script: &str) -> Result<(), TooDeep> {
    let mut letters = script.chars().peekable();
    let (mut line, mut column, mut depth, mut at_begin, mut indent) = (1, 0, 0_usize, true, 0_usize);
    let mut quote: Option<(char, bool)> = None;
    while let Some(letter) = letters.next() {
        column += 1;
        if letter == '\n' {
            (line, column, at_begin, indent) = (line + 1, 0, true, 0);
            // A text of one line ends with it, if only by mistake.
            quote = quote.filter(|(_, is_long)| *is_long);
            continue;
        }
        if let Some((mark, is_long)) = quote {
            match letter {
                '\\' => {
                    column += usize::from(letters.next_if(|next| *next != '\n').is_some());
                }
                _ if letter == mark && (!is_long || twice(&mut letters, mark)) => {
                    column += if is_long { 2 } else { 0 };
                    quote = None;
                }
                _ => {}
            }
            continue;
        }
        if at_begin && (letter == ' ' || letter == '\t') {
            indent += 1;
            continue;
        }
        at_begin = false;
        match letter {
            '#' => while letters.next_if(|next| *next != '\n').is_some() {},
            '"' | '\'' => {
                let is_long = twice(&mut letters, letter);
                column += if is_long { 2 } else { 0 };
                quote = Some((letter, is_long));
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST || (depth == 0 && indent > 8 * DEEPEST) {
            return Err(TooDeep { line, column });
        }
    }
    Ok(())
}

/// Takes two more of `mark`, if they follow.
fn twice(letters: &mut std::iter::Peekable<std::str::Chars<'_>>, mark: char) -> bool {
    let mut ahead = letters.clone();
    if ahead.next() == Some(mark) && ahead.next() == Some(mark) {
        *letters = ahead;
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_count_and_what_is_within_texts_and_comments_does_not() {
        let deep = "(".repeat(101);
        assert_eq!(check(&format!("x = 1\ny = {deep}")), Err(TooDeep { line: 2, column: 105 }));
        for fine in [
            format!("# {deep}\n"),
            format!("x = \"{deep}\\\"{deep}\"\n"),
            format!("x = '''{deep}\n'{deep}'''\n"),
            "x = [\n".repeat(100),
            "f(1)\n".repeat(200),
        ] {
            assert_eq!(check(&fine), Ok(()), "{fine}");
        }
        assert!(check(&format!("x = ''\ny = {deep}")).is_err(), "an empty text ends at once");
    }
}
