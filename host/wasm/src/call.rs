//! One call of one export: a fresh store and instance, its limits, and what became of it.

pub(crate) mod compose;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::error::Elapsed;
use wasmtime::{Engine, Store, UpdateDeadline};
use windlass_core::outcome::CallResult;

use crate::abi::v0_1_0;
use crate::limits::{Limit, Limits};
use crate::meter::Meter;
use crate::plugin::Request;
use crate::state::{CallState, DescribeWorld, ReconcileWorld, World};
use crate::trap::{self, Stopped};

/// A guest that runs is stopped at an epoch, where its backtrace is known; only after that is one that waits.
const GRACE: Duration = Duration::from_millis(50);

/// Calls `describe` in `world`.
pub(crate) async fn describe(
    engine: &Engine,
    plugin: &v0_1_0::Plugin,
    limits: &Limits,
    world: DescribeWorld,
) -> Result<String, Stopped> {
    let limits = Arc::new(limits.of_describe());
    let time = (Limit::DescribeDeadline, limits.deadline);
    let mut store = store(engine, Meter::new(limits, time), World::Describe(Box::new(world)));
    let deadline = latest_end(&store);
    let answer = tokio::time::timeout_at(deadline, async {
        let instance = plugin.instantiate(&mut store).await?;
        instance.describe(&mut store).await
    });
    let answer = answer.await;
    ended(answer, store.data())
}

/// Calls `reconcile` with `request` in `world`, for at most `time`.
pub(crate) async fn reconcile(
    engine: &Engine,
    plugin: &v0_1_0::Plugin,
    limits: Arc<Limits>,
    time: Duration,
    request: &Request,
    world: ReconcileWorld,
) -> Result<CallResult, Stopped> {
    let meter = Meter::new(limits, (Limit::Deadline, time));
    let mut store = store(engine, meter, World::Reconcile(world));
    let deadline = latest_end(&store);
    let answer = tokio::time::timeout_at(deadline, async {
        let instance = plugin.instantiate(&mut store).await?;
        instance.reconcile(&mut store, request).await
    });
    let answer = answer.await;
    report_dropped_lines(store.data());
    ended(answer, store.data())
}

pub(crate) fn store(engine: &Engine, meter: Meter, world: World) -> Store<CallState> {
    let transfer = meter.limits().transfer_bytes;
    let mut store = Store::new(engine, CallState::new(meter, world));
    store.set_hostcall_fuel(transfer);
    store.limiter(|state| &mut state.meter);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|store| {
        store.data().meter.check_deadline()?;
        Ok(UpdateDeadline::Yield(1))
    });
    store
}

pub(crate) fn latest_end(store: &Store<CallState>) -> tokio::time::Instant {
    let end: Instant = store.data().meter.deadline() + GRACE;
    end.into()
}

pub(crate) fn ended<R>(answer: Result<wasmtime::Result<R>, Elapsed>, state: &CallState) -> Result<R, Stopped> {
    match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(trap::stopped(&error, state)),
        Err(Elapsed { .. }) => Err(trap::out_of_time(state)),
    }
}

pub(crate) fn report_dropped_lines(state: &CallState) {
    let dropped = state.meter.dropped_log_lines();
    let (Some(call), Some(counters)) = (state.world.call(), state.world.counters()) else { return };
    if dropped > 0 {
        counters.log_lines_dropped(dropped);
        let limits = state.meter.limits();
        tracing::warn!(
            plugin = &*call.principal.plugin,
            controller = &*call.controller,
            key = %call.primary_key,
            trace_id = &*call.trace_id,
            "dropped {dropped} log lines of one call: it may log {} lines and {} bytes",
            limits.log_lines,
            limits.log_bytes,
        );
    }
}
