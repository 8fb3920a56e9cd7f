//! `metrics`: values for the port, which keeps the values that match the manifest's declarations.

use windlass_core::call::ports::MetricChange;

use crate::abi::v0_3_0::bindings::windlass::plugin::metrics::Host;
use crate::state::CallState;

impl Host for CallState {
    fn add(&mut self, name: String, value: f64, labels: Vec<(String, String)>) -> wasmtime::Result<()> {
        record(self, "metrics.add", MetricChange::Add, &name, value, &labels)
    }

    fn set(&mut self, name: String, value: f64, labels: Vec<(String, String)>) -> wasmtime::Result<()> {
        record(self, "metrics.set", MetricChange::Set, &name, value, &labels)
    }

    fn observe(&mut self, name: String, value: f64, labels: Vec<(String, String)>) -> wasmtime::Result<()> {
        record(self, "metrics.observe", MetricChange::Observe, &name, value, &labels)
    }
}

fn record(
    state: &mut CallState,
    import: &'static str,
    change: MetricChange,
    name: &str,
    value: f64,
    labels: &[(String, String)],
) -> wasmtime::Result<()> {
    state.note_import(import);
    // A metric value does not count as a host call: like a log line, a value beyond the limit is dropped and does not
    // end the call.
    let is_within = state.meter.metric_value();
    let world = state.reconcile(import)?;
    if is_within {
        world.ports.metrics.record(&world.call, change, name, value, labels);
    } else if world.counters.metric_dropped() {
        let limit = state.meter.limits().metric_values;
        let call = &state.reconcile(import)?.call;
        tracing::warn!(
            plugin = &*call.principal.plugin,
            controller = &*call.controller,
            key = %call.primary_key,
            trace_id = &*call.trace_id,
            "metric values are dropped: one call may report {limit}; further values are only counted"
        );
    }
    Ok(())
}
