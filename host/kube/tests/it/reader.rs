use serde_json::{Value, json};
use windlass_core::cache::watch::WatchSpec;
use windlass_core::call::ports::{CallContext, ListPage, ListQuery, Reads as _};
use windlass_core::error::ApiReason;
use windlass_core::object::{ObjectKey, ObjectKind, ObjectRef};
use windlass_core::rights::grants::{Forbidden, Grants, Rule};
use windlass_kube::{Discovery, Informers, Readable, Reader, Subscription};

use crate::script::{Script, call, call_with, cluster_call, key, list, pod, pods};

/// A reader of the Pods `a` to `e` in `prod`, of which `shop` controls `b` and `d`, and the objects that keep it alive.
async fn reader() -> (Reader, Subscription, Informers) {
    let items: Vec<_> = "abcde".chars().map(|name| with_owner(&name.to_string())).collect();
    subscribed(pods(), &items).await
}

async fn subscribed(spec: WatchSpec, items: &[Value]) -> (Reader, Subscription, Informers) {
    let client = Script::default().lists([list(10, items)]).client();
    let informers = Informers::new(client.clone(), Discovery::new(client));
    let subscription = informers.subscribe(spec.clone());
    subscription.synced().await;
    (Reader::new(vec![readable(spec, &subscription)]), subscription, informers)
}

fn readable(spec: WatchSpec, subscription: &Subscription) -> Readable {
    Readable { spec, store: subscription.store().clone(), indexes: vec![] }
}

fn with_owner(name: &str) -> Value {
    let mut pod = pod(name, &format!("u-{name}"), 5);
    pod["metadata"]["labels"] = json!({"name": name});
    if ["b", "d"].contains(&name) {
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "shop", "uid": "u-shop", "controller": true}]);
    }
    pod
}

fn target(name: &str, uid: Option<&str>) -> ObjectRef {
    ObjectRef { kind: ObjectKind::new("v1", "Pod"), key: key(name), uid: uid.map(Into::into) }
}

fn query() -> ListQuery {
    ListQuery {
        kind: ObjectKind::new("v1", "Pod"),
        namespace: None,
        label_selector: None,
        index: None,
        owned: false,
        fields: None,
        limit: 100,
        max_bytes: None,
        page_token: None,
    }
}

fn names(page: &ListPage) -> Vec<String> {
    let name = |text: &str| serde_json::from_str::<Value>(text).expect("JSON")["metadata"]["name"].clone();
    page.items.iter().map(|text| name(text).as_str().expect("a name").to_owned()).collect()
}

fn listed(reader: &Reader, query: &ListQuery) -> Vec<String> {
    names(&reader.list(&call(), query).expect("a page"))
}

#[tokio::test(start_paused = true)]
async fn an_object_is_found_unless_another_incarnation_is_meant() {
    let (reader, _subscription, _informers) = reader().await;
    let get = |target: &ObjectRef| reader.get(&call(), target, None).expect("covered").is_some();
    assert!(get(&target("a", None)));
    assert!(get(&target("a", Some("u-a"))));
    assert!(!get(&target("a", Some("older"))));
    assert!(!get(&target("z", None)));
}

#[tokio::test(start_paused = true)]
async fn a_name_without_namespace_is_beside_the_primary() {
    let (reader, _subscription, _informers) = reader().await;
    let target = ObjectRef { key: ObjectKey::cluster("a"), ..target("a", None) };
    assert!(reader.get(&call(), &target, None).expect("covered").is_some());
    let error = reader.get(&cluster_call(), &target, None).expect_err("no namespace gives a default");
    assert_eq!(error.reason, ApiReason::Invalid);
    assert!(error.message.contains("v1 Pod is namespaced, but no namespace is given"), "{}", error.message);
}

#[tokio::test(start_paused = true)]
async fn several_watches_of_a_kind_are_read_as_one() {
    let client = Script::default()
        .comparable()
        .lists([list(10, &[pod("a", "u", 5), pod("b", "v", 6)]), list(20, &[pod("a", "u", 15)])]);
    let client = client.client();
    let informers = Informers::new(client.clone(), Discovery::new(client).compare_versions(true));
    let (wide, narrow) = (pods(), WatchSpec { label_selector: Some("x".parse().expect("a selector")), ..pods() });
    let mut watches = Vec::new();
    let mut subscriptions = Vec::new();
    for spec in [wide, narrow] {
        let subscription = informers.subscribe(spec.clone());
        subscription.synced().await;
        watches.push(readable(spec, &subscription));
        subscriptions.push(subscription);
    }
    let reader = Reader::new(watches);
    assert_eq!(listed(&reader, &query()), ["a", "b"]);
    let text = reader.get(&call(), &target("a", None), None).expect("covered").expect("there");
    assert!(text.contains("\"15\""), "the later state: {text}");
}

