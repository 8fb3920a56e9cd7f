//! The results of the case `dropins`, as JSON and as tables in Markdown.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use windlass_tests::originals::Subject;

use super::{Extent, Round, Side, code};
use crate::facts::Facts;

/// All results.
#[derive(Serialize)]
pub(crate) struct Results {
    facts: Facts,
    extent: Extent,
    dropins: Vec<DropIn>,
    pub(crate) rounds: Vec<Round>,
}

/// A drop-in and the code of both sides.
#[derive(Serialize)]
struct DropIn {
    name: String,
    original: String,
    lines: usize,
    original_lines: usize,
}

impl Results {
    pub(crate) fn new(facts: Facts, extent: Extent, subjects: &[Subject]) -> anyhow::Result<Self> {
        let dropin = |subject: &Subject| {
            Ok(DropIn {
                name: subject.name.clone(),
                original: subject.original.clone(),
                lines: code::lines_of(subject)?,
                original_lines: subject.lines,
            })
        };
        let dropins = subjects.iter().map(dropin).collect::<anyhow::Result<_>>()?;
        Ok(Self { facts, extent, dropins, rounds: Vec::new() })
    }

    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        Ok(std::fs::write(folder.join("dropins.json"), serde_json::to_string_pretty(self)? + "\n")?)
    }

    /// The median of a figure over all rounds, of the originals and of the host.
    fn medians(&self, figure: impl Fn(&Side) -> f64) -> [f64; 2] {
        let median = |side: fn(&Round) -> &Side| {
            let mut figures: Vec<f64> = self.rounds.iter().map(|round| figure(side(round))).collect();
            figures.sort_by(f64::total_cmp);
            figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
        };
        [median(|round| &round.originals), median(|round| &round.host)]
    }

    /// Both tables, in Markdown.
    pub(crate) fn tables(&self) -> String {
        let (facts, count) = (&self.facts, self.dropins.len());
        let mut text = format!(
            "### dropins, {} Secrets and ConfigMaps in {} namespaces\n\n{}, commit {}, {} processors ({}), {:.0} GiB, \
             Linux {}; kube-apiserver {}. Median of {} rounds, times of {} changes each.\n\n",
            self.extent.objects(),
            self.extent.namespaces,
            facts.date,
            facts.commit,
            facts.processors,
            facts.processor,
            facts.memory_mib as f64 / 1024.0,
            facts.kernel,
            facts.kube_apiserver,
            self.rounds.len(),
            self.extent.changes,
        );
        let _ = write!(text, "| | {count} originals | {count} drop-ins in one host | |\n|---|---|---|---|\n");
        let lines = |of: fn(&DropIn) -> usize| self.dropins.iter().map(of).sum::<usize>() as f64;
        let rows = [
            ("memory together, PSS, MiB", self.medians(|side| side.memory.values().sum())),
            ("of it anonymous", self.medians(|side| side.anonymous)),
            ("watches at the server", self.medians(|side| side.watches)),
            ("CPU at rest, ms a second", self.medians(|side| side.cpu_at_rest)),
            ("lines of code", [lines(|it| it.original_lines), lines(|it| it.lines)]),
        ];
        for (name, [originals, host]) in rows {
            let digits = usize::from(name.starts_with("CPU"));
            // The system counts processor time in ticks, so little of it may be none.
            let ratio = if originals > 0.0 { format!("**{:.2}×**", host / originals) } else { "–".to_owned() };
            let _ = writeln!(text, "| {name} | {originals:.digits$} | {host:.digits$} | {ratio} |");
        }
        text += "\n| drop-in | original | its memory, MiB | its time to react, p50, ms | ours | its lines | ours |\n";
        text += "|---|---|---|---|---|---|---|\n";
        let number = |figure: f64| if figure.is_nan() { "–".to_owned() } else { format!("{figure:.0}") };
        for DropIn { name, original, lines, original_lines } in &self.dropins {
            let memory = self.medians(|side| side.memory.get(name).copied().unwrap_or(f64::NAN));
            let times = self.medians(|side| side.reactions.get(name).copied().unwrap_or(f64::NAN));
            let [memory, original_time, time] = [memory[0], times[0], times[1]].map(number);
            let _ = writeln!(
                text,
                "| {name} | {original} | {memory} | {original_time} | {time} | {original_lines} | {lines} |"
            );
        }
        text
    }
}
