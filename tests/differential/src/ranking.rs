//! The rules in which two servers judge mutated manifests differently, the most frequent first. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};

use regex::Regex;
use serde_json::Value;

/// The servers that report a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Only the real server.
    Missing,
    /// Only ours.
    Extra,
    /// Both, but with different values.
    Shown,
}

/// A cause without the values of its object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// The servers that report it.
    pub side: Side,
    /// The kind, or `pod template` for rules that all kinds with a pod template share.
    pub kind: String,
    /// The reason of the cause, or the code of an answer without causes.
    pub reason: String,
    /// The path, with `[*]` for an index or a key.
    pub field: String,
    /// The message without the value.
    pub message: String,
}

impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Rule { side, kind, reason, field, message } = self;
        write!(f, "{side:?}  {kind}  {field}  {reason}  {message}")
    }
}

/// Counts the mutations whose answers differ in each rule, and keeps the first such mutation.
pub struct Ranking {
    counts: BTreeMap<Rule, (usize, String)>,
    value: Regex,
    index: Regex,
    template: Regex,
}

impl Default for Ranking {
    fn default() -> Ranking {
        let made = |pattern: &str| Regex::new(pattern).unwrap_or_else(|error| unreachable!("{pattern}: {error}"));
        Ranking {
            counts: BTreeMap::new(),
            value: made(
                r#"(?s)^(Invalid value|Unsupported value|Duplicate value|Not found|Too many|Too long): (?:"(?:\\.|[^"\\])*"|\{.*\}|\[.*\]|[^:]*)"#,
            ),
            index: made(r"\[[^\]]*\]"),
            template: made(r"^(spec\.jobTemplate\.spec\.template|spec\.template|template)\.spec\."),
        }
    }
}

impl Ranking {
    /// Compares the answers to one mutation.
    pub fn add(&mut self, kind: &str, mutation: &str, real: &Value, ours: &Value) {
        let (stated, ours) = (causes(real), causes(ours));
        let rules = |causes: BTreeSet<_>| -> BTreeSet<Rule> {
            causes.iter().map(|cause| self.rule(Side::Shown, kind, cause)).collect()
        };
        let (missing, extra) = (rules(&stated - &ours), rules(&ours - &stated));
        let found = missing.union(&extra).map(|rule| {
            let side = match (missing.contains(rule), extra.contains(rule)) {
                (true, true) => Side::Shown,
                (true, false) => Side::Missing,
                _ => Side::Extra,
            };
            Rule { side, ..rule.clone() }
        });
        for rule in found.collect::<Vec<_>>() {
            let entry = self.counts.entry(rule).or_insert_with(|| (0, format!("{kind} {mutation}")));
            entry.0 += 1;
        }
    }

    /// The rules, the most frequent first, each with its count and its first mutation.
    #[must_use]
    pub fn ranked(&self) -> Vec<(usize, &Rule, &str)> {
        let mut all: Vec<_> =
            self.counts.iter().map(|(rule, (count, example))| (*count, rule, example.as_str())).collect();
        all.sort_by(|(count, rule, _), (other, later, _)| other.cmp(count).then(rule.cmp(later)));
        all
    }

    fn rule(&self, side: Side, kind: &str, (reason, field, message): &(String, String, String)) -> Rule {
        let shared = self.template.replace(field, "spec.").into_owned();
        let is_pod = shared != *field || kind == "Pod";
        Rule {
            side,
            kind: if is_pod { "pod template".to_owned() } else { kind.to_owned() },
            reason: reason.clone(),
            field: self.index.replace_all(&shared, "[*]").into_owned(),
            message: self.value.replace(message, "$1").lines().next().unwrap_or_default().to_owned(),
        }
    }
}

/// The reason, field and message of each cause. An answer without causes has its code and message instead. A success
/// has no causes.
fn causes(answer: &Value) -> BTreeSet<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let causes = answer.pointer("/body/details/causes").and_then(Value::as_array);
    match (causes, answer["code"].as_u64()) {
        (_, Some(code)) if code < 300 => BTreeSet::new(),
        (Some(causes), Some(422)) => {
            let parts = |cause: &Value| (text(&cause["reason"]), text(&cause["field"]), text(&cause["message"]));
            causes.iter().map(parts).collect()
        }
        _ => [(answer["code"].to_string(), String::new(), text(&answer["body"]["message"]))].into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_rule_is_identified_by_its_field_and_message() {
        let mut ranking = Ranking::default();
        let refused = |field: &str, value: &str| {
            let message = format!("Invalid value: {value}: too odd");
            let cause = json!({ "reason": "FieldValueInvalid", "field": field, "message": message });
            json!({ "code": 422, "body": { "details": { "causes": [cause] } } })
        };
        let accepted = json!({ "code": 201 });
        ranking.add("Pod", "a", &refused("spec.volumes[0].name", "\"x: y\""), &accepted);
        ranking.add("Job", "b", &refused("spec.template.spec.volumes[3].name", "\"z\""), &accepted);
        ranking.add("Job", "c", &accepted, &accepted);
        let shown: Vec<String> =
            ranking.ranked().iter().map(|(count, rule, example)| format!("{count} {rule} ({example})")).collect();
        let rule = "pod template  spec.volumes[*].name  FieldValueInvalid  Invalid value: too odd";
        assert_eq!(shown, [format!("2 Missing  {rule} (Pod a)")]);
    }
}