#[tokio::test(start_paused = true)]
async fn the_watch_that_keeps_managed_fields_is_read_first() {
    let mut managed = pod("a", "u", 5);
    managed["metadata"]["managedFields"] = json!([{"manager": "kubectl"}]);
    let client = Script::default().lists([list(10, &[managed])]).client();
    let informers = Informers::new(client.clone(), Discovery::new(client));
    let (mut watches, mut subscriptions) = (Vec::new(), Vec::new());
    for spec in [pods(), WatchSpec { managed_fields: true, ..pods() }] {
        let subscription = informers.subscribe(spec.clone());
        subscription.synced().await;
        watches.push(readable(spec, &subscription));
        subscriptions.push(subscription);
    }
    let text = Reader::new(watches).get(&call(), &target("a", None), None).expect("covered").expect("there");
    assert!(text.contains("kubectl"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_list_is_filtered() {
    let (reader, _subscription, _informers) = reader().await;
    assert_eq!(listed(&reader, &query()), ["a", "b", "c", "d", "e"]);
    assert_eq!(listed(&reader, &ListQuery { owned: true, ..query() }), ["b", "d"]);
    let selected = ListQuery { label_selector: Some("name in (a,d)".into()), ..query() };
    assert_eq!(listed(&reader, &selected), ["a", "d"]);
    assert_eq!(listed(&reader, &ListQuery { owned: true, ..selected.clone() }), ["d"]);
    assert_eq!(listed(&reader, &ListQuery { namespace: Some("prod".into()), ..selected }), ["a", "d"]);
    assert!(listed(&reader, &ListQuery { namespace: Some("test".into()), ..query() }).is_empty());
    let gone = CallContext { primary: None, ..call() };
    assert!(reader.list(&gone, &ListQuery { owned: true, ..query() }).expect("a page").items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn pages_follow_each_other_without_gap_or_repetition() {
    let (reader, _subscription, _informers) = reader().await;
    let small = ListQuery { max_bytes: Some(1), ..query() };
    for first in [ListQuery { limit: 2, ..query() }, small, ListQuery { owned: true, limit: 1, ..query() }] {
        let expected = listed(&reader, &ListQuery { limit: 100, max_bytes: None, ..first.clone() });
        let (mut query, mut found) = (first, Vec::new());
        loop {
            let page = reader.list(&call(), &query).expect("a page");
            assert!(!page.items.is_empty());
            found.extend(names(&page));
            match page.next_token {
                Some(token) => query.page_token = Some(token),
                None => break,
            }
        }
        assert_eq!(found, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn fields_cut_objects_down() {
    let (reader, _subscription, _informers) = reader().await;
    let fields = ["/metadata/labels".to_owned()];
    let text = reader.get(&call(), &target("b", None), Some(&fields)).expect("covered").expect("there");
    let identity = json!({"name": "b", "namespace": "prod", "uid": "u-b", "labels": {"name": "b"}});
    let object: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(object, json!({"apiVersion": "v1", "kind": "Pod", "metadata": identity}));
    let wrong = reader.get(&call(), &target("b", None), Some(&["labels".to_owned()])).expect_err("no pointer");
    assert_eq!(wrong.reason, ApiReason::Invalid);
}

#[tokio::test(start_paused = true)]
async fn only_declared_watches_are_read() {
    let spec = WatchSpec { namespace: Some("prod".into()), ..pods() };
    let (reader, _subscription, _informers) = subscribed(spec, &[pod("a", "u", 5)]).await;
    assert!(reader.get(&call(), &target("a", None), None).expect("covered").is_some());
    let elsewhere = ListQuery { namespace: Some("test".into()), ..query() };
    assert_eq!(reader.list(&call(), &elsewhere).expect_err("not covered").reason, ApiReason::NotWatched);
    let kind = ObjectKind::new("v1", "Secret");
    let secret = ObjectRef { kind: kind.clone(), ..target("a", None) };
    let error = reader.get(&call(), &secret, None).expect_err("not declared");
    assert_eq!(error.reason, ApiReason::NotWatched);
    assert!(error.message.contains("v1 Secret"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn grants_hold_for_cached_reads_too() {
    let (reader, _subscription, _informers) = reader().await;
    let rule = |verb: &str, namespaces: &[&str], names: &[&str]| {
        let owned = |list: &[&str]| list.iter().map(|item| (*item).to_owned()).collect();
        vec![Rule {
            groups: vec![String::new()],
            resources: vec!["pods".into()],
            verbs: vec![verb.into()],
            namespaces: owned(namespaces),
            names: owned(names),
            ..Rule::default()
        }]
    };
    let get = |rules, name: &str| reader.get(&call_with(rules), &target(name, None), None).map(|found| found.is_some());
    assert_eq!(get(rule("get", &[], &["a"]), "a"), Ok(true));
    assert_eq!(get(rule("get", &[], &["a"]), "b").expect_err("another name").reason, ApiReason::NotGranted);
    assert_eq!(get(rule("list", &[], &[]), "a").expect_err("another verb").reason, ApiReason::NotGranted);
    let list = |rules, query: &ListQuery| reader.list(&call_with(rules), query).map(|page| page.items.len());
    let in_prod = ListQuery { namespace: Some("prod".into()), ..query() };
    assert_eq!(list(rule("list", &[], &[]), &query()), Ok(5));
    assert_eq!(list(rule("list", &["prod"], &[]), &in_prod), Ok(5));
    assert_eq!(list(rule("list", &["prod"], &[]), &query()).expect_err("all").reason, ApiReason::NotGranted);
    assert_eq!(list(rule("list", &[], &["a"]), &in_prod).expect_err("names").reason, ApiReason::NotGranted);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_a_policy_narrowed_away_is_denied_not_unwatched() {
    let spec = WatchSpec { namespace: Some("prod".into()), ..pods() };
    let (reader, _subscription, _informers) = subscribed(spec, &[pod("a", "u", 5)]).await;
    let rule = Rule {
        groups: vec![String::new()],
        resources: vec!["pods".into()],
        verbs: vec!["get".into(), "list".into()],
        namespaces: vec!["prod".into()],
        ..Rule::default()
    };
    let call = call_with(vec![rule]);
    let elsewhere = ObjectRef { key: ObjectKey::namespaced("test", "a"), ..target("a", None) };
    assert_eq!(reader.get(&call, &elsewhere, None).expect_err("denied").reason, ApiReason::NotGranted);
    let elsewhere = ListQuery { namespace: Some("test".into()), ..query() };
    assert_eq!(reader.list(&call, &elsewhere).expect_err("denied").reason, ApiReason::NotGranted);
}

#[tokio::test(start_paused = true)]
async fn the_namespace_of_the_host_is_left_out_of_lists_of_all() {
    let (reader, _subscription, _informers) = reader().await;
    let call = call();
    assert_eq!(reader.list(&call, &query()).expect("granted").items.len(), 5);
    let forbidden = Forbidden { host_namespace: Some("prod".into()), ..Forbidden::default() };
    let grants = Grants::clone(&call.principal.grants()).without(forbidden);
    call.principal.grants.replace(grants);
    assert_eq!(reader.list(&call, &query()).expect("granted").items.len(), 0);
    assert_eq!(reader.get(&call, &target("a", None), None).expect_err("denied").reason, ApiReason::NotGranted);
}

#[tokio::test(start_paused = true)]
async fn wrong_questions_are_refused() {
    let (reader, _subscription, _informers) = reader().await;
    let reason = |query: ListQuery| reader.list(&call(), &query).expect_err("refused").reason;
    assert_eq!(reason(ListQuery { limit: 0, ..query() }), ApiReason::Invalid);
    assert_eq!(reason(ListQuery { label_selector: Some("a in".into()), ..query() }), ApiReason::Invalid);
    assert_eq!(reason(ListQuery { page_token: Some("x".into()), ..query() }), ApiReason::Expired);
    assert_eq!(reason(ListQuery { index: Some(("i".into(), "v".into())), ..query() }), ApiReason::NotWatched);
}

#[tokio::test(start_paused = true)]
async fn a_read_from_a_cache_that_is_not_filled_yet_is_an_error() {
    let client = Script::default().client();
    let informers = Informers::new(client.clone(), Discovery::new(client));
    let subscription = informers.subscribe(pods());
    let reader = Reader::new(vec![readable(pods(), &subscription)]);
    let error = reader.get(&call(), &target("a", None), None).expect_err("not filled");
    assert_eq!(error.reason, ApiReason::ServerError);
}

#[tokio::test(start_paused = true)]
async fn a_field_that_is_too_deep_is_refused() {
    let (reader, _subscription, _informers) = reader().await;
    let fields = ["/".repeat(500_000)];
    let got = reader.get(&call(), &target("a", None), Some(&fields)).expect_err("too deep");
    let listed = reader.list(&call(), &ListQuery { fields: Some(fields.to_vec()), ..query() }).expect_err("too deep");
    for error in [got, listed] {
        assert_eq!(error.reason, ApiReason::Invalid);
        assert!(error.to_string().contains("has 500000 segments, but at most 64"), "{error}");
    }
}
