//! The wasmtime engine of a sandbox: the restrictions on code, and the resources that are kept ready for its instances.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, Strategy,
    WasmBacktraceDetails, WasmFeatures,
};

use crate::limits::{Limits, Metering};

/// The memory of a slot that is reset after a call instead of returned to the system. The pages that small plugins
/// write stay mapped, which saves a third of the cost of a fresh call.
const KEEP_RESIDENT: usize = 512 << 10;

/// As [`KEEP_RESIDENT`], for a slot's table. Returning a page is a system call, and the next access a page fault.
const KEEP_TABLE: usize = 64 << 10;

/// The number of unused slots per processor that are kept warm, with at most 32 MiB. A plugin whose slot is among them
/// finds its image mapped. Otherwise the mapping costs twice as much as the rest of a small call. wasmtime divides the
/// slots among the calling threads, so a plugin has one slot for each thread.
const WARM_SLOTS: usize = 64;

/// The number of elements for which a table's slot has room. The largest Go programs have tens of thousands of
/// functions.
pub(crate) const TABLE_ELEMENTS_MAX: usize = 40_000;

/// The stack that the host's own code may need on a fibre, in addition to the guest's.
const HOST_STACK: usize = 1536 << 10;

/// The optimisation level. A call that stays within its limits has exactly the same result at either level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CompileEffort {
    /// Compiles fast to slower code.
    Quick,
    /// Compiles to the best code.
    Full,
}

/// The engine cannot be created on this machine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The address space for the pool is not available, usually because of a limit on virtual memory.
    #[error(
        "cannot reserve the address space for {concurrent_calls} concurrent plugin calls: {source:#}; raise the limit \
         on virtual memory (`ulimit -v`) or lower the number of concurrent calls"
    )]
    Pool {
        /// The number of concurrent calls for which the pool was meant.
        concurrent_calls: u32,
        /// The error of wasmtime.
        source: wasmtime::Error,
    },
    /// An engine without a pool cannot be created either, so this machine cannot run plugins.
    #[error("cannot run WebAssembly on this machine: {0:#}")]
    Unsupported(wasmtime::Error),
}

/// An engine for `concurrent_calls` concurrent calls within `limits`, and `parked` instances between two calls.
pub(crate) fn new(limits: &Limits, concurrent_calls: u32, parked: u32) -> Result<Engine, EngineError> {
    let mut config = base(limits);
    // Without a pool, the engine needs hardly any memory. Whether it can be created distinguishes the two failures.
    Engine::new(&config).map_err(EngineError::Unsupported)?;
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(
        limits,
        concurrent_calls.saturating_add(parked),
    )));
    Engine::new(&config).map_err(|source| EngineError::Pool { concurrent_calls, source })
}

/// An engine that only compiles code for an engine of [`new`] with the same `limits`, and reserves no memory. The pool
/// does not affect the code, and an engine runs code of either effort.
pub(crate) fn for_compiling(limits: &Limits, effort: CompileEffort) -> Result<Engine, EngineError> {
    let mut config = base(limits);
    if effort == CompileEffort::Quick {
        // The thorough register allocator stays, because the authors of the fast one do not vouch for its code.
        config.cranelift_opt_level(OptLevel::None);
    }
    Engine::new(&config).map_err(EngineError::Unsupported)
}

fn base(limits: &Limits) -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .wasm_component_model(true)
        // Plain calls on fibres are a third cheaper than the component model's own concurrency, which no plugin uses.
        .concurrency_support(false)
        .epoch_interruption(true)
        .consume_fuel(limits.metering == Metering::Fuel)
        .max_wasm_stack(limits.stack_bytes)
        .async_stack_size(limits.stack_bytes + HOST_STACK)
        // A guest's debug information is not parsed, because that would be unlimited work for the sake of a trap.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_backtrace_max_frames(NonZeroUsize::new(16))
        // The address map takes a third of a plugin's memory, and would only show at which byte of a function it
        // trapped. The names of functions are kept in any case.
        .generate_address_map(false)
        // Backtraces of guests follow frame pointers. Unwind information is for native debuggers, and costs time at
        // each load.
        .native_unwind_info(cfg!(windows));
    deterministic(&mut config);
    // Multiple memories in a module stay enabled, because components that consist of components, such as QuickJS's,
    // cannot be linked without them.
    for feature in [
        WasmFeatures::MEMORY64,
        WasmFeatures::CUSTOM_PAGE_SIZES,
        WasmFeatures::WIDE_ARITHMETIC,
        WasmFeatures::TAIL_CALL,
    ] {
        config.wasm_features(feature, false);
    }
    config
}

