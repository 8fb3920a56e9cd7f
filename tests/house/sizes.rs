//! The maximum sizes of files and functions.

use std::sync::LazyLock;

use regex::Regex;

use crate::findings::Finding;
use crate::source::Source;

/// The most lines of a file, not counting its tests.
pub(crate) const FILE_LINES_MAX: usize = 400;

/// The most lines of a function, from its name to its last brace.
pub(crate) const FUNCTION_LINES_MAX: usize = 80;

/// Returns the file if it is too long.
pub(crate) fn file(source: &Source) -> Option<Finding> {
    let lines = source.lines_without_tests();
    (lines > FILE_LINES_MAX).then(|| Finding {
        of: source.path.clone(),
        text: format!("{}: {lines} lines without tests, of at most {FILE_LINES_MAX}", source.path),
    })
}

/// The functions that are too long.
pub(crate) fn functions(source: &Source) -> Vec<Finding> {
    static FUNCTION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bfn\s+(\w+)").expect("it is one"));
    let statements = source.statements();
    let with_body = statements.iter().filter_map(|it| Some((it.at, it.head, it.body.clone()?)));
    let found = with_body.filter_map(|(at, head, body)| {
        let name = FUNCTION.captures(head)?.get(1)?;
        let lines = source.line(body.end) - source.line(at + name.start()) + 1;
        (lines > FUNCTION_LINES_MAX).then(|| Finding {
            of: format!("{}: {}", source.path, name.as_str()),
            text: format!("{}: {lines} lines, of at most {FUNCTION_LINES_MAX}", source.place(at + name.start())),
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_measured_without_its_tests() {
        let file_of = |lines: usize| {
            let text = "a;\n".repeat(lines) + "#[cfg(test)]\nmod tests {\n" + &"b;\n".repeat(9) + "}\n";
            file(&Source::new("a.rs", text)).map(|it| it.text)
        };
        assert_eq!(file_of(400), None);
        assert_eq!(file_of(401).as_deref(), Some("a.rs: 401 lines without tests, of at most 400"));
    }

    #[test]
    fn a_function_is_measured_with_its_signature() {
        let functions_of = |lines: usize| {
            let text = format!("impl A {{\n    #[b]\n    fn c(\n    ) {{{}    }}\n}}\n", "\n".repeat(lines - 2));
            functions(&Source::new("a.rs", text)).into_iter().map(|it| (it.of, it.text)).collect::<Vec<_>>()
        };
        assert_eq!(functions_of(80), []);
        let expected = ("a.rs: c".to_owned(), "a.rs:3: fn c(: 81 lines, of at most 80".to_owned());
        assert_eq!(functions_of(81), [expected]);
    }
}
