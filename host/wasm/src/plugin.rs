//! A loaded plugin: what it said of itself, and how to call it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use windlass_core::compose::Composition;
use windlass_core::confidential::Confidential;
use windlass_core::object::ObjectKey;
use windlass_core::outcome::CallResult;
use windlass_core::ports::{CallContext, Ports};

use crate::abi::{AbiVersion, v0_1_0};
use crate::artefacts::Pinned;
use crate::call::{self, Callee};
use crate::component::Entry;
use crate::cpu::CpuTime;
use crate::limits::Limits;
use crate::log_budget::LogBudget;
use crate::manifest::Manifest;
use crate::memory::{GuestMemory, Held, Share};
use crate::sandbox::{Shared, TaskError};
use crate::trap::Stopped;

/// Which object a call is about, and why now; as `types.request` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The controller's name in the manifest.
    pub controller: Arc<str>,
    /// The key of the primary.
    pub key: ObjectKey,
    /// The primary's last known UID.
    pub uid: Option<Arc<str>>,
    /// The primary as cached. None: it is not in the watch's scope, usually because it is gone.
    pub object: Option<Arc<str>>,
    /// The primary is being deleted and waits for its finalizers.
    pub deleting: bool,
    /// How many retries of this key were counted since its last success.
    pub attempt: u32,
    /// 32 hexadecimal digits.
    pub trace_id: Arc<str>,
}

/// What a composer is asked; as `composer.composition-request` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositionRequest {
    /// Which object, and why now. Its `object` is None: it is the `parent`.
    pub request: Request,
    /// The parent as cached.
    pub parent: Arc<str>,
    /// The objects of the owned kinds that the parent controls.
    pub children: Vec<Arc<str>>,
    /// The objects of the other watches that map to the parent.
    pub related: Vec<Arc<str>>,
    /// The operator's configuration of the plugin.
    pub config: Confidential,
}

/// What a single call has instead of what the sandbox has for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallLimits {
    /// Wall time, host calls included; at most the sandbox's `most_deadline`.
    pub deadline: Option<Duration>,
    /// In which instance it takes place.
    pub instances: Instances,
    /// What it sees of time and chance. None: the real thing.
    pub replay: Option<Replay>,
}

/// Time and chance that are known, so that a call can be made again and everything in it is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The time since 1970, which stands still.
    pub now: Duration,
    /// What randomness follows from. In `compose` it follows from the request in any case.
    pub seed: [u8; 32],
}

/// Where calls of a plugin take place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Instances {
    /// Each in an instance of its own, which is gone when the call has ended.
    #[default]
    Fresh,
    /// In one that has served calls before, if one is free: quicker, and what the plugin keeps in its memory is still there.
    Reuse,
}

/// A call that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// How.
    pub result: CallResult,
    /// The processor time of the guest's thread that it used.
    pub cpu: Duration,
}

/// A call of `compose` that has ended.
#[derive(Debug)]
pub struct Composed {
    /// What the plugin answered. Err: it failed, and how.
    pub answer: Result<Composition, CallResult>,
    /// The processor time of the guest's thread that it used.
    pub cpu: Duration,
    /// Of its wall time, what is left for what follows from the answer.
    pub left: Duration,
    /// Of the memory of all guests, what the answer takes while somebody works with it. None: there is nothing of it.
    pub held: Option<Held>,
}

/// What a plugin has lost to limits since it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginStats {
    /// Log lines beyond a call's limit, or the plugin's.
    pub dropped_log_lines: u64,
    /// Values of metrics beyond a call's limit.
    pub dropped_metric_values: u64,
}

/// One generation of a plugin: the bytes of a file at one time. Calls of it may run concurrently, each in an instance
/// that no other call uses meanwhile.
#[derive(Debug)]
pub struct Plugin {
    pub(crate) name: Arc<str>,
    pub(crate) digest: Arc<str>,
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    pub(crate) abi: AbiVersion,
    pub(crate) entry: Entry,
    pub(crate) imports: Vec<String>,
    pub(crate) manifest: Manifest,
    pub(crate) counters: Arc<Counters>,
    pub(crate) code: Code,
    pub(crate) kept: Kept,
    /// Where what its calls ask for is carried out.
    pub(crate) host: Handle,
    pub(crate) shared: Arc<Shared>,
}

/// What the cache of compiled plugins has to do with a plugin.
#[derive(Debug)]
pub(crate) struct Kept {
    /// It was not compiled for this plugin.
    pub(crate) found: bool,
    /// What it holds in the cache. None: there is no cache.
    pub(crate) pinned: Option<Arc<Pinned>>,
}

/// What is called.
#[derive(Clone)]
pub(crate) struct Code(pub(crate) v0_1_0::Plugin);

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Code")
    }
}

