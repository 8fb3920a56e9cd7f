//! The file of a finding, from which its run can be repeated. The file may come from an untrusted source, or may have
//! been edited by hand, so all parts are checked.

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::report::{Finding, Report};
use crate::rule::RunRule;
use crate::scenario::Scenario;

const API_VERSION: &str = "windlass.dev/v1alpha1";
const KIND: &str = "CheckReproduction";

/// Everything that is needed to repeat a run: a file of `windlass check --again`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reproduction {
    /// `windlass.dev/v1alpha1`.
    pub api_version: String,
    /// `CheckReproduction`.
    pub kind: String,
    /// The digest of the plugin that showed the finding.
    pub digest: String,
    /// The seed of the run.
    pub seed: u64,
    pub scenario: Scenario,
    pub faults: Vec<Fault>,
}

/// The reason why the run of a file cannot be repeated.
#[derive(Debug, thiserror::Error)]
pub enum ReproductionError {
    /// The file is malformed.
    #[error("it is not a file that `windlass check` writes for a finding: {0}")]
    Malformed(#[from] serde_json::Error),
    /// The file is another document.
    #[error(
        "it is not a file that `windlass check` writes for a finding: it is a {kind} of {api_version}, not a {KIND} of {API_VERSION}"
    )]
    OtherKind {
        /// The kind in the file.
        kind: String,
        /// The API version in the file.
        api_version: String,
    },
    /// The file contains something impossible.
    #[error("{place}: {problem}; correct it, or use the file as `windlass check` has written it")]
    Impossible {
        /// The place, such as `faults[0].rules[0] (0-lost).when.verbs`.
        place: String,
        problem: String,
    },
}

impl Reproduction {
    /// Parses a file, and checks that all of it is possible.
    ///
    /// # Errors
    /// The text is not such a file, or a part of it is impossible.
    pub fn parse(text: &str) -> Result<Reproduction, ReproductionError> {
        let file: Reproduction = serde_json::from_str(text)?;
        if file.api_version != API_VERSION || file.kind != KIND {
            return Err(ReproductionError::OtherKind { kind: file.kind, api_version: file.api_version });
        }
        let wrong = |place: String, problem: String| ReproductionError::Impossible { place, problem };
        file.scenario.check().map_err(|(place, problem)| wrong(format!("scenario.{place}"), problem))?;
        for (index, fault) in file.faults.iter().enumerate() {
            fault.check().map_err(|(place, problem)| wrong(format!("faults[{index}].{place}"), problem))?;
        }
        Ok(file)
    }
}

impl Finding {
    /// The file with which `windlass check --again` repeats the run.
    #[must_use]
    pub fn reproduction(&self, report: &Report, scenario: &Scenario) -> Reproduction {
        self.repeated(&report.digest, report.seed, scenario)
    }

