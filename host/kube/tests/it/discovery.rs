use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::object::ObjectKind;
use windlass_kube::{Discovery, DiscoveryError};

use crate::script::{Reply, Script};

fn widget() -> ObjectKind {
    ObjectKind::new("example.com/v1", "Widget")
}

#[tokio::test(start_paused = true)]
async fn a_group_version_is_asked_for_once() {
    let script = Script::default();
    let discovery = Discovery::new(script.client());
    let (deployment, scale) = (ObjectKind::new("apps/v1", "Deployment"), ObjectKind::new("apps/v1", "Scale"));
    let (first, second) = tokio::join!(discovery.resolve(&deployment), discovery.resolve(&deployment));
    assert_eq!(first.expect("served"), second.expect("served"));
    assert!(matches!(discovery.resolve(&scale).await, Err(DiscoveryError::NotServed { .. })));
    assert_eq!(script.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_missing_kind_is_asked_for_again_after_ten_seconds() {
    let script = Script::default();
    script.set_widgets_missing(true);
    let discovery = Discovery::new(script.client());
    assert!(discovery.resolve(&widget()).await.is_err());
    script.set_widgets_missing(false);
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert!(discovery.resolve(&widget()).await.is_err(), "too soon");
    assert_eq!(script.asked().len(), 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(discovery.resolve(&widget()).await.expect("served by now").plural, "widgets");
    assert_eq!(script.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_would_lead_the_path_elsewhere_is_not_asked_for() {
    let script = Script::default();
    let discovery = Discovery::new(script.client());
    for version in ["v1/../../apis/apps/v1", "apps/v1?x", "apps/v1#", "apps/v1/namespaces", "..", "apps/..", "", "/v1"]
    {
        let answer = discovery.resolve(&ObjectKind::new(version, "Deployment")).await;
        assert!(matches!(answer, Err(DiscoveryError::NotServed { .. })), "{version}");
    }
    assert!(script.asked().is_empty());
}

const APPS: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps";
const WIDGETS: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com";
const WIDGET_DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";

/// A server of this minor version.
fn server(minor: &str) -> Script {
    let version = json!({"major": "1", "minor": minor, "gitVersion": format!("v1.{minor}.0")});
    Script::default().answers("/version", Reply::Json(200, version))
}

fn api_service(spec: &Value) -> Reply {
    Reply::Json(200, json!({"kind": "APIService", "spec": spec}))
}

fn refused(code: u16) -> Reply {
    Reply::Json(code, json!({"kind": "Status", "code": code}))
}

async fn is_comparable(script: &Script, kind: &ObjectKind) -> bool {
    let discovery = Discovery::new(script.client()).compare_versions(true);
    discovery.resolve(kind).await.expect("served").comparable
}

fn deployment() -> ObjectKind {
    ObjectKind::new("apps/v1", "Deployment")
}

#[tokio::test(start_paused = true)]
async fn versions_compare_only_for_kinds_that_a_recent_server_serves_itself() {
    let own = api_service(&json!({"group": "apps", "version": "v1"}));
    let aggregated = api_service(&json!({"group": "example.com", "service": {"name": "widgets", "namespace": "x"}}));
    for (minor, comparable) in [("34", false), ("35", true), ("36+", true), ("", false)] {
        let script = server(minor).answers(APPS, own.clone()).answers(WIDGETS, aggregated.clone());
        assert_eq!(is_comparable(&script, &deployment()).await, comparable, "1.{minor}");
        assert!(!is_comparable(&script, &widget()).await, "aggregated");
    }
    let script = server("36").answers(APPS, own);
    let unasked = Discovery::new(script.client()).resolve(&deployment()).await.expect("served");
    assert!(!unasked.comparable && script.asked().len() == 1);
}

#[tokio::test(start_paused = true)]
async fn a_group_without_an_api_service_is_served_by_the_server_itself() {
    let script = server("36").answers(APPS, refused(404)).answers(WIDGETS, refused(404));
    assert!(is_comparable(&script, &deployment()).await && is_comparable(&script, &widget()).await);
}

#[tokio::test(start_paused = true)]
async fn without_access_to_api_services_definitions_show_own_kinds() {
    let script = server("36").answers(APPS, refused(403)).answers(WIDGETS, refused(403));
    assert!(is_comparable(&script, &deployment()).await);
    for (reply, comparable) in [
        (Reply::Json(200, json!({"spec": {"versions": [{"name": "v1", "served": true}]}})), true),
        (Reply::Json(200, json!({"spec": {"versions": [{"name": "v2", "served": true}]}})), false),
        (Reply::Json(200, json!({"spec": {"versions": [{"name": "v1", "served": false}]}})), false),
        (refused(404), false),
        (refused(403), false),
    ] {
        let script = script.clone().answers(WIDGET_DEFINITION, reply.clone());
        assert_eq!(is_comparable(&script, &widget()).await, comparable, "{reply:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_answer_now_is_asked_again() {
    let script = server("36").answers(APPS, refused(503));
    let discovery = Discovery::new(script.client()).compare_versions(true);
    assert!(matches!(discovery.resolve(&deployment()).await, Err(DiscoveryError::Unreachable { .. })));
    let script = script.answers(APPS, api_service(&json!({})));
    assert!(discovery.resolve(&deployment()).await.expect("served").comparable);
    discovery.invalidate("apps");
    discovery.resolve(&deployment()).await.expect("served");
    let versions = script.asked().iter().filter(|asked| asked.path == "/version").count();
    assert_eq!(versions, 1, "a server's version is asked for once");
}
