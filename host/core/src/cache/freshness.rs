//! Proves that a cache has everything that was committed before the proof began (ADR 11). Decides what to try and in
//! which order. The edge sends the requests; nothing here waits.
//!
//! Two things end a proof at any time: the cache reaches the version that the server had, or it takes over a complete
//! list that began after the proof did.

/// The end of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The cache has everything that was committed before the proof was asked for.
    Proven(Evidence),
    /// The cache no longer exists: its kind is not served, or nothing watches it any more.
    Lost,
}

/// How a cache was proven fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The cache's own watch has reached the version that the server had.
    Reached,
    /// A second watch from the cache's version shows nothing that the cache has not applied.
    Probed,
    /// The cache equals a list.
    Compared,
    /// The cache has taken over a complete list that began after the proof did.
    Listed,
}

impl Evidence {
    /// The label in metrics and logs.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::Probed => "probed",
            Self::Compared => "compared",
            Self::Listed => "listed",
        }
    }
}

/// The next thing to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofStep {
    /// Watch from the cache's version for a few seconds.
    Probe,
    /// List the metadata of the cached objects and compare.
    Compare,
    /// Make the cache list again, and wait for it.
    Relist,
}

/// Why a step has proven nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unproven {
    /// The probe received no version: its selector hides the newest changes.
    Silent,
    /// The cache lacks what the server showed, and did not get it in time.
    Behind,
    /// The server no longer has the history since the cache's version.
    Forgotten,
    /// The server's state is older than the cache's, or belongs to another history.
    WentBack,
    /// The server did not answer, or its answer could not be used.
    Failed,
}

/// The number of silent probes after which a long list is compared. Silence may only mean a burst of changes that the
/// selector hides.
const SILENT_PROBES_MAX: u32 = 3;
/// Up to this number of objects, a list costs the host and the server next to nothing.
const UNNOTICED_LIST_OBJECTS_MAX: usize = 500;
/// After this many times [`Unproven::Behind`], the cache must list again.
const LACKS_BEFORE_RELIST: u32 = 2;

#[derive(Debug)]
pub struct Course {
    step: ProofStep,
    /// Silent probes left.
    probes: u32,
    behind: u32,
}

impl Course {
    /// The first step for a cache of `objects` objects. `comparable` says whether its versions can be ordered.
    #[must_use]
    pub fn new(comparable: bool, objects: usize) -> Self {
        let step = if comparable { ProofStep::Probe } else { ProofStep::Compare };
        Self { step, probes: if objects > UNNOTICED_LIST_OBJECTS_MAX { SILENT_PROBES_MAX } else { 1 }, behind: 0 }
    }

    /// The next thing to try.
    #[must_use]
    pub fn step(&self) -> ProofStep {
        self.step
    }

    /// Records how the present step ended.
    pub fn note(&mut self, unproven: Unproven) {
        self.probes = self.probes.saturating_sub(u32::from(unproven == Unproven::Silent));
        self.behind += u32::from(unproven == Unproven::Behind);
        self.step = match (unproven, self.step) {
            (Unproven::WentBack, _) => ProofStep::Relist,
            (Unproven::Behind, _) if self.behind >= LACKS_BEFORE_RELIST => ProofStep::Relist,
            (Unproven::Silent, _) if self.probes == 0 => ProofStep::Compare,
            (Unproven::Forgotten, ProofStep::Probe) => ProofStep::Compare,
            (_, step) => step,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(comparable: bool, all: &[Unproven]) -> Vec<ProofStep> {
        steps_of(Course::new(comparable, 100_000), all)
    }

    fn steps_of(mut course: Course, all: &[Unproven]) -> Vec<ProofStep> {
        let mut steps = vec![course.step()];
        for unproven in all {
            course.note(*unproven);
            steps.push(course.step());
        }
        steps
    }

    #[test]
    fn a_silent_probe_is_repeated_before_a_list_is_compared() {
        use ProofStep::{Compare, Probe, Relist};
        use Unproven::{Behind, Silent};
        assert_eq!(steps(true, &[Silent, Silent, Silent]), [Probe, Probe, Probe, Compare]);
        assert_eq!(steps(true, &[Silent, Silent, Silent, Behind, Behind])[3..], [Compare, Compare, Relist]);
        assert_eq!(
            steps_of(Course::new(true, 500), &[Silent]),
            [Probe, Compare],
            "a short list costs less than waiting"
        );
    }

    #[test]
    fn versions_that_do_not_compare_are_not_probed() {
        use ProofStep::{Compare, Relist};
        assert_eq!(steps(false, &[Unproven::Behind, Unproven::Behind]), [Compare, Compare, Relist]);
    }

    #[test]
    fn failures_keep_the_step_and_a_restored_server_is_listed_at_once() {
        use ProofStep::{Compare, Probe, Relist};
        assert_eq!(steps(true, &[Unproven::Failed; 9]), [Probe; 10]);
        assert_eq!(steps(false, &[Unproven::Failed; 9]), [Compare; 10]);
        assert_eq!(steps(true, &[Unproven::WentBack, Unproven::Failed]), [Probe, Relist, Relist]);
        assert_eq!(steps(true, &[Unproven::Forgotten]), [Probe, Compare]);
    }
}
