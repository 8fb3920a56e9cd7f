//! Runs one plugin from one lease term to the next: its definitions and controllers start when its lease is won, and
//! end before the lease is released. In between, it stands by. [`swap`](super::swap) replaces one generation by the
//! next within a term.

mod generation;

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use futures::future::join_all;
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;
use windlass_core::budget::fair::CpuShare;
use windlass_core::rights::fence::Fenced;
use windlass_kube::LiveReader;
use windlass_wasm::Plugin;

pub(crate) use self::generation::Generation;
use super::prepare;
use super::supplies::Supplies;
use super::swap::Swaps;
use crate::controller::{Controller, Handover, Ready};
use crate::dispatch::call_record::CallRecord;
use crate::host::Host;
use crate::leadership::{PluginLease, PluginTerm};
use crate::phases::{ControllerEnd, Phases, kept_up};
use crate::plugins::reports::{Reports, Swapped};

/// The weight of each plugin's share of the permits.
pub(super) const EQUAL_WEIGHT: NonZeroU32 = NonZeroU32::MIN;

/// Starts to install a generation's definitions, under a fence and until a token is cancelled. `None` if they are
/// invalid.
pub(crate) type Install = fn(&Arc<Host>, &Arc<Supplies>, &Plugin, Fenced, &CancellationToken) -> Option<Ready>;

/// One plugin, and the parts that run it.
pub(crate) struct Serving {
    pub(crate) host: Arc<Host>,
    /// The newest generation that can run. Digests that failed their probation here are not run again.
    pub(crate) wanted: watch::Receiver<Arc<Plugin>>,
    /// Receives a report about each generation except the first.
    pub(crate) reports: Reports,
    /// The plugin's share of the host's permits.
    pub(crate) share: CpuShare,
    pub(crate) live: LiveReader,
    pub(crate) supplies: Arc<Supplies>,
    pub(crate) lease: PluginLease,
    /// The phases of a stop of the host, or of this plugin when it is unloaded.
    pub(crate) phases: Phases,
    /// Installs definitions. A test's function may panic.
    pub(crate) install: Install,
}

/// The state that lasts as long as the plugin is served.
#[derive(Default)]
pub(crate) struct ServingState {
    /// By the name of the controller.
    handover: BTreeMap<String, Arc<Handover>>,
    /// The digests of the generations that failed their probation.
    pub(crate) rejected: HashSet<Arc<str>>,
    /// The generation that takes over again if the running one fails its probation. `None` if none is on probation.
    pub(super) former: Option<ProvenGeneration>,
    /// The generation shown as running, and the record of its calls.
    at_work: Option<(Arc<Plugin>, Arc<CallRecord>)>,
}

/// A proven generation.
pub(super) struct ProvenGeneration {
    pub(super) plugin: Arc<Plugin>,
    /// How the generation's calls ended here. It continues with this record if it takes over again.
    pub(super) record: Arc<CallRecord>,
}

impl Serving {
    /// Serves `plugin` until `phases` end it. The returned sender delivers newer generations, whose results go to
    /// `reports`.
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

