//! Instances that serve more than one call: which state they keep, which they reset, and when they are dropped.

use crate::support;

use std::sync::Arc;
use std::time::Duration;

use support::guests::{CLAIM, CLAIM_IMPORT, Core};
use support::ports::quiet;
use support::{call_of, call_with, load, sandbox, until};
use windlass_core::call::ports::CallContext;
use windlass_core::life::instances::Instances;
use windlass_core::object::ObjectKey;
use windlass_core::queue::outcome::CallResult;
use windlass_core::rights::grants::{Grants, Rule};
use windlass_wasm::{CallLimits, Limits, Plugin, Sandbox};

/// A guest that counts its calls in its memory, and traps in the third call.
fn counting() -> Core {
    let count = "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
        (if (i32.eq (global.get $calls) (i32.const 3)) (then unreachable))";
    Core {
        imports: CLAIM_IMPORT.to_owned(),
        items: "(global $calls (mut i32) (i32.const 0))".to_owned(),
        reconcile: format!("{count} {CLAIM}"),
        ..Core::default()
    }
}

async fn loaded(limits: Limits, guest: &Core) -> (Sandbox, Arc<Plugin>) {
    let sandbox = sandbox(limits);
    let plugin = load(&sandbox, "guest", &guest.component()).await.expect("it loads");
    (sandbox, plugin)
}

async fn call(plugin: &Arc<Plugin>, instances: Instances) -> CallResult {
    let call = call_of(plugin, &ObjectKey::namespaced("prod", "shop"));
    let limits = CallLimits { instances, ..CallLimits::default() };
    let result = call_with(plugin, &quiet(), call.clone(), None, limits).await.result;
    assert_eq!(Arc::strong_count(&call), 1, "nothing holds on to a call that has ended");
    result
}

/// For each of `calls` consecutive calls, whether it was stopped.
async fn stopped(plugin: &Arc<Plugin>, calls: usize, instances: Instances) -> Vec<bool> {
    let mut stopped = Vec::new();
    for _ in 0..calls {
        stopped.push(call(plugin, instances).await != CallResult::Done);
    }
    stopped
}

#[tokio::test]
async fn an_instance_serves_calls_until_it_is_stopped() {
    let (sandbox, plugin) = loaded(Limits::default(), &counting()).await;
    assert_eq!(stopped(&plugin, 5, Instances::Reuse).await, [false, false, true, false, false]);
    assert_eq!(sandbox.stats().parked_instances, 1);
    assert_eq!(stopped(&plugin, 4, Instances::Fresh).await, [false; 4]);
}

/// Makes a call with this configuration and these grants. Returns whether the instance had served a call before.
async fn is_used_again(plugin: &Arc<Plugin>, config: &str, grants: &Grants) -> bool {
    let call = call_of(plugin, &ObjectKey::namespaced("prod", "shop"));
    call.principal.grants.replace(grants.clone());
    let call = CallContext { config: config.into(), ..CallContext::clone(&call) };
    let limits = CallLimits { instances: Instances::Reuse, ..CallLimits::default() };
    call_with(plugin, &quiet(), Arc::new(call), None, limits).await.result != CallResult::Done
}

