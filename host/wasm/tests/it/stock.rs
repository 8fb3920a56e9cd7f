//! The plugin of stock Go (`tests/stock/go`) over many calls: with the standard adapter, its garbage collector reads
//! the host's clock, which is forbidden while the host allocates memory in the guest.

use crate::support;

use support::guests::stock;
use support::ports::quiet;
use support::{call_of, call_with, load, sandbox};
use windlass_core::life::instances::Instances;
use windlass_core::object::ObjectKey;
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::{CallLimits, Limits};

/// Each call allocates some two kilobytes, and the collector first runs at four mebibytes.
const ALLOCATING_CALLS: usize = 5_000;

#[tokio::test]
async fn an_instance_of_stock_go_outlives_its_garbage_collections() {
    let limits = Limits { log_lines_per_second: u32::MAX, ..Limits::default() };
    let plugin = load(&sandbox(limits), "stock-go", &stock("stock-go")).await.expect("it loads");
    for number in 0..ALLOCATING_CALLS {
        let call = call_of(&plugin, &ObjectKey::namespaced("prod", "shop"));
        let limits = CallLimits { instances: Instances::Reuse, ..CallLimits::default() };
        let called = call_with(&plugin, &quiet(), call, None, limits).await;
        assert_eq!(called.result, CallResult::Done, "call {number}");
    }
}
