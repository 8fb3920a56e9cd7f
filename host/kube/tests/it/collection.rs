//! Tests deletions of collections: what is sent, what the answer contains, and what the key waits for afterwards.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_core::cache::overlay::Overlay;
use windlass_core::call::ports::{CallContext, Deleted};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::progress::Reached;
use windlass_core::object::withheld::WithheldWrite;
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::queue::{ItemExponential, Queue};
use windlass_core::rights::grants::Rule;
use windlass_core::write::expectations::Cache;
use windlass_core::write::gate::Gate;
use windlass_core::write::settle;
use windlass_core::write::{Collection, DeleteOptions, Propagation};
use windlass_kube::{Discovery, Expecting, Informers, Readable, WriteOutcome, Writer};

use crate::cluster::{cluster, config_maps, create};
use crate::script::{Asked, NoTime, Reply, Script, call, call_with, cluster_call, key, list, pod, pods};

fn collection() -> Collection {
    Collection {
        kind: ObjectKind::new("v1", "Pod"),
        namespace: None,
        label_selector: Some("app=shop".into()),
        field_selector: None,
        all: false,
    }
}

fn options() -> DeleteOptions {
    DeleteOptions {
        resource_version: None,
        propagation: Propagation::Background,
        grace_period_seconds: None,
        dry_run: false,
    }
}

fn writer(script: &Script) -> Writer {
    Writer::new(script.client(), Discovery::new(script.client()))
}

async fn delete(script: &Script, call: CallContext, collection: Collection) -> Deleted {
    writer(script).delete_collection(Arc::new(call), collection, options()).await
}

async fn refused(call: CallContext, collection: Collection) -> ApiError {
    let script = Script::default();
    let error = delete(&script, call, collection).await.expect_err("a refusal");
    assert!(script.mutations_asked().is_empty(), "{error}");
    error
}

/// The request for `collection`.
async fn sent(call: CallContext, collection: Collection) -> Asked {
    let script = Script::default().mutations([list(9, &[])]);
    assert_eq!(delete(&script, call, collection).await, Ok(Some(vec![])));
    script.mutations_asked().remove(0)
}

fn success() -> Reply {
    Reply::Json(200, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
}

#[tokio::test(start_paused = true)]
async fn a_collection_delete_sends_its_selectors_and_options() {
    let script = Script::default().mutations([list(9, &[pod("a", "u", 7), pod("b", "v", 8)])]);
    let collection = Collection { field_selector: Some("status.phase=Failed".into()), ..collection() };
    let options = DeleteOptions { propagation: Propagation::Foreground, grace_period_seconds: Some(5), ..options() };
    let deleted = writer(&script).delete_collection(Arc::new(call()), collection, options).await;
    let deleted = deleted.expect("success").expect("a list");
    let named: Vec<_> = deleted.iter().map(|it| format!("{} {} {:?}", it.kind, it.key, it.uid.as_deref())).collect();
    assert_eq!(named, ["v1 Pod prod/a Some(\"u\")", "v1 Pod prod/b Some(\"v\")"]);
    let asked = &script.mutations_asked()[0];
    assert_eq!((&asked.method, asked.path.as_str()), (&Method::DELETE, "/api/v1/namespaces/prod/pods"));
    assert_eq!(asked.parameter("labelSelector"), Some("app%3Dshop"));
    assert_eq!(asked.parameter("fieldSelector"), Some("status.phase%3DFailed"));
    assert_eq!(asked.parameter("timeout"), Some("15s"));
    let body = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground", "gracePeriodSeconds": 5,
    });
    assert_eq!(asked.json(), body);
    assert!(asked.user_agent.contains("(webapp@"), "{}", asked.user_agent);
}

