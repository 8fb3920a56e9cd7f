//! The memory of all guests: a call waits for what its neighbours use, and never fails for it.

use crate::support;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use support::guests::{CLAIM, CLAIM_IMPORT, Core};
use support::{call_of, call_with, load, reconcile};
use windlass_core::error::ApiError;
use windlass_core::fair::Fair;
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::outcome::CallResult;
use windlass_core::ports::{Absent, CallContext, Claimed, Owners, Ports};
use windlass_wasm::{CallLimits, Limits, Sandbox, SandboxOptions, SandboxStats};

const MIB: usize = 1 << 20;

/// Counts how many calls have come as far as to claim something, and keeps each for a while.
#[derive(Debug, Default)]
struct Crowd {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Owners for Crowd {
    fn claim(
        &self,
        _: Arc<CallContext>,
        _: ObjectKind,
        _: String,
    ) -> BoxFuture<'static, Result<Claimed, Vec<ApiError>>> {
        let (now, most) = (self.now.clone(), self.most.clone());
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(200)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(Claimed { adopted: vec![], released: vec![] })
        }
        .boxed()
    }
}

/// Twelve calls of `guest` at once, where there is room for two beside what is kept back. Returns how many ran at a time.
async fn crowd(guest: &Core) -> usize {
    let limits = Limits {
        memory_bytes: 32 * MIB,
        guest_memory_bytes: Some(64 * MIB),
        // Shorter than all of them together take: to wait for memory must not count.
        deadline: Duration::from_millis(650),
        ..Limits::default()
    };
    let sandbox =
        Sandbox::new(SandboxOptions { limits, threads: 2, concurrent_calls: 12, ..SandboxOptions::default() })
            .expect("a sandbox");
    let plugin = load(&sandbox, "guest", &guest.component()).await.expect("it loads");
    let crowd = Arc::new(Crowd::default());
    let ports = Ports { owners: crowd.clone(), ..Absent::ports() };
    let results = join_all((0..12).map(|_| reconcile(&plugin, &ports))).await;
    assert!(results.iter().all(|result| *result == CallResult::Done), "{results:?}");
    let SandboxStats { reserved_memory, waiting_for_memory, parked_instances, warm_slots, warm_bytes } =
        sandbox.stats();
    assert_eq!((reserved_memory, waiting_for_memory, parked_instances), (0, 0, 0));
    // What is kept ready has bounds of its own, and is counted.
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

/// Answers nobody.
struct Silence;

impl Owners for Silence {
    fn claim(
        &self,
        _: Arc<CallContext>,
        _: ObjectKind,
        _: String,
    ) -> BoxFuture<'static, Result<Claimed, Vec<ApiError>>> {
        std::future::pending().boxed()
    }
}

#[tokio::test]
async fn calls_that_wait_for_answers_or_for_memory_leave_the_only_turn_to_their_neighbour() {
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
    let ports = Ports { owners: Arc::new(Silence), ..Absent::ports() };
    let fair = Fair::new(1, 12);
    let [waits, neighbour] = [(); 2].map(|()| fair.share(NonZeroU32::MIN));
    // One waits for its answer, one does with the memory that is kept back, and one waits for memory.
    let calls = async {
        let mut calls = Vec::new();
        for _ in 0..3 {
            let permit = waits.acquire().await;
            let call = CallContext {
                turn: permit.turn(),
                ..CallContext::clone(&call_of(&plugin, &ObjectKey::namespaced("prod", "shop")))
            };
            let (plugin, ports) = (plugin.clone(), ports.clone());
            calls.push(tokio::spawn(async move {
                let called = call_with(&plugin, &ports, Arc::new(call), None, CallLimits::default()).await;
                permit.finish(called.cpu);
            }));
        }
        // Given only when the last of them waits, too.
        neighbour.acquire().await.finish(Duration::ZERO);
        calls
    };
    // Their deadline is 30 s.
    let calls = tokio::time::timeout(Duration::from_secs(10), calls).await.expect("nobody sits on the turn");
    assert_eq!(sandbox.stats().waiting_for_memory, 1);
    assert!(calls.iter().all(|call| !call.is_finished()));
    calls.iter().for_each(tokio::task::JoinHandle::abort);
}
