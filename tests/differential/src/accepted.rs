//! The differences that we live with, each with its reason: `accepted.yaml`.

use std::path::Path;

use anyhow::Context;
use regex::Regex;
use serde::Deserialize;

/// An accepted difference, or several of one reason.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Why we live with it.
    pub reason: String,
    /// The steps as they stand in the file.
    pub steps: Vec<String>,
    /// The script as it stands in the file.
    pub script_pattern: String,
    script: Regex,
    step_patterns: Vec<Regex>,
    at: Vec<Regex>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    reason: String,
    script: String,
    steps: Vec<String>,
    #[serde(default)]
    at: Vec<String>,
}

/// Reads the file.
pub fn read(path: &Path) -> anyhow::Result<Vec<Entry>> {
    let place = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(place)?;
    let written: Vec<Written> = serde_saphyr::from_str(&text).with_context(place)?;
    written.into_iter().map(|entry| Entry::new(entry).with_context(place)).collect()
}

impl Entry {
    fn new(written: Written) -> anyhow::Result<Entry> {
        let all = |patterns: &[String]| patterns.iter().map(|pattern| matcher(pattern)).collect::<Result<_, _>>();
        Ok(Entry {
            reason: written.reason,
            script: matcher(&written.script)?,
            script_pattern: written.script,
            step_patterns: all(&written.steps)?,
            steps: written.steps,
            at: all(&written.at)?,
        })
    }

    /// Which of its steps speak of this difference, by their places. Without places in the answer (`at`) it speaks of
    /// all.
    #[must_use]
    pub fn covering(&self, script: &str, step: &str, path: &str) -> Vec<usize> {
        let is_here = self.at.is_empty() || self.at.iter().any(|at| at.is_match(path));
        if !is_here || !self.script.is_match(script) {
            return Vec::new();
        }
        let speaking = self.step_patterns.iter().enumerate().filter(|(_, pattern)| pattern.is_match(step));
        speaking.map(|(place, _)| place).collect()
    }
}

/// `*` is any text.
fn matcher(pattern: &str) -> Result<Regex, regex::Error> {
    Regex::new(&format!("^(?s:{})$", regex::escape(pattern).replace(r"\*", ".*")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_covers_what_it_names_and_no_more() {
        let written = Written {
            reason: String::new(),
            script: "lists".to_owned(),
            steps: vec!["GET * [a=1]".to_owned()],
            at: vec!["/body/items/*/x".to_owned()],
        };
        let entry = Entry::new(written).expect("an entry");
        let covers = |script, step, path| !entry.covering(script, step, path).is_empty();
        assert!(covers("lists", "GET /y [a=1]", "/body/items/3/x"));
        assert!(!covers("lists", "GET /y [a=1]", "/body/items/3/xy"));
        assert!(!covers("lists", "GET /y [a=11]", "/body/items/3/x"));
        assert!(!covers("list", "GET /y [a=1]", "/body/items/3/x"));
    }
}
