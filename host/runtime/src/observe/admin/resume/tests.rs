//! Requests to resume a plugin, and their answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::life::plugin_state::ControllerState;
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::queue::key_state::CallBlock;
use windlass_core::queue::trigger::Triggers;
use windlass_kube::{Budget, BudgetScope, ConditionCounts, Excess};

use super::*;
use crate::observe::metrics::HostMetrics;
use crate::observe::status::{ControllerStatus, KeySource, LeaseView, ResumedController};
use crate::suspension::Suspension;

/// A working controller. Its first resumption returns this; later ones return nothing.
#[derive(Default)]
struct Stopped(Mutex<ResumedController>);

impl KeySource for Stopped {
    fn block(&self) -> Option<CallBlock> {
        None
    }

    fn unproven(&self) -> Vec<String> {
        Vec::new()
    }

    fn has(&self, _: &ObjectKey) -> bool {
        false
    }

    fn all(&self) -> Vec<ObjectKey> {
        Vec::new()
    }

    fn triggers(&self, _: &ObjectKey) -> Triggers {
        Triggers::default()
    }

    fn timer(&self) -> Option<Value> {
        None
    }

    fn conditions(&self) -> (ObjectKind, ConditionCounts) {
        (ObjectKind::new("v1", "Shop"), ConditionCounts::default())
    }

    fn resume(&self) -> ResumedController {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

struct Scene {
    status: Status,
    plugin: Arc<PluginStatus>,
    controller: Arc<ControllerStatus>,
}

impl Scene {
    fn new() -> Self {
        let status = Status::new(CancellationToken::new());
        let plugin = status.plugin("shop");
        plugin.set(PluginPhase::Started, None);
        let controller = plugin.controller("shops", 1, HostMetrics::new().controller("shop", "shops"));
        controller.set(ControllerState::Running, None);
        Self { status, plugin, controller }
    }

    /// Makes the controller work, with this much to resume. Keep the result alive.
    fn stopped(&self, stopped: ResumedController) -> Arc<dyn KeySource> {
        let source: Arc<dyn KeySource> = Arc::new(Stopped(Mutex::new(stopped)));
        self.controller.dispatched_by(Arc::downgrade(&source));
        source
    }

    /// The status code and the text of the answer.
    async fn resume(&self) -> (u16, String) {
        let answer = answer(&self.status, "shop", Some("operator"));
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.expect("it is whole").to_bytes();
        (code, String::from_utf8(body.into()).expect("text"))
    }

    /// The sentences about everything that was resumed, or the reason why nothing was.
    async fn resumed(&self) -> (Vec<String>, Option<String>) {
        let (code, text) = self.resume().await;
        let shown: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{code}: {text}"));
        let did: Vec<String> = serde_json::from_value(shown["did"].clone()).expect("a list");
        assert_eq!(shown["resumed"], !did.is_empty(), "{shown}");
        (did, shown["why"].as_str().map(str::to_owned))
    }
}

#[test]
fn only_one_path_below_a_plugin_resumes_it() {
    assert_eq!(plugin_of("/plugins/shop/resume"), Some("shop"));
    for other in ["/plugins/resume", "/plugins/shop/keys/resume", "/plugins/shop/resume/", "/resume", "/plugins"] {
        assert_eq!(plugin_of(other), None, "{other}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_circuit_and_failed_keys_are_resumed_and_reported() {
    let scene = Scene::new();
    let _source = scene.stopped(ResumedController { failed_keys: 3, had_open_circuit: true });
    let (did, why) = scene.resumed().await;
    let expected = [
        "controller shops: its circuit was open: a trial call is made now",
        "controller shops: 3 keys that had failed run now, with all their retries",
    ];
    assert_eq!((did, why), (expected.map(str::to_owned).into(), None));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_resumed_at_most_as_often_as_its_circuit_probes() {
    let scene = Scene::new();
    let failed = ResumedController { failed_keys: 1, had_open_circuit: false };
    let _source = scene.stopped(failed);
    assert_eq!(scene.resumed().await.0.len(), 1);
    let _source = scene.stopped(failed);
    tokio::time::advance(Duration::from_secs(9)).await;
    assert_eq!(scene.resume().await.0, 429);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(scene.resumed().await.0.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_resume_without_effect_says_why() {
    let scene = Scene::new();
    let _source = scene.stopped(ResumedController::default());
    let why = "it runs, and none of its keys waits for another attempt";
    assert_eq!(scene.resumed().await, (vec![], Some(why.to_owned())));
    scene.controller.set(ControllerState::Waiting, Some("no kind Shop".to_owned()));
    let (did, why) = scene.resumed().await;
    let why = why.expect("a reason");
    assert!(did.is_empty() && why.contains("it is waiting (controller shops: no kind Shop)"), "{why}");
    scene.plugin.set(PluginPhase::Paused, Some("by its policy".to_owned()));
    assert!(scene.resumed().await.1.is_some_and(|why| why.contains("paused: true")));
}

/// This replica's state of the lease, and the holder.
struct Lease(LeaseStatus, Option<Arc<str>>);

impl LeaseView for Lease {
    fn name(&self) -> Option<Arc<str>> {
        Some("windlass-1".into())
    }

    fn holder(&self) -> Option<Arc<str>> {
        self.1.clone()
    }

    fn status(&self) -> LeaseStatus {
        self.0
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_does_not_run_the_plugin_names_the_one_that_runs_it() {
    let scene = Scene::new();
    let _source = scene.stopped(ResumedController { failed_keys: 1, had_open_circuit: false });
    scene.plugin.goes_by(Arc::new(Lease(LeaseStatus::NotHeld, Some("windlass-b".into()))));
    let (did, why) = scene.resumed().await;
    assert!(did.is_empty() && why.is_some_and(|why| why.contains("windlass-b holds its lease: ask that one")));
    scene.plugin.goes_by(Arc::new(Lease(LeaseStatus::Lost, Some("windlass-a".into()))));
    assert!(scene.resumed().await.1.is_some_and(|why| why.contains("could not renew")));
    scene.plugin.goes_by(Arc::new(Lease(LeaseStatus::Held, Some("windlass-a".into()))));
    assert_eq!(scene.resumed().await.0.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_plugin_fills_its_caches_again() {
    let scene = Scene::new();
    let budget = Budget::new(1);
    let suspension = Suspension::new(&budget);
    scene.plugin.suspended_by(&suspension);
    let watch = WatchSpec::all(ObjectKind::new("v1", "ConfigMap"));
    budget.exceed(Excess { watch, needed: 2, total: 2, limit: 1, scope: BudgetScope::Plugin });
    scene.plugin.set(PluginPhase::Suspended, Some("it caches too much".to_owned()));
    let (did, _) = scene.resumed().await;
    assert_eq!(did, ["it was suspended: its caches are filled again, within the same limits"]);
    assert!(!suspension.is_in_force());
    tokio::time::advance(Duration::from_secs(10)).await;
    let (did, why) = scene.resumed().await;
    assert!(did.is_empty() && why.is_some_and(|why| why.contains("being tried again already (it caches too much)")));
}
