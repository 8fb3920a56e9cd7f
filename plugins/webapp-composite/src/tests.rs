//! Tests of the composer, which is a plain function.

use serde_json::{Value, json};
use windlass_sdk::conditions::ConditionStatus;
use windlass_sdk::events::EventType;
use windlass_sdk::{Composer, Composition, CompositionRequest, Request};

use crate::{Plugin, Status};

/// A `WebApp` of generation 1 that was never reconciled.
fn new_app() -> Value {
    json!({
        "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp",
        "metadata": {"name": "shop", "namespace": "default", "uid": "u-1", "generation": 1},
        "spec": {"image": "nginx", "replicas": 2, "port": 8080},
    })
}

fn compose(app: &Value, children: &[Value]) -> Composition {
    let request = CompositionRequest::new(Request::new("webapp", "default", "shop"), app).unwrap();
    Plugin::compose(children.iter().fold(request, |request, child| request.with_child(child).unwrap())).unwrap()
}

fn status(composition: &Composition) -> Status {
    composition.new_status().unwrap().unwrap()
}

fn reasons(composition: &Composition) -> Vec<&str> {
    composition.events().iter().map(|event| event.reason.as_str()).collect()
}

/// The children as the server stores them, with this many ready replicas in the Deployment.
fn stored(app: &Value, ready: u8) -> Vec<Value> {
    let mut children = compose(app, &[]).children().unwrap();
    for child in &mut children {
        child["metadata"]["generation"] = json!(1);
        child["spec"]["added"] = json!("by the server");
    }
    children[0]["status"] = json!({"observedGeneration": 1, "readyReplicas": ready, "updatedReplicas": 2});
    children
}

/// A `WebApp` with the status that the composer returned.
fn reported(mut app: Value, composition: &Composition) -> Value {
    app["status"] = composition.new_status().unwrap().unwrap();
    app
}

fn running_app() -> Value {
    let app = new_app();
    let composition = compose(&app, &stored(&app, 2));
    reported(app, &composition)
}

#[test]
fn a_new_app_gets_its_children_and_is_pending() {
    let composition = compose(&new_app(), &[]);
    let children = composition.children().unwrap();
    let kinds: Vec<_> = children.iter().map(|child| child["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Deployment", "Service"]);
    assert_eq!(reasons(&composition), ["Created", "Created"]);
    assert_eq!(status(&composition).phase, "Pending");
}

#[test]
fn the_service_selects_the_pods_and_names_their_port() {
    let children = compose(&new_app(), &[]).children().unwrap();
    let [deployment, service] = children.as_slice() else { panic!("{children:?}") };
    let template = &deployment["spec"]["template"];
    assert!(windlass_sdk::has_fields(&template["metadata"]["labels"], &service["spec"]["selector"]));
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], service["spec"]["selector"]);
    assert_eq!(service["spec"]["ports"][0]["targetPort"], template["spec"]["containers"][0]["ports"][0]["name"]);
    assert_eq!(template["spec"]["containers"][0]["ports"][0]["containerPort"], 8080);
}

#[test]
fn a_converged_app_emits_no_events() {
    let app = running_app();
    let composition = compose(&app, &stored(&new_app(), 2));
    assert_eq!(status(&composition).phase, "Running");
    assert!(composition.events().is_empty());
    assert_eq!(composition.new_status::<Value>().unwrap().unwrap(), app["status"]);
}

#[test]
fn a_child_that_was_deleted_or_edited_is_healed() {
    let app = running_app();
    let mut children = stored(&new_app(), 2);
    children.truncate(1);
    children[0]["spec"]["replicas"] = json!(7);
    let composition = compose(&app, &children);
    assert_eq!(reasons(&composition), ["Healed", "Healed"]);
    assert_eq!(status(&composition).phase, "Degraded");
}

#[test]
fn a_terminating_child_causes_no_event_until_it_is_gone() {
    let mut children = stored(&new_app(), 2);
    children[1]["metadata"]["deletionTimestamp"] = json!("2026-11-21T10:48:45Z");
    children[1]["spec"]["ports"] = json!([]);
    assert!(compose(&running_app(), &children).events().is_empty());
}

#[test]
fn a_changed_spec_updates_what_differs_and_makes_the_app_pending() {
    let mut app = running_app();
    app["metadata"]["generation"] = json!(2);
    app["spec"]["image"] = json!("nginx:2");
    let composition = compose(&app, &stored(&new_app(), 2));
    assert_eq!(reasons(&composition), ["Updated"]);
    let status = status(&composition);
    assert_eq!((status.phase.as_str(), status.observed_generation), ("Pending", Some(2)));
}

#[test]
fn an_app_that_loses_a_replica_is_degraded() {
    let degraded = status(&compose(&running_app(), &stored(&new_app(), 1)));
    assert_eq!((degraded.phase.as_str(), degraded.ready_replicas), ("Degraded", 1));
    assert_eq!(degraded.conditions[0].message, "1 of 2 replicas are ready");
}

#[test]
fn an_empty_image_keeps_the_children_and_is_reported_once() {
    let mut app = running_app();
    app["metadata"]["generation"] = json!(2);
    app["spec"]["image"] = json!(" \t");
    let composition = compose(&app, &stored(&new_app(), 2));
    assert!(composition.children().unwrap().is_empty());
    assert_eq!(composition.events()[0].event_type, EventType::Warning);
    let status = status(&composition);
    let [ready, progressing] = status.conditions.as_slice() else { panic!("{:?}", status.conditions) };
    assert_eq!((ready.status, ready.reason.as_str()), (ConditionStatus::False, "Invalid"));
    assert_eq!((progressing.status, status.phase.as_str()), (ConditionStatus::False, "Pending"));
    assert!(compose(&reported(app, &composition), &[]).events().is_empty());
}