    fn repeated(&self, digest: &str, seed: u64, scenario: &Scenario) -> Reproduction {
        let mut scenario = scenario.clone();
        if let Some(steps) = &self.steps {
            scenario.steps.clone_from(steps);
            // Expectations are about all steps of the scenario, so fewer steps may not fulfil them.
            if self.rule != RunRule::Expectation {
                scenario.expect.clear();
            }
        }
        Reproduction {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            digest: digest.to_owned(),
            seed,
            scenario,
            faults: self.faults.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use windlass_apiserver::{ReactorDocument, ReactorRule, Reactors};

    use super::*;

    /// A file with every possible part.
    fn file() -> Value {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "a"});
        let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"b": "c"}});
        let when = json!({
            "verbs": ["patch"], "resources": ["configmaps"], "namespaces": ["default"], "names": ["a"],
            "userAgents": ["windlass/*"], "calls": {"nth": 1}, "probability": 0.5,
        });
        let rule = |then: Value| json!({"name": "rule", "when": when, "then": [then]});
        let rules = [
            json!({"error": {"code": 500, "retryAfterSeconds": 1}}),
            json!({"delay": {"by": "20s", "at": "afterCommit"}}),
            json!({"drop": {"at": "beforeCommit"}}),
            json!({"hold": {"for": "2s"}}),
            json!({"duplicate": {"events": 2}}),
            json!({"hide": {"after": 1, "events": 1}}),
            json!({"cut": {"after": 1, "with": "drop"}}),
            json!({"edit": {"resource": "configmaps", "manager": "m", "change": {"merge": {"data": {"b": "d"}}}}}),
        ];
        let fault = json!({
            "name": "it fails", "class": "lost", "rules": rules.map(rule), "lastsSeconds": 7200, "allows": 1,
            "crash": {"write": 1, "side": "afterCommit"}, "swap": {"write": 2, "side": "beforeCommit"},
            "failover": {"at": {"write": 3, "side": "afterCommit"}, "late": "pods", "returns": true},
            "atRest": {"afterStep": 0, "object": object, "deed": "delete"},
            "clock": {"afterStep": 0, "by": "-6h"}, "hidesEnds": true, "endsDiffer": true,
        });
        let holds = json!({"holds": {"object": object, "cel": "self.data.b == 'c'"}});
        let steps = [
            json!({"apply": manifest}),
            json!({"patch": {"object": object, "merge": {"data": null}, "subresource": "status"}}),
            json!({"advance": "10m"}),
            json!({"wait": holds}),
            json!({"delete": object}),
        ];
        let has = json!({"has": {"object": object, "values": {"/data/b": "c"}}});
        let count = json!({"count": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "is": 1}});
        json!({
            "apiVersion": API_VERSION, "kind": KIND, "digest": "0", "seed": 1, "faults": [fault],
            "scenario": {
                "name": "s", "load": [manifest], "standIns": "default", "steps": steps,
                "startTime": "2026-01-05T18:00:00Z", "user": "system:node:a", "rules": {"history": {"off": "a reason"}},
                "faults": {"clock": {"off": "a reason"}},
                "expect": [has, count, {"absent": object}],
            },
        })
    }

    fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
        found.push(at.to_owned());
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                pointers(value, &windlass_core::object::pointer::joined(at, name), found);
            }),
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(index, it)| pointers(it, &format!("{at}/{index}"), found));
            }
            _ => {}
        }
    }

    fn with(pointer: &str, value: Value) -> String {
        let mut file = file();
        *file.pointer_mut(pointer).expect(pointer) = value;
        file.to_string()
    }

    #[test]
    fn a_shortened_scenario_has_no_expectations() {
        let Reproduction { scenario, .. } = Reproduction::parse(&file().to_string()).expect("it is right");
        let finding = |rule, steps| Finding {
            rule,
            step: None,
            details: vec![],
            faults: vec![],
            run: 1,
            again: 0,
            steps,
            story: vec![],
        };
        let expected = |rule, steps| finding(rule, steps).repeated("0", 1, &scenario).scenario.expect.len();
        assert_eq!(expected(RunRule::Traps, None), 3);
        assert_eq!(expected(RunRule::Traps, Some(vec![])), 0);
        assert_eq!(expected(RunRule::Expectation, Some(vec![])), 3);
    }

    #[test]
    fn a_file_with_any_mutation_is_read_completely_or_refused() {
        Reproduction::parse(&file().to_string()).expect("it is right");
        let mut all = Vec::new();
        pointers(&file(), "", &mut all);
        let hostile = [Value::Null, json!(-1), json!(u64::MAX), json!("\u{0}?9999999999999999h"), json!([[[[]]]])];
        for pointer in &all {
            for value in &hostile {
                let text = with(pointer, value.clone());
                if let Ok(file) = Reproduction::parse(&text) {
                    // The API server must accept all rules that the parser accepts.
                    let rules = file.faults.iter().flat_map(|fault| fault.rules.clone()).enumerate();
                    let rules = rules.map(|(index, rule)| ReactorRule { name: index.to_string(), ..rule });
                    let set = Reactors::default().set(ReactorDocument::new(0, rules.collect()));
                    assert!(set.is_ok(), "{pointer} {value}: {set:?}");
                }
            }
        }
    }

    #[test]
    fn impossible_parts_are_reported_with_place_and_advice() {
        let cases = [
            ("/faults/0/rules/0/when/verbs/0", json!("fly"), "faults[0].rules[0] (0-rule).when.verbs: \"fly\""),
            ("/faults/0/rules/0/when/calls", json!({"nth": 0}), "calls are counted from 1"),
            ("/faults/0/rules/0/then/0/error/code", json!(200), "200 is not between 400 and 599"),
            ("/faults/0/rules/1/then/0/delay/by", json!("99999999h"), "delay.by: at most 366 days"),
            ("/faults/0/rules/3/then/0/hold/for", json!("99999999h"), "hold.for: at most 366 days"),
            ("/faults/0/rules/0/then/0", json!({"explode": {}}), "unknown variant `explode`"),
            ("/faults/0/lastsSeconds", json!(u64::MAX), "faults[0].lastsSeconds: at most 86400"),
            ("/faults/0/crash/write", json!(-1), "invalid value: integer `-1`"),
            ("/faults/0/clock/by", json!("9999999999h"), "faults[0].clock.by: at most 366 days"),
            ("/faults/0/atRest/object/apiVersion", json!("v1/pods?watch=1"), "faults[0].atRest.object: "),
            ("/scenario/standIns", json!("everything"), "scenario.standIns: "),
            ("/scenario/startTime", json!("1999-12-31T23:59:59Z"), "scenario.startTime: "),
            ("/scenario/user", json!("a\r\nb"), "scenario.user: "),
            ("/scenario/rules/history/off", json!(" "), "give the reason"),
            (
                "/scenario/faults",
                json!({"flood": {"off": "no"}}),
                "scenario.faults.flood: there is no such class of faults, only crash",
            ),
            ("/scenario/load/0", json!(7), "scenario.load[0]: it is not an object"),
            ("/scenario/steps/0/apply", json!([]), "scenario.steps[0]: it is not an object"),
            ("/scenario/steps/0/apply/metadata/name", json!("../a"), "scenario.steps[0]: \"../a\" is not a name"),
            ("/scenario/steps/2/advance", json!("99999999h"), "at most 366 days"),
            ("/scenario/steps/3/wait/holds/cel", json!("self ="), "scenario.steps[3]: the condition"),
            ("/scenario/expect/0/has/values", json!({"b": 1}), "scenario.expect[0]: \"b\" is not a JSON pointer"),
            ("/kind", json!("Pod"), "it is a Pod of windlass.dev/v1alpha1"),
        ];
        for (pointer, value, expected) in cases {
            let error = Reproduction::parse(&with(pointer, value)).expect_err(pointer).to_string();
            assert!(error.contains(expected), "{pointer}: {error}");
        }
        let message = Reproduction::parse(&with("/scenario/standIns", json!("x"))).expect_err("none").to_string();
        assert!(message.ends_with("correct it, or use the file as `windlass check` has written it"), "{message}");
        let deep = format!("{{\"scenario\": {{\"load\": {}", "[".repeat(100_000));
        assert!(Reproduction::parse(&deep).expect_err("too deep").to_string().contains("recursion limit"));
    }
}
