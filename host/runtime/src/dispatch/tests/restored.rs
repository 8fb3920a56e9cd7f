//! A server is restored from a backup while dispatch runs: no call is made before the caches show the restored state.

use http::Uri;
use kube::api::{Api, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::json;
use windlass_apiserver::{ApiServer, Config};
use windlass_core::life::lease::{ElectionAnswer, LeaseRecord};
use windlass_core::rights::principal::{Principal, Role};
use windlass_kube::client::Connection;
use windlass_kube::{InformerOptions, LeaseKind, Leases};

use super::*;

async fn create(connection: &Connection, name: &str) {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let config_maps: Api<DynamicObject> = Api::namespaced_with(connection.client.clone(), "default", &kind);
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let object = serde_json::from_value(object).expect("an object");
    config_maps.create(&PostParams::default(), &object).await.expect("it is created");
}

/// Writes a new lease, whose version is the server's current one.
async fn acquire(connection: &Connection, lease: &str) {
    let role = Principal::of_host(Role::Lease, "one".into());
    let leases = Leases::new(connection.client.clone(), role, "default", "main").expect("a name");
    let leases = leases.reporting_to(&connection.restores);
    let limit = Duration::from_secs(5);
    let record = LeaseRecord { holder: "one".into(), duration: limit, transitions: 0, acquired: None };
    let answer = leases.write(lease, LeaseKind::Plugins, None, &record, None, limit).await.expect("an answer");
    assert!(matches!(answer, ElectionAnswer::Written { .. }), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn no_call_begins_after_a_restore_until_the_caches_show_it() {
    let server = ApiServer::in_process(&Config { seed: Some(1), ..Config::default() });
    let connection = Connection::in_process(server.service(), &Uri::from_static("http://server"));
    connection.restores.compare_leases(true);
    let discovery = Discovery::new(connection.client.clone()).compare_versions(true);
    let options = InformerOptions { restores: connection.restores.clone(), ..InformerOptions::default() };
    let informers = Informers::with_options(connection.client.clone(), discovery, options);
    create(&connection, "kept").await;
    let backup = server.snapshot();
    for name in ["x", "y", "z", "phantom"] {
        create(&connection, name).await;
    }
    let subscription = informers.subscribe(WatchSpec::all(ObjectKind::new("v1", "ConfigMap")));
    assert!(subscription.synced().await);
    let phantom = ObjectKey::namespaced("default", "phantom");
    assert!(subscription.store().get(&phantom).is_some());
    acquire(&connection, "before").await;

    let trust = informers.trust([&subscription]);
    let clock = Arc::new(SystemClock::new());
    let mut stage = Stage::with_trust(1, 8, clock, Stores::default(), Absent::ports(), trust);
    assert!(stage.is_quiet().await);
    server.restore(&backup);
    acquire(&connection, "after").await;
    stage.dispatch.keys.queue.add(key("a"));
    let began = Instant::now();
    assert!(stage.is_quiet().await, "its cache was listed just before");
    assert_eq!(stage.dispatch.keys.queue.len(), 1, "no worker takes the key");
    assert_eq!(stage.dispatch.permits.call_gate.block(), Some(CallBlock::CachesUnproven));
    assert_eq!(stage.dispatch.permits.call_gate.trust().unproven(), ["v1 ConfigMap"]);
    stage.answer("a", CallResult::Done).await;
    assert!(subscription.store().get(&phantom).is_none(), "the call came after the cache was listed again");
    assert!(began.elapsed() > Duration::from_secs(1) && began.elapsed() < Duration::from_secs(20));
    assert_eq!(stage.dispatch.permits.call_gate.block(), None);
}
