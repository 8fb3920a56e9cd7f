//! Tests a server whose etcd was restored, as its answers reveal it: all caches list at once, and report when they can
//! be trusted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use windlass_core::cache::watch::WatchSpec;
use windlass_core::error::ApiReason;
use windlass_core::life::lease::{ElectionAnswer, LeaseRecord, LeaseVersion};
use windlass_core::object::ObjectKind;
use windlass_core::rights::principal::{Principal, Role};
use windlass_core::write::{Operation, WriteOptions};
use windlass_kube::client::{self, Connection};
use windlass_kube::{
    CacheTrust, Discovery, InformerOptions, Informers, LeaseKind, Leases, ListReason, Subscription, Writer,
};

use crate::informer::events;
use crate::script::{Reply, Script, call, line, list, pod, pods};

/// A host's connection to a scripted server.
struct Host {
    connection: Connection,
    informers: Informers,
    is_up: Arc<AtomicBool>,
}

impl Host {
    fn new(script: &Script) -> Self {
        let is_up = Arc::new(AtomicBool::new(true));
        let connection = script.connection(&is_up);
        connection.restores.compare_leases(true);
        let options = InformerOptions {
            reachability: connection.reachability.clone(),
            restores: connection.restores.clone(),
            ..InformerOptions::default()
        };
        let discovery = Discovery::new(connection.client.clone()).compare_versions(true);
        let informers = Informers::with_options(connection.client.clone(), discovery, options);
        Self { connection, informers, is_up }
    }

    async fn subscribe(&self, spec: WatchSpec) -> Subscription {
        let subscription = self.informers.subscribe(spec);
        assert!(timeout(HOUR, subscription.synced()).await.expect("in time"));
        subscription
    }

    /// Renews a Lease; the script answers.
    async fn renew(&self, over: Option<&LeaseVersion>) -> LeaseVersion {
        let role = Principal::of_host(Role::Lease, "one".into());
        let leases = Leases::new(self.connection.client.clone(), role, "default", "main").expect("a name");
        let record = LeaseRecord { holder: "one".into(), duration: HOUR, transitions: 0, acquired: None };
        let leases = leases.reporting_to(&self.connection.restores);
        match leases.write("all", LeaseKind::Plugins, over, &record, None, HOUR).await.expect("an answer") {
            ElectionAnswer::Written { version, .. } => version,
            other => panic!("{other:?}"),
        }
    }

    /// An outage of one minute. At its end, `trust` must be lost until the server was checked.
    async fn outage(&self, trust: &CacheTrust) {
        self.is_up.store(false, Ordering::Relaxed);
        while self.connection.reachability.is_reachable() {
            client::check(&self.connection).await.expect_err("nobody answers");
        }
        sleep(Duration::from_mins(1)).await;
        assert!(!trust.is_given());
        self.is_up.store(true, Ordering::Relaxed);
        self.connection.reachability.reachable().await;
    }

    fn restores(&self) -> u64 {
        self.connection.restores.state().count
    }
}

const HOUR: Duration = Duration::from_hours(1);

fn config_maps() -> WatchSpec {
    WatchSpec::all(ObjectKind::new("v1", "ConfigMap"))
}

fn lease(version: u64) -> Reply {
    Reply::Json(200, json!({"metadata": {"name": "all", "resourceVersion": version.to_string()}}))
}

fn large(version: u64) -> Reply {
    Reply::Json(200, json!({"metadata": {"resourceVersion": version.to_string()}, "items": []}))
}

fn expired() -> Reply {
    let status = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
    Reply::Open(vec![line("ERROR", &status)])
}

fn went_back(subscription: &Subscription) -> u64 {
    subscription.status().lists_by_reason[ListReason::WentBack as usize]
}

