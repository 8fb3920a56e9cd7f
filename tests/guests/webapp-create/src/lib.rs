//! The WebApp plugin with the writes of most controllers in Go: create, patch, and an update of the status. The
//! benchmark `peers` compares it with a controller on controller-runtime that does the same
//! (`controller-runtime/update.go`). The kind, the children and the status are those of the plugin that applies.

#[path = "../../../../plugins/webapp/src/api.rs"]
mod api;
#[path = "../../../../plugins/webapp/src/children.rs"]
#[expect(dead_code, reason = "an apply compares by other rules")]
mod children;
#[path = "../../../../plugins/webapp/src/status.rs"]
#[expect(dead_code, reason = "the peer reports fewer problems")]
mod status;

use serde_json::{Value, json};
use windlass_sdk::manifest::{Controller, Manifest, Predicate, Watch};
use windlass_sdk::writes::Ensured;
use windlass_sdk::{Error, Failures, Outcome, OwnerReference, Reconciler, Request, clock, events, writes};

use api::{API_VERSION, KIND, WebApp};
use children::Child;

struct Plugin;

impl Reconciler for Plugin {
    fn manifest() -> Manifest {
        let primary = Watch::of(API_VERSION, KIND).predicate(Predicate::Generation);
        Manifest::new("webapp-create", env!("CARGO_PKG_VERSION"))
            .description("Runs each WebApp as a Deployment behind a Service, with creates and patches.")
            .controller(
                Controller::new("webapp", primary)
                    .owns(Watch::of("apps/v1", "Deployment"))
                    .owns(Watch::of("v1", "Service")),
            )
    }

    fn reconcile(request: Request) -> Result<Outcome, Failures> {
        if request.deleting {
            return Ok(Outcome::Done);
        }
        match request.object::<WebApp>()? {
            None => Ok(Outcome::Done),
            Some(app) => Ok(reconcile(&request, &app)?),
        }
    }
}

windlass_sdk::plugin!(Plugin);

fn reconcile(request: &Request, app: &WebApp) -> Result<Outcome, Error> {
    let deployment: Value = bring_about(app, children::deployment(app))?.object()?;
    bring_about(app, children::service(app))?;
    let status = status::status(app, Some(&deployment), None, clock::now);
    if status != app.status
        && let Some(mut whole) = request.object::<Value>()?
    {
        whole["status"] = json!(status);
        writes::update(&whole).subresource("status").send()?;
    }
    Ok(Outcome::Done)
}

fn bring_about(app: &WebApp, mut child: Child) -> Result<Ensured, Error> {
    child.wanted["metadata"]["ownerReferences"] =
        OwnerReference::to_controller(API_VERSION, KIND, &app.metadata).into_iter().map(|owner| json!(owner)).collect();
    let ensured = writes::ensure(&child.wanted)?;
    let (reason, action) = match &ensured {
        Ensured::Unchanged(_) => return Ok(ensured),
        Ensured::Created(_) => ("Created", "Create"),
        Ensured::Patched(_) => ("Updated", "Update"),
    };
    events::normal(reason, action, format!("{} {}", child.target.kind, child.target.name));
    Ok(ensured)
}
