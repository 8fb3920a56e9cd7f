//! Proves that a cache has everything that was committed before the proof began (ADR 11): decides what to try, and in which
//! order. What each step asks of the API server is the edge's work; nothing here waits.
//!
//! Whatever is tried, two things end a proof at any time: the cache reaches the version that the server was at, or takes
//! over a complete list that began later.

/// The end of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The cache has everything that was committed before the proof was asked for.
    Proven(Evidence),
    /// There is no such cache: its kind is not served, or nobody watches it any more.
    Lost,
}

/// How a cache was proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Its own watch has brought it to the version that the server was at.
    Reached,
    /// A second watch from where it stands shows nothing that it has not applied.
    Probed,
    /// It equals a list.
    Compared,
    /// It has taken over a complete list that began later.
    Listed,
}

impl Evidence {
    /// The word for it in metrics and logs.
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
    /// Watch from where the cache stands, for a few seconds.
    Probe,
    /// List the metadata of what the cache holds, and compare.
    Compare,
    /// Have the cache list again, and wait for it.
    Relist,
}

/// How a step ended that has proven nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The probe was not told how far the server has come: the newest changes are hidden from it by its selector.
    Silent,
    /// The cache lacks what the server showed, and did not get it in time.
    Behind,
    /// The server no longer knows what has happened since the cache's version.
    Forgotten,
    /// The server is at an older state than the cache, or serves another one.
    WentBack,
    /// The server did not answer, or not to the point.
    Failed,
}

/// Probes that are silent before a list is compared, where that is long: what hides the newest changes may be passing.
const SILENT_PROBES_MAX: u32 = 3;
/// A list that is short enough for host and server not to notice it.
const UNNOTICED_LIST_OBJECTS_MAX: usize = 500;
/// How often the cache may lack something before it is made to list again.
const LACKS_BEFORE_RELIST: u32 = 2;

#[derive(Debug)]
pub struct Course {
    step: ProofStep,
    /// Silent probes that are left.
    probes: u32,
    behind: u32,
}

impl Course {
    /// Where to begin with a cache of so many objects whose versions compare, or do not.
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

    /// Notes how the present step ended.
    pub fn note(&mut self, finding: Finding) {
        self.probes = self.probes.saturating_sub(u32::from(finding == Finding::Silent));
        self.behind += u32::from(finding == Finding::Behind);
        self.step = match (finding, self.step) {
            (Finding::WentBack, _) => ProofStep::Relist,
            (Finding::Behind, _) if self.behind >= LACKS_BEFORE_RELIST => ProofStep::Relist,
            (Finding::Silent, _) if self.probes == 0 => ProofStep::Compare,
            (Finding::Forgotten, ProofStep::Probe) => ProofStep::Compare,
            (_, step) => step,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(comparable: bool, findings: &[Finding]) -> Vec<ProofStep> {
        steps_of(Course::new(comparable, 100_000), findings)
    }

    fn steps_of(mut course: Course, findings: &[Finding]) -> Vec<ProofStep> {
        let mut steps = vec![course.step()];
        for finding in findings {
            course.note(*finding);
            steps.push(course.step());
        }
        steps
    }

    #[test]
    fn a_probe_that_is_told_nothing_is_repeated_and_then_a_list_is_compared() {
        use Finding::{Behind, Silent};
        use ProofStep::{Compare, Probe, Relist};
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
        assert_eq!(steps(false, &[Finding::Behind, Finding::Behind]), [Compare, Compare, Relist]);
    }

    #[test]
    fn a_failure_changes_nothing_and_a_server_that_went_back_is_listed_at_once() {
        use ProofStep::{Compare, Probe, Relist};
        assert_eq!(steps(true, &[Finding::Failed; 9]), [Probe; 10]);
        assert_eq!(steps(false, &[Finding::Failed; 9]), [Compare; 10]);
        assert_eq!(steps(true, &[Finding::WentBack, Finding::Failed]), [Probe, Relist, Relist]);
        assert_eq!(steps(true, &[Finding::Forgotten]), [Probe, Compare]);
    }
}
