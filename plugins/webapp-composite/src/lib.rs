//! The WebApp plugin as a composer: a function that computes the desired children of a `WebApp`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_sdk::conditions::{Condition, updated_conditions};
use windlass_sdk::events::Event;
use windlass_sdk::manifest::{Controller, Manifest, Predicate, Watch};
use windlass_sdk::{Composer, Composition, CompositionRequest, Failures, Metadata, Object, clock, has_fields};

#[cfg(test)]
mod tests;

/// The CRD, which sets defaults and bounds, is in examples/webapp/crd.yaml.
type WebApp = Object<Spec, Status>;

#[derive(Deserialize)]
struct Spec {
    image: String,
    replicas: i64,
    port: i64,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    observed_generation: Option<i64>,
    ready_replicas: i64,
    phase: String,
    conditions: Vec<Condition>,
}

struct Plugin;
windlass_sdk::composer!(Plugin);

impl Composer for Plugin {
    fn manifest() -> Manifest {
        let primary = Watch::of("apps.kubedojo.io/v1beta1", "WebApp").predicate(Predicate::Generation);
        let primary = primary.call_fields(["/metadata/generation", "/spec", "/status"]);
        // The fields that `compose` compares or reports. For a change of any other field, such as the time in a
        // condition of the Deployment, the host need not call the plugin.
        let child = ["/metadata/labels", "/metadata/deletionTimestamp", "/metadata/generation", "/spec"];
        let counts = ["/status/observedGeneration", "/status/readyReplicas", "/status/updatedReplicas"];
        let deployment = Watch::of("apps/v1", "Deployment").call_fields(child.into_iter().chain(counts));
        let webapp = Controller::new("webapp", primary).owns(deployment);
        Manifest::new("webapp-composite", env!("CARGO_PKG_VERSION"))
            .controller(webapp.owns(Watch::of("v1", "Service").call_fields(child)))
    }

    fn compose(request: CompositionRequest) -> Result<Composition, Failures> {
        let app: WebApp = request.parent()?;
        let [deployment, service] = children(&app);
        let running: Option<Value> = request.child(&app.metadata.sibling("apps/v1", "Deployment"))?;
        let serving: Option<Value> = request.child(&app.metadata.sibling("v1", "Service"))?;
        let problem = app.spec.image.trim().is_empty().then_some("spec.image is empty");
        let status = status(&app, &deployment, running.as_ref(), problem);
        if let Some(problem) = problem {
            // Without `allow_empty`, an answer without children leaves the existing ones.
            let is_news = status.conditions != app.status.conditions;
            let warning = is_news.then(|| Event::warning("Invalid", "Reconcile", problem));
            return Ok(Composition::new().status(&status).event(warning));
        }
        let events = [change(&app, &deployment, running.as_ref()), change(&app, &service, serving.as_ref())];
        let composition = Composition::new().child(&deployment).child(&service).status(&status);
        Ok(events.into_iter().fold(composition, Composition::event))
    }
}

/// The desired Deployment and Service of a `WebApp`.
fn children(app: &WebApp) -> [Value; 2] {
    let Metadata { name, namespace, .. } = &app.metadata;
    let selector = json!({"app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": name});
    let mut labels = selector.clone();
    labels["app.kubernetes.io/managed-by"] = json!("windlass");
    let port = json!({"name": "http", "containerPort": app.spec.port, "protocol": "TCP"});
    let container = json!({"name": "web", "image": app.spec.image.trim(), "ports": [port]});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
    let pods = json!({"replicas": app.spec.replicas, "selector": {"matchLabels": selector}, "template": template});
    let ports = json!([{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]);
    let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
    let child = |version, kind, spec| json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
    [child("apps/v1", "Deployment", pods), child("v1", "Service", json!({"selector": selector, "ports": ports}))]
}

/// The event for the host's next action on a child.
fn change(app: &WebApp, wanted: &Value, child: Option<&Value>) -> Option<Event> {
    let is_left = |child: &Value| has_fields(child, wanted) || !child["metadata"]["deletionTimestamp"].is_null();
    let (reason, action, what) = match app.status.observed_generation {
        _ if child.is_some_and(is_left) => return None,
        None if child.is_none() => ("Created", "Create", "created"),
        seen if seen != app.metadata.generation => ("Updated", "Update", "updated to the new spec"),
        _ => ("Healed", "Heal", "was deleted or edited, and is restored"),
    };
    Some(Event::normal(reason, action, format!("{} {}: {what}", wanted["kind"].as_str()?, app.metadata.name)))
}

/// The new status, from the Deployment's report about the current spec.
fn status(app: &WebApp, wanted: &Value, deployment: Option<&Value>, problem: Option<&str>) -> Status {
    let number = |pointer| deployment.and_then(|deployment| deployment.pointer(pointer)?.as_i64()).unwrap_or_default();
    let (ready_replicas, replicas) = (number("/status/readyReplicas"), app.spec.replicas);
    let is_rolled_out = deployment.is_some_and(|deployment| has_fields(deployment, wanted))
        && number("/status/observedGeneration") >= number("/metadata/generation")
        && number("/status/updatedReplicas") >= replicas;
    let is_ready = problem.is_none() && is_rolled_out && ready_replicas >= replicas;
    let count = format!("{ready_replicas} of {replicas} replicas are ready");
    let ready = ("Ready", is_ready, if is_ready { "ReplicasReady" } else { "ReplicasNotReady" }, count.as_str());
    let new = match problem {
        Some(problem) => [("Ready", false, "Invalid", problem), ("Progressing", false, "Invalid", problem)],
        None if is_rolled_out => [ready, ("Progressing", false, "RolledOut", "the Deployment runs this spec")],
        None => [ready, ("Progressing", true, "RollingOut", "the Deployment is rolling out this spec")],
    };
    let new = new.map(|(name, holds, reason, message)| Condition::new(name, holds, reason, message));
    let observed_generation = app.metadata.generation;
    let phase = match app.status.phase.as_str() {
        _ if is_ready => "Running",
        "Running" | "Degraded" if app.status.observed_generation == observed_generation => "Degraded",
        _ => "Pending",
    };
    let conditions = updated_conditions(&app.status.conditions, new, observed_generation, clock::now);
    Status { observed_generation, ready_replicas, phase: phase.into(), conditions }
}
