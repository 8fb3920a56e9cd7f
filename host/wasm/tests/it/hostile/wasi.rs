//! Attacks through WASI: endless waits, output, randomness and handles.

use super::{ENDLESS_CALL_DEADLINE, Ends, NEIGHBOUR_CALL_TIMEOUT, Scene};
use crate::support::guests::{Core, wasi};

/// The functions of WASI that the attackers call; each attacker imports all of them.
const IMPORTS: &str = r#"
    (import "wasi:cli/exit@0.2.12" "exit" (func $exit (param i32)))
    (import "wasi:cli/stdin@0.2.12" "get-stdin" (func $stdin (result i32)))
    (import "wasi:cli/stdout@0.2.12" "get-stdout" (func $stdout (result i32)))
    (import "wasi:cli/environment@0.2.12" "get-environment" (func $environment (param i32)))
    (import "wasi:clocks/wall-clock@0.2.12" "now" (func $time (param i32)))
    (import "wasi:clocks/monotonic-clock@0.2.12" "now" (func $now (result i64)))
    (import "wasi:clocks/monotonic-clock@0.2.12" "subscribe-instant" (func $at (param i64) (result i32)))
    (import "wasi:clocks/monotonic-clock@0.2.12" "subscribe-duration" (func $after (param i64) (result i32)))
    (import "wasi:io/poll@0.2.12" "poll" (func $poll (param i32 i32 i32)))
    (import "wasi:io/poll@0.2.12" "[method]pollable.ready" (func $ready (param i32) (result i32)))
    (import "wasi:io/poll@0.2.12" "[method]pollable.block" (func $block (param i32)))
    (import "wasi:io/poll@0.2.12" "[resource-drop]pollable" (func $drop-pollable (param i32)))
    (import "wasi:io/streams@0.2.12" "[method]input-stream.read" (func $read (param i32 i64 i32)))
    (import "wasi:io/streams@0.2.12" "[method]input-stream.blocking-read" (func $blocking-read (param i32 i64 i32)))
    (import "wasi:io/streams@0.2.12" "[method]input-stream.blocking-skip" (func $blocking-skip (param i32 i64 i32)))
    (import "wasi:io/streams@0.2.12" "[method]output-stream.subscribe" (func $subscribe (param i32) (result i32)))
    (import "wasi:io/streams@0.2.12" "[method]output-stream.write" (func $write (param i32 i32 i32 i32)))
    (import "wasi:io/streams@0.2.12" "[method]output-stream.blocking-write-and-flush"
        (func $blocking-write (param i32 i32 i32 i32)))
    (import "wasi:io/streams@0.2.12" "[method]output-stream.write-zeroes" (func $zeroes (param i32 i64 i32)))
    (import "wasi:io/streams@0.2.12" "[method]output-stream.blocking-write-zeroes-and-flush"
        (func $blocking-zeroes (param i32 i64 i32)))
    (import "wasi:io/streams@0.2.12" "[method]output-stream.blocking-splice"
        (func $splice (param i32 i32 i64 i32)))
    (import "wasi:random/random@0.2.12" "get-random-bytes" (func $random (param i64 i32)))
    (import "wasi:random/random@0.2.12" "get-random-u64" (func $random-u64 (result i64)))
    (import "wasi:random/insecure-seed@0.2.12" "insecure-seed" (func $seed (param i32)))"#;

/// A guest that runs `reconcile`. `$a` and `$b` are for handles.
fn attacker(reconcile: &str) -> Core {
    Core {
        imports: IMPORTS.to_owned(),
        items: "(global $a (mut i32) (i32.const 0)) (global $b (mut i32) (i32.const 0))".to_owned(),
        reconcile: reconcile.to_owned(),
        // Memory for the lists of handles, and for more than a guest may pass at once.
        pages: 160,
        ..Core::default()
    }
}

fn without_end(body: &str) -> String {
    format!("(loop $more {body} (br $more))")
}

/// Writes the handle `$a` `count` times to memory, starting at `at`.
fn listed(at: u32, count: u32) -> String {
    format!(
        "(local.set 0 (i32.const 0)) (loop $fill
           (i32.store (i32.add (i32.const {at}) (i32.shl (local.get 0) (i32.const 2))) (global.get $a))
           (br_if $fill (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const {count}))))"
    )
}

