//! One call of one export: its instance, its limits, and its result.
//!
//! The call normally gets a fresh instance, which is dropped afterwards. If the operator has enabled reuse, it may get
//! an instance whose earlier calls all ended well. Then only the guest's own memory is left of those calls.

pub(crate) mod answer;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use wasmtime::{Store, UpdateDeadline};
use windlass_core::budget::fair::CpuPermit;
use windlass_core::call::read_tracker::Spoiler;
use windlass_core::life::instances::Instances;
use windlass_core::queue::outcome::CallResult;

use crate::abi::linked::{Instance, LinkedPlugin};
use crate::counters::PluginCounters;
use crate::cpu::CpuTime;
use crate::entry::Export;
use crate::limits::{Limit, Limits, Overrun};
use crate::memory::Account;
use crate::meter::Meter;
use crate::parked::{Parked, ReuseTerms, Service};
use crate::request::Request;
use crate::sandbox::Shared;
use crate::state::{CallState, DescribeWorld, ReconcileWorld, World};
use crate::timing::CallTime;
use crate::trap::{self, Stopped};
use crate::wasi;

/// The plugin to call, and the limits of the call.
pub(crate) struct Callee<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) code: &'a Arc<LinkedPlugin>,
    pub(crate) counters: &'a Arc<PluginCounters>,
    pub(crate) instances: Instances,
    pub(crate) limits: Arc<Limits>,
    /// The time that the call may take, and the limit that determines it.
    pub(crate) time: (Limit, Duration),
    pub(crate) cpu: &'a CpuTime,
}

/// An export with its arguments.
pub(crate) trait Question: Sync {
    type Answer: Send;

    /// The export that is called.
    const EXPORT: Export = Export::Entry;

    fn ask(
        &self,
        instance: &Instance,
        store: &mut Store<CallState>,
    ) -> impl Future<Output = wasmtime::Result<Self::Answer>> + Send;
}

struct Describe;

impl Question for Describe {
    type Answer = String;

    async fn ask(&self, instance: &Instance, store: &mut Store<CallState>) -> wasmtime::Result<String> {
        let manifest = instance.describe(store).await?;
        wasi::end_lines(store.data_mut());
        store.data().said_nothing()?;
        Ok(manifest)
    }
}

impl Question for Request {
    type Answer = CallResult;

    async fn ask(&self, instance: &Instance, store: &mut Store<CallState>) -> wasmtime::Result<CallResult> {
        instance.reconcile(store, self).await
    }
}

/// Calls `describe` in `world`.
pub(crate) async fn describe(
    shared: &Shared,
    code: &Arc<LinkedPlugin>,
    world: DescribeWorld,
) -> Result<String, Stopped> {
    let limits = Arc::new(shared.limits.of_describe());
    let (counters, cpu) = (Arc::new(PluginCounters::new(&limits)), CpuTime::default());
    let time = (Limit::DescribeDeadline, limits.deadline);
    let instances = Instances::Fresh;
    let callee = Callee { shared, code, counters: &counters, instances, limits, time, cpu: &cpu };
    cpu.metered(callee.call(&Describe, World::Describe(Box::new(world)))).await
}

/// Calls `reconcile` with `request` in `world`.
pub(crate) async fn reconcile(
    callee: &Callee<'_>,
    request: &Request,
    world: ReconcileWorld,
) -> Result<CallResult, Stopped> {
    check_size(request.object.as_ref().map_or(0, |object| object.len()), &callee.limits)?;
    callee.call(request, World::Reconcile(world)).await
}

