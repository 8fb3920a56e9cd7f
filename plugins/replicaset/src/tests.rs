//! Native tests of the pure parts: the decision about the Pods, and the status.

use serde_json::{Value, json};
use windlass_sdk::clock::Timestamp;
use windlass_sdk::conditions::{ConditionStatus, find_condition};
use windlass_sdk::{ApiError, ApiReason, Error, Reconciler, Request};

use crate::api::{Pod, PodSet, Selector, Status};
use crate::children::{self, Change, change};
use crate::status::{Problem, READY, status};

const NOW: Timestamp = Timestamp { seconds: 1_795_258_125, nanoseconds: 0 };

fn set(replicas: usize) -> PodSet {
    let set = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u-1", "generation": 1},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web", "tier": "front"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
        },
    });
    serde_json::from_value(set).unwrap()
}

fn pod(name: &str, created: &str, ready: &str) -> Pod {
    let pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("u-{name}"), "creationTimestamp": created},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
    });
    serde_json::from_value(pod).unwrap()
}

fn pods(count: usize) -> Vec<Pod> {
    (0..count).map(|number| pod(&number.to_string(), "2026-11-21T10:00:00Z", "True")).collect()
}

fn selector(selector: &Value) -> Selector {
    serde_json::from_value(selector.clone()).unwrap()
}

fn ready(status: &Status) -> (ConditionStatus, &str, &str) {
    let ready = find_condition(&status.conditions, READY).unwrap();
    (ready.status, &ready.reason, &ready.message)
}

#[test]
fn as_many_are_made_as_are_missing_and_as_many_deleted_as_are_too_many() {
    assert!(matches!(change(3, pods(3)), Change::Nothing));
    assert!(matches!(change(3, pods(1)), Change::Create(2)));
    assert!(matches!(change(1, pods(3)), Change::Delete(surplus) if surplus.len() == 2));
    assert!(matches!(change(0, pods(1)), Change::Delete(surplus) if surplus.len() == 1));
}

#[test]
fn a_call_creates_or_deletes_a_bounded_number_of_pods() {
    assert!(matches!(change(509, pods(1)), Change::Create(500)));
    assert!(matches!(change(0, pods(509)), Change::Delete(surplus) if surplus.len() == 500));
}

#[test]
fn unready_pods_are_deleted_first_and_then_the_youngest() {
    let active = vec![
        pod("old", "2026-11-21T10:00:00Z", "True"),
        pod("young", "2026-11-21T11:00:00Z", "True"),
        pod("broken", "2026-11-21T09:00:00Z", "False"),
        pod("middle-b", "2026-11-21T10:30:00Z", "True"),
        pod("middle-a", "2026-11-21T10:30:00Z", "True"),
    ];
    let Change::Delete(surplus) = change(1, active) else { panic!("four are too many") };
    let names: Vec<_> = surplus.iter().map(|pod| pod.metadata.name.as_str()).collect();
    assert_eq!(names, ["broken", "young", "middle-a", "middle-b"]);
}

#[test]
fn a_terminating_or_finished_pod_does_not_count() {
    let mut going = pod("a", "", "True");
    assert!(going.is_active());
    going.metadata.deletion_timestamp = Some("2026-11-21T10:48:45Z".into());
    assert!(!going.is_active());
    for (phase, counts) in [("Pending", true), ("Succeeded", false), ("Failed", false)] {
        let mut ended = pod("a", "", "False");
        ended.status.phase = phase.into();
        assert_eq!(ended.is_active(), counts, "{phase}");
    }
}

#[test]
fn a_pod_is_deleted_in_this_incarnation_alone() {
    assert_eq!(pod("a", "", "True").target().uid.as_deref(), Some("u-a"));
}

#[test]
fn a_new_pod_follows_the_template() {
    let pod = children::pod(&set(1));
    assert_eq!(pod["metadata"]["generateName"], "web-");
    assert_eq!(pod["metadata"]["labels"], json!({"app": "web", "tier": "front"}));
    assert_eq!(pod["spec"]["containers"][0]["image"], "nginx");
}

