//! The lines of code of the drop-ins. The rule is the one by which the originals' lines were counted: lines of source
//! files that are neither blank nor only a comment, without tests.

use std::path::Path;

use anyhow::{Context, ensure};
use windlass_tests::originals::Subject;

/// Counts the lines of a drop-in.
pub(crate) fn lines_of(subject: &Subject) -> anyhow::Result<usize> {
    let mut sum = 0;
    for pattern in &subject.sources {
        let (folder, pattern) = pattern.rsplit_once('/').unwrap_or(("", pattern));
        let mut files = Vec::new();
        for entry in std::fs::read_dir(subject.folder().join(folder))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).context("a name in UTF-8")?;
            if fits(pattern, name) && !is_test(name) {
                files.push(path.clone());
            }
        }
        ensure!(!files.is_empty(), "{} has no source {pattern}", subject.name);
        for file in files {
            sum += lines(&std::fs::read_to_string(&file)?, comment_mark(&file));
        }
    }
    Ok(sum)
}

/// Whether a name fits a pattern, which may begin with `*`.
fn fits(pattern: &str, name: &str) -> bool {
    pattern.strip_prefix('*').map_or(pattern == name, |end| name.ends_with(end))
}

fn is_test(name: &str) -> bool {
    name == "tests.rs" || name.ends_with(".test.ts") || name.ends_with("_test.go") || name.starts_with("test_")
}

fn comment_mark(file: &Path) -> &'static str {
    if file.extension().is_some_and(|it| it == "py" || it == "star") { "#" } else { "//" }
}

/// Counts the lines that are neither blank nor only a comment.
fn lines(text: &str, comment_mark: &str) -> usize {
    let (mut count, mut is_in_block) = (0, false);
    for line in text.lines().map(str::trim) {
        if is_in_block || line.starts_with("/*") {
            is_in_block = !line.contains("*/");
        } else if !line.is_empty() && !line.starts_with(comment_mark) {
            count += 1;
        }
    }
    count
}
