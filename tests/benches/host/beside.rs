//! The time that the keys of a good plugin take, from the event to the end of the call: alone, and beside plugins that
//! use as much as they can.
//!
//! There are two kinds of such plugins: some break a limit in each call, which the circuit breaker handles; others
//! always stay just within all limits. The times are from the host's own log, so they do not include the client that
//! causes the events.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::json;
use windlass_tests::server::{Kind, Server};
use windlass_tests::{chameleon, hostile};

use crate::guests::{Core, MANIFEST};
use crate::load::percentile;
use crate::support::process::Watched;
use crate::{median, milliseconds};

/// The number of keys of the good plugin, and the time between two rounds of changes to their objects.
const GOOD_KEYS: usize = 20;
const CHANGE_INTERVAL: Duration = Duration::from_millis(10);
/// Times in the log are cut to microseconds, and some time passes between the measurement and the log line.
const LOG_TIME_GRAIN: Duration = Duration::from_micros(50);
/// The number of keys of each other plugin.
const KEYS_OF_OTHERS: usize = 50;

/// The plugins that break a limit: by a loop, by memory, and by many reads.
const BREAKING: [&str; 3] = ["loops", "devours", "floods-reads"];
/// The plugins that break no limit: their names, and their code as instructions. Each call takes much less than its
/// limit of one second of processor time.
const STAYING: [(&str, &str); 3] = [
    (
        "spins",
        "(local.set $at (i32.const 200000000)) (loop $on (br_if $on (local.tee $at (i32.sub (local.get $at) (i32.const 1)))))",
    ),
    (
        "allocates",
        "(drop (memory.grow (i32.const 1500))) (local.set $at (i32.const 98000000))
         (loop $on (i32.store (local.get $at) (i32.const 1))
           (br_if $on (i32.gt_u (local.tee $at (i32.sub (local.get $at) (i32.const 4096))) (i32.const 200000))))",
    ),
    (
        "floods",
        "(local.set $at (i32.const 9000))
         (loop $on (call $get (i32.const 3072) (i32.const 1024))
           (br_if $on (local.tee $at (i32.sub (local.get $at) (i32.const 1)))))",
    ),
];

pub(crate) async fn measure(time: Duration) -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    for number in 0..GOOD_KEYS {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("good-{number}"), "labels": {"chameleon": "true"}},
        });
        server.objects().apply(&object).await?;
    }
    for number in 0..KEYS_OF_OTHERS {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("bad-{number}"), "labels": {"hostile": "true"}},
        });
        server.objects().apply(&object).await?;
    }
    println!(
        "event → end of the call, a good plugin with {GOOD_KEYS} keys, one of which changes every {CHANGE_INTERVAL:?}"
    );
    let alone = beside(&server, &[], time).await?;
    alone.print("alone", &alone);
    for name in BREAKING {
        beside(&server, &[name], time).await?.print(name, &alone);
    }
    beside(&server, &BREAKING, time).await?.print("all three", &alone);
    for (name, _) in STAYING {
        beside(&server, &[name], time).await?.print(name, &alone);
    }
    beside(&server, &STAYING.map(|(name, _)| name), time).await?.print("all three", &alone);
    Ok(())
}

/// The measured times.
struct Waits {
    sorted: Vec<Duration>,
    /// The number of calls of the other plugins in the same time.
    calls: f64,
}

impl Waits {
    fn print(&self, name: &str, alone: &Self) {
        let (middle, worst) = (median(&self.sorted), percentile(&self.sorted, 99));
        let ratio = worst.as_secs_f64() / percentile(&alone.sorted, 99).as_secs_f64();
        println!(
            "  {name:>12}: p50 {:.2} ms, p99 {:.2} ms ({ratio:.2}×), worst {:.1} ms of {}; {} calls of theirs",
            milliseconds(middle),
            milliseconds(worst),
            milliseconds(self.sorted[self.sorted.len() - 1]),
            self.sorted.len(),
            self.calls,
        );
    }
}

async fn beside(server: &Server, others: &[&str], time: Duration) -> anyhow::Result<Waits> {
    let plugins = tempfile::tempdir()?;
    chameleon::write("good", &plugins.path().join("chameleon.wasm"))?;
    for name in others {
        write(name, plugins.path())?;
    }
    let level = "--log-level=windlass::feed=trace,windlass::dispatch=debug,info";
    let mut host = Watched::start(server, plugins.path(), &[level]).await?;
    for _ in 0..=others.len() {
        host.hears(|line| line.contains("controller started")).await?;
    }
    // The calls at the start are over, and the others have reached their normal state.
    tokio::time::sleep(time / 4).await;
    host.heard();
    let before = calls(&host, others).await?;
    change(server, time).await?;
    let calls = calls(&host, others).await? - before;
    let mut ledger = Ledger::default();
    for line in host.heard() {
        ledger.take(&line)?;
    }
    // Keys that still wait also count, however long they take.
    while !ledger.queued.is_empty() {
        ledger.take(&host.hears_line(|_| true).await?.1)?;
    }
    host.end().await?;
    let mut sorted = ledger.waits;
    sorted.sort_unstable();
    ensure!(!sorted.is_empty(), "the good plugin was not called");
    Ok(Waits { sorted, calls })
}

