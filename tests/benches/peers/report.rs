//! The results: every figure as JSON, medians and ratios as tables in Markdown, and plots.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::cases::{Case, Figures};
use crate::contender::Contender;
use crate::facts::Facts;
use crate::plot;

/// The figures of a contender in a case, from one round.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sample {
    pub(crate) round: u32,
    pub(crate) contender: Contender,
    pub(crate) case: Case,
    pub(crate) objects: usize,
    /// The load of the machine in the minute before.
    pub(crate) load: String,
    pub(crate) figures: Figures,
    pub(crate) requests: BTreeMap<String, u64>,
}

/// A column of a table, and a panel of a plot.
pub(crate) struct Column {
    pub(crate) figure: &'static str,
    pub(crate) title: &'static str,
    digits: usize,
    /// Whether a ratio to the peer is meaningful.
    is_compared: bool,
}

const fn compared(figure: &'static str, title: &'static str, digits: usize) -> Column {
    Column { figure, title, digits, is_compared: true }
}

const fn alone(figure: &'static str, title: &'static str) -> Column {
    Column { figure, title, digits: 0, is_compared: false }
}

const CONVERGE: &[Column] = &[
    compared("time_s", "time, s", 1),
    compared("controller_cpu_s", "CPU of the controller, s", 2),
    compared("server_cpu_s", "CPU of the server, s", 1),
    compared("requests_each", "requests each", 2),
    alone("conflicts", "conflicts"),
    compared("pss_mib", "PSS, MiB", 0),
    compared("peak_rss_mib", "peak RSS, MiB", 0),
    compared("context_switches_each", "context switches each", 0),
];
const NOOP: &[Column] = &[
    compared("controller_cpu_each_ms", "CPU of the controller each, ms", 3),
    compared("server_cpu_each_ms", "CPU of the server each, ms", 2),
    alone("requests", "requests"),
    compared("context_switches_each", "context switches each", 1),
];
const EDIT: &[Column] = &[
    compared("paced_p50_ms", "10/s: p50, ms", 1),
    compared("paced_p99_ms", "10/s: p99, ms", 1),
    compared("at_once_p50_ms", "at once: p50, ms", 0),
    compared("at_once_p99_ms", "at once: p99, ms", 0),
    compared("controller_cpu_each_ms", "CPU of the controller each, ms", 2),
    compared("server_cpu_each_ms", "CPU of the server each, ms", 2),
    compared("requests_each", "requests each", 2),
    alone("conflicts", "conflicts"),
];
const STEADY: &[Column] = &[
    compared("at_rest_s", "start to rest, s", 1),
    compared("start_cpu_s", "CPU until then, s", 2),
    compared("rest_cpu_ms_s", "CPU at rest, ms a second", 1),
    compared("heartbeats_cpu_ms_s", "CPU with heartbeats, ms a second", 1),
    compared("pss_mib", "PSS, MiB", 0),
    compared("peak_rss_mib", "peak RSS, MiB", 0),
];

const SWAP: &[Column] = &[
    compared("swap_p50_ms", "p50, ms", 0),
    compared("swap_p90_ms", "p90, ms", 0),
    compared("swap_worst_ms", "the worst, ms", 0),
    alone("conflicts", "conflicts"),
];
const DENSITY: &[Column] = &[
    compared("pss_mib", "PSS, MiB", 0),
    compared("anonymous_mib", "anonymous, MiB", 0),
    compared("pss_each_mib", "PSS each, MiB", 2),
    compared("watches", "watches at the server", 0),
    compared("ready_s", "start to ready, s", 1),
    compared("rest_cpu_ms_s", "CPU at rest, ms a second", 1),
];

/// The columns of a case.
pub(crate) fn columns(case: Case) -> &'static [Column] {
    match case {
        Case::Converge | Case::Converge5000 => CONVERGE,
        Case::Noop | Case::Heartbeat => NOOP,
        Case::Edit => EDIT,
        Case::Swap => SWAP,
        Case::Steady => STEADY,
        Case::Density1 | Case::Density10 | Case::Density100 | Case::Density1000 => DENSITY,
        // It has tables of its own.
        Case::Dropins => &[],
    }
}

/// The values of a figure over all rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// `None` if there are no figures.
    fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let middle = figures.len() / 2;
        let median = if figures.len().is_multiple_of(2) {
            (figures.get(middle.checked_sub(1)?)? + figures[middle]) / 2.0
        } else {
            *figures.get(middle)?
        };
        Some(Self { least: *figures.first()?, median, most: *figures.last()? })
    }
}

/// All results.
#[derive(Serialize)]
pub(crate) struct Report {
    facts: Facts,
    seed: u64,
    samples: Vec<Sample>,
}

impl Report {
    pub(crate) fn new(facts: Facts, seed: u64) -> Self {
        Self { facts, seed, samples: Vec::new() }
    }

    pub(crate) fn add(&mut self, samples: Vec<Sample>) {
        self.samples.extend(samples);
    }

