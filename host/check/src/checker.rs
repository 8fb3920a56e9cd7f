//! Drives a check: first the reference run without a fault, then runs with one fault or two.

use std::collections::BTreeMap;

use tracing_subscriber::layer::SubscriberExt as _;

use crate::effort::Effort;
use crate::fault::Fault;
use crate::findings::Findings;
use crate::imports::ImportUse;
use crate::logs::Notes;
use crate::plan;
use crate::report::{Finding, Report, Tried};
use crate::reproduction::Reproduction;
use crate::rule::RunRule;
use crate::scenario::{Scenario, SwitchedOff};
use crate::shrink;
use crate::trace::{Happening, Record};
use crate::verdict;
use crate::world::{CheckSubject, Run, World, WorldError};

/// Checks a plugin under a scenario. The caller must use a single-threaded runtime with paused time, and must have
/// loaded the plugin on it.
///
/// # Errors
/// The scenario cannot be run at all.
pub async fn check(subject: CheckSubject, scenario: Scenario, mut effort: Effort<'_>) -> Result<Report, WorldError> {
    let record = Record::default();
    let _logs = capture_logs(&record);
    let plugin = subject.plugin.clone();
    let world = World::new(subject, scenario, record.clone()).await?;
    let reference = world.run(&[], effort.seed).await;
    let mut checker = Checker::of(&world, &reference);
    checker.without_faults(effort.seed, &|runs| effort.lasts(runs, false)).await;
    let tried = checker.with_faults(&mut effort).await;
    let incomplete = incomplete(&reference);
    let Checker { mut found, runs, .. } = checker;
    let runs = shrink::shorten(&world, &mut found, runs, &effort).await;
    let count = |what: &dyn Fn(&Happening) -> bool| reference.entries.iter().filter(|it| what(&it.happened)).count();
    Ok(Report {
        plugin: plugin.name().to_string(),
        version: plugin.manifest().version.clone(),
        digest: plugin.digest().to_string(),
        scenario: world.scenario().name.clone(),
        seed: effort.seed,
        runs,
        calls: count(&|it| matches!(it, Happening::Call { .. })),
        writes: count(&|it| matches!(it, Happening::Request(note) if note.line.alters())),
        tried,
        rules_off: reasons(world.scenario().rules.iter().map(|(rule, off)| (rule.name(), off))),
        faults_off: reasons(world.scenario().faults.iter().map(|(class, off)| (class.as_str(), off))),
        imports: ImportUse::of(plugin.functions(), &record.imports()),
        incomplete,
        accepted: 0,
        findings: found.ordered(),
    })
}

/// The reason for each rule or class of faults that is switched off.
fn reasons<'a>(off: impl Iterator<Item = (&'a str, &'a SwitchedOff)>) -> BTreeMap<String, String> {
    off.map(|(name, SwitchedOff { off })| (name.to_owned(), off.clone())).collect()
}

/// The reason why the reference run cannot be used to judge the plugin. `None` if it can.
fn incomplete(reference: &Run) -> Option<String> {
    if let Some((step, _)) = &reference.undone {
        return Some(format!("step {} failed without a fault, so no other run was compared", step + 1));
    }
    if reference.noisy.is_some() {
        return Some("the plugin did not stop writing without a fault, so no other run was compared".to_owned());
    }
    let is_called = reference.entries.iter().any(|entry| matches!(entry.happened, Happening::Call { .. }));
    (!is_called).then(|| "the scenario has no object for which the plugin is called".to_owned())
}

/// A repeated run.
#[derive(Debug)]
pub struct RunAgain {
    /// The findings of this run.
    pub findings: Vec<Finding>,
    /// The names of the faults that did not occur, because the plugin behaved differently than before, or because the
    /// file was edited.
    pub missed: Vec<String>,
}

/// Repeats the run of a file that [`Reproduction::parse`] has read.
///
/// # Errors
/// The scenario cannot be run at all.
pub async fn again(subject: CheckSubject, file: Reproduction) -> Result<RunAgain, WorldError> {
    let record = Record::default();
    let _logs = capture_logs(&record);
    let world = World::new(subject, file.scenario, record).await?;
    let reference = world.run(&[], file.seed).await;
    let mut checker = Checker::of(&world, &reference);
    let mut missed = Vec::new();
    if file.faults.is_empty() {
        checker.without_faults(file.seed, &|_| true).await;
    } else {
        let struck = checker.with_fault(&file.faults, file.seed).await;
        let fates = file.faults.iter().zip(struck);
        missed.extend(fates.filter(|(_, struck)| !struck).map(|(fault, _)| fault.name.clone()));
    }
    Ok(RunAgain { findings: checker.found.ordered(), missed })
}

