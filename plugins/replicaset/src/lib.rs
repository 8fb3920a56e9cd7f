//! The `replicaset` plugin: creates and deletes Pods until each `PodSet` has the desired number.
//!
//! This file reads, writes and reports. Pure functions in `children` and `status` decide what to do.
//!
//! Kubernetes' own controller counts the creations and deletions that it has sent, and waits until its cache shows
//! them. This plugin does not need that: the host calls it for a `PodSet` only when the caches show the writes of the
//! previous call.

mod api;
mod children;
mod selector;
mod status;

use serde_json::Value;
use windlass_sdk::manifest::{Controller, Manifest, Predicate, Watch};
use windlass_sdk::{
    ApiReason, Error, Failures, Outcome, Reconciler, Request, cache, clock, events, info, owners, writes,
};

use api::{API_VERSION, KIND, Pod, PodSet};
use children::Change;
use status::Problem;

#[cfg(test)]
mod tests;

struct Plugin;

impl Reconciler for Plugin {
    fn manifest() -> Manifest {
        let primary = Watch::of(API_VERSION, KIND).predicate(Predicate::Generation);
        Manifest::new("replicaset", env!("CARGO_PKG_VERSION"))
            .description("Keeps as many Pods as each PodSet asks for.")
            .controller(Controller::new("replicaset", primary).owns(Watch::of("v1", "Pod")))
            .crd(serde_json::from_str(include_str!("crd.json")).unwrap_or_default())
    }

    fn reconcile(request: Request) -> Result<Outcome, Failures> {
        match request.object::<PodSet>()? {
            // The garbage collector deletes the Pods, because the `PodSet` owns them.
            None => Ok(Outcome::Done),
            Some(_) if request.deleting => Ok(Outcome::Done),
            Some(set) => reconcile(&set),
        }
    }
}

windlass_sdk::plugin!(Plugin);

/// The problems of a call.
#[derive(Default)]
struct Trouble {
    problem: Option<Problem>,
    failures: Failures,
}

fn reconcile(set: &PodSet) -> Result<Outcome, Failures> {
    let mut trouble = match Problem::of_spec(&set.spec) {
        Some(problem) => {
            let failures = Failures::terminal(problem.message.clone());
            Trouble { problem: Some(problem), failures }
        }
        None => bring_about(set)?,
    };
    let reported = report(set, trouble.problem.as_ref());
    trouble.failures.extend(reported.err());
    trouble.failures.or(Outcome::Done)
}

/// Adopts matching Pods, then creates missing ones or deletes surplus ones.
fn bring_about(set: &PodSet) -> Result<Trouble, Failures> {
    let claimed = owners::claim("v1", "Pod", &set.spec.selector.text())?;
    if !claimed.adopted.is_empty() || !claimed.released.is_empty() {
        info!("claimed Pods", adopted = claimed.adopted.len(), released = claimed.released.len());
    }
    let mut trouble = Trouble::default();
    match children::change(set.spec.replicas, active_pods()?) {
        Change::Nothing => {}
        Change::Create(missing) => create(set, missing, &mut trouble),
        Change::Delete(surplus) => delete(&surplus, &mut trouble),
    }
    Ok(trouble)
}

/// The active Pods that the set controls, including the results of this call's own writes.
fn active_pods() -> Result<Vec<Pod>, Error> {
    let pods = cache::list("v1", "Pod").owned().fields(&Pod::FIELDS).iter::<Pod>();
    pods.filter(|pod| pod.as_ref().map_or(true, Pod::is_active)).collect()
}

fn create(set: &PodSet, missing: usize, trouble: &mut Trouble) {
    let pod = children::pod(set);
    for result in writes::batch((0..missing).map(|_| writes::create(&pod).owned().into())) {
        match result {
            Ok(created) => {
                let created = created.and_then(|created| created.object::<Value>().ok()).unwrap_or_default();
                emit_done(
                    "SuccessfulCreate",
                    "Create",
                    "Created",
                    created["metadata"]["name"].as_str().unwrap_or_default(),
                );
            }
            Err(error) => trouble.note("FailedCreate", error),
        }
    }
}

fn delete(surplus: &[Pod], trouble: &mut Trouble) {
    let results = writes::batch(surplus.iter().map(|pod| writes::delete(pod.target()).into()));
    for (pod, result) in surplus.iter().zip(results) {
        match result {
            Ok(_) => emit_done("SuccessfulDelete", "Delete", "Deleted", &pod.metadata.name),
            // Another client has deleted the Pod, and the cache does not show it yet.
            Err(error) if error.is(ApiReason::NotFound) => {}
            Err(error) => trouble.note("FailedDelete", error),
        }
    }
}

/// Emits the event that Kubernetes' own controller would emit.
fn emit_done(reason: &str, action: &str, done: &str, name: &str) {
    events::normal(reason, action, format!("{done} pod: {name}"));
}

impl Trouble {
    fn note(&mut self, reason: &'static str, error: Error) {
        self.problem = self.problem.take().or_else(|| Problem::lasting(reason, &error));
        self.failures.push(error);
    }
}

/// Writes the status, if it has changed, and reports a new problem.
fn report(set: &PodSet, problem: Option<&Problem>) -> Result<(), Error> {
    if let Some(problem) = problem.filter(|problem| problem.is_news(set)) {
        events::warning(problem.reason, "Reconcile", problem.message.clone());
    }
    let status = status::status(set, &active_pods()?, problem, clock::now);
    if status != set.status {
        writes::apply_status(&set.metadata.sibling(API_VERSION, KIND), &status).send()?;
    }
    Ok(())
}
