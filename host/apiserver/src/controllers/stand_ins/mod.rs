//! Stand-ins for the controllers of a cluster and for its nodes, each of which can be switched on: [`StandIns`].
//!
//! A stand-in is a pure function. It looks at an object and its related objects, and returns what to write (`Outcome`).
//! This file finds the objects that a change concerns, calls their stand-ins, and lets `writes` carry out the result. A
//! write is a change too, so one look leads to the next. Delayed steps wait in the agenda.

mod adoption;
mod choice;
mod concern;
mod daemon_sets;
mod deployments;
mod disruption_budgets;
mod endpoints;
mod history;
mod jobs;
mod kubelet;
mod node;
mod pod;
mod replica_sets;
mod scheduler;
mod service_accounts;
mod stateful_sets;
mod statuses;
mod token_secrets;
mod values;
mod writes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::object::{self, label_selector, text};
use crate::request::WriteOptions;
use crate::resources::builtin;
use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::agenda::Errand;
use crate::storage::change_log::{Change, ChangeKind};
use crate::storage::state::State;
use crate::verbs::subresources;
pub use choice::{StandIns, UnknownStandIn};
use kubelet::PodStep;
pub(super) use node::add_node;
pub(super) use statuses::make_ready;
use writes::{Outcome, Write, carry_out, with_status};

/// The delay until a changed workload is ready: long enough that clients see it while it is not ready.
const READY_AFTER: Duration = Duration::from_millis(150);

const MANAGER: &str = "kube-controller-manager";
const SCHEDULER: &str = "kube-scheduler";
const KUBELET: &str = "kubelet";

/// Reacts to a change.
pub(super) fn react(state: &mut State, stand_ins: StandIns, resource: &GroupResource, change: &Change) {
    let key = ObjectKey::of(resource, &change.object);
    if change.kind == ChangeKind::Added
        && *resource == builtin::namespaces()
        && stand_ins.contains(StandIns::SERVICE_ACCOUNTS)
    {
        carry_out(state, &key, MANAGER, service_accounts::look(&change.object));
    }
    if change.kind != ChangeKind::Deleted && statuses::needs_status(stand_ins, resource, &change.object) {
        state.store.agenda.put_off(Errand::MakeReady(key.clone()), READY_AFTER);
    }
    if stand_ins.contains(StandIns::PODS) && *resource == pod::resource() && change.kind != ChangeKind::Deleted {
        put_off_step(state, key, change);
    }
    for key in concern::concerned(state, stand_ins, resource, change) {
        look(state, stand_ins, &key);
    }
}

/// Schedules the pod's next step, unless an earlier change has already scheduled the same step.
fn put_off_step(state: &mut State, key: ObjectKey, change: &Change) {
    let before = change.previous.as_deref().and_then(PodStep::of);
    if let Some(step) = PodStep::of(&change.object).filter(|step| before != Some(*step)) {
        state.store.agenda.put_off(Errand::MovePod(key), step.duration());
    }
}

/// The stand-in for objects of this resource.
fn stand_in_of(resource: &GroupResource) -> Option<StandIns> {
    Some(match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "services") => StandIns::ENDPOINTS,
        ("", "secrets") => StandIns::TOKENS,
        ("", "pods") => StandIns::PODS,
        ("policy", "poddisruptionbudgets") => StandIns::DISRUPTION_BUDGETS,
        ("apps", "deployments") => StandIns::DEPLOYMENTS,
        ("apps", "replicasets") => StandIns::REPLICA_SETS,
        ("apps", "statefulsets") => StandIns::STATEFUL_SETS,
        ("apps", "daemonsets") => StandIns::DAEMON_SETS,
        ("batch", "jobs") => StandIns::JOBS,
        _ => return None,
    })
}

/// Lets the stand-in for an object look at it, if that stand-in is enabled.
pub(super) fn look(state: &mut State, stand_ins: StandIns, key: &ObjectKey) {
    let Some(played) = stand_in_of(&key.resource).filter(|played| stand_ins.contains(*played)) else { return };
    let outcome = match played {
        StandIns::PODS => return schedule(state, key),
        StandIns::ENDPOINTS => look_at_service(state, key),
        StandIns::TOKENS => look_at_secret(state, key),
        StandIns::DISRUPTION_BUDGETS => present(state, key).map(|budget| look_at_budget(state, &budget)),
        _ => present(state, key).map(|owner| look_at_workload(state, played, key, &owner)),
    };
    if let Some(outcome) = outcome {
        carry_out(state, key, MANAGER, outcome);
    }
}

/// The object at `key`, unless it is being deleted.
fn present(state: &State, key: &ObjectKey) -> Option<Arc<Value>> {
    state.store.get(key).filter(|object| !object::is_terminating(object)).cloned()
}

