//! Writes the status of objects, and Events about them. Each object has one writer: the replica that holds its plugin's
//! lease, whether or not it can run the plugin.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_core::call::ports::{CallContext, Event, EventType, Events as _};
use windlass_core::object::conditions::ConditionStatus;
use windlass_core::object::{ObjectKey, ObjectKind, ObjectRef};
use windlass_core::rights::fence::Fenced;
use windlass_core::rights::principal::{Principal, Role};
use windlass_kube::{OwnObjects, Resource, StatusWriteError};
use windlass_objects::{
    CLUSTER_PLUGIN, OBJECTS_API_VERSION, ObjectCondition, ObjectFacts, ObjectPlan, ObjectStatus, PluginObject,
    StatusChange,
};

use super::followed::FollowedObjects;
use crate::host::Host;
use crate::leadership::PluginLease;
use crate::observe::status::LeaseView as _;

/// The shortest time between two writes of one status.
const STATUS_WRITE_INTERVAL: Duration = Duration::from_secs(2);
/// The shortest time until a write of counts alone.
const COUNTS_WRITE_INTERVAL: Duration = Duration::from_secs(30);
/// How long a written status is taken as stored, although the watch does not show it yet.
const WATCH_DELAY_MAX: Duration = Duration::from_secs(10);
/// The pause after a write that has failed.
const FAILED_WRITE_PAUSE: Duration = Duration::from_mins(1);
/// The number of concurrent writes. Others wait for the next look.
const CONCURRENT_WRITES_MAX: usize = 64;

/// Reports about all objects.
pub(super) struct Reporter {
    host: Arc<Host>,
    objects: OwnObjects,
    leases: BTreeMap<String, ObjectLease>,
    written: BTreeMap<String, WrittenStatus>,
    writing: JoinSet<(String, String, Result<(), StatusWriteError>)>,
    /// The first plugin of which the last look did not get round to reporting.
    next: String,
}

/// The lease whose holder writes the status of an object.
struct ObjectLease {
    lease: PluginLease,
    /// Whether it is the one of all objects that are granted nothing.
    is_shared: bool,
}

/// The last write of one status.
struct WrittenStatus {
    /// The object. One that is made anew has a status of its own.
    uid: String,
    status: Value,
    at: Instant,
    /// No write begins before this.
    pause_until: Instant,
    is_in_flight: bool,
}

impl Reporter {
    /// Reports nothing yet.
    pub(super) fn new(host: Arc<Host>, objects: OwnObjects) -> Self {
        let next = String::new();
        Self { host, objects, leases: BTreeMap::new(), written: BTreeMap::new(), writing: JoinSet::new(), next }
    }

    /// Competes for the leases of exactly these plugins.
    pub(super) fn follow(&mut self, plans: &[ObjectPlan], stop: &CancellationToken) {
        let Host { leadership, panics, .. } = &*self.host;
        // An object that is granted nothing needs no lease of its own.
        let per_plugin = leadership.has_lease_per_plugin();
        let shares = |plan: &ObjectPlan| per_plugin && plan.files.is_none() && plan.refusal.is_some();
        let wanted: BTreeMap<_, _> = plans.iter().map(|plan| (&*plan.plugin.name, plan)).collect();
        self.written.retain(|name, written| wanted.get(&**name).is_some_and(|it| it.plugin.uid == written.uid));
        self.leases.retain(|name, held| {
            let stays = wanted.get(&**name).is_some_and(|plan| shares(plan) == held.is_shared);
            if !stays {
                leadership.leave_object(name, held.is_shared);
            }
            stays
        });
        for (name, plan) in wanted {
            if self.leases.contains_key(name) {
                continue;
            }
            let is_shared = shares(plan);
            let lease = leadership.take_for_object(&name.into(), is_shared, stop, panics);
            self.leases.insert(name.to_owned(), ObjectLease { lease, is_shared });
        }
    }

    /// Writes each status for which this replica is responsible, and which differs from the stored one.
    pub(super) fn look(
        &mut self,
        plans: &[ObjectPlan],
        followed: &FollowedObjects,
        install_errors: &BTreeMap<String, String>,
    ) {
        self.take_results();
        let Some(resource) = followed.resource() else { return };
        if self.host.read_only {
            return;
        }
        let from = std::mem::take(&mut self.next);
        for plan in in_turn(plans, |plan| plan.plugin.name.as_str() < from.as_str()) {
            if self.writing.len() >= CONCURRENT_WRITES_MAX {
                self.next.clone_from(&plan.plugin.name);
                return;
            }
            let stored = followed.statuses().get(&plan.plugin.name).unwrap_or(&Value::Null);
            let install_error = install_errors.get(&plan.plugin.name).map(String::as_str);
            self.report(plan, stored, &resource, install_error);
        }
    }

