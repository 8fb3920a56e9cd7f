//! Runs one plugin, from one term to the next: definitions and controllers begin when its lease is won and end before
//! it is let go of. In between, it stands by. How one generation takes the other's place meanwhile is
//! [`swap`](super::swap)'s matter.

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use futures::future::join_all;
use tokio::sync::{Mutex, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_core::budget::fair::CpuShare;
use windlass_core::rights::fence::Fenced;
use windlass_kube::{Budget, LiveReader};
use windlass_wasm::Plugin;

use super::prepare;
use super::supplies::Supplies;
use super::swap::Swaps;
use crate::controller::{Controller, GenerationParts, Handover, Ready};
use crate::dispatch::call_record::CallRecord;
use crate::host::Host;
use crate::leadership::{PluginLease, PluginTerm};
use crate::observe::status::ControllerStatus;
use crate::phases::{ControllerEnd, Phases, kept_up};
use crate::plugins::reports::{Reports, Swapped};
use crate::suspension::Suspension;

/// The weight of each plugin's share of the permits.
pub(super) const EQUAL_WEIGHT: NonZeroU32 = NonZeroU32::MIN;

/// Begins to install a generation's definitions, under a fence and until a token is cancelled. None: they are none.
pub(crate) type Install = fn(&Arc<Host>, &Arc<Supplies>, &Plugin, Fenced, &CancellationToken) -> Option<Ready>;

/// One plugin and what it takes to run it.
pub(crate) struct Serving {
    pub(crate) host: Arc<Host>,
    /// The newest generation that can be run. Those whose digest did not prove itself here are not run again.
    pub(crate) wanted: watch::Receiver<Arc<Plugin>>,
    /// Is told what becomes of each but the first.
    pub(crate) reports: Reports,
    /// The plugin's share of the host's permits.
    pub(crate) share: CpuShare,
    pub(crate) live: LiveReader,
    pub(crate) supplies: Arc<Supplies>,
    pub(crate) lease: PluginLease,
    /// How the host stops, or this plugin is unloaded.
    pub(crate) phases: Phases,
    /// Installs definitions; a test's may panic.
    pub(crate) install: Install,
}

/// One generation, ready to run.
pub(crate) struct Generation {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) controllers: Vec<Controller>,
    pub(crate) record: Arc<CallRecord>,
    /// Its configuration is followed until this is dropped.
    _following: DropGuard,
}

/// The state that lasts as long as the plugin is served.
#[derive(Default)]
pub(crate) struct ServingState {
    /// Of each controller, by its name.
    handover: BTreeMap<String, Arc<Handover>>,
    /// The digests of the generations that did not prove themselves.
    pub(crate) rejected: HashSet<Arc<str>>,
    /// The generation that comes back if the running one fails its probation. None: it has passed, or needs none.
    pub(super) former: Option<ProvenGeneration>,
    /// The generation that is shown as running, and the record of its calls.
    at_work: Option<(Arc<Plugin>, Arc<CallRecord>)>,
}

/// A generation that has proven itself.
pub(super) struct ProvenGeneration {
    pub(super) plugin: Arc<Plugin>,
    /// How its calls ended here. It is its own again when it comes back.
    pub(super) record: Arc<CallRecord>,
}

impl Serving {
    /// Serves `plugin` until `phases` end it. Its newer generations are delivered by the sender; what becomes of those
    /// is told in `reports`.
    pub(crate) fn new(
        host: &Arc<Host>,
        supplies: &Arc<Supplies>,
        plugin: &Arc<Plugin>,
        reports: Reports,
        phases: Phases,
    ) -> (Self, watch::Sender<Arc<Plugin>>) {
        let lease = host.leadership.take(plugin.name(), &phases.stop, &host.panics);
        host.status.plugin(plugin.name()).goes_by(Arc::new(lease.clone()));
        let (newest, wanted) = watch::channel(plugin.clone());
        let serving = Self {
            host: host.clone(),
            wanted,
            reports,
            share: supplies.fair.share(EQUAL_WEIGHT),
            live: supplies.live.for_another(),
            supplies: supplies.clone(),
            lease,
            phases,
            install: prepare::install,
        };
        (serving, newest)
    }