    /// Runs the plugin whenever it has its lease, until the host stops, and restarts after panics. The status shows its
    /// controllers even before this future is polled.
    pub(crate) fn run(mut self) -> impl Future<Output = ControllerEnd> + Send + 'static {
        let mut past = ServingState::default();
        let wanted = self.wanted.borrow_and_update().clone();
        let first = self.generation(wanted, &mut past);
        if let Some(first) = &first {
            self.runs(&mut past, first);
        }
        async move {
            if first.is_none() {
                // An invalid schema was logged when the plugin was loaded.
                return ControllerEnd::Impossible;
            }
            let (panics, phases) = (self.host.panics.clone(), self.phases.clone());
            let all = Mutex::new((self, past, first));
            let all = &all;
            let end = kept_up("serving", &panics, &phases, || Self::calls(all), || Self::attempt(all)).await;
            // A restarted plugin does not know the calls that the panic interrupted. They end by their deadlines.
            phases.unless_host_stops(Self::calls(all)).await;
            end
        }
    }

    /// Completes when no call runs.
    async fn calls(all: &Mutex<(Self, ServingState, Option<Generation>)>) {
        all.lock().await.1.calls().await;
    }

    /// Serves with the first generation. After a panic, serves with the generation that was at work.
    async fn attempt(all: &Mutex<(Self, ServingState, Option<Generation>)>) -> ControllerEnd {
        let (serving, past, first) = &mut *all.lock().await;
        match first.take().or_else(|| serving.again(past)) {
            Some(current) => serving.terms(current, past).await,
            None => ControllerEnd::Impossible,
        }
    }

    /// The generation that was at work, with its progress.
    fn again(&self, past: &mut ServingState) -> Option<Generation> {
        let (plugin, record) = past.at_work.clone()?;
        let generation = self.generation_of(plugin, record, past)?;
        self.runs(past, &generation);
        Some(self.returned(past, generation))
    }

    /// Returns `generation`, unless it was rolled back. Then returns the proven generation, which should have taken
    /// over again but could not.
    pub(super) fn returned(&self, past: &mut ServingState, generation: Generation) -> Generation {
        if !past.rejected.contains(generation.plugin.digest()) {
            return generation;
        }
        let former = past.former.take().filter(|former| self.may_return(&former.plugin));
        let former = former.and_then(|former| self.generation_of(former.plugin, former.record, past));
        let Some(former) = former else { return generation };
        self.runs(past, &former);
        self.report(&former.plugin, Swapped::Runs(former.plugin.clone()));
        former
    }

    /// Whether `former` may take over again. The policy of an object may exclude it by now.
    pub(super) fn may_return(&self, former: &Plugin) -> bool {
        let (plugin, digest) = (former.name(), former.digest());
        let may_run = self.host.policies.names().may_run(plugin, digest);
        if !may_run {
            tracing::error!(
                %plugin, digest = &**digest,
                "the previous version does not come back: the policy of the plugin's object does not cover it"
            );
        }
        may_run
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
                () = current.kinds_change() => {
                    self.follow_kinds(past, &mut current);
                    self.show_controllers(&current);
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

    /// The newest generation. It counts as seen from now on.
    pub(super) fn newest(&mut self, past: &mut ServingState) -> Arc<Plugin> {
        let is_new = self.wanted.has_changed().unwrap_or(false);
        let plugin = self.wanted.borrow_and_update().clone();
        if is_new {
            past.delivered(&plugin);
        }
        plugin
    }

    /// Whether the newest generation, which was seen, should still replace `current`.
    pub(super) fn has_newer(&self, current: &Generation, past: &ServingState) -> bool {
        let newest = self.wanted.borrow();
        newest.digest() != current.plugin.digest() && !past.rejected.contains(newest.digest())
    }

    /// Called when a term has ended. Reports that the newest generation waits if it should have taken over in this
    /// term. The next term shows whether the obstacle remains.
    fn hold_back(&mut self, current: &Generation, past: &mut ServingState) {
        let newest = self.newest(past);
        if !self.has_newer(current, past) {
            return;
        }
        let reason = "the lease was lost first: the generation gets ready again when this replica wins the lease";
        tracing::warn!(
            plugin = %newest.name(), digest = newest.short_digest(),
            "the new generation does not take over yet: {reason}"
        );
        let (digest, reason) = (newest.digest().clone(), reason.to_owned());
        self.report(&newest, Swapped::Pending { digest, reason });
    }

    /// A generation that is delivered while the plugin does not run here takes over at once, as when a host starts.
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

    /// Records that `next` replaces `before`, and goes through probation if this host rolls back.
    pub(super) fn succeeds(&self, past: &mut ServingState, next: &Generation, before: &Generation) {
        if self.host.rollback {
            past.succeeds(next, before);
        }
    }

    /// Records `generation` as the running one.
    pub(super) fn runs(&self, past: &mut ServingState, generation: &Generation) {
        past.at_work = Some((generation.plugin.clone(), generation.record.clone()));
        let status = self.host.status.plugin(generation.plugin.name());
        self.show_controllers(generation);
        for controller in &generation.controllers {
            status.caches_within(controller.budget());
            status.suspended_by(controller.suspension());
        }
        status.configured_by(generation.refused_config.clone());
        status.is_now(generation.plugin.clone());
    }

    pub(super) fn report(&self, plugin: &Plugin, swapped: Swapped) {
        // The receiver has ended with the host.
        let _ = self.reports.send((plugin.name().clone(), swapped));
    }

    /// Waits for a lease term. Keeps the plugin's caches filled meanwhile, if so configured.
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

    /// Shows on each controller which replica it waits for, as that changes.
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
    /// Records that `plugin` is delivered. If it was rolled back before, this allows another try.
    pub(super) fn delivered(&mut self, plugin: &Plugin) {
        self.rejected.remove(plugin.digest());
    }

    /// Records that `next` replaces `before`, and goes through probation against the last proven generation. A
    /// generation that is still on probation is no measure for `next`, and cannot take over again. There is no
    /// probation if `next` is the proven generation itself, or if the proven generation was never called here.
    pub(super) fn succeeds(&mut self, next: &Generation, before: &Generation) {
        let proven = || ProvenGeneration { plugin: before.plugin.clone(), record: before.record.clone() };
        let former = self.former.take().unwrap_or_else(proven);
        if former.plugin.digest() != next.plugin.digest() && former.record.record().calls > 0 {
            next.record.begin_probation(former.record.record());
            self.former = Some(former);
        }
    }

    /// Whether `generation` is still on probation.
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
