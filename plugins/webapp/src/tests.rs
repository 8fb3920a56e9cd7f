//! Native tests of the pure parts: the desired children, the decisions about them, and the status.

use serde_json::{Value, json};
use windlass_sdk::clock::Timestamp;
use windlass_sdk::conditions::{Condition, ConditionStatus, find_condition};
use windlass_sdk::{ApiError, ApiReason, Error, ObjectRef, Reconciler, Request};

use crate::api::{Phase, Status, WebApp};
use crate::children::{self, Change, Decision};
use crate::status::{PROGRESSING, Problem, READY, status};

const NOW: Timestamp = Timestamp { seconds: 1_795_258_125, nanoseconds: 0 };

/// A `WebApp` of generation 1 that was never reconciled.
fn new_app() -> WebApp {
    let app = json!({
        "metadata": {"name": "shop", "namespace": "default", "uid": "u-1", "generation": 1},
        "spec": {"image": "nginx"},
    });
    serde_json::from_value(app).unwrap()
}

/// An app like [`new_app`], whose replicas have become ready.
fn running_app() -> WebApp {
    let mut app = new_app();
    app.status = status(&app, Some(&ready_deployment(&app)), None, NOW);
    assert_eq!(app.status.phase, Some(Phase::Running));
    app
}

/// A child as the server stores it, with defaults and an owner.
fn stored(wanted: &Value) -> Value {
    let mut stored = wanted.clone();
    stored["metadata"]["resourceVersion"] = json!("7");
    stored["metadata"]["generation"] = json!(1);
    stored["metadata"]["ownerReferences"] = json!([{"uid": "u-1", "controller": true}]);
    stored["spec"]["sessionAffinity"] = json!("None");
    stored
}

fn ready_deployment(app: &WebApp) -> Value {
    let mut deployment = stored(&children::deployment(app).wanted);
    deployment["status"] = json!({"observedGeneration": 1, "readyReplicas": 2, "updatedReplicas": 2});
    deployment
}

fn decide_service(app: &WebApp, edit: impl FnOnce(&mut Value)) -> Decision {
    let service = children::service(app);
    let mut cached = stored(&service.wanted);
    edit(&mut cached);
    children::decide(app, &service, Some(&cached))
}

fn condition<'a>(status: &'a Status, condition_type: &str) -> &'a Condition {
    find_condition(&status.conditions, condition_type).unwrap()
}

#[test]
fn the_plugins_defaults_equal_those_of_the_schema() {
    let app = new_app();
    assert_eq!((app.spec.replicas, app.spec.port), (2, 8080));
}

#[test]
fn the_service_selects_the_pods_and_names_their_port() {
    let app = new_app();
    let (deployment, service) = (children::deployment(&app).wanted, children::service(&app).wanted);
    let template = &deployment["spec"]["template"];
    for (key, value) in service["spec"]["selector"].as_object().unwrap() {
        assert_eq!(&template["metadata"]["labels"][key], value);
    }
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], service["spec"]["selector"]);
    assert_eq!(service["spec"]["ports"][0]["targetPort"], template["spec"]["containers"][0]["ports"][0]["name"]);
    assert_eq!(template["spec"]["containers"][0]["ports"][0]["containerPort"], 8080);
}

#[test]
fn a_missing_child_is_created_first_and_healed_later() {
    let child = children::service(&new_app());
    assert_eq!(children::decide(&new_app(), &child, None), Decision::Apply(Change::Create));
    assert_eq!(children::decide(&running_app(), &child, None), Decision::Apply(Change::Heal));
}

#[test]
fn a_converged_child_is_left_alone() {
    assert_eq!(decide_service(&running_app(), |_| {}), Decision::Leave);
}

#[test]
fn fields_that_others_add_to_a_child_are_left_alone() {
    let decision = decide_service(&running_app(), |service| service["metadata"]["labels"]["team"] = json!("a"));
    assert_eq!(decision, Decision::Leave);
}

#[test]
fn an_edited_child_is_healed() {
    let heal = Decision::Apply(Change::Heal);
    assert_eq!(decide_service(&running_app(), |service| service["spec"]["ports"][0]["port"] = json!(81)), heal);
    assert_eq!(decide_service(&running_app(), |service| service["spec"]["selector"]["tier"] = json!("x")), heal);
}

#[test]
fn a_child_of_another_spec_is_updated() {
    let mut app = running_app();
    let deployment = ready_deployment(&app);
    app.spec.replicas = 5;
    app.metadata.generation = Some(2);
    let decision = children::decide(&app, &children::deployment(&app), Some(&deployment));
    assert_eq!(decision, Decision::Apply(Change::Update));
}

#[test]
fn a_deleting_child_is_left_until_it_is_gone() {
    let decision = decide_service(&running_app(), |service| {
        service["metadata"]["deletionTimestamp"] = json!("2026-11-21T10:48:45Z");
        service["spec"]["ports"] = json!([]);
    });
    assert_eq!(decision, Decision::Leave);
}

