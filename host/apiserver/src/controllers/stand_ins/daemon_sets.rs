//! Daemon sets: a pod on each node. Follows `pkg/controller/daemon`, without surge.

use std::sync::Arc;

use serde_json::{Value, json};

use super::history::{self, POD_LABEL, TemplateRevision};
use super::replica_sets::until_available;
use super::values::{age_order, integer, scaled};
use super::writes::{Outcome, Write, with_status};
use super::{pod, scheduler};
use crate::clock::Moment;
use crate::object::{self, label, text};
use crate::resources::resource::GroupResource;

pub(super) fn resource() -> GroupResource {
    GroupResource::new("apps", "daemonsets")
}

/// Decides what to write for a set, given its pods and revisions and the cluster's nodes.
pub(super) fn look(
    set: &Value,
    pods: &[Arc<Value>],
    revisions: &[Arc<Value>],
    nodes: &[Arc<Value>],
    now: Moment,
) -> Outcome {
    let mut update = history::latest(set, revisions);
    let mut writes = std::mem::take(&mut update.writes);
    let selected = nodes.iter().filter(|node| scheduler::selects(&set["spec"]["template"]["spec"], node));
    let daemons = Daemons { set, pods, nodes: selected.map(|node| object::name(node)).collect(), update: &update, now };
    writes.extend(daemons.manage());
    writes.extend(daemons.roll());
    writes.extend(history::cleanup(set, revisions, &update.name, pods));
    writes.push(Write::Status(resource(), with_status(set, daemons.status())));
    Outcome { writes, again: until_available(set) }
}

struct Daemons<'a> {
    set: &'a Value,
    pods: &'a [Arc<Value>],
    /// The nodes that should have a pod.
    nodes: Vec<&'a str>,
    update: &'a TemplateRevision,
    now: Moment,
}

impl Daemons<'_> {
    /// The counted pods on a node, oldest first.
    fn on(&self, node: &str) -> Vec<&Arc<Value>> {
        let is_there = |pod: &&Arc<Value>| text(pod, "/spec/nodeName") == node && pod::is_active(pod);
        let mut pods: Vec<&Arc<Value>> = self.pods.iter().filter(is_there).collect();
        pods.sort_by_key(|&pod| age_order(pod));
        pods
    }

    /// Creates a pod on each node that lacks one. Deletes ended pods, surplus pods, and pods on other nodes.
    fn manage(&self) -> Vec<Write> {
        let delete = |pod: &Arc<Value>| Write::Delete(pod::resource(), Arc::clone(pod));
        let mut writes = Vec::new();
        for node in &self.nodes {
            let pods = self.on(node);
            if pods.is_empty() {
                writes.push(Write::Create(pod::resource(), self.new_pod(node)));
            }
            writes.extend(pods.into_iter().skip(1).map(delete));
        }
        let is_lost = |pod: &&Arc<Value>| {
            let is_elsewhere = !self.nodes.contains(&text(pod, "/spec/nodeName"));
            (is_elsewhere || pod::is_ended(pod)) && !object::is_terminating(pod)
        };
        writes.extend(self.pods.iter().filter(is_lost).map(delete));
        writes
    }

    /// Deletes pods of older revisions: all that are unavailable, and as many available ones as may become unavailable.
    fn roll(&self) -> Vec<Write> {
        if text(self.set, "/spec/updateStrategy/type") == "OnDelete" {
            return Vec::new();
        }
        let wanted = i64::try_from(self.nodes.len()).unwrap_or(i64::MAX);
        let most = &self.set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"];
        let missing = wanted - self.count(&|pod| self.is_available(pod));
        let mut room = (scaled(most, wanted, true).max(1) - missing).max(0);
        let mut writes = Vec::new();
        for node in &self.nodes {
            let Some(pod) = self.on(node).first().copied().filter(|pod| !self.is_updated(pod)) else { continue };
            let is_available = self.is_available(pod);
            if is_available && room == 0 {
                continue;
            }
            room -= i64::from(is_available);
            writes.push(Write::Delete(pod::resource(), Arc::clone(pod)));
        }
        writes
    }

    fn is_updated(&self, pod: &Value) -> bool {
        label(pod, POD_LABEL) == Some(self.update.hash.as_str())
    }

    fn is_available(&self, pod: &Value) -> bool {
        pod::is_available(pod, integer(self.set, "/spec/minReadySeconds"), self.now)
    }

    fn new_pod(&self, node: &str) -> Value {
        let mut pod = pod::from_template(self.set, &self.set["spec"]["template"]);
        let labels = object::map_mut(&mut pod["metadata"], "labels");
        labels.insert(POD_LABEL.to_owned(), json!(self.update.hash));
        // The real controller sets an affinity to the node, and the scheduler then binds the pod.
        pod["spec"]["nodeName"] = json!(node);
        pod
    }

    /// The number of nodes with a pod for which `holds` is true.
    fn count(&self, holds: &dyn Fn(&Value) -> bool) -> i64 {
        let counted = self.nodes.iter().filter(|node| self.on(node).first().is_some_and(|pod| holds(pod))).count();
        i64::try_from(counted).unwrap_or(i64::MAX)
    }

    fn status(&self) -> Value {
        let wanted = i64::try_from(self.nodes.len()).unwrap_or(i64::MAX);
        let available = self.count(&|pod| self.is_available(pod));
        let misplaced =
            self.pods.iter().filter(|pod| pod::is_active(pod) && !self.nodes.contains(&text(pod, "/spec/nodeName")));
        json!({
            "observedGeneration": object::generation(self.set),
            "desiredNumberScheduled": wanted,
            "currentNumberScheduled": self.count(&|_| true),
            "numberMisscheduled": misplaced.count(),
            "numberReady": self.count(&pod::is_ready),
            "numberAvailable": available,
            "numberUnavailable": wanted - available,
            "updatedNumberScheduled": self.count(&|pod| self.is_updated(pod)),
        })
    }
}
