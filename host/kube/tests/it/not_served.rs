//! Errors about a resource or a subresource that the server does not serve must not name an object. Otherwise the host
//! would conclude that a primary is gone.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use windlass_core::call::ports::{LiveGet, Written, ask};
use windlass_core::error::ApiReason;
use windlass_core::object::{ObjectKind, ObjectRef};
use windlass_core::write::{Operation, Subresource, WriteOptions};
use windlass_kube::sweep::{Carrier, look_again};
use windlass_kube::{Discovery, Writer};

use crate::live::reader;
use crate::script::{Reply, Script, call, key, pod};

/// Discovery's answer about Deployments.
fn discovery(has_status: bool) -> Reply {
    let names = if has_status { vec!["deployments", "deployments/status"] } else { vec!["deployments"] };
    let listed =
        names.into_iter().map(|name| json!({"name": name, "kind": "Deployment", "namespaced": true, "verbs": ["get"]}));
    Reply::Json(200, json!({"kind": "APIResourceList", "resources": listed.collect::<Vec<_>>()}))
}

/// The status of a Deployment, on a server whose discovery returns the second list once it is asked again.
struct Redefined {
    writer: Writer,
    script: Script,
}

impl Redefined {
    /// `has_status` says whether the first and the second discovery find a status of the kind.
    fn new(has_status: [bool; 2], mutations: [Reply; 2]) -> Self {
        let script = Script::default().answers_in_turn("/apis/apps/v1", has_status.map(discovery)).mutations(mutations);
        Self { writer: Writer::new(script.client(), Discovery::new(script.client())), script }
    }

    async fn write(&self) -> Written {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": {}});
        let subresource = Some(Subresource { name: "status".into(), parent: None });
        let options = WriteOptions { subresource, ..WriteOptions::default() };
        let operation = Operation::Apply { object: object.to_string(), options };
        self.writer.write(Arc::new(call()), operation).await
    }

    /// Waits until discovery may ask the server again.
    async fn passes(&self) {
        tokio::time::advance(Duration::from_secs(11)).await;
    }
}

/// kube-apiserver's answer about the status of the custom resource `d`, which either has no status or does not exist.
fn no_object() -> Reply {
    Reply::Json(404, json!({"code": 404, "reason": "NotFound", "details": {"name": "d", "kind": "deployments"}}))
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_loses_its_status_is_not_taken_for_a_missing_object() {
    let redefined = Redefined::new([true, false], [Reply::Json(200, pod("d", "u", 1)), no_object()]);
    redefined.write().await.expect("it has a status");
    redefined.passes().await;
    let error = redefined.write().await.expect_err("no status any more");
    assert_eq!((error.reason, &error.object), (ApiReason::NotFound, &None), "{error}");
    assert!(error.message.contains("serves no subresource status"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_object_is_named_while_its_status_is_served() {
    let redefined = Redefined::new([true, true], [Reply::Json(200, pod("d", "u", 1)), no_object()]);
    redefined.write().await.expect("it is there");
    redefined.passes().await;
    let error = redefined.write().await.expect_err("it is gone");
    assert!(error.is_object_missing(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_a_definition_gets_later_is_discovered() {
    let redefined = Redefined::new([false, true], [Reply::Json(200, pod("d", "u", 1)), no_object()]);
    assert!(!redefined.write().await.expect_err("no status yet").is_object_missing());
    redefined.passes().await;
    redefined.write().await.expect("it has one now");
    assert_eq!(redefined.script.mutations_asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_live_read_does_not_take_a_missing_status_for_a_missing_object() {
    let lists = [Reply::Json(200, pod("d", "u", 1)), no_object()];
    let script = Script::default().answers_in_turn("/apis/apps/v1", [true, false].map(discovery)).lists(lists);
    let reader = reader(&script);
    let deployment = ObjectRef { kind: ObjectKind::new("apps/v1", "Deployment"), key: key("d"), uid: None };
    let get = async || {
        let asked = LiveGet { subresource: Some("status".into()), ..LiveGet::whole(deployment.clone()) };
        ask(&reader, Arc::new(call()), asked).await
    };
    assert!(get().await.expect("it has a status").is_some());
    tokio::time::advance(Duration::from_secs(11)).await;
    let error = get().await.expect_err("no status any more");
    assert_eq!((error.reason, &error.object), (ApiReason::NotFound, &None), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_object_of_a_kind_that_is_no_longer_served_is_not_said_to_have_gone() {
    let page = Reply::Text(404, "404 page not found".into());
    let script = Script::default().lists([no_object(), page]);
    let discovery = Discovery::new(script.client());
    let kind = ObjectKind::new("apps/v1", "Deployment");
    let carrier = Carrier {
        resource: discovery.resolve(&kind).await.expect("served"),
        key: key("d"),
        uid: "u".to_owned(),
        version: "1".to_owned(),
        deleting: false,
        finalizers: vec![],
        created_by: None,
        controller: None,
    };
    assert!(look_again(&discovery, &carrier).await.expect("the server says so").is_none());
    look_again(&discovery, &carrier).await.expect_err("the server says nothing about the object");
}
