//! A summary of a plugin for the status page: the content of the plugin's line, and the counts for its graphs.
//! `/plugins` has everything.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_core::queue::breaker::BreakerState;
use windlass_wasm::PluginStats;

use super::super::calls::{cut, rounded};
use super::super::{ControllerStatus, locked};
use super::{PluginHealth, PluginStatus, lease_json};

/// The most recent failures of one controller that are included.
const SUMMED_FAILURES_MAX: usize = 3;
/// The number of digits of a digest that distinguish files.
const DIGEST_DIGITS: usize = 12;

/// The sums over the controllers of a plugin.
#[derive(Default)]
struct ControllerSums {
    queue: usize,
    held: usize,
    backoff: usize,
    settling: usize,
    failing: usize,
    paused: usize,
    running: i64,
    calls: u64,
    call_time: Duration,
    /// The number of keys that workers have taken out of the queue, and their total wait in it.
    waits: u64,
    wait_time: Duration,
}

impl ControllerSums {
    fn of(controllers: &[Arc<ControllerStatus>]) -> Self {
        let mut sums = Self::default();
        for controller in controllers {
            let queue = controller.queue().map(|queue| queue.metrics()).unwrap_or_default();
            sums.queue += queue.depth;
            sums.held += queue.parked;
            sums.backoff += queue.backing_off;
            sums.settling += controller.settling.count();
            sums.failing += controller.failing(queue.failing);
            sums.paused += controller.paused();
            sums.running += controller.metrics.active.get();
            let (calls, took) = controller.call_times();
            sums.calls += calls;
            sums.call_time = sums.call_time.saturating_add(took);
            sums.waits += queue.queue_duration.count;
            sums.wait_time = sums.wait_time.saturating_add(Duration::from_nanos(queue.queue_duration.sum));
        }
        sums
    }
}

impl PluginStatus {
    /// The summary for the status page. Times of failures are seconds since `began`.
    pub(in super::super) fn summary_json(&self, health: &PluginHealth, began: Instant) -> Value {
        let (plugin, lease) = (locked(&self.current).plugin.clone(), locked(&self.lease).clone());
        let stats = plugin.as_ref().map_or_else(PluginStats::default, |plugin| plugin.stats());
        let lease = lease.filter(|it| it.name().is_some()).map(|it| lease_json(&*it));
        let controllers = self.controllers();
        let sums = ControllerSums::of(&controllers);
        json!({
            "name": &*self.name,
            "version": plugin.as_ref().map(|plugin| &plugin.manifest().version),
            "digest": plugin.as_ref().map(|plugin| plugin.digest().to_string().chars().take(DIGEST_DIGITS).collect::<String>()),
            "state": health.state.as_str(),
            "why": health.why,
            "well": health.is_well,
            "lease": lease,
            "breaker": breaker(&controllers),
            "queue": sums.queue,
            "held": sums.held,
            "backoff": sums.backoff,
            "settling": sums.settling,
            "failing": sums.failing,
            "paused": sums.paused,
            "running": sums.running,
            "calls": sums.calls,
            "callSeconds": sums.call_time.as_secs_f64(),
            "waits": sums.waits,
            "waitSeconds": sums.wait_time.as_secs_f64(),
            "memoryBytes": stats.memory,
            "cacheBytes": self.cache_bytes(),
            "denied": self.denials.snapshot().iter().map(|denial| denial.count).sum::<u64>(),
            "failures": controllers.iter().flat_map(|it| failures(it, began)).collect::<Vec<_>>(),
        })
    }
}

/// The circuit that is the furthest from closed.
fn breaker(controllers: &[Arc<ControllerStatus>]) -> Option<&'static str> {
    let states =
        [(BreakerState::Open, "open"), (BreakerState::HalfOpen, "half-open"), (BreakerState::Closed, "closed")];
    let has = |state| controllers.iter().any(|controller| controller.breaker() == Some(state));
    states.into_iter().find(|(state, _)| has(*state)).map(|(_, word)| word)
}

fn failures(controller: &ControllerStatus, began: Instant) -> Vec<Value> {
    let last = controller.calls.last_failures(SUMMED_FAILURES_MAX).into_iter().map(|(key, failure)| {
        json!({
            "key": key.to_string(),
            "controller": controller.own_name(),
            "error": cut(&failure.error),
            "at": rounded(failure.at.saturating_duration_since(began)),
        })
    });
    last.collect()
}

#[cfg(test)]
mod tests {
    use windlass_core::object::ObjectKey;
    use windlass_core::queue::key_state::CallEnd;

    use super::*;
    use crate::observe::metrics::HostMetrics;
    use crate::observe::status::{KeyCallEnd, PluginPhase};
    use crate::tests::played::call;

    #[tokio::test(start_paused = true)]
    async fn a_plugin_summary_totals_its_controllers_and_shows_their_last_failures() {
        let (plugin, began) = (PluginStatus::new("webapp"), Instant::now());
        plugin.set(PluginPhase::Started, None);
        tokio::time::advance(Duration::from_secs(5)).await;
        for name in ["web", "db"] {
            let controller = plugin.controller(name, 1, HostMetrics::new().controller("webapp", name));
            controller.called(Duration::from_millis(250), &"trace".into());
            let key = ObjectKey::namespaced("prod", name);
            controller.calls.begin(&key);
            let error = "<script>\u{202e}".to_owned() + &"x".repeat(1000);
            controller.calls.ended(&key, KeyCallEnd { end: CallEnd::Denied, error: &error, context: &call(None).1 });
        }
        let shown = plugin.summary_json(&plugin.health(None), began);
        assert_eq!(
            (&shown["calls"], &shown["callSeconds"], &shown["failing"]),
            (&json!(2), &json!(0.5), &json!(2)),
            "{shown}"
        );
        let failures = shown["failures"].as_array().expect("a list");
        assert_eq!((failures.len(), &failures[0]["at"], &failures[0]["key"]), (2, &json!(5.0), &json!("prod/db")));
        let error = failures[1]["error"].as_str().expect("a text");
        assert!(
            error.starts_with("<script>\u{202e}x") && error.len() <= 256,
            "as it is: the page writes texts, not HTML"
        );
        assert_eq!((&shown["breaker"], &shown["digest"]), (&Value::Null, &Value::Null));
    }

    #[tokio::test]
    async fn paused_objects_are_counted() {
        let plugin = PluginStatus::new("webapp");
        let controller = plugin.controller("web", 1, HostMetrics::new().controller("webapp", "web"));
        for (name, end) in [("a", CallEnd::NotMade), ("b", CallEnd::NotMade), ("c", CallEnd::Failed)] {
            let key = ObjectKey::namespaced("prod", name);
            controller.calls.begin(&key);
            controller.calls.ended(&key, KeyCallEnd { end, error: "", context: &call(None).1 });
        }
        let health = plugin.health(None);
        assert_eq!(plugin.summary_json(&health, Instant::now())["paused"], json!(2));
        assert_eq!(plugin.to_json(&health)["controllers"][0]["paused"], json!(2));
    }
}
