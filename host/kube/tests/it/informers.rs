//! Tests of informers beyond a list and a watch: projections, indexes, streaming lists, budgets, removed kinds, panics.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use windlass_core::cache::watch::{Index, IndexSource, Projection, WatchEvent, WatchSpec};
use windlass_core::call::ports::{ListQuery, Reads as _};
use windlass_core::error::ApiReason;
use windlass_core::object::progress::{Progress as _, Stamp};
use windlass_kube::{Budget, Discovery, InformerOptions, Informers, Readable, Reader, SubscribeOptions, Subscription};

use crate::informer::{described, events};
use crate::script::{Reply, Script, call, key, line, list, pod, pods};

fn informers_with(script: &Script, options: InformerOptions) -> Informers {
    let client = script.client();
    Informers::with_options(client.clone(), Discovery::new(client), options)
}

fn informers(script: &Script) -> Informers {
    informers_with(script, InformerOptions::default())
}

fn text(subscription: &Subscription, name: &str) -> Value {
    let object = subscription.store().get(&key(name)).expect("in the store");
    serde_json::from_str(&object.text()).expect("JSON")
}

/// Informers that find out whether versions can be compared.
fn comparing(script: &Script) -> Informers {
    let client = script.client();
    Informers::new(client.clone(), Discovery::new(client).compare_versions(true))
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_are_asked_for_and_kept_under_the_objects_kind() {
    let partial = json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": "a", "namespace": "prod", "uid": "u", "resourceVersion": "5", "annotations": {"x": "y"}},
    });
    // A server that cannot return partial objects sends whole ones.
    let mut whole = pod("b", "v", 12);
    whole["spec"] = json!({"nodeName": "n"});
    let script = Script::default().lists([list(10, &[partial])]).watches([Reply::Open(vec![line("ADDED", &whole)])]);
    let informers = informers(&script);
    let mut subscription = informers.subscribe(WatchSpec { projection: Projection::Metadata, ..pods() });
    assert_eq!(events(&mut subscription, 2).await, ["+a@5", "b@12"]);
    let kept = text(&subscription, "a");
    assert_eq!((&kept["kind"], &kept["apiVersion"]), (&json!("Pod"), &json!("v1")));
    assert_eq!(kept["metadata"]["annotations"]["x"], "y");
    assert_eq!(text(&subscription, "b"), pod("b", "v", 12));
    let asked = script.asked();
    assert!(asked[1].accept.contains("as=PartialObjectMetadataList;g=meta.k8s.io;v=1"), "{}", asked[1].accept);
    assert!(asked[2].accept.contains("as=PartialObjectMetadata;g=meta.k8s.io;v=1"), "{}", asked[2].accept);
}

#[tokio::test(start_paused = true)]
async fn fields_outside_a_projection_are_not_kept() {
    let mut item = pod("a", "u", 5);
    item["spec"] = json!({"nodeName": "n", "containers": [{"image": "i"}]});
    item["metadata"]["labels"] = json!({"app": "web"});
    let informers = informers(&Script::default().lists([list(10, &[item])]));
    let spec = WatchSpec { projection: Projection::fields(["/spec/nodeName".into()]), ..pods() };
    let subscription = informers.subscribe(spec);
    subscription.synced().await;
    let kept = text(&subscription, "a");
    assert_eq!(kept["spec"], json!({"nodeName": "n"}));
    assert_eq!(kept["metadata"]["labels"]["app"], "web");
}

fn on_node(name: &str, version: u32, node: &str) -> Value {
    let mut pod = pod(name, "u", version);
    pod["spec"] = json!({"nodeName": node, "claims": [format!("c-{name}"), "shared"]});
    pod
}

