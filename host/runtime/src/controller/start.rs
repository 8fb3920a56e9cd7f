//! Sets a controller to work: from what it watches to its dispatch, its tasks and its workers.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use windlass_core::cache::mapping::Mapping;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::call::ports::{CallContext, Ports};
use windlass_core::life::features::Feature;
use windlass_core::object::compact::Version;
use windlass_core::object::{Object, ObjectKey, ObjectRef};
use windlass_core::queue::trigger::TriggerReason;
use windlass_core::queue::{MaxOf, Queue};
use windlass_core::rights::principal::{Principal, Role};
use windlass_core::write::expectations::HeldKey;
use windlass_core::write::gate::Gate;
use windlass_kube::{ApiPort, CacheTrust, Expecting, Followed, Readable, Reader, Runs, Subscription};
use windlass_wasm::CallLimits;

use super::callee::callee;
use super::handover::kept::{ActiveRound, PrimaryScope};
use super::watching::{WatchedCaches, Watching};
use super::{Controller, admit};
use crate::controller::resync::resync;
use crate::controller::running::Running;
use crate::dispatch::Dispatch;
use crate::dispatch::call_gate::CallGate;
use crate::dispatch::circuit::Circuit;
use crate::dispatch::code_feeder::CodeFeeder;
use crate::dispatch::configured::requeue_on_change;
use crate::dispatch::feeder::{Feeder, QueueFeeder};
use crate::dispatch::in_hand::Workers;
use crate::dispatch::map_calls::PluginMapper;
use crate::dispatch::middleware::slow_lane::SlowLaneKeys;
use crate::dispatch::middleware::{KeptFinalizer, Middleware, finalize};
use crate::dispatch::overdue::Overdue;
use crate::dispatch::ports::layered;
use crate::dispatch::route::{Route, Stores};
use crate::dispatch::shadow::{Backlog, NextCallee, ShadowCaller};
use crate::dispatch::sink::KeySink;
use crate::observe::status::ControllerState;
use crate::phases::Phases;
use crate::supervise::caught;

impl Controller {
    /// Starts the tasks, but for the workers, with the queue that was `inherited`, if one was. Returns what the next
    /// generation would take over.
    pub(super) fn start(
        &self,
        mut watching: Watching,
        inherited: Option<&ActiveRound>,
        phases: &Phases,
    ) -> (Running, Arc<ActiveRound>) {
        let (subscriptions, regranted) = (std::mem::take(&mut watching.subscriptions), watching.regranted.clone());
        let watches = watching.specs();
        let scope = PrimaryScope::of(&watching.primary, watching.primary_specs());
        let indexes = watching.readable.first().map(|primary| primary.indexes.clone()).unwrap_or_default();
        let shadow = self.shadow(&watching);
        let backlog = shadow.backlog.clone();
        let dispatch = Arc::new(self.dispatch(watching, &subscriptions, inherited, phases, backlog));
        let source = Arc::downgrade(&dispatch);
        self.handover.reporter.show(&self.report, |status| status.dispatched_by(source));
        let (primaries, queue) = (dispatch.primaries.clone(), dispatch.queue.clone());
        let active = Arc::new(ActiveRound {
            queue: queue.clone(),
            gate: dispatch.gate.clone(),
            memory: dispatch.memory.clone(),
            watches: watches.clone(),
            scope,
            primaries: primaries.clone(),
            retired: dispatch.retired.clone(),
            relieved: CancellationToken::new(),
            phases: phases.clone(),
        });
        let mut running = Running::new(dispatch.clone(), phases);
        let mapper = PluginMapper::new(self.parts.plugin.clone(), dispatch.clone());
        for (subscription, route) in subscriptions {
            let sink = KeySink::new(route, queue.clone(), primaries.clone(), dispatch.memory.clone());
            if sink.route.mapping == Mapping::Mapper {
                let (mapper, controller) = (mapper.clone(), dispatch.controller.clone());
                let feeder = CodeFeeder::new(subscription, sink, mapper, indexes.clone(), controller);
                self.keep_feeding(&mut running, feeder);
            } else {
                self.keep_feeding(&mut running, Feeder::new(subscription, sink));
            }
        }
        let (mut configured, of_configuration) = (self.parts.configured.clone(), dispatch.clone());
        // The first calls get what holds now.
        configured.mark_unchanged();
        running.feed("configuration", move || {
            let dispatch = of_configuration.clone();
            requeue_on_change(configured.clone(), move || dispatch.start_afresh(TriggerReason::Configuration))
        });
        let of_grants = dispatch.clone();
        running.feed("regranted", move || {
            let (regranted, dispatch) = (regranted.clone(), of_grants.clone());
            async move { admit::again(&regranted, || dispatch.start_afresh(TriggerReason::Configuration)).await }
        });
        let (period, of_resync) = (self.declared().options.resync(), dispatch.clone());
        running.feed("resync", move || {
            let dispatch = of_resync.clone();
            async move { resync(period, || dispatch.queue_all(TriggerReason::Resync)).await }
        });
        if let Some(gate) = &dispatch.gate {
            self.look_after(&running, gate, watches);
        }
        let shadow = Arc::new(shadow);
        running.attend("shadow", move || {
            let shadow = shadow.clone();
            async move { shadow.run().await }
        });
        running.feed("outages", move || {
            let dispatch = dispatch.clone();
            async move { dispatch.call_gate.outages().follow(|began| dispatch.recover(began)).await }
        });
        (running, active)
    }

