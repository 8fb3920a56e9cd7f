//! The distinct findings of a check.

use crate::fault::Fault;
use crate::report::Finding;
use crate::trace::{Entry, Happening};
use crate::verdict::{RunRule, Verdict};
use crate::world::Run;

/// All distinct findings.
#[derive(Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Finding> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Finding> {
        self.0.iter_mut()
    }

    pub(crate) fn add(&mut self, verdicts: Vec<Verdict>, faults: &[Fault], run: &Run) {
        for Verdict { rule, step, details } in verdicts {
            match self.0.iter_mut().find(|finding| finding.is_of(rule, &details)) {
                Some(finding) => finding.again += 1,
                None => self.0.push(Finding {
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

    /// Sorted: findings without a fault first, then those that most faults show.
    pub(crate) fn ordered(mut self) -> Vec<Finding> {
        self.0.sort_by_key(|finding| (finding.faults.len(), finding.rule, std::cmp::Reverse(finding.again)));
        self.0
    }
}

/// The story up to the end of the step after which the finding shows. Without a step, the restart at the end is left
/// out unless the rule is about it.
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
