//! Acts on plugins that were started: gives them newer generations, tells them to end, and remembers and reports what
//! became of that.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_wasm::Plugin;

use super::{Reload, as_loaded};
use crate::host::Host;
use crate::leadership::PluginLease;
use crate::observe::status::NotTaken;
use crate::phases::ControllerEnd;
use crate::plugins::directory::StopReason;
use crate::plugins::reports::Swapped;
use crate::plugins::serve::Serving;
use crate::plugins::{prepare, tell, unload};
use crate::rejections::{Digest, JudgedAt, Rejection, RejectionVerdict};
use crate::supervise::caught;

/// A plugin that was started.
pub(super) struct PluginHandle {
    /// The generation that runs.
    runs: Arc<Plugin>,
    /// The generation that comes back in its place after a rollback.
    returns: Option<Arc<Plugin>>,
    /// The newest generation, which does not run yet.
    delivered: Option<Arc<Plugin>>,
    /// Where it is delivered.
    newest: watch::Sender<Arc<Plugin>>,
    /// Ends it.
    stop: CancellationToken,
    /// It has ended.
    over: CancellationToken,
    /// Why it ends.
    why: Option<StopReason>,
    /// The lease that it goes by.
    lease: PluginLease,
}

impl PluginHandle {
    /// The generation that runs.
    pub(super) fn runs(&self) -> &Arc<Plugin> {
        &self.runs
    }
}

impl Reload {
    /// Starts a plugin that does not run.
    pub(super) fn start(&mut self, plugin: &Arc<Plugin>) {
        let (name, host) = (plugin.name().clone(), &self.host);
        let stop = self.phases.stop.child_token();
        let over = self.phases.over.child_token();
        host.status.plugin(&name).has_not_taken(None);
        let phases = self.phases.of_plugin(stop.clone());
        let (serving, newest) = Serving::new(host, &self.supplies, plugin, self.reports.clone(), phases);
        let (panics, lease, serving) = (host.panics.clone(), serving.lease.clone(), serving.run());
        // Shown as running first, for what its policy says is shown over that; and its denials are those that are
        // registered.
        runs(host, plugin);
        while self.tellers.try_join_next().is_some() {}
        self.tellers.spawn(prepare::tell_denials(host.clone(), name.clone(), over.clone()));
        self.servings.spawn(async move { (name, caught("serving", &panics, serving).await) });
        // Whoever listens ends with the host.
        let _ = self.leftovers.send(plugin.clone());
        let handle =
            PluginHandle { runs: plugin.clone(), returns: None, delivered: None, newest, stop, over, why: None, lease };
        self.handles.insert(plugin.name().clone(), handle);
    }

    /// Gives a plugin that runs its newer generation.
    pub(super) fn deliver(&mut self, plugin: &Arc<Plugin>) {
        let Some(handle) = self.handles.get_mut(plugin.name()) else { return };
        // First what is done, and then what is told: should that panic, the step is not lost.
        handle.delivered = Some(plugin.clone());
        handle.newest.send_replace(plugin.clone());
        let status = self.host.status.plugin(plugin.name());
        // The file is taken.
        status.has_not_taken(None);
        status.is_newest(handle.returns.as_ref().map(|returns| &**returns.digest()));
    }

    /// The generation of `plugin` that runs, or that runs again in the place of one that was rolled back.
    pub(super) fn running(&self, plugin: &Arc<str>) -> Option<&Plugin> {
        let handle = self.handles.get(plugin)?;
        Some(handle.returns.as_ref().unwrap_or(&handle.runs))
    }

    /// The running generation is not to be replaced by `digest`.
    pub(super) fn withdraw(&mut self, plugin: &Arc<str>, digest: &str) {
        if let Some(handle) = self.handles.get_mut(plugin) {
            handle.delivered = None;
            handle.newest.send_replace(handle.returns.as_ref().unwrap_or(&handle.runs).clone());
        }
        tell::withdrawn(&self.host, plugin, digest);
    }