    /// Runs the plugin whenever it has its lease, until the host stops, whatever panics. Its controllers are shown
    /// before this is polled.
    pub(crate) fn run(mut self) -> impl Future<Output = ControllerEnd> + Send + 'static {
        let mut past = ServingState::default();
        let wanted = self.wanted.borrow_and_update().clone();
        let first = self.generation(wanted, &mut past);
        if let Some(first) = &first {
            self.runs(&mut past, first);
        }
        async move {
            if first.is_none() {
                // That nothing could fit its schema was told of when it was loaded.
                return ControllerEnd::Impossible;
            }
            let (panics, phases) = (self.host.panics.clone(), self.phases.clone());
            let all = Mutex::new((self, past, first));
            let all = &all;
            let end = kept_up("serving", &panics, &phases, || Self::calls(all), || Self::attempt(all)).await;
            // What is put back in the plugin's place knows nothing of calls that were cut. They have deadlines.
            phases.unless_host_stops(Self::calls(all)).await;
            end
        }
    }

    /// Completes when no call runs.
    async fn calls(all: &Mutex<(Self, ServingState, Option<Generation>)>) {
        all.lock().await.1.calls().await;
    }

    /// With its first generation, or with the one that was at work when an attempt panicked.
    async fn attempt(all: &Mutex<(Self, ServingState, Option<Generation>)>) -> ControllerEnd {
        let (serving, past, first) = &mut *all.lock().await;
        match first.take().or_else(|| serving.again(past)) {
            Some(current) => serving.terms(current, past).await,
            None => ControllerEnd::Impossible,
        }
    }

    /// The generation that was at work, as far as it had come.
    fn again(&self, past: &mut ServingState) -> Option<Generation> {
        let (plugin, record) = past.at_work.clone()?;
        let generation = self.generation_of(plugin, record, past)?;
        self.runs(past, &generation);
        Some(self.returned(past, generation))
    }

    /// `generation`; or the one that was to come back in its place, and could not any more.
    pub(super) fn returned(&self, past: &mut ServingState, generation: Generation) -> Generation {
        if !past.rejected.contains(generation.plugin.digest()) {
            return generation;
        }
        let former = past.former.take().and_then(|former| self.generation_of(former.plugin, former.record, past));
        let Some(former) = former else { return generation };
        self.runs(past, &former);
        self.report(&former.plugin, Swapped::Runs(former.plugin.clone()));
        former
    }

    async fn terms(&mut self, mut current: Generation, past: &mut ServingState) -> ControllerEnd {
        let stop = self.phases.stop.clone();
        loop {
            let mut wanted = self.wanted.clone();
            let term = tokio::select! {
                biased;
                () = stop.cancelled() => return ControllerEnd::Clean,
                Ok(()) = wanted.changed() => {
                    self.take_up(&mut current, past);
                    continue;
                }
                term = self.stand_by(&current) => term,
            };
            let end;
            (end, current) = Swaps::of(self, past, &term).serve(current).await;
            let is_over = term.ends.is_cancelled();
            drop(term);
            if stop.is_cancelled() || !is_over {
                return end;
            }
            self.hold_back(&current, past);
        }
    }

    /// The newest generation. It has been seen from now on.
    pub(super) fn newest(&mut self, past: &mut ServingState) -> Arc<Plugin> {
        let is_new = self.wanted.has_changed().unwrap_or(false);
        let plugin = self.wanted.borrow_and_update().clone();
        if is_new {
            past.delivered(&plugin);
        }
        plugin
    }

    /// Whether the newest generation, which has been seen, is still to take the place of `current`.
    pub(super) fn has_newer(&self, current: &Generation, past: &ServingState) -> bool {
        let newest = self.wanted.borrow();
        newest.digest() != current.plugin.digest() && !past.rejected.contains(newest.digest())
    }

    /// A term has ended. What was to take over in it and has not is told that it waits: whatever held it back may
    /// still do so, which is seen when the one before it is at work again.
    fn hold_back(&mut self, current: &Generation, past: &mut ServingState) {
        let newest = self.newest(past);
        if !self.has_newer(current, past) {
            return;
        }
        let reason = "the lease went before it could take over: it gets ready anew whenever the lease is won here";
        tracing::warn!(
            plugin = %newest.name(), digest = newest.short_digest(),
            "the new generation does not take over yet: {reason}"
        );
        let (digest, reason) = (newest.digest().clone(), reason.to_owned());
        self.report(&newest, Swapped::Pending { digest, reason });
    }

    /// A generation that is delivered while nothing is at work here simply takes the place, as it would in a host that
    /// starts.
    fn take_up(&mut self, current: &mut Generation, past: &mut ServingState) {
        let plugin = self.newest(past);
        if !self.has_newer(current, past) {
            return;
        }
        let Some(next) = self.generation(plugin, past) else { return };
        self.succeeds(past, &next, current);
        self.runs(past, &next);
        self.report(&next.plugin, Swapped::Runs(next.plugin.clone()));
        *current = next;
    }

    /// `next` takes the place of `before`, and has to prove itself if this host rolls back.
    pub(super) fn succeeds(&self, past: &mut ServingState, next: &Generation, before: &Generation) {
        if self.host.rollback {
            past.succeeds(next, before);
        }
    }

    /// The generation of `plugin`, whose controllers keep what they have of those before.
    pub(crate) fn generation(&self, plugin: Arc<Plugin>, past: &mut ServingState) -> Option<Generation> {
        self.generation_of(plugin, CallRecord::new(), past)
    }

    pub(super) fn generation_of(
        &self,
        plugin: Arc<Plugin>,
        record: Arc<CallRecord>,
        past: &mut ServingState,
    ) -> Option<Generation> {
        let over = CancellationToken::new();
        let configured = prepare::configure(&self.host, &self.supplies, &plugin, &over)?;
        let budget = Budget::new(self.supplies.plugin_cache);
        let parts = GenerationParts {
            host: self.host.clone(),
            plugin: plugin.clone(),
            share: self.share.clone(),
            suspension: Suspension::new(&budget),
            budget,
            live: self.live.clone(),
            record: record.clone(),
            configured,
        };
        let declared = plugin.manifest().controllers.iter().enumerate();
        // One that is gone and comes back waits for the calls that it still has.
        past.handover.retain(|name, handover| {
            let is_in_use = handover.is_in_use();
            if !is_in_use && !declared.clone().any(|(_, declared)| declared.name == *name) {
                self.host.metrics.forget_controller(plugin.name(), name);
            }
            is_in_use
        });
        let controllers = declared.map(|(index, declared)| {
            let handover = past.handover.entry(declared.name.clone()).or_insert_with(|| {
                let metrics = self.host.metrics.controller(plugin.name(), &declared.name);
                let workers = declared.options.workers;
                Handover::new(ControllerStatus::unlisted(plugin.name(), &declared.name, workers, metrics))
            });
            Controller::new(parts.clone(), handover.clone(), index)
        });
        let controllers = controllers.collect();
        Some(Generation { plugin, controllers, record, _following: over.drop_guard() })
    }

    /// `generation` is what runs now.
    pub(super) fn runs(&self, past: &mut ServingState, generation: &Generation) {
        past.at_work = Some((generation.plugin.clone(), generation.record.clone()));
        let status = self.host.status.plugin(generation.plugin.name());
        for controller in &generation.controllers {
            status.list(controller.name(), controller.handover().status());
            status.caches_within(controller.budget());
            status.suspended_by(controller.suspension());
        }
        status.is_now(generation.plugin.clone());
    }

    pub(super) fn report(&self, plugin: &Plugin, swapped: Swapped) {
        // Whoever listened has ended, and the host with it.
        let _ = self.reports.send((plugin.name().clone(), swapped));
    }

    /// Waits for a lease term, with its caches filled if that is wanted.
    async fn stand_by(&self, current: &Generation) -> PluginTerm {
        let warm = async {
            if self.host.leadership.is_warm_standby() {
                join_all(current.controllers.iter().map(Controller::keep_warm)).await;
            }
            std::future::pending().await
        };
        let shown = async {
            if self.lease.lease.is_some() {
                self.show(current).await;
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            term = self.lease.term() => term,
            term = warm => term,
            term = shown => term,
        }
    }

    /// Says of each controller whom it waits for, as that changes.
    async fn show(&self, current: &Generation) {
        let mut lease = self.lease.clone();
        loop {
            let standing = lease.standing.borrow_and_update().clone();
            let unserved = lease.unserved();
            for controller in &current.controllers {
                controller.stands_by(&standing, unserved.as_deref());
            }
            if lease.changed().await.is_err() {
                return;
            }
        }
    }
}

impl ServingState {
    /// `plugin` is to run. Should it have been rolled back before, it is delivered anew because it may try again.
    pub(super) fn delivered(&mut self, plugin: &Plugin) {
        self.rejected.remove(plugin.digest());
    }

    /// `next` takes the place of `before`, and has to prove itself beside the last that has: whoever has not is no
    /// measure, nor to come back. The one that has need not do so again, and beside one that was never called here
    /// nothing can be proven.
    pub(super) fn succeeds(&mut self, next: &Generation, before: &Generation) {
        let proven = || ProvenGeneration { plugin: before.plugin.clone(), record: before.record.clone() };
        let former = self.former.take().unwrap_or_else(proven);
        if former.plugin.digest() != next.plugin.digest() && former.record.record().calls > 0 {
            next.record.begin_probation(former.record.record());
            self.former = Some(former);
        }
    }

    /// Whether `generation` is still to prove itself.
    pub(super) fn is_on_probation(&self, generation: &Generation) -> bool {
        self.former.is_some() && !self.rejected.contains(generation.plugin.digest())
    }

    /// Completes when no call of any generation runs.
    async fn calls(&self) {
        join_all(self.handover.values().map(|handover| handover.calls())).await;
    }
}

#[cfg(test)]
mod tests;