    /// Feeds the queue until no more keys are wanted, and then takes what comes.
    fn keep_feeding(&self, running: &mut Running, feeder: impl QueueFeeder) {
        let feeder = Arc::new(tokio::sync::Mutex::new(feeder));
        let (rest, retired) = (feeder.clone(), running.dispatch.retired.clone());
        let panics = self.parts.host.panics.clone();
        // The last calls look things up by the indexes of this subscription.
        running.keep(async move {
            let mut feeder = rest.lock().await;
            if retired.is_cancelled() {
                caught("feeder", &panics, async { feeder.finish() }).await;
            }
            feeder.discard().await
        });
        running.feed("feeder", move || {
            let feeder = feeder.clone();
            async move { feeder.lock().await.run().await }
        });
    }

    /// Looks after the keys that wait long for what they have written to show in `watches`, also while the queue
    /// drains: some can only wake when a cache has proven itself.
    fn look_after(&self, running: &Running, gate: &Arc<Gate>, watches: Vec<WatchSpec>) {
        let (gate, caches) = (gate.clone(), self.parts.host.informers.clone());
        let overdue = Overdue { gate, watches, caches, timeout: self.declared().options.expectation_timeout };
        let (overdue, dispatch) = (Arc::new(overdue), running.dispatch.clone());
        running.attend("expectations", move || {
            let (overdue, dispatch) = (overdue.clone(), dispatch.clone());
            async move {
                let tell = |waiting: &HeldKey, watch: &WatchSpec, follows: &str| {
                    dispatch.warn_of_wait(waiting, &watch.to_string(), follows);
                };
                overdue.watch(tell, |lost| dispatch.report_lost(lost)).await;
            }
        });
    }

