//! `windlass top`: continuously shows which plugin uses the CPU, the memory and the API server.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cli::view::{self, ViewFormat, count, size, text, time};
use crate::cli::watching::admin::{AdminArgs, AdminFailure};
use crate::cli::watching::status::sum;

/// Moves the terminal's cursor to the top left, and clears the screen.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// The shortest interval, so that answering does not keep the host from its work.
const TOP_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Arguments of `windlass top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// The column by which plugins are sorted, the most first.
    #[arg(long, value_enum, default_value = "cpu", value_name = "COLUMN")]
    sort_by: SortColumn,
    /// The time between two looks.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    interval: Duration,
    /// Look twice, show the use in between, and exit.
    #[arg(long)]
    once: bool,
    /// The output format.
    #[arg(long, short, value_enum, default_value = "table")]
    output: ViewFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SortColumn {
    Cpu,
    Memory,
    Cache,
    Writes,
}

/// Writes a blank line between two looks. `false` if the reader has gone, as with `head`.
fn goes_on() -> std::io::Result<bool> {
    let mut output = std::io::stdout();
    match output.write_all(b"\n").and_then(|()| output.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = crate::cli::flags::duration::time(text)?;
    if interval < TOP_INTERVAL_MIN {
        Err(format!("the shortest interval is {TOP_INTERVAL_MIN:?}"))
    } else {
        Ok(interval)
    }
}

/// The use of one plugin at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Usage {
    cpu: f64,
    memory: f64,
    cache: f64,
    writes: f64,
}

/// A plugin's use, and its increase since the previous look.
struct TopRow {
    shown: Value,
    usage: Usage,
    /// The CPU seconds and the writes per second. `None` at the first look.
    rates: Option<(f64, f64)>,
}

/// The looks so far.
#[derive(Default)]
struct Looks {
    /// The time of the previous look, and the use that it found, by plugin and replica. Each replica has its own
    /// counts.
    before: Option<(Instant, BTreeMap<[String; 2], Usage>)>,
}

impl TopArgs {
    pub(crate) async fn run(self) -> Result<ExitCode, AdminFailure> {
        let mut looks = Looks::default();
        let is_terminal = std::io::stdout().is_terminal();
        loop {
            match self.admin.plugins(None).await {
                // Rates need two looks.
                Ok(shown) if self.once && looks.before.is_none() => drop(looks.rows(shown.plugins, Instant::now())),
                Ok(shown) => {
                    let mut rows = looks.rows(shown.plugins, Instant::now());
                    rows.sort_by(|one, other| by(self.sort_by, one, other));
                    if is_terminal && !self.once {
                        std::io::stdout().write_all(CLEAR)?;
                    }
                    if !view::print_document(self.output, &rows.iter().map(document).collect())? {
                        crate::cli::print(&table(&rows, self.output == ViewFormat::Wide))?;
                    }
                    if self.once || (!is_terminal && !goes_on()?) {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
                // A host that has answered before may come back, and its restart may be of interest.
                Err(failure) if self.once || looks.before.is_none() => return Err(failure),
                Err(failure) => {
                    let _ = failure.report();
                }
            }
            tokio::time::sleep(self.interval).await;
        }
    }
}

impl Looks {
    /// The plugins at `now`, with their increase since the last look.
    fn rows(&mut self, plugins: Vec<Value>, now: Instant) -> Vec<TopRow> {
        let before = self.before.take();
        let mut seen = BTreeMap::new();
        let rows = plugins.into_iter().map(|shown| {
            let name = [&shown["name"], &shown["replica"]].map(|it| text(it).to_owned());
            let usage = Usage::of(&shown["usage"]);
            let rates = before.as_ref().and_then(|(then, all)| {
                let (former, seconds) = (all.get(&name)?, now.saturating_duration_since(*then).as_secs_f64());
                // A restarted host counts from zero.
                let rate = |now: f64, then: f64| if now < then { now / seconds } else { (now - then) / seconds };
                (seconds > 0.0).then(|| (rate(usage.cpu, former.cpu), rate(usage.writes, former.writes)))
            });
            seen.insert(name, usage);
            TopRow { shown, usage, rates }
        });
        let rows = rows.collect();
        self.before = Some((now, seen));
        rows
    }
}

impl Usage {
    fn of(usage: &Value) -> Self {
        let of = |name: &str| usage[name].as_f64().unwrap_or_default();
        Self { cpu: of("cpuSeconds"), memory: of("memoryBytes"), cache: of("cacheBytes"), writes: of("writes") }
    }
}

/// The order of two plugins: the larger use first, by the current rate if known, then by name.
fn by(column: SortColumn, one: &TopRow, other: &TopRow) -> Ordering {
    let value = |row: &TopRow| match column {
        SortColumn::Cpu => (row.rates.map_or(0.0, |(cpu, _)| cpu), row.usage.cpu),
        SortColumn::Memory => (row.usage.memory, 0.0),
        SortColumn::Cache => (row.usage.cache, 0.0),
        SortColumn::Writes => (row.rates.map_or(0.0, |(_, writes)| writes), row.usage.writes),
    };
    let (one_is, other_is) = (value(one), value(other));
    let order = other_is.0.total_cmp(&one_is.0).then_with(|| other_is.1.total_cmp(&one_is.1));
    order.then_with(|| text(&one.shown["name"]).cmp(text(&other.shown["name"])))
}

fn document(row: &TopRow) -> Value {
    json!({
        "name": row.shown["name"],
        "replica": row.shown["replica"],
        "usage": row.shown["usage"],
        "cpuPercent": row.rates.map(|(cpu, _)| cpu * 100.0),
        "writesPerSecond": row.rates.map(|(_, writes)| writes),
    })
}

fn table(rows: &[TopRow], is_wide: bool) -> String {
    let mut heading = vec!["NAME", "CPU%", "CPU", "MEMORY", "CACHE", "WRITES/S", "WRITES", "QUEUE", "FAILING"];
    if is_wide {
        heading.extend(["PEAK", "STATE"]);
    }
    let with_replica = rows.iter().any(|row| !row.shown["replica"].is_null()) && is_wide;
    if with_replica {
        heading.push("REPLICA");
    }
    let rows = rows.iter().map(|TopRow { shown, rates, .. }| {
        let usage = &shown["usage"];
        let rate = |of: Option<f64>| of.map_or_else(|| "-".to_owned(), |of| format!("{of:.1}"));
        let mut row = vec![
            text(&shown["name"]).to_owned(),
            rate(rates.map(|(cpu, _)| cpu * 100.0)),
            time(&usage["cpuSeconds"]),
            size(&usage["memoryBytes"]),
            size(&usage["cacheBytes"]),
            rate(rates.map(|(_, writes)| writes)),
            count(&usage["writes"]),
            sum(shown, |it| &it["queue"]["depth"]),
            sum(shown, |it| &it["failing"]),
        ];
        if is_wide {
            row.extend([size(&usage["memoryPeakBytes"]), text(&shown["health"]["state"]).to_owned()]);
        }
        if with_replica {
            row.push(text(&shown["replica"]).to_owned());
        }
        row
    });
    view::table(&heading, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(name: &str, cpu: f64, memory: u32, writes: u32) -> Value {
        let usage = json!({
            "cpuSeconds": cpu, "memoryBytes": memory, "memoryPeakBytes": memory, "cacheBytes": 0, "writes": writes,
        });
        json!({"name": name, "usage": usage, "controllers": [], "health": {"state": "running"}})
    }

    fn order(column: SortColumn, rows: &mut [TopRow]) -> Vec<String> {
        rows.sort_by(|one, other| by(column, one, other));
        rows.iter().map(|row| text(&row.shown["name"]).to_owned()).collect()
    }

    #[test]
    fn a_second_look_shows_the_current_usage() {
        let (mut looks, began) = (Looks::default(), Instant::now());
        let mut first = looks.rows(vec![plugin("busy-before", 9.0, 2048, 50), plugin("busy", 1.0, 1024, 10)], began);
        assert_eq!(order(SortColumn::Cpu, &mut first), ["busy-before", "busy"], "as nothing else is known");
        assert!(table(&first, false).contains("busy-before  -     9.0s  2.0Ki"), "{}", table(&first, false));
        let later = began + Duration::from_secs(2);
        let plugins =
            vec![plugin("busy-before", 9.0, 2048, 50), plugin("busy", 2.0, 1024, 14), plugin("new", 0.5, 0, 0)];
        let mut second = looks.rows(plugins, later);
        assert_eq!(order(SortColumn::Cpu, &mut second), ["busy", "busy-before", "new"]);
        let shown = table(&second, false);
        assert!(shown.lines().nth(1).is_some_and(|line| line.starts_with("busy         50.0  2.0s")), "{shown}");
        assert!(shown.contains("  2.0       14 "), "{shown}");
        assert_eq!(order(SortColumn::Memory, &mut second), ["busy-before", "busy", "new"]);
        assert_eq!(order(SortColumn::Writes, &mut second), ["busy", "busy-before", "new"]);
        assert_eq!(order(SortColumn::Cache, &mut second), ["busy", "busy-before", "new"], "by name, as all are alike");
    }

    #[test]
    fn the_usage_of_a_restarted_host_counts_from_its_start() {
        let (mut looks, began) = (Looks::default(), Instant::now());
        drop(looks.rows(vec![plugin("a", 9.0, 0, 50)], began));
        let rows = looks.rows(vec![plugin("a", 1.0, 0, 2)], began + Duration::from_secs(2));
        assert_eq!(rows[0].rates, Some((0.5, 1.0)));
    }

    #[test]
    fn a_very_short_interval_is_refused() {
        assert_eq!(interval("2s"), Ok(Duration::from_secs(2)));
        assert!(interval("1ms").is_err_and(|why| why.contains("100ms")));
    }
}
