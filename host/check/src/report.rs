//! The outcome of a check, as a value.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::fault::Fault;
use crate::imports::ImportUse;
use crate::scenario::Step;
use crate::trace::Entry;
use crate::verdict::Rule;

/// The outcome of a check of one scenario.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub plugin: String,
    pub version: String,
    /// The SHA-256 of its file.
    pub digest: String,
    pub scenario: String,
    /// The seed of all runs.
    pub seed: u64,
    /// How many runs there were, the reference among them.
    pub runs: usize,
    /// How often the plugin was called without faults.
    pub calls: usize,
    /// How often it has written without faults.
    pub writes: usize,
    /// The faults that were tried.
    pub tried: Tried,
    /// The imports of the plugin that were called, and those that no run has come to.
    pub imports: ImportUse,
    /// Findings that a baseline has accepted, and that are not told.
    pub accepted: usize,
    /// The findings, the worst first.
    pub findings: Vec<Finding>,
}

/// How much was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tried {
    /// By the class of faults: those that have struck, of those that the reference has places for.
    pub faults: BTreeMap<String, Coverage>,
    pub pairs: usize,
    /// Runs in which a fault has not come about: the plugin went another way than in the reference, or there was nothing left for
    /// the fault.
    pub unreached: usize,
}

/// How much of something was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    pub tried: usize,
    pub of: usize,
}

/// Something that is wrong, and how to see it again.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The rule that is broken.
    pub rule: Rule,
    /// The step after which it shows, from 0. None: it shows at the end, or in all of the run.
    pub step: Option<usize>,
    /// How, one line each.
    pub details: Vec<String>,
    /// The faults of the first run that showed it. Empty: it is so without any.
    pub faults: Vec<Fault>,
    /// The number of that run; 1 is the reference.
    pub run: usize,
    /// How many further runs have shown the same.
    pub again: usize,
    /// The steps of the scenario that show it. None: it was not shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<Step>>,
    /// The happenings of that run.
    #[serde(skip)]
    pub story: Vec<Entry>,
}

impl Finding {
    /// The object, and the place in it, that it is about.
    #[must_use]
    pub fn about(&self) -> &str {
        self.details.first().map_or("", |detail| thing(detail))
    }

    /// Whether a verdict says the same: the same rule is broken about the same thing, whatever its values.
    pub(crate) fn is_of(&self, rule: Rule, details: &[String]) -> bool {
        self.rule == rule && self.about() == details.first().map_or("", |detail| thing(detail))
    }
}

/// The thing that a detail is about: `configmaps default/a /data: …` is about `configmaps default/a /data`.
fn thing(detail: &str) -> &str {
    detail.split_once(": ").map_or(detail, |(thing, _)| thing)
}
