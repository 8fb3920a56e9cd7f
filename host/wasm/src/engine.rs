//! The one wasmtime engine of a sandbox: what code may be, and what is kept ready for its instances.

use std::num::NonZeroUsize;

use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Strategy, WasmBacktraceDetails, WasmFeatures,
};

use crate::limits::Limits;

/// Memory of a slot that is zeroed instead of given back after a call: what small plugins touch stays mapped, which
/// saves a third of a fresh call.
const KEEP_RESIDENT: usize = 2 << 20;

/// What the host's own code may need of a fibre's stack beyond the guest's.
const HOST_STACK: usize = 1536 << 10;

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
        /// What wasmtime says.
        source: wasmtime::Error,
    },
    /// The engine that runs without a pool cannot be made either: this machine cannot run plugins.
    #[error("cannot run WebAssembly on this machine: {0:#}")]
    Unsupported(wasmtime::Error),
}

/// An engine for `concurrent_calls` calls at a time, each within `limits`.
pub(crate) fn new(limits: &Limits, concurrent_calls: u32) -> Result<Engine, EngineError> {
    let mut config = base(limits);
    // Without a pool the engine needs no memory worth the name: whether it starts tells the two failures apart.
    Engine::new(&config).map_err(EngineError::Unsupported)?;
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits, concurrent_calls)));
    Engine::new(&config).map_err(|source| EngineError::Pool { concurrent_calls, source })
}

/// An engine that compiles what an engine of [`new`] with the same `limits` runs, and reserves nothing. The pool has no say
/// in the code.
pub(crate) fn for_compiling(limits: &Limits) -> Result<Engine, EngineError> {
    Engine::new(&base(limits)).map_err(EngineError::Unsupported)
}

fn base(limits: &Limits) -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .wasm_component_model(true)
        // Plain calls on fibres: a third cheaper than the component model's own concurrency, which no plugin uses.
        .concurrency_support(false)
        .epoch_interruption(true)
        .max_wasm_stack(limits.stack_bytes)
        .async_stack_size(limits.stack_bytes + HOST_STACK)
        // A guest's debug information is not parsed: it would be work without limits, on behalf of a trap.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_backtrace_max_frames(NonZeroUsize::new(16))
        // Backtraces of guests follow frame pointers; this is for native debuggers, and costs time at each load.
        .native_unwind_info(cfg!(windows));
    deterministic(&mut config);
    for feature in [
        WasmFeatures::MULTI_MEMORY,
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

fn pool(limits: &Limits, concurrent_calls: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(concurrent_calls)
        .total_stacks(concurrent_calls)
        .total_core_instances(concurrent_calls.saturating_mul(limits.instances))
        .total_tables(concurrent_calls.saturating_mul(limits.instances))
        .total_memories(concurrent_calls.saturating_mul(limits.memories))
        .max_core_instances_per_component(limits.instances)
        .max_tables_per_component(limits.instances)
        .max_memories_per_component(limits.memories)
        .max_memory_size(limits.memory_bytes)
        .table_elements(limits.table_elements.min(40_000))
        .max_unused_warm_slots(concurrent_calls)
        .linear_memory_keep_resident(KEEP_RESIDENT);
    pool
}