impl Callee<'_> {
    /// Makes one call in `world`.
    async fn call<Q: Question>(&self, question: &Q, world: World) -> Result<Q::Answer, Stopped> {
        self.timed_call(question, world).await.map(|(answer, _)| answer)
    }

    /// As [`Self::call`]. Also returns the remaining wall time.
    async fn timed_call<Q: Question>(&self, question: &Q, world: World) -> Result<(Q::Answer, Duration), Stopped> {
        if let Some(call) = world.call() {
            let memory = &self.shared.memory;
            call.overlay.charge_to(memory.room(self.counters.share(memory)));
        }
        let CallInstance { mut store, mut instance, served, terms } = self.call_instance(world, Q::EXPORT).await;
        let time = store.data().meter.time().clone();
        // The call is dropped with this block, so that a wait in progress is counted before `ended` asks for the
        // reason.
        let answer = {
            let call = pin!(async {
                let instance = match &mut instance {
                    Some(instance) => instance,
                    none => none.insert(self.code.instantiate(&mut store, Q::EXPORT).await?),
                };
                question.ask(instance, &mut store).await
            });
            time.limited(call).await
        };
        wasi::end_lines(store.data_mut());
        report_dropped_lines(store.data());
        self.counters.memory_used(store.data().meter.memory().most());
        let answer = ended(answer, store.data()).map(|answer| (answer, time.left()));
        if let (Ok(_), Some(instance), Some(terms)) = (&answer, instance, terms) {
            self.park(store, instance, served, terms);
        }
        answer
    }

    /// The instance for a call: a parked one, or a store in which a fresh one can be created. Waits for memory before
    /// the clock starts.
    async fn call_instance(&self, world: World, export: Export) -> CallInstance {
        let lot = &self.shared.lot;
        // Parked instances serve only the entry point.
        let is_reused = self.instances == Instances::Reuse && export == Export::Entry;
        let terms = world.call().filter(|_| is_reused).map(|call| ReuseTerms::of(call, self.code));
        let parked = if let Some(terms) = &terms {
            lot.take(self.counters, terms)
        } else if export != Export::Entry {
            None
        } else {
            // The operator may have disabled reuse just now, so drop the instances that are still parked.
            lot.forget(self.counters);
            None
        };
        let cpu_permit = world.call().map_or_else(CpuPermit::default, |call| call.cpu_permit.clone());
        let begins = |cpu_permit| CallTime::of(self.time.0, self.time.1, cpu_permit);
        if let Some(Parked { mut store, instance, served, .. }) = parked {
            world.spoils(Spoiler::ReusedInstance);
            store.data_mut().world = world;
            store.data_mut().meter.begin_another(self.limits.clone(), begins(cpu_permit), self.cpu.clone());
            store.set_epoch_deadline(1);
            refuel(&mut store, &self.limits);
            return CallInstance { store, instance: Some(instance), served, terms };
        }
        let memory = cpu_permit.without(self.room(self.counters.memory_expected())).await;
        let meter = Meter::new(self.limits.clone(), begins(cpu_permit), self.cpu.clone(), memory);
        let state = CallState::new(meter, world, self.code.script.clone(), self.shared.engine.clone());
        CallInstance { store: self.store(state), instance: None, served: Service::default(), terms }
    }

    /// Reserves `bytes` in the memory of all guests, and waits for them.
    async fn room(&self, bytes: usize) -> Account {
        let memory = &self.shared.memory;
        memory.reserve(self.counters.share(memory), bytes).await
    }

    fn store(&self, state: CallState) -> Store<CallState> {
        let mut store = Store::new(&self.shared.engine, state);
        store.set_hostcall_fuel(self.limits.transfer_bytes);
        store.limiter_async(|state| &mut state.meter);
        store.set_epoch_deadline(1);
        refuel(&mut store, &self.limits);
        store.epoch_deadline_callback(|store| {
            let way = store.data().meter.give_way()?;
            // Interrupts occur at random times, which a simulated world must not have.
            Ok(if windlass_world::is_simulated() {
                UpdateDeadline::Continue(1)
            } else {
                UpdateDeadline::YieldCustom(1, Box::pin(way))
            })
        });
        store
    }

    /// Keeps the instance for the next call, if it may serve one.
    fn park(&self, mut store: Store<CallState>, instance: Instance, served: Service, terms: ReuseTerms) {
        let memory = store.data().meter.memory();
        let room = self.limits.memory_bytes.saturating_sub(memory.used());
        let served = served.and_one(room, self.limits.calls_per_instance);
        // An instance that holds the memory reserve is not kept: other calls may be unable to go on without the
        // reserve.
        let keeps_too_much = memory.has_kept_back() || store.data_mut().keeps_handles();
        let (Some(served), false) = (served, keeps_too_much) else { return };
        store.data_mut().park();
        let owner = self.counters.clone();
        self.shared.park(Parked { owner, store, instance, terms, served, since: Instant::now() });
    }
}

/// The instance that a call runs in, with its store.
struct CallInstance {
    store: Store<CallState>,
    /// `None` if the instance has not been created yet.
    instance: Option<Instance>,
    served: Service,
    /// The terms of the call, if its instance may serve other calls under the same terms. `None` if it may not.
    terms: Option<ReuseTerms>,
}

/// Gives a call its fuel, if fuel is its limit.
fn refuel(store: &mut Store<CallState>, limits: &Limits) {
    if let Some(fuel) = limits.fuel() {
        store.set_fuel(fuel).expect("the engine was made with the same limits");
    }
}

fn ended<R>(answer: Option<wasmtime::Result<R>>, state: &CallState) -> Result<R, Stopped> {
    match answer {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(error)) => Err(trap::stopped(&error, state)),
        None => Err(trap::out_of_time(state)),
    }
}

/// Checks the size of the arguments before the call, because the guest has not asked for them.
fn check_size(size: usize, limits: &Limits) -> Result<(), Stopped> {
    if size <= limits.response_bytes {
        return Ok(());
    }
    let overrun = Overrun::bytes(Limit::Request, limits.response_bytes);
    Err(Stopped { reason: overrun.limit.reason(), message: format!("the plugin was not called: {overrun}") })
}

fn report_dropped_lines(state: &CallState) {
    let dropped = state.meter.dropped_log_lines();
    let (Some(call), Some(counters)) = (state.world.call(), state.world.counters()) else { return };
    if dropped == 0 || !counters.log_lines_dropped(dropped) {
        return;
    }
    let limits = state.meter.limits();
    tracing::warn!(
        parent: None,
        plugin = &*call.principal.plugin,
        controller = &*call.controller,
        key = %call.primary_key,
        trace_id = &*call.trace_id,
        "dropped {dropped} log lines of one call: a call may log {} lines and {} bytes (`--limit log-lines=N`, `--limit \
         log-bytes=SIZE`), and all calls of a plugin {} lines and {} bytes a second (`--limit log-lines-per-second=N`, \
         `--limit log-bytes-per-second=SIZE`); further lines are only counted",
        limits.log_lines,
        limits.log_bytes,
        limits.log_lines_per_second,
        limits.log_bytes_per_second,
    );
}
