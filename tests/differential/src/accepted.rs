//! The accepted differences, each with its reason: `accepted.yaml`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::run::Outcome;

/// The reason of a new difference. A person must replace it.
const NO_REASON: &str = "";

const HEAD: &str =
    "# Accepted differences from the real server, by reason, script and step; the real server's value comes first.
# `cargo run -p windlass-differential -- --update` writes this file and keeps the reasons; README.md explains it.
";

/// All accepted differences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// The reason for each accepted difference.
    reasons: BTreeMap<Accepting, String>,
}

/// An accepted difference of a step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Accepting {
    /// `script: step`.
    step: String,
    /// The summary of the difference: the path and both values.
    summary: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReasonGroup {
    reason: String,
    steps: BTreeMap<String, Vec<String>>,
}

impl Accepted {
    /// Reads the file.
    pub fn read(path: &Path) -> anyhow::Result<Accepted> {
        let place = || path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(place)?;
        Accepted::parse(&text).with_context(place)
    }

    fn parse(text: &str) -> anyhow::Result<Accepted> {
        let groups: Vec<ReasonGroup> = serde_saphyr::from_str(text)?;
        let mut reasons = BTreeMap::new();
        for ReasonGroup { reason, steps } in groups {
            for (step, summaries) in steps {
                for summary in summaries {
                    let accepting = Accepting { step: step.clone(), summary };
                    let place = format!("{} {}", accepting.step, accepting.summary);
                    ensure!(reasons.insert(accepting, reason.clone()).is_none(), "accepted twice: {place}");
                }
            }
        }
        Ok(Accepted { reasons })
    }

    /// Whether this difference of the outcome is accepted.
    #[must_use]
    pub fn contains(&self, outcome: &Outcome, summary: &str) -> bool {
        let accepting = Accepting { step: outcome.title(), summary: summary.to_owned() };
        self.reasons.get(&accepting).is_some_and(|reason| reason != NO_REASON)
    }

    /// The accepted differences of these scripts that no outcome has any more, one per line.
    #[must_use]
    pub fn gone(&self, outcomes: &[Outcome]) -> String {
        let found = found(outcomes);
        let scripts = scripts(outcomes);
        let mut lines = String::new();
        for accepting in self.reasons.keys() {
            if scripts.contains(script(&accepting.step)) && !found.contains(accepting) {
                let _ = writeln!(lines, "{} {}", accepting.step, accepting.summary);
            }
        }
        lines
    }

    /// The differences of the outcomes, with the known reasons. A difference whose values changed keeps its reason; a
    /// new difference has none. The entries of scripts that did not run stay as they are.
    #[must_use]
    pub fn updated(&self, outcomes: &[Outcome]) -> Accepted {
        let scripts = scripts(outcomes);
        let others = self.reasons.iter().filter(|(accepting, _)| !scripts.contains(script(&accepting.step)));
        let mut reasons: BTreeMap<Accepting, String> =
            others.map(|(accepting, reason)| (accepting.clone(), reason.clone())).collect();
        for accepting in found(outcomes) {
            let reason = self.reasons.get(&accepting).or_else(|| self.reason_of_place(&accepting));
            let reason = reason.map_or_else(|| NO_REASON.to_owned(), String::clone);
            reasons.insert(accepting, reason);
        }
        Accepted { reasons }
    }

    fn reason_of_place(&self, accepting: &Accepting) -> Option<&String> {
        let is_there =
            |known: &Accepting| known.step == accepting.step && place(&known.summary) == place(&accepting.summary);
        self.reasons.iter().find(|(known, _)| is_there(known)).map(|(_, reason)| reason)
    }

    /// Writes the file.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        std::fs::write(path, self.text()).with_context(|| path.display().to_string())
    }

    fn text(&self) -> String {
        let mut groups: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
        for (Accepting { step, summary }, reason) in &self.reasons {
            groups.entry(reason).or_default().entry(step).or_default().push(summary);
        }
        let mut text = HEAD.to_owned();
        for (reason, steps) in groups {
            let _ = writeln!(text, "- reason: {}\n  steps:", quoted(reason));
            for (step, summaries) in steps {
                let _ = writeln!(text, "    {}:", quoted(step));
                for summary in summaries {
                    let _ = writeln!(text, "    - {}", quoted(summary));
                }
            }
        }
        text
    }
}

