//! A fault: something that goes wrong in a run, at one place.

use serde::{Deserialize, Serialize};
use windlass_apiserver::{ClockLeap, CommitSide, ReactorRule};

use crate::scenario::ObjectName;

/// Something that goes wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// For people: what goes wrong, and where.
    pub name: String,
    /// The kind of fault, for the coverage.
    pub class: String,
    /// Rules that the API server follows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<ReactorRule>,
    /// Where the process of the host ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crash: Option<CrashPoint>,
    /// A deed of somebody else while the world is quiet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_rest: Option<AtRest>,
    /// The host's clock is set while the world is quiet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<SetClock>,
    /// So many seconds after the rules have acted first, they end. None: they go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts_seconds: Option<u64>,
    /// Writes that the fault itself makes needed: an object that somebody else has deleted has to be made again.
    #[serde(default)]
    pub allows: usize,
    /// Whether the end of an object may be seen late. Until it is, the plugin makes its children again as often as the collector takes
    /// them, and no controller can know better.
    #[serde(default)]
    pub hides_ends: bool,
}

/// A deed of somebody else, when the world is quiet after a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AtRest {
    /// The step, from 0.
    pub after_step: usize,
    /// The object.
    pub object: ObjectName,
    /// The deed.
    pub deed: Deed,
}

/// Something that somebody else does to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Deed {
    /// It is deleted.
    Delete,
    /// It gets an annotation, which is no affair of the plugin's.
    Annotate,
}

/// The time of day of the host is set, when the world is quiet after a step. Timers go on as before, and so does the API server's
/// clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetClock {
    /// The step, from 0.
    pub after_step: usize,
    /// How far.
    pub by: ClockLeap,
}

impl SetClock {
    /// For people: what is done.
    pub(crate) fn told(&self) -> String {
        let ClockLeap { by, back } = self.by;
        let direction = if back { "back" } else { "forward" };
        format!("the host's clock is set {direction} by {} h", by.as_secs() / 3_600)
    }
}

/// Where a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CrashPoint {
    /// At which of its writes, from 1. Kubernetes Events do not count.
    pub write: usize,
    /// Before the server has carried it out, or after that and before the answer.
    pub side: CommitSide,
}
