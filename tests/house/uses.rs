//! Parses `use` statements.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// One name that a statement imports.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    /// The full path, including the groups around it, without a final `*`.
    pub(crate) path: Vec<String>,
    /// The name in this file.
    pub(crate) name: String,
    /// The offset in the statement.
    pub(crate) at: usize,
}

/// All `use` statements of the code: their ranges and their texts.
pub(crate) fn statements(code: &str) -> Vec<(Range<usize>, &str)> {
    static USE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\buse\s([^;<>]*);").expect("it is one"));
    let found = USE.captures_iter(code).filter_map(|it| it.get(1));
    found.map(|it| (it.range(), it.as_str())).collect()
}

/// All names in the tree of a statement, such as `a::{b, c::{self, d as e}}`.
pub(crate) fn expanded(tree: &str) -> Vec<Import> {
    let mut found = Vec::new();
    expand(tree, 0, &[], &mut found);
    found
}

fn expand(tree: &str, offset: usize, before: &[String], found: &mut Vec<Import>) {
    let Some(open) = tree.find('{') else {
        return found.extend(import(tree, offset, before));
    };
    let names = names(&tree[..open]);
    let before = [before, &names].concat();
    let inner = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    for part in parts(inner) {
        expand(&inner[part.clone()], offset + open + 1 + part.start, &before, found);
    }
}

fn import(tree: &str, offset: usize, before: &[String]) -> Option<Import> {
    let at = offset + (tree.len() - tree.trim_start().len());
    let (path, alias) = match tree.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim().to_owned())),
        None => (tree, None),
    };
    let own = names(path);
    let is_the_group = own.len() == 1 && own[0] == "self" && !before.is_empty();
    let path = if is_the_group { before.to_vec() } else { [before, &own].concat() };
    let name = alias.or_else(|| path.last().cloned())?;
    Some(Import { path, name, at })
}

/// The names of a path, without a glob.
fn names(path: &str) -> Vec<String> {
    let names = path.split("::").map(str::trim);
    names.filter(|it| !it.is_empty() && *it != "*").map(str::to_owned).collect()
}

/// The parts of a group, split at its own commas but not at those of inner groups.
fn parts(group: &str) -> Vec<Range<usize>> {
    let (mut found, mut begin, mut depth) = (Vec::new(), 0, 0);
    for (offset, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(begin..offset);
                begin = offset + 1;
            }
            _ => {}
        }
    }
    found.push(begin..group.len());
    found.retain(|it| !group[it.clone()].trim().is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(tree: &str) -> Vec<String> {
        expanded(tree).into_iter().map(|it| format!("{}={}", it.name, it.path.join("::"))).collect()
    }

    #[test]
    fn groups_are_expanded_at_any_depth() {
        assert_eq!(paths("crate::a"), ["a=crate::a"]);
        assert_eq!(
            paths("crate::{\n    a::{self, b as c,\n    d::{E, F}},\n    g,\n}"),
            ["a=crate::a", "c=crate::a::b", "E=crate::a::d::E", "F=crate::a::d::F", "g=crate::g"]
        );
        assert_eq!(paths("super::a::*"), ["a=super::a"]);
        assert_eq!(paths("self::a"), ["a=self::a"]);
    }

    #[test]
    fn a_trait_bound_is_not_a_use_statement() {
        assert_eq!(statements("use a; fn f() -> impl Future + use<'a> { } pub use b::{c};").len(), 2);
    }

    #[test]
    fn each_used_name_has_its_line() {
        let tree = "crate::{a, b}";
        let places: Vec<_> = expanded(tree).into_iter().map(|it| &tree[it.at..=it.at]).collect();
        assert_eq!(places, ["a", "b"]);
    }
}