#[tokio::test(start_paused = true)]
async fn a_renewal_of_a_lease_shows_a_restore_and_all_caches_list_at_once() {
    let script = Script::default()
        .comparable()
        .lists([list(100, &[]), list(200, &[])])
        .answers_in_turn(
            "/api/v1/pods",
            [list(100, &[pod("a", "u", 90)]), Reply::Open(vec![]), list(60, &[pod("a", "u", 40)]), Reply::Open(vec![])],
        )
        .mutations([lease(101), lease(60), lease(62)]);
    let host = Host::new(&script);
    let (mut shops, maps) = (host.subscribe(pods()).await, host.subscribe(config_maps()).await);
    let trust = host.informers.trust([&shops, &maps]);
    let first = host.renew(None).await;
    sleep(Duration::from_mins(1)).await;
    assert!(trust.is_given() && trust.lost().now_or_never().is_none());
    let began = Instant::now();
    let second = host.renew(Some(&first)).await;
    assert!(trust.lost().now_or_never().is_some(), "from the answer on");
    assert_eq!(trust.unproven().len(), 2);
    timeout(HOUR, trust.given()).await.expect("both list");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(events(&mut shops, 2).await, ["+a@90", "a@90>40"]);
    for subscription in [&shops, &maps] {
        let (lists, epoch) = (subscription.status().lists, subscription.status().epoch);
        assert_eq!((lists, epoch, went_back(subscription)), (2, 1, 1), "even where the server has overtaken the cache");
    }
    host.renew(Some(&second)).await;
    sleep(Duration::from_mins(1)).await;
    assert_eq!((shops.status().lists, host.restores()), (2, 1), "it is one restore");
}

#[tokio::test(start_paused = true)]
async fn a_list_of_one_cache_shows_a_restore_to_all() {
    let script = Script::default()
        .comparable()
        .lists([list(100, &[]), list(100, &[]), list(50, &[]), list(51, &[])])
        .watches([Reply::Open(vec![]), expired()]);
    let host = Host::new(&script);
    let (shops, maps) = (host.subscribe(pods()).await, host.subscribe(config_maps()).await);
    let trust = host.informers.trust([&shops, &maps]);
    timeout(HOUR, trust.lost()).await.expect("the second watch ends");
    timeout(HOUR, trust.given()).await.expect("both list");
    assert_eq!((shops.status().epoch, maps.status().epoch, host.restores()), (1, 1, 1));
    assert_eq!((shops.status().lists, maps.status().lists), (2, 2), "the list that showed it counts");
}

