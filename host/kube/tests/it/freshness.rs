//! Tests each way of proving that a cache is fresh, with scripted answers.

use std::time::Duration;

use futures::future::join3;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use windlass_core::cache::freshness::{Evidence, Proof};
use windlass_core::cache::watch::WatchSpec;
use windlass_kube::{Discovery, Informers, ListReason, Subscription};

use crate::informer::events;
use crate::script::{Asked, Reply, Script, line, list, pod, pods};

/// A server with comparable versions.
fn comparable() -> Script {
    server("36")
}

/// A server whose versions cannot be compared.
fn incomparable() -> Script {
    server("34")
}

fn server(minor: &str) -> Script {
    let version = json!({"major": "1", "minor": minor, "gitVersion": format!("v1.{minor}.0")});
    let own = Reply::Json(200, json!({"spec": {}}));
    Script::default()
        .answers("/version", Reply::Json(200, version))
        .answers("/apis/apiregistration.k8s.io/v1/apiservices/v1.", own.clone())
        .answers("/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com", own)
}

fn bookmark(version: u32) -> String {
    line("BOOKMARK", &json!({"kind": "Pod", "metadata": {"resourceVersion": version.to_string()}}))
}

fn silent() -> Reply {
    Reply::Open(Vec::new())
}

fn informers(script: &Script) -> Informers {
    let client = script.client();
    Informers::new(client.clone(), Discovery::new(client).compare_versions(true))
}

/// Informers, and a subscription to `spec` that has received its first list.
async fn synced(script: &Script, spec: &WatchSpec) -> (Informers, Subscription) {
    let informers = informers(script);
    let subscription = informers.subscribe(spec.clone());
    assert!(subscription.synced().await);
    (informers, subscription)
}

async fn proof(informers: &Informers, spec: &WatchSpec) -> Proof {
    timeout(Duration::from_hours(1), informers.prove(spec)).await.expect("it ends")
}

