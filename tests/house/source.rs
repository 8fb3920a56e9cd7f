//! A Rust source in the form for the checks: without comments, strings and tests, but with all line numbers unchanged.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// The text of a file, and its code without comments, strings and tests.
pub(crate) struct Source {
    /// The path from the root of the checkout.
    pub(crate) path: String,
    /// The original text.
    pub(crate) text: String,
    /// The text with blanks instead of comments, strings and `#[cfg(test)]` items, so that offsets and lines stay the
    /// same.
    pub(crate) code: String,
    test_lines: usize,
}

/// A piece of code up to the `{`, `}` or `;` that ends it, with its block if it has one.
pub(crate) struct Statement<'a> {
    /// The text without the character that ends it.
    pub(crate) head: &'a str,
    /// The offset of `head`.
    pub(crate) at: usize,
    /// The range of its block, including the braces.
    pub(crate) body: Option<Range<usize>>,
    /// The heads of the blocks that contain it, outermost first.
    pub(crate) within: Vec<&'a str>,
}

impl Source {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let mut code = without_comments_and_strings(&text);
        let mut test_lines = 0;
        while let Some(item) = test_item(&code) {
            test_lines += code[item.clone()].matches('\n').count() + 1;
            blank(&mut code, item);
        }
        Self { path: path.into(), text, code, test_lines }
    }

    /// The code including its tests.
    pub(crate) fn code_with_tests(&self) -> String {
        without_comments_and_strings(&self.text)
    }

    /// The number of lines without the tests.
    pub(crate) fn lines_without_tests(&self) -> usize {
        self.text.lines().count() - self.test_lines.min(self.text.lines().count())
    }

    /// The number of the line at an offset.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.code[..offset].matches('\n').count() + 1
    }

    /// The place as `path:line: text`, which can be pasted into an editor.
    pub(crate) fn place(&self, offset: usize) -> String {
        let line = self.line(offset);
        format!("{}:{line}: {}", self.path, self.text.lines().nth(line - 1).unwrap_or_default().trim())
    }

    /// All statements, in the order of their beginnings.
    pub(crate) fn statements(&self) -> Vec<Statement<'_>> {
        let mut found: Vec<Statement<'_>> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let mut begin = 0;
        for (offset, byte) in self.code.bytes().enumerate() {
            if !matches!(byte, b'{' | b'}' | b';') {
                continue;
            }
            let raw = &self.code[begin..offset];
            let head = raw.trim();
            let at = begin + (raw.len() - raw.trim_start().len());
            let within = open.iter().map(|index| found[*index].head).collect();
            begin = offset + 1;
            match byte {
                b'{' => {
                    found.push(Statement { head, at, body: Some(offset..self.code.len()), within });
                    open.push(found.len() - 1);
                }
                b';' => found.push(Statement { head, at, body: None, within }),
                _ => {
                    if let Some(body) = open.pop().and_then(|index| found[index].body.as_mut()) {
                        body.end = offset + 1;
                    }
                }
            }
        }
        found
    }
}

/// Replaces all characters of a range with blanks, except line ends.
fn blank(code: &mut String, range: Range<usize>) {
    let blanks: String = code[range.clone()].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect();
    code.replace_range(range, &blanks);
}

