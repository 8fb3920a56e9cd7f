//! Which of its imports a plugin has called in the runs of a check.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// The imports of a plugin, by function: `cache.get`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportUse {
    /// Those that were called in some run.
    pub called: Vec<String>,
    /// Those that were called in none: no run has come to the code that calls them.
    pub never_called: Vec<String>,
}

impl ImportUse {
    /// Of a plugin that imports `functions`, of which `seen` were called.
    pub(crate) fn of(functions: &[String], seen: &BTreeSet<String>) -> ImportUse {
        let mut functions = functions.to_vec();
        functions.sort();
        let (called, never_called) = functions.into_iter().partition(|function| seen.contains(function));
        ImportUse { called, never_called }
    }

    /// The imports that were never called, for people: an interface of which nothing was is named once, without its functions.
    #[must_use]
    pub fn never_called_in_short(&self) -> Vec<String> {
        let interface = |function: &str| function.split('.').next().unwrap_or_default().to_owned();
        let used: BTreeSet<String> = self.called.iter().map(|function| interface(function)).collect();
        let mut by_interface: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for function in &self.never_called {
            by_interface.entry(interface(function)).or_default().push(function.clone());
        }
        let short = |(interface, functions): (String, Vec<String>)| match functions.len() {
            2.. if !used.contains(&interface) => vec![interface],
            _ => functions,
        };
        by_interface.into_iter().flat_map(short).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_called_is_told_by_interface_where_nothing_of_it_was() {
        let all =
            ["writes.apply", "writes.create", "live.get", "live.list", "events.emit", "log.log"].map(str::to_owned);
        let seen = BTreeSet::from(["writes.apply".to_owned(), "log.log".to_owned()]);
        let imports = ImportUse::of(&all, &seen);
        assert_eq!(imports.called, ["log.log", "writes.apply"]);
        assert_eq!(imports.never_called, ["events.emit", "live.get", "live.list", "writes.create"]);
        assert_eq!(imports.never_called_in_short(), ["events.emit", "live", "writes.create"]);
    }
}
