//! Components with WASI 0.2, as stock toolchains produce them: they run although nothing is behind the imports, and get
//! no more access than other plugins.
//!
//! There are two kinds of guests: modules for wasip1 with the standard adapter, and guests that call WASI 0.2 directly
//! in the canonical ABI. Each checks the results, and traps if one is wrong.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use support::guests::{Core, wasi};
use support::ports::quiet;
use support::{call_of, call_with, called, limits, load, load_error, patient, reconcile, sandbox, trapped};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use windlass_core::call::ports::{Ports, Surroundings};
use windlass_core::life::instances::Instances;
use windlass_core::object::ObjectKey;
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::{CallLimits, Limits, Plugin, Replay};

/// The adapter of stock toolchains, from wasip1 to WASI 0.2.
const ADAPTER: (&str, &[u8]) = (WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER);

/// A guest that calls WASI of `version` directly: `imports` are its core functions.
fn direct(version: &str, imports: &str, reconcile: &str) -> Vec<u8> {
    Core::calling_wasi(version, imports, reconcile)
}

/// A guest for wasip1 that checks that each call in `checks` returns the given result.
fn adapted(imports: &[(&str, &str)], checks: &[(&str, u32)]) -> Core {
    let import = |(name, signature): &(&str, &str)| {
        format!(r#"(import "wasi_snapshot_preview1" "{name}" (func ${name} {signature} (result i32)))"#)
    };
    let check = |(call, answer): &(&str, u32)| format!("(if (i32.ne {call} (i32.const {answer})) (then unreachable))");
    Core {
        imports: imports.iter().map(import).collect(),
        reconcile: checks.iter().map(check).collect(),
        // The adapter has its own page of memory.
        pages: 8,
        ..Core::default()
    }
}

const FD_WRITE: (&str, &str) = ("fd_write", "(param i32 i32 i32 i32)");
/// A list of one text, of 12 bytes at 1200; the answer goes to 1300.
const TEXT: &str = r#"(data (i32.const 1100) "\b0\04\00\00\0c\00\00\00") (data (i32.const 1200) "hello\nworld!")"#;
const EBADF: u32 = 8;

/// Asserts that `bytes` loads and a call of it succeeds.
async fn assert_done(bytes: &[u8]) {
    let plugin = load(&sandbox(Limits::default()), "guest", bytes).await.expect("it loads");
    assert_eq!(reconcile(&plugin, &quiet()).await, CallResult::Done);
}

/// A call with a simulated clock, in a used instance if there is one.
async fn replayed(plugin: &Arc<Plugin>) -> CallResult {
    let replay = Some(Replay { now: Duration::from_secs(1_000_000_000), seed: [7; 32] });
    let limits = CallLimits { replay, instances: Instances::Reuse, ..CallLimits::default() };
    let call = call_of(plugin, &ObjectKey::namespaced("prod", "shop"));
    call_with(plugin, &quiet(), call, None, limits).await.result
}

/// A call of a new instance with the random `seed` and a simulated clock.
async fn drawn(plugin: &Arc<Plugin>, seed: u8) -> CallResult {
    let replay = Some(Replay { now: Duration::from_secs(1_000_000_000), seed: [seed; 32] });
    let call = call_of(plugin, &ObjectKey::namespaced("prod", "shop"));
    call_with(plugin, &quiet(), call, None, CallLimits { replay, ..CallLimits::default() }).await.result
}

/// The error with which a call of `bytes` is stopped.
async fn stopped(bytes: &[u8], limits: Limits) -> (&'static str, String) {
    let plugin = load(&sandbox(limits), "guest", bytes).await.expect("it loads");
    trapped(reconcile(&plugin, &quiet()).await)
}

#[tokio::test]
async fn a_module_with_the_standard_adapter_finds_an_empty_world() {
    let imports = [
        ("args_sizes_get", "(param i32 i32)"),
        ("environ_sizes_get", "(param i32 i32)"),
        ("fd_prestat_get", "(param i32 i32)"),
        ("path_open", "(param i32 i32 i32 i32 i32 i64 i64 i32 i32)"),
        ("fd_read", "(param i32 i32 i32 i32)"),
        ("random_get", "(param i32 i32)"),
        ("clock_time_get", "(param i32 i64 i32)"),
    ];
    let checks = [
        ("(call $args_sizes_get (i32.const 1300) (i32.const 1304))", 0),
        ("(i32.load (i32.const 1300))", 0),
        ("(call $environ_sizes_get (i32.const 1300) (i32.const 1304))", 0),
        ("(i32.load (i32.const 1300))", 0),
        ("(call $fd_prestat_get (i32.const 3) (i32.const 1300))", EBADF),
        (
            "(call $path_open (i32.const 3) (i32.const 0) (i32.const 2050) (i32.const 9) (i32.const 0) (i64.const 0)
             (i64.const 0) (i32.const 0) (i32.const 1300))",
            EBADF,
        ),
        // Standard input is at its end.
        ("(call $fd_read (i32.const 0) (i32.const 1100) (i32.const 1) (i32.const 1300))", 0),
        ("(i32.load (i32.const 1300))", 0),
        ("(call $random_get (i32.const 1300) (i32.const 8))", 0),
        ("(call $clock_time_get (i32.const 0) (i64.const 1) (i32.const 1300))", 0),
        ("(call $clock_time_get (i32.const 1) (i64.const 1) (i32.const 1300))", 0),
    ];
    assert_done(&Core { items: TEXT.into(), ..adapted(&imports, &checks) }.adapted_by(ADAPTER)).await;
}

