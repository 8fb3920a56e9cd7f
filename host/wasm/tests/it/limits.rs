//! Each limit: a guest that exceeds it is stopped with a label and a message, and other guests are not affected.

use crate::support;

use std::time::{Duration, Instant};

use support::guests::{Core, chameleon};
use support::ports::{FakePorts, WriteMode, quiet};
use support::{called, limits, load, reconcile, reconcile_object, sandbox, trapped, until};
use wasmparser::{Parser, Payload};
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::{Called, Limits};

/// The result of one call of `guest`, loaded as `name`.
async fn stopped(limits: Limits, name: &str, guest: &[u8]) -> (&'static str, String) {
    let plugin = load(&sandbox(limits), name, guest).await.expect("it loads");
    let (reason, message) = trapped(reconcile(&plugin, &quiet()).await);
    assert!(!message.contains('\n'), "more than one line: {message}");
    (reason, message)
}

#[tokio::test]
async fn a_spinning_guest_is_stopped_at_its_deadline() {
    let plugin = load(&sandbox(limits()), "chameleon", &chameleon("reconcile-loops")).await.expect("it loads");
    let began = Instant::now();
    let (reason, message) = trapped(reconcile(&plugin, &quiet()).await);
    assert_eq!(reason, "deadline");
    assert!(message.contains("not ended after 300ms") && message.contains("options.deadlineMs"), "{message}");
    assert!(message.contains("; in "), "where it spun: {message}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_guest_that_works_for_too_long_is_stopped_by_its_processor_time() {
    let limits = Limits { cpu: Duration::from_millis(200), ..Limits::default() };
    let plugin = load(&sandbox(limits), "chameleon", &chameleon("reconcile-loops")).await.expect("it loads");
    let Called { result, cpu, .. } = called(&plugin, &quiet(), None).await;
    let (reason, message) = trapped(result);
    assert_eq!(reason, "cpu");
    assert!(message.contains("more than 200ms of processor time") && message.contains("--limit cpu=TIME"), "{message}");
    assert!(message.contains("; in "), "where it spun: {message}");
    assert!((Duration::from_millis(200)..Duration::from_secs(2)).contains(&cpu), "{cpu:?}");
}

#[tokio::test]
async fn waiting_uses_none_of_a_calls_processor_time() {
    let limits = Limits { cpu: Duration::from_millis(500), ..Limits::default() };
    let plugin = load(&sandbox(limits), "chameleon", &chameleon("batch")).await.expect("it loads");
    let slow = FakePorts::with_writes(WriteMode::After(Duration::from_millis(700)));
    let result = reconcile(&plugin, &slow.ports()).await;
    assert!(matches!(result, CallResult::Failed(_)), "it ends as it always does: {result:?}");
}

#[tokio::test]
async fn a_controller_gets_at_most_the_hosts_maximum_deadline() {
    let limits = Limits { most_deadline: Duration::from_millis(300), ..Limits::default() };
    let (reason, message) = stopped(limits, "chameleon", &chameleon("reconcile-loops")).await;
    assert_eq!(reason, "deadline");
    assert!(message.contains("not ended after 300ms") && message.contains("--limit deadline=TIME"), "{message}");
}

#[tokio::test]
async fn a_guest_that_eats_memory_is_stopped() {
    let limits = Limits { memory_bytes: 32 << 20, ..Limits::default() };
    let (reason, message) = stopped(limits, "chameleon", &chameleon("reconcile-allocates")).await;
    assert_eq!(reason, "memory");
    assert!(message.contains("more than 32 MiB of memory (raise it with `--limit memory=SIZE`)"), "{message}");
}

#[tokio::test]
async fn a_small_call_in_rust_needs_no_more_memory_than_it_starts_with() {
    let guest = chameleon("good");
    let memories = Parser::new(0).parse_all(&guest).filter_map(|payload| match payload.expect("a component") {
        Payload::MemorySection(memories) => memories.into_iter().next(),
        _ => None,
    });
    let starts_with: u64 = memories.map(|memory| memory.expect("a memory").initial << 16).sum();
    let plugin = load(&sandbox(Limits::default()), "chameleon", &guest).await.expect("it loads");
    let result = reconcile(&plugin, &quiet()).await;
    assert_eq!((result, plugin.stats().most_memory as u64), (CallResult::Done, starts_with));
}

#[tokio::test]
async fn a_trap_carries_the_text_of_the_panic() {
    let (reason, message) = stopped(Limits::default(), "chameleon", &chameleon("reconcile-traps")).await;
    assert_eq!(reason, "trap");
    assert!(message.contains("reconcile of shop was told to trap"), "{message}");
}

#[tokio::test]
async fn endless_recursion_is_stopped_by_the_stack() {
    let items = "(func $deeper (param i32) (result i32)
        (i32.add (call $deeper (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))";
    let reconcile = "(drop (call $deeper (i32.const 0)))";
    let guest = Core { items: items.to_owned(), reconcile: reconcile.to_owned(), ..Core::default() };
    let (reason, message) = stopped(Limits::default(), "guest", &guest.component()).await;
    assert_eq!(reason, "stack");
    assert!(message.contains("512 KiB of stack") && message.contains("recursion"), "{message}");
}

#[tokio::test]
async fn a_table_bomb_is_stopped() {
    let grow = "(drop (table.grow $t (ref.null func) (i32.const 300000)))";
    let guest = Core { items: "(table $t 1 funcref)".to_owned(), reconcile: grow.to_owned(), ..Core::default() };
    let (reason, message) = stopped(Limits::default(), "guest", &guest.component()).await;
    assert_eq!(reason, "table");
    assert!(message.contains("more than 200000 elements"), "{message}");
}

#[tokio::test]
async fn a_huge_string_is_not_taken_over() {
    let import = r#"(import "windlass:plugin/log@0.3.0" "log" (func $log (param i32 i32 i32 i32 i32)))"#;
    let log = "(call $log (i32.const 2) (i32.const 0) (i32.const 9437184) (i32.const 0) (i32.const 0))";
    let guest = Core { imports: import.to_owned(), reconcile: log.to_owned(), pages: 160, ..Core::default() };
    let (reason, message) = stopped(Limits::default(), "guest", &guest.component()).await;
    assert_eq!(reason, "transfer");
    assert!(message.contains("more than 8 MiB to the host at once"), "{message}");
}

#[tokio::test]
async fn a_list_that_claims_to_be_huge_is_not_allocated() {
    let import = r#"(import "windlass:plugin/log@0.3.0" "log" (func $log (param i32 i32 i32 i32 i32)))"#;
    // A million pairs of empty strings: 16 bytes each in the guest, 48 in the host.
    let log = "(call $log (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 500000))";
    let guest = Core { imports: import.to_owned(), reconcile: log.to_owned(), pages: 160, ..Core::default() };
    let (reason, _) = stopped(Limits::default(), "guest", &guest.component()).await;
    assert_eq!(reason, "transfer");
}

#[tokio::test]
async fn a_flood_of_host_calls_is_stopped() {
    let import = r#"(import "windlass:plugin/owners@0.3.0" "claim" (func $claim (param i32 i32 i32 i32 i32 i32 i32)))"#;
    let flood = "(loop $again
        (call $claim (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 1024))
        (br $again))";
    let limits = Limits { host_calls: 100, ..Limits::default() };
    let (reason, message) = stopped(limits, "guest", &Core::reconciling(import, flood)).await;
    assert_eq!(reason, "host-calls");
    assert!(message.contains("more than 100 calls"), "{message}");
}

#[tokio::test]
async fn writes_over_the_limit_are_stopped_before_any_is_sent() {
    for (writes, reason) in [(3, Some("writes")), (4, None)] {
        let sandbox = sandbox(Limits { writes, ..Limits::default() });
        let plugin = load(&sandbox, "chameleon", &chameleon("batch")).await.expect("it loads");
        let ports = FakePorts::with_writes(WriteMode::Echo);
        let result = reconcile(&plugin, &ports.ports()).await;
        assert_eq!(ports.written.lock().expect("not poisoned").is_empty(), reason.is_some());
        if let Some(reason) = reason {
            let (stopped, message) = trapped(result);
            assert_eq!(stopped, reason);
            assert!(message.contains("more than 3 writes") && message.contains("--limit writes=N"), "{message}");
        }
    }
}

#[tokio::test]
async fn a_plugin_is_not_called_with_an_object_that_is_too_large() {
    let limits = Limits { response_bytes: 1_000, ..Limits::default() };
    let plugin = load(&sandbox(limits), "chameleon", &chameleon("good")).await.expect("it loads");
    let text = format!(r#"{{"metadata":{{"name":"{}"}}}}"#, "x".repeat(1_000));
    let (reason, message) = trapped(reconcile_object(&plugin, &quiet(), Some(&text)).await);
    assert_eq!(reason, "request");
    assert!(message.contains("not called") && message.contains("--limit response=SIZE"), "{message}");
}

#[tokio::test]
async fn randomness_is_given_in_moderation() {
    let import = r#"(import "windlass:plugin/random@0.3.0" "get-bytes" (func $random (param i32 i32)))"#;
    let ask = |bytes: u32| format!("(call $random (i32.const {bytes}) (i32.const 1024))");
    let (reason, message) = stopped(Limits::default(), "guest", &Core::reconciling(import, &ask(65_537))).await;
    assert_eq!(reason, "random-bytes");
    assert!(message.contains("64 KiB"), "{message}");
    let modest = load(&sandbox(Limits::default()), "guest", &Core::reconciling(import, &ask(64))).await.expect("loads");
    assert_eq!(reconcile(&modest, &quiet()).await, CallResult::Done);
}

#[tokio::test]
async fn a_flood_of_log_lines_is_dropped_and_counted() {
    let import = r#"(import "windlass:plugin/log@0.3.0" "log" (func $log (param i32 i32 i32 i32 i32)))"#;
    let flood = "(local $left i32) (local.set $left (i32.const 5000))
        (loop $again
          (call $log (i32.const 2) (i32.const 2048) (i32.const 2) (i32.const 0) (i32.const 0))
          (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))";
    let plugin = load(&sandbox(Limits::default()), "guest", &Core::reconciling(import, flood)).await.expect("it loads");
    assert_eq!(reconcile(&plugin, &quiet()).await, CallResult::Done);
    assert_eq!(plugin.stats().dropped_log_lines, 4000);
}

#[tokio::test]
async fn a_plugin_that_logs_in_each_of_many_calls_is_cut_too() {
    let import = r#"(import "windlass:plugin/log@0.3.0" "log" (func $log (param i32 i32 i32 i32 i32)))"#;
    let line = "(call $log (i32.const 2) (i32.const 2048) (i32.const 2) (i32.const 0) (i32.const 0))";
    // Ten lines may be logged at once, then one per second.
    let limits = Limits { log_lines_per_second: 1, ..Limits::default() };
    let plugin = load(&sandbox(limits), "guest", &Core::reconciling(import, line)).await.expect("it loads");
    let began = Instant::now();
    for _ in 0..30 {
        assert_eq!(reconcile(&plugin, &quiet()).await, CallResult::Done);
    }
    let since = began.elapsed().as_secs() + 1;
    let dropped = plugin.stats().dropped_log_lines;
    assert!(dropped <= 20 && dropped + since >= 20, "{dropped} dropped in {since} s");
}

#[tokio::test]
async fn a_component_with_more_memory_than_allowed_does_not_load() {
    let greedy = Core { pages: 3000, ..Core::default() }.component();
    let message = load(&sandbox(Limits::default()), "guest", &greedy).await.expect_err("too much").to_string();
    assert!(message.contains("memory"), "{message}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_neighbour_runs_while_others_spin_on_every_guest_thread() {
    let minute = Duration::from_mins(1);
    let sandbox = sandbox(Limits { deadline: minute, cpu: minute, ..Limits::default() });
    let spinning = load(&sandbox, "chameleon", &chameleon("reconcile-loops")).await.expect("it loads");
    let good = load(&sandbox, "chameleon", &chameleon("good")).await.expect("it loads");
    let mut spinners = Vec::new();
    for _ in 0..3 {
        let (spinning, before) = (spinning.clone(), sandbox.stats().reserved_memory);
        spinners.push(tokio::spawn(async move { reconcile(&spinning, &quiet()).await }));
        // A call in progress has memory.
        until(|| sandbox.stats().reserved_memory > before).await;
    }
    let began = Instant::now();
    for _ in 0..10 {
        assert_eq!(reconcile(&good, &quiet()).await, CallResult::Done);
    }
    let neighbour = began.elapsed();
    assert!(spinners.iter().all(|spinner| !spinner.is_finished()), "the others must still spin after {neighbour:?}");
    spinners.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn an_abandoned_call_releases_its_permit() {
    let options =
        windlass_wasm::SandboxOptions { threads: 1, concurrent_calls: 1, ..windlass_wasm::SandboxOptions::default() };
    let sandbox = windlass_wasm::Sandbox::new(options).expect("a sandbox");
    let spinning = load(&sandbox, "chameleon", &chameleon("reconcile-loops")).await.expect("it loads");
    let good = load(&sandbox, "chameleon", &chameleon("good")).await.expect("it loads");
    let ports = quiet();
    let abandoned = tokio::time::timeout(Duration::from_millis(100), reconcile(&spinning, &ports)).await;
    assert!(abandoned.is_err(), "it spins until its deadline of 30 s");
    let result = tokio::time::timeout(Duration::from_secs(10), reconcile(&good, &ports)).await;
    assert_eq!(result, Ok(CallResult::Done));
}

/// All calls and timers share the only thread of this runtime, so the timers fire only if the guests yield.
#[tokio::test(flavor = "current_thread")]
async fn the_callers_runtime_keeps_time_while_guests_spin_on_every_thread() {
    let sandbox = sandbox(Limits { cpu: Duration::from_mins(1), ..Limits::default() });
    let spinning = load(&sandbox, "chameleon", &chameleon("reconcile-loops")).await.expect("it loads");
    let writing = load(&sandbox, "chameleon", &chameleon("batch")).await.expect("it loads");
    let (quiet, slow) = (quiet(), FakePorts::with_writes(WriteMode::After(Duration::from_millis(20))));
    let spinners = [(); 3].map(|()| {
        let (spinning, quiet) = (spinning.clone(), quiet.clone());
        tokio::spawn(async move { reconcile(&spinning, &quiet).await })
    });
    let mut late: Vec<Duration> = Vec::new();
    for _ in 0..20 {
        let due = Instant::now() + Duration::from_millis(10);
        tokio::time::sleep_until(due.into()).await;
        late.push(due.elapsed());
    }
    late.sort();
    // The median, because the machine may be busy. If guests blocked the runtime, timers would be late by the guests'
    // processor time.
    assert!(late[10] < Duration::from_millis(500), "{late:?}");
    // The guests' requests to the ports run on this runtime too.
    let result = tokio::time::timeout(Duration::from_secs(10), reconcile(&writing, &slow.ports())).await;
    assert!(matches!(result, Ok(CallResult::Failed(_))), "{result:?}");
    assert_eq!(slow.written.lock().expect("not poisoned").len(), 3);
    assert!(spinners.iter().all(|spinner| !spinner.is_finished()), "the others still spin");
    spinners.iter().for_each(tokio::task::JoinHandle::abort);
}
