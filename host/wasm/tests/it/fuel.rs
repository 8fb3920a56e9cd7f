//! Calls whose processor time is measured in fuel: they are stopped at the same place each time.

use crate::support;

use std::time::Duration;

use support::guests::{chameleon, hostile};
use support::ports::quiet;
use support::{load, options, reconcile, sandbox, trapped};
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::{Limits, Metering, Sandbox, SandboxOptions};

fn limits(metering: Metering) -> Limits {
    Limits { cpu: Duration::from_millis(2), metering, ..Limits::default() }
}

#[tokio::test]
async fn a_guest_that_does_not_end_is_stopped_at_the_same_place_each_time() {
    let sandbox = sandbox(limits(Metering::Fuel));
    let plugin = load(&sandbox, "chameleon", &chameleon("reconcile-loops")).await.expect("it loads");
    let mut ends = Vec::new();
    for _ in 0..3 {
        let (reason, message) = trapped(reconcile(&plugin, &quiet()).await);
        assert_eq!(reason, "cpu", "{message}");
        assert!(
            message.contains("it used more than the instructions that stand for 2ms of processor time"),
            "{message}"
        );
        ends.push(message);
    }
    assert_eq!([&ends[1], &ends[2]], [&ends[0]; 2]);
}

#[tokio::test]
async fn each_call_has_fresh_fuel_and_an_ordinary_one_needs_little() {
    let sandbox = sandbox(limits(Metering::Fuel));
    let plugin = load(&sandbox, "chameleon", &chameleon("good")).await.expect("it loads");
    for _ in 0..3 {
        assert_eq!(reconcile(&plugin, &quiet()).await, CallResult::Done);
    }
}

#[tokio::test]
async fn one_cache_keeps_code_for_fuel_and_for_the_clock() {
    let directory = tempfile::tempdir().expect("a directory");
    let cached = async |metering| {
        let options = SandboxOptions { cache: Some(directory.path().join("cache")), ..options(limits(metering)) };
        let sandbox = Sandbox::new(options).expect("a sandbox");
        load(&sandbox, "chameleon", &chameleon("good")).await.expect("it loads").was_cached()
    };
    for (metering, was_there) in
        [(Metering::Fuel, false), (Metering::Clock, false), (Metering::Fuel, true), (Metering::Clock, true)]
    {
        assert_eq!(cached(metering).await, was_there, "{metering:?}");
    }
}

#[tokio::test]
async fn a_guest_that_only_calls_imports_is_stopped_by_counting_them() {
    let sandbox = sandbox(limits(Metering::Fuel));
    for mode in ["draws-randomness", "asks-the-time"] {
        let plugin = load(&sandbox, mode, &hostile(mode)).await.expect("it loads");
        let mut ends = Vec::new();
        for _ in 0..3 {
            let (reason, message) = trapped(reconcile(&plugin, &quiet()).await);
            assert_eq!(reason, "cpu", "{message}");
            assert!(
                message.contains("it used more than the imports that stand for 2ms of processor time"),
                "{message}"
            );
            ends.push(message);
        }
        assert_eq!([&ends[1], &ends[2]], [&ends[0]; 2]);
    }
}