#[tokio::test]
async fn standard_error_of_a_runtime_explains_its_trap() {
    let write = "(call $fd_write (i32.const 2) (i32.const 1100) (i32.const 1) (i32.const 1300))";
    let core = Core { items: TEXT.into(), ..adapted(&[FD_WRITE], &[(write, 0)]) };
    let core = Core { reconcile: format!("{} unreachable", core.reconcile), ..core };
    let (reason, message) = stopped(&core.adapted_by(ADAPTER), Limits::default()).await;
    assert_eq!(reason, "trap");
    assert!(message.contains("it had logged: hello world!"), "{message}");
}

#[tokio::test]
async fn output_of_describe_is_refused_and_quoted() {
    let write = "(drop (call $fd_write (i32.const 1) (i32.const 1100) (i32.const 1) (i32.const 1300)))";
    let core = Core { items: TEXT.into(), describe: write.into(), ..adapted(&[FD_WRITE], &[]) };
    let message = load_error("guest", &core.adapted_by(ADAPTER)).await;
    for part in ["`describe` calls `wasi:cli/stdout`", "hello world!"] {
        assert!(message.contains(part), "{part:?} is missing in: {message}");
    }
}

#[tokio::test]
async fn exit_is_a_failure_of_the_call_with_its_code() {
    let exit = r#"(import "wasi:cli/exit@VERSION" "exit-with-code" (func $exit (param i32)))"#;
    let (reason, message) = stopped(&direct("0.2.12", exit, "(call $exit (i32.const 7))"), Limits::default()).await;
    assert_eq!((reason, message.contains("exit code 7")), ("exit", true), "{message}");
    let exit = r#"(import "wasi:cli/exit@VERSION" "exit" (func $exit (param i32)))"#;
    let (reason, message) = stopped(&direct("0.2.12", exit, "(call $exit (i32.const 0))"), Limits::default()).await;
    assert_eq!((reason, message.contains("exit code 0")), ("exit", true), "{message}");
}

const SLEEP: &str = r#"
    (import "wasi:clocks/monotonic-clock@VERSION" "subscribe-duration" (func $after (param i64) (result i32)))
    (import "wasi:clocks/monotonic-clock@VERSION" "now" (func $now (result i64)))
    (import "wasi:io/poll@VERSION" "[method]pollable.block" (func $block (param i32)))
    (import "wasi:io/poll@VERSION" "[resource-drop]pollable" (func $drop (param i32)))"#;

/// Sleeps this many seconds, and traps if less time has passed.
fn sleep(seconds: u64) -> String {
    let nanoseconds = seconds * 1_000_000_000;
    format!(
        "(global.set $began (call $now))
         (call $block (call $after (i64.const {nanoseconds})))
         (if (i64.lt_u (i64.sub (call $now) (global.get $began)) (i64.const {nanoseconds})) (then unreachable))"
    )
}

fn sleeping(version: &str, describe: u64, reconcile: u64) -> Vec<u8> {
    let core = Core {
        imports: SLEEP.replace("VERSION", version),
        items: "(global $began (mut i64) (i64.const 0))".into(),
        describe: sleep(describe),
        reconcile: sleep(reconcile),
        ..Core::default()
    };
    core.with_wasi(&wasi(version))
}

