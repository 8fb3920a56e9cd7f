//! Decides the sizes of a deployment's replica sets: how far the new set may grow and the old sets may shrink.

use std::sync::Arc;

use serde_json::{Value, json};

use super::HASH_LABEL;
use super::revisions::{DESIRED, MOST};
use crate::controllers::stand_ins::replica_sets;
use crate::controllers::stand_ins::values::{age_order, annotation, integer, scaled};
use crate::controllers::stand_ins::writes::Write;
use crate::object;

/// A deployment with its replica sets: the new set, which has its template, and the old sets, oldest first.
pub(super) struct Rollout<'a> {
    pub(super) deployment: &'a Value,
    pub(super) new: Option<&'a Value>,
    pub(super) old: Vec<&'a Value>,
}

/// The desired replicas of a set.
pub(super) fn size(set: &Value) -> i64 {
    integer(set, "/spec/replicas")
}

fn sum<'a>(sets: impl IntoIterator<Item = &'a Value>, count: impl Fn(&Value) -> i64) -> i64 {
    sets.into_iter().map(count).sum()
}

impl<'a> Rollout<'a> {
    pub(super) fn of(deployment: &'a Value, sets: &'a [Arc<Value>]) -> Rollout<'a> {
        let mut sets: Vec<&Value> = sets.iter().map(|set| &**set).collect();
        sets.sort_by_key(|&set| age_order(set));
        let new = sets.iter().copied().find(|set| without_hash(set) == deployment["spec"]["template"]);
        let old = sets.into_iter().filter(|set| new.is_none_or(|new| !std::ptr::eq(*set, new))).collect();
        Rollout { deployment, new, old }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &'a Value> {
        self.old.iter().copied().chain(self.new)
    }

    fn active(&self) -> Vec<&'a Value> {
        self.all().filter(|set| size(set) > 0).collect()
    }

    pub(super) fn wanted(&self) -> i64 {
        size(self.deployment)
    }

    /// The most pods that are allowed.
    pub(super) fn most(&self) -> i64 {
        let surge = self.rolling("maxSurge", true);
        self.wanted() + surge.unwrap_or_default()
    }

    /// The fewest pods that must be available.
    pub(super) fn least(&self) -> i64 {
        let unavailable = match (self.rolling("maxSurge", true), self.rolling("maxUnavailable", false)) {
            // If both were 0, the rollout could never make a step.
            (Some(0), Some(0)) => 1,
            (_, unavailable) => unavailable.unwrap_or_default(),
        };
        (self.wanted() - unavailable).max(0)
    }

    /// A parameter of `rollingUpdate`. `None` if the deployment has another strategy.
    fn rolling(&self, name: &str, round_up: bool) -> Option<i64> {
        let value = self.deployment.pointer("/spec/strategy/rollingUpdate")?.get(name)?;
        Some(scaled(value, self.wanted(), round_up))
    }

    /// Whether the deployment was scaled, and its sets were not scaled yet.
    pub(super) fn is_scaled(&self) -> bool {
        let wanted = self.wanted();
        let desired = |set: &Value| annotation(set, DESIRED).and_then(|desired| desired.parse::<i64>().ok());
        self.active().into_iter().any(|set| desired(set).is_some_and(|desired| desired != wanted))
    }

    /// The writes that adjust the sets to the deployment's size without advancing the rollout. In the middle of a
    /// rollout, the largest set takes the whole difference.
    pub(super) fn scale(&self) -> Vec<Write> {
        let active = self.active();
        let single = match active.as_slice() {
            [] => self.new.or(self.old.last().copied()),
            [only] => Some(*only),
            _ => None,
        };
        if let Some(set) = single {
            return vec![self.scaled(set, self.wanted())];
        }
        if let Some(new) = self.new.filter(|new| self.is_saturated(new)) {
            let shrinking = active.into_iter().filter(|set| !std::ptr::eq(*set, new));
            return shrinking.map(|set| self.scaled(set, 0)).collect();
        }
        let room = if self.wanted() > 0 { self.most() } else { 0 };
        let mut difference = room - sum(active.iter().copied(), size);
        let mut by_size = active;
        by_size.sort_by_key(|set| std::cmp::Reverse(size(set)));
        let scaled = by_size.into_iter().map(|set| {
            let new_size = (size(set) + difference).max(0);
            difference -= new_size - size(set);
            self.scaled(set, new_size)
        });
        scaled.collect()
    }

    fn is_saturated(&self, new: &Value) -> bool {
        let wanted = self.wanted();
        annotation(new, DESIRED) == Some(&wanted.to_string())
            && size(new) == wanted
            && integer(new, "/status/availableReplicas") == wanted
    }

    /// The size that the new set may have now.
    pub(super) fn size_of_new(&self, now: i64) -> i64 {
        let room = if self.deployment.pointer("/spec/strategy/rollingUpdate").is_some() {
            self.most() - sum(self.all(), size)
        } else {
            self.wanted()
        };
        if now >= self.wanted() { self.wanted() } else { (now + room.max(0)).min(self.wanted()) }
    }

    /// The writes that shrink the old sets as far as the deployment allows, beginning with unavailable pods.
    pub(super) fn shrink_old(&self, new: &Value) -> Vec<Write> {
        let available = |set: &Value| integer(set, "/status/availableReplicas");
        let missing = size(new) - available(new);
        let mut most = sum(self.all(), size) - self.least() - missing;
        let mut spare = sum(self.all(), available) - self.least();
        let mut writes = Vec::new();
        for set in &self.old {
            let unhealthy = (size(set) - available(set)).clamp(0, most.max(0));
            most -= unhealthy;
            let healthy = (size(set) - unhealthy).min(spare).min(most).max(0);
            most -= healthy;
            spare -= healthy;
            if unhealthy + healthy > 0 {
                writes.push(self.scaled(set, size(set) - unhealthy - healthy));
            }
        }
        writes
    }

    /// The write that gives the set another size, with the deployment's size as an annotation.
    pub(super) fn scaled(&self, set: &Value, size: i64) -> Write {
        let mut set = set.clone();
        object::set_path(&mut set, "spec.replicas", json!(size));
        let metadata = object::map_mut_value(&mut set, "metadata");
        let annotations = object::map_mut(metadata, "annotations");
        annotations.insert(DESIRED.to_owned(), json!(self.wanted().to_string()));
        annotations.insert(MOST.to_owned(), json!(self.most().to_string()));
        Write::Replace(replica_sets::resource(), set)
    }
}

fn without_hash(set: &Value) -> Value {
    let mut template = set["spec"]["template"].clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels") {
        object::as_map_mut(labels).remove(HASH_LABEL);
    }
    template
}
