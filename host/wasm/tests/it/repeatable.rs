//! Calls that are not saved, because the guest got something that another call would not get (ADR 46).

use crate::support;

use std::sync::Arc;

use support::guests::{Core, wasi};
use support::ports::quiet;
use support::{call_of, call_with, load, sandbox};
use windlass_core::call::ports::CallContext;
use windlass_core::call::read_tracker::{ReadTracker, Spoiler};
use windlass_core::defect::Defect;
use windlass_core::life::instances::Instances;
use windlass_core::object::ObjectKey;
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::{CallLimits, Limits, Plugin};

/// The imports of WASI that these guests call.
const IMPORTS: &str = r#"
    (import "wasi:clocks/wall-clock@VERSION" "now" (func $wall (param i32)))
    (import "wasi:clocks/monotonic-clock@VERSION" "now" (func $monotonic (result i64)))
    (import "wasi:clocks/monotonic-clock@VERSION" "resolution" (func $resolution (result i64)))
    (import "wasi:clocks/monotonic-clock@VERSION" "subscribe-instant" (func $at (param i64) (result i32)))
    (import "wasi:clocks/monotonic-clock@VERSION" "subscribe-duration" (func $after (param i64) (result i32)))
    (import "wasi:random/random@VERSION" "get-random-u64" (func $random (result i64)))
    (import "wasi:random/insecure@VERSION" "get-insecure-random-u64" (func $insecure (result i64)))
    (import "wasi:random/insecure-seed@VERSION" "insecure-seed" (func $seed (param i32)))"#;

/// Makes a call, and returns what spoils it.
async fn spoiler(plugin: &Arc<Plugin>, instances: Instances) -> Option<Spoiler> {
    let (tracker, key) = (ReadTracker::seeded(7), ObjectKey::namespaced("prod", "shop"));
    let call = CallContext { reads: tracker.clone(), ..CallContext::clone(&call_of(plugin, &key)) };
    let limits = CallLimits { instances, ..CallLimits::default() };
    let called = call_with(plugin, &quiet(), Arc::new(call), None, limits).await;
    assert_eq!(called.result, CallResult::Done);
    tracker.end().expect("the tracker is on").spoiled
}

/// A guest that makes these calls of WASI when it starts, and in `reconcile`.
async fn guest(at_start: &str, calls: &str) -> Arc<Plugin> {
    let start = format!("(func $start {at_start}) (start $start)");
    let items = if at_start.is_empty() { String::new() } else { start };
    let imports = IMPORTS.replace("VERSION", "0.2.12");
    let guest = Core { imports, items, reconcile: calls.to_owned(), ..Core::default() };
    load(&sandbox(Limits::default()), "guest", &guest.with_wasi(&wasi("0.2.12"))).await.expect("it loads")
}

/// Calls that return a number, and what they spoil a call with.
const NUMBERS: [(&str, Option<Spoiler>); 6] = [
    ("(drop (call $resolution))", None),
    ("(drop (call $monotonic))", Some(Spoiler::Clock)),
    ("(drop (call $at (i64.const 1)))", Some(Spoiler::Clock)),
    ("(drop (call $after (i64.const 1)))", Some(Spoiler::Clock)),
    ("(drop (call $random))", Some(Spoiler::Chance)),
    ("(drop (call $insecure))", Some(Spoiler::Chance)),
];

#[tokio::test]
async fn a_guest_that_gets_the_time_or_random_data_spoils_its_call() {
    let in_memory = [
        ("(call $wall (i32.const 1104))", Some(Spoiler::Clock)),
        ("(call $seed (i32.const 1104))", Some(Spoiler::Chance)),
    ];
    for (calls, expected) in NUMBERS.into_iter().chain(in_memory) {
        assert_eq!(spoiler(&guest("", calls).await, Instances::Fresh).await, expected, "{calls}");
    }
}

/// A guest may seed a generator of its own when it starts.
#[tokio::test]
async fn time_and_random_data_at_the_start_spoil_the_call_too() {
    for (at_start, expected) in NUMBERS {
        assert_eq!(spoiler(&guest(at_start, "").await, Instances::Fresh).await, expected, "{at_start}");
    }
}

#[tokio::test]
async fn an_instance_that_serves_another_call_spoils_that_call() {
    let plugin = guest("", "").await;
    for (instances, expected) in [
        (Instances::Fresh, None),
        (Instances::Reuse, None),
        (Instances::Reuse, Some(Spoiler::ReusedInstance)),
        (Instances::Fresh, None),
    ] {
        assert_eq!(spoiler(&plugin, instances).await, expected, "{instances:?}");
    }
}

#[tokio::test]
async fn a_clock_that_is_not_noted_is_found() {
    let plugin = guest("", "(call $wall (i32.const 1104))").await;
    let _seeded = Defect::ClockIsNotNoted.seed();
    assert_eq!(spoiler(&plugin, Instances::Fresh).await, None);
}
