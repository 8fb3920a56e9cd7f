//! Tests of the metrics of a former generation, on the embedded API server.

use tokio::sync::mpsc;

use super::*;
use crate::observe::status::ControllerStatus;
use crate::tests::stage::Stage;

#[tokio::test]
async fn metrics_of_a_removed_controller_disappear_once_it_is_unused() {
    let stage = Stage::new().await;
    let plugin = stage.load(1).await;
    let (serving, _newest) = stage.serving(&plugin, mpsc::unbounded_channel().0, stage.phases.stop.child_token());
    let metrics = &stage.host.metrics;
    let former = || {
        Handover::new(ControllerStatus::unlisted(plugin.name(), "former", 1, metrics.controller("chameleon", "former")))
    };
    let mut past =
        ServingState { handover: BTreeMap::from([("former".to_owned(), former())]), ..ServingState::default() };
    let at_work = past.handover["former"].clone();
    let shows = |name: &str| metrics.text().contains(&format!("controller=\"{name}\""));
    let generation = serving.generation(plugin.clone(), &mut past).expect("it can be configured");
    let own = generation.controllers[0].name().to_owned();
    assert!(shows("former") && shows(&own), "calls of the previous generation may still run");
    drop((at_work, generation));
    let _next = serving.generation(plugin.clone(), &mut past).expect("it can be configured");
    assert!(!shows("former") && shows(&own), "{}", metrics.text());
    stage.phases.stop.cancel();
}