#[tokio::test(start_paused = true)]
async fn a_collection_without_a_selector_deletes_nothing_unless_all_is_set() {
    let nothing = || Collection { label_selector: None, ..collection() };
    for selector in [None, Some(""), Some(" ")] {
        let error = refused(call(), Collection { field_selector: selector.map(Into::into), ..nothing() }).await;
        assert_eq!(error.reason, ApiReason::Invalid, "{selector:?}: {error}");
    }
    assert_eq!(sent(call(), Collection { all: true, ..nothing() }).await.query, "timeout=15s");
    sent(call(), Collection { field_selector: Some("metadata.name=a".into()), ..nothing() }).await;
    for wrong in [
        Collection { label_selector: Some("a in".into()), ..collection() },
        Collection { field_selector: Some("phase".into()), ..collection() },
        Collection { namespace: Some("..".into()), ..collection() },
        Collection { namespace: Some("prod".into()), kind: ObjectKind::new("v1", "Node"), ..collection() },
    ] {
        assert_eq!(refused(call(), wrong).await.reason, ApiReason::Invalid);
    }
    assert_eq!(refused(cluster_call(), collection()).await.reason, ApiReason::Invalid, "in which namespace?");
    let locked = DeleteOptions { resource_version: Some("7".into()), ..options() };
    let script = Script::default();
    let error = writer(&script).delete_collection(Arc::new(call()), collection(), locked).await.expect_err("refused");
    assert_eq!((error.reason, script.asked().len()), (ApiReason::Invalid, 0));
}

