//! Calls a plugin's mapper under the plugin's CPU share, as workers call the plugin.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::time::Instant;
use windlass_core::budget::fair::CallPermit;
use windlass_core::cache::mapping::Target;
use windlass_core::object::ObjectKey;
use windlass_core::write::settle;
use windlass_wasm::{ChangeBatch, Mapped, Plugin};

use crate::dispatch::code_feeder::MapChanges;
use crate::dispatch::{Dispatch, trace_id};

/// The mapper of a plugin, for all watches of one controller. Clones share one call at a time.
#[derive(Clone)]
pub(crate) struct PluginMapper {
    plugin: Arc<Plugin>,
    dispatch: Arc<Dispatch>,
    /// Allows one call at a time, in however many namespaces its watches are.
    turn: Arc<Mutex<()>>,
}

impl MapChanges for PluginMapper {
    fn map(&self, batch: ChangeBatch) -> BoxFuture<'static, Result<Vec<Vec<Target>>, String>> {
        let mapper = self.clone();
        let batch = ChangeBatch { controller: self.dispatch.callee.requested_as.clone(), ..batch };
        async move { mapper.call(batch).await }.boxed()
    }

    fn hides(&self, key: &ObjectKey) -> bool {
        self.dispatch.callee.principal.grants().hides(key)
    }

    fn may_begin(&self) -> bool {
        self.dispatch.caches_filled.load(Ordering::Acquire)
    }
}

impl PluginMapper {
    pub(crate) fn new(plugin: Arc<Plugin>, dispatch: Arc<Dispatch>) -> Self {
        Self { plugin, dispatch, turn: Arc::default() }
    }

    async fn call(&self, batch: ChangeBatch) -> Result<Vec<Vec<Target>>, String> {
        let dispatch = &self.dispatch;
        let _turn = self.turn.lock().await;
        let permit = self.permit().await;
        // The call is about no key, and writes nothing that could be waited for.
        let (key, (hold, _)) = (ObjectKey::cluster(""), settle::hold());
        let context = dispatch.context(&key, None, &trace_id(), hold, permit.cpu_permit());
        let started = Instant::now();
        let changes = batch.changes.len();
        let (config, reads) = (context.config.clone(), dispatch.callee.ports.reads.clone());
        let limits = dispatch.callee.limits.clone();
        let Mapped { answer, cpu } = self.plugin.map(batch, reads, Arc::new(context), limits).await;
        let answer = answer.map_err(|error| config.redact(&error).into_owned());
        dispatch.status.used(cpu);
        dispatch.permits.finish(permit, cpu, started.elapsed());
        if answer.is_err() {
            dispatch.status.trapped("mapper");
        }
        tracing::debug!(
            target: super::LOG, plugin = %dispatch.callee.principal.plugin, controller = %dispatch.callee.controller, changes,
            elapsed = ?started.elapsed(), ?cpu, failed = answer.is_err(), "mapped"
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
