//! Checks that every type in the glossary exists.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

/// The names in the first column of the page's tables that look like types but do not exist in the code.
pub(crate) fn unknown_types(path: &str, page: &str, types: &BTreeSet<String>) -> Vec<String> {
    static NAME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"`(?:\w+::)*([A-Z]\w*[a-z]\w*)(?:<[^`]*>)?`").expect("it is one"));
    let mut found = Vec::new();
    for (index, line) in page.lines().enumerate() {
        let Some(row) = line.strip_prefix('|') else { continue };
        let cell = row.split('|').next().unwrap_or_default();
        for name in NAME.captures_iter(cell).filter_map(|it| it.get(1)) {
            if !types.contains(name.as_str()) {
                found.push(format!("{path}:{}: there is no type `{}`", index + 1, name.as_str()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_types_in_the_first_column_are_looked_for() {
        let types = BTreeSet::from(["LeaseTerm".to_owned(), "Queue".to_owned()]);
        let page = "| name | field |\n|---|---|\n| `LeaseTerm`, `core::Queue<K>` | `Lease` |\n| stamp | `Clock` |\n\
            | `module::Gone`, `route` | |\n`Prose`\n";
        assert_eq!(unknown_types("a.md", page, &types), ["a.md:5: there is no type `Gone`"]);
    }
}
