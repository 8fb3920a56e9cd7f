use std::time::Duration;

use windlass_core::object::ObjectKind;
use windlass_kube::{Discovery, DiscoveryError};

use crate::script::Script;

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