    /// Writes the JSON and the plots.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        std::fs::write(folder.join("peers.json"), serde_json::to_string_pretty(self)? + "\n")?;
        for case in self.cases() {
            std::fs::write(folder.join(format!("peers-{}.svg", case.name())), plot::draw(self, case))?;
        }
        Ok(())
    }

    fn cases(&self) -> BTreeSet<Case> {
        self.samples.iter().map(|sample| sample.case).collect()
    }

    fn of(&self, case: Case) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| sample.case == case)
    }

    pub(crate) fn contenders(&self, case: Case) -> BTreeSet<Contender> {
        self.of(case).map(|sample| sample.contender).collect()
    }

    /// The number of objects in a case.
    pub(crate) fn objects(&self, case: Case) -> usize {
        self.of(case).map(|sample| sample.objects).next().unwrap_or_default()
    }

    /// A figure of a contender.
    pub(crate) fn spread(&self, case: Case, contender: Contender, figure: &str) -> Option<Spread> {
        let of = self.of(case).filter(|sample| sample.contender == contender);
        Spread::of(of.filter_map(|sample| sample.figures.get(figure).copied()).collect())
    }

    /// The contender with which `contender` is compared in a case. `None` for the reference itself.
    fn peer(&self, case: Case, contender: Contender) -> Option<Contender> {
        let contenders = self.contenders(case);
        let peer = Some(contender.peer()).filter(|peer| contenders.contains(peer) && *peer != contender);
        peer.or((contender != Contender::ControllerRuntime).then_some(Contender::ControllerRuntime))
    }

    /// The ratios of a contender to its `peer`, each within the same round.
    fn ratio(&self, case: Case, contender: Contender, peer: Contender, figure: &str) -> Option<Spread> {
        let in_round = |round: u32, contender: Contender| {
            let mut of = self.of(case).filter(|sample| sample.round == round && sample.contender == contender);
            of.next()?.figures.get(figure).copied()
        };
        let rounds: BTreeSet<_> = self.of(case).map(|sample| sample.round).collect();
        let ratios = rounds.into_iter().filter_map(|round| {
            let peers = in_round(round, peer).filter(|peers| *peers > 0.0)?;
            Some(in_round(round, contender)? / peers)
        });
        Spread::of(ratios.collect())
    }

    /// All tables, in Markdown.
    pub(crate) fn tables(&self) -> String {
        let facts = &self.facts;
        let mut text = format!(
            "{}, commit {}, {} processors ({}), {:.0} GiB, Linux {}, load {} when it began. kube-apiserver {}, controller-runtime {}, \
             kube-rs {}. `--seed {}`\n",
            facts.date,
            facts.commit,
            facts.processors,
            facts.processor,
            facts.memory_mib as f64 / 1024.0,
            facts.kernel,
            facts.load,
            facts.kube_apiserver,
            facts.controller_runtime,
            facts.kube_rs,
            self.seed,
        );
        for case in self.cases() {
            text += &self.table(case);
        }
        text
    }

    /// A table with a row for each contender: its peer; the median, with the minimum and maximum in parentheses; and
    /// the ratio to the peer in bold.
    fn table(&self, case: Case) -> String {
        let columns = columns(case);
        let mut text = format!("\n### {}, {} objects\n\n| |", case.name(), self.objects(case));
        let _ = write!(text, " beside |");
        for column in columns {
            let _ = write!(text, " {} |", column.title);
        }
        let _ = write!(text, "\n|---|---|{}\n", "---|".repeat(columns.len()));
        for contender in self.contenders(case) {
            let peer = self.peer(case, contender).map_or("–".to_owned(), Contender::name);
            let _ = write!(text, "| {} | {peer} |", contender.name());
            for column in columns {
                let _ = write!(text, " {} |", self.cell(case, contender, column));
            }
            text += "\n";
        }
        text
    }

    fn cell(&self, case: Case, contender: Contender, column: &Column) -> String {
        let Some(spread) = self.spread(case, contender, column.figure) else { return "–".to_owned() };
        let digits = column.digits;
        let number = |figure: f64| format!("{figure:.digits$}");
        let mut text = number(spread.median);
        if number(spread.least) != number(spread.most) {
            let _ = write!(text, " ({}–{})", number(spread.least), number(spread.most));
        }
        let peer = self.peer(case, contender).filter(|_| column.is_compared);
        if let Some(ratio) = peer.and_then(|peer| self.ratio(case, contender, peer, column.figure)) {
            let _ = write!(text, " **{:.2}×**", ratio.median);
        }
        text
    }
}

impl Sample {
    /// Prints a line of progress.
    pub(crate) fn print(&self) {
        let figures = columns(self.case).iter().filter_map(|column| {
            let figure = self.figures.get(column.figure)?;
            Some(format!("{} {figure:.*}", column.title, column.digits))
        });
        let (round, contender, case) = (self.round, self.contender.name(), self.case.name());
        println!("round {round}, {case}, {contender}: {}", figures.collect::<Vec<_>>().join("; "));
        let requests = self.requests.iter().map(|(what, count)| format!("{count} {what}"));
        println!("    {}", requests.collect::<Vec<_>>().join(", "));
    }
}