/// Captures the log of this thread until the guard is dropped.
pub(crate) fn capture_logs(record: &Record) -> tracing::subscriber::DefaultGuard {
    tracing::subscriber::set_default(tracing_subscriber::registry().with(Notes(record.clone())))
}

/// A check in progress.
struct Checker<'a> {
    world: &'a World,
    reference: &'a Run,
    found: Findings,
    runs: usize,
}

impl<'a> Checker<'a> {
    fn of(world: &'a World, reference: &'a Run) -> Checker<'a> {
        let off = world.scenario().rules.keys().copied().collect();
        Checker { world, reference, found: Findings::without(off), runs: 1 }
    }

    /// Judges the reference by itself. Then compares it with a run under another seed, and with runs in which objects
    /// have their final form from the beginning.
    async fn without_faults(&mut self, seed: u64, goes_on: &dyn Fn(usize) -> bool) {
        self.found.add(verdict::alone(self.reference), &[], self.reference);
        if !self.can_be_compared() {
            return;
        }
        let is_on = |rule| !self.world.scenario().rules.contains_key(&rule);
        if is_on(RunRule::Chance) {
            let other = self.world.run(&[], seed.wrapping_add(1)).await;
            self.runs += 1;
            self.found.add(verdict::by_chance(&other, self.reference).into_iter().collect(), &[], &other);
        }
        for change in self.world.changes().into_iter().filter(|_| is_on(RunRule::History)) {
            if !goes_on(self.runs) {
                return;
            }
            if let Some((changed, from_start)) = self.world.histories(change, seed).await {
                self.found.add(verdict::by_history(&changed, &from_start).into_iter().collect(), &[], &changed);
                self.runs += 2;
            }
        }
    }

    /// Whether the run is complete, so that other runs can be compared with it.
    fn can_be_compared(&self) -> bool {
        self.reference.undone.is_none() && self.reference.noisy.is_none()
    }

    /// Tries each fault alone, and then pairs of faults. Returns how much was tried.
    async fn with_faults(&mut self, effort: &mut Effort<'_>) -> Tried {
        let mut singles = plan::singles(&self.reference.entries, &self.reference.owned);
        let is_off = |class: &str| self.world.scenario().faults.contains_key(class);
        let is_asked = |class: &String| effort.classes.is_empty() || effort.classes.contains(class);
        singles.retain(|fault| is_asked(&fault.class) && !is_off(&fault.class));
        plan::turn(&mut singles, effort.seed);
        let mut tried = Tried::default();
        for fault in &singles {
            tried.faults.entry(fault.class.clone()).or_default().of += 1;
        }
        if !self.can_be_compared() {
            return tried;
        }
        let one_by_one = singles.iter().map(|fault| vec![fault.clone()]);
        let pairs = plan::pairs(&singles, effort.seed).map(Vec::from);
        for (index, faults) in one_by_one.chain(pairs).enumerate() {
            if !effort.lasts(self.runs, !self.found.is_empty()) {
                break;
            }
            let struck = self.with_fault(&faults, effort.seed).await;
            match &*faults {
                // If only one fault of a pair occurred, the run shows nothing that a run with one fault did not show.
                _ if struck.contains(&false) => tried.unreached += 1,
                [fault] => tried.faults.entry(fault.class.clone()).or_default().tried += 1,
                _ => tried.pairs += 1,
            }
            (effort.progress)(index + 1, singles.len());
        }
        tried
    }

    /// Runs the scenario with faults, and judges the run. Returns whether each fault occurred.
    async fn with_fault(&mut self, faults: &[Fault], seed: u64) -> Vec<bool> {
        let run = self.world.run(faults, seed).await;
        self.runs += 1;
        self.found.add(verdict::compared(&run, self.reference, faults), faults, &run);
        run.struck
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::trace::Entry;
    use crate::world::UserError;

    #[test]
    fn a_reference_that_cannot_be_compared_makes_the_check_incomplete() {
        let call = Happening::Call {
            key: "a".to_owned(),
            result: "Done".to_owned(),
            trapped: false,
            failed: false,
            again: None,
        };
        let run = || Run { entries: vec![Entry { at: Duration::ZERO, happened: call.clone() }], ..Run::default() };
        assert_eq!(incomplete(&run()), None);
        let failed = Run { undone: Some((1, UserError("no".to_owned()))), ..run() };
        assert!(incomplete(&failed).is_some_and(|why| why.starts_with("step 2 failed")));
        assert!(incomplete(&Run { noisy: Some("writes".to_owned()), ..run() }).is_some());
        assert!(incomplete(&Run::default()).is_some_and(|why| why.contains("no object for which")));
    }
}
