//! A loaded plugin: its manifest, and how to call it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use windlass_core::call::ports::{CallContext, Ports, Reads};
use windlass_core::queue::outcome::{CallResult, Failure};
use windlass_manifest::{EntryPoint, Manifest};

use crate::abi::AbiVersion;
use crate::abi::linked::LinkedPlugin;
use crate::artefacts::Pinned;
use crate::call::answer::{MapperQuestion, TargetsOf, WhichCount};
use crate::call::{self, Callee};
use crate::call_fields::CallFields;
use crate::called::{Called, Composed, Customized, Mapped, Matched};
use crate::counters::{PluginCounters, PluginStats};
use crate::cpu::CpuTime;
use crate::load_error::LoadProblem;
use crate::obtain::{Obtained, Unimproved, improve};
use crate::request::{CallLimits, ChangeBatch, CompositionRequest, Request};
use crate::sandbox::{Shared, TaskError};
use crate::trap::Stopped;

/// One generation of a plugin: the bytes of a file at one time. Its calls may run concurrently, each in its own
/// instance.
#[derive(Debug)]
pub struct Plugin {
    pub(crate) name: Arc<str>,
    pub(crate) digest: Arc<str>,
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    pub(crate) abi: AbiVersion,
    pub(crate) entry: EntryPoint,
    pub(crate) imports: Vec<String>,
    pub(crate) functions: Vec<String>,
    pub(crate) manifest: Manifest,
    pub(crate) call_fields: CallFields,
    pub(crate) counters: Arc<PluginCounters>,
    pub(crate) code: RwLock<Code>,
    pub(crate) was_cached: bool,
    /// The task that compiles better code, if necessary. It ends with the plugin.
    pub(crate) improvement: OnceLock<Improvement>,
    pub(crate) shared: Arc<Shared>,
}

/// A task that compiles better code.
#[derive(Debug)]
pub(crate) struct Improvement {
    ended: watch::Receiver<bool>,
    _task: AbortOnDropHandle<()>,
}

/// The code to call. Better code for the same component may replace it; a call continues with the code that it began
/// with.
pub(crate) struct Code {
    pub(crate) linked: Arc<LinkedPlugin>,
    /// Keeps the cache's file in use. `None` if it is not cached.
    pub(crate) pinned: Option<Arc<Pinned>>,
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code").field("pinned", &self.pinned).finish_non_exhaustive()
    }
}

