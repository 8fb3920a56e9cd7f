//! The environment of all guests: one engine, the resources that calls share, and a permit per call.
//!
//! A call runs in the task that makes it, on the threads of the host's tokio runtime. A guest that does not wait is
//! interrupted every half millisecond (ADR 36).

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;
use wasmtime::{Engine, PoolingAllocatorMetrics};
use windlass_core::budget::fair::CpuPermit;

use crate::abi::linked::Linker;
use crate::artefacts::Artefacts;
use crate::compile::Compiler;
use crate::engine::{self, EngineError};
use crate::limits::Limits;
use crate::load_error::LoadProblem;
use crate::memory::GuestMemory;
use crate::parked::{Parked, ParkingLot};
use crate::refusals::Refusals;
use crate::ticker::Ticker;

/// The maximum number of parked instances of all plugins. Each takes address space.
const PARKED_INSTANCES_MAX: u32 = 256;
/// The maximum number of parked instances of one plugin. More would rarely be called at once.
const PLUGIN_PARKED_INSTANCES_MAX: usize = 8;
/// The number of plugin files that are concurrently read, to look them up in the cache.
const CONCURRENT_FILES_READ_MAX: usize = 4;

/// The options of a sandbox.
#[derive(Clone, Debug)]
pub struct SandboxOptions {
    /// The limits of each call.
    pub limits: Limits,
    /// The number of threads of the tokio runtime on which calls are made, at least 1. Guests are interrupted with the
    /// highest frequency only while each of these threads runs one.
    pub threads: usize,
    /// The maximum number of concurrent calls of all plugins, at least 1; further calls wait. Each reserves address
    /// space.
    pub concurrent_calls: u32,
    /// How plugins are compiled.
    pub compiler: Compiler,
    /// The directory of compiled plugins. `None` to compile each plugin whenever it is loaded.
    pub cache: Option<PathBuf>,
    /// Files of at least this many bytes are compiled twice: first fast, so that the plugin runs soon, and then to
    /// better code, which replaces the first code while the plugin runs. `None` to compile every file once to the best
    /// code.
    pub quick_from: Option<u64>,
}

impl SandboxOptions {
    /// The options for a simulated world in one thread.
    #[must_use]
    pub fn in_one_thread() -> Self {
        Self { threads: 1, concurrent_calls: 4, ..Self::default() }
    }
}

impl Default for SandboxOptions {
    /// One thread per core, and 32 concurrent calls. Plugins are compiled in this process and not stored.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let (compiler, cache, quick_from) = (Compiler::InProcess, None, None);
        Self { limits: Limits::default(), threads, concurrent_calls: 32, compiler, cache, quick_from }
    }
}

/// The reason why a sandbox cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The engine cannot be created.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The thread that interrupts guests cannot be started.
    #[error("cannot start the thread that interrupts plugins: {0}")]
    Ticker(#[source] std::io::Error),
    /// A bug of the host: its own imports contradict each other.
    #[error("cannot define the imports of plugins: {0:#}")]
    Imports(#[source] wasmtime::Error),
}

/// The resources that all plugins of a sandbox use together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SandboxStats {
    /// The linear memory that calls and parked instances use or have reserved, in bytes.
    pub reserved_memory: usize,
    /// The number of calls that wait for memory.
    pub waiting_for_memory: usize,
    /// The number of instances between two calls.
    pub parked_instances: usize,
    /// The number of unused memory slots that are kept for later instances.
    pub warm_slots: usize,
    /// The memory of these slots, in bytes.
    pub warm_bytes: usize,
}

/// Loads plugins. The sandbox's resources live as long as the sandbox or any [`Plugin`](crate::Plugin) that it loaded.
#[derive(Clone, Debug)]
pub struct Sandbox {
    pub(crate) shared: Arc<Shared>,
}

impl Sandbox {
    /// A sandbox with its own engine.
    pub fn new(options: SandboxOptions) -> Result<Self, SandboxError> {
        let all = options.concurrent_calls;
        Self::with_at_least(all, options)
    }

