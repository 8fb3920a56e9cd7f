//! The imports that a plugin called in the runs of a check.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// The imports of a plugin, by function, such as `cache.get`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportUse {
    /// The imports that were called in some run.
    pub called: Vec<String>,
    /// The imports that no run called. The code that calls them was not tested.
    pub never_called: Vec<String>,
}

impl ImportUse {
    /// Divides `functions`, the plugin's imports, by whether `seen` contains them.
    pub(crate) fn of(functions: &[String], seen: &BTreeSet<String>) -> ImportUse {
        let mut functions = functions.to_vec();
        functions.sort();
        let (called, never_called) = functions.into_iter().partition(|function| seen.contains(function));
        ImportUse { called, never_called }
    }

    /// The imports that were never called, for people. If no function of an interface was called, only the interface is
    /// listed.
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
    fn an_interface_without_any_call_is_listed_once() {
        let all =
            ["writes.apply", "writes.create", "live.get", "live.list", "events.emit", "log.log"].map(str::to_owned);
        let seen = BTreeSet::from(["writes.apply".to_owned(), "log.log".to_owned()]);
        let imports = ImportUse::of(&all, &seen);
        assert_eq!(imports.called, ["log.log", "writes.apply"]);
        assert_eq!(imports.never_called, ["events.emit", "live.get", "live.list", "writes.create"]);
        assert_eq!(imports.never_called_in_short(), ["events.emit", "live", "writes.create"]);
    }
}
