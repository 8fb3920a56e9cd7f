//! The outcome of one run, as a value.

use super::user::UserError;
use crate::outcome::{EndState, SecondRun};
use crate::scenario::ObjectName;
use crate::trace::Entry;

/// The outcome of one run.
#[derive(Debug)]
pub(crate) struct Run {
    /// Among all runs in its world, from 1.
    pub(crate) number: usize,
    pub(crate) entries: Vec<Entry>,
    /// Whether each of its faults has come about.
    pub(crate) struck: Vec<bool>,
    /// The objects that were there from the beginning.
    pub(crate) given: Vec<ObjectName>,
    /// Objects that have an owner, and the step after which they were there first.
    pub(crate) owned: Vec<(usize, ObjectName)>,
    /// The objects after each step.
    pub(crate) rests: Vec<EndState>,
    /// Objects of the plugin's that were left after the user had deleted one.
    pub(crate) left: Vec<String>,
    /// The step that could not be done, and why.
    pub(crate) undone: Option<(usize, UserError)>,
    /// Objects whose last call has failed when all was quiet after a step, and the step.
    pub(crate) failing: Option<(usize, Vec<String>)>,
    /// How it goes on writing, if it does.
    pub(crate) noisy: Option<String>,
    pub(crate) end: EndState,
    /// Expectations of the scenario that do not hold.
    pub(crate) broken: Vec<String>,
    pub(crate) second: SecondRun,
}