#[tokio::test(start_paused = true)]
async fn an_index_follows_every_change_and_is_dropped_with_its_last_user() {
    let script =
        Script::default().lists([list(10, &[on_node("a", 5, "n1"), on_node("b", 6, "n1"), pod("c", "w", 7)])]).watches(
            [Reply::Open(vec![line("MODIFIED", &on_node("a", 11, "n2")), line("DELETED", &on_node("b", 12, "n1"))])],
        );
    let informers = informers(&script);
    // The first subscriber fills the store before there is an index.
    let mut first = informers.subscribe(pods());
    events(&mut first, 3).await;
    let (node, claims) = (IndexSource::Field("/spec/nodeName".into()), IndexSource::Field("/spec/claims".into()));
    let options = SubscribeOptions { indexes: vec![node.clone(), claims.clone()], ..SubscribeOptions::default() };
    let second = informers.subscribe_with(pods(), options).expect("pointers");
    let found = |source: &IndexSource, value: &str| {
        let objects = second.store().indexed(source, value);
        objects.iter().map(|object| object.header.key.name.to_string()).collect::<Vec<_>>()
    };
    events(&mut first, 2).await;
    assert_eq!(found(&node, "n1"), Vec::<String>::new());
    assert_eq!(found(&node, "n2"), ["a"]);
    assert_eq!(found(&claims, "shared"), ["a"]);
    assert_eq!(found(&claims, "c-b"), Vec::<String>::new());
    let store = second.store().clone();
    drop(second);
    assert!(store.indexed(&node, "n2").is_empty(), "nobody uses the index any more");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_lists_by_the_indexes_that_its_watches_declare() {
    let script =
        Script::default().lists([list(10, &[on_node("a", 5, "n1"), on_node("b", 6, "n2"), on_node("c", 7, "n1")])]);
    let informers = informers(&script);
    let source = IndexSource::Field("/spec/nodeName".into());
    let options = SubscribeOptions { indexes: vec![source.clone()], ..SubscribeOptions::default() };
    let subscription = informers.subscribe_with(pods(), options).expect("a pointer");
    subscription.synced().await;
    let store = subscription.store().clone();
    let indexes = vec![Index { name: "node".into(), source }];
    let reader = Reader::new(vec![Readable { spec: pods(), store, indexes }]);
    let query = |index: &str, token: Option<String>| ListQuery {
        kind: pods().kind,
        namespace: None,
        label_selector: None,
        index: Some((index.to_owned(), "n1".to_owned())),
        owned: false,
        fields: None,
        limit: 1,
        max_bytes: None,
        page_token: token,
    };
    let page = reader.list(&call(), &query("node", None)).expect("a page");
    assert!(page.items.len() == 1 && page.items[0].contains("\"a\""), "{page:?}");
    let page = reader.list(&call(), &query("node", page.next_token)).expect("a page");
    assert!(page.items.len() == 1 && page.items[0].contains("\"c\"") && page.next_token.is_none(), "{page:?}");
    let error = reader.list(&call(), &query("zone", None)).expect_err("not declared");
    assert!(error.reason == ApiReason::NotWatched && error.message.contains("zone"), "{error}");
}

fn streaming() -> InformerOptions {
    InformerOptions { streaming_lists: true, ..InformerOptions::default() }
}

fn initial_end(version: u32) -> String {
    let metadata =
        json!({"resourceVersion": version.to_string(), "annotations": {"k8s.io/initial-events-end": "true"}});
    line("BOOKMARK", &json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata}))
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_is_a_list_and_its_watch_in_one_request() {
    let script = Script::default().watches([Reply::Open(vec![
        line("ADDED", &pod("a", "u", 5)),
        line("ADDED", &pod("b", "v", 6)),
        initial_end(10),
        line("MODIFIED", &pod("a", "u", 11)),
    ])]);
    let informers = informers_with(&script, streaming());
    let mut subscription = informers.subscribe(pods());
    assert_eq!(events(&mut subscription, 3).await, ["+a@5", "+b@6", "a@5>11"]);
    assert_eq!(subscription.store().version(), Some("11".into()));
    let asked = script.watches_asked();
    assert_eq!((asked.len(), script.asked().len()), (1, 2), "discovery, and one watch");
    assert_eq!(asked[0].parameter("sendInitialEvents"), Some("true"));
    assert_eq!(asked[0].parameter("resourceVersionMatch"), Some("NotOlderThan"));
    assert_eq!(asked[0].parameter("resourceVersion"), None);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_is_invisible_until_it_is_complete() {
    let cut = Reply::Closed(vec![line("ADDED", &pod("gone", "u", 5))]);
    let script = Script::default().watches([cut]).lists([list(10, &[pod("a", "u", 9)])]);
    let informers = informers_with(&script, streaming());
    let mut subscription = informers.subscribe(pods());
    assert_eq!(events(&mut subscription, 1).await, ["+a@9"], "by pages, as the stream was cut");
    assert_eq!(subscription.store().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_object_deleted_during_a_streaming_list_is_not_in_it() {
    let script = Script::default().watches([Reply::Open(vec![
        line("ADDED", &pod("a", "u", 5)),
        line("ADDED", &pod("b", "v", 6)),
        line("DELETED", &pod("b", "v", 9)),
        initial_end(10),
    ])]);
    let informers = informers_with(&script, streaming());
    let mut subscription = informers.subscribe(pods());
    assert_eq!(events(&mut subscription, 1).await, ["+a@5"]);
    assert_eq!((subscription.store().len(), script.asked().len()), (1, 2), "discovery, and one watch");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_is_listed_in_pages() {
    let refusal = json!({"code": 422, "reason": "Invalid", "message": "sendInitialEvents is forbidden"});
    let script = Script::default().watches([Reply::Json(422, refusal)]).lists([list(10, &[pod("a", "u", 9)])]);
    let informers = informers_with(&script, streaming());
    let mut subscription = informers.subscribe(pods());
    assert_eq!(events(&mut subscription, 1).await, ["+a@9"]);
    assert!(subscription.error().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_a_server_ends_with_429_is_resumed_without_a_list() {
    let trouble =
        json!({"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "storage is (re)initializing"});
    let script = Script::default().lists([list(10, &[pod("a", "u", 5)])]).watches([
        Reply::Open(vec![line("MODIFIED", &pod("a", "u", 11)), line("ERROR", &trouble)]),
        Reply::Open(vec![line("MODIFIED", &pod("a", "u", 12))]),
    ]);
    let informers = informers(&script);
    let mut subscription = informers.subscribe(pods());
    assert_eq!(events(&mut subscription, 3).await, ["+a@5", "a@5>11", "a@11>12"]);
    assert_eq!(script.watches_asked()[1].parameter("resourceVersion"), Some("11"));
    assert_eq!(subscription.status().lists, 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_an_informer_loses_no_event() {
    let script = Script::default()
        .lists([list(10, &[pod("a", "u", 5), pod("b", "v", 6)]), list(20, &[pod("a", "u", 15)])])
        .watches([Reply::Panic]);
    let informers = informers(&script);
    let mut subscription = informers.subscribe(pods());
    assert_eq!(events(&mut subscription, 4).await, ["+a@5", "+b@6", "?b@6", "a@5>15"]);
    assert_eq!((subscription.status().panics, subscription.status().lists), (1, 2));
}

fn widgets() -> WatchSpec {
    WatchSpec::all(windlass_core::object::ObjectKind::new("example.com/v1", "Widget"))
}

fn widget(name: &str, uid: &str, version: u32) -> Value {
    let mut widget = pod(name, uid, version);
    widget["apiVersion"] = "example.com/v1".into();
    widget["kind"] = "Widget".into();
    widget
}

#[tokio::test(start_paused = true)]
async fn a_removed_kind_takes_its_objects_along_and_returns_with_new_ones() {
    let script = Script::default()
        .lists([list(10, &[widget("a", "u", 5)]), list(30, &[widget("a", "w", 25)])])
        .watches([Reply::Closed(vec![])]);
    let informers = informers(&script);
    let mut subscription = informers.subscribe(widgets());
    assert_eq!(events(&mut subscription, 1).await, ["+a@5"]);
    script.set_widgets_missing(true);
    timeout(Duration::from_hours(1), subscription.gone()).await.expect("it is noticed");
    assert_eq!(events(&mut subscription, 1).await, ["?a@5"]);
    assert!(subscription.store().is_empty() && subscription.store().resource().is_none());
    script.set_widgets_missing(false);
    // An object with another UID arrives like an object of a first list.
    assert_eq!(events(&mut subscription, 1).await, ["+a@25"]);
    assert!(!subscription.status().gone);
    assert_eq!(subscription.status().epoch, 1);
}

#[tokio::test(start_paused = true)]
async fn a_cache_knows_when_its_last_list_began() {
    for options in [InformerOptions::default(), streaming()] {
        let script = Script::default().lists([list(10, &[])]);
        let script =
            if options.streaming_lists { script.watches([Reply::Open(vec![initial_end(10)])]) } else { script };
        let informers = informers_with(&script, options);
        let before = Stamp::take();
        let subscription = informers.subscribe(pods());
        assert_eq!(subscription.store().listed(), None);
        subscription.synced().await;
        let listed = subscription.store().listed();
        assert!(Some(before) < listed && listed < Some(Stamp::take()), "{listed:?}");
    }
}

/// While a list is in progress, the store keeps its state and version.
#[tokio::test(start_paused = true)]
async fn a_version_stands_still_while_a_list_comes_in() {
    let expired = line("ERROR", &json!({"kind": "Status", "code": 410, "reason": "Expired"}));
    let first = Reply::Open(vec![line("ADDED", &pod("a", "u", 5)), initial_end(10), expired]);
    let half = Reply::Open(vec![line("ADDED", &pod("a", "u", 15))]);
    let script = Script::default().watches([first, half]);
    let informers = informers_with(&script, streaming());
    let mut subscription = informers.subscribe(pods());
    events(&mut subscription, 1).await;
    let listed = subscription.store().listed();
    timeout(Duration::from_secs(30), async {
        while script.watches_asked().len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    })
    .await
    .expect("listed again");
    assert_eq!((subscription.store().version(), subscription.store().listed()), (Some("10".into()), listed));
    let key = windlass_core::object::ObjectKey::namespaced("n", "a");
    assert!(subscription.store().get(&key).is_none_or(|pod| pod.header.version == "5".into()));
}

fn large(name: &str) -> Value {
    large_at(name, 5)
}

fn large_at(name: &str, version: u32) -> Value {
    let mut pod = pod(name, name, version);
    pod["metadata"]["annotations"] = json!({"x": "y".repeat(10_000)});
    pod
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_over_its_budget_is_stopped_and_others_continue() {
    let script = Script::default()
        .lists([list(10, &[large("a")])])
        .watches([Reply::Open(vec![line("ADDED", &large_at("b", 11)), line("MODIFIED", &pod("a", "a", 12))])]);
    let informers = informers(&script);
    let budget = Budget::new(15_000);
    let options = SubscribeOptions { budget: Some(budget.clone()), ..SubscribeOptions::default() };
    let mut poor = informers.subscribe_with(pods(), options).expect("no indexes");
    let mut rich = informers.subscribe(pods());
    assert_eq!(events(&mut rich, 3).await, ["+a@5", "b@11", "a@5>12"]);
    let excess = timeout(Duration::from_secs(1), budget.exceeded(0)).await.expect("an excess");
    assert!(excess.needed > 20_000 && excess.watch == pods() && excess.limit == 15_000, "{excess:?}");
    assert_eq!(events(&mut poor, 2).await, ["+a@5", "b@11"], "and then no more");
    assert!(poor.next().await.is_none());
    assert_eq!(budget.used(), 0, "it pays for nothing any more");
    assert_eq!(script.asked().len(), 3, "discovery, a list, a watch");
}

#[tokio::test(start_paused = true)]
async fn a_list_over_the_budget_stops_early_and_leaves_the_budget_free() {
    let page = |name: &str| {
        let metadata = json!({"resourceVersion": "10", "continue": "more"});
        Reply::Json(200, json!({"kind": "PodList", "metadata": metadata, "items": [large(name)]}))
    };
    let script = Script::default().lists([page("a"), page("b"), page("c")]);
    let informers = informers(&script);
    let budget = Budget::new(15_000);
    let options = SubscribeOptions { budget: Some(budget.clone()), ..SubscribeOptions::default() };
    let mut subscription = informers.subscribe_with(pods(), options).expect("no indexes");
    let excess = timeout(Duration::from_hours(1), budget.exceeded(0)).await.expect("an excess");
    assert!(excess.to_string().contains("v1 Pod"), "{excess}");
    assert!(!subscription.synced().await);
    assert!(subscription.next().await.is_none());
    assert_eq!(script.asked().len(), 3, "discovery and two pages");
    // A narrower watch fits into the budget.
    let narrow = Script::default().lists([list(10, &[pod("a", "u", 5)])]);
    let informers = informers_with(&narrow, InformerOptions::default());
    let options = SubscribeOptions { budget: Some(budget), ..SubscribeOptions::default() };
    let narrow = WatchSpec { label_selector: Some("app=a".parse().expect("a selector")), ..pods() };
    assert!(informers.subscribe_with(narrow, options).expect("no indexes").synced().await);
}

/// An endless list, in chunks.
fn endless(objects: usize) -> Reply {
    let begin = r#"{"kind":"PodList","metadata":{"resourceVersion":"10"},"items":["#.to_owned();
    let items = (0..objects).map(|number| format!("{},", large(&format!("p{number:03}"))));
    Reply::Open(std::iter::once(begin).chain(items).collect())
}

/// The list is stopped at most one charge after the limit.
#[tokio::test(start_paused = true)]
async fn a_list_body_is_read_only_as_far_as_the_budget_allows() {
    let expired = Reply::Json(410, json!({"reason": "Expired"}));
    let first = json!({"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [large("a")]});
    for lists in [vec![endless(200)], vec![Reply::Json(200, first), expired, endless(200)]] {
        let script = Script::default().lists(lists);
        let informers = informers(&script);
        let budget = Budget::new(1_000_000);
        let options = SubscribeOptions { budget: Some(budget.clone()), ..SubscribeOptions::default() };
        let subscription = informers.subscribe_with(pods(), options).expect("no indexes");
        // This is shorter than the time that a page may take.
        let excess = timeout(Duration::from_secs(10), budget.exceeded(0)).await.expect("before the end of the list");
        assert!(excess.needed > 1_000_000 && excess.needed < 1_300_000, "{excess:?}");
        assert!(!subscription.synced().await);
        assert_eq!(budget.used(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn no_cache_grows_beyond_the_hosts_limit() {
    let script = Script::default().lists([list(10, &[large("a")])]);
    let informers = informers_with(&script, InformerOptions { most_bytes: 5_000, ..InformerOptions::default() });
    let budget = Budget::new(usize::MAX);
    let options = SubscribeOptions { budget: Some(budget.clone()), ..SubscribeOptions::default() };
    let subscription = informers.subscribe_with(pods(), options).expect("no indexes");
    assert!(!subscription.synced().await);
    let excess = budget.exceeded(0).await;
    assert_eq!((excess.limit, excess.scope), (5_000, windlass_kube::BudgetScope::Informer));
}

/// Completes when `fits` is true for the store's size.
async fn weighs(subscription: &Subscription, fits: impl Fn(usize) -> bool) {
    let weighed = async {
        while !fits(subscription.store().bytes()) {
            tokio::time::sleep(Duration::from_mins(1)).await;
        }
    };
    timeout(Duration::from_hours(1), weighed).await.expect("packed or unpacked in time");
}

#[tokio::test(start_paused = true)]
async fn unread_objects_are_packed_and_unpack_to_the_same_text() {
    let items: Vec<_> = (0..200).map(|number| large(&format!("p{number:03}"))).collect();
    let whole = 200 * 10_000;
    let informers = informers(&Script::default().lists([list(10, &items)]));
    let mut subscription = informers.subscribe(pods());
    events(&mut subscription, 200).await;
    assert!(subscription.store().bytes() < whole / 3, "a long list is packed as it comes");
    for (object, item) in subscription.store().all().iter().zip(&items) {
        assert_eq!(serde_json::from_str::<Value>(&object.text()).expect("JSON"), *item);
    }
    weighs(&subscription, |bytes| bytes > whole).await;
    weighs(&subscription, |bytes| bytes < whole / 3).await;
    for (object, item) in subscription.store().all().iter().zip(&items) {
        assert_eq!(serde_json::from_str::<Value>(&object.text()).expect("JSON"), *item);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_older_than_the_store_begins_an_epoch() {
    let expired = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
    let script = Script::default()
        .comparable()
        .lists([list(100, &[pod("a", "u", 90)]), list(50, &[pod("a", "u", 40)])])
        .watches([Reply::Open(vec![line("ERROR", &expired)])]);
    let informers = comparing(&script);
    let mut subscription = informers.subscribe(pods());
    let first = subscription.next().await.expect("an event");
    assert!(matches!(first, WatchEvent::Applied { initial: true, .. }));
    let restored = timeout(Duration::from_hours(1), subscription.next()).await.expect("in time").expect("an event");
    assert_eq!(described(&restored), "a@90>40");
    assert_eq!((subscription.status().epoch, subscription.store().version()), (1, Some("50".into())));
}

/// While a process ends, its connections fail. A watch that went on would log these failures after the host's last
/// line.
#[tokio::test(start_paused = true)]
async fn stop_completes_after_every_watch_has_ended() {
    let informers = informers(&Script::default().lists([list(10, &[])]));
    let namespaced = |namespace: &str| WatchSpec { namespace: Some(namespace.into()), ..pods() };
    let subscriptions = ["a", "b", "c"].map(|namespace| informers.subscribe(namespaced(namespace)));
    for subscription in &subscriptions {
        subscription.synced().await;
    }
    informers.stop().await;
    for subscription in &subscriptions {
        assert!(subscription.status().stopped);
    }
}
