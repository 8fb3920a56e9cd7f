//! The form of log lines that operators read.

use std::sync::LazyLock;

use regex::Regex;

use crate::source::Source;

/// Warnings and errors without a second clause, which says what follows or what to do, as in `cannot watch; it will be
/// tried again until it works`. If the message begins with a value, its text is elsewhere.
pub(crate) fn without_a_second_clause(source: &Source) -> Vec<String> {
    static LINE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\btracing::(?:warn|error)!\(").expect("it is one"));
    let found = LINE.find_iter(&source.code).filter(|line| {
        let rest = &source.text[line.end()..line.end() + arguments(&source.code[line.end()..])];
        message(rest).is_some_and(|message| !message.starts_with('{') && !has_second_clause(&message))
    });
    found.map(|line| source.place(line.start())).collect()
}

/// The length of the arguments at the beginning of `code`, up to the parenthesis that ends them.
fn arguments(code: &str) -> usize {
    let mut open = 1_usize;
    let end = code.find(|character: char| {
        match character {
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
        open == 0
    });
    end.unwrap_or(code.len())
}

/// The last literal, because the message comes after the fields. `None` if the message is a value.
fn message(arguments: &str) -> Option<String> {
    static LITERAL: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#""((?:[^"\\]|\\[\s\S])*)""#).expect("it is one"));
    static CONTINUED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\\n\s*").expect("it is one"));
    let literal = LITERAL.captures_iter(arguments).last()?.get(1)?.as_str();
    Some(CONTINUED.replace_all(literal, "").into_owned())
}

fn has_second_clause(message: &str) -> bool {
    [": ", "; ", ", so ", ". "].iter().any(|end| message.split_once(end).is_some_and(|(_, rest)| !rest.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> usize {
        let text = format!("fn a() {{\n    if b(c) {{ {line}; }}\n}}\n");
        without_a_second_clause(&Source::new("a.rs", text)).len()
    }

    #[test]
    fn a_warning_has_a_second_clause() {
        for good in [
            r#"tracing::warn!(plugin, %error, "it failed; it is tried again")"#,
            r#"tracing::error!(key = key("a"), "not taken: {error}")"#,
            "tracing::warn!(a, \"it failed, so \\\n        it ends\")",
            r#"tracing::warn!("{warning}")"#,
            r#"tracing::info!("it works")"#,
        ] {
            assert_eq!(found(good), 0, "{good}");
        }
        for bad in [
            r#"tracing::warn!(a = b("c; d"), "it failed")"#,
            r#"tracing::error!("failed")"#,
            r#"tracing::warn!("not: ")"#,
        ] {
            assert_eq!(found(bad), 1, "{bad}");
        }
    }
}
