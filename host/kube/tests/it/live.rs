//! Tests live reads: what is requested, what is refused without a request, and how answers are returned.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::call::ports::{CallContext, ListPage, LiveGet, LiveQuery, View, ask};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::{ObjectKey, ObjectKind, ObjectRef};
use windlass_core::rights::grants::{Forbidden, Grants, Rule};
use windlass_kube::{Discovery, LiveBudget, LiveReader};

use crate::cluster::{Cluster, cluster, config_maps};
use crate::script::{Asked, Reply, Script, call, call_with, cluster_call, key, pod};

pub(crate) fn reader(script: &Script) -> LiveReader {
    let client = script.client();
    LiveReader::new(client.clone(), Discovery::new(client), LiveBudget::default())
}

pub(crate) fn target(name: &str, uid: Option<&str>) -> ObjectRef {
    ObjectRef { kind: ObjectKind::new("v1", "Pod"), key: key(name), uid: uid.map(Into::into) }
}

pub(crate) fn query() -> LiveQuery {
    LiveQuery {
        kind: ObjectKind::new("v1", "Pod"),
        namespace: None,
        label_selector: None,
        field_selector: None,
        view: View::Whole,
        limit: 1000,
        page_token: None,
    }
}

/// The requests for objects, without those of discovery.
pub(crate) fn asked(script: &Script) -> Vec<Asked> {
    let discovery = ["/api/v1", "/apis/apps/v1", "/apis/example.com/v1"];
    script.asked().into_iter().filter(|asked| !discovery.contains(&asked.path.as_str())).collect()
}

async fn get(script: &Script, call: CallContext, target: ObjectRef) -> Result<Option<Arc<str>>, ApiError> {
    ask(&reader(script), Arc::new(call), LiveGet::whole(target)).await
}

async fn list(script: &Script, call: CallContext, query: LiveQuery) -> Result<ListPage, ApiError> {
    ask(&reader(script), Arc::new(call), query).await
}

#[tokio::test(start_paused = true)]
async fn a_read_is_a_quorum_read_in_the_plugins_name() {
    let script = Script::default().lists([Reply::Json(200, pod("a", "u", 7))]);
    let text = get(&script, call(), target("a", None)).await.expect("an answer").expect("an object");
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), pod("a", "u", 7));
    let asked = asked(&script);
    assert_eq!((asked[0].path.as_str(), asked[0].query.as_str()), ("/api/v1/namespaces/prod/pods/a", ""));
    assert!(asked[0].user_agent.contains("(webapp@"), "{}", asked[0].user_agent);
}