#[tokio::test(start_paused = true)]
async fn a_collection_delete_has_its_own_verb_and_matches_no_single_name() {
    let rule = |verb: &str, namespaces: &[&str], names: &[&str]| {
        let owned = |list: &[&str]| list.iter().map(|item| (*item).to_owned()).collect();
        let (namespaces, names) = (owned(namespaces), owned(names));
        let resources = vec!["pods".into()];
        vec![Rule {
            groups: vec![String::new()],
            resources,
            verbs: vec![verb.into()],
            namespaces,
            names,
            ..Rule::default()
        }]
    };
    let named = || Collection { field_selector: Some("metadata.name=a".into()), ..collection() };
    sent(call_with(rule("deletecollection", &[], &[])), collection()).await;
    sent(call_with(rule("deletecollection", &["prod"], &[])), collection()).await;
    sent(call_with(rule("deletecollection", &[], &["a"])), named()).await;
    for (rules, collection) in [
        (rule("delete", &[], &[]), collection()),
        (rule("deletecollection", &["test"], &[]), collection()),
        (rule("deletecollection", &[], &["a"]), collection()),
        (rule("deletecollection", &[], &["b"]), named()),
    ] {
        let error = refused(call_with(rules), collection).await;
        assert_eq!((error.reason, error.verb), (ApiReason::NotGranted, "deletecollection"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_deleted_objects_are_unknown_if_the_answer_has_no_list() {
    for reply in [success(), Reply::Text(200, "no JSON".into()), Reply::Text(200, " ".repeat(9 << 20))] {
        let script = Script::default().mutations([reply]);
        assert_eq!(delete(&script, call(), collection()).await, Ok(None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_holds_the_key_and_a_received_one_does_not() {
    let held = async |reply: Reply| {
        let script = Script::default().mutations([reply]);
        let (hold, settled) = settle::hold();
        let began = Instant::now();
        let error = delete(&script, CallContext { hold, ..call() }, collection()).await.expect_err("a failure");
        settled.wait().await;
        (error.reason, began.elapsed() >= Duration::from_secs(20))
    };
    assert_eq!(held(Reply::Broken(vec!["{".into()])).await, (ApiReason::UnknownOutcome, true));
    assert_eq!(held(Reply::Json(403, json!({"reason": "Forbidden"}))).await, (ApiReason::Forbidden, false));
}

/// The expectations of the key after a deletion, with a cache of Pods that shows `shown`.
async fn waits(shown: &[Value], reply: Reply) -> Vec<String> {
    let script = Script::default().lists([list(7, shown)]).mutations([reply]);
    let informers = Informers::new(script.client(), Discovery::new(script.client()));
    let subscription = informers.subscribe(pods());
    subscription.when(|status| status.synced).await;
    let cache = Cache { progress: Arc::new(Reached::at("1")), is_filtered: false };
    let gate = Gate::new(vec![cache], Queue::new(Arc::new(NoTime), ItemExponential::default()), Arc::new(NoTime));
    let readable = Readable { spec: pods(), store: subscription.store().clone(), indexes: vec![] };
    let writer = writer(&script).expecting(Expecting::new(gate.clone(), &[readable]));
    // The script decides whether the deletion succeeds.
    let _ = writer.delete_collection(Arc::new(call()), collection(), options()).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let (waiting, _) = gate.waiting(10);
    assert!(waiting.iter().all(|it| it.key == call().primary_key), "{waiting:?}");
    let mut what: Vec<_> = waiting.into_iter().map(|it| it.what).collect();
    what.sort();
    what
}

fn labelled(name: &str, uid: &str, app: &str) -> Value {
    let mut labelled = pod(name, uid, 7);
    labelled["metadata"]["labels"] = json!({"app": app});
    labelled
}

#[tokio::test(start_paused = true)]
async fn each_deleted_object_that_the_cache_shows_is_waited_for() {
    const PROOF: &str = "proof that it shows all that was written";
    let shown = [labelled("a", "u", "shop"), labelled("b", "v", "shop"), labelled("c", "w", "other")];
    let gone = |name: &str, uid: &str| format!("prod/{name} ({uid}) gone or terminating");
    // Only the first of the expectations is reported.
    assert_eq!(waits(&shown, list(9, &shown[..2])).await, [gone("a", "u")]);
    assert_eq!(waits(&shown, list(9, &shown[1..2])).await, [gone("b", "v")], "a was not deleted");
    assert_eq!(waits(&shown, list(9, &shown[..1])).await, [gone("a", "u")], "b was not deleted");
    assert_eq!(waits(&shown, list(9, &[])).await, [""; 0]);
    assert_eq!(waits(&[], list(9, &shown[..1])).await, [PROOF], "the cache had not shown it");
    assert_eq!(waits(&shown, success()).await, [PROOF]);
    assert_eq!(waits(&shown, Reply::Never).await, [PROOF]);
    assert_eq!(waits(&shown, Reply::Json(403, json!({"reason": "Forbidden"}))).await, [PROOF], "some may be deleted");
}

#[tokio::test(start_paused = true)]
async fn the_call_no_longer_reads_what_it_has_deleted() {
    let map = |name: &str, finalizers: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "prod", "uid": name,
            "resourceVersion": "7", "finalizers": finalizers}})
    };
    let script = Script::default().mutations([list(9, &[map("a", json!([])), map("b", json!(["x/y"]))])]);
    let overlay = Overlay::default();
    let collection = Collection { kind: config_maps(), ..collection() };
    delete(&script, CallContext { overlay: overlay.clone(), ..call() }, collection).await.expect("deleted");
    let known = |name: &str| overlay.get(&config_maps(), &key(name));
    assert!(known("a").is_some_and(|known| known.left.is_some()), "{:?}", known("a"));
    assert!(known("b").is_some_and(|known| known.left.is_none()), "how it waits nobody knows: {:?}", known("b"));
}

#[tokio::test(start_paused = true)]
async fn a_read_only_host_deletes_a_collection_as_a_dry_run() {
    let reported: Arc<std::sync::Mutex<Vec<WithheldWrite>>> = Arc::default();
    let reports = reported.clone();
    let withheld = move |_: &CallContext, write: &WithheldWrite| {
        reports.lock().expect("no panic").push(write.clone());
        true
    };
    let script = Script::default().comparable().mutations([list(9, &[pod("a", "u", 7)])]);
    let writer = writer(&script).read_only(true).withholding(Arc::new(withheld));
    let deleted = writer.delete_collection(Arc::new(call()), collection(), options()).await.expect("tried");
    assert_eq!(deleted.map(|deleted| deleted.len()), Some(1));
    assert_eq!(script.mutations_asked()[0].json()["dryRun"], json!(["All"]));
    let reported = reported.lock().expect("no panic");
    assert_eq!((reported.len(), reported[0].verb, &*reported[0].object.key.name), (1, "deletecollection", "*"));
    assert_eq!(writer.count(WriteOutcome::Withheld), 1);
}

#[tokio::test]
async fn a_real_server_deletes_the_selected_objects() {
    let cluster = cluster().await;
    for (name, app) in [("a", "shop"), ("b", "shop"), ("c", "other")] {
        let labels = json!({"app": app});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}});
        cluster.write(create(&object)).await.expect("created");
    }
    let collection = Collection { kind: config_maps(), ..collection() };
    let deleted = cluster.writer.delete_collection(Arc::new(cluster.call()), collection.clone(), options()).await;
    let mut names: Vec<_> = deleted.expect("deleted").expect("named").into_iter().map(|it| it.key).collect();
    names.sort();
    let expected = ["a", "b"].map(|name| ObjectKey::namespaced(Arc::clone(&cluster.namespace), name));
    assert_eq!(names, expected);
    let again = cluster.writer.delete_collection(Arc::new(cluster.call()), collection, options()).await;
    assert_eq!(again, Ok(Some(vec![])));
    assert!(
        cluster
            .write(create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})))
            .await
            .is_err()
    );
}
