//! Tests servers and neighbouring plugins that behave badly.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use windlass_core::cache::watch::{Index, IndexSource, WatchSpec};
use windlass_core::call::ports::{ListQuery, Reads as _};
use windlass_core::error::ApiReason;
use windlass_kube::{Budget, Discovery, InformerOptions, Informers, Readable, Reader, SubscribeOptions, Subscription};

use crate::informer::events;
use crate::script::{Reply, Script, call, key, line, list, pod, pods};

fn informers_with(script: &Script, options: InformerOptions) -> Informers {
    let client = script.client();
    Informers::with_options(client.clone(), Discovery::new(client), options)
}

fn informers(script: &Script) -> Informers {
    informers_with(script, InformerOptions::default())
}

fn with_spec(name: &str, version: u32, spec: Value) -> Value {
    let mut pod = pod(name, "u", version);
    pod["spec"] = spec;
    pod
}

#[tokio::test(start_paused = true)]
async fn an_object_that_reads_differently_at_the_same_version_has_changed() {
    // If a CustomResourceDefinition gets another default, its objects read differently at the same version.
    let expired = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
    let script = Script::default()
        .lists([
            list(10, &[with_spec("a", 5, json!({"x": 1}))]),
            list(20, &[with_spec("a", 5, json!({"x": 1, "added": 2}))]),
        ])
        .watches([Reply::Open(vec![line("ERROR", &expired)])]);
    let informers = informers(&script);
    let mut subscription = informers.subscribe(pods());
    assert_eq!(events(&mut subscription, 2).await, ["+a@5", "a@5>5"]);
    let kept: Value = serde_json::from_str(&subscription.store().get(&key("a")).expect("kept").text()).expect("JSON");
    assert_eq!(kept["spec"]["added"], 2);
}

fn node() -> IndexSource {
    IndexSource::Field("/spec/nodeName".into())
}

fn by_node() -> ListQuery {
    ListQuery {
        kind: pods().kind,
        namespace: None,
        label_selector: None,
        index: Some(("node".to_owned(), "n".to_owned())),
        owned: false,
        fields: None,
        limit: 10,
        max_bytes: None,
        page_token: None,
    }
}

fn indexed(budget: Option<&std::sync::Arc<Budget>>) -> SubscribeOptions {
    SubscribeOptions { indexes: vec![node()], budget: budget.cloned() }
}

fn readable(subscription: &Subscription, spec: WatchSpec, indexes: &[&str]) -> Readable {
    let indexes = indexes.iter().map(|name| Index { name: (*name).into(), source: node() }).collect();
    Readable { spec, store: subscription.store().clone(), indexes }
}

