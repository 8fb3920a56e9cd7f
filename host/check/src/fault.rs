//! A fault: something that goes wrong at one place of a run.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_apiserver::{ClockLeap, CommitSide, ReactorDocument, ReactorError, ReactorRule, Reactors};

use crate::scenario::{Misplaced, ObjectName};

/// The longest outage. It also limits how long a scenario with failing calls runs.
const OUTAGE_MAX: Duration = Duration::from_hours(24);
/// The longest jump of a clock. Dates overflow beyond it.
const CLOCK_SET_MAX: Duration = Duration::from_hours(24 * 366);

/// A fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// A description of the problem and its place, for people.
    pub name: String,
    /// The class under which coverage counts the fault.
    pub class: String,
    /// Rules for the API server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<ReactorRule>,
    /// Where the host process crashes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crash: Option<WritePoint>,
    /// Where the process that holds the lease becomes unreachable, so that a standby takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Failover>,
    /// Where the plugin is swapped for another generation of the same component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap: Option<WritePoint>,
    /// An action of another client while the world is quiet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_rest: Option<AtRest>,
    /// A jump of the host's clock while the world is quiet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<SetClock>,
    /// The time after which the rules end, counted from when they first take effect. `None` if they do not end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts_seconds: Option<u64>,
    /// The number of extra writes that the fault makes necessary. For example, an object that another client deleted
    /// must be created again.
    #[serde(default)]
    pub allows: usize,
    /// Whether the plugin may see the deletion of an object late. Until the plugin sees it, it recreates the children
    /// as often as the garbage collector deletes them. No controller could do better.
    #[serde(default)]
    pub hides_ends: bool,
    /// Whether the run may end with different objects than the reference run, because the fault removes an object that
    /// the plugin has not created. Such a run is only judged by the rules that do not compare it with the reference.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends_differ: bool,
}

/// An action of another client when the world is quiet after a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AtRest {
    /// The step, from 0.
    pub after_step: usize,
    pub object: ObjectName,
    pub deed: Deed,
}

/// An action on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Deed {
    Delete,
    /// Adds an annotation that does not concern the plugin.
    Annotate,
}

impl Fault {
    /// Checks that all parts are possible. Planned faults are always possible, but a file may come from an untrusted
    /// source.
    ///
    /// # Errors
    /// The place of the first mistake, and its description.
    pub(crate) fn check(&self) -> Result<(), Misplaced> {
        let rules = self.rules.iter().enumerate();
        // Rules of different faults may have the same name, so each rule gets a unique one, as in a run.
        let rules = rules.map(|(index, it)| ReactorRule { name: format!("{index}-{}", it.name), ..it.clone() });
        Reactors::default().set(ReactorDocument::new(0, rules.collect())).map_err(|error| match error {
            ReactorError::Rule { place, message } => (place, message),
            ReactorError::Syntax(message) => ("rules".to_owned(), message),
        })?;
        if self.lasts_seconds.is_some_and(|lasts| lasts > OUTAGE_MAX.as_secs()) {
            return Err(("lastsSeconds".to_owned(), format!("at most {}", OUTAGE_MAX.as_secs())));
        }
        if self.clock.is_some_and(|set| set.by.by > CLOCK_SET_MAX) {
            return Err(("clock.by".to_owned(), "at most 366 days".to_owned()));
        }
        let object = self.at_rest.as_ref().map_or(Ok(()), |rest| rest.object.check());
        object.map_err(|problem| ("atRest.object".to_owned(), problem))
    }

    /// Whether both faults can occur in one run. A process ends only once, and a plugin is swapped only once.
    pub(crate) fn goes_with(&self, other: &Fault) -> bool {
        let ends = |fault: &Fault| fault.crash.is_some() || fault.failover.is_some();
        self.name != other.name && !(ends(self) && ends(other)) && !(self.swap.is_some() && other.swap.is_some())
    }
}

/// A failover: the process that holds the lease becomes unreachable, the lease expires, and a standby with filled
/// caches takes over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failover {
    /// Where the process becomes unreachable.
    pub at: WritePoint,
    /// A resource whose events reach the standby only a while after the takeover. `None` if no events are delayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<String>,
    /// Whether the process becomes reachable again a while after the takeover, because it was only disconnected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub returns: bool,
}

/// Sets the host's time of day when the world is quiet after a step. Timers and the API server's clock do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetClock {
    /// The step, from 0.
    pub after_step: usize,
    pub by: ClockLeap,
}

impl SetClock {
    /// A description for people.
    pub(crate) fn description(&self) -> String {
        let ClockLeap { by, back } = self.by;
        let direction = if back { "back" } else { "forward" };
        format!("the host's clock is set {direction} by {} h", by.as_secs() / 3_600)
    }
}

/// A moment of a write by a host process: just before the server commits it, or just after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WritePoint {
    /// The number of the write, from 1. Kubernetes Events and the host's leases do not count.
    pub write: usize,
    /// Before the server commits the write, or after the commit but before the answer.
    pub side: CommitSide,
}
