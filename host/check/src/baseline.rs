//! Accepted findings: a file of `windlass check --baseline`.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::report::{Finding, Report};
use crate::rule::RunRule;
use crate::scenario::{ScenarioError, document};

const API_VERSION: &str = "windlass.dev/v1alpha1";
const KIND: &str = "CheckBaseline";

/// Findings that are known and do not make a check fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Baseline {
    /// `windlass.dev/v1alpha1`.
    pub api_version: String,
    /// `CheckBaseline`.
    pub kind: String,
    pub findings: Vec<AcceptedFinding>,
}

/// A known finding. It is accepted whatever fault shows it and whatever values it reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AcceptedFinding {
    /// The name of the scenario.
    pub scenario: String,
    /// The violated rule.
    pub rule: RunRule,
    /// The object that the finding is about, and the place in it.
    pub about: String,
    /// The reason for accepting it, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl Baseline {
    /// A baseline of all findings in these reports.
    #[must_use]
    pub fn of(reports: &[Report]) -> Baseline {
        let accepted = |report: &Report, finding: &Finding| AcceptedFinding {
            scenario: report.scenario.clone(),
            rule: finding.rule,
            about: finding.about().to_owned(),
            reason: String::new(),
        };
        let all = reports.iter().flat_map(|report| report.findings.iter().map(move |it| accepted(report, it)));
        Baseline { api_version: API_VERSION.to_owned(), kind: KIND.to_owned(), findings: all.collect() }
    }

    /// Reads a file, which may be YAML or JSON.
    ///
    /// # Errors
    /// The file cannot be read, or is not a baseline.
    pub fn read(path: &Path) -> Result<Baseline, ScenarioError> {
        let baseline: Baseline = document(path)?;
        if baseline.api_version != API_VERSION || baseline.kind != KIND {
            let Baseline { api_version, kind, .. } = baseline;
            let message = format!("it is a {kind} of {api_version}, but a baseline is a {KIND} of {API_VERSION}");
            return Err(ScenarioError::Malformed { path: path.to_owned(), message });
        }
        Ok(baseline)
    }

    /// Removes the accepted findings from a report, and counts them in it. Returns the accepted findings for the
    /// report's scenario that did not occur.
    pub fn take_out<'a>(&'a self, report: &mut Report) -> Vec<&'a AcceptedFinding> {
        let mut not_met: Vec<&AcceptedFinding> =
            self.findings.iter().filter(|it| it.scenario == report.scenario).collect();
        let known = not_met.clone();
        report.findings.retain(|finding| {
            let is_this = |it: &AcceptedFinding| it.rule == finding.rule && it.about == finding.about();
            let is_known = known.iter().any(|it| is_this(it));
            not_met.retain(|it| !is_this(it));
            report.accepted += usize::from(is_known);
            !is_known
        });
        not_met
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::imports::ImportUse;
    use crate::report::Tried;

    fn report(findings: &[(RunRule, &str)]) -> Report {
        let finding = |(rule, detail): &(RunRule, &str)| Finding {
            rule: *rule,
            step: None,
            details: vec![(*detail).to_owned()],
            faults: vec![],
            run: 1,
            again: 0,
            steps: None,
            story: vec![],
        };
        Report {
            plugin: "shop".into(),
            version: "1".into(),
            digest: "0".into(),
            scenario: "hello".into(),
            seed: 1,
            runs: 1,
            calls: 1,
            writes: 1,
            tried: Tried::default(),
            rules_off: BTreeMap::new(),
            faults_off: BTreeMap::new(),
            imports: ImportUse::default(),
            incomplete: None,
            accepted: 0,
            findings: findings.iter().map(finding).collect(),
        }
    }

    #[test]
    fn accepted_findings_are_left_out_and_counted() {
        let baseline = Baseline::of(&[report(&[
            (RunRule::Converges, "configmaps default/a /data: \"1\""),
            (RunRule::Quiet, "x"),
        ])]);
        let other = (RunRule::Converges, "configmaps default/b /data: \"1\"");
        let mut later = report(&[(RunRule::Converges, "configmaps default/a /data: \"2\""), other]);
        let not_met = baseline.take_out(&mut later);
        assert_eq!(not_met.iter().map(|it| it.rule).collect::<Vec<_>>(), [RunRule::Quiet]);
        assert_eq!(later.accepted, 1);
        assert_eq!(later.findings.iter().map(Finding::about).collect::<Vec<_>>(), ["configmaps default/b /data"]);
        let mut of_another = report(&[(RunRule::Quiet, "x")]);
        of_another.scenario = "other".into();
        assert!(baseline.take_out(&mut of_another).is_empty() && of_another.findings.len() == 1);
    }

    #[test]
    fn a_written_baseline_can_be_read_and_other_files_are_refused() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("baseline.json");
        let baseline = Baseline::of(&[report(&[(RunRule::Quiet, "x: 1")])]);
        std::fs::write(&path, serde_json::to_string(&baseline).expect("JSON")).expect("it is written");
        assert_eq!(Baseline::read(&path).expect("it is right"), baseline);
        std::fs::write(&path, "apiVersion: v1\nkind: ConfigMap\nfindings: []\n").expect("it is written");
        let error = Baseline::read(&path).expect_err("another kind").to_string();
        assert!(error.contains("it is a ConfigMap of v1"), "{error}");
        let error = Baseline::read(Path::new("nowhere.json")).expect_err("it is not there").to_string();
        assert!(error.contains("cannot read nowhere.json"), "{error}");
    }
}
