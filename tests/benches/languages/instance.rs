//! The memory of an instance during a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::join_all;
use tokio::sync::Barrier;
use windlass_core::object::ObjectKey;
use windlass_wasm::{CallLimits, Plugin};

use crate::calls::WEBAPP;
use crate::support::ports::{meeting, quiet};
use crate::support::{call_of, call_with};

/// The number of calls at the same time.
const CONCURRENT_CALLS: usize = 8;

/// The memory that a call has written when it writes its first child, in addition to the memory of the first call.
pub(crate) async fn memory(plugin: &Arc<Plugin>) -> anyhow::Result<u64> {
    let one = private_in_midst(plugin, 1).await?;
    let all = private_in_midst(plugin, CONCURRENT_CALLS).await?;
    Ok(all.saturating_sub(one) / (CONCURRENT_CALLS as u64 - 1))
}

async fn private_in_midst(plugin: &Arc<Plugin>, calls: usize) -> anyhow::Result<u64> {
    let (barrier, private) = (Arc::new(Barrier::new(calls)), Arc::new(AtomicU64::new(0)));
    let look = {
        let private = private.clone();
        move || {
            let (barrier, private) = (barrier.clone(), private.clone());
            async move {
                if barrier.wait().await.is_leader() {
                    let now = private_bytes();
                    private.fetch_max(now, Ordering::SeqCst);
                }
                barrier.wait().await;
            }
        }
    };
    let ports = windlass_core::call::ports::Ports { outside: meeting(look).outside, ..quiet() };
    let made = (0..calls).map(|_| {
        let call = call_of(plugin, &ObjectKey::namespaced("prod", "shop"));
        call_with(plugin, &ports, call, Some(WEBAPP), CallLimits::default())
    });
    join_all(made).await;
    Ok(private.load(Ordering::SeqCst))
}

/// The memory that this process has written and does not share.
fn private_bytes() -> u64 {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").expect("the kernel tells");
    let line = rollup.lines().find_map(|line| line.strip_prefix("Private_Dirty:")).expect("it is there");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") << 10
}
