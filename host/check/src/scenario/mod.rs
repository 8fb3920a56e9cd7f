//! Scenarios: what happens in the world while the plugin runs, and what must hold afterwards.
//!
//! `document` defines the file's format, and `read` parses it together with the files that it names. `draft` creates a
//! scenario from a CRD and a sample, and `recorded` creates scenarios from recordings of production.

mod document;
mod draft;
mod read;
mod recorded;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_apiserver::StandIns;

pub use self::document::{ObjectCondition, ObjectCount, ObjectName, ObjectPatch, ObjectValues, SwitchedOff};
pub use self::draft::{DraftError, draft};
pub(crate) use self::read::{Misplaced, document};
pub use self::read::{ScenarioError, manifests, read};
pub use self::recorded::{RecordedError, RecordedHistories, RecordedScenario, RecordedScenarios, from_recorded};
use crate::rule::RunRule;

/// A scenario, together with the objects from the files that it names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scenario {
    /// The name, for people. Machine-readable reports also name their tests by it.
    pub name: String,
    /// Objects that exist before the plugin starts: CRDs, namespaces, configuration.
    pub load: Vec<Value>,
    /// The controllers that the API server simulates, in the format of `windlass apiserver --stand-ins`.
    pub stand_ins: String,
    /// The time at which each run starts, in RFC 3339. If it is `None`, the seed determines the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    /// The user name with which the objects are loaded and the steps are carried out. If it is `None`, an
    /// administrator does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The rules that are switched off.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<RunRule, SwitchedOff>,
    /// The classes of faults that are not tried.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<String, SwitchedOff>,
    /// The steps, in order. Each step begins when the world is quiet.
    pub steps: Vec<Step>,
    /// The expectations that must hold at the end.
    pub expect: Vec<Expectation>,
    /// The steps that were guessed from a schema: pairs of a change and the one that undoes it. The API server may
    /// refuse them.
    #[serde(skip)]
    pub(crate) guessed: Range<usize>,
}

/// An action of a user, or the passing of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// Creates or changes an object, like `kubectl apply --server-side --force-conflicts`.
    Apply(Value),
    Patch(ObjectPatch),
    /// Deletes an object. The next step begins when the world is quiet, even if the object still exists.
    Delete(ObjectName),
    Advance(#[serde(with = "document::durations")] Duration),
    /// Waits until the expectation holds, for at most an hour.
    Wait(Expectation),
}

/// An expectation about the objects of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Expectation {
    /// An object has these values.
    Has(ObjectValues),
    /// A condition holds for an object.
    Holds(ObjectCondition),
    /// An object does not exist.
    Absent(ObjectName),
    /// A certain number of objects exist.
    Count(ObjectCount),
}

impl Scenario {
    /// A scenario with the default stand-ins and without optional parts.
    pub(crate) fn new(name: String, load: Vec<Value>, steps: Vec<Step>) -> Scenario {
        let stand_ins = "default".to_owned();
        let (rules, faults) = (BTreeMap::new(), BTreeMap::new());
        Scenario {
            name,
            load,
            stand_ins,
            start_time: None,
            user: None,
            rules,
            faults,
            steps,
            expect: vec![],
            guessed: 0..0,
        }
    }

    /// The start time, since 1970. `None` if the scenario has none, or if it is invalid.
    pub(crate) fn parsed_start_time(&self) -> Option<Duration> {
        let time: Timestamp = self.start_time.as_ref()?.parse().ok()?;
        u64::try_from(time.as_second()).ok().map(Duration::from_secs)
    }

    /// The stand-ins, parsed from their names.
    pub(crate) fn parsed_stand_ins(&self) -> Result<StandIns, windlass_apiserver::UnknownStandIn> {
        self.stand_ins.parse()
    }
}

impl Step {
    /// The object that the step applies, changes or deletes. `None` if it only lets time pass.
    pub(crate) fn object(&self) -> Option<ObjectName> {
        match self {
            Step::Apply(object) => Some(ObjectName::of(object)),
            Step::Patch(patch) => Some(patch.object.clone()),
            Step::Delete(name) => Some(name.clone()),
            Step::Advance(_) | Step::Wait(_) => None,
        }
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Apply(object) => write!(f, "apply {}", ObjectName::of(object)),
            Self::Patch(patch) => write!(f, "patch {} with {}", patch.object, patch.merge),
            Self::Delete(name) => write!(f, "delete {name}"),
            Self::Advance(by) => write!(f, "advance the clock by {by:?}"),
            Self::Wait(until) => write!(f, "wait until {until}"),
        }
    }
}

impl std::fmt::Display for Expectation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Has(it) => {
                write!(f, "{} has", it.object)?;
                it.values.iter().try_for_each(|(pointer, value)| write!(f, " {pointer}: {value}"))
            }
            Self::Holds(it) => write!(f, "{} fulfils {}", it.object, it.cel),
            Self::Absent(name) => write!(f, "{name} does not exist"),
            Self::Count(count) => write!(f, "there are {} of {} {}", count.is, count.api_version, count.kind),
        }
    }
}
