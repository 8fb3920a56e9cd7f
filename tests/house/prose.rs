//! The checks of prose that a program can do.

use std::sync::LazyLock;

use regex::Regex;

/// The maximum width of a line of Markdown.
const MARKDOWN_WIDTH_MAX: usize = 120;

/// The maximum width of a comment line.
const COMMENT_WIDTH_MAX: usize = 120;

/// The maximum length of a test's name.
const TEST_NAME_CHARACTERS_MAX: usize = 70;

/// The lines with a section sign. It refers to a paper that readers do not have.
pub(crate) fn sections(path: &str, text: &str) -> Vec<String> {
    let found = text.lines().enumerate().filter(|(_, line)| line.contains('\u{a7}'));
    found.map(|(index, line)| place(path, index, line)).collect()
}

/// The doc comments that begin with a question word instead of a subject.
pub(crate) fn doc_comments(path: &str, text: &str) -> Vec<String> {
    static QUESTION: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^\s*//[/!] (?:What|Who|Whoever|Whatever)\b").expect("it is one"));
    let mut found = Vec::new();
    let mut within = false;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if !within && QUESTION.is_match(line) {
            found.push(place(path, index, line));
        }
        within = trimmed.starts_with("//!") || (trimmed.starts_with("///") && !trimmed.starts_with("////"));
    }
    found
}

/// The lines of Markdown that are too wide. Tables, code, the targets of links, and lines without spaces are exempt.
pub(crate) fn wide_lines(path: &str, text: &str) -> Vec<String> {
    static TARGET: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\]\([^)]*\)|^\[[^\]]*\]:.*$|<?https?://\S+").expect("it is one"));
    static SPAN: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`[^`]*`").expect("it is one"));
    let is_too_wide = |line: &str| {
        TARGET.replace_all(line, "]").chars().count() > MARKDOWN_WIDTH_MAX
            && SPAN.replace_all(line, "`").trim().contains(' ')
    };
    let mut found = Vec::new();
    let mut fence = None;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let marks = trimmed.len() - trimmed.trim_start_matches(['`', '~']).len();
        match fence {
            None if marks >= 3 => fence = Some(trimmed[..marks].to_owned()),
            Some(ref open) if trimmed.trim_end() == open => fence = None,
            None if !trimmed.starts_with('|') && is_too_wide(line) => {
                found.push(place(path, index, line));
            }
            _ => {}
        }
    }
    found
}

/// Comment lines that are too wide. Code, tables and long words are exempt.
pub(crate) fn wide_comments(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_code = false;
            continue;
        };
        let prose = comment.trim_start_matches(['/', '!']).trim();
        if prose.starts_with("```") {
            is_code = !is_code;
        } else if !is_code && !prose.starts_with('|') && line.chars().count() > COMMENT_WIDTH_MAX && prose.contains(' ')
        {
            found.push(place(path, index, line));
        }
    }
    found
}

/// The names of tests that are too long to read at a glance.
pub(crate) fn long_test_names(path: &str, text: &str) -> Vec<String> {
    static TEST: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"#\[(?:tokio::)?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:async )?fn (\w+)").expect("it is one")
    });
    let names = TEST.captures_iter(text).filter_map(|found| found.get(1));
    let long = names.filter(|name| name.len() > TEST_NAME_CHARACTERS_MAX);
    long.map(|name| place(path, text[..name.start()].matches('\n').count(), name.as_str())).collect()
}

fn place(path: &str, index: usize, line: &str) -> String {
    /// The part of a line that is enough to recognise it.
    const SHOWN_LINE_CHARACTERS: usize = 100;
    let line = line.trim();
    let shown: String = line.chars().take(SHOWN_LINE_CHARACTERS).collect();
    let dots = if shown.len() < line.len() { "…" } else { "" };
    format!("{path}:{}: {shown}{dots}", index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_sign_is_found() {
        assert_eq!(sections("a", "b\nc (\u{a7}3.2)"), ["a:2: c (\u{a7}3.2)"]);
    }

    #[test]
    fn a_doc_comment_that_begins_with_a_question_word_is_reported() {
        let text = "//! What is this?\n//! Who asks\n\n/// Whatever\n/// comes.\n#[a]\n/// The first.\n/// What a second line says.\n\
            /// Whole.\n    /// Who\n// What is no doc comment.\n";
        let expected = ["a:1: //! What is this?", "a:4: /// Whatever"];
        assert_eq!(doc_comments("a", text), expected);
        assert_eq!(doc_comments("a", "fn f() {}\n    /// Whoever\n"), ["a:2: /// Whoever"]);
    }

    #[test]
    fn only_prose_is_too_wide() {
        let wide = "ü ".repeat(61);
        let path = "a".repeat(100);
        let page = format!(
            "{wide}\n| {wide} |\n```sh\n{wide}\n```\n[text]({path}) and [more]({path}).\nhttps://{path}/{path}\n\
             [text]: {path}/{path}\n`{wide}`\n- {}\n- {}\n",
            "ü".repeat(118),
            "ü ".repeat(60)
        );
        let lines: Vec<_> = wide_lines("a", &page).iter().map(|it| it.split(':').nth(1).map(str::to_owned)).collect();
        assert_eq!(lines, [Some("1".to_owned()), Some("11".to_owned())]);
    }

    #[test]
    fn only_prose_in_a_comment_can_be_too_wide() {
        let (wide, whole) = ("ü ".repeat(60), "a".repeat(130));
        let text = format!(
            "// {wide}ü\n//! {}\n/// ```\n/// {wide}ü\n/// ```\n    /// {wide}\n// {whole}\nlet a = \"{wide} ü\";\n// | {wide} |\n",
            wide.trim()
        );
        let lines: Vec<_> =
            wide_comments("a", &text).iter().map(|it| it.split(':').nth(1).map(str::to_owned)).collect();
        assert_eq!(lines, ["1", "2", "6"].map(|line| Some(line.to_owned())));
    }

    #[test]
    fn a_test_with_a_long_name_is_found() {
        let name = |length: usize| "a".repeat(length);
        let text = format!(
            "#[test]\nfn {}() {{}}\n#[test]\n#[ignore]\nfn {}() {{}}\n#[tokio::test(start_paused = true)]\nasync fn {}() {{}}\nfn {}() {{}}",
            name(70),
            name(71),
            name(72),
            name(73)
        );
        assert_eq!(long_test_names("a", &text), [format!("a:5: {}", name(71)), format!("a:7: {}", name(72))]);
    }
}