#[test]
fn a_selector_reads_as_kubectl_takes_it_and_matches_as_the_server_does() {
    let selector = selector(&json!({
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["front", "back"]},
            {"key": "stage", "operator": "NotIn", "values": ["dev"]},
            {"key": "team", "operator": "Exists"},
            {"key": "old", "operator": "DoesNotExist"},
        ],
    }));
    assert_eq!(selector.text(), "app=web,tier in (front,back),stage notin (dev),team,!old");
    for (labels, matches) in [
        (json!({"app": "web", "tier": "back", "team": "a"}), true),
        (json!({"app": "web", "tier": "back", "team": "a", "stage": "live"}), true),
        (json!({"app": "web", "tier": "back", "team": "a", "stage": "dev"}), false),
        (json!({"app": "web", "tier": "back", "team": "a", "old": ""}), false),
        (json!({"app": "web", "tier": "back"}), false),
        (json!({"app": "web", "team": "a"}), false),
        (json!({"tier": "back", "team": "a"}), false),
    ] {
        assert_eq!(selector.matches(&labels), matches, "{labels}");
    }
}

#[test]
fn a_selector_that_would_not_count_the_sets_own_pods_is_a_problem() {
    let mut set = set(1);
    assert_eq!(Problem::of_spec(&set.spec), None);
    set.spec.selector = selector(&json!({"matchLabels": {"app": "shop"}}));
    assert!(Problem::of_spec(&set.spec).unwrap().message.contains("does not match"));
    set.spec.selector = Selector::default();
    assert!(Problem::of_spec(&set.spec).unwrap().message.contains("is empty"));
}

#[test]
fn the_status_counts_and_is_ready_when_all_are() {
    let mut pods = pods(2);
    pods.push(pod("c", "", "False"));
    let counted = status(&set(3), &pods, None, NOW);
    assert_eq!((counted.observed_generation, counted.replicas, counted.ready_replicas), (Some(1), 3, 2));
    assert_eq!(ready(&counted), (ConditionStatus::False, "ReplicasNotReady", "2 of 3 Pods are ready"));
    assert_eq!(ready(&status(&set(2), &pods[..2], None, NOW)).0, ConditionStatus::True);
    assert_eq!(ready(&status(&set(1), &pods[..2], None, NOW)).0, ConditionStatus::False, "one is too many");
}

#[test]
fn an_unchanged_status_stays_equal_over_time() {
    let mut set = set(2);
    set.status = status(&set, &pods(2), None, NOW);
    let later = Timestamp { seconds: NOW.seconds + 60, ..NOW };
    assert_eq!(status(&set, &pods(2), None, later), set.status);
}

#[test]
fn only_a_permanent_refusal_is_a_problem_and_is_reported_once() {
    let error = |reason| {
        Error::from(ApiError {
            code: 403,
            reason,
            status_reason: "Reason".into(),
            message: "exceeded quota".into(),
            retry_after_ms: None,
            verb: "create".into(),
            resource: "pods".into(),
            object: None,
        })
    };
    assert_eq!(Problem::lasting("FailedCreate", &error(ApiReason::UnknownOutcome)), None);
    let problem = Problem::lasting("FailedCreate", &error(ApiReason::Forbidden)).unwrap();
    let mut set = set(2);
    assert!(problem.is_news(&set));
    set.status = status(&set, &[], Some(&problem), NOW);
    assert_eq!(ready(&set.status).1, "FailedCreate");
    assert!(!problem.is_news(&set));
}

#[test]
fn the_manifest_brings_the_definition_of_its_kind() {
    let manifest = serde_json::to_value(crate::Plugin::manifest()).unwrap();
    let [crd] = manifest["crds"].as_array().unwrap().as_slice() else { panic!("{manifest}") };
    assert_eq!(crd["spec"]["names"]["kind"], crate::api::KIND);
    let version =
        format!("{}/{}", crd["spec"]["group"].as_str().unwrap(), crd["spec"]["versions"][0]["name"].as_str().unwrap());
    assert_eq!(version, crate::api::API_VERSION);
}

#[test]
fn a_set_that_is_gone_or_going_needs_nothing() {
    let gone = Request::new("replicaset", "default", "web");
    assert!(crate::Plugin::reconcile(gone.clone()).is_ok());
    let set = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1, "selector": {}, "template": {}}});
    let going = gone.with_object(&set).unwrap().in_deletion();
    assert!(crate::Plugin::reconcile(going).is_ok());
}
