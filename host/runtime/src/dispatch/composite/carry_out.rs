//! Carries out the steps that a composition needs through the plugin's own ports, and so within its grants.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_core::call::compose::{
    Applied, Child, ChildChange, ChildStep, CompositeParent, Doomed, ObservedChildren, change, refused,
};
use windlass_core::call::ports::{CallContext, Event, EventType, Ports, Written};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::{Object, ObjectKind, ObjectRef};
use windlass_core::queue::outcome::Failure;
use windlass_core::write::{DeleteOptions, Operation, Propagation, Subresource, WriteOptions};

/// The most children that are applied at once.
const CONCURRENT_CHILDREN_MAX: usize = 8;

/// Writes children for one call.
pub(super) struct ChildWriter<'a> {
    ports: &'a Ports,
    call: Arc<CallContext>,
    /// No write begins after this.
    end: Mutex<Instant>,
}

impl<'a> ChildWriter<'a> {
    /// A writer for a call that has this much time `left`.
    pub(super) fn new(ports: &'a Ports, call: Arc<CallContext>, left: Duration) -> Self {
        Self { ports, call, end: Mutex::new(Instant::now() + left) }
    }

    pub(super) fn emit(&self, event: Event) {
        self.ports.events.emit(&self.call, event);
    }

    /// Emits an Event in the host's name.
    pub(super) fn emit_about_primary(&self, event_type: EventType, reason: &str, action: &str, note: String) {
        self.emit(Event::of_primary(event_type, reason, action, note));
    }

    pub(super) fn cached(&self, target: &ObjectRef) -> Result<Option<Arc<str>>, ApiError> {
        self.ports.reads.get(&self.call, target, None)
    }

