//! Tests live reads of parts of objects, of subresources, of logs, and of the kinds that the cluster serves.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::call::ports::{
    CallContext, KindsQuery, LiveGet, LiveQuery, LogQuery, ServedKind, ServedQuery, View, ask,
};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::{ObjectKind, ObjectRef};
use windlass_core::rights::grants::Rule;
use windlass_kube::{Discovery, LiveBudget, LiveReader};

use crate::cluster::{cluster, config_maps, create};
use crate::live::{asked, query, reader, target};
use crate::script::{Reply, Script, call, call_with, key, pod};

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn fields(pointers: &[&str]) -> View {
    View::Fields(pointers.iter().map(|pointer| (*pointer).to_owned()).collect())
}

async fn get(script: &Script, asked: LiveGet) -> Option<Value> {
    let text = ask(&reader(script), Arc::new(call()), asked).await.expect("an answer");
    text.map(|text| json_of(&text))
}

/// The Pod `prod/a` with a container.
fn full_pod() -> Value {
    let mut full = pod("a", "u", 7);
    full["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    full["spec"] = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
    full
}

#[tokio::test(start_paused = true)]
async fn a_metadata_view_asks_the_server_for_metadata_and_keeps_the_kind() {
    let mut partial = pod("a", "u", 7);
    partial["kind"] = json!("PartialObjectMetadata");
    partial["apiVersion"] = json!("meta.k8s.io/v1");
    // The second answer is from a server that cannot return partial objects.
    for answer in [partial, full_pod()] {
        let script = Script::default().lists([Reply::Json(200, answer.clone())]);
        let asked_for = LiveGet { view: View::Metadata, ..LiveGet::whole(target("a", Some("u"))) };
        assert_eq!(get(&script, asked_for).await, Some(pod("a", "u", 7)));
        let accept = &asked(&script)[0].accept;
        assert!(accept.contains("as=PartialObjectMetadata;") && accept.ends_with(",application/json"), "{accept}");
        let page = json!({"metadata": {"resourceVersion": "9"}, "items": [answer]});
        let script = Script::default().lists([Reply::Json(200, page)]);
        let query = LiveQuery { view: View::Metadata, ..query() };
        let page = ask(&reader(&script), Arc::new(call()), query).await.expect("a page");
        assert_eq!(json_of(&page.items[0]), pod("a", "u", 7));
        assert!(asked(&script)[0].accept.contains("as=PartialObjectMetadataList;"));
    }
}

#[tokio::test(start_paused = true)]
async fn fields_are_cut_out_here_and_keep_the_identity() {
    let cut = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "prod", "uid": "u"},
        "spec": {"nodeName": "n"},
    });
    let script = Script::default().lists([Reply::Json(200, full_pod())]);
    let asked_for = LiveGet { view: fields(&["/spec/nodeName"]), ..LiveGet::whole(target("a", Some("u"))) };
    assert_eq!(get(&script, asked_for.clone()).await, Some(cut.clone()));
    assert_eq!(asked(&script)[0].accept, "application/json");
    let another = LiveGet { target: target("a", Some("older")), ..asked_for.clone() };
    assert_eq!(get(&script, another).await, None);
    let page = json!({"metadata": {"resourceVersion": "9"}, "items": [full_pod()]});
    let script = Script::default().lists([Reply::Json(200, page)]);
    let query = LiveQuery { view: fields(&["/spec/nodeName"]), ..query() };
    let page = ask(&reader(&script), Arc::new(call()), query).await.expect("a page");
    assert_eq!(json_of(&page.items[0]), cut);
    let script = Script::default();
    for wrong in ["spec", &"/".repeat(500_000)] {
        let wrong = LiveGet { view: fields(&[wrong]), ..asked_for.clone() };
        let error = ask(&reader(&script), Arc::new(call()), wrong).await.expect_err("no pointer");
        assert_eq!((error.reason, script.asked().len()), (ApiReason::Invalid, 0), "{error}");
    }
}

fn deployment(uid: Option<&str>) -> ObjectRef {
    ObjectRef { kind: ObjectKind::new("apps/v1", "Deployment"), key: key("d"), uid: uid.map(Into::into) }
}

fn rule(resource: &str) -> Vec<Rule> {
    let all = || vec!["*".to_owned()];
    vec![Rule { groups: all(), resources: vec![resource.into()], verbs: vec!["get".into()], ..Rule::default() }]
}

