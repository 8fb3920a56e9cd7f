//! The cost of a call: with a fresh instance, all limits and accounting; with a read of the cache; and for a hundred
//! plugins in turn. The prototype is measured in the same rounds: bare wasmtime with a pool, without limits and without
//! a host. Also the cost of the whole path from the queue and back in the host as a process, with and without traces.
//!
//! `make bench`, or `-- traces` for the cost of traces alone; docs/benchmarks.md has recorded results. Times are
//! processor times of the whole process, so they include all threads that the host uses for a call.
#![allow(clippy::cast_precision_loss, reason = "figures for people")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures the time of the world")]

mod bare;
mod dispatched;
// Small guests.
#[allow(dead_code, reason = "the sandbox's tests make more of it")]
#[path = "../../../host/wasm/tests/support/guests.rs"]
mod guests;
mod ours;
#[allow(dead_code, reason = "other benchmarks need more of it")]
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use self::guests::Core;

/// The rounds, the calls per round, and the time for which the host is watched. The best round counts, as in the
/// prototype's own figures.
const FULL_RUN: (usize, u32, Duration) = (9, 2_000, Duration::from_secs(5));
/// The same figures for `--quick`, which only tests that the benchmark works.
const QUICK_RUN: (usize, u32, Duration) = (2, 200, Duration::from_secs(1));
/// The number of reads in a call of the reading guest.
const READS_OF_CALL: u32 = 100;
/// The number of different plugins that are called in turn.
const CALLED_PLUGINS: usize = 100;

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (rounds, calls, time) = if std::env::args().any(|it| it == "--quick") { QUICK_RUN } else { FULL_RUN };
    if std::env::args().any(|it| it == "traces") {
        return runtime.block_on(measure_traces(time));
    }
    let calling = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (bare, ours) = calling.block_on(measure(rounds, calls))?;
    let whole = runtime.block_on(dispatched::measure(time))?;
    println!(
        "from `get` to `done`, CPU a key:   {:.1}, of it the call {:.1} ({:.2}× the prototype's on two threads)",
        micros(whole.cpu),
        micros(ours),
        ratio(whole.cpu, bare)
    );
    println!("  … and in time, of a single key: {:.1}", micros(whole.alone));
    runtime.block_on(measure_traces(time))
}

/// Measures and prints the cost of traces per call, from `get` to `done`.
async fn measure_traces(time: Duration) -> anyhow::Result<()> {
    let (without, [unsampled, some, all]) = dispatched::measure_traces(time, ["0", "0.05", "1"]).await?;
    println!("from `get` to `done`, CPU a key, without traces: {:.1}", micros(without));
    for (what, cost) in [("no call", unsampled), ("one call in 20", some), ("each call", all)] {
        println!("  … traces on, {what} sampled: {:.1} ({:.2}×)", micros(cost), ratio(cost, without));
    }
    Ok(())
}

