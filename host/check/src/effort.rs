//! How much to try, and whether there is time for more.

/// How much to try.
pub struct Effort<'a> {
    /// The seed of all random choices.
    pub seed: u64,
    /// The maximum number of runs.
    pub runs: usize,
    /// The classes of faults to try. Empty for all.
    pub classes: Vec<String>,
    /// Returns the part of the available time that is used up, from 0 to 1.
    pub spent: &'a dyn Fn() -> f64,
    /// Called for each run with its number and the number of all runs, as far as it is known.
    pub progress: &'a mut dyn FnMut(usize, usize),
}

/// The part of the time that is reserved for shortening the scenarios of findings.
const SHORTENING_SHARE: f64 = 0.2;

impl Effort<'_> {
    /// Whether there is time for another run after `runs` runs. If `keeps_some` is true, the part of the time that is
    /// reserved for shortening is left unused.
    pub(crate) fn lasts(&self, runs: usize, keeps_some: bool) -> bool {
        let most = if keeps_some { 1.0 - SHORTENING_SHARE } else { 1.0 };
        #[allow(clippy::cast_precision_loss, reason = "an approximate share is enough")]
        let spent = runs as f64 / self.runs as f64;
        spent < most && (self.spent)() < most
    }
}