#[tokio::test(start_paused = true)]
async fn a_subresource_is_read_in_its_own_kind() {
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "d", "namespace": "prod", "uid": "u", "managedFields": [{"manager": "x"}]},
        "spec": {"replicas": 3},
    });
    let script = Script::default().lists([Reply::Json(200, scale)]);
    let of = |uid| LiveGet { subresource: Some("scale".into()), ..LiveGet::whole(deployment(uid)) };
    let found = get(&script, of(Some("u"))).await.expect("there");
    assert_eq!((&found["kind"], &found["spec"]["replicas"]), (&json!("Scale"), &json!(3)));
    assert!(found["metadata"].get("managedFields").is_none());
    assert_eq!(asked(&script)[0].path, "/apis/apps/v1/namespaces/prod/deployments/d/scale");
    assert_eq!(get(&script, of(Some("older"))).await, None);
    let metadata = get(&script, LiveGet { view: View::Metadata, ..of(None) }).await.expect("there");
    assert_eq!((&metadata["kind"], metadata.get("spec")), (&json!("Scale"), None));
    let missing = json!({"code": 404, "reason": "NotFound", "details": {"name": "d"}});
    assert_eq!(get(&Script::default().lists([Reply::Json(404, missing)]), of(None)).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_subresource_has_a_grant_of_its_own_and_must_be_served() {
    let answer = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}});
    let script = Script::default().lists([Reply::Json(200, answer)]);
    let get = async |resource: &str, subresource: &str| {
        let asked = LiveGet { subresource: Some(subresource.into()), ..LiveGet::whole(deployment(None)) };
        ask(&reader(&script), Arc::new(call_with(rule(resource))), asked).await.map_err(|error| error.reason)
    };
    assert_eq!(get("deployments", "scale").await, Err(ApiReason::NotGranted));
    assert!(get("deployments/scale", "scale").await.is_ok());
    assert_eq!(get("deployments/rollback", "rollback").await, Err(ApiReason::NotFound), "not served");
    let asked_for = LiveGet { subresource: Some("rollback".into()), ..LiveGet::whole(deployment(None)) };
    let error = ask(&reader(&script), Arc::new(call()), asked_for).await.expect_err("not served");
    assert_eq!(error.object, None, "{error}");
    for no_state in ["attach", "exec", "log", "portforward", "proxy"] {
        assert_eq!(get("*", no_state).await, Err(ApiReason::Invalid), "{no_state}");
    }
    assert_eq!(asked(&script).len(), 1);
}

fn log_of(target: ObjectRef) -> LogQuery {
    let limit_bytes = 10;
    LogQuery { target, container: None, previous: false, tail_lines: None, since_seconds: None, limit_bytes }
}

async fn log(script: &Script, call: CallContext, query: LogQuery) -> Result<String, ApiError> {
    ask(&reader(script), Arc::new(call), query).await
}

#[tokio::test(start_paused = true)]
async fn a_log_is_text_of_at_most_the_bytes_asked_for() {
    let script = Script::default().lists([Reply::Text(200, "a line and more than that".into())]);
    assert_eq!(log(&script, call(), log_of(target("a", None))).await.as_deref(), Ok("a line and"));
    let query = LogQuery {
        container: Some("c d".into()),
        previous: true,
        tail_lines: Some(5),
        since_seconds: Some(60),
        limit_bytes: 100,
        ..log_of(target("a", None))
    };
    assert_eq!(log(&script, call(), query).await.as_deref(), Ok("a line and more than that"));
    let asked = asked(&script);
    assert!(asked.iter().all(|asked| asked.path == "/api/v1/namespaces/prod/pods/a/log"));
    assert_eq!(asked[0].query, "limitBytes=10");
    let all = "container=c%20d&previous=true&tailLines=5&sinceSeconds=60&limitBytes=100";
    assert_eq!(asked[1].query, all);
    assert!(asked[0].user_agent.contains("(webapp@"), "{}", asked[0].user_agent);
}

