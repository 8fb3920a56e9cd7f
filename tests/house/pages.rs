//! Checks that files named in prose exist.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

/// The paths of sources and pages that a page or a comment names and that do not exist. `core/src/queue` is enough for
/// `host/core/src/queue.rs`.
pub(crate) fn missing_files(path: &str, text: &str, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    static NAMED: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?:^|[^\w./:-])((?:[\w.-]+/)*[\w-]+/(?:\{[\w,-]+\}|[\w-]+)\.(?:rs|md)|[\w-]+/src(?:/[\w-]+)+)\b")
            .expect("it is one")
    });
    let is_source = Path::new(path).extension().is_none_or(|it| it != "md");
    let prose = text.lines().enumerate().filter(|(_, line)| !is_source || line.trim_start().starts_with("//"));
    let mut found = Vec::new();
    for (index, line) in prose {
        for named in NAMED.captures_iter(line).filter_map(|it| it.get(1)) {
            for name in alternatives(named.as_str()) {
                if !is_there(name.trim_start_matches("../").trim_start_matches("./")) {
                    found.push(format!("{path}:{}: there is no {name}", index + 1));
                }
            }
        }
    }
    found
}

/// The scripts of this project that a workflow or a recipe calls and that do not exist.
pub(crate) fn missing_scripts(path: &str, text: &str, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    static CALLED: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?:^|[^\w./-])((?:tools|\.ci)/[\w.-]*\w)").expect("it is one"));
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let called = CALLED.captures_iter(line).filter_map(|it| it.get(1)).map(|it| it.as_str());
        found.extend(called.filter(|it| !is_there(it)).map(|it| format!("{path}:{}: there is no {it}", index + 1)));
    }
    found
}

/// Expands a group in braces to the paths that it stands for.
fn alternatives(path: &str) -> Vec<String> {
    let Some((before, (inner, behind))) = path.split_once('{').and_then(|(a, b)| Some((a, b.split_once('}')?))) else {
        return vec![path.to_owned()];
    };
    inner.split(',').map(|it| format!("{before}{it}{behind}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_only_in_prose() {
        let is_there = |path: &str| path == "core/src/queue" || path == "docs/a.md" || path == "tests/b.rs";
        let page = "`core/src/queue/`, [a](../docs/a.md) and `tests/{b,c}.rs`\n`kube/src/gone.rs`, https://d.e/f/g.md";
        let expected = ["x.md:1: there is no tests/c.rs", "x.md:2: there is no kube/src/gone.rs"];
        assert_eq!(missing_files("x.md", page, is_there), expected);
        let source = "let a = \"kube/src/gone.rs\";\n    // See kube/src/gone.rs.\n";
        assert_eq!(missing_files("x.rs", source, is_there), ["x.rs:2: there is no kube/src/gone.rs"]);
    }

    #[test]
    fn called_scripts_are_found() {
        let is_there = |path: &str| path == "tools/a" || path == ".ci/run";
        let text = "run: tools/a --flag\nx=$(tools/b-c)\n\t@tools/a; .ci/gone\n.ci/run, my/tools/d and tools/";
        let expected = ["x.yaml:2: there is no tools/b-c", "x.yaml:3: there is no .ci/gone"];
        assert_eq!(missing_scripts("x.yaml", text, is_there), expected);
    }
}
