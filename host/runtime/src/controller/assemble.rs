//! Builds a controller's queue, gate, ports, middleware and shadow from its watches.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use windlass_core::call::ports::{CallContext, Ports};
use windlass_core::life::features::Feature;
use windlass_core::object::compact::Version;
use windlass_core::object::{Object, ObjectKey, ObjectRef};
use windlass_core::queue::{MaxOf, Queue};
use windlass_core::rights::grants::LiveGrants;
use windlass_core::rights::principal::{Principal, Role, ServiceAccount};
use windlass_core::write::gate::Gate;
use windlass_kube::{ApiPort, CacheTrust, Expecting, Followed, Readable, Reader, Runs, Subscription};
use windlass_manifest::{Controller as Declared, EntryPoint};
use windlass_wasm::CallLimits;

use super::Controller;
use super::callee::callee;
use super::handover::kept::ActiveRound;
use super::watching::{WatchedCaches, Watching};
use crate::dispatch::call_gate::CallGate;
use crate::dispatch::circuit::Circuit;
use crate::dispatch::composite::CompositionSaver;
use crate::dispatch::in_hand::Workers;
use crate::dispatch::keys::ControllerKeys;
use crate::dispatch::left_keys::RoundKeys;
use crate::dispatch::middleware::saved::CallSaver;
use crate::dispatch::middleware::slow_lane::SlowLaneKeys;
use crate::dispatch::middleware::{KeptFinalizer, Middleware, Saving};
use crate::dispatch::ports::layered;
use crate::dispatch::rescan::Rescans;
use crate::dispatch::route::{Route, Stores};
use crate::dispatch::saving::SavedCalls;
use crate::dispatch::shadow::{Backlog, NextCallee, ShadowCaller};
use crate::dispatch::shown::ControllerGuards;
use crate::dispatch::{CallPermits, ControllerCallee, Dispatch, Shutdown};
use crate::phases::Phases;

impl Controller {
    /// Builds the dispatch, which the workers run.
    pub(super) fn dispatch(
        &self,
        watching: Watching,
        subscriptions: &[(Subscription, Route)],
        inherited: Option<&ActiveRound>,
        phases: &Phases,
        backlog: Arc<Backlog>,
    ) -> Dispatch {
        let filters_primaries = watching.filters_primaries();
        let Watching {
            controller, primary, primaries, readable, declared, finalizer_grants, live, impersonate, ..
        } = watching;
        let options = &self.declared().options;
        let queue = self.queue(options.backoff.limiter(), inherited);
        let gate = self.gate(&readable, &queue, inherited);
        let principal = Arc::new(self.principal(live, impersonate));
        // A new generation starts with a closed circuit and an empty slow lane.
        let (circuit, lane) =
            (Circuit::default(), SlowLaneKeys::new(self.parts.host.guards.clone(), self.parts.host.recorder.clone()));
        let finalizer = readable.first().filter(|_| options.finalizer).map(|primary| KeptFinalizer {
            plugin: &principal,
            grants: finalizer_grants,
            spec: primary.spec.clone(),
        });
        let rescans = Rescans::new(filters_primaries);
        let followed = followed(&readable, subscriptions, &primaries);
        let reader = Arc::new(Reader::new(readable.clone()).following(followed.clone()));
        let saver = self.saver(&primaries, reader.clone());
        let compositions = self.composition_saver(&primaries);
        let kept = saver.as_ref().map(|saver| (saver.calls.clone(), saver.record.clone()));
        let guards = ControllerGuards { circuit: circuit.clone(), lane: lane.clone(), saved: kept };
        self.handover.reporter.show(&self.report, |status| status.guarded_by(Arc::new(guards)));
        let middleware = Middleware {
            instances: self.parts.host.policies.instances(self.parts.plugin.name()),
            circuit: circuit.clone(),
            status: self.handover.status().clone(),
            events: self.parts.host.recorder.clone(),
            finalizer,
            lane: lane.clone(),
            shadow: (self.parts.host.shadows.of(self.parts.plugin.name()), backlog),
            saving: match &compositions {
                Some(saver) => Some(Saving::Compositions(saver.record.clone())),
                None => saver.map(Saving::Calls),
            },
        };
        let recorder = self.parts.host.recordings.as_ref().map(|recordings| recordings.of(&self.parts.plugin));
        let callee = callee(&self.parts.plugin, recorder, self.declared(), primaries.clone(), declared, compositions);
        let plugin = middleware.around(callee);
        let trust = self.parts.host.informers.trust(subscriptions.iter().map(|(subscription, _)| subscription));
        let ports = self.ports(&controller, (readable, reader), followed, trust.clone(), gate.as_ref(), &lane);
        Dispatch {
            keys: ControllerKeys {
                primary,
                primaries,
                queue,
                gate,
                memory: inherited.map(|active| active.keys.memory.clone()).unwrap_or_default(),
                rescans,
                status: self.handover.status().clone(),
            },
            callee: ControllerCallee {
                plugin,
                controller: self.name().into(),
                requested_as: self.declared().name.as_str().into(),
                principal,
                ports,
                config: self.parts.configured.clone(),
                limits: CallLimits { deadline: Some(options.deadline()), ..CallLimits::default() },
            },
            permits: self.permits(trust, circuit),
            shutdown: self.shutdown(phases),
            max_retries: options.max_retries,
            record: self.parts.record.clone(),
            status: self.handover.status().clone(),
            panics: self.parts.host.panics.clone(),
            tracer: self.parts.host.tracer.clone(),
            caches_filled: CancellationToken::new(),
        }
    }

