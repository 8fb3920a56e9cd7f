//! Stateful sets: numbered pods, which are created and deleted one after the other. Follows
//! `pkg/controller/statefulset`. Each look makes one step.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::history::{self, POD_LABEL, TemplateRevision};
use super::pod;
use super::replica_sets::until_available;
use super::values::integer;
use super::writes::{Outcome, Write, with_status};
use crate::clock::Moment;
use crate::object::{self, items, label, text};
use crate::resources::resource::GroupResource;

pub(super) fn resource() -> GroupResource {
    GroupResource::new("apps", "statefulsets")
}

/// Decides what to write for a set, given its pods and revisions.
pub(super) fn look(set: &Value, pods: &[Arc<Value>], revisions: &[Arc<Value>], now: Moment) -> Outcome {
    let mut update = history::latest(set, revisions);
    let mut writes = std::mem::take(&mut update.writes);
    let current = Some(text(set, "/status/currentRevision")).filter(|current| !current.is_empty());
    let current = current.unwrap_or(&update.name);
    let replicas = Replicas { set, pods: by_ordinal(set, pods), revisions, update: &update, current, now };
    writes.extend(replicas.manage());
    writes.extend(history::cleanup(set, revisions, &update.name, pods));
    writes.push(Write::Status(resource(), with_status(set, replicas.status())));
    Outcome { writes, again: until_available(set) }
}

/// The pods by the ordinals in their names.
fn by_ordinal<'a>(set: &Value, pods: &'a [Arc<Value>]) -> BTreeMap<i64, &'a Arc<Value>> {
    let prefix = format!("{}-", object::name(set));
    let ordinal = |pod: &Value| object::name(pod).strip_prefix(&prefix).and_then(|ordinal| ordinal.parse().ok());
    pods.iter().filter_map(|pod| Some((ordinal(pod)?, pod))).collect()
}

struct Replicas<'a> {
    set: &'a Value,
    pods: BTreeMap<i64, &'a Arc<Value>>,
    revisions: &'a [Arc<Value>],
    update: &'a TemplateRevision,
    /// The revision at which the last complete rollout ended.
    current: &'a str,
    now: Moment,
}