/// The lists after the informer's first one.
fn later_lists(script: &Script) -> Vec<Asked> {
    let lists = script.asked().into_iter().filter(|asked| asked.parameter("watch").is_none());
    lists.filter(|asked| asked.parameter("limit").is_some()).skip(1).collect()
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_where_the_server_is_needs_no_probe() {
    let script = comparable().lists([list(10, &[pod("a", "u", 5)]), list(10, &[])]);
    let (informers, _subscription) = synced(&script, &pods()).await;
    assert_eq!(proof(&informers, &pods()).await, Proof::Proven(Evidence::Reached));
    let [newest] = &*later_lists(&script) else { panic!("{:?}", script.asked()) };
    assert_eq!((newest.parameter("limit"), newest.parameter("resourceVersion")), (Some("1"), None));
    assert!(newest.accept.contains("PartialObjectMetadataList") && newest.user_agent.starts_with("windlass/"));
    assert_eq!(script.watches_asked().len(), 1, "the informer's own");
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_of_a_probe_proves_a_quiet_cache() {
    let spec = WatchSpec { label_selector: Some("app=shop".parse().expect("a selector")), ..pods() };
    let script =
        comparable().lists([list(10, &[]), list(20, &[])]).watches([silent(), Reply::Open(vec![bookmark(20)])]);
    let (informers, subscription) = synced(&script, &spec).await;
    assert_eq!(proof(&informers, &spec).await, Proof::Proven(Evidence::Probed));
    let [_, probe] = &*script.watches_asked() else { panic!("{:?}", script.asked()) };
    let parameters = ["resourceVersion", "timeoutSeconds", "allowWatchBookmarks", "labelSelector"];
    let asked = parameters.map(|name| probe.parameter(name));
    assert_eq!(asked, [Some("10"), Some("3"), Some("true"), Some("app%3Dshop")]);
    assert!(probe.accept.contains("PartialObjectMetadata;") && probe.user_agent.starts_with("windlass/"));
    assert_eq!(later_lists(&script)[0].parameter("labelSelector"), None, "any object will do");
    assert_eq!(subscription.store().version(), Some("10".into()), "a probe moves nothing");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_a_probe_shows_must_be_in_the_cache() {
    let shows = |version| Reply::Open(vec![line("ADDED", &pod("b", "v", version)), bookmark(20)]);
    // The informer's own watch delivers the Pod `b` while the probe runs.
    let late = Reply::Slow(Duration::from_secs(1), line("ADDED", &pod("b", "v", 15)));
    let script = comparable().lists([list(10, &[]), list(20, &[])]).watches([late, shows(15)]);
    let (informers, _subscription) = synced(&script, &pods()).await;
    assert_eq!(proof(&informers, &pods()).await, Proof::Proven(Evidence::Probed));
    // The watch never delivers the Pod `b`, so the cache lists again.
    let script = comparable().lists([list(10, &[]), list(20, &[]), list(20, &[pod("b", "v", 15)])]).watches([
        silent(),
        shows(15),
        shows(15),
    ]);
    let (informers, mut subscription) = synced(&script, &pods()).await;
    assert_eq!(proof(&informers, &pods()).await, Proof::Proven(Evidence::Listed));
    assert_eq!(events(&mut subscription, 1).await, ["b@15"]);
    assert_eq!(script.watches_asked().len(), 4, "of the informer, two probes, and the informer again");
}

#[tokio::test(start_paused = true)]
async fn without_probe_events_the_cache_is_compared_with_a_list() {
    let spec = WatchSpec { label_selector: Some("app=shop".parse().expect("a selector")), ..pods() };
    let script = comparable()
        .lists([list(10, &[pod("a", "u", 5)]), list(20, &[]), list(20, &[pod("a", "u", 5)])])
        .watches([silent(), Reply::Closed(Vec::new())]);
    let (informers, _subscription) = synced(&script, &spec).await;
    assert_eq!(proof(&informers, &spec).await, Proof::Proven(Evidence::Compared));
    assert_eq!(script.watches_asked().len(), 2, "the informer's, and one probe");
    let [_, compared] = &*later_lists(&script) else { panic!("{:?}", script.asked()) };
    assert_eq!(compared.parameter("labelSelector"), Some("app%3Dshop"));
    assert_eq!((compared.parameter("limit"), compared.parameter("resourceVersion")), (Some("500"), None));
    assert!(compared.accept.contains("PartialObjectMetadataList"));
}

#[tokio::test(start_paused = true)]
async fn a_probe_without_an_end_times_out() {
    let changes = (11..12_000).map(|version| line("MODIFIED", &pod("b", "v", version)));
    for endless in [silent(), Reply::Open(changes.collect())] {
        let script =
            comparable().lists([list(10, &[]), list(20_000, &[]), list(20_000, &[])]).watches([silent(), endless]);
        let (informers, _subscription) = synced(&script, &pods()).await;
        let began = Instant::now();
        assert_eq!(proof(&informers, &pods()).await, Proof::Proven(Evidence::Compared));
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_differs_from_a_list_is_listed_again() {
    let items = [pod("a", "u", 5), pod("b", "v", 15)];
    for first in [vec![], vec![pod("a", "w", 5)], vec![pod("a", "u", 4)], vec![pod("a", "u", 5), pod("c", "x", 6)]] {
        let script = incomparable().lists([list(10, &first), list(20, &items)]);
        let (informers, subscription) = synced(&script, &pods()).await;
        assert_eq!(proof(&informers, &pods()).await, Proof::Proven(Evidence::Listed), "{first:?}");
        assert_eq!(subscription.store().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn versions_that_do_not_compare_are_compared_as_a_whole() {
    let script = incomparable().lists([list(10, &[pod("a", "u", 5)]), list(20, &[pod("a", "u", 5)])]);
    let (informers, _subscription) = synced(&script, &pods()).await;
    assert_eq!(proof(&informers, &pods()).await, Proof::Proven(Evidence::Compared));
    assert_eq!((later_lists(&script).len(), script.watches_asked().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_proof_waits_for_the_first_list_and_outlasts_errors() {
    let failure = || Reply::Json(503, json!({"message": "not now"}));
    let script = comparable().lists([failure(), list(10, &[]), failure(), failure(), list(20, &[])]).watches([
        silent(),
        Reply::Json(500, json!({"message": "not now"})),
        Reply::Open(vec![bookmark(20)]),
    ]);
    let informers = informers(&script);
    let _subscription = informers.subscribe(pods());
    // The proof waits for the first list, even if it began before the proof. A list proves more than a probe.
    let proven = proof(&informers, &pods()).await;
    assert!(matches!(proven, Proof::Proven(Evidence::Listed)), "{proven:?}");
    assert_eq!(proof(&informers, &pods()).await, Proof::Proven(Evidence::Probed));
}

#[tokio::test(start_paused = true)]
async fn a_version_that_has_expired_is_compared_at_once() {
    let expired = Reply::Json(410, json!({"reason": "Expired"}));
    let script = comparable().lists([list(10, &[]), list(20, &[])]).watches([silent(), expired]);
    let (informers, _subscription) = synced(&script, &pods()).await;
    assert_eq!(proof(&informers, &pods()).await, Proof::Proven(Evidence::Compared));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_went_back_is_listed_and_begins_an_epoch() {
    let script = comparable().lists([list(100, &[pod("a", "u", 90)]), list(50, &[pod("a", "u", 40)])]);
    let (informers, mut subscription) = synced(&script, &pods()).await;
    assert_eq!(proof(&informers, &pods()).await, Proof::Proven(Evidence::Listed));
    assert_eq!(events(&mut subscription, 2).await, ["+a@90", "a@90>40"]);
    assert_eq!(subscription.status().epoch, 1);
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_list_all_the_proof_lists_the_watched_objects() {
    let spec = WatchSpec { field_selector: Some("metadata.name=a".parse().expect("a selector")), ..pods() };
    let script = comparable().lists([list(10, &[]), Reply::Json(403, json!({"reason": "Forbidden"})), list(10, &[])]);
    let (informers, _subscription) = synced(&script, &spec).await;
    assert_eq!(proof(&informers, &spec).await, Proof::Proven(Evidence::Reached));
    let asked: Vec<_> =
        later_lists(&script).iter().map(|asked| asked.parameter("fieldSelector").map(str::to_owned)).collect();
    assert_eq!(asked, [None, Some("metadata.name%3Da".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn requests_during_a_proof_share_the_next_one() {
    let script = comparable().lists([list(10, &[]), list(20, &[])]).watches([
        silent(),
        Reply::Open(vec![bookmark(20)]),
        Reply::Open(vec![bookmark(20)]),
    ]);
    let (informers, _subscription) = synced(&script, &pods()).await;
    let (first, second, third) =
        join3(proof(&informers, &pods()), proof(&informers, &pods()), proof(&informers, &pods())).await;
    assert_eq!([first, second, third], [Proof::Proven(Evidence::Probed); 3]);
    assert_eq!(script.watches_asked().len(), 3, "the informer's, and two probes for three who asked");
}

#[tokio::test(start_paused = true)]
async fn a_proof_that_is_given_up_leaves_room_for_the_next() {
    let script = comparable().lists([list(10, &[]), Reply::Never, list(10, &[])]);
    let (informers, _subscription) = synced(&script, &pods()).await;
    assert!(timeout(Duration::from_secs(5), informers.prove(&pods())).await.is_err());
    assert_eq!(proof(&informers, &pods()).await, Proof::Proven(Evidence::Reached));
}

#[tokio::test(start_paused = true)]
async fn a_proof_for_an_unwatched_or_unserved_kind_is_lost() {
    let widgets = WatchSpec::all(windlass_core::object::ObjectKind::new("example.com/v1", "Widget"));
    let script = comparable().lists([list(10, &[]), Reply::Never]).watches([Reply::Closed(vec![])]);
    assert_eq!(proof(&informers(&script), &widgets).await, Proof::Lost);
    let (informers, subscription) = synced(&script, &widgets).await;
    let (proven, ()) = tokio::join!(proof(&informers, &widgets), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        script.set_widgets_missing(true);
    });
    assert_eq!(proven, Proof::Lost);
    assert!(subscription.status().gone);
}

#[tokio::test(start_paused = true)]
async fn a_forced_list_is_shared_by_all_callers_and_rate_limited() {
    let script = incomparable().lists([list(10, &[pod("a", "u", 5)]), list(20, &[pod("a", "u", 15)])]);
    let (informers, mut subscription) = synced(&script, &pods()).await;
    let began = Instant::now();
    for _ in 0..5 {
        assert!(informers.relist(&pods()));
    }
    assert_eq!(events(&mut subscription, 2).await, ["+a@5", "a@5>15"]);
    assert!(began.elapsed() >= Duration::from_secs(9), "{:?}", began.elapsed());
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(subscription.status().lists, 2);
    assert_eq!(subscription.status().lists_by_reason[ListReason::Asked as usize], 1);
    assert!(!informers.relist(&WatchSpec { namespace: Some("other".into()), ..pods() }));
}

/// How watches are answered when the server has gone back to before their version, or lags.
mod restored {
    use super::*;

    fn too_large() -> Value {
        json!({
            "kind": "Status", "code": 504, "reason": "Timeout",
            "message": "Timeout: Too large resource version: 100, current: 50",
            "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]},
        })
    }

    async fn begins_an_epoch(watches: Vec<Reply>) {
        let script =
            comparable().lists([list(100, &[pod("a", "u", 90)]), list(50, &[pod("a", "u", 40)])]).watches(watches);
        let (_informers, mut subscription) = synced(&script, &pods()).await;
        assert_eq!(events(&mut subscription, 2).await, ["+a@90", "a@90>40"]);
        assert_eq!((subscription.status().epoch, subscription.store().version()), (1, Some("50".into())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_version_that_the_server_keeps_calling_too_large_is_given_up() {
        let refused = || Reply::Json(504, too_large());
        let ended = || Reply::Open(vec![line("ERROR", &too_large())]);
        begins_an_epoch(vec![refused(), refused()]).await;
        begins_an_epoch(vec![ended(), ended()]).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_lags_once_is_not_listed() {
        let script = comparable()
            .lists([list(100, &[])])
            .watches([Reply::Json(504, too_large()), Reply::Open(vec![line("ADDED", &pod("a", "u", 101))])]);
        let (_informers, mut subscription) = synced(&script, &pods()).await;
        assert_eq!(events(&mut subscription, 1).await, ["a@101"]);
        assert_eq!(subscription.status().lists, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_with_older_versions_begins_an_epoch() {
        begins_an_epoch(vec![Reply::Open(vec![bookmark(60)])]).await;
        begins_an_epoch(vec![Reply::Open(vec![line("MODIFIED", &pod("a", "u", 60))])]).await;
        begins_an_epoch(vec![Reply::Open(vec![line("DELETED", &pod("a", "u", 60))])]).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_watch_is_not_trusted() {
        begins_an_epoch(vec![silent()]).await;
        // The server is still at the same version, so nothing happens.
        let script = comparable().lists([list(100, &[])]);
        let (_informers, subscription) = synced(&script, &pods()).await;
        tokio::time::sleep(Duration::from_mins(20)).await;
        assert_eq!(subscription.status().lists, 1);
        let looks = later_lists(&script).len();
        assert!((3..=7).contains(&looks), "{looks} small requests in twenty minutes");
    }
}

/// Measures the time of a proof on a running server, by purpose. `WINDLASS_PROOFS=30` measures 30 of each.
mod measured {
    use windlass_core::object::ObjectKind;

    use super::*;
    use crate::cluster::{Cluster, cluster, config_maps, create};

    fn rounds() -> usize {
        std::env::var("WINDLASS_PROOFS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
    }

    /// Repeatedly proves the cache of `spec` after `change`, and prints the results.
    async fn prove(what: &str, cluster: &Cluster, spec: WatchSpec, change: &str) -> Vec<Evidence> {
        let subscription = cluster.informers.subscribe(spec.clone());
        assert!(subscription.synced().await);
        let (mut evidence, mut times) = (Vec::new(), Vec::new());
        for round in 0..rounds() {
            cluster.apply(change, &round.to_string()).await;
            let began = Instant::now();
            match timeout(Duration::from_mins(2), cluster.informers.prove(&spec)).await.expect("proven in time") {
                Proof::Proven(by) => evidence.push(by),
                Proof::Lost => panic!("lost: {:?}", subscription.status()),
            }
            times.push(began.elapsed());
        }
        times.sort();
        let by = |wanted| evidence.iter().filter(|by| **by == wanted).count();
        println!(
            "{what}: {} proofs, {} reached, {} probed, {} compared, {} listed; median {:?}, most {:?}",
            times.len(),
            by(Evidence::Reached),
            by(Evidence::Probed),
            by(Evidence::Compared),
            by(Evidence::Listed),
            times[times.len() / 2],
            times[times.len() - 1],
        );
        evidence
    }

    fn selected(spec: WatchSpec, label: &str) -> WatchSpec {
        WatchSpec { label_selector: Some(label.parse().expect("a selector")), ..spec }
    }

    async fn quiet(what: &str, spec: impl Fn(&Cluster) -> WatchSpec) {
        let cluster = cluster().await;
        let spec = spec(&cluster);
        for by in prove(what, &cluster, spec, "other").await {
            assert!(matches!(by, Evidence::Probed | Evidence::Reached), "{by:?}");
        }
    }

    fn services() -> ObjectKind {
        ObjectKind::new("v1", "Service")
    }

    #[tokio::test]
    async fn a_quiet_resource_of_a_namespace_is_proven_by_a_probe() {
        quiet("quiet, namespace", |cluster| cluster.all(services())).await;
    }

    #[tokio::test]
    async fn a_quiet_resource_of_a_namespace_with_a_selector_is_proven_by_a_probe() {
        quiet("quiet, namespace, selector", |cluster| selected(cluster.all(services()), "app=shop")).await;
    }

    #[tokio::test]
    async fn a_quiet_resource_of_the_cluster_is_proven_by_a_probe() {
        let limits = ObjectKind::new("v1", "LimitRange");
        quiet("quiet, cluster", move |_| WatchSpec::all(limits.clone())).await;
    }

    #[tokio::test]
    async fn a_quiet_resource_of_the_cluster_with_a_selector_is_proven_by_a_probe() {
        let limits = ObjectKind::new("v1", "LimitRange");
        quiet("quiet, cluster, selector", move |_| selected(WatchSpec::all(limits.clone()), "app=shop")).await;
    }

    #[tokio::test]
    async fn a_change_that_the_cache_sees_proves_it() {
        let cluster = cluster().await;
        for by in prove("changed", &cluster, cluster.all(config_maps()), "seen").await {
            assert!(matches!(by, Evidence::Probed | Evidence::Reached), "{by:?}");
        }
    }

    /// The real server sends nothing on such a probe, see docs/adr/0011-freshness.md.
    #[tokio::test]
    async fn changes_that_a_selector_hides_do_not_keep_a_cache_from_being_proven() {
        let cluster = cluster().await;
        let kept = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "labels": {"app": "other"}},
        });
        cluster.write(create(&kept)).await.expect("created");
        let spec = selected(cluster.all(config_maps()), "app=other");
        let evidence = prove("hidden by a selector", &cluster, spec, "hidden").await;
        assert!(evidence.iter().all(|by| *by != Evidence::Listed), "{evidence:?}");
    }

    #[tokio::test]
    async fn changes_in_another_namespace_do_not_keep_a_cache_from_being_proven() {
        let cluster = cluster().await;
        let spec = WatchSpec { namespace: Some("default".into()), ..WatchSpec::all(config_maps()) };
        let evidence = prove("hidden by the namespace", &cluster, spec, "hidden").await;
        assert!(evidence.iter().all(|by| *by != Evidence::Listed), "{evidence:?}");
    }

    #[tokio::test]
    async fn a_forced_list_is_applied() {
        let cluster = cluster().await;
        let spec = cluster.all(config_maps());
        let subscription = cluster.informers.subscribe(spec.clone());
        assert!(subscription.synced().await);
        let before = subscription.status().lists;
        assert!(cluster.informers.relist(&spec));
        let listed = subscription.when(move |status| status.lists > before);
        timeout(Duration::from_mins(1), listed).await.expect("listed again");
    }

    /// A watch that resumes from a version that the server has not reached.
    #[tokio::test]
    async fn a_watch_from_a_future_version_is_refused_or_silent() {
        let cluster = cluster().await;
        let answer = ahead(&cluster).await;
        println!("a watch from a version yet to come: {answer}");
    }

    async fn ahead(cluster: &Cluster) -> String {
        cluster.apply("a", "1").await;
        let uri = format!(
            "/api/v1/namespaces/{}/configmaps?watch=true&allowWatchBookmarks=true&timeoutSeconds=5&resourceVersion=9000000",
            cluster.namespace
        );
        let request = http::Request::get(uri).body(kube::client::Body::empty()).expect("a request");
        match timeout(Duration::from_secs(20), cluster.connection.client.send(request)).await {
            Err(_) => "no answer".to_owned(),
            Ok(Err(error)) => format!("an error: {error}"),
            Ok(Ok(response)) => {
                let status = response.status();
                let text =
                    timeout(Duration::from_secs(20), http_body_util::BodyExt::collect(response.into_body())).await;
                let text = text.map(|body| body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned()));
                format!("{status}: {text:?}")
            }
        }
    }
}