    /// Takes all steps and returns their outcomes in order. It begins with one child and doubles the number that it
    /// applies at once. It begins no further children if the server itself is in trouble or the time is up. `shows_all`
    /// returns for a kind whether its cache shows all objects.
    pub(super) async fn apply(
        &self,
        parent: &CompositeParent,
        steps: &[(&Child, ChildStep<'_>)],
        shows_all: &(dyn Fn(&ObjectKind) -> bool + Sync),
    ) -> Vec<Applied> {
        let mut applied: Vec<Applied> = Vec::with_capacity(steps.len());
        let mut at_once = 1;
        while applied.len() < steps.len() {
            if applied.iter().any(would_fail_all) {
                applied.resize(steps.len(), Applied::NotTried);
            } else if self.is_over() {
                applied.push(Applied::Failed(out_of_time(steps.len() - applied.len(), "applied")));
                applied.resize(steps.len(), Applied::NotTried);
            } else {
                let next = steps.iter().skip(applied.len()).take(at_once);
                let taken = next.map(|(child, step)| self.take(parent, child, *step, shows_all(&child.kind)));
                applied.extend(self.going_on_for(join_all(taken)).await);
                at_once = (at_once * 2).min(CONCURRENT_CHILDREN_MAX);
            }
        }
        applied
    }

    async fn take(&self, parent: &CompositeParent, child: &Child, step: ChildStep<'_>, shows_all: bool) -> Applied {
        let mark = |marked: bool| marked.then_some(&*parent.plugin);
        match step {
            ChildStep::Create => self.create(shows_all, child, &parent.plugin).await,
            ChildStep::Update { observed, marked } => {
                let body = child.body(mark(marked), Some(&observed.uid));
                ended(self.write(apply(body, true, false)).await.map_err(|error| refused(child, error)))
            }
            ChildStep::Replace { observed, marked } => {
                self.replace(child, observed, child.body(mark(marked), Some(&observed.uid))).await
            }
            ChildStep::Adopt { observed } => {
                let body = child.body(None, Some(&observed.uid));
                ended(self.write(apply(body, false, false)).await.map_err(Failure::Api))
            }
            ChildStep::Keep => Applied::Done,
            ChildStep::Wait { ours: true } => Applied::Pending,
            ChildStep::Wait { ours: false } => Applied::PendingUnseen,
            ChildStep::Leave { observed } => {
                let controller = observed.controller_name.as_deref().unwrap_or("another object");
                let message = format!("{} is controlled by {controller}: it is left alone", child.reference());
                Applied::Failed(Failure::Transient(message))
            }
        }
    }

    /// Creates a child that is not in the cache. If the cache does not show all objects, asks the server first, because
    /// an existing object must not be marked as created.
    async fn create(&self, shows_all: bool, child: &Child, plugin: &str) -> Applied {
        if !shows_all && let Err(error) = self.write(create(child.body(None, None))).await {
            return Applied::Failed(if error.reason == ApiReason::AlreadyExists {
                Failure::Transient(format!(
                    "{} exists, and the manifest's watch of {} does not show it: it is left alone",
                    child.reference(),
                    child.kind
                ))
            } else {
                Failure::Api(error)
            });
        }
        ended(self.write(apply(child.body(Some(plugin), None), false, false)).await.map_err(Failure::Api))
    }

    /// Applies the change if the server allows it. Otherwise deletes the child, so that it is recreated. A child is
    /// deleted only if the server would accept it again, because an invalid composition must not remove running
    /// objects.
    async fn replace(&self, child: &Child, observed: &ObservedChildren, body: String) -> Applied {
        match self.write(apply(body.clone(), true, true)).await {
            Ok(Some(after)) => match change(&observed.text, &after) {
                ChildChange::None => return Applied::Done,
                ChildChange::Metadata => {
                    return ended(self.write(apply(body, true, false)).await.map_err(Failure::Api));
                }
                ChildChange::Content => {}
            },
            Ok(None) => return Applied::Done,
            Err(error) if error.reason == ApiReason::Invalid => {}
            Err(error) => return Applied::Failed(Failure::Api(error)),
        }
        match self.write(create(child.body(None, None))).await {
            // The child may have been deleted meanwhile, which is fine too.
            Ok(_) => {}
            Err(error) if error.reason == ApiReason::AlreadyExists => {}
            Err(error) => return Applied::Failed(Failure::Api(error)),
        }
        let doomed = Doomed { target: observed.reference(), version: observed.version.clone() };
        match self.write(delete(doomed)).await {
            Ok(_) => Applied::Pending,
            Err(error) if error.is_object_missing() => Applied::Pending,
            Err(error) => Applied::Failed(Failure::Api(error)),
        }
    }

    /// Deletes the `doomed` children, and returns the failures.
    pub(super) async fn prune(&self, doomed: Vec<Doomed>) -> Vec<Failure> {
        let mut failures = Vec::new();
        let mut left = doomed.into_iter();
        while left.len() > 0 && failures.is_empty() {
            if self.is_over() {
                return vec![out_of_time(left.len(), "pruned")];
            }
            let deleted = left.by_ref().take(CONCURRENT_CHILDREN_MAX).map(|doomed| self.write(delete(doomed)));
            let deleted = self.going_on_for(join_all(deleted)).await;
            let failed = deleted.into_iter().filter_map(Result::err);
            failures.extend(failed.filter(|error| !error.is_object_missing()).map(Failure::Api));
        }
        failures
    }

    /// Writes the status if it differs from the `primary`'s. The writer knows whether the kind has a status.
    pub(super) async fn status(&self, primary: &Object, status: Option<&Value>) -> Option<Failure> {
        let status = status?;
        let body: Value = serde_json::from_str(&primary.text()).unwrap_or_default();
        if body.get("status") == Some(status) {
            return None;
        }
        let target = self.call.primary_ref();
        let mut object = json!({
            "apiVersion": &*target.kind.api_version, "kind": &*target.kind.kind,
            "metadata": {"name": &*target.key.name}, "status": status,
        });
        if let Some(namespace) = &target.key.namespace {
            object["metadata"]["namespace"] = Value::from(&**namespace);
        }
        let subresource = Some(Subresource { name: "status".into(), parent: Some(target) });
        let options = WriteOptions { subresource, force: true, ..WriteOptions::default() };
        let written = self.going_on_for(self.write(Operation::Apply { object: object.to_string(), options })).await;
        written.err().map(Failure::Api)
    }

    /// Callers wait for this within [`going_on_for`](Self::going_on_for), together with other writes.
    async fn write(&self, operation: Operation) -> Written {
        self.ports.ask(self.call.clone(), operation).await
    }

    /// Waits for `work` without the call's CPU permit, unless it completes at once. The time to get the permit back
    /// depends on other plugins, so it does not count as the call's time.
    async fn going_on_for<F: Future>(&self, work: F) -> F::Output {
        let (output, answered) = self.call.cpu_permit.without(async { (work.await, Instant::now()) }).await;
        *self.end() += answered.elapsed();
        output
    }

    fn is_over(&self) -> bool {
        Instant::now() >= *self.end()
    }

    fn end(&self) -> MutexGuard<'_, Instant> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ended(result: Result<Option<Arc<str>>, Failure>) -> Applied {
    result.map_or_else(Applied::Failed, |_| Applied::Done)
}

/// Whether any other child would fail for the same reason, at least now.
fn would_fail_all(applied: &Applied) -> bool {
    let Applied::Failed(Failure::Api(error)) = applied else { return false };
    matches!(
        error.reason,
        ApiReason::TooManyRequests
            | ApiReason::LeaseLost
            | ApiReason::ReadOnly
            | ApiReason::ServerError
            | ApiReason::Timeout
            | ApiReason::UnknownOutcome
    )
}

fn out_of_time(left: usize, what: &str) -> Failure {
    Failure::Transient(format!(
        "{left} children could not be {what} within the call's time: raise `options.deadlineMs` of the controller"
    ))
}

fn apply(object: String, force: bool, dry_run: bool) -> Operation {
    Operation::Apply { object, options: WriteOptions { owned: true, force, dry_run, ..WriteOptions::default() } }
}

/// A dry-run creation of the object.
fn create(object: String) -> Operation {
    Operation::Create { object, options: WriteOptions { owned: true, dry_run: true, ..WriteOptions::default() } }
}

fn delete(doomed: Doomed) -> Operation {
    let options = DeleteOptions {
        resource_version: Some(doomed.version),
        propagation: Propagation::Background,
        grace_period_seconds: None,
        dry_run: false,
    };
    Operation::Delete { target: doomed.target, options }
}

#[cfg(test)]
mod tests;
