//! Compares a host that saves calls which can change nothing with a host that makes all of them (ADR 46). With the same
//! faults and the same seed, users must see no difference.

use std::collections::BTreeMap;

use windlass_core::life::features::{Feature, FeatureError, Features, Wishes};

use crate::checker::capture_logs;
use crate::fault::Fault;
use crate::plan;
use crate::scenario::Scenario;
use crate::trace::{Happening, Record};
use crate::world::{CheckSubject, Run, World, WorldError};

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavingComparison {
    /// The number of pairs of runs that were compared.
    pub pairs: usize,
    /// The number of calls that were saved.
    pub saved: usize,
    /// Each difference that users could see, with the fault under which they could.
    pub differences: Vec<String>,
}

/// The features of `subject`, with or without saved calls.
fn features(saves: bool) -> Result<Features, FeatureError> {
    Features::new([format!("{}={saves}", Feature::SavedCalls.gate().name).parse::<Wishes>()?])
}

/// Runs the scenario without a fault, and then with each of the first `faults` faults: once by a host that saves calls,
/// and once by a host that does not.
///
/// # Panics
///
/// If the feature does not exist.
pub async fn compare_saving(
    subject: CheckSubject,
    scenario: Scenario,
    seed: u64,
    faults: usize,
) -> Result<SavingComparison, WorldError> {
    let record = Record::default();
    let _logs = capture_logs(&record);
    let world = async |saves: bool| {
        let subject = CheckSubject { features: features(saves).expect("the feature exists"), ..subject.clone() };
        World::new(subject, scenario.clone(), record.clone()).await
    };
    let (saving, calling) = (world(true).await?, world(false).await?);
    let reference = calling.run(&[], seed).await;
    let mut compared = SavingComparison::default();
    compared.add(&saving.run(&[], seed).await, &reference, None);
    let mut singles = plan::singles(&reference.entries, &reference.owned);
    singles.retain(|fault| !scenario.faults.contains_key(&*fault.class));
    plan::turn(&mut singles, seed);
    for fault in singles.iter().take(faults) {
        let faults = std::slice::from_ref(fault);
        let (with, without) = (saving.run(faults, seed).await, calling.run(faults, seed).await);
        compared.add(&with, &without, Some(fault));
    }
    Ok(compared)
}

impl SavingComparison {
    fn add(&mut self, with: &Run, without: &Run, fault: Option<&Fault>) {
        let is_saved = |happened: &Happening| matches!(happened, Happening::Saved(_));
        self.pairs += 1;
        self.saved += with.entries.iter().filter(|entry| is_saved(&entry.happened)).count();
        let under = fault.map_or_else(|| "without a fault".to_owned(), |fault| format!("with {}", fault.name));
        let ends = with.rests.iter().chain([&with.end]).zip(without.rests.iter().chain([&without.end]));
        let differ = ends.flat_map(|(with, without)| with.differences(without));
        let mut found: Vec<String> = differ.map(|it| format!("{it:?}")).collect();
        found.extend((with.broken != without.broken).then(|| format!("{:?}, not {:?}", with.broken, without.broken)));
        let (saving, calling) = (course(with), course(without));
        found.extend((saving != calling).then(|| format!("{saving}, not {calling}")));
        let (saving, calling) = (writes(with), writes(without));
        found.extend((saving != calling).then(|| format!("writes: {saving:?}, not {calling:?}")));
        self.differences.extend(found.into_iter().map(|difference| format!("{under}: {difference}")));
    }
}

/// How the run went on: whether it reached its end, and whether a new start still changed something.
fn course(run: &Run) -> String {
    let Run { rests, undone, noisy, second, left, .. } = run;
    let (is_undone, is_noisy, left) = (undone.is_some(), noisy.is_some(), left.len());
    let (steps, changed) = (rests.len(), second.changed);
    format!("steps: {steps}, undone: {is_undone}, noisy: {is_noisy}, left: {left}, changed by a new start: {changed}")
}

/// The verbs and resources of the committed writes of each key's calls before the new start, in their order. Names are
/// left out: some are random.
fn writes(run: &Run) -> BTreeMap<&str, Vec<String>> {
    let mut writes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let first = run.entries.len().saturating_sub(run.second.entries.len());
    for entry in &run.entries[..first] {
        if let Happening::Request(note) = &entry.happened
            && let Some(key) = note.key.as_deref().filter(|_| note.line.alters() && note.is_carried_out())
        {
            writes.entry(key).or_default().push(format!("{} {}", note.line.verb, note.line.resource));
        }
    }
    writes
}
