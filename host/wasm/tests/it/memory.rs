//! The memory of all guests: a call waits for what its neighbours use, and never fails for it.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use support::guests::{CLAIM, CLAIM_IMPORT, Core};
use support::{load, reconcile};
use windlass_core::error::ApiError;
use windlass_core::object::ObjectKind;
use windlass_core::outcome::CallResult;
use windlass_core::ports::{Absent, CallContext, Claimed, Owners, Ports};
use windlass_wasm::{Limits, Sandbox, SandboxOptions, SandboxStats};

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