    /// All that the workers need.
    fn dispatch(
        &self,
        watching: Watching,
        subscriptions: &[(Subscription, Route)],
        inherited: Option<&ActiveRound>,
        phases: &Phases,
        backlog: Arc<Backlog>,
    ) -> Dispatch {
        let Watching { primary, primaries, readable, declared, finalizer_grants, live, impersonate, .. } = watching;
        let options = &self.declared().options;
        let queue = self.queue(options.backoff.limiter(), inherited);
        let gate = self.gate(&readable, &queue, inherited);
        let principal = Arc::new(Principal {
            role: Role::Plugin,
            plugin: self.parts.plugin.name().clone(),
            digest: self.parts.plugin.short_digest().into(),
            replica: self.parts.host.replica.clone(),
            grants: live,
            impersonate,
            fence: self.term.fence.clone(),
        });
        // What runs now is judged anew.
        let (circuit, lane) =
            (Circuit::default(), SlowLaneKeys::new(self.parts.host.guards.clone(), self.parts.host.recorder.clone()));
        self.handover
            .reporter
            .show(&self.report, |status| status.guarded_by(Arc::new((circuit.clone(), lane.clone()))));
        let finalizer = readable.first().filter(|_| options.finalizer).map(|primary| KeptFinalizer {
            plugin: &principal,
            grants: finalizer_grants,
            spec: primary.spec.clone(),
        });
        let middleware = Middleware {
            instances: self.parts.host.policies.instances(self.parts.plugin.name()),
            circuit: circuit.clone(),
            status: self.handover.status().clone(),
            events: self.parts.host.recorder.clone(),
            finalizer,
            lane: lane.clone(),
            shadow: (self.parts.host.shadows.of(self.parts.plugin.name()), backlog),
        };
        let recorder = self.parts.host.recordings.as_ref().map(|recordings| recordings.of(&self.parts.plugin));
        let plugin =
            middleware.around(callee(&self.parts.plugin, recorder, self.declared(), primaries.clone(), declared));
        let followed = followed(&readable, subscriptions, &primaries);
        let trust = self.parts.host.informers.trust(subscriptions.iter().map(|(subscription, _)| subscription));
        Dispatch {
            plugin,
            share: self.parts.share.clone(),
            controller: self.declared().name.as_str().into(),
            primary,
            primaries,
            principal,
            ports: self.ports(readable, followed, trust.clone(), gate.as_ref(), &lane),
            status: self.handover.status().clone(),
            config: self.parts.configured.clone(),
            queue,
            gate,
            limits: CallLimits { deadline: Some(options.deadline()), ..CallLimits::default() },
            max_retries: options.max_retries,
            slot_worth: self.parts.host.slot_worth,
            call_gate: CallGate::new(
                self.parts.host.outages.clone(),
                trust,
                Some(self.parts.host.policies.pause(self.parts.plugin.name())),
                circuit,
            ),
            memory: inherited.map(|active| active.memory.clone()).unwrap_or_default(),
            record: self.parts.record.clone(),
            retired: CancellationToken::new(),
            stop: phases.stop.child_token(),
            last_call: phases.last_call.child_token(),
            workers: Workers::new(self.workers.clone(), self.handover.workers.clone()),
            dropped: phases.dropping(),
            panics: self.parts.host.panics.clone(),
            tracer: self.parts.host.tracer.clone(),
        }
    }

    /// The queue of the generation before, with all that it knows of each key; or a new one.
    fn queue(&self, limiter: MaxOf, inherited: Option<&ActiveRound>) -> Queue<ObjectKey> {
        if let Some(ActiveRound { queue, .. }) = inherited {
            queue.limit_by(limiter);
            return queue.clone();
        }
        let queue = Queue::new(self.handover.clock.clone(), limiter);
        self.handover.reporter.show(&self.report, |status| status.begins(queue.clone()));
        queue
    }

    /// The gate, which holds keys until the caches show what they have written. None: it is switched off.
    fn gate(
        &self,
        readable: &[Readable],
        queue: &Queue<ObjectKey>,
        inherited: Option<&ActiveRound>,
    ) -> Option<Arc<Gate>> {
        if !self.parts.host.features.enabled(Feature::AutomaticExpectations) {
            return None;
        }
        let watches: Vec<_> = readable.iter().map(|readable| readable.spec.clone()).collect();
        let kept = inherited.filter(|active| active.watches == watches).and_then(|active| active.gate.clone());
        let gate = kept.unwrap_or_else(|| {
            let gate = Gate::new(Expecting::caches(readable), queue.clone(), self.handover.clock.clone());
            // What the keys of the last round were still to see is not known of the caches of this one.
            let left = self.handover.prior.follow(gate.clone());
            gate.doubt(if self.handover.was_replaced() { Vec::new() } else { left });
            // Nobody would wake those that the gate before has parked. No worker of its generation is left to park
            // more.
            queue.wake_parked();
            gate
        });
        if self.parts.host.tracer.is_some() {
            gate.time_holds();
        }
        let caches = Arc::new(WatchedCaches { watches, informers: self.parts.host.informers.clone() });
        self.handover.reporter.show(&self.report, |status| status.holds_by(&gate, caches));
        Some(gate)
    }