impl Plugin {
    /// Its identity: the stem of its file, which is also the name in its manifest.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The SHA-256 of its bytes, 64 hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> &Arc<str> {
        &self.digest
    }

    /// The first twelve digits of the digest, which tell generations apart where people read.
    #[must_use]
    pub fn short_digest(&self) -> &str {
        &self.digest[..12]
    }

    /// The file that it was loaded from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The size of its file in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The size of its machine code in bytes, with all that is loaded with it.
    #[must_use]
    pub fn compiled_size(&self) -> u64 {
        let image = self.code.0.component().image_range();
        (image.end.addr() - image.start.addr()) as u64
    }

    /// The version of the interface that it was built for.
    #[must_use]
    pub fn abi(&self) -> AbiVersion {
        self.abi
    }

    /// What it is asked for.
    #[must_use]
    pub fn entry(&self) -> Entry {
        self.entry
    }

    /// The interfaces that it imports, and with them what it could ask for at all.
    #[must_use]
    pub fn imports(&self) -> &[String] {
        &self.imports
    }

    /// What it says of itself.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether its code was found in the cache, and it was not compiled.
    #[must_use]
    pub fn was_cached(&self) -> bool {
        self.kept.found
    }

    /// Whether its code is in the cache, and can be loaded from there by [`Sandbox::load_digest`](crate::Sandbox::load_digest).
    #[must_use]
    pub fn is_cached(&self) -> bool {
        self.kept.pinned.is_some()
    }

    /// What it has lost to limits since it was loaded.
    #[must_use]
    pub fn stats(&self) -> PluginStats {
        self.counters.snapshot()
    }

    /// The threads that run guests. A task there calls a plugin in place, which is several times cheaper than from elsewhere;
    /// it shares them with guests that spin, each of which yields every few milliseconds. They have timers, and no I/O.
    #[must_use]
    pub fn threads(&self) -> &Handle {
        self.shared.threads()
    }

    /// Calls `reconcile` on a guest thread, as soon as one of the sandbox's permits is free; the deadline counts from then.
    /// Whose turn it is when permits are scarce, the caller decides: the sandbox does not. Whatever the guest does, this
    /// returns soon after its deadline.
    ///
    /// What the call asks for, such as its writes, is carried out on the tokio runtime that the plugin was loaded on. Dropping
    /// the future stops the guest at its next yield; writes that have begun go on.
    pub async fn reconcile(
        self: &Arc<Self>,
        request: Request,
        ports: &Ports,
        call: Arc<CallContext>,
        limits: CallLimits,
    ) -> Called {
        let cpu = CpuTime::default();
        let (ports, host, counters) = (ports.clone(), self.host.clone(), self.counters.clone());
        let world = crate::state::ReconcileWorld::new(ports, call, host, counters, limits.replay);
        let (plugin, metered) = (self.clone(), cpu.clone());
        let task = async move {
            let callee = plugin.callee(&limits, &metered);
            metered.metered(call::reconcile(&callee, &request, world)).await
        };
        let result = ended(self.shared.run(task).await).unwrap_or_else(|stopped| stopped);
        Called { result, cpu: cpu.used() }
    }

    /// Calls `compose`, as [`Self::reconcile`] calls `reconcile`. The guest can do nothing but answer.
    pub async fn compose(
        self: &Arc<Self>,
        request: CompositionRequest,
        call: Arc<CallContext>,
        limits: CallLimits,
    ) -> Composed {
        let cpu = CpuTime::default();
        let world = call::compose::world(&request.request, call, self.counters.clone(), limits.replay);
        let (plugin, metered) = (self.clone(), cpu.clone());
        let task = async move {
            let callee = plugin.callee(&limits, &metered);
            metered.metered(call::compose::compose(&callee, &request, world)).await
        };
        match ended(self.shared.run(task).await) {
            Ok((answer, left, held)) => Composed { answer, cpu: cpu.used(), left, held: Some(held) },
            Err(failed) => Composed { answer: Err(failed), cpu: cpu.used(), left: Duration::ZERO, held: None },
        }
    }

    fn callee<'a>(&'a self, limits: &CallLimits, cpu: &'a CpuTime) -> Callee<'a> {
        let shared = &*self.shared;
        Callee {
            shared,
            code: &self.code.0,
            counters: &self.counters,
            instances: limits.instances,
            limits: shared.limits.clone(),
            time: shared.limits.deadline(limits.deadline),
            cpu,
        }
    }
}

/// What the guest answered; else how it was stopped.
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
        // Instances that wait for a call of this generation wait in vain.
        self.shared.memory.lot.forget(&self.counters);
    }
}

/// [`PluginStats`] while they are counted, and what is known of the plugin's calls for those to come.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    log_lines: AtomicU64,
    metric_values: AtomicU64,
    log_budget: LogBudget,
    /// What a call is expected to need, in bytes.
    memory: AtomicUsize,
    /// What its calls may have together.
    share: OnceLock<Share>,
}

impl Counters {
    /// Counts lines that were dropped. Returns whether it is time to tell somebody.
    pub(crate) fn log_lines_dropped(&self, lines: u64) -> bool {
        self.log_lines.fetch_add(lines, Ordering::Relaxed);
        self.log_budget.tell(Instant::now())
    }

    /// Whether the plugin may log one more line.
    pub(crate) fn log_line(&self, limits: &Limits, bytes: usize) -> bool {
        self.log_budget.line(limits, bytes, Instant::now())
    }

    /// Returns whether it was the first.
    pub(crate) fn metric_dropped(&self) -> bool {
        self.metric_values.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// What its calls may have of `memory` together.
    pub(crate) fn share(&self, memory: &GuestMemory) -> &Share {
        self.share.get_or_init(|| memory.share())
    }

    /// What the next call will probably need.
    pub(crate) fn memory_expected(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// A call has needed so much: what is expected is the most of late, so that one large call does not hold the others up
    /// for ever.
    pub(crate) fn memory_used(&self, bytes: usize) {
        // Calls that end at the same time may overwrite each other's: it is an estimate.
        let expected = self.memory_expected();
        self.memory.store(bytes.max(expected - expected.saturating_sub(bytes) / 8), Ordering::Relaxed);
    }

    fn snapshot(&self) -> PluginStats {
        PluginStats {
            dropped_log_lines: self.log_lines.load(Ordering::Relaxed),
            dropped_metric_values: self.metric_values.load(Ordering::Relaxed),
        }
    }
}
