//! Replica sets: as many pods as are wanted, and a status that counts them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::pod;
use super::values::integer;
use super::writes::{Outcome, Write, with_status};
use crate::clock::Moment;
use crate::object::{self, label_selector};
use crate::resources::resource::GroupResource;

pub(super) fn resource() -> GroupResource {
    GroupResource::new("apps", "replicasets")
}

/// Decides what to write for a set, given its pods.
pub(super) fn look(set: &Value, pods: &[Arc<Value>], now: Moment) -> Outcome {
    let active: Vec<&Arc<Value>> = pods.iter().filter(|pod| pod::is_active(pod)).collect();
    let wanted = usize::try_from(integer(set, "/spec/replicas")).unwrap_or_default();
    let template = &set["spec"]["template"];
    let mut writes = pod::delete_some(&active, active.len().saturating_sub(wanted));
    for _ in active.len()..wanted.min(active.len() + pod::BURST_REPLICAS) {
        writes.push(Write::Create(pod::resource(), pod::from_template(set, template)));
    }
    writes.push(Write::Status(resource(), with_status(set, status(set, pods, &active, now))));
    Outcome { writes, again: until_available(set) }
}

fn status(set: &Value, pods: &[Arc<Value>], active: &[&Arc<Value>], now: Moment) -> Value {
    let min_ready = integer(set, "/spec/minReadySeconds");
    let count = |counts: &dyn Fn(&Value) -> bool| active.iter().filter(|pod| counts(pod)).count();
    let labels = set.pointer("/spec/template/metadata/labels");
    let is_labelled = |pod: &Value| label_selector::has_all(pod, labels);
    json!({
        "observedGeneration": object::generation(set),
        "replicas": active.len(),
        "fullyLabeledReplicas": count(&is_labelled),
        "readyReplicas": count(&pod::is_ready),
        "availableReplicas": count(&|pod| pod::is_available(pod, min_ready, now)),
        "terminatingReplicas": pods.iter().filter(|pod| object::is_terminating(pod) && !pod::is_ended(pod)).count(),
    })
}

/// How long a pod must stay ready before it counts as available.
pub(super) fn until_available(workload: &Value) -> Option<Duration> {
    let seconds = u64::try_from(integer(workload, "/spec/minReadySeconds")).ok().filter(|seconds| *seconds > 0)?;
    // One second more, because times in objects are rounded down to whole seconds.
    Some(Duration::from_secs(seconds + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pass_creates_a_bounded_number_of_pods() {
        let set = json!({
            "metadata": { "name": "a", "namespace": "d", "uid": "u" },
            "spec": { "replicas": i32::MAX, "template": { "metadata": {}, "spec": {} } },
        });
        let now = crate::clock::Time::start(crate::clock::Clock::Wall).now();
        let creates = |write: &&Write| matches!(write, Write::Create(..));
        assert_eq!(look(&set, &[], now).writes.iter().filter(creates).count(), 500);
    }
}