    /// The plugin's ports to the world, within its budgets, and all of it counted.
    fn ports(
        &self,
        readable: Vec<Readable>,
        followed: Vec<Followed>,
        trust: CacheTrust,
        gate: Option<&Arc<Gate>>,
        lane: &Arc<SlowLaneKeys>,
    ) -> Ports {
        let guards = &self.parts.host.guards;
        let writer = self.parts.host.writer.of_controller(followed).within(guards.writes(self.parts.plugin.name()));
        let status = self.handover.status().clone();
        let writer = writer.always_sending(self.declared().always_sent()).trusting(trust);
        let (loops, told) = (lane.listener(status.clone()), status.clone());
        let mut writer =
            writer.telling(Arc::new(move |call: &CallContext, object: &ObjectRef, version: Option<&Version>| {
                told.calls.wrote(&call.primary_key, object);
                loops(call, object, version);
            }));
        if self.parts.host.read_only {
            writer = writer.withholding(Arc::new(move |call, write| status.withheld.note(call, write)));
        }
        if let Some(gate) = gate {
            writer = writer.expecting(Expecting::new(gate.clone(), &readable));
        }
        let (host, reader) = (&self.parts.host, Arc::new(Reader::new(readable)));
        let api = ApiPort::new(reader.clone(), self.parts.live.clone(), writer);
        let ports = Ports {
            reads: reader,
            outside: host.egress.in_front_of(Arc::new(api)),
            events: guards.limited(host.recorder.clone()),
            metrics: Arc::new(host.metrics.plugins().clone()),
            surroundings: None,
        };
        let counts = host.metrics.of_ports(self.parts.plugin.name(), host.read_only);
        layered(ports, &counts, host.tracer.is_some())
    }

    /// Makes the calls of the next version, on the caches of this one.
    fn shadow(&self, watching: &Watching) -> ShadowCaller {
        let (declared, watches) = (self.declared().clone(), watching.declared.clone());
        let stores = watching.primaries.stores.clone();
        // What the next version relates to its parents is no matter of the current one's watches.
        let callee: NextCallee =
            Box::new(move |next| callee(&next, None, &declared, Stores::new(stores.clone()), watches.clone()));
        ShadowCaller {
            backlog: Arc::default(),
            next: self.parts.host.shadows.of(self.parts.plugin.name()),
            reads: Arc::new(Reader::new(watching.readable.clone())),
            callee,
            status: self.handover.status().clone(),
        }
    }

    /// Starts the workers.
    pub(super) fn work(&self, running: &Running) {
        let options = &self.declared().options;
        let workers = options.workers;
        if !options.finalizer {
            finalize::tell_left_behind(&running.dispatch.primaries, self.parts.plugin.name());
        }
        for _ in 0..workers {
            running.work();
        }
        self.handover.reporter.show(&self.report, |status| status.works_with(workers));
        self.say(ControllerState::Running, None);
        tracing::info!(
            plugin = %self.parts.plugin.name(), controller = %running.dispatch.controller,
            primary = %running.dispatch.primary.kind, workers, "controller started"
        );
    }
}

/// The controller's watches, and whose changes run the keys that they concern, however small they are; `readable` and
/// `subscriptions` are of the same watches.
fn followed(readable: &[Readable], subscriptions: &[(Subscription, Route)], primaries: &Stores) -> Vec<Followed> {
    let routes = subscriptions.iter().map(|(_, route)| route);
    let followed = readable.iter().zip(routes).map(|(readable, route)| {
        let runs = route.misses_nothing().then(|| {
            let (route, primaries) = (route.clone(), primaries.clone());
            let runs = move |object: &Object, key: &ObjectKey| route.concerns(object, key, &primaries);
            Arc::new(runs) as Runs
        });
        Followed { readable: readable.clone(), runs }
    });
    followed.collect()
}