/// Polls, over and over, a list that contains one ready pollable `count` times.
fn polled(count: u32) -> String {
    let at = if count < 8_000 { 32_768 } else { 5 << 20 };
    format!(
        "(global.set $a (call $after (i64.const 0))) {}
         (loop $more (global.set $heap (i32.const 65536))
           (call $poll (i32.const {at}) (i32.const {count}) (i32.const 1104)) (br $more))",
        listed(at, count)
    )
}

async fn withstands(scene: &Scene, attacks: Vec<(&str, String, Ends)>) {
    let component = |reconcile: &str| attacker(reconcile).with_wasi(&wasi("0.2.12"));
    let attacks = attacks.into_iter().map(|(case, reconcile, ends)| (case, component(&reconcile), ends));
    scene.withstands_components(attacks.collect()).await;
}

#[tokio::test]
async fn waits_without_end_are_stopped_alone() {
    let attacks = vec![
        ("a sleep for ever", "(call $block (call $at (i64.const -1)))".to_owned(), Ends::Stopped("deadline")),
        (
            "a poll of what is ready",
            format!("(global.set $a (call $after (i64.const 0))) {}", without_end("(call $block (global.get $a))")),
            Ends::Stopped("cpu"),
        ),
        (
            "a loop that asks whether it is time",
            format!(
                "(global.set $a (call $at (i64.const -1))) {}",
                without_end("(drop (call $ready (global.get $a)))")
            ),
            Ends::Stopped("cpu"),
        ),
        ("a long list of pollables, over and over", polled(4_096), Ends::Stopped("cpu")),
        ("a longer list than there may be handles", polled(4_097), Ends::Stopped("wasi")),
        ("a list of a million pollables", polled(1_000_000), Ends::Stopped("transfer")),
        (
            "an empty list",
            "(call $poll (i32.const 0) (i32.const 0) (i32.const 1104))".to_owned(),
            Ends::Stopped("wasi"),
        ),
        (
            "the clocks, over and over",
            without_end("(call $time (i32.const 1104)) (drop (call $now))"),
            Ends::Stopped("cpu"),
        ),
    ];
    withstands(&Scene::new(ENDLESS_CALL_DEADLINE).await, attacks).await;
    let naps = without_end(
        "(global.set $a (call $after (i64.const 1000000))) (call $block (global.get $a))
         (call $drop-pollable (global.get $a))",
    );
    withstands(&Scene::new(NEIGHBOUR_CALL_TIMEOUT).await, vec![("naps", naps, Ends::Stopped("host-calls"))]).await;
}

#[tokio::test]
async fn output_without_end_is_dropped_and_more_than_a_buffer_is_stopped() {
    let output = "(global.set $a (call $stdout))";
    let write =
        |length: u32| format!("(call $write (global.get $a) (i32.const 0) (i32.const {length}) (i32.const 1104))");
    let lines = "(i32.store8 (i32.const 131072) (i32.const 10)) (i32.store8 (i32.const 131073) (i32.const 97))";
    let attacks = vec![
        ("output without lines", format!("{output} {}", without_end(&write(65_536))), Ends::Stopped("cpu")),
        (
            "output by small lines",
            format!(
                "{output} {lines} {}",
                without_end("(call $blocking-write (global.get $a) (i32.const 131072) (i32.const 2) (i32.const 1104))")
            ),
            Ends::Stopped("cpu"),
        ),
        ("more than a buffer", format!("{output} {}", write(65_537)), Ends::Stopped("wasi")),
        ("more than a call may hand over", format!("{output} {}", write(9 << 20)), Ends::Stopped("transfer")),
        (
            "all the zeroes that there are",
            format!("{output} (call $zeroes (global.get $a) (i64.const -1) (i32.const 1104))"),
            Ends::Stopped("wasi"),
        ),
        (
            "all the zeroes that there are, with a wait",
            format!("{output} (call $blocking-zeroes (global.get $a) (i64.const -1) (i32.const 1104))"),
            Ends::Stopped("wasi"),
        ),
        (
            "zeroes without end",
            format!("{output} {}", without_end("(call $zeroes (global.get $a) (i64.const 65536) (i32.const 1104))")),
            Ends::Stopped("cpu"),
        ),
    ];
    withstands(&Scene::new(ENDLESS_CALL_DEADLINE).await, attacks).await;
}

