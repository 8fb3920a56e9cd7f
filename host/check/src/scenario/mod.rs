//! Scenarios: what happens in the world while the plugin is at work, and what must hold afterwards.
//!
//! `document` is the file's format, `read` reads it with the files that it names, `draft` makes a scenario of a definition
//! and a sample for those who have written none, `recorded` makes some of what production has shown.

mod document;
mod draft;
mod read;
mod recorded;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_apiserver::StandIns;

pub use self::document::{ObjectCondition, ObjectCount, ObjectName, ObjectPatch, ObjectValues};
pub use self::draft::{DraftError, draft};
pub(crate) use self::read::{Misplaced, document};
pub use self::read::{ScenarioError, manifests, read};
pub use self::recorded::{RecordedError, RecordedHistories, RecordedScenario, RecordedScenarios, from_recorded};

/// The happenings of a world, with all their objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scenario {
    /// For people, and for the names of tests in a report for programs.
    pub name: String,
    /// Objects that are there before the plugin begins: definitions, namespaces, configuration.
    pub load: Vec<Value>,
    /// The controllers that the API server plays, as `windlass apiserver --stand-ins` takes them.
    pub stand_ins: String,
    /// One after the other; each begins when the world is quiet.
    pub steps: Vec<Step>,
    /// Statements that must hold at the end.
    pub expect: Vec<Expectation>,
}

/// Something that a user, or time, does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// Creates or changes an object, as `kubectl apply --server-side --force-conflicts`.
    Apply(Value),
    Patch(ObjectPatch),
    /// Deletes an object, and waits for its end only as long as the world is not quiet.
    Delete(ObjectName),
    Advance(#[serde(with = "document::durations")] Duration),
    /// Waits, for at most an hour, until this holds.
    Wait(Expectation),
}

/// A statement about the objects of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Expectation {
    /// An object has these values.
    Has(ObjectValues),
    /// A condition holds for an object.
    Holds(ObjectCondition),
    /// An object is not there.
    Absent(ObjectName),
    /// There are so many objects.
    Count(ObjectCount),
}

impl Scenario {
    /// The stand-ins by their names.
    pub(crate) fn parsed_stand_ins(&self) -> Result<StandIns, windlass_apiserver::UnknownStandIn> {
        self.stand_ins.parse()
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
            Self::Absent(name) => write!(f, "{name} is not there"),
            Self::Count(count) => write!(f, "there are {} of {} {}", count.is, count.api_version, count.kind),
        }
    }
}