#[tokio::test(start_paused = true)]
async fn an_index_dropped_with_its_suspended_plugin_is_not_an_empty_one() {
    let mut large = with_spec("b", 11, json!({"nodeName": "n"}));
    large["metadata"]["annotations"] = json!({"x": "y".repeat(10_000)});
    let script = Script::default()
        .lists([list(10, &[with_spec("a", 5, json!({"nodeName": "n"}))])])
        .watches([Reply::Open(vec![line("ADDED", &large)])]);
    let informers = informers(&script);
    let budget = Budget::new(5_000);
    let poor = informers.subscribe_with(pods(), indexed(Some(&budget))).expect("a pointer");
    let mut rich = informers.subscribe(pods());
    let reader = Reader::new(vec![readable(&poor, pods(), &["node"])]);
    assert_eq!(events(&mut rich, 2).await, ["+a@5", "b@11"]);
    // A call that was running when its plugin was suspended must not conclude that there are no objects.
    let error = reader.list(&call(), &by_node()).expect_err("the index has gone");
    assert_eq!((error.code, error.reason), (503, ApiReason::ServerError), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_index_must_be_declared_by_every_watch_that_is_asked() {
    let script = Script::default().lists([list(10, &[with_spec("a", 5, json!({"nodeName": "n"}))])]);
    let informers = informers(&script);
    let here = WatchSpec { namespace: Some("prod".into()), ..pods() };
    let there = WatchSpec { namespace: Some("test".into()), ..pods() };
    let one = informers.subscribe_with(here.clone(), indexed(None)).expect("a pointer");
    let other = informers.subscribe(there.clone());
    assert!(one.synced().await && other.synced().await);
    let reader = Reader::new(vec![readable(&one, here, &["node"]), readable(&other, there, &[])]);
    let within = |namespace: &str| ListQuery { namespace: Some(namespace.into()), ..by_node() };
    assert_eq!(reader.list(&call(), &within("prod")).expect("a page").items.len(), 1);
    for query in [by_node(), within("test")] {
        let error = reader.list(&call(), &query).expect_err("half an answer");
        assert_eq!(error.reason, ApiReason::NotWatched, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_not_suspended_when_a_neighbour_unpacks_its_objects() {
    let item = |number: u32| {
        let mut pod = pod(&format!("p{number:03}"), "u", 5);
        pod["metadata"]["annotations"] = json!({"x": "y".repeat(4_000)});
        pod
    };
    let (some, more): (Vec<_>, Vec<_>) = ((0..100).map(item).collect(), (0..100).map(item).collect());
    let script = Script::default().lists([list(10, &some), list(10, &more)]);
    let informers = informers(&script);
    let budget = Budget::new(700_000);
    let options = || SubscribeOptions { budget: Some(budget.clone()), ..SubscribeOptions::default() };
    let first = informers.subscribe_with(pods(), options()).expect("no indexes");
    assert!(first.synced().await);
    tokio::time::sleep(Duration::from_hours(1)).await;
    let here = WatchSpec { namespace: Some("prod".into()), ..pods() };
    let second = informers.subscribe_with(here, options()).expect("no indexes");
    let was_synced = second.synced().await;
    // Another plugin that shares the first cache reads it, or declares an index on it.
    let neighbour = informers.subscribe_with(pods(), indexed(None)).expect("a pointer");
    assert_eq!(neighbour.store().len(), 100);
    let excess = timeout(Duration::from_hours(1), budget.exceeded(0)).await;
    assert!(!was_synced || excess.is_err(), "suspended by a neighbour: {excess:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_ends_a_streaming_list_is_listed_in_pages() {
    // A server without support for such lists sends the existing objects and continues with changes.
    let script = Script::default()
        .lists([list(10, &[pod("a", "u", 5)])])
        .watches([Reply::Slow(Duration::from_secs(20), line("MODIFIED", &pod("a", "u", 6)))]);
    let options = InformerOptions { streaming_lists: true, ..InformerOptions::default() };
    let informers = informers_with(&script, options);
    let subscription = informers.subscribe(pods());
    assert!(timeout(Duration::from_hours(1), subscription.synced()).await.expect("in time"));
}

#[tokio::test(start_paused = true)]
async fn a_list_without_a_version_is_not_watched_from_nowhere() {
    let versionless = Reply::Json(200, json!({"kind": "PodList", "metadata": {}, "items": []}));
    let script = Script::default().lists([versionless, list(10, &[pod("a", "u", 5)])]);
    let informers = informers(&script);
    let mut subscription = informers.subscribe(pods());
    assert_eq!(events(&mut subscription, 1).await, ["+a@5"]);
    assert_eq!(subscription.status().malformed, 1);
    assert_eq!(script.watches_asked()[0].parameter("resourceVersion"), Some("10"));
}

#[tokio::test(start_paused = true)]
async fn a_late_event_does_not_bring_a_deleted_object_back() {
    let script = Script::default()
        .comparable()
        .lists([list(10, &[pod("a", "u", 5)]), list(20, &[pod("b", "w", 16)])])
        .watches([Reply::Open(vec![line("DELETED", &pod("a", "u", 15)), line("MODIFIED", &pod("a", "u", 14))])]);
    let discovery = Discovery::new(script.client()).compare_versions(true);
    let informers = Informers::new(script.client(), discovery);
    let mut subscription = informers.subscribe(pods());
    // After that, only a list can be trusted.
    assert_eq!(events(&mut subscription, 3).await, ["+a@5", "-a@15", "b@16"]);
    assert!(subscription.store().get(&key("a")).is_none());
    assert_eq!((subscription.status().malformed, subscription.status().lists), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn many_subscribers_do_not_speed_up_requests_to_a_refusing_server() {
    let script = Script::default().lists([Reply::Json(403, json!({"message": "no"}))]);
    let informers = informers(&script);
    for _ in 0..300 {
        drop(informers.subscribe(pods()));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let asked = script.asked().len();
    assert!((4..8).contains(&asked), "discovery, and {asked} requests in three seconds");
}