#[tokio::test]
async fn an_instance_serves_no_call_of_another_configuration_or_policy() {
    let count = "(global.set $calls (i32.add (global.get $calls) (i32.const 1)))
        (if (i32.eq (global.get $calls) (i32.const 2)) (then unreachable))";
    let (sandbox, plugin) = loaded(Limits::default(), &Core { reconcile: count.to_owned(), ..counting() }).await;
    let (one, other) = (Grants::default(), Grants::new(vec![Rule::default()]));
    assert!(!is_used_again(&plugin, "{}", &one).await);
    assert!(is_used_again(&plugin, "{}", &one).await);
    assert!(!is_used_again(&plugin, "{}", &one).await);
    assert!(!is_used_again(&plugin, r#"{"secret": 1}"#, &one).await, "another configuration");
    assert!(!is_used_again(&plugin, r#"{"secret": 1}"#, &other).await, "another policy");
    assert_eq!(sandbox.stats().parked_instances, 1, "those from before have gone");
    assert!(is_used_again(&plugin, r#"{"secret": 1}"#, &other).await);
    assert!(!is_used_again(&plugin, "{}", &one).await);
    assert_eq!(call(&plugin, Instances::Fresh).await, CallResult::Done);
    assert_eq!(sandbox.stats().parked_instances, 0, "they are not used again any more");
}

#[tokio::test]
async fn an_instance_serves_a_limited_number_of_calls() {
    let (sandbox, plugin) = loaded(Limits { calls_per_instance: 2, ..Limits::default() }, &counting()).await;
    assert_eq!(stopped(&plugin, 6, Instances::Reuse).await, [false; 6]);
    assert_eq!(sandbox.stats().parked_instances, 0);
}

#[tokio::test]
async fn each_call_of_an_instance_has_its_own_limits() {
    let guest = Core { imports: CLAIM_IMPORT.to_owned(), reconcile: CLAIM.to_owned(), ..Core::default() };
    let (_sandbox, plugin) =
        loaded(Limits { host_calls: 1, deadline: Duration::from_secs(1), ..Limits::default() }, &guest).await;
    for _ in 0..3 {
        assert_eq!(call(&plugin, Instances::Reuse).await, CallResult::Done);
        // The deadline of the first call has passed when the last one begins.
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
}

fn growing(pages: u32) -> Core {
    Core {
        reconcile: format!("(if (i32.eq (memory.grow (i32.const {pages})) (i32.const -1)) (then unreachable))"),
        ..Core::default()
    }
}

#[tokio::test]
async fn memory_that_an_instance_has_grown_to_counts_in_its_next_call() {
    let (sandbox, plugin) = loaded(Limits { memory_bytes: 210 << 16, ..Limits::default() }, &growing(108)).await;
    assert_eq!(stopped(&plugin, 1, Instances::Reuse).await, [false]);
    assert_eq!(sandbox.stats().reserved_memory, 110 << 16, "it counts while it is parked");
    let CallResult::Trapped { reason, .. } = call(&plugin, Instances::Reuse).await else {
        panic!("it grows too large")
    };
    assert_eq!(reason, "memory");
    assert_eq!(sandbox.stats().reserved_memory, 0);
}

#[tokio::test]
async fn an_instance_that_used_half_of_its_remaining_memory_is_not_reused() {
    // Its first call leaves 248 of 300 pages; the fourth leaves less than half of these.
    let (sandbox, plugin) = loaded(Limits { memory_bytes: 300 << 16, ..Limits::default() }, &growing(50)).await;
    let mut parked = Vec::new();
    for _ in 0..6 {
        assert_eq!(call(&plugin, Instances::Reuse).await, CallResult::Done, "none of them lacks memory");
        parked.push(sandbox.stats().parked_instances);
    }
    assert_eq!(parked, [1, 1, 1, 0, 1, 1]);
}

#[tokio::test]
async fn an_idle_instance_is_dropped() {
    let limits = Limits { idle_instance: Duration::from_millis(50), ..Limits::default() };
    let (sandbox, plugin) = loaded(limits, &counting()).await;
    for _ in 0..2 {
        assert_eq!(call(&plugin, Instances::Reuse).await, CallResult::Done);
        until(|| sandbox.stats().parked_instances == 0).await;
    }
}

#[tokio::test]
async fn instances_go_with_their_plugin() {
    let (sandbox, plugin) = loaded(Limits::default(), &counting()).await;
    assert_eq!(call(&plugin, Instances::Reuse).await, CallResult::Done);
    assert_eq!(sandbox.stats().parked_instances, 1);
    drop(plugin);
    // The task of the last call may still hold the instance for a moment.
    until(|| sandbox.stats().parked_instances == 0).await;
    until(|| sandbox.stats().reserved_memory == 0).await;
}

#[tokio::test]
async fn instances_make_room_for_calls_that_need_memory() {
    let large = Core { pages: 400, ..counting() };
    // Room for two idle instances and the memory of one more call, beyond the reserve of 512 pages. Idle instances make
    // room for further calls.
    let limits = Limits { memory_bytes: 512 << 16, guest_memory_bytes: Some((512 + 1_200) << 16), ..Limits::default() };
    let (sandbox, first) = loaded(limits, &large).await;
    let second = load(&sandbox, "guest", &large.component()).await.expect("it loads");
    let other = load(&sandbox, "guest", &large.component()).await.expect("it loads");
    for parked in [&first, &second] {
        assert_eq!(call(parked, Instances::Reuse).await, CallResult::Done);
    }
    assert_eq!(sandbox.stats().reserved_memory, 800 << 16);
    let calls = async {
        for _ in 0..3 {
            assert_eq!(call(&other, Instances::Fresh).await, CallResult::Done);
        }
    };
    // This is long before the instance would be dropped as idle.
    tokio::time::timeout(Duration::from_secs(20), calls).await.expect("there is room");
    assert_eq!(sandbox.stats().parked_instances, 1, "the one that waited longest has gone");
}
