//! Measures the cost of a cached object, and how fast it is found: `make bench`. docs/benchmarks.md has recorded
//! results.
//!
//! Each figure comes from a separate process of this binary that accesses the API server only by HTTP; the server is
//! another such process. A figure is the median of several runs. `--quick` measures with 10,000 Pods only,
//! `--streaming` lets the server offer streaming lists.
#![allow(clippy::cast_precision_loss, reason = "figures for people")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures the time of the world")]

mod cases;
mod corpus;
mod latency;
mod process;
mod server;

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::cases::Case;

const SEED: u64 = 20_261_121;
const RUNS: usize = 3;

/// A runtime with the same options as the host's.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime")
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<usize>().expect("a number");
    match *arguments {
        ["--serve", count, streaming] => server::serve(number(count), streaming == "streaming"),
        ["--case", name, port, lists, count] => {
            let (_, case) = Case::ALL.into_iter().find(|(known, _)| *known == name).expect("a case");
            cases::run(case, port.parse().expect("a port"), lists, number(count));
        }
        ["--latency", count, events, threads] => latency::run(number(count), number(events), threads),
        _ => {
            let known = |argument: &&str| ["--quick", "--streaming"].contains(argument);
            assert!(arguments.iter().all(known), "--quick and --streaming are all there is: {arguments:?}");
            measure(arguments.contains(&"--quick"), arguments.contains(&"--streaming"));
        }
    }
}

fn measure(quick: bool, streaming: bool) {
    let counts: &[usize] = if quick { &[10_000] } else { &[10_000, 100_000] };
    for &count in counts {
        let server = Server::start(count, streaming);
        println!(
            "{count} Pods, {} B each on the wire, {} B of it managedFields; {}",
            server.wire,
            server.managed_fields,
            if streaming { "streaming lists" } else { "lists in pages" }
        );
        let empty = server.median(Case::Empty, 0);
        memory_and_list(count, &empty, &server.median(Case::Full, count));
        for (case, bar, peer) in [
            (Case::Metadata, "<= 600 B", "controller-runtime 2.1-2.2 KB (stripped)"),
            (Case::Cold, "<= 2 KB", "bytes without managedFields 4.8-5.7 KB"),
        ] {
            let what = format!("memory, {}", case.name());
            let figures = server.median(case, count);
            row(&what, &bytes(beyond(&figures, &empty, "resident") / count as f64), bar, peer);
            if case == Case::Cold {
                row("get by key, cold", &nanoseconds(figures["text"]), "<= 10 us", "with deep copy 11 us");
            }
        }
        drop(server);
        let events = if quick { 10_000 } else { 100_000 };
        // Most of the measured time is spent waiting for a shared core. A median of several runs would hide the long
        // waits, so there is only one run.
        for (threads, bar) in [("one", "p99 < 50 us"), ("many", "")] {
            let times = figures(&["--latency", &count.to_string(), &events.to_string(), threads]);
            let of = |name: &str| format!("{:.0}", times[name] / 1e3);
            let text = format!("{} {} {} {} us", of("p50"), of("p99"), of("p999"), of("max"));
            row(&format!("event received -> worker, {threads} thread: p50 p99 p99.9 max"), &text, bar, "-");
        }
    }
}

fn memory_and_list(count: usize, empty: &Figures, full: &Figures) {
    let each = |name| beyond(full, empty, name) / count as f64;
    let peer = "controller-runtime 14.4-16.1 KB, stripped 12.2-14.1; bytes 4.8-5.7";
    row("memory, settled", &bytes(each("resident")), "<= 4.5 KB", peer);
    row("  anonymous only", &bytes(each("anonymous")), "", "");
    let ratio = beyond(full, empty, "peak") / beyond(full, empty, "resident");
    row("peak of the initial list, of settled", &format!("{ratio:.2}x"), "<= 1.25x", "1.15-1.3x");
    let peer = "controller-runtime 66-94 us, kube-rs 150-180, bytes 57-68";
    row("initial list, CPU", &format!("{:.1} us", full["cpu"] / 1e3 / count as f64), "<= 40 us", peer);
    row("  its time", &format!("{:.2} s", full["wall"] / 1e9), "", "");
    row("get by key", &nanoseconds(full["get"]), "<= 400 ns", "indexer 410-530 ns; with deep copy 11 us");
    row("  and its text", &nanoseconds(full["text"]), "", "");
    row("by owner, 10", &nanoseconds(full["owned"]), "<= 2000 ns", "650 ns pointers; 19 us through the cache client");
    row("an empty host", &format!("{:.1} MB", empty["resident"] / 1e6), "", "");
}

fn row(what: &str, ours: &str, bar: &str, peer: &str) {
    println!("  {what:<46} {ours:>18}   {bar:<12} {peer}");
}

fn bytes(size: f64) -> String {
    format!("{size:.0} B")
}

fn nanoseconds(time: f64) -> String {
    format!("{time:.0} ns")
}

/// Figures by name.
type Figures = HashMap<String, f64>;

fn beyond(full: &Figures, empty: &Figures, name: &str) -> f64 {
    full[name] - empty[name]
}

fn this_binary() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    // Requests must not go through a proxy, because the server is on this machine.
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        command.env_remove(name);
    }
    command
}

/// The figures that a process of this binary printed.
fn figures(arguments: &[&str]) -> Figures {
    let output = this_binary().args(arguments).stderr(Stdio::inherit()).output().expect("this binary runs");
    assert!(output.status.success(), "{arguments:?}: {}", output.status);
    let text = String::from_utf8(output.stdout).expect("text");
    let figure = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    text.lines().map(|line| figure(line).unwrap_or_else(|| panic!("no figure: {line}"))).collect()
}

struct Server {
    process: Child,
    port: String,
    /// How the server supports lists.
    lists: &'static str,
    wire: usize,
    managed_fields: usize,
}

impl Server {
    fn start(count: usize, streaming: bool) -> Self {
        let mode = if streaming { "streaming" } else { "pages" };
        let mut command = this_binary();
        command.args(["--serve", &count.to_string(), mode]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("this binary runs");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let words: Vec<_> = line.split_whitespace().collect();
        let [port, wire, managed_fields] = *words else { panic!("the server printed {line:?}") };
        let number = |text: &str| text.parse().expect("a number");
        Self { port: port.to_owned(), lists: mode, wire: number(wire), managed_fields: number(managed_fields), process }
    }

    /// The median of each figure over several runs.
    fn median(&self, case: Case, count: usize) -> Figures {
        let arguments = ["--case", case.name(), &self.port, self.lists, &count.to_string()];
        let runs: Vec<_> = (0..RUNS).map(|_| figures(&arguments)).collect();
        let median = |name: &String| {
            let mut values: Vec<_> = runs.iter().map(|run| run[name]).collect();
            values.sort_unstable_by(f64::total_cmp);
            (name.clone(), values[RUNS / 2])
        };
        runs[0].keys().map(median).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // If this process is killed, the server ends by itself when its stdin is closed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