    /// As [`Self::new`], for environments without enough address space for that many concurrent calls (`ulimit -v`,
    /// small machines): tries half as many, and again half, but no fewer than `least`.
    /// [`concurrent_calls`](Self::concurrent_calls) returns the result.
    pub fn with_at_least(least: u32, options: SandboxOptions) -> Result<Self, SandboxError> {
        let SandboxOptions { limits, threads, concurrent_calls, compiler, cache, quick_from } = options;
        let least = least.clamp(1, concurrent_calls.max(1));
        let mut concurrent_calls = concurrent_calls.max(1);
        let (engine, parked) = loop {
            let parked = concurrent_calls.min(PARKED_INSTANCES_MAX);
            match engine::new(&limits, concurrent_calls, parked) {
                Err(EngineError::Pool { .. }) if concurrent_calls > least => {
                    concurrent_calls = (concurrent_calls / 2).max(least);
                }
                engine => break (engine?, parked),
            }
        };
        let lot = Arc::new(ParkingLot::new(parked as usize, PLUGIN_PARKED_INSTANCES_MAX));
        let memory = GuestMemory::new(limits.guest_memory(), limits.memory_bytes, lot.clone());
        let linker = Linker::new(&engine).map_err(SandboxError::Imports)?;
        let ticker = Ticker::start(engine.clone(), threads.max(1)).map_err(SandboxError::Ticker)?;
        let calls = Semaphore::new(concurrent_calls as usize);
        let artefacts = cache.and_then(|path| open_cache(&path, &engine)).map(Arc::new);
        let refusals = Refusals::new(&limits);
        let shared = Shared {
            limits: Arc::new(limits),
            engine,
            linker,
            memory,
            lot,
            compiler,
            artefacts,
            refusals,
            readers: Semaphore::new(CONCURRENT_FILES_READ_MAX),
            quick_from,
            compilations: Semaphore::new(1),
            improvements: Semaphore::new(1),
            ticker,
            concurrent_calls,
            calls,
            sweeping: Arc::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The resources that all plugins currently use.
    #[must_use]
    pub fn stats(&self) -> SandboxStats {
        let pool = self.shared.engine.pooling_allocator_metrics();
        let pool = pool.as_ref();
        SandboxStats {
            reserved_memory: self.shared.memory.reserved(),
            waiting_for_memory: self.shared.memory.waiting(),
            parked_instances: self.shared.lot.len(),
            warm_slots: pool.map_or(0, |pool| pool.unused_warm_memories() as usize),
            warm_bytes: pool.map_or(0, PoolingAllocatorMetrics::unused_memory_bytes_resident),
        }
    }

    /// The maximum number of concurrent calls.
    #[must_use]
    pub fn concurrent_calls(&self) -> u32 {
        self.shared.concurrent_calls
    }

    /// The limits of calls.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// The cache directory, which only this user may write to. `None` if there is none.
    #[must_use]
    pub fn cache_dir(&self) -> Option<&Path> {
        self.shared.artefacts.as_ref().map(|artefacts| artefacts.path())
    }
}

/// The cache in `path`. `None` if it cannot be used, which is logged; plugins work without it.
fn open_cache(path: &Path, engine: &Engine) -> Option<Artefacts> {
    match Artefacts::open(path, engine) {
        Ok(artefacts) => Some(artefacts),
        Err(error) => {
            tracing::warn!(%error, "compiled plugins are not kept: each is compiled whenever it is loaded");
            None
        }
    }
}

/// The parts that the plugins of a sandbox share.
pub(crate) struct Shared {
    pub(crate) limits: Arc<Limits>,
    pub(crate) engine: Engine,
    pub(crate) linker: Linker,
    pub(crate) memory: Arc<GuestMemory>,
    pub(crate) lot: Arc<ParkingLot>,
    pub(crate) compiler: Compiler,
    pub(crate) artefacts: Option<Arc<Artefacts>>,
    pub(crate) refusals: Refusals,
    /// Limits the number of files in memory.
    pub(crate) readers: Semaphore,
    /// Compiling is parallel by itself and needs much memory, so there is one at a time.
    pub(crate) compilations: Semaphore,
    /// A separate permit for compiling better code for running plugins, which no caller waits for.
    pub(crate) improvements: Semaphore,
    pub(crate) quick_from: Option<u64>,
    ticker: Ticker,
    concurrent_calls: u32,
    calls: Semaphore,
    /// Whether a task is dropping instances that were not called for long.
    sweeping: Arc<AtomicBool>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("limits", &self.limits).field("calls", &self.calls).finish_non_exhaustive()
    }
}

/// The reason why a call, or blocking work, gave no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    /// The host's own code panicked on behalf of the guest.
    #[error("the host's code panicked: {0}")]
    Panicked(String),
    /// The sandbox is shutting down.
    #[error("the sandbox is shutting down")]
    ShutDown,
}

impl From<TaskError> for LoadProblem {
    fn from(error: TaskError) -> Self {
        Self::Host(error.to_string())
    }
}

impl TaskError {
    fn panicked(panic: &(dyn Any + Send)) -> Self {
        Self::Panicked(windlass_core::panics::cause(panic).to_owned())
    }
}

impl Shared {
    /// Waits for a permit, runs `call` in this task, and returns its result. Dropping the future drops `call` and its
    /// instance.
    ///
    /// The wait for the permit happens without the call's CPU permit, because the calls that have the sandbox's permits
    /// may need that CPU permit to go on.
    pub(crate) async fn run<R>(&self, cpu_permit: &CpuPermit, call: impl Future<Output = R>) -> Result<R, TaskError> {
        let permit = cpu_permit.without(self.calls.acquire()).await.map_err(|_| TaskError::ShutDown)?;
        let ended = AssertUnwindSafe(self.ticker.while_polled(call)).catch_unwind().await;
        // The two are dropped in this order, so that the instance is back in the pool before its permit is free.
        drop(permit);
        ended.map_err(|panic| TaskError::panicked(&*panic))
    }

    /// Keeps an instance for the next call of its plugin, for a while.
    pub(crate) fn park(&self, instance: Parked) {
        self.lot.park(instance, || self.memory.waiting() > 0);
        if !self.sweeping.swap(true, Ordering::SeqCst) {
            let (lot, sweeping, idle) = (self.lot.clone(), self.sweeping.clone(), self.limits.idle_instance);
            tokio::spawn(async move {
                loop {
                    while let Some(due) = lot.evict_idle(idle) {
                        tokio::time::sleep_until(due).await;
                    }
                    sweeping.store(false, Ordering::SeqCst);
                    // An instance may have been parked before the flag was cleared. Then this task goes on, unless
                    // another task has already begun to sweep.
                    if lot.len() == 0 || sweeping.swap(true, Ordering::SeqCst) {
                        return;
                    }
                }
            });
        }
    }

    /// Runs `work`, which may block, outside of the runtime's threads. After `time` it is abandoned, because a thread
    /// cannot be stopped, and the result is `None`.
    pub(crate) async fn run_blocking<F, R>(&self, time: Duration, work: F) -> Result<Option<R>, TaskError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let work = joined(tokio::task::spawn_blocking(work));
        tokio::time::timeout(time, work).await.map_or(Ok(None), |done| done.map(Some))
    }
}

async fn joined<R>(task: JoinHandle<R>) -> Result<R, TaskError> {
    AbortOnDropHandle::new(task).await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => TaskError::panicked(&*panic),
        Err(_) => TaskError::ShutDown,
    })
}