#[tokio::test(start_paused = true)]
async fn an_object_with_another_uid_counts_as_missing() {
    let script = Script::default().lists([Reply::Json(200, pod("a", "u", 7))]);
    assert!(get(&script, call(), target("a", Some("u"))).await.expect("an answer").is_some());
    assert!(get(&script, call(), target("a", Some("older"))).await.expect("an answer").is_none());
    let missing = json!({"code": 404, "reason": "NotFound", "details": {"name": "a", "kind": "pods"}});
    let script = Script::default().lists([Reply::Json(404, missing)]);
    assert_eq!(get(&script, call(), target("a", None)).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_removed_kind_is_distinguished_from_a_missing_object() {
    let script = Script::default().lists([Reply::Text(404, "404 page not found".into())]);
    let error = get(&script, call(), target("a", None)).await.expect_err("no such path");
    assert_eq!(error.reason, ApiReason::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_list_has_conditions_and_pages_and_its_items_their_kind() {
    let page = json!({
        "kind": "PodList", "metadata": {"resourceVersion": "9", "continue": "t2"},
        "items": [{"metadata": {"name": "a", "managedFields": [{"manager": "x"}]}}],
    });
    let script = Script::default().lists([Reply::Json(200, page)]);
    let query = LiveQuery {
        namespace: Some("prod".into()),
        label_selector: Some("app in (a,b)".into()),
        field_selector: Some("status.phase!=Failed".into()),
        page_token: Some("t1".into()),
        ..query()
    };
    let page = list(&script, call(), query).await.expect("a page");
    assert_eq!(page.next_token.as_deref(), Some("t2"));
    let item: Value = serde_json::from_str(&page.items[0]).expect("JSON");
    assert_eq!(item, json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}));
    let asked = &asked(&script)[0];
    assert_eq!(asked.path, "/api/v1/namespaces/prod/pods");
    assert_eq!(asked.parameter("labelSelector"), Some("app%20in%20%28a%2Cb%29"));
    assert_eq!(asked.parameter("fieldSelector"), Some("status.phase%21%3DFailed"));
    assert_eq!((asked.parameter("limit"), asked.parameter("continue")), (Some("500"), Some("t1")));
    assert_eq!(asked.parameter("resourceVersion"), None);
}

#[tokio::test(start_paused = true)]
async fn server_errors_become_reasons_that_a_plugin_can_distinguish() {
    let expired = json!({"code": 410, "reason": "Expired", "message": "too old"});
    let answers = [
        (Reply::Json(410, expired), ApiReason::Expired),
        (Reply::Json(403, json!({"code": 403, "reason": "Forbidden"})), ApiReason::Forbidden),
        (Reply::Headed(429, "Retry-After", "3", json!({"reason": "TooManyRequests"})), ApiReason::TooManyRequests),
        (Reply::Json(503, json!({})), ApiReason::ServerError),
        (Reply::Broken(vec!["{".into()]), ApiReason::ServerError),
        (Reply::Never, ApiReason::Timeout),
        (Reply::Text(200, "[]".into()), ApiReason::ServerError),
        (Reply::Text(200, " ".repeat(17 << 20)), ApiReason::TooLarge),
    ];
    for (answer, expected) in answers {
        let shown = format!("{answer:?}").chars().take(80).collect::<String>();
        let script = Script::default().lists([answer]);
        let error = list(&script, call(), query()).await.expect_err("a failure");
        assert_eq!(error.reason, expected, "{shown}: {error}");
        assert_eq!(error.retry_after.is_some(), expected == ApiReason::TooManyRequests);
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_live_query_is_not_sent() {
    let script = Script::default();
    let nodes = ObjectKind::new("v1", "Node");
    for wrong in [
        LiveQuery { limit: 0, ..query() },
        LiveQuery { label_selector: Some("a in".into()), ..query() },
        LiveQuery { field_selector: Some("phase".into()), ..query() },
        LiveQuery { namespace: Some("..".into()), ..query() },
        LiveQuery { namespace: Some("prod".into()), kind: nodes.clone(), ..query() },
    ] {
        let error = list(&script, call(), wrong).await.expect_err("refused");
        assert_eq!(error.reason, ApiReason::Invalid, "{error}");
    }
    let node = ObjectRef { kind: nodes, ..target("n", None) };
    assert_eq!(get(&script, call(), node).await.expect_err("no namespace").reason, ApiReason::Invalid);
    let nowhere = ObjectRef { key: ObjectKey::cluster("a"), ..target("a", None) };
    assert_eq!(get(&script, cluster_call(), nowhere).await.expect_err("which?").reason, ApiReason::Invalid);
    let escaping = target("../secrets", None);
    assert_eq!(get(&script, call(), escaping).await.expect_err("a path").reason, ApiReason::Invalid);
    let invented = ObjectRef { kind: ObjectKind::new("v1", "Invented"), ..target("a", None) };
    assert_eq!(get(&script, call(), invented).await.expect_err("not served").reason, ApiReason::NotFound);
    assert!(asked(&script).is_empty(), "{:?}", asked(&script));
}

fn rule(verb: &str, namespaces: &[&str], names: &[&str]) -> Vec<Rule> {
    let owned = |list: &[&str]| list.iter().map(|item| (*item).to_owned()).collect();
    vec![Rule {
        groups: vec![String::new()],
        resources: vec!["pods".into()],
        verbs: vec![verb.into()],
        namespaces: owned(namespaces),
        names: owned(names),
        ..Rule::default()
    }]
}

#[tokio::test(start_paused = true)]
async fn an_ungranted_live_query_is_not_sent() {
    let page = json!({"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": []});
    let script = Script::default().lists([Reply::Json(200, page)]);
    let in_prod = LiveQuery { namespace: Some("prod".into()), ..query() };
    let named = LiveQuery { field_selector: Some("metadata.name=a".into()), ..in_prod.clone() };
    let may = async |rules, query: &LiveQuery| match list(&script, call_with(rules), query.clone()).await {
        Ok(_) => true,
        Err(error) if error.reason == ApiReason::NotGranted => false,
        Err(error) => panic!("{error}"),
    };
    assert!(may(rule("list", &[], &[]), &query()).await);
    assert!(may(rule("list", &["prod"], &[]), &in_prod).await);
    assert!(!may(rule("list", &["prod"], &[]), &query()).await);
    assert!(!may(rule("list", &["test"], &[]), &in_prod).await);
    assert!(!may(rule("get", &[], &[]), &query()).await);
    assert!(!may(rule("list", &[], &["a"]), &in_prod).await);
    assert!(may(rule("list", &[], &["a"]), &named).await, "only that object can be in it");
    assert!(!may(rule("list", &[], &["b"]), &named).await);
    let asked_before = asked(&script).len();
    let error = get(&script, call_with(rule("get", &[], &["a"])), target("b", None)).await.expect_err("another name");
    assert_eq!(error.reason, ApiReason::NotGranted);
    assert_eq!(asked(&script).len(), asked_before);
    let secret = ObjectRef { kind: ObjectKind::new("example.com/v1", "Widget"), ..target("a", None) };
    let before = script.asked().len();
    let error = get(&script, call_with(rule("get", &[], &[])), secret).await.expect_err("another group");
    assert_eq!((error.reason, script.asked().len()), (ApiReason::NotGranted, before), "not even discovery was asked");
}

#[tokio::test(start_paused = true)]
async fn hidden_objects_are_not_listed_and_one_namespace_is_not_all() {
    let mut hidden = pod("secret", "u", 1);
    hidden["metadata"]["namespace"] = "windlass".into();
    let page = json!({"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [hidden, pod("a", "u", 1)]});
    let script = Script::default().lists([Reply::Json(200, page)]);
    let hiding = call();
    let forbidden = Forbidden { host_namespace: Some("windlass".into()), ..Forbidden::default() };
    hiding.principal.grants.replace(Grants::new(rule("list", &[], &[])).without(forbidden));
    let page = list(&script, hiding, query()).await.expect("a page");
    assert!(page.items.len() == 1 && page.items[0].contains("\"a\""), "{page:?}");
    let confined = call();
    confined.principal.grants.replace(Grants::new(rule("list", &[], &[])).within(Some("prod")));
    assert_eq!(list(&script, confined, query()).await.expect_err("all").reason, ApiReason::NotGranted);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_has_a_budget_over_all_its_calls() {
    let script = Script::default().lists([Reply::Json(200, pod("a", "u", 7))]);
    let client = script.client();
    let reader = LiveReader::new(client.clone(), Discovery::new(client), LiveBudget { per_second: 10, burst: 2 });
    let get = async |reader: &LiveReader| ask(reader, Arc::new(call()), LiveGet::whole(target("a", None))).await;
    assert!(get(&reader).await.is_ok() && get(&reader.clone()).await.is_ok());
    let error = get(&reader).await.expect_err("the budget is spent");
    assert_eq!((error.reason, error.code), (ApiReason::TooManyRequests, 429));
    assert_eq!(error.retry_after, Some(Duration::from_millis(100)));
    assert!(get(&reader.for_another()).await.is_ok(), "another plugin has its own");
    tokio::time::advance(Duration::from_millis(100)).await;
    assert!(get(&reader).await.is_ok());
}

impl Cluster {
    pub(crate) fn live(&self) -> LiveReader {
        LiveReader::new(self.connection.client.clone(), self.discovery.clone(), LiveBudget::default())
    }
}

#[tokio::test]
async fn pages_come_from_the_server_and_grow_too_old() {
    let cluster = cluster().await;
    for name in ["a", "b", "c"] {
        cluster.apply(name, "1").await;
    }
    let live = cluster.live();
    let query = LiveQuery {
        kind: config_maps(),
        namespace: Some(cluster.namespace.clone()),
        label_selector: Some("app=shop".into()),
        limit: 2,
        ..query()
    };
    let list = async |query: LiveQuery| ask(&live, Arc::new(cluster.call()), query).await;
    let first = list(query.clone()).await.expect("a page");
    let next = LiveQuery { page_token: first.next_token.clone(), ..query.clone() };
    assert_eq!(first.items.len(), 2);
    let item: Value = serde_json::from_str(&first.items[0]).expect("JSON");
    assert_eq!((&item["kind"], &item["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    assert!(item["metadata"].get("managedFields").is_none());
    let rest = list(next.clone()).await.expect("a page");
    assert_eq!((rest.items.len(), rest.next_token), (1, None));
    let named = LiveQuery { field_selector: Some("metadata.name=b".into()), ..query.clone() };
    assert_eq!(list(named).await.expect("a page").items.len(), 1);
    let unknown = LiveQuery { field_selector: Some("data.value=1".into()), ..query };
    assert_eq!(list(unknown).await.expect_err("no such field").code, 400);
    if let Some(server) = &cluster.server {
        server.compact();
        assert_eq!(list(next).await.expect_err("compacted").reason, ApiReason::Expired);
    }
    let get = async |name: &str| {
        let asked = LiveGet::whole(cluster.target(name, None));
        ask(&live, Arc::new(cluster.call()), asked).await.expect("an answer")
    };
    assert!(get("a").await.is_some());
    assert!(get("z").await.is_none());
}