#[tokio::test(start_paused = true)]
async fn a_log_needs_its_grant_and_a_pod() {
    let script = Script::default().lists([Reply::Text(200, String::new())]);
    let with = async |resource: &str, target: ObjectRef| {
        log(&script, call_with(rule(resource)), log_of(target)).await.map_err(|error| error.reason)
    };
    assert_eq!(with("pods/log", target("a", None)).await.as_deref(), Ok(""));
    assert_eq!(with("pods", target("a", None)).await, Err(ApiReason::NotGranted));
    assert_eq!(with("*", target("a", Some("u"))).await, Err(ApiReason::Invalid), "no server would test the uid");
    assert_eq!(with("deployments/log", deployment(None)).await, Err(ApiReason::NotFound), "it has none");
    let failures = [
        (json!({"code": 404, "reason": "NotFound", "details": {"name": "a"}}), ApiReason::NotFound),
        (json!({"code": 400, "reason": "BadRequest", "message": "is waiting to start"}), ApiReason::Other),
    ];
    for (status, reason) in failures {
        let code = u16::try_from(status["code"].as_u64().expect("a code")).expect("a small one");
        let script = Script::default().lists([Reply::Json(code, status)]);
        let error = log(&script, call(), log_of(target("a", None))).await.expect_err("no log");
        assert_eq!((error.reason, error.code), (reason, code), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_plugin_may_ask_which_kinds_are_served_within_its_budget() {
    let script = Script::default();
    let client = script.client();
    let reader = LiveReader::new(client.clone(), Discovery::new(client), LiveBudget { per_second: 1, burst: 3 });
    let served = async |kind: ObjectKind| ask(&reader, Arc::new(call_with(Vec::new())), ServedQuery { kind }).await;
    let deployments = ServedKind {
        resource: "deployments".to_owned(),
        namespaced: true,
        verbs: ["get", "list", "watch", "create"].map(str::to_owned).to_vec(),
        subresources: ["status", "scale"].map(str::to_owned).to_vec(),
    };
    assert_eq!(served(ObjectKind::new("apps/v1", "Deployment")).await, Ok(Some(deployments)));
    script.set_widgets_missing(true);
    assert_eq!(served(ObjectKind::new("example.com/v1", "Widget")).await, Ok(None), "no such group");
    assert_eq!(served(ObjectKind::new("apps/v1", "Widget")).await, Ok(None), "no such kind");
    let error = served(ObjectKind::new("v1", "Pod")).await.expect_err("the budget is spent");
    assert_eq!((error.reason, error.verb), (ApiReason::TooManyRequests, "served"));
}

#[tokio::test(start_paused = true)]
async fn all_kinds_are_listed_once_by_group_and_kind_and_asked_for_rarely() {
    let named = |version: &str| json!({"groupVersion": version});
    let groups = json!({"groups": [
        {"versions": [named("example.com/v1")], "preferredVersion": named("example.com/v1")},
        {"versions": [named("apps/v1beta1"), named("apps/v1")], "preferredVersion": named("apps/v1")},
        {"versions": [named("silent.example.com/v1")]},
    ]});
    let beta = json!({"resources": [
        {"name": "deployments", "kind": "Deployment", "namespaced": true},
        {"name": "rollbacks", "kind": "AppRollback", "namespaced": true},
    ]});
    let script = Script::default()
        .answers("/api", Reply::Json(200, json!({"versions": ["v1"]})))
        .answers("/apis", Reply::Json(200, groups))
        .answers("/apis/apps/v1beta1", Reply::Json(200, beta));
    let client = script.client();
    let reader = LiveReader::new(client.clone(), Discovery::new(client), LiveBudget::default());
    let listed = async |reader: &LiveReader| {
        let kinds = ask(reader, Arc::new(call_with(Vec::new())), KindsQuery).await.expect("a list");
        kinds.into_iter().map(|listed| listed.kind.to_string()).collect::<Vec<_>>()
    };
    let (first, second) = tokio::join!(listed(&reader), listed(&reader));
    assert_eq!(first, second);
    let of_groups: Vec<_> = first.iter().filter(|kind| kind.contains('/')).map(String::as_str).collect();
    assert_eq!(of_groups, ["apps/v1beta1 AppRollback", "apps/v1 Deployment", "example.com/v1 Widget"]);
    assert!(first[0].starts_with("v1 "), "the core group is first: {first:?}");
    let requests = script.asked().len();
    tokio::time::sleep(Duration::from_secs(9)).await;
    listed(&reader.for_another()).await;
    assert_eq!(script.asked().len(), requests, "another plugin gets the same answer");
    tokio::time::sleep(Duration::from_secs(1)).await;
    listed(&reader).await;
    assert_eq!(script.asked().len(), 2 * requests);
}

#[tokio::test]
async fn views_of_a_server() {
    let cluster = cluster().await;
    cluster.apply("a", "1").await;
    let live = cluster.live();
    let get = async |asked: LiveGet| {
        let text = ask(&live, Arc::new(cluster.call()), asked).await.expect("an answer").expect("there");
        json_of(&text)
    };
    let of = |view| LiveGet { view, ..LiveGet::whole(cluster.target("a", None)) };
    let metadata = get(of(View::Metadata)).await;
    assert_eq!((&metadata["kind"], &metadata["metadata"]["labels"]["app"]), (&json!("ConfigMap"), &json!("shop")));
    assert!(metadata.get("data").is_none() && metadata["metadata"].get("managedFields").is_none(), "{metadata}");
    let value = get(of(fields(&["/data/value"]))).await;
    assert_eq!((&value["data"]["value"], value["metadata"].get("labels")), (&json!("1"), None));
    let namespace = Some(Arc::clone(&cluster.namespace));
    let label_selector = Some("app=shop".into());
    let query = LiveQuery { kind: config_maps(), namespace, label_selector, view: View::Metadata, ..query() };
    let page = ask(&live, Arc::new(cluster.call()), query).await.expect("a page");
    assert_eq!(page.items.iter().map(|item| json_of(item)).collect::<Vec<_>>(), [metadata]);
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template":
            {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    cluster.write(create(&deployment)).await.expect("created");
    let kind = ObjectKind::new("apps/v1", "Deployment");
    let scaled = ObjectRef { kind, ..cluster.target("d", None) };
    let scale = get(LiveGet { subresource: Some("scale".into()), ..LiveGet::whole(scaled) }).await;
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(2)));
}