fn look_at_workload(state: &State, played: StandIns, key: &ObjectKey, owner: &Value) -> Outcome {
    let made = if played == StandIns::DEPLOYMENTS { replica_sets::resource() } else { pod::resource() };
    let references = adoption::look(owner, &made, state.store.list(&made, Some(&key.namespace)));
    if !references.is_empty() {
        return Outcome::of(references);
    }
    let children = owned(state, owner, &made);
    let revisions = || owned(state, owner, &history::resource());
    let now = state.time.now();
    match played {
        StandIns::DEPLOYMENTS => deployments::look(owner, &children, now),
        StandIns::REPLICA_SETS => replica_sets::look(owner, &children, now),
        StandIns::STATEFUL_SETS => stateful_sets::look(owner, &children, &revisions(), now),
        StandIns::DAEMON_SETS => daemon_sets::look(owner, &children, &revisions(), &nodes(state), now),
        _ => jobs::look(owner, &children, now),
    }
}

/// The objects of a resource that `owner` controls, ordered by name.
fn owned(state: &State, owner: &Value, resource: &GroupResource) -> Vec<Arc<Value>> {
    let uid = object::uid(owner);
    let dependents = state.store.dependents(uid).into_iter().filter(|key| key.resource == *resource);
    let objects = dependents.filter_map(|key| state.store.get(&key).cloned());
    objects.filter(|object| values::controller_uid(object) == Some(uid)).collect()
}

fn nodes(state: &State) -> Vec<Arc<Value>> {
    state.store.list(&scheduler::nodes(), None).cloned().collect()
}

/// The pods in a namespace that `selects` matches.
fn selected(state: &State, namespace: &str, selects: impl Fn(&Value) -> bool) -> Vec<Arc<Value>> {
    state.store.list(&pod::resource(), Some(namespace)).filter(|pod| selects(pod)).cloned().collect()
}

fn look_at_service(state: &State, key: &ObjectKey) -> Option<Outcome> {
    let of_service = ObjectKey { resource: endpoints::resource(), ..key.clone() };
    let made = state.store.get(&of_service);
    let Some(service) = present(state, key) else { return made.map(endpoints::look_at_none) };
    let selector = service.pointer("/spec/selector").and_then(Value::as_object);
    if selector.is_none_or(serde_json::Map::is_empty) {
        return None;
    }
    let pods = selected(state, &key.namespace, |pod| endpoints::selects(&service, pod));
    Some(endpoints::look(&service, &pods, &owned(state, &service, &endpoints::slices()), made))
}

fn look_at_secret(state: &State, key: &ObjectKey) -> Option<Outcome> {
    let secret = present(state, key)?;
    let name = token_secrets::account_name(&secret)?.to_owned();
    let account = ObjectKey { resource: token_secrets::accounts(), namespace: key.namespace.clone(), name };
    let account = state.store.get(&account).map(|account| &**account);
    Some(token_secrets::look(&secret, account, &state.token_key, state.time.now().seconds()))
}

fn look_at_budget(state: &State, budget: &Value) -> Outcome {
    let pods = selected(state, object::namespace(budget), |pod| label_selector::is_selected_by(budget, pod));
    let controller = |object: &Value| state.store.get(&state.store.find(values::controller_uid(object)?)?).cloned();
    // For a replica set, the deployment's size is used, because the set's own size changes during a rollout.
    let controllers = pods.iter().filter_map(|pod| {
        let owner = controller(pod)?;
        Some(controller(&owner).unwrap_or(owner))
    });
    let sizes: BTreeMap<String, i64> = controllers
        .map(|controller| (object::uid(&controller).to_owned(), values::integer(&controller, "/spec/replicas")))
        .collect();
    disruption_budgets::look(budget, &pods, sizes.into_values().sum(), state.time.now())
}

fn schedule(state: &mut State, key: &ObjectKey) {
    let Some(pod) = present(state, key) else { return };
    match scheduler::look(&pod, &nodes(state), &state.now()) {
        scheduler::Schedule::Nothing => {}
        scheduler::Schedule::Unschedulable(write) => carry_out(state, key, SCHEDULER, Outcome::of(vec![write])),
        scheduler::Schedule::Bind(node) => bind(state, key, &node),
    }
}

fn bind(state: &mut State, key: &ObjectKey, node: &str) {
    let Some(mut target) = writes::target(state, key) else { return };
    target.subresource = Some("binding".to_owned());
    let binding = json!({ "metadata": { "name": key.name }, "target": { "kind": "Node", "name": node } });
    if let Err(error) = subresources::create(state, &target, &WriteOptions::of_component(SCHEDULER), binding) {
        tracing::debug!(name = key.name, %error, "a pod could not be bound");
    }
}

/// Advances a pod by one step, if it still has a next step.
pub(super) fn move_pod(state: &mut State, key: &ObjectKey) {
    let Some(pod) = state.store.get(key).cloned() else { return };
    let Some(step) = PodStep::of(&pod) else { return };
    let address = match step {
        PodStep::Start => kubelet::free_address(object::uid(&pod), |address| {
            state.store.list(&pod::resource(), None).any(|other| text(other, "/status/podIP") == address)
        }),
        _ => String::new(),
    };
    let node = ObjectKey {
        resource: scheduler::nodes(),
        namespace: String::new(),
        name: text(&pod, "/spec/nodeName").to_owned(),
    };
    let host = state.store.get(&node).map_or(node::ADDRESS, |node| node::address(node)).to_owned();
    let status = step.status(&pod, &host, &address, &state.now());
    let write = Write::Status(pod::resource(), with_status(&pod, status));
    carry_out(state, key, KUBELET, Outcome::of(vec![write]));
}
