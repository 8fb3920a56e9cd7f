//! Calls the plugin's own code for watches under the plugin's CPU share, as workers call the plugin.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::time::Instant;
use windlass_core::budget::fair::CallPermit;
use windlass_core::cache::mapping::Target;
use windlass_core::call::ports::{CallContext, Reads};
use windlass_core::object::ObjectKey;
use windlass_core::queue::outcome::CallResult;
use windlass_core::write::settle;
use windlass_wasm::{CallLimits, ChangeBatch, Mapped, Matched, Plugin};

use crate::dispatch::code_feeder::{CodeFailure, MapChanges};
use crate::dispatch::{Dispatch, trace_id};

/// The mapper of a plugin, for all watches of one controller. All clones together make only one call at a time.
#[derive(Clone)]
pub(crate) struct PluginMapper {
    plugin: Arc<Plugin>,
    dispatch: Arc<Dispatch>,
    /// Allows one call at a time, even if the controller watches several namespaces.
    turn: Arc<Mutex<()>>,
}

/// The arguments that each call gets.
struct CallParts {
    reads: Arc<dyn Reads>,
    context: Arc<CallContext>,
    limits: CallLimits,
}

/// An answer of the code, and the processor time that it took.
type MeteredAnswer<T> = (Result<T, CallResult>, Duration);

impl MapChanges for PluginMapper {
    fn matches(&self, batch: ChangeBatch) -> BoxFuture<'static, Result<Vec<bool>, CodeFailure>> {
        let batch = self.as_requested(batch);
        let (mapper, plugin, changes) = (self.clone(), self.plugin.clone(), batch.changes.len());
        let call = |parts: CallParts| {
            async move {
                let Matched { answer, cpu } = plugin.matches(batch, parts.reads, parts.context, parts.limits).await;
                (answer, cpu)
            }
            .boxed()
        };
        async move { mapper.call("predicate", changes, call).await }.boxed()
    }

    fn map(&self, batch: ChangeBatch) -> BoxFuture<'static, Result<Vec<Vec<Target>>, CallResult>> {
        let batch = self.as_requested(batch);
        let (mapper, plugin, changes) = (self.clone(), self.plugin.clone(), batch.changes.len());
        let call = |parts: CallParts| {
            async move {
                let Mapped { answer, cpu } = plugin.map(batch, parts.reads, parts.context, parts.limits).await;
                (answer, cpu)
            }
            .boxed()
        };
        async move { mapper.call("mapper", changes, call).await.map_err(|failure| failure.result) }.boxed()
    }

    fn filtered(&self, changes: usize) {
        self.dispatch.status.metrics.filtered.inc_by(changes as u64);
    }

    fn hides(&self, key: &ObjectKey) -> bool {
        self.dispatch.callee.principal.grants().hides(key)
    }

    fn may_begin(&self) -> bool {
        self.dispatch.caches_filled.is_cancelled()
    }

    fn begins(&self) -> BoxFuture<'static, ()> {
        self.dispatch.caches_filled.clone().cancelled_owned().boxed()
    }
}

impl PluginMapper {
    pub(crate) fn new(plugin: Arc<Plugin>, dispatch: Arc<Dispatch>) -> Self {
        Self { plugin, dispatch, turn: Arc::default() }
    }

    /// The batch with the controller's name in the manifest, which the plugin knows.
    fn as_requested(&self, batch: ChangeBatch) -> ChangeBatch {
        ChangeBatch { controller: self.dispatch.callee.requested_as.clone(), ..batch }
    }

    /// Makes a `call` about this many `changes`. `part` is the part of the plugin's code, as the metric of failures
    /// names it.
    async fn call<T>(
        &self,
        part: &'static str,
        changes: usize,
        call: impl FnOnce(CallParts) -> BoxFuture<'static, MeteredAnswer<T>>,
    ) -> Result<T, CodeFailure> {
        let dispatch = &self.dispatch;
        let _turn = self.turn.lock().await;
        let permit = self.permit().await;
        // The call is about no key, and writes nothing that could be waited for.
        let (key, (hold, _)) = (ObjectKey::cluster(""), settle::hold());
        let context = dispatch.context(&key, None, &trace_id(), hold, permit.cpu_permit());
        let started = Instant::now();
        let (config, reads) = (context.config.clone(), dispatch.callee.ports.reads.clone());
        let parts = CallParts { reads, context: Arc::new(context), limits: dispatch.callee.limits.clone() };
        let (answer, cpu) = call(parts).await;
        let took = started.elapsed();
        let answer = answer.map_err(|failed| CodeFailure { result: config.redact_result(failed), took });
        dispatch.status.used(cpu);
        dispatch.permits.finish(permit, cpu, took);
        if answer.is_err() {
            dispatch.status.trapped(part);
        }
        tracing::debug!(
            target: super::LOG, plugin = %dispatch.callee.principal.plugin, controller = %dispatch.callee.controller, part,
            changes, elapsed = ?took, ?cpu, failed = answer.is_err(), "asked about changes"
        );
        answer
    }

    /// Waits until a call may be made, as workers do: no code of a paused plugin runs.
    async fn permit(&self) -> CallPermit {
        loop {
            self.dispatch.permits.call_gate.open().await;
            let permit = self.dispatch.permits.share.acquire().await;
            if self.dispatch.permits.call_gate.may_call() {
                return permit;
            }
            permit.unused();
            tokio::task::yield_now().await;
        }
    }
}
