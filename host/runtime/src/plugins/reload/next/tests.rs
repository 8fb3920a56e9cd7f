//! Next versions that are called as shadows, on the embedded API server.

use serde_json::Value;

use super::*;
use crate::files::Files;
use crate::leadership::LeaseMode;
use crate::observe::status::PluginPhase;
use crate::plugins::current_files::CurrentFiles;
use crate::plugins::directory::is_plugin;
use crate::policies::GrantMode;
use crate::tests::stage::{Stage, until};

const NEXT: &str = "chameleon.next.wasm";
/// A version that writes into an annotation of each object how often it was called about it.
const COUNTS: (&str, &str) = ("MODE=good............", "MODE=requeue.........");
/// A version that uses another annotation.
const ELSEWHERE: (&str, &str) = ("chameleon.windlass.dev/runs", "chameleon.windlass.dev/runz");
const TRAPS: (&str, &str) = ("MODE=good.............", "MODE=reconcile-traps..");
/// A version that watches all `ConfigMaps`.
const WIDE: (&str, &str) = ("MODE=good............", "MODE=wide............");

/// A host that follows its directory until it is dropped.
struct Followed {
    stage: Stage,
    _running: tokio_util::task::AbortOnDropHandle<()>,
    _following: tokio_util::task::AbortOnDropHandle<()>,
}

impl Followed {
    async fn new(stage: Stage) -> Self {
        let host = Self::begin(stage);
        until(|| host.stage.works()).await;
        host
    }

