//! A fault: something that goes wrong in a run, at one place.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_apiserver::{ClockLeap, CommitSide, ReactorDocument, ReactorError, ReactorRule, Reactors};

use crate::scenario::{Misplaced, ObjectName};

/// The longest outage. A world of failing calls goes on for no longer, as each is told.
const OUTAGE_MAX: Duration = Duration::from_hours(24);
/// The farthest that a clock is set: beyond, there are no dates.
const CLOCK_SET_MAX: Duration = Duration::from_hours(24 * 366);

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
    pub crash: Option<WritePoint>,
    /// Where the process that holds the lease falls silent, so that a standby takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Failover>,
    /// Where the plugin is swapped for another generation, which is the same component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap: Option<WritePoint>,
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
    pub object: ObjectName,
    pub deed: Deed,
}

/// Something that somebody else does to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Deed {
    Delete,
    /// It gets an annotation, which is no affair of the plugin's.
    Annotate,
}

impl Fault {
    /// Whether all of it can be. Those of a plan can, and those of a file may be a stranger's.
    ///
    /// # Errors
    /// The place of the first mistake, and what it is.
    pub(crate) fn check(&self) -> Result<(), Misplaced> {
        let rules = self.rules.iter().enumerate();
        // Names may be the same here, as in a run.
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

    /// Whether both can happen in one run: a process ends once, and is swapped once.
    pub(crate) fn goes_with(&self, other: &Fault) -> bool {
        let ends = |fault: &Fault| fault.crash.is_some() || fault.failover.is_some();
        self.name != other.name && !(ends(self) && ends(other)) && !(self.swap.is_some() && other.swap.is_some())
    }
}

/// A failover: the process that holds the lease falls silent, the lease runs out, and a standby takes over whose caches are filled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failover {
    /// Where the process falls silent.
    pub at: WritePoint,
    /// A resource of which the standby sees nothing new from then on, until a while after it has taken over. None: it sees all in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<String>,
    /// Whether the process is heard again a while after the takeover: it was cut off, and has not ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub returns: bool,
}

/// The time of day of the host is set, when the world is quiet after a step. Timers go on as before, and so does the API server's
/// clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetClock {
    /// The step, from 0.
    pub after_step: usize,
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

/// A place at a write of a process of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WritePoint {
    /// At which of its writes, from 1. Kubernetes Events and the host's leases do not count.
    pub write: usize,
    /// Before the server has carried it out, or after that and before the answer.
    pub side: CommitSide,
}
