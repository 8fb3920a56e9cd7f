//! The code that would make two runs of the engine differ though they have one seed
//! (docs/adr/0025-a-simulated-world.md).

use std::sync::LazyLock;

use regex::Regex;

use crate::source::Source;

/// They ask the system: the crate that is there for it, the API server's own place for it, and what is kept on disk.
const SOURCES: [&str; 3] = ["host/world/", "host/apiserver/src/clock.rs", "host/wasm/src/artefacts/"];

/// Each `select!` that takes a random one of its branches that are ready.
pub(crate) fn unordered_selects(source: &Source) -> Vec<String> {
    static SELECT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bselect!\s*\{\s*(biased;)?").expect("it is one"));
    let found = SELECT.captures_iter(&source.code).filter(|found| found.get(1).is_none());
    found.filter_map(|found| found.get(0)).map(|found| source.place(found.start())).collect()
}

/// Each place that asks the system for chance or the time of day.
pub(crate) fn untold(source: &Source) -> Vec<String> {
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
    fn a_select_says_what_goes_first() {
        assert!(unordered_selects(&source("a.rs", "tokio::select! {\n biased;\n a = b => c }")).is_empty());
        assert_eq!(unordered_selects(&source("a.rs", "tokio::select! { a = b => c }")).len(), 1);
    }

    #[test]
    fn only_one_crate_asks_the_system_for_chance() {
        for line in ["rand::random()", "rand::rng().fill(b)", "SystemTime::now()", "Timestamp::now()"] {
            assert_eq!(untold(&source("host/kube/src/a.rs", line)).len(), 1, "{line}");
            assert!(untold(&source("host/world/src/lib.rs", line)).is_empty(), "{line}");
        }
        assert!(untold(&source("host/kube/src/a.rs", "windlass_world::random()")).is_empty());
    }
}