    /// As `new`, without waiting for the plugin.
    fn begin(stage: Stage) -> Self {
        let mut reload = stage.reload();
        let (sender, plugins, mut current) =
            (reload.news_sender(), stage.plugins.clone(), CurrentFiles::new(stage.host.clone()));
        let follow = async move {
            let mut files = Files::follow(vec![plugins.clone()], u64::MAX, is_plugin);
            while sender.send(DirectoryNews::Files(current.changes(&mut files).await)).is_ok() {}
        };
        let following = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(follow));
        let running = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(async move { reload.run().await }));
        Self { stage, _running: running, _following: following }
    }

    /// The next version as `/plugins` shows it.
    fn next(&self) -> Value {
        self.stage.host.status.to_json()["plugins"][0]["next"].clone()
    }

    fn calls(&self, how: &str) -> u64 {
        self.next()["calls"][how].as_u64().unwrap_or_default()
    }

    fn runs(&self) -> Option<Arc<str>> {
        self.stage.host.status.plugin("chameleon").generation().map(|it| it.digest().clone())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_differing_shadow_writes_nothing_and_its_differences_are_shown() {
    let stage = Stage::new().await;
    stage.create_config_map("a").await;
    stage.put_as("chameleon.wasm", 1, &[COUNTS]);
    stage.put_as(NEXT, 2, &[COUNTS, ELSEWHERE]);
    let host = Followed::new(stage).await;
    until(|| host.next()["state"] == "shadowing").await;
    // The call about the first object may have come before there was a shadow.
    host.stage.create_config_map("b").await;
    until(|| host.next()["keys"]["differing"].as_u64() >= Some(1)).await;
    let differing = host.next()["differing"].to_string();
    assert!(differing.contains("ConfigMap default/") && differing.contains("/runz"), "{differing}");
    let seen = async || host.stage.config_map("b").await;
    let all_runs = async {
        while !seen().await.contains(r#""chameleon.windlass.dev/runs":"6""#) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), all_runs).await.expect("the current version is at work");
    assert!(!seen().await.contains("/runz"), "no write of the shadow was sent");
    rollout::abort(&host.stage.plugins, "chameleon").expect("it is there");
    until(|| host.next().is_null()).await;
    host.stage.phases.stop.cancel();
}

/// Grants the plugin what it needs, with this rollout strategy.
fn grant(stage: &Stage, rollout: &str) {
    let policy = format!(
        "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: chameleon\nrollout: {rollout}\n\
         rules:\n- {{apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch, patch]}}\n"
    );
    let path = stage.plugins.join("chameleon.policy.yaml");
    std::fs::write(&path, policy).expect("it can be written");
    stage.host.policies.take(&[Change { path, content: Content::Is([0; 32]) }]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_that_agrees_for_long_enough_is_promoted_if_the_policy_says_so() {
    let stage = Stage::with(LeaseMode::None, GrantMode::Policy).await;
    grant(&stage, "{promoteAfter: {calls: 3, time: 0s}}");
    stage.put_as("chameleon.wasm", 1, &[COUNTS]);
    stage.put_as(NEXT, 2, &[COUNTS]);
    let host = Followed::new(stage).await;
    until(|| host.next()["state"] == "shadowing").await;
    let (before, next) = (host.runs(), host.next()["digest"].clone());
    assert_ne!(before.as_deref(), next.as_str());
    host.stage.create_config_map("a").await;
    until(|| host.runs().as_deref() == next.as_str()).await;
    until(|| host.next().is_null()).await;
    assert!(!host.stage.plugins.join(NEXT).exists());
    host.stage.phases.stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_shadows_until_it_is_promoted_if_the_policy_says_so() {
    let stage = Stage::with(LeaseMode::None, GrantMode::Policy).await;
    grant(&stage, "shadow");
    stage.put_as("chameleon.wasm", 1, &[COUNTS]);
    let host = Followed::new(stage).await;
    let before = host.runs();
    assert!(host.next().is_null());
    host.stage.put_as("chameleon.wasm", 2, &[COUNTS, ELSEWHERE]);
    until(|| host.next()["state"] == "shadowing").await;
    host.stage.create_config_map("a").await;
    until(|| host.next()["keys"]["differing"].as_u64() >= Some(1)).await;
    assert_eq!(host.runs(), before, "it waits");
    rollout::abort(&host.stage.plugins, "chameleon").expect("one waits");
    until(|| host.next().is_null()).await;
    host.stage.put_as("chameleon.wasm", 3, &[COUNTS]);
    until(|| host.next()["state"] == "shadowing").await;
    let next = host.next()["digest"].clone();
    assert_eq!(host.runs(), before, "the aborted version is gone, and this one waits");
    rollout::promote(&host.stage.plugins, "chameleon", next.as_str()).expect("one waits");
    until(|| host.runs().as_deref() == next.as_str() && host.next().is_null()).await;
    host.stage.phases.stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_file_is_promoted_on_agreement_even_across_a_restart() {
    let stage = Stage::with(LeaseMode::None, GrantMode::Policy).await;
    grant(&stage, "shadow");
    // The directory is in the state that an earlier host has left.
    let current = stage.put_as("chameleon.current.wasm", 1, &[COUNTS]);
    stage.put_as("chameleon.wasm", 2, &[COUNTS]);
    let host = Followed::new(stage).await;
    until(|| host.next()["state"] == "shadowing").await;
    let next = host.next()["digest"].clone();
    assert_ne!(host.runs().as_deref(), next.as_str(), "what ran before runs again");
    grant(&host.stage, "{strategy: shadow, promoteAfter: {calls: 3, time: 0s}}");
    host.stage.create_config_map("a").await;
    until(|| host.runs().as_deref() == next.as_str() && host.next().is_null()).await;
    let [own, current] =
        [host.stage.plugins.join("chameleon.wasm"), current].map(|path| std::fs::read(path).expect("there"));
    assert!(own == current);
    host.stage.phases.stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadow_that_traps_does_no_harm() {
    let stage = Stage::new().await;
    stage.put(1);
    stage.put_as(NEXT, 2, &[TRAPS]);
    let host = Followed::new(stage).await;
    until(|| host.next()["state"] == "shadowing").await;
    let (before, panics) = (host.runs(), host.stage.host.panics.snapshot());
    for name in ["a", "b", "c", "d", "e", "f"] {
        host.stage.create_config_map(name).await;
    }
    until(|| host.calls("differing") >= 6).await;
    let differing = host.next()["differing"].to_string();
    assert!(differing.contains("the call") && differing.contains("done → traps"), "{differing}");
    assert_eq!((host.runs(), host.stage.host.panics.snapshot()), (before, panics));
    let shown = host.stage.host.status.to_json();
    assert_eq!(shown["plugins"][0]["rejected"], Value::Null, "the rejected version says nothing about the running one");
    host.stage.phases.stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_watches_otherwise_waits_and_says_so() {
    let stage = Stage::new().await;
    stage.put(1);
    stage.put_as(NEXT, 2, &[WIDE]);
    let host = Followed::new(stage).await;
    until(|| host.next()["state"] == "waiting").await;
    let why = host.next()["reason"].to_string();
    assert!(why.contains("cannot be shadowed: it watches") && why.contains("primary"), "{why}");
    host.stage.put(2);
    std::fs::copy(host.stage.plugins.join("chameleon.wasm"), host.stage.plugins.join(NEXT)).expect("copied");
    until(|| host.next()["reason"].to_string().contains("the same as")).await;
    host.stage.phases.stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_file_that_does_not_load_is_not_kept_and_the_next_one_runs() {
    let stage = Stage::with(LeaseMode::None, GrantMode::Policy).await;
    grant(&stage, "shadow");
    std::fs::write(stage.plugins.join("chameleon.wasm"), "no plugin").expect("it can be written");
    let host = Followed::begin(stage);
    until(|| host.stage.host.status.plugin("chameleon").phase() == PluginPhase::NotLoaded).await;
    let current = host.stage.plugins.join("chameleon.current.wasm");
    assert!(!current.exists(), "it could not run");
    let own = host.stage.put(1);
    until(|| host.stage.works()).await;
    assert!(std::fs::read(&own).expect("it is there") == std::fs::read(&current).expect("it was kept before it ran"));
    host.stage.phases.stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_file_that_cannot_be_kept_runs_once_it_can() {
    let stage = Stage::with(LeaseMode::None, GrantMode::Policy).await;
    grant(&stage, "shadow");
    // A directory in its place cannot be replaced.
    let current = stage.plugins.join("chameleon.current.wasm");
    std::fs::create_dir(&current).expect("it can be made");
    stage.put(1);
    let host = Followed::begin(stage);
    until(|| host.stage.host.status.plugin("chameleon").phase() == PluginPhase::NotLoaded).await;
    let why = host.stage.host.status.plugin("chameleon").reason().unwrap_or_default();
    assert!(why.contains("cannot be kept as chameleon.current.wasm"), "{why}");
    std::fs::remove_dir(&current).expect("it is empty");
    grant(&host.stage, "{strategy: shadow}");
    until(|| host.stage.works()).await;
    assert!(current.is_file());
    host.stage.phases.stop.cancel();
}
