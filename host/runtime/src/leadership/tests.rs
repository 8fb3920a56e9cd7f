//! Three replicas in one process, on the embedded API server, with timings a tenth of the default.

use std::time::Instant;

use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use tokio::runtime::Builder;
use windlass_apiserver::{ApiServer, Config};
use windlass_core::life::lease::{ElectionAnswer, Timing};
use windlass_kube::Discovery;
use windlass_kube::client::{self, ConnectOptions};

use super::*;
use crate::rejections::{JudgedAt, Rejection, RejectionVerdict, RejectionVerdicts};

const SHARED_PLUGINS: usize = 1_000;
const REPLICAS: usize = 3;
const RETRY_PERIOD: Duration = Duration::from_millis(200);
/// The bar of sixty requests a second, for a retry period of two seconds.
const REQUESTS_PER_RETRY_PERIOD_MAX: f64 = 120.0;

fn settings() -> LeaseSettings {
    LeaseSettings {
        mode: LeaseMode::Shards,
        namespace: Some("default".to_owned()),
        instance: "many".to_owned(),
        timing: Timing::new(Duration::from_secs(2), Duration::from_secs(1), RETRY_PERIOD).expect("they fit together"),
        stability: Duration::from_secs(1),
        warm_standby: false,
        threads: None,
    }
}

fn requests(server: &ApiServer) -> u64 {
    let counts = server.requests();
    counts.iter().filter(|it| it.resource == "leases.coordination.k8s.io").map(|it| it.count).sum()
}

/// A separate connection to `server`, as each process has.
async fn connected(server: &ApiServer) -> Connection {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("kubeconfig");
    std::fs::write(&path, server.kubeconfig()).expect("it can be written");
    let options = ConnectOptions { kubeconfig: Some(path), ..ConnectOptions::default() };
    client::connect(&options).await.expect("it answers")
}

/// Waits until `condition` holds.
async fn until(condition: impl Fn() -> bool) {
    let reached = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), reached).await.expect("it comes about");
}

