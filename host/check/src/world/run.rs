//! The result of one run, as a value.

use super::user::UserError;
use crate::outcome::{EndState, OwnedObject, SecondRun};
use crate::scenario::ObjectName;
use crate::trace::Entry;

/// The result of one run.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// The number among all runs of the world, from 1.
    pub(crate) number: usize,
    pub(crate) entries: Vec<Entry>,
    /// Whether each of its faults occurred.
    pub(crate) struck: Vec<bool>,
    /// The objects that existed from the beginning.
    pub(crate) given: Vec<ObjectName>,
    /// Objects that have an owner, and the step after which they first existed.
    pub(crate) owned: Vec<(usize, OwnedObject)>,
    /// The objects after each step.
    pub(crate) rests: Vec<EndState>,
    /// Objects of the plugin that remained after the user had deleted their owner.
    pub(crate) left: Vec<String>,
    /// The step that could not be carried out, and the reason.
    pub(crate) undone: Option<(usize, UserError)>,
    /// Objects whose last call had failed when the world was quiet after a step, and the step.
    pub(crate) failing: Option<(usize, Vec<String>)>,
    /// How the plugin kept on writing, if it did.
    pub(crate) noisy: Option<String>,
    pub(crate) end: EndState,
    /// Expectations of the scenario that do not hold.
    pub(crate) broken: Vec<String>,
    pub(crate) second: SecondRun,
}
