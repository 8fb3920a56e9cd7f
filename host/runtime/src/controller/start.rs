//! Starts the tasks and the workers of a controller. `assemble` builds the parts that they use.

use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;
use windlass_core::cache::mapping::Mapping;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::queue::trigger::TriggerReason;
use windlass_core::write::expectations::HeldKey;
use windlass_core::write::gate::Gate;
use windlass_kube::Subscription;
use windlass_manifest::Hook;

use super::handover::kept::{ActiveRound, PrimaryScope};
use super::watching::Watching;
use super::{Controller, admit};
use crate::controller::resync::resync;
use crate::controller::running::Running;
use crate::dispatch::code_feeder::{CodeFeeder, WaitingChanges};
use crate::dispatch::configured::requeue_on_change;
use crate::dispatch::feeder::{Feeder, QueueFeeder};
use crate::dispatch::keys::ControllerKeys;
use crate::dispatch::map_calls::PluginMapper;
use crate::dispatch::middleware::finalize;
use crate::dispatch::overdue::Overdue;
use crate::dispatch::route::Route;
use crate::dispatch::sink::KeySink;
use crate::hooks::ServedHooks;
use crate::hooks::target::{ControllerHook, DeliveryTarget};
use crate::observe::status::ControllerState;
use crate::phases::Phases;
use crate::supervise::caught;

impl Controller {
    /// Starts all tasks except the workers, with the `inherited` queue if there is one. The feeders begin with the
    /// changes in `waiting`, one element for each of the first watches. Returns the round that the next generation
    /// would take over.
    pub(super) fn start(
        &self,
        mut watching: Watching,
        waiting: Vec<WaitingChanges>,
        inherited: Option<&ActiveRound>,
        phases: &Phases,
    ) -> (Running, Arc<ActiveRound>) {
        let (subscriptions, regranted) = (std::mem::take(&mut watching.subscriptions), watching.regranted.clone());
        let watches = watching.specs();
        let scope = PrimaryScope::of(&watching.primary, watching.primary_specs());
        let shadow = self.shadow(&watching);
        let backlog = shadow.backlog.clone();
        let dispatch = Arc::new(self.dispatch(watching, &subscriptions, inherited, phases, backlog));
        let source = Arc::downgrade(&dispatch);
        self.handover.reporter.show(&self.report, |status| status.dispatched_by(source));
        let primaries = dispatch.keys.primaries.clone();
        let active = Arc::new(ActiveRound {
            keys: dispatch.keys.of_round(),
            left: self.handover.left.clone(),
            gate: dispatch.keys.gate.clone(),
            watches: watches.clone(),
            scope,
            primaries: primaries.clone(),
            retired: dispatch.shutdown.retired.clone(),
            relieved: CancellationToken::new(),
            phases: phases.clone(),
            abandoned: Mutex::default(),
        });
        let mut running = Running::new(dispatch.clone(), phases);
        let mapper = PluginMapper::new(self.parts.plugin.clone(), dispatch.clone());
        let mut waiting = waiting.into_iter();
        for (subscription, route) in subscriptions {
            self.feed_from(&mut running, subscription, route, &mapper, waiting.next().unwrap_or_default());
        }
        let (mut configured, of_configuration) = (self.parts.configured.clone(), dispatch.clone());
        // The first calls already get the current configuration.
        configured.mark_unchanged();
        running.feed("configuration", move || {
            let dispatch = of_configuration.clone();
            requeue_on_change(configured.clone(), move || dispatch.keys.start_afresh(TriggerReason::Configuration))
        });
        let of_grants = dispatch.clone();
        running.feed("regranted", move || {
            let (regranted, dispatch) = (regranted.clone(), of_grants.clone());
            async move { admit::again(&regranted, || dispatch.keys.start_afresh(TriggerReason::Configuration)).await }
        });
        let (period, of_resync) = (self.declared().options.resync(), dispatch.clone());
        running.feed("resync", move || {
            let dispatch = of_resync.clone();
            async move { resync(period, || dispatch.keys.queue_all(TriggerReason::Resync)).await }
        });
        Self::start_timer(&running, inherited);
        if let Some(gate) = &dispatch.keys.gate {
            self.look_after(&running, gate, watches);
        }
        let shadow = Arc::new(shadow);
        running.attend("shadow", move || {
            let shadow = shadow.clone();
            async move { shadow.run().await }
        });
        running.feed("outages", move || {
            let dispatch = dispatch.clone();
            async move { dispatch.permits.call_gate.outages().follow(|began| dispatch.recover(began)).await }
        });
        (running, active)
    }

