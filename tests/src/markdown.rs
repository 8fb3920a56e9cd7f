//! The fenced blocks of a page, for tests that compare documentation with the program.

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    /// The text after the opening fence: the language, and words that classify the block.
    pub info: String,
    /// The lines between the fences.
    pub text: String,
    /// The line of the opening fence.
    pub line: usize,
}

/// The fenced blocks of `page`.
///
/// # Panics
/// If a fence is not closed.
#[must_use]
pub fn snippets(page: &str) -> Vec<Snippet> {
    let mut found = Vec::new();
    let mut open: Option<Snippet> = None;
    for (index, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), open.as_mut()) {
            (Some(info), None) => {
                open = Some(Snippet { info: info.to_owned(), text: String::new(), line: index + 1 });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(snippet)) => {
                snippet.text.push_str(line);
                snippet.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_its_info_its_lines_and_its_place() {
        let found = snippets("text\n```yaml policy\na: 1\nb: 2\n```\n```\n```\n");
        let expected = Snippet { info: "yaml policy".into(), text: "a: 1\nb: 2\n".into(), line: 2 };
        assert_eq!(found[0], expected);
        assert_eq!((found[1].text.as_str(), found.len()), ("", 2));
    }
}
