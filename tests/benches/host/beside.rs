//! How long a good plugin's keys take, from the event to the end of the call, alone and beside plugins that take what
//! they can get.
//!
//! Two kinds of these: such as break a limit with each call, which the circuit breaker sees to, and such as stay just
//! within all of them, for ever. The times are those of the host's own log, so that whoever makes the events is not in
//! them.

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

/// Keys of the good plugin, and how often one of them changes.
const GOOD_KEYS: usize = 20;
const CHANGE_INTERVAL: Duration = Duration::from_millis(10);
/// Times in the log are cut to microseconds, and a little passes between what is measured and what is said.
const LOG_TIME_GRAIN: Duration = Duration::from_micros(50);
/// Keys of each of the others.
const KEYS_OF_OTHERS: usize = 50;

/// The attackers that break a limit: they spin, they allocate, they flood.
const BREAKING: [&str; 3] = ["loops", "devours", "floods-reads"];
/// Those that do not, as instructions. Each takes much less than the second of processor time that a call may have.
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
    alone.tell("alone", &alone);
    for name in BREAKING {
        beside(&server, &[name], time).await?.tell(name, &alone);
    }
    beside(&server, &BREAKING, time).await?.tell("all three", &alone);
    for (name, _) in STAYING {
        beside(&server, &[name], time).await?.tell(name, &alone);
    }
    beside(&server, &STAYING.map(|(name, _)| name), time).await?.tell("all three", &alone);
    Ok(())
}

/// The good plugin's figures.
struct Waits {
    sorted: Vec<Duration>,
    /// Calls of the others meanwhile.
    calls: f64,
}

impl Waits {
    fn tell(&self, name: &str, alone: &Self) {
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
    // What all keys do at the start is over, and the others are at what they do.
    tokio::time::sleep(time / 4).await;
    host.heard();
    let before = calls(&host, others).await?;
    change(server, time).await?;
    let calls = calls(&host, others).await? - before;
    let mut ledger = Ledger::default();
    for line in host.heard() {
        ledger.take(&line)?;
    }
    // Who still waits counts, however long that takes.
    while !ledger.queued.is_empty() {
        ledger.take(&host.hears_line(|_| true).await?.1)?;
    }
    host.end().await?;
    let mut sorted = ledger.waits;
    sorted.sort_unstable();
    ensure!(!sorted.is_empty(), "the good plugin was not called");
    Ok(Waits { sorted, calls })
}

/// Changes one object of the good plugin's after the other, at a steady pace.
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

/// The log's account of the good plugin's keys.
#[derive(Default)]
struct Ledger {
    /// Since when: a key that is queued again meanwhile waits since the first time.
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
            // A call that had begun before is about what was before.
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

/// The time at the beginning of `text`, as Rust writes it.
fn time_in(text: &str) -> anyhow::Result<Duration> {
    let word = text.split(' ').next().unwrap_or_default();
    let unit = word.trim_start_matches(|character: char| character.is_ascii_digit() || character == '.');
    let number: f64 = word[..word.len() - unit.len()].parse().with_context(|| word.to_owned())?;
    let seconds = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "µs" => 1e-6,
        "ns" => 1e-9,
        other => anyhow::bail!("{other} is no unit of time"),
    };
    Ok(Duration::from_secs_f64(number * seconds))
}

/// The time of day at which a line was logged.
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

/// Writes the plugin `name`.
fn write(name: &str, directory: &Path) -> anyhow::Result<()> {
    let Some((_, what)) = STAYING.iter().find(|(staying, _)| *staying == name) else {
        return hostile::write(name, directory);
    };
    let primary = r#""kind":"ConfigMap""#;
    let labelled = format!(r#"{primary},"labelSelector":"hostile=true""#);
    let manifest =
        MANIFEST.replacen(r#""name":"guest""#, &format!(r#""name":"{name}""#), 1).replacen(primary, &labelled, 1);
    let imports = r#"(import "windlass:plugin/cache@0.3.0" "get" (func $get (param i32 i32)))"#;
    // It asks to be called again at once: in the answer at 512, after the byte of the result, stands that of the
    // outcome. At 3072 are the arguments of its read: the kind and the name, as addresses and lengths, of the texts at
    // 2048.
    let items = r#"(data (i32.const 516) "\01")
        (data (i32.const 3084) "\00\08\00\00\02\00\00\00\02\08\00\00\09\00\00\00")
        (data (i32.const 3112) "\00\08\00\00\04\00\00\00")"#;
    let guest = Core {
        manifest,
        imports: imports.to_owned(),
        items: items.to_owned(),
        // What it is told lies over what it was told before.
        realloc: "(global.set $heap (i32.const 65536))".to_owned(),
        reconcile: format!("(local $at i32) {what}"),
        ..Core::default()
    };
    Ok(std::fs::write(directory.join(format!("{name}.wasm")), guest.component())?)
}
