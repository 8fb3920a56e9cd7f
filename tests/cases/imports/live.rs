//! Tests `live`: it reads the current state from the API server, whether or not a watch covers it.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use windlass_proxy::{Fault, Match, Refusal, Verb};
use windlass_tests::cluster;
use windlass_tests::probe::Lab;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use super::{all, config_map, on_both_servers, target};

on_both_servers!(
    an_object_is_read_from_the_server,
    a_list_is_read_from_the_server_by_pages,
    what_the_server_refuses_to_read,
    what_cannot_be_asked_of_the_server,
    a_page_token_that_is_too_old,
    the_kinds_that_the_server_serves,
);

fn get(target: &Value) -> Value {
    json!({"call": "live.get", "target": target})
}

fn list(conditions: &Value) -> Value {
    let mut query = json!({"kind": {"apiVersion": "v1", "kind": "ConfigMap"}, "labelSelector": "test=live"});
    for (name, value) in conditions.as_object().into_iter().flatten() {
        query[name] = value.clone();
    }
    json!({"call": "live.list", "query": query})
}

async fn with_objects(lab: &Lab) -> anyhow::Result<()> {
    for name in ["a", "b", "c"] {
        let mut object = config_map(name);
        object["metadata"]["labels"] = json!({"test": "live", "name": name});
        object["data"] = json!({"of": name});
        lab.server.objects().apply(&object).await?;
    }
    Ok(())
}

async fn an_object_is_read_from_the_server(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    with_objects(&lab).await?;
    let there = lab.server.objects().get("ConfigMap", "a").await?.expect("it is there");
    let (mut same, mut another) = (target("a"), target("a"));
    same["uid"] = there["metadata"]["uid"].clone();
    another["uid"] = json!("00000000-0000-0000-0000-000000000000");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "name": "none"});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "name": lab.server.objects().namespace()});
    let call = lab
        .run([get(&target("a")), get(&same), get(&another), get(&target("none")), get(&pod), get(&namespace)])
        .await?;
    for step in [1, 2] {
        let read = call.ok(step);
        for pointer in ["/apiVersion", "/kind", "/data", "/metadata/uid", "/metadata/resourceVersion"] {
            assert_eq!(read.pointer(pointer), there.pointer(pointer), "{pointer}");
        }
    }
    for step in [3, 4, 5] {
        assert_eq!(*call.ok(step), Value::Null);
    }
    assert_eq!(call.ok(6)["kind"], "Namespace", "of a kind that is only watched in part");
    assert_eq!(lab.sent(), 6, "each is a request, as the plugin");
    Ok(())
}

async fn a_list_is_read_from_the_server_by_pages(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    with_objects(&lab).await?;
    let namespace = lab.server.objects().namespace();
    let call = lab
        .run([
            list(&json!({"namespace": namespace, "limit": 2})),
            list(&json!({"namespace": namespace, "limit": 2, "pageToken": {"$from": "1", "pointer": "/nextToken"}})),
            list(&json!({"namespace": namespace, "labelSelector": "test=live,name in (b,c)"})),
            list(&json!({"namespace": namespace, "fieldSelector": "metadata.name=c"})),
            list(&json!({"namespace": namespace, "labelSelector": "test=none"})),
        ])
        .await?;
    let names = |step: u32| all(&call.ok(step)["items"], "/metadata/name");
    assert_eq!([names(1), names(2), names(3), names(4)], [vec!["a", "b"], vec!["c"], vec!["b", "c"], vec!["c"]]);
    assert_eq!(names(5), Vec::<&str>::new());
    assert_eq!(call.ok(2)["nextToken"], Value::Null);
    for item in call.ok(1)["items"].as_array().expect("items") {
        assert_eq!(json!([item["apiVersion"], item["kind"]]), json!(["v1", "ConfigMap"]), "also in a list");
    }
    Ok(())
}

async fn what_the_server_refuses_to_read(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let namespace = lab.server.objects().namespace().to_owned();
    let reads = || Match::verbs([Verb::Get, Verb::List]).resource("configmaps").agent("(probe@");
    let forbidden = Refusal::new(StatusCode::FORBIDDEN, "Forbidden", "configmaps is forbidden: User cannot do it");
    let timeout = Refusal::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", "request did not complete within 30s");
    let busy = Refusal::too_many_requests(Duration::from_secs(3));
    for (refusal, reason, code, retry_after) in [
        (forbidden, "forbidden", 403, Value::Null),
        (timeout, "timeout", 504, Value::Null),
        (busy, "too-many-requests", 429, json!(3000)),
        (Refusal::internal_error(), "server-error", 500, Value::Null),
        (Refusal::unavailable(), "server-error", 503, Value::Null),
    ] {
        let rule = lab.proxy.add(Fault::Refuse(refusal).on(reads()));
        let call = lab.run([get(&target("a")), list(&json!({"namespace": namespace}))]).await?;
        for (step, verb) in [(1, "get"), (2, "list")] {
            let error = call.error(step, reason);
            let whole = json!([error["code"], error["verb"], error["resource"], error["retryAfterMs"]]);
            assert_eq!(whole, json!([code, verb, "configmaps", retry_after]), "{error}");
        }
        assert_eq!(call.error(1, reason)["object"]["name"], "a");
        rule.remove();
    }
    // The connection breaks. A read changes nothing, so its outcome is never unknown.
    let rule = lab.proxy.add(Fault::Reset.on(reads()));
    let call = lab.run([get(&target("a"))]).await?;
    let _ = call.error(1, "server-error");
    rule.remove();
    Ok(())
}