fn found(outcomes: &[Outcome]) -> BTreeSet<Accepting> {
    let all = outcomes.iter().flat_map(|outcome| {
        outcome
            .differences
            .iter()
            .map(|difference| Accepting { step: outcome.title(), summary: difference.summary.clone() })
    });
    all.collect()
}

fn scripts(outcomes: &[Outcome]) -> BTreeSet<&str> {
    outcomes.iter().map(|outcome| outcome.script.as_str()).collect()
}

fn script(step: &str) -> &str {
    step.split_once(": ").map_or(step, |(script, _)| script)
}

fn place(summary: &str) -> &str {
    summary.split_once(": ").map_or(summary, |(path, _)| path)
}

/// A YAML scalar in single quotes, which needs no other escape.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::compare::Difference;

    fn outcome(step: &str, summaries: &[&str]) -> Outcome {
        let difference = |summary: &&str| Difference {
            path: place(summary).to_owned(),
            real: None,
            ours: None,
            summary: (*summary).to_owned(),
        };
        Outcome {
            script: "s".to_owned(),
            step: step.to_owned(),
            real: Value::Null,
            ours: Value::Null,
            differences: summaries.iter().map(difference).collect(),
        }
    }

    fn accepted(reason: &str, step: &str, summaries: &[&str]) -> Accepted {
        let accepting = |summary: &&str| Accepting { step: step.to_owned(), summary: (*summary).to_owned() };
        let reasons = summaries.iter().map(|summary| (accepting(summary), reason.to_owned()));
        Accepted { reasons: reasons.collect() }
    }

    #[test]
    fn a_different_value_or_path_in_an_accepted_step_is_new() {
        let accepted = accepted("why", "s: a", &["/body/x: 1 → 2"]);
        let outcome = outcome("a", &[]);
        assert!(accepted.contains(&outcome, "/body/x: 1 → 2"));
        assert!(!accepted.contains(&outcome, "/body/x: 1 → 3"));
        assert!(!accepted.contains(&outcome, "/body/y: 1 → 2"));
    }

    #[test]
    fn a_difference_without_a_reason_is_not_accepted() {
        let accepted = Accepted::default().updated(&[outcome("a", &["/body/x: 1 → 2"])]);
        assert!(!accepted.contains(&outcome("a", &[]), "/body/x: 1 → 2"));
    }

    #[test]
    fn an_accepted_difference_that_no_longer_exists_is_reported() {
        let accepted = accepted("why", "s: a", &["/body/x: 1 → 2", "/body/y: 1 → 2"]);
        assert_eq!(accepted.gone(&[outcome("a", &["/body/y: 1 → 2"])]), "s: a /body/x: 1 → 2\n");
        assert_eq!(accepted.gone(&[]), "", "its script did not run");
    }

    #[test]
    fn an_update_keeps_the_reasons_of_changed_values_and_other_scripts() {
        let mut before = accepted("why", "s: a", &["/body/x: 1 → 2", "/body/y: 1 → 2"]);
        before.reasons.extend(accepted("else", "other: a", &["/code: 1 → 2"]).reasons);
        let after = before.updated(&[outcome("a", &["/body/x: 1 → 3", "/body/z: 1 → 2"])]);
        let mut wanted = accepted("why", "s: a", &["/body/x: 1 → 3"]);
        wanted.reasons.extend(accepted(NO_REASON, "s: a", &["/body/z: 1 → 2"]).reasons);
        wanted.reasons.extend(accepted("else", "other: a", &["/code: 1 → 2"]).reasons);
        assert_eq!(after, wanted);
    }

    #[test]
    fn written_accepted_differences_are_read_back_unchanged() {
        let accepted = accepted("it's so", "s: GET /x [s={\"a\":1}]", &["/body: \"it's # {\\n}\" → (absent)"]);
        assert_eq!(Accepted::parse(&accepted.text()).expect("a file"), accepted);
    }
}
