//! Finds the objects that stand-ins must look at after a change: the changed object, its controller, and the objects
//! that select it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    StandIns, daemon_sets, deployments, disruption_budgets, endpoints, jobs, pod, replica_sets, scheduler,
    stateful_sets, token_secrets, values,
};
use crate::object::{self, label_selector, text};
use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::change_log::{Change, ChangeKind};
use crate::storage::state::State;

/// The keys of these objects, without duplicates.
pub(super) fn concerned(
    state: &State,
    stand_ins: StandIns,
    resource: &GroupResource,
    change: &Change,
) -> BTreeSet<ObjectKey> {
    let mut keys = BTreeSet::new();
    if stand_ins.without(StandIns::SERVICE_ACCOUNTS | StandIns::STATUSES) == StandIns::NONE {
        return keys;
    }
    let key = ObjectKey::of(resource, &change.object);
    let states: Vec<&Value> =
        [Some(&change.object), change.previous.as_ref()].into_iter().flatten().map(|it| &**it).collect();
    let controllers = states.iter().filter_map(|object| values::controller_uid(object));
    keys.extend(controllers.filter_map(|uid| state.store.find(uid)));
    if controller_is_missing(change) {
        keys.extend(adopters(state, resource, &change.object));
    }
    if *resource == pod::resource() {
        keys.extend(selecting(state, &key.namespace, &states));
    }
    if *resource == scheduler::nodes() && change.kind != ChangeKind::Deleted {
        keys.extend(waiting_for_nodes(state));
    }
    if *resource == scheduler::nodes() {
        keys.extend(all(state, &daemon_sets::resource(), None, |_| true));
    }
    if *resource == token_secrets::accounts() {
        let is_of = |secret: &Value| token_secrets::account_name(secret) == Some(key.name.as_str());
        keys.extend(all(state, &token_secrets::resource(), Some(&key.namespace), is_of));
    }
    // A budget depends on the size of the workload.
    if resource.group == "apps" {
        keys.extend(all(state, &disruption_budgets::resource(), Some(&key.namespace), |_| true));
    }
    if *resource == endpoints::resource() {
        keys.insert(ObjectKey { resource: endpoints::services(), ..key.clone() });
    }
    keys.insert(key);
    keys
}

fn all(
    state: &State,
    resource: &GroupResource,
    namespace: Option<&str>,
    counts: impl Fn(&Value) -> bool,
) -> Vec<ObjectKey> {
    let found = state.store.list(resource, namespace).filter(|object| counts(object));
    found.map(|object| ObjectKey::of(resource, object)).collect()
}

/// The services and budgets that select a pod, or did so before the change.
fn selecting(state: &State, namespace: &str, pods: &[&Value]) -> Vec<ObjectKey> {
    let is_selected = |by: &dyn Fn(&Value, &Value) -> bool, object: &Value| pods.iter().any(|pod| by(object, pod));
    let services = endpoints::services();
    let mut keys = all(state, &services, Some(namespace), |service| is_selected(&endpoints::selects, service));
    keys.extend(all(state, &disruption_budgets::resource(), Some(namespace), |budget| {
        is_selected(&label_selector::is_selected_by, budget)
    }));
    keys
}

fn controller_is_missing(change: &Change) -> bool {
    change.kind != ChangeKind::Deleted && values::controller_uid(&change.object).is_none()
}

/// The workloads that may adopt an object.
fn adopters(state: &State, resource: &GroupResource, object: &Value) -> Vec<ObjectKey> {
    let workloads = if *resource == pod::resource() {
        vec![replica_sets::resource(), stateful_sets::resource(), daemon_sets::resource(), jobs::resource()]
    } else if *resource == replica_sets::resource() {
        vec![deployments::resource()]
    } else {
        Vec::new()
    };
    let namespace = object::namespace(object);
    let selecting = |workload: &Value| label_selector::is_selected_by(workload, object);
    workloads.iter().flat_map(|workload| all(state, workload, Some(namespace), selecting)).collect()
}

fn waiting_for_nodes(state: &State) -> Vec<ObjectKey> {
    let is_waiting = |pod: &Value| text(pod, "/spec/nodeName").is_empty() && !object::is_terminating(pod);
    all(state, &pod::resource(), None, is_waiting)
}
