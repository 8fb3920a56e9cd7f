//! The memory of all guests: a call waits until its neighbours release memory, and never fails for lack of it.

use crate::support;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use support::guests::{CLAIM, CLAIM_IMPORT, Core};
use support::ports::meeting;
use support::{call_of, call_with, load, reconcile};
use windlass_core::budget::fair::Fair;
use windlass_core::call::ports::CallContext;
use windlass_core::object::ObjectKey;
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::{CallLimits, Limits, Sandbox, SandboxOptions, SandboxStats};

const MIB: usize = 1 << 20;

/// Counts the calls in progress, and keeps each of them for a while.
#[derive(Clone, Debug, Default)]
struct Crowd {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Crowd {
    async fn come_by(self) {
        self.most.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // Long enough for all calls that fit at once to arrive.
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Makes twelve calls of `guest` at once, with room for two beside the reserve. Returns the most that ran at a time.
async fn crowd(guest: &Core) -> usize {
    let limits = Limits {
        memory_bytes: 32 * MIB,
        guest_memory_bytes: Some(64 * MIB),
        // Three times as long as one call takes, but shorter than all calls take together if three run at a time: time
        // spent waiting for memory must not count.
        deadline: Duration::from_millis(3_200),
        ..Limits::default()
    };
    let sandbox =
        Sandbox::new(SandboxOptions { limits, threads: 2, concurrent_calls: 12, ..SandboxOptions::default() })
            .expect("a sandbox");
    let plugin = load(&sandbox, "guest", &guest.component()).await.expect("it loads");
    let crowd = Crowd::default();
    let ports = meeting({
        let crowd = crowd.clone();
        move || crowd.clone().come_by()
    });
    let results = join_all((0..12).map(|_| reconcile(&plugin, &ports))).await;
    assert!(results.iter().all(|result| *result == CallResult::Done), "{results:?}");
    let SandboxStats { reserved_memory, waiting_for_memory, parked_instances, warm_slots, warm_bytes } =
        sandbox.stats();
    assert_eq!((reserved_memory, waiting_for_memory, parked_instances), (0, 0, 0));
    // Instances kept ready have their own bounds, and count too.
    assert!((1..=24).contains(&warm_slots) && warm_bytes <= warm_slots * 2 * MIB, "{warm_slots} with {warm_bytes}");
    crowd.most.load(Ordering::SeqCst)
}

#[tokio::test]
async fn calls_that_begin_large_wait_for_each_other() {
    let guest = Core {
        imports: CLAIM_IMPORT.to_owned(),
        reconcile: CLAIM.to_owned(),
        pages: 256, // 16 MiB
        ..Core::default()
    };
    let most = crowd(&guest).await;
    assert!((1..=3).contains(&most), "{most} at a time");
}

#[tokio::test]
async fn calls_that_grow_large_wait_for_each_other() {
    let reconcile = format!("(drop (memory.grow (i32.const 254))) {CLAIM}");
    let guest = Core { imports: CLAIM_IMPORT.to_owned(), reconcile, ..Core::default() };
    let most = crowd(&guest).await;
    assert!((1..=3).contains(&most), "{most} at a time");
}

#[tokio::test]
async fn small_calls_do_not_wait_in_the_smallest_budget_for_more_than_one() {
    let guest = Core { imports: CLAIM_IMPORT.to_owned(), reconcile: CLAIM.to_owned(), ..Core::default() };
    let most = crowd(&guest).await;
    assert!(most > 3, "{most} at a time");
}

#[tokio::test]
async fn calls_whose_large_writes_wait_wait_for_each_other() {
    // Three MiB, and a write of nearly as much.
    let create = "(i32.store (i32.const 1048576) (i32.const 65536)) (i32.store (i32.const 1048580) (i32.const 3080192))
        (call $create (i32.const 1048576) (i32.const 1024))";
    let guest = Core {
        imports: r#"(import "windlass:plugin/writes@0.3.0" "create" (func $create (param i32 i32)))"#.to_owned(),
        reconcile: create.to_owned(),
        pages: 48,
        ..Core::default()
    };
    let most = crowd(&guest).await;
    assert!((1..=3).contains(&most), "{most} at a time, where five have room without their bodies");
}

#[tokio::test]
async fn calls_that_wait_for_answers_or_memory_leave_the_permit_to_others() {
    let guest = Core {
        imports: CLAIM_IMPORT.to_owned(),
        reconcile: CLAIM.to_owned(),
        pages: 256, // 16 MiB: all that one plugin has of what is shared.
        ..Core::default()
    };
    let limits = Limits { memory_bytes: 32 * MIB, guest_memory_bytes: Some(64 * MIB), ..Limits::default() };
    let sandbox =
        Sandbox::new(SandboxOptions { limits, threads: 2, concurrent_calls: 12, ..SandboxOptions::default() })
            .expect("a sandbox");
    let plugin = load(&sandbox, "guest", &guest.component()).await.expect("it loads");
    let ports = meeting(std::future::pending);
    let fair = Fair::new(1, 12);
    let [waits, neighbour] = [(); 2].map(|()| fair.share(NonZeroU32::MIN));
    // One call waits for its answer, one runs in the memory reserve, and one waits for memory.
    let calls = async {
        let mut calls = Vec::new();
        for _ in 0..3 {
            let permit = waits.acquire().await;
            let call = CallContext {
                cpu_permit: permit.cpu_permit(),
                ..CallContext::clone(&call_of(&plugin, &ObjectKey::namespaced("prod", "shop")))
            };
            let (plugin, ports) = (plugin.clone(), ports.clone());
            calls.push(tokio::spawn(async move {
                let called = call_with(&plugin, &ports, Arc::new(call), None, CallLimits::default()).await;
                permit.finish(called.cpu);
            }));
        }
        // The answer is given only when the last call waits, too.
        neighbour.acquire().await.finish(Duration::ZERO);
        calls
    };
    // Their deadline is 30 s.
    let calls = tokio::time::timeout(Duration::from_secs(25), calls).await.expect("no waiting call keeps its permit");
    assert_eq!(sandbox.stats().waiting_for_memory, 1);
    assert!(calls.iter().all(|call| !call.is_finished()));
    calls.iter().for_each(tokio::task::JoinHandle::abort);
}
