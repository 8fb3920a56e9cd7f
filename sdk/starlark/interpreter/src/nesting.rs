//! Limits how deeply a script may nest. The parser recurses for each level, and would overflow its stack without a
//! message.

/// The most levels of nested brackets and blocks. Real scripts never have a hundred.
const SOURCE_DEPTH_MAX: usize = 100;

/// The place in the script that is nested too deeply, counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooDeep {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// A string literal that is being read.
struct Quote {
    mark: char,
    /// Whether it has three quotes at each end.
    is_long: bool,
    /// For an f-string: the depth of brackets in an expression in it.
    expressions: Option<usize>,
}

impl Quote {
    /// Reads a letter of an f-string, and returns how deep the expression is nested after it.
    fn expression(&mut self, letter: char) -> usize {
        let Some(depth) = &mut self.expressions else { return 0 };
        match letter {
            '{' => *depth += 1,
            '(' | '[' if *depth > 0 => *depth += 1,
            ')' | ']' | '}' => *depth = depth.saturating_sub(1),
            _ => {}
        }
        *depth
    }
}

/// Finds brackets and blocks that nest too deeply. It skips strings and comments, but not the expressions in the braces
/// of an f-string.
pub(crate) fn check(script: &str) -> Result<(), TooDeep> {
    let mut letters = script.chars().peekable();
    let (mut line, mut column, mut depth, mut at_begin, mut indent) = (1, 0, 0_usize, true, 0_usize);
    let mut quote: Option<Quote> = None;
    let mut before = ' ';
    while let Some(letter) = letters.next() {
        column += 1;
        if letter == '\n' {
            (line, column, at_begin, indent) = (line + 1, 0, true, 0);
            // A short string literal ends with its line, even if the closing quote is missing.
            quote = quote.filter(|quote| quote.is_long);
            continue;
        }
        if let Some(text) = &mut quote {
            match letter {
                '\\' => {
                    column += usize::from(letters.next_if(|next| *next != '\n').is_some());
                }
                _ if letter == text.mark && (!text.is_long || twice(&mut letters, text.mark)) => {
                    column += if text.is_long { 2 } else { 0 };
                    quote = None;
                }
                _ if text.expression(letter) > SOURCE_DEPTH_MAX => return Err(TooDeep { line, column }),
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
                quote = Some(Quote { mark: letter, is_long, expressions: matches!(before, 'f' | 'F').then_some(0) });
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = letter;
        if depth > SOURCE_DEPTH_MAX || (depth == 0 && indent > 8 * SOURCE_DEPTH_MAX) {
            return Err(TooDeep { line, column });
        }
    }
    Ok(())
}

/// Reads two more of `mark`, if they follow.
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
    fn only_brackets_outside_of_texts_and_comments_count() {
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
        assert_eq!(check(&format!("x = f'a{{{deep}'")), Err(TooDeep { line: 1, column: 108 }));
        assert_eq!(check(&format!("x = f'{deep}'\n{}", "y = f'{a[0]} {{b}} :('\n".repeat(200))), Ok(()));
        assert!(check(&format!("x = ''\ny = {deep}")).is_err(), "an empty text ends at once");
    }
}
