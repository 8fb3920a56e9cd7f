//! The outcome of a check, as a value.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::fault::Fault;
use crate::imports::ImportUse;
use crate::rule::RunRule;
use crate::scenario::Step;
use crate::trace::Entry;

/// The result of checking one scenario.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub plugin: String,
    pub version: String,
    /// The SHA-256 of the plugin's file.
    pub digest: String,
    pub scenario: String,
    /// The seed of all runs.
    pub seed: u64,
    /// The number of runs, including the reference.
    pub runs: usize,
    /// The number of calls in the reference.
    pub calls: usize,
    /// The number of writes in the reference.
    pub writes: usize,
    pub tried: Tried,
    /// The rules that the scenario switches off, with the reasons.
    pub rules_off: BTreeMap<String, String>,
    /// The classes of faults that the scenario switches off, with the reasons.
    pub faults_off: BTreeMap<String, String>,
    /// The imports that the plugin called, and the imports that no run reached.
    pub imports: ImportUse,
    /// The reason why other runs could not be compared with the reference. A report without findings then proves
    /// nothing. `None` if they could be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// The number of findings that are not listed because a baseline accepts them.
    pub accepted: usize,
    /// The findings, most severe first.
    pub findings: Vec<Finding>,
}

/// How much was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tried {
    /// For each class of faults: the number of faults that occurred, and the number of places in the reference.
    pub faults: BTreeMap<String, Coverage>,
    pub pairs: usize,
    /// The number of runs in which a fault did not occur, because the plugin behaved differently than in the reference,
    /// or nothing was left for the fault.
    pub unreached: usize,
}

/// How much of something was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    pub tried: usize,
    pub of: usize,
}

/// A violated rule, and how to reproduce it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The violated rule.
    pub rule: RunRule,
    /// The step after which the finding shows, from 0. `None` if it shows at the end, or in the whole run.
    pub step: Option<usize>,
    /// How the run violates the rule, one detail per line.
    pub details: Vec<String>,
    /// The faults of the first run that showed the finding. Empty if it shows without faults.
    pub faults: Vec<Fault>,
    /// The number of the first run that showed the finding. The reference is number 1.
    pub run: usize,
    /// The number of later runs that showed the finding again.
    pub again: usize,
    /// The steps that are enough to show the finding. `None` if the scenario was not shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<Step>>,
    /// The entries of the first run that showed the finding.
    #[serde(skip)]
    pub story: Vec<Entry>,
}

impl Finding {
    /// The object and the place in it that the finding is about.
    #[must_use]
    pub fn about(&self) -> &str {
        self.details.first().map_or("", |detail| subject(detail))
    }

    /// Whether a verdict reports this finding: the same rule is violated for the same object, whatever the values.
    pub(crate) fn is_of(&self, rule: RunRule, details: &[String]) -> bool {
        self.rule == rule && self.about() == details.first().map_or("", |detail| subject(detail))
    }
}

/// The subject of a detail: `configmaps default/a /data: …` is about `configmaps default/a /data`.
fn subject(detail: &str) -> &str {
    detail.split_once(": ").map_or(detail, |(subject, _)| subject)
}