fn without_comments_and_strings(text: &str) -> String {
    let mut code = text.to_owned();
    let mut at = 0;
    while at < text.len() {
        match not_code(text, at) {
            Some(end) => {
                blank(&mut code, at..end);
                at = end;
            }
            None => at += text[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    code
}

/// The end of the comment or literal that begins at `at`, if one begins there.
fn not_code(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    if rest.starts_with("//") {
        return Some(at + rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(at + block_comment(rest));
    }
    if rest.starts_with('"') {
        return Some(at + quoted(rest, '"'));
    }
    if rest.starts_with('\'') {
        return character(rest).map(|length| at + length);
    }
    let within_a_word = text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
        let behind = rest.strip_prefix(prefix).unwrap_or_default().trim_start_matches('#');
        behind.starts_with('"')
    });
    match prefix {
        Some(prefix) if !within_a_word => {
            let hashes = rest[prefix.len()..].find('"')?;
            let end = format!("\"{}", "#".repeat(hashes));
            let begin = prefix.len() + hashes + 1;
            Some(at + rest[begin..].find(&end).map_or(rest.len(), |length| begin + length + end.len()))
        }
        _ => None,
    }
}

/// The length of a comment, including comments inside it.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of a literal, including its quotes.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (offset, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return offset + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a character literal. `None` if the quote begins a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut characters = text.chars().skip(1);
    let (first, second) = (characters.next()?, characters.next()?);
    if first == '\\' {
        return Some(quoted(text, '\''));
    }
    (second == '\'').then(|| 2 + first.len_utf8())
}

/// The first item that exists only for tests, with its attribute.
fn test_item(code: &str) -> Option<Range<usize>> {
    let begin =
        ["#[cfg(test)]", "#[cfg(all(test,", "#![cfg(test)]"].into_iter().filter_map(|it| code.find(it)).min()?;
    if code[begin..].starts_with("#!") {
        return Some(begin..code.len());
    }
    let mut at = begin;
    // Skips the item's attributes.
    while code[at..].trim_start().starts_with('#') {
        let open = at + code[at..].find('[')?;
        at = open + balanced(&code[open..], '[', ']');
    }
    Some(begin..at + item(&code[at..]))
}

/// The length up to the bracket that closes the first `open`.
fn balanced(code: &str, open: char, close: char) -> usize {
    let mut depth = 0_usize;
    for (offset, character) in code.char_indices() {
        if character == open {
            depth += 1;
        } else if character == close {
            depth -= 1;
            if depth == 0 {
                return offset + 1;
            }
        }
    }
    code.len()
}

/// The length of an item, a statement, a field or a variant.
fn item(code: &str) -> usize {
    static FIELD: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^\s*(?:pub(?:\([^)]*\))?\s+)?\w+\s*(?::[^:]|[,(])").expect("it is one"));
    let is_field = FIELD.is_match(code);
    let mut depth = 0_i32;
    for (offset, character) in code.char_indices() {
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '<' if is_field => depth += 1,
            '>' if is_field => depth -= 1,
            ',' if is_field && depth == 0 => return offset + 1,
            '}' => return offset,
            ';' if depth == 0 => return offset + 1,
            '{' if depth == 0 => return offset + balanced(&code[offset..], '{', '}'),
            _ => {}
        }
        if depth < 0 {
            return offset;
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::new("a.rs", text).code
    }

    fn words(text: &str) -> Vec<String> {
        code(text).split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        assert_eq!(words("a /* b /* c */ \" */ d // \"e\nf"), ["a", "d", "f"]);
        assert_eq!(words(r##"a("x \" y", r#"z " z"#, br"\", 'w', '\'', '"')"##).concat(), "a(,,,,,)");
        assert_eq!(words("fn a<'b>(c: &'b str) -> r#type"), ["fn", "a<'b>(c:", "&'b", "str)", "->", "r#type"]);
        assert_eq!(words("for\"a\" über/*ü*/b"), ["for", "über", "b"]);
    }

    #[test]
    fn removed_comments_do_not_move_the_lines() {
        let source = Source::new("a.rs", "/* a\n b */ c\n\"d\n e\" f");
        assert_eq!(source.code.find('c').map(|at| source.line(at)), Some(2));
        assert_eq!(source.code.find('f').map(|at| source.place(at)).as_deref(), Some("a.rs:4: e\" f"));
    }

    #[test]
    fn code_only_for_tests_does_not_count() {
        assert_eq!(words("#[cfg(test)]\nmod tests;\nb"), ["b"]);
        assert_eq!(words("a;\n#[cfg(test)]\n#[allow(x[0])]\nmod tests { fn f() { } }\nb"), ["a;", "b"]);
        assert_eq!(words("#[cfg(test)] fn f<A, B>(a: [u8; 3]) -> X where A: B, B: C { { } } b"), ["b"]);
        assert_eq!(words("#[cfg(all(test, unix))] use a::{b, c}; d"), [";", "d"]);
        assert_eq!(words("struct S { #[cfg(test)] a: Map<u8, u8>, b: C }"), ["struct", "S", "{", "b:", "C", "}"]);
        assert_eq!(words("struct S { #[cfg(test)] pub a: u8 }"), ["struct", "S", "{", "}"]);
        assert_eq!(words("enum E { #[cfg(test)] A(u8, u8), B }"), ["enum", "E", "{", "B", "}"]);
        assert_eq!(words("a; #[cfg(test)] let x: u8 = f(1, 2); b"), ["a;", "b"]);
        assert_eq!(words("#![cfg(test)] a"), [""; 0]);
        assert_eq!(words("#[cfg(not(test))] a"), ["#[cfg(not(test))]", "a"]);
    }

    #[test]
    fn the_length_of_a_file_excludes_its_tests() {
        let source = Source::new("a.rs", "a\n\n// b\n#[cfg(test)]\nmod tests {\n    c\n}\n");
        assert_eq!(source.lines_without_tests(), 3);
    }

    #[test]
    fn a_statement_has_its_body_and_its_enclosing_blocks() {
        let source = Source::new("a.rs", "use a;\nimpl B {\n    fn c() {\n        d;\n    }\n}\nfn e() {}\n");
        let all = source.statements();
        let heads: Vec<_> = all.iter().map(|it| (it.head, it.within.join(" "))).collect();
        let expected = [("use a", ""), ("impl B", ""), ("fn c()", "impl B"), ("d", "impl B fn c()"), ("fn e()", "")];
        assert_eq!(heads, expected.map(|(head, within)| (head, within.to_owned())));
        let body = all[2].body.clone().expect("a body");
        assert_eq!((source.line(body.start), source.line(body.end)), (3, 5));
    }
}