#[tokio::test]
async fn a_sleep_takes_its_time_and_none_where_time_stands_still() {
    // `describe` sleeps an hour, a call sleeps a second; and a replayed call sleeps an hour.
    let plugin = load(&sandbox(patient()), "guest", &sleeping("0.2.0", 3_600, 1)).await.expect("it loads at once");
    assert_eq!(called(&plugin, &quiet(), None).await.result, CallResult::Done);
    let plugin = load(&sandbox(patient()), "guest", &sleeping("0.2.12", 0, 3_600)).await.expect("it loads");
    assert_eq!(replayed(&plugin).await, CallResult::Done);
}

#[tokio::test]
async fn a_sleep_beyond_the_deadline_is_the_plugins_own_overrun() {
    let (reason, message) = stopped(&sleeping("0.2.12", 0, 3_600), limits()).await;
    assert_eq!(reason, "deadline");
    assert!(message.contains("it was waiting for `wasi:io/poll`"), "{message}");
}

#[tokio::test]
async fn a_sleep_holding_reserved_memory_is_stopped_except_on_replay() {
    // All of the guests' memory is reserved, so every call runs in the reserve.
    let memory = 16 << 20;
    let limits = Limits { memory_bytes: memory, guest_memory_bytes: Some(memory), ..patient() };
    let plugin = load(&sandbox(limits), "guest", &sleeping("0.2.12", 3_600, 3_600)).await.expect("it loads");
    let (reason, message) = trapped(reconcile(&plugin, &quiet()).await);
    assert_eq!((reason, message.contains("memory reserve")), ("wasi", true), "{message}");
    assert_eq!(replayed(&plugin).await, CallResult::Done);
}

#[tokio::test]
async fn each_wait_counts_as_a_call_of_the_host() {
    let waits = "(loop $more (call $block (call $after (i64.const 1000000))) (br $more))";
    let limits = Limits { host_calls: 3, ..patient() };
    assert_eq!(stopped(&direct("0.2.12", SLEEP, waits), limits).await.0, "host-calls");
}

