//! The desired children of a `WebApp`, and how the existing ones differ. Pure: nothing here calls the host.

use serde_json::{Value, json};
use windlass_sdk::{ObjectRef, has_fields};

use crate::api::WebApp;

/// The Service's port. The container may have any port, so the Service finds it by name.
const SERVICE_PORT: u16 = 80;
/// The name of the port, in the container and in the Service.
const PORT_NAME: &str = "http";
/// The name of the container.
const CONTAINER: &str = "web";

/// Why a child must be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The child never existed.
    Create,
    /// The spec of the `WebApp` has changed.
    Update,
    /// Someone deleted or edited the child.
    Heal,
}

/// The decision about a child, from its cached state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing: the child is as desired. Or it is being deleted, and the end of its deletion will run the key again.
    Leave,
    /// Apply it.
    Apply(Change),
    /// Leave it: the name belongs to an object that is not ours.
    NameTaken,
}

/// A desired child.
#[derive(Debug, Clone)]
pub(crate) struct Child {
    /// The reference to the child.
    pub(crate) target: ObjectRef,
    /// The fields to apply.
    pub(crate) wanted: Value,
}

/// The desired Deployment of a `WebApp`.
pub(crate) fn deployment(app: &WebApp) -> Child {
    let container = json!({
        "name": CONTAINER,
        "image": app.spec.image.trim(),
        "ports": [{"name": PORT_NAME, "containerPort": app.spec.port, "protocol": "TCP"}],
    });
    let spec = json!({
        "replicas": app.spec.replicas,
        "selector": {"matchLabels": selector(app)},
        "template": {"metadata": {"labels": labels(app)}, "spec": {"containers": [container]}},
    });
    child(app, "apps/v1", "Deployment", &spec)
}

/// The desired Service of a `WebApp`.
pub(crate) fn service(app: &WebApp) -> Child {
    let port = json!({"name": PORT_NAME, "port": SERVICE_PORT, "targetPort": PORT_NAME, "protocol": "TCP"});
    child(app, "v1", "Service", &json!({"selector": selector(app), "ports": [port]}))
}

fn child(app: &WebApp, api_version: &str, kind: &str, spec: &Value) -> Child {
    let target = app.sibling(api_version, kind);
    let metadata = json!({"name": target.name, "namespace": target.namespace, "labels": labels(app)});
    let wanted = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
    Child { target, wanted }
}

fn selector(app: &WebApp) -> Value {
    json!({"app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": app.metadata.name})
}

fn labels(app: &WebApp) -> Value {
    let mut labels = selector(app);
    labels["app.kubernetes.io/managed-by"] = json!("windlass");
    labels
}

/// Decides about a child. `cached` is its current state.
pub(crate) fn decide(app: &WebApp, child: &Child, cached: Option<&Value>) -> Decision {
    let mend = if app.is_changed() { Change::Update } else { Change::Heal };
    let is_new = app.status.observed_generation.is_none();
    let Some(cached) = cached else {
        return Decision::Apply(if is_new { Change::Create } else { mend });
    };
    let is_terminating = !cached["metadata"]["deletionTimestamp"].is_null();
    // An orphan is adopted only if it has our labels, as after `kubectl delete --cascade=orphan`.
    let is_our_orphan = || controller(cached).is_none() && has_fields(&cached["metadata"]["labels"], &labels(app));
    if is_ours(app, cached) {
        let is_right = has_fields(cached, &child.wanted) && surplus(cached, &child.wanted).is_empty();
        if is_terminating || is_right { Decision::Leave } else { Decision::Apply(mend) }
    } else if is_our_orphan() && !is_terminating {
        Decision::Apply(mend)
    } else {
        Decision::NameTaken
    }
}

/// Whether the `WebApp` controls an object.
pub(crate) fn is_ours(app: &WebApp, object: &Value) -> bool {
    let uid = app.metadata.uid.as_deref();
    uid.is_some() && controller(object) == uid
}

/// The UID of the owner that controls an object.
fn controller(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)?["uid"].as_str()
}

/// The JSON patch that removes entries which break the child and which an apply would leave: ports that are not ours,
/// and additional labels in a selector. If a port was renumbered by hand, an apply would add ours beside it, and the
/// server would refuse both because they have the same name.
pub(crate) fn surplus(actual: &Value, wanted: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    collect_surplus(actual, wanted, "", &mut operations);
    operations
}

fn collect_surplus(actual: &Value, wanted: &Value, pointer: &str, operations: &mut Vec<Value>) {
    if is_ours_alone(pointer) && exceeds(actual, wanted) {
        operations.push(json!({"op": "replace", "path": pointer, "value": wanted}));
        return;
    }
    match (actual, wanted) {
        (Value::Object(actual), Value::Object(wanted)) => {
            for (key, wanted) in wanted {
                // A key with a slash, which a pointer would have to escape, is a label. A label has nothing below it.
                let Some(actual) = actual.get(key) else { continue };
                collect_surplus(actual, wanted, &format!("{pointer}/{key}"), operations);
            }
        }
        (Value::Array(actual), Value::Array(wanted)) => {
            for wanted in wanted {
                let Some(index) = actual.iter().position(|actual| actual["name"] == wanted["name"]) else { continue };
                collect_surplus(&actual[index], wanted, &format!("{pointer}/{index}"), operations);
            }
        }
        _ => {}
    }
}

/// Whether only this plugin can change a field. A Deployment's selector is immutable, but a Service's is not.
fn is_ours_alone(pointer: &str) -> bool {
    pointer.ends_with("/ports") || pointer == "/spec/selector"
}

/// Whether there is an entry that is not wanted.
fn exceeds(actual: &Value, wanted: &Value) -> bool {
    match (actual, wanted) {
        (Value::Array(actual), Value::Array(wanted)) => {
            actual.iter().any(|actual| !wanted.iter().any(|wanted| has_fields(actual, wanted)))
        }
        (Value::Object(actual), Value::Object(wanted)) => actual.keys().any(|key| !wanted.contains_key(key)),
        _ => false,
    }
}