/// Makes the same inputs lead to the same bits on every machine, so that a call can be replayed.
fn deterministic(config: &mut Config) {
    config.cranelift_nan_canonicalization(true).relaxed_simd_deterministic(true);
}

/// Slots for `instances` concurrent instances of any component. Each call with a permit and each parked instance has
/// slots for the largest component. (Go, Python and `SpiderMonkey` components consist of up to 40 core instances with
/// as many tables.) So the pool is never exhausted, and no call waits for a slot. The pool is address space, and uses
/// memory only when it is needed.
fn pool(limits: &Limits, instances: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    let memories = instances.saturating_mul(limits.memories);
    pool.total_component_instances(instances)
        .total_stacks(instances)
        .total_core_instances(instances.saturating_mul(limits.instances))
        .total_tables(instances.saturating_mul(limits.instances))
        .total_memories(memories)
        .max_core_instances_per_component(limits.instances)
        .max_tables_per_component(limits.instances)
        .max_memories_per_component(limits.memories)
        .max_memory_size(limits.memory_bytes)
        .table_elements(limits.table_elements.min(TABLE_ELEMENTS_MAX))
        // Each warm slot keeps up to `KEEP_RESIDENT` bytes of the plugin that used it last.
        .max_unused_warm_slots(warm_slots(limits).min(memories))
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(KEEP_TABLE)
        // The kernel reports which pages a call has written. Only these pages are reset, instead of all pages up to a
        // limit.
        .pagemap_scan(Enabled::Auto);
    pool
}

/// The number of slots to keep warm. They use memory in addition to the guests' memory, so they are limited to an
/// eighth of it.
fn warm_slots(limits: &Limits) -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let slots = (WARM_SLOTS * processors.clamp(4, 16)).min(limits.guest_memory() / 8 / KEEP_RESIDENT);
    u32::try_from(slots).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use wasmtime::Store;
    use wasmtime::component::{Component, Linker};

    use super::*;
    use crate::limits::Setting;

    #[test]
    fn every_allowed_setting_gives_an_engine() {
        for setting in Setting::ALL {
            for value in [setting.least, setting.most, u64::midpoint(setting.least, setting.most) + 1] {
                let mut limits = Limits::default();
                setting.set(&mut limits, value).expect("it is within its range");
                new(&limits, 1, 0).unwrap_or_else(|error| panic!("{}={value}: {error}", setting.name));
            }
        }
    }

    #[tokio::test]
    async fn every_slot_has_room_for_the_largest_component() {
        let limits = Limits::default();
        let engine = new(&limits, 1, 1).expect("an engine");
        let instances = "(core instance (instantiate $m))".repeat(limits.instances as usize);
        let text = format!(
            "(component (core module $m (table 40000 funcref)) (core module $n (memory 1)) {} \
             (core instance (instantiate $n)) (core instance (instantiate $n)))",
            &instances[..instances.len() * 38 / 40],
        );
        let bytes = wat::parse_str(text).expect("it is well-formed");
        let component = Component::from_binary(&engine, &bytes).expect("it compiles");
        let linked = Linker::<()>::new(&engine).instantiate_pre(&component).expect("it needs nothing");
        let mut stores = [(); 3].map(|()| Store::new(&engine, ()));
        for store in &mut stores {
            store.set_epoch_deadline(1);
        }
        let [call, parked, more] = &mut stores;
        for store in [call, parked] {
            linked.instantiate_async(store).await.expect("there is room");
        }
        linked.instantiate_async(more).await.expect_err("it would have no permit");
    }
}
