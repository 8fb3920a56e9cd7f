//! The objects around a parent, in a cache that is filled from the embedded API server.

use serde_json::json;
use windlass_apiserver::{ApiServer, Config};
use windlass_core::budget::fair::CpuPermit;
use windlass_core::cache::mapping::PrimaryKind;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::rights::principal::Principal;
use windlass_kube::client::{self, ConnectOptions};
use windlass_kube::{Discovery, Informers, Subscription};

use super::*;

const OBSERVED_OBJECTS: usize = 40;

/// Objects that name a primary in a field, large enough that parsing them all takes a while.
async fn serving() -> ApiServer {
    let server = ApiServer::start(Config::default()).await.expect("loopback");
    let client = connected(&server).await;
    let beside = "x".repeat(64 << 10);
    for number in 0..OBSERVED_OBJECTS {
        let data = json!({"for": "shop", "beside": beside});
        create(&client, json!({"name": format!("of-shop-{number}")}), data).await;
    }
    server
}

/// Creates a `ConfigMap`, and returns its UID.
async fn create(client: &kube::Client, metadata: Value, data: Value) -> Value {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    let request = http::Request::post("/api/v1/namespaces/default/configmaps")
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes());
    let created: Value = client.request(request.expect("a request")).await.expect("it is created");
    assert_eq!(created["kind"], "ConfigMap");
    created["metadata"]["uid"].clone()
}

/// A cache of `ConfigMap`s with this many objects.
async fn filled(client: &kube::Client, objects: usize) -> (Subscription, Informers, WatchSpec) {
    let informers = Informers::new(client.clone(), Discovery::new(client.clone()));
    let spec = WatchSpec::all(ObjectKind::new("v1", "ConfigMap"));
    let mut subscription = informers.subscribe(spec.clone());
    while subscription.store().len() < objects {
        subscription.next().await;
    }
    (subscription, informers, spec)
}

fn related(mapping: Mapping, primary: ObjectKind, spec: WatchSpec, store: Store) -> RelatedWatch {
    let route = Route {
        kind: spec.kind.clone(),
        watch: None,
        mapping,
        predicates: [].into(),
        code_predicate: None,
        deletions: true,
        primary: PrimaryKind { kind: primary, namespaced: true },
    };
    RelatedWatch { route, call_part: None, watches: vec![Readable { spec, store, indexes: vec![] }] }
}

#[tokio::test]
async fn any_owner_relates_objects_that_the_parent_does_not_control() {
    let server = ApiServer::start(Config::default()).await.expect("loopback");
    let client = connected(&server).await;
    let uid = create(&client, json!({"name": "shop"}), json!({})).await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "shop", "uid": uid});
    create(&client, json!({"name": "owned", "ownerReferences": [owner]}), json!({})).await;
    create(&client, json!({"name": "other"}), json!({})).await;
    let (subscription, _informers, spec) = filled(&client, 3).await;
    let store = subscription.store().clone();
    let parent = store.get(&ObjectKey::namespaced("default", "shop")).expect("it is cached");
    let mut names = Vec::new();
    for mapping in [Mapping::AnyOwner, Mapping::Owner] {
        let related = related(mapping, spec.kind.clone(), spec.clone(), store.clone());
        let found = related.of(&parent, &Stores::default(), &mut LongWork::of(&CpuPermit::default())).await;
        names.push(found.into_iter().map(|found| found.key.name.to_string()).collect::<Vec<_>>());
    }
    assert_eq!(names, [vec!["owned".to_owned()], vec![]]);
}

async fn connected(server: &ApiServer) -> kube::Client {
    let directory = tempfile::tempdir().expect("a directory");
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig()).expect("it can be written");
    let options = ConnectOptions { kubeconfig: Some(kubeconfig), ..ConnectOptions::default() };
    client::connect(&options).await.expect("it answers").client
}

#[tokio::test]
async fn scanning_all_objects_for_a_parent_yields_the_thread_in_between() {
    let server = serving().await;
    let client = connected(&server).await;
    let (subscription, _informers, spec) = filled(&client, OBSERVED_OBJECTS).await;
    let store = subscription.store().clone();
    let example = store.get(&ObjectKey::namespaced("default", "of-shop-0")).expect("it is cached");
    let header =
        windlass_core::object::Header { key: ObjectKey::namespaced("default", "shop"), ..example.header.clone() };
    let webapp = ObjectKind::new("apps.kubedojo.io/v1beta1", "WebApp");
    let related = related(Mapping::Field("/data/for".into()), webapp, spec, store);
    let (parent, primaries) = (Object::new(header, "{}"), Stores::default());
    let (mut work, mut turns) = (LongWork::of(&CpuPermit::default()), 0);
    let found = tokio::select! {
        biased;
        found = related.of(&parent, &primaries, &mut work) => found,
        () = async {
            loop {
                turns += 1;
                tokio::task::yield_now().await;
            }
        } => unreachable!(),
    };
    assert_eq!(found.len(), OBSERVED_OBJECTS);
    assert!(turns > 0, "no other task got the thread");
}

#[tokio::test]
async fn a_plugin_receives_the_part_of_its_children_that_their_watch_names() {
    let kind = |name: &str| ObjectKind::new("v1", name);
    let owned = |name: &str, call_part: Option<PointerTree>| {
        let strategy = UpdateStrategy::default();
        OwnedWatch { kind: kind(name), call_part, strategy, watches: vec![] }
    };
    let part = PointerTree::of_read(&["/data/a".to_owned()]).expect("a pointer");
    let owned = vec![owned("Secret", Some(part)), owned("ConfigMap", None)];
    let observed = ObservedState { primaries: Stores::default(), owned, related: vec![] };
    let child = |name: &str| {
        let metadata = json!({"name": "a", "uid": "u", "resourceVersion": "1", "labels": {"b": "c"}});
        json!({"apiVersion": "v1", "kind": name, "metadata": metadata, "data": {"a": "b", "c": "d"}})
    };
    let read = |name: &str| ObservedChildren::read(&kind(name), child(name).to_string().into()).expect("a child");
    let principal = Principal::of_plugin("a", "0", "test");
    let call = CallContext::detached(principal, "a", kind("Parent"), ObjectKey::namespaced("default", "shop"));
    let parts = observed.parts(&[read("Secret"), read("ConfigMap")], &call).await.expect("they are objects");
    let parts: Vec<Value> = parts.iter().map(|it| serde_json::from_str(it).expect("it is JSON")).collect();
    let cut = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "uid": "u"}, "data": {"a": "b"},
    });
    assert_eq!(parts, [cut, child("ConfigMap")]);
}
