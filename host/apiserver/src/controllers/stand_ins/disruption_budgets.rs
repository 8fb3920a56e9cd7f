//! Disruption budgets: computes how many of the selected pods may be evicted now. Follows `pkg/controller/disruption`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::pod;
use super::values::scaled;
use super::writes::{Outcome, Write, with_status};
use crate::clock::Moment;
use crate::object::{self, items, text};
use crate::resources::resource::GroupResource;

/// The time in seconds within which an evicted pod must be gone. After that it no longer counts as disrupted.
const EVICTION_SECONDS_MAX: u64 = 120;

pub(super) fn resource() -> GroupResource {
    GroupResource::new("policy", "poddisruptionbudgets")
}

/// Decides what to write for a budget. `pods` are the selected pods; `scale` is the number that their controllers want.
pub(super) fn look(budget: &Value, pods: &[Arc<Value>], scale: i64, now: Moment) -> Outcome {
    let present: Vec<&Arc<Value>> = pods.iter().filter(|pod| !object::is_terminating(pod)).collect();
    let disrupted = still_disrupted(budget, &present, now);
    let is_healthy = |pod: &&&Arc<Value>| pod::is_ready(pod) && !disrupted.contains_key(object::name(pod));
    let healthy = i64::try_from(present.iter().filter(is_healthy).count()).unwrap_or(i64::MAX);
    let (expected, wanted) = expectation(&budget["spec"], pods.len(), scale);
    let allowed = if expected > 0 { (healthy - wanted).max(0) } else { 0 };
    let again = (!disrupted.is_empty()).then(|| Duration::from_secs(EVICTION_SECONDS_MAX + 1));
    let mut status = json!({
        "observedGeneration": object::generation(budget),
        "currentHealthy": healthy,
        "desiredHealthy": wanted,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        "conditions": [condition(budget, allowed > 0, &now.text())],
    });
    if !disrupted.is_empty() {
        status["disruptedPods"] = Value::Object(disrupted);
    }
    Outcome { writes: vec![Write::Status(resource(), with_status(budget, status))], again }
}

/// The expected number of pods, and the required number of healthy ones.
fn expectation(spec: &Value, pods: usize, scale: i64) -> (i64, i64) {
    let pods = i64::try_from(pods).unwrap_or(i64::MAX);
    match (spec.get("maxUnavailable"), spec.get("minAvailable")) {
        (Some(most), _) => (scale, (scale - scaled(most, scale, true)).max(0)),
        (None, Some(least)) if least.is_string() => (scale, scaled(least, scale, true)),
        (None, Some(least)) => (pods, scaled(least, pods, true)),
        (None, None) => (pods, 0),
    }
}

/// The pods whose eviction was allowed and that still exist.
fn still_disrupted(budget: &Value, present: &[&Arc<Value>], now: Moment) -> Map<String, Value> {
    let disrupted = budget.pointer("/status/disruptedPods").and_then(Value::as_object);
    let is_expected_to_go = |(name, since): &(&String, &Value)| {
        let since = since.as_str().and_then(|since| now.seconds_since(since));
        let is_there = present.iter().any(|pod| object::name(pod) == name.as_str());
        is_there && since.is_some_and(|since| since <= i64::try_from(EVICTION_SECONDS_MAX).unwrap_or(i64::MAX))
    };
    let kept = disrupted.into_iter().flatten().filter(is_expected_to_go);
    kept.map(|(name, since)| (name.clone(), since.clone())).collect()
}

fn condition(budget: &Value, allowed: bool, now: &str) -> Value {
    let (holds, reason) = if allowed { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let before = items(budget, "/status/conditions").iter().find(|condition| condition["status"] == holds);
    json!({
        "type": "DisruptionAllowed",
        "status": holds,
        "reason": reason,
        "message": "",
        "observedGeneration": object::generation(budget),
        "lastTransitionTime": before.map_or(now, |before| text(before, "/lastTransitionTime")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wanted_pods_follow_from_numbers_and_percentages() {
        let cases = [
            (json!({ "minAvailable": 2 }), (3, 2)),
            (json!({ "minAvailable": "50%" }), (5, 3)),
            (json!({ "maxUnavailable": 1 }), (5, 4)),
            (json!({ "maxUnavailable": "30%" }), (5, 3)),
            (json!({ "maxUnavailable": 9 }), (5, 0)),
        ];
        for (spec, expected) in cases {
            assert_eq!(expectation(&spec, 3, 5), expected, "{spec}");
        }
    }
}
