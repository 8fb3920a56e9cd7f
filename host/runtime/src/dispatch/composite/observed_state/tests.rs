//! The objects around a parent, in a cache that is filled from the embedded API server.

use windlass_apiserver::{ApiServer, Config};
use windlass_core::budget::fair::CpuPermit;
use windlass_core::cache::mapping::PrimaryKind;
use windlass_core::cache::watch::WatchSpec;
use windlass_kube::client::{self, ConnectOptions};
use windlass_kube::{Discovery, Informers};

use super::*;

const OBSERVED_OBJECTS: usize = 40;

/// Objects that name a primary in a field, large enough that parsing them all takes a while.
async fn serving() -> ApiServer {
    let server = ApiServer::start(Config::default()).await.expect("loopback");
    let client = connected(&server).await;
    let beside = "x".repeat(64 << 10);
    for number in 0..OBSERVED_OBJECTS {
        let body = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("of-shop-{number}")},
            "data": {"for": "shop", "beside": beside},
        });
        let request = http::Request::post("/api/v1/namespaces/default/configmaps")
            .header("content-type", "application/json")
            .body(body.to_string().into_bytes());
        let created: Value = client.request(request.expect("a request")).await.expect("it is created");
        assert_eq!(created["kind"], "ConfigMap");
    }
    server
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
    let informers = Informers::new(client.clone(), Discovery::new(client));
    let spec = WatchSpec::all(ObjectKind::new("v1", "ConfigMap"));
    let mut subscription = informers.subscribe(spec.clone());
    while subscription.store().len() < OBSERVED_OBJECTS {
        subscription.next().await;
    }
    let store = subscription.store().clone();
    let route = Route {
        kind: spec.kind.clone(),
        watch: None,
        mapping: Mapping::Field("/data/for".into()),
        predicates: [].into(),
        deletions: true,
        primary: PrimaryKind { kind: ObjectKind::new("apps.kubedojo.io/v1beta1", "WebApp"), namespaced: true },
    };
    let example = store.get(&ObjectKey::namespaced("default", "of-shop-0")).expect("it is cached");
    let header =
        windlass_core::object::Header { key: ObjectKey::namespaced("default", "shop"), ..example.header.clone() };
    let related = RelatedWatch { route, watches: vec![Readable { spec, store, indexes: vec![] }] };
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
