//! The one wasmtime engine of a sandbox: what code may be, and what is kept ready for its instances.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, Strategy,
    WasmBacktraceDetails, WasmFeatures,
};

use crate::limits::{Limits, Metering};

/// Memory of a slot that is made as it was instead of given back after a call: what small plugins write stays mapped,
/// which saves a third of a fresh call.
const KEEP_RESIDENT: usize = 512 << 10;

/// The same of a slot's table: giving a page back is a system call, and the next call's first look a fault.
const KEEP_TABLE: usize = 64 << 10;

/// Slots that are kept warm for each processor while no call uses them, 32 MiB at the most. A plugin whose slot is
/// among them finds its image mapped; else mapping it costs twice as much as the rest of a small call. wasmtime divides
/// them among the threads that call, so that a plugin has one for each.
const WARM_SLOTS: usize = 64;

/// The elements that a slot for a table has room for: Go's largest programs have tens of thousands of functions.
pub(crate) const TABLE_ELEMENTS_MAX: usize = 40_000;

/// The stack that the host's own code may need of a fibre's beyond the guest's.
const HOST_STACK: usize = 1536 << 10;

/// How much trouble the compiler takes. A call that stays within its limits has the same result, to the bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CompileEffort {
    /// Code that is there soon and is slower.
    Quick,
    /// The best code.
    Full,
}

/// The engine cannot be made on this machine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The address space for the pool cannot be had, usually because of a limit on virtual memory.
    #[error(
        "cannot reserve the address space for {concurrent_calls} concurrent plugin calls: {source:#}; raise the limit \
         on virtual memory (`ulimit -v`) or lower the number of concurrent calls"
    )]
    Pool {
        /// How many calls the pool was to hold.
        concurrent_calls: u32,
        /// The error of wasmtime.
        source: wasmtime::Error,
    },
    /// The engine that runs without a pool cannot be made either: this machine cannot run plugins.
    #[error("cannot run WebAssembly on this machine: {0:#}")]
    Unsupported(wasmtime::Error),
}

/// An engine for `concurrent_calls` calls at a time, each within `limits`, and `parked` instances between two calls.
pub(crate) fn new(limits: &Limits, concurrent_calls: u32, parked: u32) -> Result<Engine, EngineError> {
    let mut config = base(limits);
    // Without a pool the engine needs no memory worth the name: whether it starts tells the two failures apart.
    Engine::new(&config).map_err(EngineError::Unsupported)?;
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(
        limits,
        concurrent_calls.saturating_add(parked),
    )));
    Engine::new(&config).map_err(|source| EngineError::Pool { concurrent_calls, source })
}

/// An engine that compiles what an engine of [`new`] with the same `limits` runs, and reserves nothing. The pool has no
/// say in the code, and an engine runs code of either effort.
pub(crate) fn for_compiling(limits: &Limits, effort: CompileEffort) -> Result<Engine, EngineError> {
    let mut config = base(limits);
    if effort == CompileEffort::Quick {
        // The register allocator stays the thorough one: its authors do not stand in for the quick one's code.
        config.cranelift_opt_level(OptLevel::None);
    }
    Engine::new(&config).map_err(EngineError::Unsupported)
}

fn base(limits: &Limits) -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .wasm_component_model(true)
        // Plain calls on fibres: a third cheaper than the component model's own concurrency, which no plugin uses.
        .concurrency_support(false)
        .epoch_interruption(true)
        .consume_fuel(limits.metering == Metering::Fuel)
        .max_wasm_stack(limits.stack_bytes)
        .async_stack_size(limits.stack_bytes + HOST_STACK)
        // A guest's debug information is not parsed: it would be work without limits, on behalf of a trap.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_backtrace_max_frames(NonZeroUsize::new(16))
        // A third of what is kept of a plugin, to say at which byte of a function it trapped; the names of functions
        // stay.
        .generate_address_map(false)
        // Backtraces of guests follow frame pointers; this is for native debuggers, and costs time at each load.
        .native_unwind_info(cfg!(windows));
    deterministic(&mut config);
    // Several memories in one module stay on: without them nothing can be linked that is made of components, as
    // QuickJS's is.
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

/// The same inputs give the same bits on every machine, so that a call can be replayed.
fn deterministic(config: &mut Config) {
    config.cranelift_nan_canonicalization(true).relaxed_simd_deterministic(true);
}

/// Slots for `instances` at a time, of whichever components: who has a permit, or the place of a parked instance, finds
/// what the largest component may need. (Go, Python and `SpiderMonkey` components are made of up to 40 core instances
/// with as many tables.) So the pool is never exhausted; what is scarce are the permits, and they are waited for. It is
/// address space, and no memory before it is used.
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
        // Each keeps up to `KEEP_RESIDENT` bytes of the plugin that used it last.
        .max_unused_warm_slots(warm_slots(limits).min(memories))
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(KEEP_TABLE)
        // The kernel says which pages a call has written: only those are made as they were, instead of all up to a
        // limit.
        .pagemap_scan(Enabled::Auto);
    pool
}

/// How many slots are kept warm. What they hold is beside the memory of guests: no more than an eighth of it.
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
    fn there_is_an_engine_whatever_an_operator_may_set() {
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