    /// The plugin in this lease term, with these rights.
    fn principal(&self, grants: LiveGrants, impersonate: Option<ServiceAccount>) -> Principal {
        Principal {
            role: Role::Plugin,
            plugin: self.parts.plugin.name().clone(),
            digest: self.parts.plugin.short_digest().into(),
            replica: self.parts.host.replica.clone(),
            grants,
            impersonate,
            fence: self.term.fence.clone(),
        }
    }

    fn permits(&self, trust: CacheTrust, circuit: Circuit) -> CallPermits {
        let host = &self.parts.host;
        let pause = host.policies.pause(self.parts.plugin.name());
        CallPermits {
            share: self.parts.share.clone(),
            call_gate: CallGate::new(host.outages.clone(), trust, Some(pause), circuit),
            slot_worth: host.slot_worth,
        }
    }

    fn shutdown(&self, phases: &Phases) -> Shutdown {
        Shutdown {
            stop: phases.stop.child_token(),
            last_call: phases.last_call.child_token(),
            retired: CancellationToken::new(),
            workers: Workers::new(self.workers.clone(), self.handover.workers.clone()),
            dropped: phases.dropping(),
            left: self.handover.left.clone(),
        }
    }

    /// The queue of the previous generation with all that it knows of each key, or a new one.
    fn queue(&self, limiter: MaxOf, inherited: Option<&ActiveRound>) -> Queue<ObjectKey> {
        if let Some(ActiveRound { keys: RoundKeys { queue, .. }, .. }) = inherited {
            queue.limit_by(limiter);
            return queue.clone();
        }
        let queue = Queue::new(self.handover.clock.clone(), limiter);
        self.handover.reporter.show(&self.report, |status| status.begins(queue.clone()));
        queue
    }

    /// The gate, which holds keys until the caches show their writes. `None` if it is switched off.
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
            // This round's caches may not show yet what the calls of the last round wrote.
            let left = self.handover.prior.follow(gate.clone());
            gate.doubt(if self.handover.was_replaced() { Vec::new() } else { left });
            // The new gate will not wake keys that the previous gate has parked. No worker of the previous generation
            // is left to park more.
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

