//! A loaded plugin: what it said of itself, and how to call it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use windlass_core::compose::Composition;
use windlass_core::outcome::CallResult;
use windlass_core::ports::{CallContext, Ports};

use crate::abi::{AbiVersion, v0_2_0};
use crate::call::{self, Callee};
use crate::counters::{Counters, PluginStats};
use crate::cpu::CpuTime;
use crate::entry::EntryPoint;
use crate::manifest::Manifest;
use crate::memory::Held;
use crate::obtain::Kept;
use crate::request::{CallLimits, CompositionRequest, Request};
use crate::sandbox::{Shared, TaskError};
use crate::trap::Stopped;

/// A call that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// How.
    pub result: CallResult,
    /// The processor time of the guest's thread that it used.
    pub cpu: Duration,
    /// Whether the plugin was called. If not, the host knew the result without it, which says nothing of the plugin.
    pub made: bool,
}

impl Called {
    /// A call that was made, and used `cpu`.
    #[must_use]
    pub fn made(result: CallResult, cpu: Duration) -> Self {
        Self { result, cpu, made: true }
    }

    /// A call that was not made, because the host knew the result without it.
    #[must_use]
    pub fn not_made(result: CallResult) -> Self {
        Self { result, cpu: Duration::ZERO, made: false }
    }
}

/// A call of `compose` that has ended.
#[derive(Debug)]
pub struct Composed {
    /// The plugin's answer. Err: it failed, and how.
    pub answer: Result<Composition, CallResult>,
    /// The processor time of the guest's thread that it used.
    pub cpu: Duration,
    /// Of its wall time, what is left for what follows from the answer.
    pub left: Duration,
    /// Of the memory of all guests, what the answer takes while somebody works with it. None: there is nothing of it.
    pub held: Option<Held>,
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
    pub(crate) entry: EntryPoint,
    pub(crate) imports: Vec<String>,
    pub(crate) manifest: Manifest,
    pub(crate) counters: Arc<Counters>,
    pub(crate) code: Code,
    pub(crate) kept: Kept,
    /// Where what its calls ask for is carried out.
    pub(crate) host: Handle,
    pub(crate) shared: Arc<Shared>,
}

/// The code to call.
#[derive(Clone)]
pub(crate) struct Code(pub(crate) v0_2_0::LinkedPlugin);

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

    /// The function that the host calls in it.
    #[must_use]
    pub fn entry(&self) -> EntryPoint {
        self.entry
    }

    /// The interfaces that it imports, and with them what it could ask for at all.
    #[must_use]
    pub fn imports(&self) -> &[String] {
        &self.imports
    }

    /// Its manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether its code was found in the cache, and it was not compiled.
    #[must_use]
    pub fn was_cached(&self) -> bool {
        self.kept.found
    }

    /// Whether its code is in the cache, and can be loaded from there by
    /// [`Sandbox::load_digest`](crate::Sandbox::load_digest).
    #[must_use]
    pub fn is_cached(&self) -> bool {
        self.kept.pinned.is_some()
    }

    /// Its losses to limits since it was loaded.
    #[must_use]
    pub fn stats(&self) -> PluginStats {
        self.counters.snapshot()
    }

    /// The threads that run guests. A task there calls a plugin in place, which is several times cheaper than from
    /// elsewhere; it shares them with guests that spin, each of which yields every few milliseconds. They have timers,
    /// and no I/O.
    #[must_use]
    pub fn threads(&self) -> &Handle {
        self.shared.threads()
    }

    /// Calls `reconcile` on a guest thread, as soon as one of the sandbox's permits is free; the deadline counts from
    /// then. Which plugin is called when permits are scarce is decided by the caller, not by the sandbox. Whatever the
    /// guest does, this returns soon after its deadline.
    ///
    /// What the call asks for, such as its writes, is carried out on the tokio runtime that the plugin was loaded on.
    /// Dropping the future stops the guest at its next yield; writes that have begun go on.
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
        Called::made(result, cpu.used())
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

/// The guest's answer; else how it was stopped.
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
        self.shared.lot.forget(&self.counters);
    }
}