    pub(super) fn stop(&mut self, plugin: &Arc<str>, why: &StopReason) {
        if let Some(handle) = self.handles.get_mut(plugin) {
            (handle.why, handle.delivered) = (Some(why.clone()), None);
            handle.stop.cancel();
        }
        tell::stopping(&self.host, plugin, why);
    }

    /// The running generation of `plugin` has ended.
    pub(super) fn ended(&mut self, plugin: &Arc<str>, end: Option<ControllerEnd>) {
        let Some(handle) = self.handles.remove(plugin) else { return };
        handle.over.cancel();
        // What was told to end, and has panicked over that, has ended.
        let fell = end.is_none() && handle.why.is_none();
        // First what is done, as in `deliver`: a lease that is not let go of is kept by a replica that runs nothing.
        let ran_here = handle.lease.is_held();
        self.host.leadership.leave(plugin);
        if fell || self.catalog.ended(plugin) {
            unload::tell(&self.host, &handle.runs, handle.why.as_ref(), end, ran_here, &self.phases.stop);
        }
        if fell {
            self.fell(plugin);
        }
    }

    /// Takes the news of what became of the newest generation.
    pub(super) fn swapped(&mut self, plugin: &Arc<str>, swapped: Swapped) {
        let Some(handle) = self.handles.get_mut(plugin) else { return };
        match swapped {
            Swapped::Runs(now) => {
                // Another may have been delivered since.
                let _ = handle.delivered.take_if(|delivered| delivered.digest() == now.digest());
                handle.returns = None;
                self.catalog.took_over(plugin, &as_loaded(&now));
                // That it waits may have been heard of only after it was shown to run.
                self.host.status.plugin(plugin).pends(None);
                if Arc::ptr_eq(&now, &handle.runs) {
                    return;
                }
                handle.runs = now.clone();
                runs(&self.host, &now);
                let _ = self.leftovers.send(now);
            }
            Swapped::Pending { digest, reason } => {
                // Another may have been delivered since, or this one withdrawn.
                let PluginHandle { runs, returns, delivered, .. } = &*handle;
                let mut awaited = [delivered, returns].into_iter().flatten().chain([runs]);
                if awaited.any(|awaited| *awaited.digest() == digest) {
                    self.host.status.plugin(plugin).pends(Some(NotTaken { digest: Some(digest), reason }));
                }
            }
            Swapped::RolledBack { rejected, to, because } => {
                // Another may have been delivered since.
                let _ = handle.delivered.take_if(|delivered| *delivered.digest() == rejected);
                // It is shown when it is at work again, which is told of as of every other.
                handle.returns = Some(to.clone());
                let rejection = Rejection::new(rejected, because, Some(to.digest()));
                tell::rolled_back(&self.host, plugin, to.digest(), &rejection);
                let rejection = self.rejections.judged(plugin, rejection, JudgedAt::now());
                self.catalog.rolled_back(plugin, rejection.clone(), &as_loaded(&to));
                self.tell_replicas(plugin.clone(), RejectionVerdict::Rejected(rejection));
            }
        }
    }

    pub(super) fn pardon(&mut self, plugin: Arc<str>, digest: &Digest) {
        let at = self.rejections.pardon(&plugin, digest, JudgedAt::now());
        if let Some(status) = self.host.status.known(&plugin) {
            status.has_rejected(None);
        }
        tracing::info!(%plugin, digest = &**digest, "the file that was rolled back is another one now: it is forgotten");
        self.tell_replicas(plugin, RejectionVerdict::Pardoned { digest: digest.clone(), at });
    }

    /// In the background: nothing waits for it.
    fn tell_replicas(&self, plugin: Arc<str>, verdict: RejectionVerdict) {
        // Whoever listens ends with the host.
        let _ = self.replicas.send((plugin, verdict));
    }
}

/// `plugin` runs from now on, and is bound as what it is.
pub(crate) fn runs(host: &Host, plugin: &Arc<Plugin>) {
    host.metrics.plugins().declare(plugin.name(), &plugin.manifest().metrics);
    host.policies.register(plugin, &host.status.plugin(plugin.name()));
    host.leadership.has(plugin);
}
