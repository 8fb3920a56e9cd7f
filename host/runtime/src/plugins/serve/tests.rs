//! Tests of the metrics of a former generation, on the embedded API server.

use tokio::sync::mpsc;

use super::*;
use crate::observe::status::ControllerStatus;
use crate::tests::stage::{Stage, until};

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

/// The caches of an unloaded plugin live on for a minute, so they may lack what its calls wrote.
#[tokio::test]
async fn a_plugin_that_is_loaded_again_proves_its_caches_before_it_works() {
    let stage = Stage::new().await;
    let plugin = stage.load(1).await;
    stage.host.policies.register(&plugin, &stage.host.status.plugin("chameleon"));
    let mut lists = vec![];
    for _ in 0..2 {
        let stop = stage.phases.stop.child_token();
        let (serving, _newest) = stage.serving(&plugin, mpsc::unbounded_channel().0, stop.clone());
        let mut served = std::pin::pin!(serving.run());
        tokio::select! {
            end = &mut served => panic!("nothing stops it: {end:?}"),
            () = until(|| stage.works()) => {}
        }
        lists.push(stage.config_map_lists());
        stop.cancel();
        assert_eq!(served.await, ControllerEnd::Clean);
        stage.host.status.plugin("chameleon").shows(BTreeMap::new());
    }
    assert!(lists[1] > lists[0], "a proof asks the server for its version: {lists:?}");
}
