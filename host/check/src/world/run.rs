//! The result of one run, as a value.

use super::user::UserError;
use crate::outcome::{EndState, OwnedObject, SecondRun};
use crate::scenario::ObjectName;
use crate::trace::Entry;

/// The result of one run.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// The run's number among all runs of the world, from 1.
    pub(crate) number: usize,
    pub(crate) entries: Vec<Entry>,
    /// For each fault of the run, whether it occurred.
    pub(crate) struck: Vec<bool>,
    /// The objects that existed from the beginning.
    pub(crate) given: Vec<ObjectName>,
    /// Objects with an owner, each with the step after which it first existed.
    pub(crate) owned: Vec<(usize, OwnedObject)>,
    /// The objects after each step.
    pub(crate) rests: Vec<EndState>,
    /// Objects that the plugin created for an object of the user, and that remained after the user deleted that object.
    pub(crate) left: Vec<String>,
    /// The index of the step that could not be carried out, and the reason.
    pub(crate) undone: Option<(usize, UserError)>,
    /// A step after which the world became quiet although the last calls of some objects had failed, and these objects.
    pub(crate) failing: Option<(usize, Vec<String>)>,
    /// How the plugin kept writing. `None` if it stopped.
    pub(crate) noisy: Option<String>,
    pub(crate) end: EndState,
    /// The expectations of the scenario that do not hold.
    pub(crate) broken: Vec<String>,
    pub(crate) second: SecondRun,
}