/// Returns the cost of a no-op while two threads call in parallel, each without pauses: first in the prototype, then in
/// the host.
async fn measure(rounds: usize, calls: u32) -> anyhow::Result<(Duration, Duration)> {
    let (idle, reading, rust) = (Core::default().component(), reading(), rust()?);
    let engine = bare::engine()?;
    let prototype = |bytes: &[u8]| bare::Prototype::new(&engine, bytes);
    let (bare_idle, bare_reading, bare_rust) = (prototype(&idle)?, prototype(&reading)?, prototype(&rust)?);
    let host = Arc::new(ours::Host::new().await?);
    let (our_idle, our_reading) = (host.load("guest", &idle).await?, host.load("guest", &reading).await?);
    let our_rust = host.load(RUST, &rust).await?;
    let many = host.load_many(CALLED_PLUGINS).await?;

    let mut best = [Duration::MAX; 9];
    for _ in 0..rounds {
        let round = [
            each(calls, bare_idle.calls(calls)).await?,
            each(calls, host.calls(&our_idle, calls)).await?,
            each(calls, host.calls_in_turn(&many, calls)).await?,
            each(calls, bare_reading.calls(calls)).await?,
            each(calls, host.calls(&our_reading, calls)).await?,
            host.guests_own(&our_idle, calls).await?,
            each(calls, bare_rust.calls(calls)).await?,
            each(calls, host.calls(&our_rust, calls)).await?,
            each(calls, bare_idle.calls_on_two_threads(calls)).await?,
        ];
        for (best, now) in best.iter_mut().zip(round) {
            *best = now.min(*best);
        }
    }
    let [bare, ours, in_turn, bare_reads, our_reads, guests, bare_rust, our_rust, bare_twice] = best;
    println!("µs of processor time a call, best of {rounds} rounds of {calls}");
    println!("no-op, the prototype:             {:.1}", micros(bare));
    println!("no-op, ours:                      {:.1} ({:.2}×)", micros(ours), ratio(ours, bare));
    println!("  … of it on the guest's thread:  {:.1} ({:.2}×)", micros(guests), ratio(guests, bare));
    println!("no-op, the prototype on two threads at once: {:.1}", micros(bare_twice));
    println!(
        "no-op, ours, {CALLED_PLUGINS} plugins in turn on two threads: {:.1} ({:.2}× that, {:.2}× the prototype's on one)",
        micros(in_turn),
        ratio(in_turn, bare_twice),
        ratio(in_turn, bare)
    );
    println!("no-op in Rust, the prototype:     {:.1}", micros(bare_rust));
    println!("no-op in Rust, ours:              {:.1} ({:.2}×)", micros(our_rust), ratio(our_rust, bare_rust));
    let read = |reads: Duration, none: Duration| micros(reads.saturating_sub(none)) / f64::from(READS_OF_CALL);
    println!("cache.get of 2 KiB, the prototype: {:.2}", read(bare_reads, bare));
    println!("cache.get of 2 KiB, ours:          {:.2}", read(our_reads, ours));
    Ok((bare_twice, in_turn))
}

/// The mode in which the guest `hostile` does nothing. It is also the plugin's name.
const RUST: &str = "requeues";

/// A no-op from a real toolchain: with a stack of a mebibyte, a table and data.
fn rust() -> anyhow::Result<Vec<u8>> {
    let directory = tempfile::tempdir()?;
    windlass_tests::hostile::write(RUST, directory.path())?;
    Ok(std::fs::read(directory.path().join(format!("{RUST}.wasm")))?)
}

/// A guest that reads the same `ConfigMap` repeatedly, and traps if a read fails.
fn reading() -> Vec<u8> {
    let imports = r#"(import "windlass:plugin/cache@0.3.0" "get" (func $get (param i32 i32)))"#;
    let get = "(call $get (i32.const 3072) (i32.const 1024))";
    // The first byte is that of the result; the fifth is that of the option inside it.
    let check = "(if (i32.load8_u (i32.const 1024)) (then unreachable))
        (if (i32.eqz (i32.load8_u (i32.const 1028))) (then unreachable))";
    let reconcile = format!(
        "(loop $again {get} {check} (global.set $left (i32.sub (global.get $left) (i32.const 1)))
           (br_if $again (global.get $left)))"
    );
    // The arguments are at 3072: the addresses and lengths of apiVersion and kind, whose texts are at 2048; then the
    // namespace, which is present, and the name.
    let items = format!(
        r#"(global $left (mut i32) (i32.const {READS_OF_CALL})) (data (i32.const 3000) "prodshop")
           (data (i32.const 3084) "\00\08\00\00\02\00\00\00\02\08\00\00\09\00\00\00")
           (data (i32.const 3100) "\01\00\00\00\b8\0b\00\00\04\00\00\00\bc\0b\00\00\04\00\00\00")"#
    );
    Core { imports: imports.to_owned(), items, reconcile, pages: 8, ..Core::default() }.component()
}

/// The processor time per call.
async fn each(calls: u32, run: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<Duration> {
    let before = process_time();
    run.await?;
    Ok(process_time().saturating_sub(before) / calls)
}

fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}