impl Plugin {
    /// The plugin's name: the stem of the file name, which is also the name in the manifest.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The SHA-256 of the plugin's bytes, 64 hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> &Arc<str> {
        &self.digest
    }

    /// The first twelve digits of the digest, which distinguish generations in displays.
    #[must_use]
    pub fn short_digest(&self) -> &str {
        &self.digest[..12]
    }

    /// The file that the plugin was loaded from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The size of the plugin's file in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The size of the plugin's machine code in bytes, with everything that is loaded with it.
    #[must_use]
    pub fn compiled_size(&self) -> u64 {
        let code = self.code();
        let image = code.component().image_range();
        (image.end.addr() - image.start.addr()) as u64
    }

    /// The version of the interface that the plugin was built for.
    #[must_use]
    pub fn abi(&self) -> AbiVersion {
        self.abi
    }

    /// The entry point that the host calls.
    #[must_use]
    pub fn entry(&self) -> EntryPoint {
        self.entry
    }

    /// The interfaces that the plugin imports, and thus everything that it could use.
    #[must_use]
    pub fn imports(&self) -> &[String] {
        &self.imports
    }

    /// Whether the plugin may write: a composer by its answer, or a reconciler with the import.
    #[must_use]
    pub fn writes(&self) -> bool {
        let is_writes = |import: &String| import.starts_with("windlass:plugin/writes");
        self.entry == EntryPoint::Composer || self.imports.iter().any(is_writes)
    }

    /// The functions of `windlass:plugin` that the plugin imports, such as `cache.get`. An interpreter imports all.
    #[must_use]
    pub fn functions(&self) -> &[String] {
        &self.functions
    }

    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether the plugin's code was found in the cache instead of being compiled.
    #[must_use]
    pub fn was_cached(&self) -> bool {
        self.was_cached
    }

    /// Whether the plugin's code is cached, so that [`Sandbox::load_digest`](crate::Sandbox::load_digest) can load it.
    #[must_use]
    pub fn is_cached(&self) -> bool {
        self.code.read().unwrap_or_else(PoisonError::into_inner).pinned.is_some()
    }

    /// The plugin's losses to limits since it was loaded.
    #[must_use]
    pub fn stats(&self) -> PluginStats {
        self.counters.snapshot()
    }

    /// Calls `reconcile` in this task as soon as the sandbox has a free permit; the deadline counts from then. If
    /// permits are scarce, the caller decides which plugin is called, not the sandbox. Whatever the guest does, this
    /// returns soon after its deadline.
    ///
    /// A guest that does not wait yields every few milliseconds, so that other tasks of this runtime go on. Dropping
    /// the future stops the guest; writes that were sent go on.
    pub async fn reconcile(
        self: &Arc<Self>,
        request: Request,
        ports: &Ports,
        call: Arc<CallContext>,
        limits: CallLimits,
    ) -> Called {
        let cpu = CpuTime::default();
        let cpu_permit = call.cpu_permit.clone();
        let world = crate::state::ReconcileWorld::new(ports.clone(), call, self.counters.clone(), limits.replay);
        let task = async {
            let code = self.code();
            let callee = self.callee(&code, &limits, &cpu);
            cpu.metered(async { call::reconcile(&callee, &self.call_fields.cut(request)?, world).await }).await
        };
        let result = ended(self.shared.run(&cpu_permit, task).await).unwrap_or_else(|stopped| stopped);
        Called::made(result, cpu.used())
    }

    /// Calls `compose`, as [`Self::reconcile`] calls `reconcile`. The guest can only answer.
    pub async fn compose(
        self: &Arc<Self>,
        request: CompositionRequest,
        call: Arc<CallContext>,
        limits: CallLimits,
    ) -> Composed {
        let cpu = CpuTime::default();
        let seed = call::answer::seed_of_parent(&request.request);
        let cpu_permit = call.cpu_permit.clone();
        let world = call::answer::world("compose", None, seed, call, self.counters.clone(), limits.replay);
        let task = async {
            let code = self.code();
            let callee = self.callee(&code, &limits, &cpu);
            cpu.metered(async { call::answer::compose(&callee, &self.call_fields.cut_parent(request)?, world).await })
                .await
        };
        match ended(self.shared.run(&cpu_permit, task).await) {
            Ok((answer, left, held)) => Composed { answer, cpu: cpu.used(), left, held: Some(held) },
            Err(failed) => Composed { answer: Err(failed), cpu: cpu.used(), left: Duration::ZERO, held: None },
        }
    }

    /// Calls `map`, as [`Self::reconcile`] calls `reconcile`. The guest can only answer, and read `reads`.
    pub async fn map(
        self: &Arc<Self>,
        batch: ChangeBatch,
        reads: Arc<dyn Reads>,
        call: Arc<CallContext>,
        limits: CallLimits,
    ) -> Mapped {
        let (answer, cpu) = self.ask_mapper(TargetsOf(batch), "map", reads, call, limits).await;
        Mapped { answer, cpu }
    }

    /// Calls `matches`, as [`Self::map`] calls `map`. A plugin whose version has no `matches` answers with an error.
    /// Its manifest is refused if it asks for `matches`.
    pub async fn matches(
        self: &Arc<Self>,
        batch: ChangeBatch,
        reads: Arc<dyn Reads>,
        call: Arc<CallContext>,
        limits: CallLimits,
    ) -> Matched {
        let (answer, cpu) = self.ask_mapper(WhichCount(batch), "matches", reads, call, limits).await;
        Matched { answer, cpu }
    }

    async fn ask_mapper<A, Q: MapperQuestion<A>>(
        &self,
        question: Q,
        export: &'static str,
        reads: Arc<dyn Reads>,
        call: Arc<CallContext>,
        limits: CallLimits,
    ) -> (Result<A, CallResult>, Duration) {
        let cpu = CpuTime::default();
        let seed = call::answer::seed_of_watch(question.batch());
        let cpu_permit = call.cpu_permit.clone();
        let world = call::answer::world(export, Some(reads), seed, call, self.counters.clone(), limits.replay);
        let task = async {
            let code = self.code();
            let callee = self.callee(&code, &limits, &cpu);
            cpu.metered(call::answer::of_mapper(&callee, &question, world)).await
        };
        let answer = ended(self.shared.run(&cpu_permit, task).await);
        // The host does not ask again about the same changes.
        let failed = |message| CallResult::Failed(vec![Failure::Terminal(message)]);
        (answer.and_then(|answer| answer.map_err(failed)), cpu.used())
    }

    /// Calls `customize`, as [`Self::reconcile`] calls `reconcile`. The guest can only answer.
    pub async fn customize(
        self: &Arc<Self>,
        request: Request,
        call: Arc<CallContext>,
        limits: CallLimits,
    ) -> Customized {
        let cpu = CpuTime::default();
        let seed = call::answer::seed_of_parent(&request);
        let cpu_permit = call.cpu_permit.clone();
        let world = call::answer::world("customize", None, seed, call, self.counters.clone(), limits.replay);
        let task = async {
            let code = self.code();
            let callee = self.callee(&code, &limits, &cpu);
            cpu.metered(async { call::answer::customize(&callee, &self.call_fields.cut(request)?, world).await }).await
        };
        let (answer, left) =
            ended(self.shared.run(&cpu_permit, task).await).unwrap_or_else(|stopped| (Err(stopped), Duration::ZERO));
        Customized { answer, cpu: cpu.used(), left }
    }

    pub(crate) fn code(&self) -> Arc<LinkedPlugin> {
        self.code.read().unwrap_or_else(PoisonError::into_inner).linked.clone()
    }

    /// Compiles better code for a component that was compiled fast, and uses it from then on.
    pub(crate) fn improve(self: &Arc<Self>, unimproved: Unimproved) {
        let (plugin, shared) = (Arc::downgrade(self), self.shared.clone());
        let (name, entry, abi, script) = (self.name.clone(), self.entry, self.abi, self.code().script.clone());
        let task = async move {
            let began = Instant::now();
            let better = improve(&shared, unimproved).await.and_then(|obtained| {
                let Obtained { component, kept, .. } = obtained;
                let linked = shared.linker.link(&component, entry, abi, script).map_err(|error| {
                    LoadProblem::Host(format!("the better code does not link, but the first code did: {error:#}"))
                })?;
                Ok(Code { linked: Arc::new(linked), pinned: kept.pinned })
            });
            match better {
                Ok(code) => {
                    let Some(plugin) = plugin.upgrade() else { return };
                    let former =
                        std::mem::replace(&mut *plugin.code.write().unwrap_or_else(PoisonError::into_inner), code);
                    // Dropped here, outside of the lock, because this unmaps files.
                    drop(former);
                    // The parked instances have the earlier code.
                    shared.lot.forget(&plugin.counters);
                    tracing::info!(plugin = %name, took = ?began.elapsed(), "better code replaces the code that was compiled fast");
                }
                Err(error) => tracing::warn!(
                    plugin = %name, %error,
                    "the plugin goes on with slower code: better code cannot be compiled"
                ),
            }
        };
        let (ending, ended) = watch::channel(false);
        let task = task.map(move |()| ending.send_replace(true)).map(drop);
        let task = AbortOnDropHandle::new(tokio::spawn(task));
        // The value is set only once, because this method is called only once.
        let _ = self.improvement.set(Improvement { ended, _task: task });
    }

    /// Waits until the plugin's code is as good as possible. Returns at once if it was compiled fully at first.
    pub async fn improved(&self) {
        let Some(task) = self.improvement.get() else { return };
        let mut ended = task.ended.clone();
        // An error means that the task is gone, so it has ended too.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    fn callee<'a>(&'a self, code: &'a Arc<LinkedPlugin>, limits: &CallLimits, cpu: &'a CpuTime) -> Callee<'a> {
        let shared = &*self.shared;
        Callee {
            shared,
            code,
            counters: &self.counters,
            instances: limits.instances,
            limits: shared.limits.clone(),
            time: shared.limits.deadline(limits.deadline),
            cpu,
        }
    }
}

/// The guest's answer, or the reason why it was stopped.
fn ended<T>(call: Result<Result<T, Stopped>, TaskError>) -> Result<T, CallResult> {
    let (reason, message) = match call {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(Stopped { reason, message })) => (reason, message),
        Err(error @ (TaskError::Panicked(_) | TaskError::ShutDown)) => ("host", error.to_string()),
    };
    Err(CallResult::Trapped { reason, message })
}

impl Drop for Plugin {
    fn drop(&mut self) {
        // Parked instances of this generation are not needed any more.
        self.shared.lot.forget(&self.counters);
    }
}
