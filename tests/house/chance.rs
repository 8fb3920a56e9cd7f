//! Code that would make two runs of the engine differ although they have the same seed
//! (docs/adr/0025-a-simulated-world.md).

use std::sync::LazyLock;

use regex::Regex;

use crate::source::Source;

/// Code that may ask the system: the crate for that purpose, the clock of the API server, and the artefacts on disk.
const SOURCES: [&str; 3] = ["host/world/", "host/apiserver/src/clock.rs", "host/wasm/src/artefacts/"];

/// Each `select!` that chooses randomly among its ready branches.
pub(crate) fn unordered_selects(source: &Source) -> Vec<String> {
    static SELECT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bselect!\s*\{\s*(biased;)?").expect("it is one"));
    let found = SELECT.captures_iter(&source.code).filter(|found| found.get(1).is_none());
    found.filter_map(|found| found.get(0)).map(|found| source.place(found.start())).collect()
}

/// Each place that asks the system for randomness or the time of day.
pub(crate) fn system_calls(source: &Source) -> Vec<String> {
    static ASKS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\b(?:rand::random|rand::rng|SystemTime::now|Timestamp::now)\b").expect("it is one")
    });
    if SOURCES.iter().any(|it| source.path.starts_with(it)) {
        return Vec::new();
    }
    ASKS.find_iter(&source.code).map(|found| source.place(found.start())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, line: &str) -> Source {
        Source::new(path, format!("fn a() {{\n    {line}\n}}\n"))
    }

    #[test]
    fn a_select_without_biased_is_reported() {
        assert!(unordered_selects(&source("a.rs", "tokio::select! {\n biased;\n a = b => c }")).is_empty());
        assert_eq!(unordered_selects(&source("a.rs", "tokio::select! { a = b => c }")).len(), 1);
    }

    #[test]
    fn random_numbers_and_times_outside_of_windlass_world_are_reported() {
        for line in ["rand::random()", "rand::rng().fill(b)", "SystemTime::now()", "Timestamp::now()"] {
            assert_eq!(system_calls(&source("host/kube/src/a.rs", line)).len(), 1, "{line}");
            assert!(system_calls(&source("host/world/src/lib.rs", line)).is_empty(), "{line}");
        }
        assert!(system_calls(&source("host/kube/src/a.rs", "windlass_world::random()")).is_empty());
    }
}
