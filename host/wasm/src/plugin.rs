//! A loaded plugin: what it said of itself, and how to call it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use windlass_core::compose::Composition;
use windlass_core::confidential::Confidential;
use windlass_core::object::ObjectKey;
use windlass_core::outcome::CallResult;
use windlass_core::ports::{CallContext, Ports};

use crate::abi::{AbiVersion, v0_1_0};
use crate::artefacts::Pinned;
use crate::call;
use crate::component::Entry;
use crate::cpu::CpuTime;
use crate::manifest::Manifest;
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

/// Limits that a single call has instead of the sandbox's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallLimits {
    /// Wall time, host calls included.
    pub deadline: Option<Duration>,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composed {
    /// What the plugin answered. Err: it failed, and how.
    pub answer: Result<Composition, CallResult>,
    /// The processor time of the guest's thread that it used.
    pub cpu: Duration,
}

/// What a plugin has lost to limits since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginStats {
    /// Log lines beyond a call's limit.
    pub dropped_log_lines: u64,
    /// Values of metrics beyond a call's limit.
    pub dropped_metric_values: u64,
}

/// One generation of a plugin: the bytes of a file at one time. Calls of it may run concurrently, each in an instance
/// of its own, which is gone when the call has ended.
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

    /// Calls `reconcile` in a fresh instance on a guest thread, as soon as one of the sandbox's permits is free; the
    /// deadline counts from then. Whose turn it is when permits are scarce, the caller decides: the sandbox does not. Whatever the guest does, this returns soon after its deadline.
    ///
    /// Must be called within a tokio runtime, where the writes of the call are then carried out. Dropping the future
    /// stops the guest at its next yield; writes that have begun go on.
    pub async fn reconcile(
        self: &Arc<Self>,
        request: Request,
        ports: &Ports,
        call: Arc<CallContext>,
        limits: CallLimits,
    ) -> Called {
        let cpu = CpuTime::default();
        let world = crate::state::ReconcileWorld::new(ports.clone(), call, Handle::current(), self.counters.clone());
        let plugin = self.clone();
        let metered = cpu.clone();
        let task = async move {
            let shared = &plugin.shared;
            let time = limits.deadline.unwrap_or(shared.limits.deadline);
            let call = call::reconcile(&shared.engine, &plugin.code.0, shared.limits.clone(), time, &request, world);
            metered.metered(call).await
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
        let world = call::compose::world(&request.request, call, self.counters.clone());
        let plugin = self.clone();
        let metered = cpu.clone();
        let task = async move {
            let shared = &plugin.shared;
            let time = limits.deadline.unwrap_or(shared.limits.deadline);
            let limits = shared.limits.clone();
            let call = call::compose::compose(&shared.engine, &plugin.code.0, limits, time, &request, world);
            metered.metered(call).await
        };
        let answer = ended(self.shared.run(task).await).and_then(|answer| answer);
        Composed { answer, cpu: cpu.used() }
    }
}

/// What the guest answered; else how it was stopped.
fn ended<T>(call: Result<Result<T, Stopped>, TaskError>) -> Result<T, CallResult> {
    match call {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(Stopped { reason, message })) => Err(CallResult::Trapped { reason, message }),
        Err(error @ (TaskError::Panicked(_) | TaskError::ShutDown)) => {
            Err(CallResult::Trapped { reason: "host", message: error.to_string() })
        }
    }
}

/// [`PluginStats`] while they are counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    log_lines: AtomicU64,
    metric_values: AtomicU64,
}

impl Counters {
    pub(crate) fn log_lines_dropped(&self, lines: u64) {
        self.log_lines.fetch_add(lines, Ordering::Relaxed);
    }

    /// Returns whether it was the first.
    pub(crate) fn metric_dropped(&self) -> bool {
        self.metric_values.fetch_add(1, Ordering::Relaxed) == 0
    }

    fn snapshot(&self) -> PluginStats {
        PluginStats {
            dropped_log_lines: self.log_lines.load(Ordering::Relaxed),
            dropped_metric_values: self.metric_values.load(Ordering::Relaxed),
        }
    }
}