    /// Feeds the queue from one watch, beginning with the changes that wait. `mapper` is the plugin's code.
    fn feed_from(
        &self,
        running: &mut Running,
        subscription: Subscription,
        route: Route,
        mapper: &PluginMapper,
        waiting: WaitingChanges,
    ) {
        let ControllerKeys { queue, primaries, memory, rescans, .. } = &running.dispatch.keys;
        let (asks_code, is_mapped_by_code) = (route.asks_code(), route.mapping == Mapping::Mapper);
        let sink = KeySink::new(route, queue.clone(), primaries.clone(), memory.clone());
        if !asks_code && !rescans.filters_primaries() {
            return self.keep_feeding(running, Feeder::new(subscription, sink));
        }
        // If every primary runs anyway, the first list of a watch that the code maps need not be mapped, because only
        // existing primaries run for it.
        let is_rescanned = rescans.filters_primaries() || !is_mapped_by_code;
        let rescan = is_rescanned.then(|| rescans.of(subscription.store().clone()));
        let controller = running.dispatch.callee.controller.clone();
        let feeder = CodeFeeder::new(subscription, sink, mapper.clone(), controller, rescan);
        self.keep_feeding(running, feeder.beginning_with(waiting));
    }

    /// Feeds the queue until no more keys are wanted, and then only drains the events.
    fn keep_feeding(&self, running: &mut Running, feeder: impl QueueFeeder) {
        let feeder = Arc::new(tokio::sync::Mutex::new(feeder));
        let (rest, queue) = (feeder.clone(), running.dispatch.keys.queue.clone());
        let panics = self.parts.host.panics.clone();
        // The last calls still read the indexes of this subscription.
        running.keep(async move {
            let mut feeder = rest.lock().await;
            if !queue.is_shutting_down() {
                // The keys that this queues go to another generation, or to the next round.
                caught("feeder", &panics, async { feeder.finish() }).await;
            }
            feeder.discard().await
        });
        running.feed("feeder", move || {
            let feeder = feeder.clone();
            async move { feeder.lock().await.run().await }
        });
    }

    /// Watches over keys whose writes take long to show in `watches`, also while the queue drains: some of these keys
    /// wake only when a cache has proven itself.
    fn look_after(&self, running: &Running, gate: &Arc<Gate>, watches: Vec<WatchSpec>) {
        let (gate, caches) = (gate.clone(), self.parts.host.informers.clone());
        let overdue = Overdue { gate, watches, caches, timeout: self.declared().options.expectation_timeout };
        let (overdue, dispatch) = (Arc::new(overdue), running.dispatch.clone());
        running.attend("expectations", move || {
            let (overdue, dispatch) = (overdue.clone(), dispatch.clone());
            async move {
                let warn = |waiting: &HeldKey, watch: &WatchSpec, follows: &str| {
                    dispatch.warn_of_wait(waiting, &watch.to_string(), follows);
                };
                overdue.watch(warn, |lost| dispatch.report_lost(lost)).await;
            }
        });
    }

    /// Serves the controller's hooks until the result is dropped.
    pub(super) fn serve_hooks(&self, running: &Running) -> ServedHooks {
        let (plugin, dispatch) = (&self.parts.plugin, &running.dispatch);
        // Deliveries do not wait for the calls that map the changes of watches.
        let mapper = PluginMapper::new(plugin.clone(), dispatch.clone());
        let target = |hook: &Hook| {
            Arc::new(ControllerHook::new(hook.clone(), dispatch.clone(), mapper.clone())) as Arc<dyn DeliveryTarget>
        };
        self.parts.host.hooks.serve(plugin.name(), self.declared().hooks.iter().map(target).collect())
    }

    /// Starts the workers. `left_out` says why the controller does not watch all configured kinds, if that is so.
    pub(super) fn work(&self, running: &Running, left_out: Option<String>) {
        let options = &self.declared().options;
        let workers = options.workers;
        if !options.finalizer {
            finalize::warn_of_left_behind(&running.dispatch.keys.primaries, self.parts.plugin.name());
        }
        self.handover.reporter.show(&self.report, |status| status.works_with(workers));
        if let Some(why) = &left_out {
            let (plugin, controller) = (self.parts.plugin.name(), self.name());
            tracing::warn!(%plugin, controller, error = why, "the controller runs without some kinds: it starts again when they can be watched");
        }
        self.report_state(ControllerState::Running, left_out);
        // Logged before the workers start, because the first call may log at once.
        tracing::info!(
            plugin = %self.parts.plugin.name(), controller = %running.dispatch.callee.controller,
            primary = %running.dispatch.keys.primary.kind, workers, "controller started"
        );
        for _ in 0..workers {
            running.work();
        }
    }
}