/// Changes the objects of the good plugin, one after the other, at a steady pace.
async fn change(server: &Server, time: Duration) -> anyhow::Result<()> {
    let mut pace = tokio::time::interval(CHANGE_INTERVAL);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let end = tokio::time::Instant::now() + time;
    for number in 0_usize.. {
        if pace.tick().await > end {
            break;
        }
        let patch = json!({"data": {"changed": number.to_string()}});
        server.objects().merge("ConfigMap", &format!("good-{}", number % GOOD_KEYS), &patch).await?;
    }
    Ok(())
}

/// The state of the good plugin's keys, from the log.
#[derive(Default)]
struct Ledger {
    /// The times at which keys were queued. If a key is queued again before its call, the first time counts.
    queued: BTreeMap<String, Duration>,
    waits: Vec<Duration>,
}

impl Ledger {
    fn take(&mut self, line: &str) -> anyhow::Result<()> {
        let Some((_, rest)) = line.split_once("/good-") else { return Ok(()) };
        let key = rest.split([' ', '}', ':']).next().unwrap_or_default().to_owned();
        if line.contains("queued") {
            self.queued.entry(key).or_insert(time_of(line)?);
        } else if let Some((_, elapsed)) = line.split_once(" called elapsed=") {
            let ended = time_of(line)?;
            // A call that began before the key was queued does not count.
            let began = ended.saturating_sub(time_in(elapsed)?);
            if self.queued.get(&key).is_some_and(|since| *since <= began + LOG_TIME_GRAIN)
                && let Some(since) = self.queued.remove(&key)
            {
                self.waits.push(ended.saturating_sub(since));
            }
        }
        Ok(())
    }
}

/// The duration at the beginning of `text`, in Rust's debug format.
fn time_in(text: &str) -> anyhow::Result<Duration> {
    let word = text.split(' ').next().unwrap_or_default();
    let unit = word.trim_start_matches(|character: char| character.is_ascii_digit() || character == '.');
    let number: f64 = word[..word.len() - unit.len()].parse().with_context(|| word.to_owned())?;
    let seconds = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "µs" => 1e-6,
        "ns" => 1e-9,
        other => anyhow::bail!("{other} is not a unit of time"),
    };
    Ok(Duration::from_secs_f64(number * seconds))
}

/// The time of day of a log line.
fn time_of(line: &str) -> anyhow::Result<Duration> {
    let (_, time) = line.split_once('T').context("a line begins with its time")?;
    let (time, _) = time.split_once('Z').context("in UTC")?;
    let mut parts = time.splitn(3, ':').map(str::parse::<f64>);
    let mut next = || parts.next().context("a time has three parts")?.context("which are numbers");
    Ok(Duration::from_secs_f64(next()? * 3600.0 + next()? * 60.0 + next()?))
}

async fn calls(host: &Watched, plugins: &[&str]) -> anyhow::Result<f64> {
    let mut calls = 0.0;
    for name in plugins {
        calls += host.metric("controller_runtime_reconcile_total", &format!(r#"plugin="{name}""#)).await?;
    }
    Ok(calls)
}

/// Writes the plugin `name` to a file.
fn write(name: &str, directory: &Path) -> anyhow::Result<()> {
    let Some((_, what)) = STAYING.iter().find(|(staying, _)| *staying == name) else {
        return hostile::write(name, directory);
    };
    let primary = r#""kind":"ConfigMap""#;
    let labelled = format!(r#"{primary},"labelSelector":"hostile=true""#);
    let manifest =
        MANIFEST.replacen(r#""name":"guest""#, &format!(r#""name":"{name}""#), 1).replacen(primary, &labelled, 1);
    let imports = r#"(import "windlass:plugin/cache@0.3.0" "get" (func $get (param i32 i32)))"#;
    // The plugin asks to be called again at once: in the answer at 512, the byte of the outcome follows the byte of
    // the result. The arguments of its read are at 3072: the addresses and lengths of the kind and the name, whose
    // texts are at 2048.
    let items = r#"(data (i32.const 516) "\01")
        (data (i32.const 3084) "\00\08\00\00\02\00\00\00\02\08\00\00\09\00\00\00")
        (data (i32.const 3112) "\00\08\00\00\04\00\00\00")"#;
    let guest = Core {
        manifest,
        imports: imports.to_owned(),
        items: items.to_owned(),
        // The input of each call overwrites the input of the previous call.
        realloc: "(global.set $heap (i32.const 65536))".to_owned(),
        reconcile: format!("(local $at i32) {what}"),
        ..Core::default()
    };
    Ok(std::fs::write(directory.join(format!("{name}.wasm")), guest.component())?)
}