#[tokio::test]
async fn reads_and_randomness_without_end_yield_nothing_or_are_stopped() {
    let input = "(global.set $b (call $stdin))";
    let refused = "(if (i32.ne (i32.load8_u (i32.const 1104)) (i32.const 1)) (then unreachable))";
    let attacks = vec![
        (
            "reads of everything",
            format!(
                "{input} (call $read (global.get $b) (i64.const -1) (i32.const 1104)) {refused}
                 (call $blocking-read (global.get $b) (i64.const -1) (i32.const 1104)) {refused}
                 (call $blocking-skip (global.get $b) (i64.const -1) (i32.const 1104)) {refused}
                 (call $splice (call $stdout) (global.get $b) (i64.const -1) (i32.const 1104)) {refused}"
            ),
            Ends::ByItself,
        ),
        (
            "reads without end",
            format!("{input} {}", without_end("(call $blocking-read (global.get $b) (i64.const -1) (i32.const 1104))")),
            Ends::Stopped("cpu"),
        ),
        (
            "all the randomness",
            "(call $random (i64.const -1) (i32.const 1104))".to_owned(),
            Ends::Stopped("random-bytes"),
        ),
        (
            "randomness without end",
            without_end("(global.set $heap (i32.const 65536)) (call $random (i64.const 65536) (i32.const 1104))"),
            Ends::Stopped("cpu"),
        ),
        ("numbers without end", without_end("(drop (call $random-u64))"), Ends::Stopped("cpu")),
        ("seeds without end", without_end("(call $seed (i32.const 1104))"), Ends::Stopped("cpu")),
        ("an environment without end", without_end("(call $environment (i32.const 1104))"), Ends::Stopped("cpu")),
        ("an exit", "(call $exit (i32.const 0))".to_owned(), Ends::Stopped("exit")),
    ];
    withstands(&Scene::new(ENDLESS_CALL_DEADLINE).await, attacks).await;
}

#[tokio::test]
async fn handles_without_end_are_stopped_alone() {
    let attacks = vec![
        ("streams", without_end("(drop (call $stdout))"), Ends::Stopped("wasi")),
        ("inputs", without_end("(drop (call $stdin))"), Ends::Stopped("wasi")),
        ("pollables of the clock", without_end("(drop (call $after (i64.const -1)))"), Ends::Stopped("wasi")),
        (
            "pollables of one stream",
            format!("(global.set $a (call $stdout)) {}", without_end("(drop (call $subscribe (global.get $a)))")),
            Ends::Stopped("wasi"),
        ),
        (
            "handles that are given back",
            without_end(
                "(global.set $a (call $after (i64.const 0))) (call $block (global.get $a))
                 (call $drop-pollable (global.get $a))",
            ),
            Ends::Stopped("cpu"),
        ),
    ];
    withstands(&Scene::new(ENDLESS_CALL_DEADLINE).await, attacks).await;
}

#[tokio::test]
async fn a_describe_that_attacks_by_wasi_is_not_loaded() {
    let describing = |describe: &str| {
        let core = Core { describe: describe.to_owned(), ..attacker("") };
        core.with_wasi(&wasi("0.2.12"))
    };
    // The clock stands still during `describe`, so a sleep takes no time.
    let sleeps = without_end(
        "(global.set $a (call $after (i64.const -1))) (call $block (global.get $a))
         (call $drop-pollable (global.get $a))",
    );
    let prints = "(call $write (call $stdout) (i32.const 2048) (i32.const 2) (i32.const 1104))";
    let components = vec![
        ("sleeps", describing(&sleeps), Ends::NotLoaded("describe", &["(cpu)"])),
        ("prints", describing(prints), Ends::NotLoaded("describe", &["(forbidden-import)", "wasi:cli/stdout"])),
        ("keeps handles", describing(&without_end("(drop (call $stdout))")), Ends::NotLoaded("describe", &["(wasi)"])),
        ("exits", describing("(call $exit (i32.const 1))"), Ends::NotLoaded("describe", &["(exit)", "exit code 1"])),
    ];
    Scene::new(ENDLESS_CALL_DEADLINE).await.withstands_components(components).await;
}
