//! How much is tried, and whether there is time for more.

/// How much is tried.
pub struct Effort<'a> {
    /// Where chance follows from.
    pub seed: u64,
    /// At most so many runs.
    pub runs: usize,
    /// Only faults of these classes. Empty: of all.
    pub classes: Vec<String>,
    /// The part of the time that is spent: with 1, all of it is.
    pub spent: &'a dyn Fn() -> f64,
    /// Is told of each run: its number, and of how many, as far as that is known.
    pub progress: &'a mut dyn FnMut(usize, usize),
}

/// The part of the effort that is kept for shortening the scenarios of findings, where there are any.
const SHORTENING_SHARE: f64 = 0.2;

impl Effort<'_> {
    /// Whether it lasts for another run, with so many done, and with a part of it to be kept or not.
    pub(crate) fn lasts(&self, runs: usize, keeps_some: bool) -> bool {
        let most = if keeps_some { 1.0 - SHORTENING_SHARE } else { 1.0 };
        #[allow(clippy::cast_precision_loss, reason = "a part of so many runs is about so many")]
        let spent = runs as f64 / self.runs as f64;
        spent < most && (self.spent)() < most
    }
}