#[test]
fn an_object_of_another_owner_is_not_adopted() {
    let owners = json!([{"uid": "u-2", "controller": true}]);
    let taken = decide_service(&new_app(), |service| service["metadata"]["ownerReferences"] = owners);
    assert_eq!(taken, Decision::NameTaken);
    let hand_made = decide_service(&new_app(), |service| service["metadata"] = json!({"name": "shop"}));
    assert_eq!(hand_made, Decision::NameTaken);
}

#[test]
fn an_orphan_with_our_labels_is_adopted() {
    let decision = decide_service(&running_app(), |service| service["metadata"]["ownerReferences"] = json!([]));
    assert_eq!(decision, Decision::Apply(Change::Heal));
}

#[test]
fn a_changed_port_is_removed_before_the_apply() {
    let app = running_app();
    let deployment = children::deployment(&app).wanted;
    let mut edited = stored(&deployment);
    edited["spec"]["template"]["spec"]["containers"] = json!([
        {"name": "sidecar", "ports": [{"containerPort": 1}]},
        {"name": "web", "image": "nginx", "ports": [{"name": "http", "containerPort": 81, "protocol": "TCP"}]},
    ]);
    let ports = &deployment["spec"]["template"]["spec"]["containers"][0]["ports"];
    let cut = json!({"op": "replace", "path": "/spec/template/spec/containers/1/ports", "value": ports});
    assert_eq!(children::surplus(&edited, &deployment), [cut]);
    assert!(children::surplus(&stored(&deployment), &deployment).is_empty());
}

#[test]
fn a_new_app_is_pending_until_all_replicas_are_ready() {
    let app = new_app();
    let mut deployment = ready_deployment(&app);
    deployment["status"]["readyReplicas"] = json!(1);
    let pending = status(&app, Some(&deployment), None, NOW);
    assert_eq!((pending.phase, pending.ready_replicas), (Some(Phase::Pending), 1));
    assert_eq!(condition(&pending, READY).message, "1 of 2 replicas are ready");
    assert_eq!(running_app().status.phase, Some(Phase::Running));
}

#[test]
fn an_app_that_loses_a_replica_is_degraded_until_it_is_back() {
    let mut app = running_app();
    let mut deployment = ready_deployment(&app);
    deployment["status"]["readyReplicas"] = json!(1);
    app.status = status(&app, Some(&deployment), None, NOW);
    assert_eq!(app.status.phase, Some(Phase::Degraded));
    app.status = status(&app, Some(&ready_deployment(&app)), None, NOW);
    assert_eq!(app.status.phase, Some(Phase::Running));
}

#[test]
fn a_running_app_that_is_scaled_up_is_pending_not_degraded() {
    let mut app = running_app();
    app.spec.replicas = 4;
    app.metadata.generation = Some(2);
    let scaled = status(&app, Some(&ready_deployment(&running_app())), None, NOW);
    assert_eq!((scaled.phase, scaled.observed_generation), (Some(Phase::Pending), Some(2)));
    assert_eq!(condition(&scaled, PROGRESSING).status, ConditionStatus::True);
}

#[test]
fn a_deployment_status_for_an_older_spec_does_not_count() {
    let app = new_app();
    let mut deployment = ready_deployment(&app);
    deployment["metadata"]["generation"] = json!(2);
    assert_eq!(status(&app, Some(&deployment), None, NOW).phase, Some(Phase::Pending));
}

#[test]
fn an_unchanged_status_stays_equal_over_time() {
    let app = running_app();
    let later = Timestamp { seconds: NOW.seconds + 60, ..NOW };
    assert_eq!(status(&app, Some(&ready_deployment(&app)), None, later), app.status);
}

#[test]
fn an_empty_image_is_a_problem_that_is_reported_once() {
    let mut app = new_app();
    assert_eq!(Problem::of_spec(&app.spec), None);
    app.spec.image = " \t".into();
    let problem = Problem::of_spec(&app.spec).unwrap();
    assert!(problem.is_news(&app));
    app.status = status(&app, None, Some(&problem), NOW);
    assert!(!problem.is_news(&app));
    let ready = condition(&app.status, READY);
    assert_eq!((ready.status, ready.reason.as_str()), (ConditionStatus::False, "Invalid"));
}

#[test]
fn only_a_lasting_refusal_is_a_problem() {
    let error = |reason| {
        Error::from(ApiError {
            code: 400,
            reason,
            status_reason: "Reason".into(),
            message: "message".into(),
            retry_after_ms: None,
            verb: "patch".into(),
            resource: "services".into(),
            object: Some(ObjectRef::namespaced("v1", "Service", "default", "shop")),
        })
    };
    assert_eq!(Problem::lasting(&error(ApiReason::Invalid)).unwrap().reason, "ApplyFailed");
    assert_eq!(Problem::lasting(&error(ApiReason::Conflict)), None);
    assert_eq!(Problem::lasting(&error(ApiReason::ServerError)), None);
}

#[test]
fn a_deleted_or_deleting_app_needs_nothing() {
    let gone = Request::new("webapp", "default", "shop");
    assert!(crate::Plugin::reconcile(gone.clone()).is_ok());
    let app = json!({"metadata": {"name": "shop"}, "spec": {"image": "nginx"}});
    let mut going = gone.with_object(&app).unwrap();
    going.deleting = true;
    assert!(crate::Plugin::reconcile(going).is_ok());
}