#[tokio::test]
async fn time_slept_in_a_replayed_call_does_not_carry_over_to_the_next() {
    let clock = r#"(import "wasi:clocks/wall-clock@0.2.12" "now" (func $time (param i32)))"#;
    let core = Core {
        imports: format!("{}{clock}", SLEEP.replace("VERSION", "0.2.12")),
        items: "(global $calls (mut i32) (i32.const 0))".into(),
        reconcile: "(call $time (i32.const 1200))
            (if (i64.ne (i64.load (i32.const 1200)) (i64.const 1000000000)) (then unreachable))
            (call $block (call $after (i64.const 3600000000000)))
            (call $time (i32.const 1200))
            (if (i64.ne (i64.load (i32.const 1200)) (i64.const 1000003600)) (then unreachable))
            ;; The third call needs an instance that has served two.
            (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
            (if (i32.eq (global.get $calls) (i32.const 3)) (then unreachable))"
            .into(),
        ..Core::default()
    };
    let plugin = load(&sandbox(Limits::default()), "guest", &core.with_wasi(&wasi("0.2.12"))).await.expect("it loads");
    assert_eq!((replayed(&plugin).await, replayed(&plugin).await), (CallResult::Done, CallResult::Done));
    assert_eq!(trapped(replayed(&plugin).await).0, "trap", "it was the same instance");
}

#[tokio::test]
async fn a_poll_returns_what_is_ready_and_an_empty_list_is_a_trap() {
    let imports = format!(r#"{SLEEP} (import "wasi:io/poll@VERSION" "poll" (func $poll (param i32 i32 i32)))"#);
    // Of a wait for an hour and an immediate one, the second is ready.
    let polls = "(i32.store (i32.const 1100) (call $after (i64.const 3600000000000)))
        (i32.store (i32.const 1104) (call $after (i64.const 0)))
        (call $poll (i32.const 1100) (i32.const 2) (i32.const 1200))
        (if (i32.ne (i32.load (i32.const 1204)) (i32.const 1)) (then unreachable))
        (if (i32.ne (i32.load (i32.load (i32.const 1200))) (i32.const 1)) (then unreachable))";
    assert_done(&direct("0.2.3", &imports, polls)).await;
    // Ready pollables come in the order of the list, whichever is older.
    let both = "(i32.store (i32.const 1104) (call $after (i64.const 0)))
        (i32.store (i32.const 1100) (call $after (i64.const 0)))
        (call $poll (i32.const 1100) (i32.const 2) (i32.const 1200))
        (if (i32.ne (i32.load (i32.const 1204)) (i32.const 2)) (then unreachable))
        (if (i64.ne (i64.load (i32.load (i32.const 1200))) (i64.const 0x100000000)) (then unreachable))";
    assert_done(&direct("0.2.12", &imports, both)).await;
    let nothing = "(call $poll (i32.const 1100) (i32.const 0) (i32.const 1200))";
    let (reason, message) = stopped(&direct("0.2.12", &imports, nothing), Limits::default()).await;
    assert_eq!((reason, message.contains("empty list")), ("wasi", true), "{message}");
}

/// Counts how often a call reads its monotonic clock. Waits end at once.
#[derive(Default)]
struct Readings(AtomicUsize);

impl Surroundings for Readings {
    fn now(&self, really: Duration) -> Duration {
        really
    }

    fn monotonic(&self, really: Duration) -> Duration {
        self.0.fetch_add(1, Ordering::Relaxed);
        really
    }

    fn fill_random(&self, _: &mut [u8]) {}

    fn is_simulated(&self) -> bool {
        true
    }

    fn recorded_answers(&self) -> Option<Vec<u32>> {
        None
    }

    fn answered(&self, _: &[u32]) {}

    fn enters(&self, _: Duration) {}
}

#[tokio::test]
async fn waits_read_the_clock_a_fixed_number_of_times_and_streams_never() {
    let imports = r#"(import "wasi:cli/stdin@VERSION" "get-stdin" (func $stdin (result i32)))
        (import "wasi:cli/stdout@VERSION" "get-stdout" (func $stdout (result i32)))
        (import "wasi:io/streams@VERSION" "[method]input-stream.blocking-read" (func $read (param i32 i64 i32)))
        (import "wasi:io/streams@VERSION" "[method]input-stream.blocking-skip" (func $skip (param i32 i64 i32)))
        (import "wasi:io/streams@VERSION" "[method]output-stream.blocking-write-and-flush"
          (func $print (param i32 i32 i32 i32)))
        (import "wasi:io/streams@VERSION" "[method]output-stream.blocking-write-zeroes-and-flush"
          (func $zeroes (param i32 i64 i32)))
        (import "wasi:io/streams@VERSION" "[method]output-stream.blocking-flush" (func $flush (param i32 i32)))
        (import "wasi:io/streams@VERSION" "[method]output-stream.subscribe" (func $subscribe (param i32) (result i32)))
        (import "wasi:clocks/monotonic-clock@VERSION" "subscribe-instant" (func $at (param i64) (result i32)))
        (import "wasi:io/poll@VERSION" "[method]pollable.block" (func $block (param i32)))
        (import "wasi:io/poll@VERSION" "[method]pollable.ready" (func $ready (param i32) (result i32)))
        (import "wasi:io/poll@VERSION" "poll" (func $poll (param i32 i32 i32)))"#;
    let (due, later) = ("(call $at (i64.const 0))", "(call $at (i64.const 0x7fffffffffffffff))");
    let poll = |first: &str, second: &str| {
        format!(
            "(i32.store (i32.const 1100) {first}) (i32.store (i32.const 1104) {second})
             (call $poll (i32.const 1100) (i32.const 2) (i32.const 1200))"
        )
    };
    for (calls, readings) in [
        ("(call $print (call $stdout) (i32.const 2048) (i32.const 2) (i32.const 1100))".to_owned(), 0),
        ("(call $zeroes (call $stdout) (i64.const 2) (i32.const 1100))".to_owned(), 0),
        ("(call $flush (call $stdout) (i32.const 1100))".to_owned(), 0),
        ("(call $read (call $stdin) (i64.const 2) (i32.const 1100))".to_owned(), 0),
        ("(call $skip (call $stdin) (i64.const 2) (i32.const 1104))".to_owned(), 0),
        (poll(due, later), 2),
        (poll(later, later), 2),
        (poll(later, "(call $subscribe (call $stdout))"), 2),
        (format!("(call $block {due})"), 1),
        (format!("(call $block {later})"), 1),
        (format!("(drop (call $ready {due}))"), 1),
        (format!("(drop (call $ready {later}))"), 1),
    ] {
        let plugin = load(&sandbox(Limits::default()), "guest", &direct("0.2.12", imports, &calls)).await;
        let counted = Arc::new(Readings::default());
        let ports = Ports { surroundings: Some(counted.clone()), ..quiet() };
        assert_eq!(reconcile(&plugin.expect("it loads"), &ports).await, CallResult::Done, "{calls}");
        assert_eq!(counted.0.load(Ordering::Relaxed), readings, "{calls}");
    }
}

#[tokio::test]
async fn handles_without_end_stop_the_guest() {
    let imports = r#"(import "wasi:cli/stdout@VERSION" "get-stdout" (func $stdout (result i32)))
        (import "wasi:io/streams@VERSION" "[resource-drop]output-stream" (func $drop (param i32)))"#;
    let kept = "(loop $more (drop (call $stdout)) (br $more))";
    let (reason, message) = stopped(&direct("0.2.12", imports, kept), Limits::default()).await;
    assert_eq!((reason, message.contains("4096 handles")), ("wasi", true), "{message}");
    let dropped = "(local.set 0 (i32.const 10000)) (loop $more (call $drop (call $stdout))
        (br_if $more (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))";
    assert_done(&direct("0.2.12", imports, dropped)).await;
    // An instance that has kept many handles serves no other call, because that call would be stopped for these
    // handles.
    let many = dropped.replace("10000", "3000").replace("(call $drop (call $stdout))", "(drop (call $stdout))");
    let plugin = load(&sandbox(Limits::default()), "guest", &direct("0.2.12", imports, &many)).await.expect("it loads");
    assert_eq!((replayed(&plugin).await, replayed(&plugin).await), (CallResult::Done, CallResult::Done));
}

#[tokio::test]
async fn randomness_is_bounded_as_the_plugins_own_is() {
    let imports = r#"(import "wasi:random/random@VERSION" "get-random-bytes" (func $random (param i64 i32)))"#;
    assert_done(&direct("0.2.12", imports, "(call $random (i64.const 32) (i32.const 1100))")).await;
    let much = "(call $random (i64.const 0x7fffffffffffffff) (i32.const 1100))";
    assert_eq!(stopped(&direct("0.2.12", imports, much), Limits::default()).await.0, "random-bytes");
}

#[tokio::test]
async fn all_randomness_of_a_replayed_call_follows_from_its_seed() {
    let draws = [
        (
            r#"(import "wasi:random/random@VERSION" "get-random-bytes" (func $draw (param i64 i32)))"#,
            "(call $draw (i64.const 4) (i32.const 1104)) (i32.load (i32.load (i32.const 1104)))",
        ),
        (
            r#"(import "wasi:random/random@VERSION" "get-random-u64" (func $draw (result i64)))"#,
            "(i32.wrap_i64 (call $draw))",
        ),
        (
            r#"(import "wasi:random/insecure@VERSION" "get-insecure-random-bytes" (func $draw (param i64 i32)))"#,
            "(call $draw (i64.const 4) (i32.const 1104)) (i32.load (i32.load (i32.const 1104)))",
        ),
        (
            r#"(import "wasi:random/insecure@VERSION" "get-insecure-random-u64" (func $draw (result i64)))"#,
            "(i32.wrap_i64 (call $draw))",
        ),
        (
            r#"(import "wasi:random/insecure-seed@VERSION" "insecure-seed" (func $draw (param i32)))"#,
            "(call $draw (i32.const 1104)) (i32.load (i32.const 1104))",
        ),
    ];
    for (import, draw) in draws {
        // The result asks to be called again after as many milliseconds as were drawn.
        let answer = format!(
            "{draw} (local.set 0) (i32.store8 (i32.const 516) (i32.const 1)) (i32.store (i32.const 524) (local.get 0))"
        );
        let plugin = load(&sandbox(Limits::default()), "guest", &direct("0.2.12", import, &answer)).await;
        let plugin = plugin.expect("it loads");
        let first = drawn(&plugin, 1).await;
        assert!(matches!(first, CallResult::RequeueAfter(_)), "{first:?}");
        assert_eq!(drawn(&plugin, 1).await, first, "{import}");
        assert_ne!(drawn(&plugin, 2).await, first, "{import}");
    }
}

/// The part of `wasi:sockets` that a connecting guest needs, and an interface that no version of WASI has.
const SOCKETS: &str = "package test:guest;
    world wasi {
      include windlass:plugin/reconciler-plugin@0.3.0;
      import wasi:sockets/instance-network@0.2.7;
      import wasi:sockets/tcp-create-socket@0.2.7;
      import wasi:sockets/udp-create-socket@0.2.7;
      import wasi:sockets/ip-name-lookup@0.2.7;
      import wasi:sockets/later@0.2.7;
    }
    package wasi:sockets@0.2.7 {
      interface network {
        resource network;
        enum error-code {
          unknown, access-denied, not-supported, invalid-argument, out-of-memory, timeout, concurrency-conflict,
          not-in-progress, would-block, invalid-state, new-socket-limit, address-not-bindable, address-in-use,
          remote-unreachable, connection-refused, connection-reset, connection-aborted, datagram-too-large,
          name-unresolvable, temporary-resolver-failure, permanent-resolver-failure,
        }
        enum ip-address-family { ipv4, ipv6 }
      }
      interface instance-network { use network.{network}; instance-network: func() -> network; }
      interface tcp { resource tcp-socket; }
      interface tcp-create-socket {
        use network.{error-code, ip-address-family};
        use tcp.{tcp-socket};
        create-tcp-socket: func(family: ip-address-family) -> result<tcp-socket, error-code>;
      }
      interface udp { resource udp-socket; }
      interface udp-create-socket {
        use network.{error-code, ip-address-family};
        use udp.{udp-socket};
        create-udp-socket: func(family: ip-address-family) -> result<udp-socket, error-code>;
      }
      interface ip-name-lookup {
        use network.{error-code, network};
        resource resolve-address-stream;
        resolve-addresses: func(network: borrow<network>, name: string) -> result<resolve-address-stream, error-code>;
      }
      interface later { number: func() -> u32; }
    }";

#[tokio::test]
async fn sockets_and_names_are_refused() {
    let imports = r#"(import "wasi:sockets/instance-network@0.2.7" "instance-network" (func $network (result i32)))
        (import "wasi:sockets/network@0.2.7" "[resource-drop]network" (func $drop (param i32)))
        (import "wasi:sockets/later@0.2.7" "number" (func $number (result i32)))
        (import "wasi:sockets/ip-name-lookup@0.2.7" "resolve-addresses" (func $resolve (param i32 i32 i32 i32)))
        (import "wasi:sockets/udp-create-socket@0.2.7" "create-udp-socket" (func $udp (param i32 i32)))
        (import "wasi:sockets/tcp-create-socket@0.2.7" "create-tcp-socket" (func $tcp (param i32 i32)))"#;
    let guest = |reconcile: &str| {
        let core = Core { imports: imports.into(), reconcile: reconcile.into(), ..Core::default() };
        core.with_wasi(SOCKETS)
    };
    let refused_as = |error: u32| {
        format!(
            "(if (i32.ne (i32.load8_u (i32.const 1100)) (i32.const 1)) (then unreachable))
             (if (i32.ne (i32.load8_u (i32.const 1104)) (i32.const {error})) (then unreachable))"
        )
    };
    let (access_denied, permanent_resolver_failure) = (refused_as(1), refused_as(20));
    let refused = format!(
        "(call $tcp (i32.const 0) (i32.const 1100)) {access_denied}
         (call $tcp (i32.const 1) (i32.const 1100)) {access_denied}
         (call $udp (i32.const 0) (i32.const 1100)) {access_denied}
         (local.set 0 (call $network))
         ;; A name, and an address, which would need no resolver.
         (call $resolve (local.get 0) (i32.const 2048) (i32.const 2) (i32.const 1100)) {permanent_resolver_failure}
         (call $resolve (local.get 0) (i32.const 1200) (i32.const 9) (i32.const 1100)) {permanent_resolver_failure}
         (call $drop (local.get 0))"
    );
    let core = Core {
        imports: imports.into(),
        items: r#"(data (i32.const 1200) "127.0.0.1")"#.into(),
        reconcile: refused,
        ..Core::default()
    };
    assert_done(&core.with_wasi(SOCKETS)).await;
    let (reason, message) = stopped(&guest("(drop (call $number))"), Limits::default()).await;
    assert_eq!(reason, "wasi");
    assert!(message.contains("wasi:sockets/later@0.2.7#number"), "{message}");
    let kept = "(loop $more (drop (call $network)) (br $more))";
    assert_eq!(stopped(&guest(kept), Limits::default()).await.0, "wasi");
}

#[tokio::test]
async fn functions_of_a_later_version_are_refused_and_the_others_work() {
    let later = wasi("0.2.99")
        .replace(
            "poll: func(in: list<borrow<pollable>>) -> list<u32>;",
            "poll: func(in: list<borrow<pollable>>) -> list<u32>;
             enum poll-error { broken, not-supported }
             resource watcher { constructor(of: pollable); }
             poll-later: func(in: list<borrow<pollable>>) -> result<_, poll-error>;",
        )
        .replace("now: func() -> instant;", "now: func() -> instant;\n    later: func() -> pollable;");
    let imports = format!(
        r#"{SLEEP}
        (import "wasi:clocks/monotonic-clock@VERSION" "later" (func $later (result i32)))
        (import "wasi:io/poll@VERSION" "[constructor]watcher" (func $watch (param i32) (result i32)))
        (import "wasi:io/poll@VERSION" "[resource-drop]watcher" (func $drop-watcher (param i32)))
        (import "wasi:io/poll@VERSION" "poll-later" (func $poll-later (param i32 i32 i32)))"#
    );
    // More times than there may be handles.
    let calls = "(local.set 0 (i32.const 4500)) (loop $more
        (if (i64.eqz (call $now)) (then unreachable))
        (call $drop (call $later))
        (call $drop-watcher (call $watch (call $after (i64.const 0))))
        (i32.store (i32.const 1100) (call $after (i64.const 0)))
        (call $poll-later (i32.const 1100) (i32.const 1) (i32.const 1200))
        (if (i32.ne (i32.load8_u (i32.const 1200)) (i32.const 1)) (then unreachable))
        (if (i32.ne (i32.load8_u (i32.const 1201)) (i32.const 1)) (then unreachable))
        (call $block (i32.load (i32.const 1100)))
        (call $drop (i32.load (i32.const 1100)))
        (br_if $more (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))";
    let core = Core { imports: imports.replace("VERSION", "0.2.99"), reconcile: calls.to_owned(), ..Core::default() };
    let sandbox = sandbox(Limits { host_calls: 100_000, ..patient() });
    let plugin = load(&sandbox, "guest", &core.with_wasi(&later)).await.expect("it loads");
    assert_eq!(reconcile(&plugin, &quiet()).await, CallResult::Done);
}

#[tokio::test]
async fn a_stream_is_dropped_after_its_pollables() {
    let imports = r#"(import "wasi:cli/stdin@VERSION" "get-stdin" (func $stdin (result i32)))
        (import "wasi:io/streams@VERSION" "[method]input-stream.subscribe" (func $subscribe (param i32) (result i32)))
        (import "wasi:io/poll@VERSION" "[resource-drop]pollable" (func $drop-pollable (param i32)))
        (import "wasi:io/streams@VERSION" "[resource-drop]input-stream" (func $drop (param i32)))"#;
    let subscribed = "(local.set 0 (call $stdin)) (global.set $pollable (call $subscribe (local.get 0)))";
    let guest = |drops: &str| {
        let core = Core {
            imports: imports.replace("VERSION", "0.2.12"),
            items: "(global $pollable (mut i32) (i32.const 0))".into(),
            reconcile: format!("{subscribed} {drops}"),
            ..Core::default()
        };
        core.with_wasi(&wasi("0.2.12"))
    };
    assert_done(&guest("(call $drop-pollable (global.get $pollable)) (call $drop (local.get 0))")).await;
    let (reason, message) = stopped(&guest("(call $drop (local.get 0))"), Limits::default()).await;
    assert_eq!((reason, message.contains("before it drops the pollables")), ("wasi", true), "{message}");
}

#[tokio::test]
async fn handles_passed_to_a_refused_import_are_released() {
    let text = "package test:guest;
        world wasi {
          include windlass:plugin/reconciler-plugin@0.3.0;
          import wasi:sockets/later@0.2.1;
        }
        package wasi:sockets@0.2.1 {
          interface later {
            variant header-error { invalid-syntax, forbidden, immutable }
            resource fields { constructor(); append: func(name: string) -> result<_, header-error>; }
            resource outgoing-request { constructor(headers: fields); set-scheme: func(of: option<borrow<fields>>) -> result; }
          }
        }";
    let imports = r#"(import "wasi:sockets/later@0.2.1" "[constructor]fields" (func $fields (result i32)))
        (import "wasi:sockets/later@0.2.1" "[method]fields.append" (func $append (param i32 i32 i32 i32)))
        (import "wasi:sockets/later@0.2.1" "[resource-drop]fields" (func $drop-fields (param i32)))
        (import "wasi:sockets/later@0.2.1" "[constructor]outgoing-request" (func $request (param i32) (result i32)))
        (import "wasi:sockets/later@0.2.1" "[method]outgoing-request.set-scheme" (func $scheme (param i32 i32 i32) (result i32)))
        (import "wasi:sockets/later@0.2.1" "[resource-drop]outgoing-request" (func $drop-request (param i32)))"#;
    // More times than there may be handles: lend one, lend another in an option, give one away.
    let calls = "(local.set 0 (i32.const 4500)) (loop $more
        (global.set $lent (call $fields))
        (call $append (global.get $lent) (i32.const 2048) (i32.const 2) (i32.const 1100))
        (if (i32.ne (i32.load8_u (i32.const 1100)) (i32.const 1)) (then unreachable))
        (if (i32.ne (i32.load8_u (i32.const 1101)) (i32.const 1)) (then unreachable))
        (global.set $request (call $request (call $fields)))
        (if (i32.ne (call $scheme (global.get $request) (i32.const 1) (global.get $lent)) (i32.const 1)) (then unreachable))
        (call $drop-fields (global.get $lent))
        (call $drop-request (global.get $request))
        (br_if $more (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))";
    let core = Core {
        imports: imports.into(),
        items: "(global $lent (mut i32) (i32.const 0)) (global $request (mut i32) (i32.const 0))".into(),
        reconcile: calls.into(),
        ..Core::default()
    };
    let sandbox = sandbox(Limits { host_calls: 100_000, ..Limits::default() });
    let plugin = load(&sandbox, "guest", &core.with_wasi(text)).await.expect("it loads");
    assert_eq!(reconcile(&plugin, &quiet()).await, CallResult::Done);
}

#[tokio::test]
async fn messages_about_a_components_wasi_imports_are_bounded() {
    let importing = |interface: &str, imports: &str| {
        let text = format!(
            "package test:guest; world wasi {{ include windlass:plugin/reconciler-plugin@0.3.0; import wasi:http/types@0.2.0; }}
             package wasi:http@0.2.0 {{ interface types {{ {interface} }} }}"
        );
        Core { imports: imports.to_owned(), ..Core::default() }.with_wasi(&text)
    };
    let import = |name: &str, signature: &str| {
        format!(r#"(import "wasi:http/types@0.2.0" "{name}" (func ${name} {signature}))"#)
    };
    let names: Vec<_> = (0..2_100).map(|at| format!("n{at}")).collect();
    let functions = names.join(": func(); ") + ": func();";
    let long = "a".repeat(121);
    for (interface, imports, said) in [
        (
            "flags many { a, b } all: func(of: list<many>);".to_owned(),
            import("all", "(param i32 i32)"),
            "lists of flags",
        ),
        (format!("{long}: func();"), import(&long, ""), "longer names"),
        (functions, names.iter().map(|name| import(name, "")).collect(), "thousands of functions"),
    ] {
        let message = load_error("guest", &importing(&interface, &imports)).await;
        assert!(message.contains(&format!("something that WASI does not have: {said}")), "{message}");
    }
}

#[tokio::test]
async fn more_than_check_write_permits_is_not_written() {
    let imports = r#"(import "wasi:cli/stdout@VERSION" "get-stdout" (func $stdout (result i32)))
        (import "wasi:io/streams@VERSION" "[method]output-stream.write" (func $write (param i32 i32 i32 i32)))"#;
    let write =
        |length: u32| format!("(call $write (call $stdout) (i32.const 0) (i32.const {length}) (i32.const 1100))");
    assert_done(&direct("0.2.12", imports, &write(65_536))).await;
    let (reason, message) = stopped(&direct("0.2.12", imports, &write(65_537)), Limits::default()).await;
    assert_eq!((reason, message.contains("at once")), ("wasi", true), "{message}");
}