#[test]
fn a_replica_that_has_lost_its_lease_does_not_say_that_it_runs_the_plugin() {
    let standing = |status, holder: Option<&str>, unserved| {
        let (state, why) = LeaseStanding { term: None, status, holder: holder.map(Arc::from) }.standing_by(unserved);
        (state, why.contains("me runs it"))
    };
    let stands_by = |says_runs| (ControllerState::StandingBy, says_runs);
    assert_eq!(standing(LeaseStatus::Lost, Some("me"), None), stands_by(false));
    assert_eq!(standing(LeaseStatus::NotHeld, Some("me"), None), stands_by(true));
    assert_eq!(standing(LeaseStatus::NotHeld, None, None), (ControllerState::Starting, false));
    assert_eq!(standing(LeaseStatus::NotHeld, None, Some("no replica can")), (ControllerState::Unserved, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_plugins_on_three_replicas_send_at_most_60_requests_a_second() {
    let server = ApiServer::start(Config::default()).await.expect("loopback");
    let names: Vec<String> = (0..SHARED_PLUGINS).map(|number| format!("plugin-{number}")).collect();
    let stop = CancellationToken::new();
    let mut replicas = Vec::new();
    for number in 0..REPLICAS {
        let connection = connected(&server).await;
        let informers = Informers::new(connection.client.clone(), Discovery::new(connection.client.clone()));
        let name: Arc<str> = format!("replica-{number}").into();
        let leadership = Leadership::new(settings(), &connection, &name, &stop).expect("names that can be");
        leadership.start(&informers, &Panics::default());
        let take = |plugin: &String| leadership.take(&plugin.as_str().into(), &stop, &Panics::default());
        let plugin_leases: Vec<PluginLease> = names.iter().map(take).collect();
        leadership.join();
        replicas.push((leadership, informers, plugin_leases));
    }
    let plugin_leases = || replicas.iter().map(|(.., plugin_leases)| plugin_leases);
    let held = || {
        plugin_leases()
            .map(|plugin_leases| plugin_leases.iter().filter(|plugin_lease| plugin_lease.is_held()).count())
            .collect::<Vec<_>>()
    };
    until(|| held().iter().sum::<usize>() == SHARED_PLUGINS && held().iter().all(|held| *held > 0)).await;

    let (before, since) = (requests(&server), Instant::now());
    until(|| requests(&server) >= before + 500).await;
    let periods = since.elapsed().as_secs_f64() / RETRY_PERIOD.as_secs_f64();
    #[allow(clippy::cast_precision_loss, reason = "hundreds of requests")]
    let in_a_period = (requests(&server) - before) as f64 / periods;
    println!("{in_a_period:.1} requests in a retry period; plugins by replica: {:?}", held());
    assert!(in_a_period <= REQUESTS_PER_RETRY_PERIOD_MAX, "{in_a_period}");
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_by_one_replica_is_known_to_all_until_it_is_retried() {
    let server = ApiServer::start(Config::default()).await.expect("loopback");
    let connection = connected(&server).await;
    let stop = CancellationToken::new();
    let replica = |name: &str| {
        let informers = Informers::new(connection.client.clone(), Discovery::new(connection.client.clone()));
        let leadership = Leadership::new(settings(), &connection, &name.into(), &stop).expect("names that can be");
        leadership.start(&informers, &Panics::default());
        (leadership, informers)
    };
    let (one, other) = (replica("one"), replica("other"));
    let known = |replica: &(Leadership, Informers)| replica.0.rejected().borrow().clone();
    let rejection = |digest: &str| Rejection::new(digest.into(), "it traps".into(), None);
    let verdict = |verdict| {
        let mut verdicts = RejectionVerdicts::default();
        verdicts.add(verdict);
        verdicts
    };
    let rejected = |digest| verdict(RejectionVerdict::Rejected(rejection(digest)));
    let pardoned = |digest: &str| verdict(RejectionVerdict::Pardoned { digest: digest.into(), at: JudgedAt::now() });
    other.0.publish("c", &pardoned("d3")).await.expect("the server answers");
    let lease = settings().rejected_lease();
    let there = other.0.leases.get(&lease, Duration::from_secs(5)).await.expect("the server answers");
    assert_eq!(there, ElectionAnswer::Found(None), "no replica has published anything");
    let (d1, d2) = (rejected("d1"), rejected("d2"));
    let published = tokio::join!(one.0.publish("a", &d1), other.0.publish("b", &d2));
    assert_eq!(published, (Ok(()), Ok(())));
    let both = RejectedPlugins::from([("a".into(), rejection("d1")), ("b".into(), rejection("d2"))]);
    until(|| known(&one) == both && known(&other) == both).await;
    // A replica whose file changes late pardons a digest that was rejected before.
    other.0.publish("a", &pardoned("d0")).await.expect("the server answers");
    let there = other.0.leases.get(&lease, Duration::from_secs(5)).await.expect("the server answers");
    let ElectionAnswer::Found(there) = there else { panic!("{there:?}") };
    assert_eq!(super::rejected::read(&there), both);
    other.0.publish("a", &pardoned("d1")).await.expect("the server answers");
    until(|| known(&one).len() == 1).await;
    // A replica that starts later.
    let third = replica("third");
    third.0.listed().await;
    until(|| known(&third) == RejectedPlugins::from([("b".into(), rejection("d2"))])).await;
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_released_with_its_last_plugin_and_sought_for_the_next() {
    let server = ApiServer::start(Config::default()).await.expect("loopback");
    let connection = connected(&server).await;
    let stop = CancellationToken::new();
    let informers = Informers::new(connection.client.clone(), Discovery::new(connection.client.clone()));
    // Use long terms, because a renewal may be late in a process with a thousand plugins, and the test is not about
    // that.
    let timing =
        Timing::new(Duration::from_secs(20), Duration::from_secs(10), RETRY_PERIOD).expect("they fit together");
    let settings = LeaseSettings { mode: LeaseMode::Single, timing, ..settings() };
    let leadership = Leadership::new(settings, &connection, &"one".into(), &stop).expect("names that can be");
    let panics = Panics::default();
    leadership.start(&informers, &panics);
    leadership.join();
    let (stop_a, stop_b) = (stop.child_token(), stop.child_token());
    let (a, b) = (leadership.take(&"a".into(), &stop_a, &panics), leadership.take(&"b".into(), &stop_b, &panics));
    let (of_a, of_b) = tokio::join!(a.term(), b.term());
    stop_a.cancel();
    of_a.ends.cancelled().await;
    assert!(!of_b.ends.is_cancelled(), "the other's goes on");
    drop(of_a);
    leadership.leave("a");
    // The watch shows the holder a little later.
    until(|| b.is_held()).await;
    assert!(!of_b.ends.is_cancelled());
    leadership.leave("b");
    of_b.ends.cancelled().await;
    // The lease is released once no call can write under it any more.
    let again = leadership.take(&"a".into(), &stop, &panics);
    assert!(b.is_held(), "the previous term still holds it");
    drop(of_b);
    let term = again.term().await;
    until(|| again.is_held()).await;
    assert!(term.fence.may_start(Duration::ZERO).is_ok());
    stop.cancel();
}

#[tokio::test]
async fn objects_that_are_granted_nothing_share_a_lease() {
    let server = ApiServer::start(Config::default()).await.expect("loopback");
    let (connection, stop, panics) = (connected(&server).await, CancellationToken::new(), Panics::default());
    let settings = LeaseSettings { mode: LeaseMode::PerPlugin, ..settings() };
    let leadership = Leadership::new(settings, &connection, &"one".into(), &stop).expect("names that can be");
    let leases = || leadership.slots.lock().keys().map(ToString::to_string).collect::<Vec<_>>();
    for plugin in ["a", "b"] {
        leadership.take_for_object(&plugin.into(), true, &stop, &panics);
    }
    leadership.take_for_object(&"c".into(), false, &stop, &panics);
    assert_eq!(leases(), ["windlass-many-plugin-c", "windlass-many-plugin-ungranted.objects"]);
    stop.cancel();
}

/// The test's only thread stands for the host's worker threads.
#[tokio::test]
async fn a_lease_is_renewed_while_the_hosts_own_threads_are_busy() {
    let thread = || Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a thread");
    let (of_server, of_leases) = (thread(), thread());
    let started = of_server.spawn(ApiServer::start(Config::default())).await;
    let server = started.expect("no panic").expect("loopback");
    let connection = connected(&server).await;
    let (stop, panics) = (CancellationToken::new(), Panics::default());
    let informers = Informers::new(connection.client.clone(), Discovery::new(connection.client.clone()));
    let threads = Some(of_leases.handle().clone());
    let settings = LeaseSettings { mode: LeaseMode::Single, threads, ..settings() };
    let leadership = Leadership::new(settings, &connection, &"one".into(), &stop).expect("names that can be");
    leadership.start(&informers, &panics);
    leadership.join();
    let lease = leadership.take(&"a".into(), &stop, &panics);
    let term = lease.term().await;
    let (before, since) = (requests(&server), Instant::now());
    // Two leases, each renewed once in a retry period: 20 requests take twice as long as a term lasts without renewal.
    while requests(&server) < before + 20 {
        assert!(since.elapsed() < Duration::from_mins(1), "nothing is renewed while the host's thread is busy");
        std::thread::yield_now();
    }
    assert!(!term.lost.is_cancelled() && !term.ends.is_cancelled());
    stop.cancel();
    of_leases.shutdown_background();
    of_server.shutdown_background();
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_of_a_newer_version_in_leases_are_left_alone() {
    let server = ApiServer::start(Config::default()).await.expect("loopback");
    let connection = connected(&server).await;
    let kind = GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease");
    let resource = ApiResource::from_gvk_with_plural(&kind, "leases");
    let leases = Api::<DynamicObject>::namespaced_with(connection.client.clone(), "default", &resource);
    let (note, other_form) = ("newer.windlass.dev/note", r#"{"form":2}"#);
    // This version uses all of these names except the last.
    for name in ["windlass-many-all", "windlass-many-rejected", "windlass-many-member-newer", "windlass-many-newer"] {
        let lease = serde_json::json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": name, "labels": {"windlass.dev/instance": "many", "newer.windlass.dev/label": "1"},
                "annotations": {note: "1", "rejected.windlass.dev/shop": other_form},
            },
            "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
        });
        let lease = serde_json::from_value(lease).expect("an object");
        leases.create(&PostParams::default(), &lease).await.expect("created");
    }
    let version = |lease: &DynamicObject| lease.metadata.resource_version.clone();
    let before = leases.get("windlass-many-newer").await.expect("there");

    let (stop, panics) = (CancellationToken::new(), Panics::default());
    let informers = Informers::new(connection.client.clone(), Discovery::new(connection.client.clone()));
    let settings = LeaseSettings { mode: LeaseMode::Single, ..settings() };
    let leadership = Leadership::new(settings, &connection, &"one".into(), &stop).expect("names that can be");
    leadership.start(&informers, &panics);
    leadership.join();
    let lease = leadership.take(&"webapp".into(), &stop, &panics);
    let _term = lease.term().await;
    let mut verdicts = RejectionVerdicts::default();
    verdicts.add(RejectionVerdict::Rejected(Rejection::new("d1".into(), "it traps".into(), None)));
    leadership.publish("webapp", &verdicts).await.expect("the server answers");

    let held = leases.get("windlass-many-all").await.expect("there");
    assert_eq!(held.data["spec"]["holderIdentity"], "one");
    let rejected = leases.get("windlass-many-rejected").await.expect("there");
    assert!(rejected.annotations().contains_key("rejected.windlass.dev/webapp"), "{rejected:?}");
    for lease in [&held, &rejected] {
        assert_eq!(lease.annotations()[note], "1");
        assert_eq!(lease.annotations()["rejected.windlass.dev/shop"], other_form);
        assert_eq!(lease.labels()["newer.windlass.dev/label"], "1");
    }
    let after = leases.get("windlass-many-newer").await.expect("it was not deleted");
    assert_eq!(version(&after), version(&before), "nor written");
    stop.cancel();
}
