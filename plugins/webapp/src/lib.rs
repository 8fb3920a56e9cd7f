//! The WebApp plugin: a Deployment and a Service for each `WebApp`.
//!
//! This file reads, writes and reports. Pure functions in `children` and `status` compute the children and the status.

mod api;
mod children;
mod status;

use std::time::Duration;

use serde_json::Value;
use windlass_sdk::manifest::{Controller, Manifest, Predicate, Watch};
use windlass_sdk::{Error, Failures, ObjectRef, Outcome, Reconciler, Request, cache, clock, events, info, writes};

use api::{API_VERSION, KIND, WebApp};
use children::{Change, Child, Decision};
use status::Problem;

#[cfg(test)]
mod tests;

/// The interval for checking a taken name again. No watch shows when it becomes free.
const NAME_TAKEN_RETRY: Duration = Duration::from_mins(1);

/// The fields of a child that the plugin compares or reports. A change of another field, such as the time in a
/// condition of the Deployment, is none of its concern, so the host need not call it.
const CHILD_FIELDS: [&str; 9] = [
    "/metadata/uid",
    "/metadata/labels",
    "/metadata/ownerReferences",
    "/metadata/deletionTimestamp",
    "/metadata/generation",
    "/spec",
    "/status/observedGeneration",
    "/status/readyReplicas",
    "/status/updatedReplicas",
];

struct Plugin;

impl Reconciler for Plugin {
    fn manifest() -> Manifest {
        let primary = Watch::of(API_VERSION, KIND).predicate(Predicate::Generation);
        Manifest::new("webapp", env!("CARGO_PKG_VERSION"))
            .description("Runs each WebApp as a Deployment behind a Service.")
            .controller(
                Controller::new("webapp", primary)
                    .owns(Watch::of("apps/v1", "Deployment"))
                    .owns(Watch::of("v1", "Service")),
            )
    }

    fn reconcile(request: Request) -> Result<Outcome, Failures> {
        match request.object::<WebApp>()? {
            // The garbage collector deletes the children, because the `WebApp` owns them.
            None => Ok(Outcome::Done),
            Some(_) if request.deleting => Ok(Outcome::Done),
            Some(app) => reconcile(&app),
        }
    }
}

windlass_sdk::plugin!(Plugin);

/// The result of applying the children.
#[derive(Default)]
struct Progress {
    /// The Deployment after this call. `None` if it is unknown.
    deployment: Option<Value>,
    problem: Option<Problem>,
    is_name_taken: bool,
    failures: Failures,
}

impl Progress {
    fn note(&mut self, child: &Child, trouble: Trouble) {
        let problem = match &trouble {
            Trouble::NameTaken => Some(Problem::name_taken(&child.target)),
            Trouble::Failed(error) => Problem::lasting(error),
        };
        self.problem = self.problem.take().or(problem);
        match trouble {
            Trouble::NameTaken => self.is_name_taken = true,
            Trouble::Failed(error) => self.failures.push(error),
        }
    }
}

/// Why a child is not as desired.
enum Trouble {
    NameTaken,
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

fn reconcile(app: &WebApp) -> Result<Outcome, Failures> {
    let mut progress = match Problem::of_spec(&app.spec) {
        Some(problem) => {
            let failures = Failures::terminal(problem.message.clone());
            Progress { problem: Some(problem), failures, ..Progress::default() }
        }
        None => bring_about(app),
    };
    let reported = report(app, &progress);
    progress.failures.extend(reported.err().map(Failures::from));
    let outcome = if progress.is_name_taken { Outcome::requeue_after(NAME_TAKEN_RETRY) } else { Outcome::Done };
    progress.failures.or(outcome)
}

/// Brings both children to their desired states. If one fails, it still tries the other.
fn bring_about(app: &WebApp) -> Progress {
    let mut progress = Progress::default();
    let deployment = children::deployment(app);
    match ensure(app, &deployment) {
        Ok(object) => progress.deployment = Some(object),
        Err(trouble) => progress.note(&deployment, trouble),
    }
    let service = children::service(app);
    if let Err(trouble) = ensure(app, &service) {
        progress.note(&service, trouble);
    }
    progress
}

/// Brings one child to its desired state, and returns its new state.
fn ensure(app: &WebApp, child: &Child) -> Result<Value, Trouble> {
    let cached: Option<Value> = cache::get_fields(&child.target, &CHILD_FIELDS)?;
    let change = match (children::decide(app, child, cached.as_ref()), cached.as_ref()) {
        (Decision::Leave, _) => return Ok(cached.unwrap_or_default()),
        (Decision::NameTaken, _) => return Err(Trouble::NameTaken),
        (Decision::Apply(change), None) => change,
        (Decision::Apply(change), Some(judged)) => {
            cut(child, judged["metadata"]["uid"].as_str().unwrap_or_default())?;
            change
        }
    };
    // The apply uses force: a field that someone edited becomes ours again.
    let applied = writes::apply(&child.wanted).owned().force().fields(&CHILD_FIELDS).send()?;
    announce(child, change);
    Ok(applied.object()?)
}

/// Removes the entries that an apply would leave. An earlier removal counts as another manager's change, so this also
/// concerns the port of an older spec.
fn cut(child: &Child, uid: &str) -> Result<(), Error> {
    // Read again, with the version that the entries are in. By now, another client may have created a new object under
    // the name: only the one with this UID is known to be ours.
    let Some(cached) = cache::get::<Value>(&child.target.clone().with_uid(uid))? else { return Ok(()) };
    let surplus = children::surplus(&cached, &child.wanted);
    if !surplus.is_empty() {
        let version = cached["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        writes::json_patch(child.target.clone(), &surplus).if_version(version).send()?;
    }
    Ok(())
}

fn announce(child: &Child, change: Change) {
    let (reason, action, what) = match change {
        Change::Create => ("Created", "Create", "created"),
        Change::Update => ("Updated", "Update", "updated to the new spec"),
        Change::Heal => ("Healed", "Heal", "was deleted or edited, and is restored"),
    };
    let ObjectRef { kind, name, .. } = &child.target;
    info!("applied a child", kind = kind, reason = reason);
    events::normal(reason, action, format!("{kind} {name}: {what}"));
}

/// Writes the status, if it has changed, and reports a new problem.
fn report(app: &WebApp, progress: &Progress) -> Result<(), Error> {
    let status = match &progress.problem {
        Some(problem) => {
            if problem.is_news(app) {
                events::warning(problem.reason, "Reconcile", problem.message.clone());
            }
            // The spec is invalid, but an existing Deployment may still run.
            let cached = cache::get_fields(&children::deployment(app).target, &CHILD_FIELDS)?;
            let ours = cached.filter(|deployment| children::is_ours(app, deployment));
            status::status(app, ours.as_ref(), Some(problem), clock::now)
        }
        // A failure that may pass by itself leaves the status alone. The retry that succeeds will write it.
        None if !progress.failures.is_empty() => return Ok(()),
        None => status::status(app, progress.deployment.as_ref(), None, clock::now),
    };
    if status != app.status {
        writes::apply_status(&app.sibling(API_VERSION, KIND), &status).send()?;
    }
    Ok(())
}
