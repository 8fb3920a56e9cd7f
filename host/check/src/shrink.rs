//! Shortens the scenarios of findings: leaves out steps as long as the same finding still shows.

use crate::effort::Effort;
use crate::fault::Fault;
use crate::findings::Findings;
use crate::plan;
use crate::report::Finding;
use crate::rule::RunRule;
use crate::scenario::Step;
use crate::verdict;
use crate::world::World;

/// Shortens the scenario of each finding while there is time. Returns the number of all runs so far, including `runs`.
pub(crate) async fn shorten(world: &World, found: &mut Findings, mut runs: usize, effort: &Effort<'_>) -> usize {
    for finding in found.iter_mut() {
        if !can_be_shortened(finding) {
            continue;
        }
        let all = &world.scenario().steps;
        // Steps after the finding showed cannot have caused it.
        let mut steps = all[..finding.step.map_or(all.len(), |step| (step + 1).min(all.len()))].to_vec();
        let mut chunk = steps.len().div_ceil(2);
        while chunk > 0 {
            let mut end = steps.len();
            while end > 0 && steps.len() > 1 {
                if !effort.lasts(runs, false) {
                    return runs;
                }
                let start = end.saturating_sub(chunk);
                let fewer = [&steps[..start], &steps[end..]].concat();
                runs += 2;
                if let Some(shorter) = shows(world, finding, &fewer, effort.seed).await {
                    (*finding, steps) = (shorter, fewer);
                }
                end = start;
            }
            chunk /= 2;
        }
    }
    runs
}

/// Whether a run with fewer steps can show the same finding.
fn can_be_shortened(finding: &Finding) -> bool {
    match finding.rule {
        // These rules compare further runs, which shortening does not repeat.
        RunRule::Chance | RunRule::History => false,
        // It is unknown which steps an expectation needs. For a finding with a fault, a run without the fault shows
        // whether the shortened scenario still has these steps: the expectation must hold in that run.
        RunRule::Expectation => !finding.faults.is_empty(),
        _ => true,
    }
}

/// The finding, if a run of these steps shows it.
async fn shows(world: &World, finding: &Finding, steps: &[Step], seed: u64) -> Option<Finding> {
    let reference = world.run_steps(steps, &[], seed).await;
    // Find the faults by name, because the same place may have another number in a shorter scenario.
    let places = plan::singles(&reference.entries, &reference.owned);
    let same = |fault: &Fault| places.iter().find(|it| it.name == fault.name).cloned();
    let faults: Vec<Fault> = finding.faults.iter().map(same).collect::<Option<_>>()?;
    let mut found = Findings::default();
    if faults.is_empty() {
        found.add(verdict::alone(&reference), &[], &reference);
    } else {
        let run = world.run_steps(steps, &faults, seed).await;
        found.add(verdict::compared(&run, &reference, &faults), &faults, &run);
    }
    let mut shown = found.iter().find(|it| it.is_of(finding.rule, &finding.details)).cloned()?;
    (shown.run, shown.again) = (finding.run, finding.again);
    shown.steps = Some(steps.to_vec());
    Some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expectation_that_holds_nowhere_needs_all_steps() {
        let finding = |rule, faults: usize| Finding {
            rule,
            step: None,
            details: vec![],
            faults: vec![Fault::default(); faults],
            run: 1,
            again: 0,
            steps: None,
            story: vec![],
        };
        assert!(!can_be_shortened(&finding(RunRule::Expectation, 0)));
        assert!(can_be_shortened(&finding(RunRule::Expectation, 1)));
        assert!(can_be_shortened(&finding(RunRule::Traps, 0)));
        assert!(!can_be_shortened(&finding(RunRule::History, 0)));
    }
}