    fn take_results(&mut self) {
        while let Some(ended) = self.writing.try_join_next() {
            let Ok((name, uid, result)) = ended else { continue };
            let Some(written) = self.written.get_mut(&name).filter(|written| written.uid == uid) else { continue };
            written.is_in_flight = false;
            if let Err(error) = result {
                // The server has not stored this status.
                written.status = Value::Null;
                written.pause_until = Instant::now() + FAILED_WRITE_PAUSE;
                if !error.is_gone() {
                    tracing::warn!(plugin = name, %error, "the state of the plugin is not shown in its object: the host tries again");
                }
            }
        }
    }

    fn report(&mut self, plan: &ObjectPlan, stored: &Value, resource: &Arc<Resource>, install_error: Option<&str>) {
        let name = &plan.plugin.name;
        let Some(ObjectLease { lease, .. }) = self.leases.get(name) else { return };
        let Some(fence) = lease.fence() else { return };
        // A file of the operator may have the name.
        let engine = self.host.status.known(name).filter(|_| !plan.is_taken);
        let engine = engine.map(|status| self.host.status.facts(&status));
        let holder = lease.holder();
        let facts = ObjectFacts { plan, engine: engine.as_ref(), holder: holder.as_deref(), install_error };
        let (status, now) = (ObjectStatus::of(&facts), Instant::now());
        let written = self.written.get(name);
        if written.is_some_and(|it| it.is_in_flight || now < it.pause_until) {
            return;
        }
        let recent = written.filter(|it| now < it.at + WATCH_DELAY_MAX && !it.status.is_null());
        let stored = recent.map_or(stored, |it| &it.status);
        let pause = match status.change(stored) {
            StatusChange::None => return,
            StatusChange::Counts => COUNTS_WRITE_INTERVAL,
            StatusChange::State => STATUS_WRITE_INTERVAL,
        };
        if written.is_some_and(|it| now < it.at + pause) {
            return;
        }
        for condition in status.news(stored) {
            self.event(&plan.plugin, &fence, condition);
        }
        let json = status.to_json(stored, &now_text());
        let patch = ObjectStatus::patch(&json, stored);
        self.write(&plan.plugin, fence, (json, patch), resource, now);
    }

    /// Writes a status by its merge patch.
    fn write(
        &mut self,
        plugin: &PluginObject,
        fence: Fenced,
        (status, patch): (Value, Value),
        resource: &Arc<Resource>,
        now: Instant,
    ) {
        let (name, uid) = (plugin.name.clone(), plugin.uid.clone());
        let role = Principal { fence, ..Principal::of_host(Role::Status, self.host.replica.clone()) };
        let sent = WrittenStatus { uid: uid.clone(), status, at: now, pause_until: now, is_in_flight: true };
        self.written.insert(name.clone(), sent);
        let (objects, resource) = (self.objects.clone(), resource.clone());
        self.writing.spawn(async move {
            let result = objects.write_status(&role, &resource, (&name, &uid), &patch).await;
            (name, uid, result)
        });
    }

    /// Emits an Event about the object. `kubectl describe` shows it.
    fn event(&self, plugin: &PluginObject, fence: &Fenced, condition: &ObjectCondition) {
        let kind = ObjectKind::new(OBJECTS_API_VERSION, CLUSTER_PLUGIN);
        let key = ObjectKey::cluster(&*plugin.name);
        let principal =
            Principal { fence: fence.clone(), ..Principal::of_host(Role::Events, self.host.replica.clone()) };
        let call = CallContext {
            trace_id: format!("{:032x}", windlass_world::random::<u128>()).into(),
            ..CallContext::detached(principal, "windlass", kind.clone(), key.clone())
        };
        let is_good = condition.status == ConditionStatus::True;
        let event = Event {
            regarding: Some(ObjectRef { kind, key, uid: Some(plugin.uid.as_str().into()) }),
            related: None,
            event_type: if is_good { EventType::Normal } else { EventType::Warning },
            reason: condition.reason.word(),
            action: condition.condition.as_str().to_owned(),
            note: condition.message.clone(),
        };
        self.host.recorder.emit(&call, event);
    }
}

/// All `items`, which are sorted: first those that were not reached last time, and then those `before` them. So objects
/// that change all the time do not keep others from being reported.
fn in_turn<T>(items: &[T], before: impl Fn(&T) -> bool) -> impl Iterator<Item = &T> {
    let (before, first) = items.split_at(items.partition_point(before));
    first.iter().chain(before)
}

/// The time of day, as objects have it.
fn now_text() -> String {
    let seconds = i64::try_from(windlass_world::now().as_secs()).unwrap_or_default();
    Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_goes_on_where_the_last_one_had_to_stop() {
        let turn = |from: &str| in_turn(&["a", "b", "d"], |name| *name < from).copied().collect::<String>();
        assert_eq!(["", "a", "b", "c", "e"].map(turn), ["abd", "abd", "bda", "dab", "abd"]);
    }
}
