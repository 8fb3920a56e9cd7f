//! That the initial memory of a component is mapped copy-on-write: instances share what none of them has written.
//!
//! Linux only, where the kernel says what is private; alone in its process, which it measures.

#![cfg(target_os = "linux")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use support::guests::{CLAIM, CLAIM_IMPORT, Core};
use support::{load, reconcile, sandbox};
use tokio::sync::Barrier;
use windlass_core::error::ApiError;
use windlass_core::object::ObjectKind;
use windlass_core::outcome::CallResult;
use windlass_core::ports::{Absent, CallContext, Claimed, Owners, Ports};
use windlass_wasm::Limits;

const MIB: usize = 1 << 20;
/// Of the image. More than what a slot keeps for itself.
const IMAGE: usize = 16 * MIB;
const CALLS: usize = 4;

/// Looks at the process when all calls are there.
#[derive(Debug)]
struct Look {
    all: Arc<Barrier>,
    private: Arc<AtomicUsize>,
}

impl Owners for Look {
    fn claim(
        &self,
        _: Arc<CallContext>,
        _: ObjectKind,
        _: String,
    ) -> BoxFuture<'static, Result<Claimed, Vec<ApiError>>> {
        let (all, private) = (self.all.clone(), self.private.clone());
        async move {
            if all.wait().await.is_leader() {
                private.store(private_bytes(), Ordering::SeqCst);
            }
            all.wait().await;
            Ok(Claimed { adopted: vec![], released: vec![] })
        }
        .boxed()
    }
}

/// Memory of this process that it has written and shares with nobody.
fn private_bytes() -> usize {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").expect("the kernel tells");
    let line = rollup.lines().find_map(|line| line.strip_prefix("Private_Dirty:")).expect("it is there");
    line.trim().trim_end_matches("kB").trim().parse::<usize>().expect("a number") << 10
}

#[tokio::test]
async fn instances_share_the_part_of_their_image_that_none_has_written() {
    let image = "x".repeat(IMAGE);
    let guest = Core {
        imports: CLAIM_IMPORT.to_owned(),
        items: format!(r#"(data (i32.const {MIB}) "{image}")"#),
        // It reads all of it.
        reconcile: format!(
            "(local $at i32) (loop $again
               (drop (i32.load8_u (local.get $at)))
               (br_if $again (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 4096))) (i32.const {IMAGE}))))
             {CLAIM}"
        ),
        pages: 300,
        ..Core::default()
    };
    let plugin = load(&sandbox(Limits::default()), "guest", &guest.component()).await.expect("it loads");
    drop(image);
    let look = Look { all: Arc::new(Barrier::new(CALLS)), private: Arc::default() };
    let private = look.private.clone();
    let ports = Ports { owners: Arc::new(look), ..Absent::ports() };
    let before = private_bytes();
    let calls = join_all((0..CALLS).map(|_| reconcile(&plugin, &ports)));
    let results = tokio::time::timeout(Duration::from_mins(1), calls).await.expect("all come together");
    assert_eq!(results, vec![CallResult::Done; CALLS]);
    let more = private.load(Ordering::SeqCst).saturating_sub(before);
    assert!(more < IMAGE, "{CALLS} instances have written {more} bytes more, and read {IMAGE} each");
}