#[tokio::test(start_paused = true)]
async fn only_a_leap_of_versions_after_an_expired_watch_means_a_restore() {
    for (version, restores) in [(1_000_000_100, 1), (90_000, 0)] {
        let script = Script::default()
            .comparable()
            .lists([list(100, &[]), list(100, &[]), large(version)])
            .watches([Reply::Open(vec![]), expired()]);
        let host = Host::new(&script);
        let (shops, maps) = (host.subscribe(pods()).await, host.subscribe(config_maps()).await);
        sleep(Duration::from_secs(30)).await;
        assert_eq!(host.restores(), restores);
        assert_eq!((shops.status().epoch, maps.status().epoch), (restores, restores));
        assert_eq!((shops.status().lists, maps.status().lists), (1 + restores, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_restore_during_an_outage_is_noticed_before_any_cache_is_believed() {
    let script = Script::default().comparable().lists([list(100, &[]), list(50, &[])]);
    let host = Host::new(&script);
    let shops = host.subscribe(pods()).await;
    let trust = host.informers.trust([&shops]);
    host.outage(&trust).await;
    timeout(HOUR, trust.given()).await.expect("it lists");
    assert_eq!((shops.status().epoch, went_back(&shops), host.restores()), (1, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn one_small_request_after_an_outage_shows_that_nothing_was_restored() {
    let script = Script::default().comparable().lists([list(100, &[]), list(100, &[])]);
    let host = Host::new(&script);
    let (shops, maps) = (host.subscribe(pods()).await, host.subscribe(config_maps()).await);
    let trust = host.informers.trust([&shops, &maps]);
    let lists = || script.asked().iter().filter(|asked| asked.parameter("limit").is_some()).count();
    let before = lists();
    host.outage(&trust).await;
    let began = Instant::now();
    timeout(HOUR, trust.given()).await.expect("the server answers");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!((lists() - before, host.restores(), shops.status().lists), (1, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_asked_keeps_calls_waiting_for_ten_seconds_only() {
    let broken = Reply::Json(500, json!({"message": "storage is not ready"}));
    let script = Script::default().comparable().lists([list(100, &[]), broken]);
    let host = Host::new(&script);
    let shops = host.subscribe(pods()).await;
    let trust = host.informers.trust([&shops]);
    host.outage(&trust).await;
    let began = Instant::now();
    timeout(HOUR, trust.given()).await.expect("not for ever");
    assert!((9..=10).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_cannot_be_listed_is_doubted_alone() {
    let broken = Reply::Json(500, json!({"message": "no"}));
    let script = Script::default()
        .comparable()
        .lists([list(100, &[]), list(50, &[])])
        .answers_in_turn("/api/v1/configmaps", [list(100, &[]), Reply::Open(vec![]), broken])
        .mutations([lease(101), lease(50)]);
    let host = Host::new(&script);
    let (shops, maps) = (host.subscribe(pods()).await, host.subscribe(config_maps()).await);
    let [of_shops, of_both] = [host.informers.trust([&shops]), host.informers.trust([&shops, &maps])];
    let first = host.renew(None).await;
    host.renew(Some(&first)).await;
    timeout(HOUR, of_shops.given()).await.expect("it lists");
    timeout(HOUR, of_both.given()).await.expect_err("its other cache does not");
    assert_eq!(of_both.unproven(), ["v1 ConfigMap"]);
    let figures = host.informers.figures();
    assert_eq!(
        figures.iter().filter(|it| it.unproven).map(|it| it.watch.to_string()).collect::<Vec<_>>(),
        ["v1 ConfigMap"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_the_restored_server_lacks_delays_no_other() {
    let widgets = WatchSpec::all(ObjectKind::new("example.com/v1", "Widget"));
    let script = Script::default()
        .comparable()
        .lists([list(100, &[]), list(100, &[]), list(50, &[])])
        .mutations([lease(101), lease(50)]);
    let host = Host::new(&script);
    let (shops, widgets) = (host.subscribe(pods()).await, host.subscribe(widgets).await);
    let trust = host.informers.trust([&shops, &widgets]);
    let first = host.renew(None).await;
    script.set_widgets_missing(true);
    host.renew(Some(&first)).await;
    timeout(Duration::from_mins(1), trust.given()).await.expect("it has nothing to prove");
    assert!(widgets.status().gone);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_alternates_between_two_states_is_not_stormed() {
    let script = Script::default()
        .comparable()
        .lists([list(100, &[])])
        .mutations((0..200).flat_map(|_| [lease(101), lease(50)]));
    let host = Host::new(&script);
    let shops = host.subscribe(pods()).await;
    let mut version = host.renew(None).await;
    for _ in 0..300 {
        version = host.renew(Some(&version)).await;
        sleep(Duration::from_millis(100)).await;
    }
    assert!(host.restores() > 100, "{}", host.restores());
    assert!(shops.status().lists <= 5, "{} lists in half a minute", shops.status().lists);
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_only_calls_begun_with_relisted_caches_may_write() {
    let script = Script::default().comparable().lists([list(100, &[]), list(50, &[])]).mutations([
        lease(101),
        lease(50),
        Reply::Json(201, pod("b", "v", 51)),
    ]);
    let host = Host::new(&script);
    let shops = host.subscribe(pods()).await;
    let trust = host.informers.trust([&shops]);
    let client = host.connection.client.clone();
    let writer = Writer::new(client.clone(), Discovery::new(client)).trusting(trust.clone());
    let create = || {
        let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b", "namespace": "prod"}});
        Operation::Create { object: object.to_string(), options: WriteOptions::default() }
    };
    let first = host.renew(None).await;
    let before = Arc::new(call());
    host.renew(Some(&first)).await;
    let refused = writer.write(Arc::new(call()), create()).await.expect_err("not sent");
    assert_eq!(refused.reason, ApiReason::Conflict, "{refused}");
    assert_eq!(script.mutations_asked().len(), 2, "the renewals");
    timeout(HOUR, trust.given()).await.expect("it lists");
    let refused = writer.write(before, create()).await.expect_err("it has read what is undone");
    assert_eq!(refused.reason, ApiReason::Conflict, "{refused}");
    assert_eq!(script.mutations_asked().len(), 2, "the renewals");
    writer.write(Arc::new(call()), create()).await.expect("sent");
}
