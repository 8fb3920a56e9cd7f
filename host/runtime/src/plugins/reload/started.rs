//! Acts on started plugins: gives them newer generations, tells them to end, and records and reports the results.

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
use crate::plugins::{announce, prepare, unload};
use crate::rejections::{Digest, JudgedAt, Rejection, RejectionVerdict};
use crate::supervise::caught;

/// A plugin that was started.
pub(super) struct PluginHandle {
    /// The running generation.
    runs: Arc<Plugin>,
    /// The generation that takes over again after a rollback.
    returns: Option<Arc<Plugin>>,
    /// The newest generation, if it does not run yet.
    delivered: Option<Arc<Plugin>>,
    /// Delivers generations to the plugin.
    newest: watch::Sender<Arc<Plugin>>,
    /// Ends the plugin.
    stop: CancellationToken,
    /// Cancelled once the plugin has ended.
    over: CancellationToken,
    /// Why the plugin must end. `None` if it may go on.
    why: Option<StopReason>,
    /// The plugin's lease.
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
        // Show the plugin as running first, because the phase from its policy overrides that. The task below needs the
        // denials that this registers.
        runs(host, plugin);
        while self.denial_loggers.try_join_next().is_some() {}
        self.denial_loggers.spawn(prepare::log_denials(host.clone(), name.clone(), over.clone()));
        self.servings.spawn(async move { (name, caught("serving", &panics, serving).await) });
        // The receiver ends with the host.
        let _ = self.leftovers.send(plugin.clone());
        let handle =
            PluginHandle { runs: plugin.clone(), returns: None, delivered: None, newest, stop, over, why: None, lease };
        self.handles.insert(plugin.name().clone(), handle);
    }

    /// Gives a running plugin its newer generation.
    pub(super) fn deliver(&mut self, plugin: &Arc<Plugin>) {
        let Some(handle) = self.handles.get_mut(plugin.name()) else { return };
        // Act first and report then: if reporting panics, the step is not lost.
        handle.delivered = Some(plugin.clone());
        handle.newest.send_replace(plugin.clone());
        let status = self.host.status.plugin(plugin.name());
        // The file was taken, so no refusal is shown any more.
        status.has_not_taken(None);
        status.is_newest(handle.returns.as_ref().map(|returns| &**returns.digest()));
    }

    /// The running generation of `plugin`, or the one that takes over again after a rollback.
    pub(super) fn running(&self, plugin: &Arc<str>) -> Option<&Plugin> {
        let handle = self.handles.get(plugin)?;
        Some(handle.returns.as_ref().unwrap_or(&handle.runs))
    }

    /// Withdraws `digest`, which was to replace the running generation.
    pub(super) fn withdraw(&mut self, plugin: &Arc<str>, digest: &str) {
        if let Some(handle) = self.handles.get_mut(plugin) {
            handle.delivered = None;
            handle.newest.send_replace(handle.returns.as_ref().unwrap_or(&handle.runs).clone());
        }
        announce::withdrawn(&self.host, plugin, digest);
    }

    pub(super) fn stop(&mut self, plugin: &Arc<str>, why: &StopReason) {
        if let Some(handle) = self.handles.get_mut(plugin) {
            (handle.why, handle.delivered) = (Some(why.clone()), None);
            handle.stop.cancel();
        }
        announce::stopping(&self.host, plugin, why);
    }

    /// The running generation of `plugin` has ended.
    pub(super) fn ended(&mut self, plugin: &Arc<str>, end: Option<ControllerEnd>) {
        let Some(handle) = self.handles.remove(plugin) else { return };
        handle.over.cancel();
        // If the plugin had to end and panicked meanwhile, it has ended as expected.
        let fell = end.is_none() && handle.why.is_none();
        // Act first, as in `deliver`: otherwise a replica that runs nothing could keep the lease.
        let ran_here = handle.lease.is_held();
        self.host.leadership.leave(plugin);
        if fell || self.catalog.ended(plugin) {
            unload::clean_up(&self.host, &handle.runs, handle.why.as_ref(), end, ran_here, &self.phases.stop);
        }
        if fell {
            self.fell(plugin);
        }
    }

    /// Handles a report about the newest generation.
    pub(super) fn swapped(&mut self, plugin: &Arc<str>, swapped: Swapped) {
        let Some(handle) = self.handles.get_mut(plugin) else { return };
        match swapped {
            Swapped::Runs(now) => {
                // A newer generation may have been delivered since.
                let _ = handle.delivered.take_if(|delivered| delivered.digest() == now.digest());
                handle.returns = None;
                self.catalog.took_over(plugin, &as_loaded(&now));
                // A late report that this generation waits may have arrived after it was shown as running.
                self.host.status.plugin(plugin).pends(None);
                if Arc::ptr_eq(&now, &handle.runs) {
                    return;
                }
                handle.runs = now.clone();
                runs(&self.host, &now);
                let _ = self.leftovers.send(now);
            }
            Swapped::Pending { digest, reason } => {
                // A newer generation may have been delivered since, or this one may have been withdrawn.
                let PluginHandle { runs, returns, delivered, .. } = &*handle;
                let mut awaited = [delivered, returns].into_iter().flatten().chain([runs]);
                if awaited.any(|awaited| *awaited.digest() == digest) {
                    self.host.status.plugin(plugin).pends(Some(NotTaken { digest: Some(digest), reason }));
                }
            }
            Swapped::RolledBack { rejected, to, because } => {
                // A newer generation may have been delivered since.
                let _ = handle.delivered.take_if(|delivered| *delivered.digest() == rejected);
                // The returning generation is shown once it runs again, which is reported like any other start.
                handle.returns = Some(to.clone());
                let rejection = Rejection::new(rejected, because, Some(to.digest()));
                announce::rolled_back(&self.host, plugin, to.digest(), &rejection);
                let rejection = self.rejections.judged(plugin, rejection, JudgedAt::now());
                self.catalog.rolled_back(plugin, rejection.clone(), &as_loaded(&to));
                self.publish_verdict(plugin.clone(), RejectionVerdict::Rejected(rejection));
            }
        }
    }

    pub(super) fn pardon(&mut self, plugin: Arc<str>, digest: &Digest) {
        let at = self.rejections.pardon(&plugin, digest, JudgedAt::now());
        if let Some(status) = self.host.status.known(&plugin) {
            status.has_rejected(None);
        }
        tracing::info!(%plugin, digest = &**digest, "the file of the version that was rolled back has changed: the new file may run");
        self.publish_verdict(plugin, RejectionVerdict::Pardoned { digest: digest.clone(), at });
    }

    /// Publishes the verdict in the background.
    fn publish_verdict(&self, plugin: Arc<str>, verdict: RejectionVerdict) {
        // The receiver ends with the host.
        let _ = self.replicas.send((plugin, verdict));
    }
}

/// Records that `plugin` runs from now on: in its status, its policies and its lease.
pub(crate) fn runs(host: &Host, plugin: &Arc<Plugin>) {
    host.metrics.plugins().declare(plugin.name(), &plugin.manifest().metrics);
    host.policies.register(plugin, &host.status.plugin(plugin.name()));
    host.leadership.has(plugin);
}