impl Replicas<'_> {
    /// The next writes to pods.
    fn manage(&self) -> Vec<Write> {
        let one_by_one = text(self.set, "/spec/podManagementPolicy") != "Parallel";
        let first = integer(self.set, "/spec/ordinals/start");
        let wanted = first..first + integer(self.set, "/spec/replicas");
        let mut writes = Vec::new();
        for ordinal in wanted.clone() {
            writes.extend(self.bring_up(ordinal));
            let is_there = self.pods.get(&ordinal).is_some_and(|pod| self.is_available(pod));
            if one_by_one && (!is_there || !writes.is_empty()) || writes.len() >= pod::BURST_REPLICAS {
                return writes;
            }
        }
        for (_, pod) in self.pods.iter().rev().filter(|(ordinal, _)| !wanted.contains(*ordinal)) {
            if !object::is_terminating(pod) {
                writes.push(Write::Delete(pod::resource(), Arc::clone(pod)));
            }
            if one_by_one {
                return writes;
            }
        }
        if writes.is_empty() { self.roll(wanted) } else { writes }
    }

    /// Creates the pod if it is missing. Deletes it if it has ended; a later look then creates it again.
    fn bring_up(&self, ordinal: i64) -> Vec<Write> {
        match self.pods.get(&ordinal) {
            None => self.new_pod(ordinal),
            Some(pod) if pod::is_ended(pod) && !object::is_terminating(pod) => {
                vec![Write::Delete(pod::resource(), Arc::clone(pod))]
            }
            Some(_) => Vec::new(),
        }
    }

    /// Deletes the pod with the highest number that has an older revision, if all pods with higher numbers are
    /// available.
    fn roll(&self, wanted: std::ops::Range<i64>) -> Vec<Write> {
        if text(self.set, "/spec/updateStrategy/type") == "OnDelete" {
            return Vec::new();
        }
        let partition = wanted.start + integer(self.set, "/spec/updateStrategy/rollingUpdate/partition");
        for (_, pod) in self.pods.range(partition.min(wanted.end)..wanted.end).rev() {
            if label(pod, POD_LABEL) != Some(self.update.name.as_str()) && !object::is_terminating(pod) {
                return vec![Write::Delete(pod::resource(), Arc::clone(pod))];
            }
            if !self.is_available(pod) {
                return Vec::new();
            }
        }
        Vec::new()
    }

    fn is_available(&self, pod: &Value) -> bool {
        let min_ready = integer(self.set, "/spec/minReadySeconds");
        pod::is_active(pod) && pod::is_available(pod, min_ready, self.now)
    }

    /// The revision for a new pod, and its template. Pods with a number below the rollout's partition keep the current
    /// revision.
    fn revision_of(&self, ordinal: i64) -> (&str, Value) {
        let offset = ordinal - integer(self.set, "/spec/ordinals/start");
        let partition = self.set.pointer("/spec/updateStrategy/rollingUpdate/partition").and_then(Value::as_i64);
        let stays = partition.is_some_and(|partition| offset < partition);
        let current = self.revisions.iter().find(|revision| object::name(revision) == self.current);
        match current.filter(|_| stays) {
            Some(current) => (self.current, history::template(current)),
            None => (self.update.name.as_str(), self.set["spec"]["template"].clone()),
        }
    }

    fn new_pod(&self, ordinal: i64) -> Vec<Write> {
        let name = format!("{}-{ordinal}", object::name(self.set));
        let (revision, template) = self.revision_of(ordinal);
        let mut pod = pod::from_template(self.set, &template);
        let metadata = object::metadata_mut(&mut pod);
        metadata.remove("generateName");
        metadata.insert("name".to_owned(), json!(name));
        let labels = object::map_mut(&mut pod["metadata"], "labels");
        labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), json!(name));
        labels.insert("apps.kubernetes.io/pod-index".to_owned(), json!(ordinal.to_string()));
        labels.insert(POD_LABEL.to_owned(), json!(revision));
        let spec = object::map_mut(&mut pod, "spec");
        spec.insert("hostname".to_owned(), json!(name));
        let service = text(self.set, "/spec/serviceName");
        if !service.is_empty() {
            spec.insert("subdomain".to_owned(), json!(service));
        }
        let mut writes = self.claims(&name, &mut pod);
        writes.push(Write::Create(pod::resource(), pod));
        writes
    }

    /// Adds the pod's volume claims to it as volumes, and returns the writes that create the claims. Claims outlive the
    /// pod.
    fn claims(&self, name: &str, pod: &mut Value) -> Vec<Write> {
        let mut volumes = items(pod, "/spec/volumes").to_vec();
        let mut writes = Vec::new();
        for template in items(self.set, "/spec/volumeClaimTemplates") {
            let volume = object::name(template);
            let claim_name = format!("{volume}-{name}");
            let mut claim = template.clone();
            let labels = self.set["spec"]["selector"]["matchLabels"].clone();
            claim["metadata"] =
                json!({ "name": claim_name, "namespace": object::namespace(self.set), "labels": labels });
            writes.push(Write::Create(GroupResource::new("", "persistentvolumeclaims"), claim));
            volumes.retain(|other| other["name"] != volume);
            volumes.push(json!({ "name": volume, "persistentVolumeClaim": { "claimName": claim_name } }));
        }
        if !volumes.is_empty() {
            pod["spec"]["volumes"] = json!(volumes);
        }
        writes
    }

    fn status(&self) -> Value {
        let count = |counts: &dyn Fn(&Value) -> bool| self.pods.values().filter(|pod| counts(pod)).count();
        let of = |revision: &str| count(&|pod| pod::is_active(pod) && label(pod, POD_LABEL) == Some(revision));
        let (replicas, ready) = (count(&pod::is_active), count(&|pod| pod::is_active(pod) && pod::is_ready(pod)));
        let updated = of(&self.update.name);
        let wanted = usize::try_from(integer(self.set, "/spec/replicas")).unwrap_or_default();
        // A missing pod could get either revision, so the rollout is complete only if no pod is missing.
        let is_complete = text(self.set, "/spec/updateStrategy/type") != "OnDelete"
            && [replicas, ready, updated].iter().all(|count| *count == wanted);
        let current = if is_complete { self.update.name.as_str() } else { self.current };
        json!({
            "observedGeneration": object::generation(self.set),
            "replicas": replicas,
            "readyReplicas": ready,
            "availableReplicas": count(&|pod| self.is_available(pod)),
            "currentReplicas": of(current),
            "updatedReplicas": updated,
            "currentRevision": current,
            "updateRevision": self.update.name,
            "collisionCount": integer(self.set, "/status/collisionCount"),
        })
    }
}