async fn what_cannot_be_asked_of_the_server(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let named = |version: &str, kind: &str, name: &str| json!({"apiVersion": version, "kind": kind, "name": name});
    let mut elsewhere = target("a");
    elsewhere["namespace"] = json!("kube-system");
    let mut namespaced = named("v1", "Namespace", "a");
    namespaced["namespace"] = json!("default");
    let namespace = lab.server.objects().namespace();
    let cases = [
        (get(&target("a/b")), "invalid", "cannot be the name"),
        (get(&target("")), "invalid", "cannot be the name"),
        (get(&named("a/b/c", "ConfigMap", "a")), "invalid", "is not an apiVersion"),
        (get(&namespaced), "invalid", "cluster-scoped"),
        (get(&named("batch/v1", "Job", "a")), "not-granted", "batch/v1 Job"),
        (get(&elsewhere), "not-granted", "kube-system"),
        (get(&named("absent.windlass.dev/v1", "Thing", "a")), "not-found", "absent.windlass.dev/v1 Thing"),
        (list(&json!({"namespace": namespace, "limit": 0})), "invalid", "limit"),
        (list(&json!({"namespace": namespace, "labelSelector": "a in (b"})), "invalid", "a in (b"),
        (list(&json!({"namespace": "A/b"})), "invalid", "namespace"),
        (list(&json!({"namespace": "kube-system"})), "not-granted", "kube-system"),
    ];
    let call = lab.run(cases.iter().map(|(step, ..)| step.clone())).await?;
    for (number, (step, reason, words)) in cases.iter().enumerate() {
        let error = call.error(number + 1, reason);
        assert!(error["message"].to_string().contains(words), "{words:?} is not in {error}: {step}");
    }
    assert_eq!(lab.sent(), 0, "{:?}", lab.proxy.requests());
    Ok(())
}

async fn a_page_token_that_is_too_old(kind: Kind) -> anyhow::Result<()> {
    // This needs its own cluster: etcd drops old versions after a second or two, which other tests may need.
    let cluster = match kind {
        Kind::Embedded => None,
        Kind::Real => Some(cluster::start(&["--apiserver-args=--etcd-compaction-interval=1s"])?),
    };
    let server = match &cluster {
        None => Server::start(kind).await?,
        Some(cluster) => Server::join(cluster).await?,
    };
    let lab = Lab::on(server, &[]).await?;
    with_objects(&lab).await?;
    let namespace = lab.server.objects().namespace().to_owned();
    let first = lab.run([list(&json!({"namespace": namespace, "limit": 1}))]).await?;
    let token = first.ok(1)["nextToken"].clone();
    assert!(token.is_string());
    if let Some(embedded) = lab.server.embedded() {
        embedded.compact();
    }
    until("the token is too old", || async {
        let next = list(&json!({"namespace": namespace, "limit": 1, "pageToken": token}));
        let call = lab.run([next]).await?;
        anyhow::ensure!(call.steps[0].answer.is_err(), "not yet");
        assert_eq!(call.error(1, "expired")["code"], 410);
        Ok(())
    })
    .await
}

async fn the_kinds_that_the_server_serves(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let only = ["Probe", "Deployment", "Pod", "ConfigMap"];
    let call = lab.run([json!({"call": "live.kinds", "only": only})]).await?;
    let listed = call.ok(1);
    let [maps, pods, deployments, probes] = &**listed.as_array().expect("a list") else {
        panic!("each kind once: {listed}");
    };
    // By group and kind.
    let place = |it: &Value| format!("{} {}", it["apiVersion"], it["kind"]).replace('"', "");
    let places = [maps, pods, deployments, probes].map(place);
    assert_eq!(places, ["v1 ConfigMap", "v1 Pod", "apps/v1 Deployment", "probe.windlass.dev/v1 Probe"]);
    assert_eq!(json!([maps["served"]["resource"], maps["served"]["namespaced"]]), json!(["configmaps", true]));
    assert!(maps["served"]["verbs"].to_string().contains("deletecollection"), "{maps}");
    assert!(deployments["served"]["subresources"].to_string().contains("scale"), "{deployments}");
    assert_eq!(lab.sent(), 0, "the host asks, for all plugins");
    Ok(())
}