    /// The plugin's ports to the outside, within its budgets, with everything counted.
    fn ports(
        &self,
        controller: &Declared,
        (readable, reader): (Vec<Readable>, Arc<Reader>),
        followed: Vec<Followed>,
        trust: CacheTrust,
        gate: Option<&Arc<Gate>>,
        lane: &Arc<SlowLaneKeys>,
    ) -> Ports {
        let guards = &self.parts.host.guards;
        let writer = self.parts.host.writer.of_controller(followed).within(guards.writes(self.parts.plugin.name()));
        let status = self.handover.status().clone();
        let writer = writer.always_sending(controller.always_sent()).trusting(trust);
        let (loops, shown) = (lane.listener(status.clone()), status.clone());
        let mut writer =
            writer.reporting_to(Arc::new(move |call: &CallContext, object: &ObjectRef, version: Option<&Version>| {
                shown.calls.wrote(&call.primary_key, object);
                loops(call, object, version);
            }));
        if self.parts.host.read_only {
            writer = writer.withholding(Arc::new(move |call, write| status.withheld.note(call, write)));
        }
        if let Some(gate) = gate {
            writer = writer.expecting(Expecting::new(gate.clone(), &readable));
        }
        let host = &self.parts.host;
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

    /// Whether calls of an `entry` point may be saved. A timer's are always made, because its time has come.
    fn saves(&self, primaries: &Stores, entry: EntryPoint) -> bool {
        self.parts.host.features.enabled(Feature::SavedCalls)
            && self.parts.plugin.entry() == entry
            && self.declared().options.saved_calls
            && primaries.timer.is_none()
    }

    /// Saves calls that can change nothing. `None` if every call is made. The host's work around a composer is not
    /// known to have been read, so the composite saves the composer's calls itself.
    fn saver(&self, primaries: &Stores, caches: Arc<Reader>) -> Option<CallSaver> {
        let (calls, record) = (SavedCalls::new(self.parts.budget.clone()), self.parts.record.clone());
        let call_part = self.own()?.primary.call_part();
        let saver = CallSaver { calls, caches, call_part, record };
        Some(saver).filter(|_| self.saves(primaries, EntryPoint::Reconciler))
    }

    /// Saves a composer's calls with an unchanged request. `None` if every call is made.
    fn composition_saver(&self, primaries: &Stores) -> Option<CompositionSaver> {
        let (record, status) = (self.parts.record.clone(), self.handover.status().clone());
        let calls = SavedCalls::new(self.parts.budget.clone());
        let call_part = self.own()?.primary.call_part();
        let saver = CompositionSaver { calls, call_part, record, status };
        Some(saver).filter(|_| self.saves(primaries, EntryPoint::Composer))
    }

    /// The controller in the plugin's own manifest.
    fn own(&self) -> Option<&Declared> {
        self.parts.plugin.manifest().controllers.iter().find(|own| own.name == self.declared().name)
    }

    /// Makes the shadow that calls the next version, on the caches of the current one.
    pub(super) fn shadow(&self, watching: &Watching) -> ShadowCaller {
        let (declared, watches) = (self.declared().clone(), watching.declared.clone());
        let primaries = watching.primaries.unrelated();
        // The next version's related objects are stored apart, so that the current version's watches ignore them.
        let callee: NextCallee =
            Box::new(move |next| callee(&next, None, &declared, primaries.clone(), watches.clone(), None));
        ShadowCaller {
            backlog: Arc::default(),
            next: self.parts.host.shadows.of(self.parts.plugin.name()),
            reads: Arc::new(Reader::new(watching.readable.clone())),
            callee,
            status: self.handover.status().clone(),
        }
    }
}

/// The controller's watches, each with a flag: whether even its smallest changes queue the keys that they concern.
/// `readable` and `subscriptions` belong to the same watches.
fn followed(readable: &[Readable], subscriptions: &[(Subscription, Route)], primaries: &Stores) -> Vec<Followed> {
    let routes = subscriptions.iter().map(|(_, route)| route);
    let followed = readable.iter().zip(routes).map(|(readable, route)| {
        let runs = route.misses_nothing().then(|| {
            let (route, primaries) = (route.clone(), primaries.clone());
            let runs = move |object: &Object, key: &ObjectKey| route.concerns(object, key, &primaries);
            Arc::new(runs) as Runs
        });
        Followed { readable: readable.clone(), runs, maps_by_object: route.maps_by_object() }
    });
    followed.collect()
}
