//! The distinct findings of a check.

use std::collections::BTreeSet;

use crate::fault::Fault;
use crate::report::Finding;
use crate::rule::RunRule;
use crate::trace::{Entry, Happening};
use crate::verdict::Verdict;
use crate::world::Run;

/// All distinct findings.
#[derive(Default)]
pub(crate) struct Findings {
    found: Vec<Finding>,
    /// The rules that are switched off.
    off: BTreeSet<RunRule>,
}

impl Findings {
    /// Starts without findings. Ignores all verdicts by the rules `off`.
    pub(crate) fn without(off: BTreeSet<RunRule>) -> Findings {
        Findings { off, ..Findings::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Finding> {
        self.found.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Finding> {
        self.found.iter_mut()
    }

    pub(crate) fn add(&mut self, verdicts: Vec<Verdict>, faults: &[Fault], run: &Run) {
        for Verdict { rule, step, details } in verdicts {
            if self.off.contains(&rule) {
                continue;
            }
            match self.found.iter_mut().find(|finding| finding.is_of(rule, &details)) {
                Some(finding) => finding.again += 1,
                None => self.found.push(Finding {
                    rule,
                    step,
                    details,
                    faults: faults.to_vec(),
                    run: run.number,
                    again: 0,
                    steps: None,
                    story: until(&run.entries, rule, step),
                }),
            }
        }
    }

    /// Sorts findings without a fault first, then the findings that the most runs show.
    pub(crate) fn ordered(mut self) -> Vec<Finding> {
        self.found.sort_by_key(|finding| (finding.faults.len(), finding.rule, std::cmp::Reverse(finding.again)));
        self.found
    }
}

/// The entries up to the end of the step after which the finding shows. If there is no such step, all entries. The
/// restart at the end is then included only if the rule is about the restart.
fn until(entries: &[Entry], rule: RunRule, step: Option<usize>) -> Vec<Entry> {
    let mut steps = 0;
    let goes_on = |entry: &&Entry| match &entry.happened {
        Happening::Step(_) => {
            steps += 1;
            step.is_none_or(|step| steps <= step + 1)
        }
        Happening::Restart => rule == RunRule::SecondRun,
        _ => true,
    };
    entries.iter().take_while(goes_on).cloned().collect()
}
