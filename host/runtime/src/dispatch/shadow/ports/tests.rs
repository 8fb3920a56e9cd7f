use std::num::NonZeroU32;

use futures::FutureExt as _;
use serde_json::json;
use windlass_core::budget::fair::Fair;
use windlass_core::cache::overlay::Overlay;
use windlass_core::call::http::HttpResponse;
use windlass_core::call::ports::{ListPage, ListQuery};
use windlass_core::write::WriteOptions;

use super::*;
use crate::tests::played;

/// A cache of `ConfigMaps` that has one object, which a call's overlay hides or replaces.
struct Cached(Option<&'static str>);

impl Reads for Cached {
    fn get(&self, call: &CallContext, target: &ObjectRef, _: Option<&[String]>) -> Result<Option<Arc<str>>, ApiError> {
        if &*target.kind.kind != "ConfigMap" {
            return Err(ApiError::refused(ApiReason::NotWatched, "get", "", None, "no watch"));
        }
        let mut key = target.key.clone();
        key.namespace = key.namespace.or_else(|| call.primary_key.namespace.clone());
        match call.overlay.get(&target.kind, &key).and_then(|known| known.left) {
            Some(windlass_core::cache::overlay::WrittenState::State(_, object)) => Ok(Some(object.text())),
            Some(_) => Ok(None),
            None => Ok(self.0.map(Into::into)),
        }
    }

    fn list(&self, _: &CallContext, _: &ListQuery) -> Result<ListPage, ApiError> {
        unreachable!("nothing is listed")
    }
}

const CHILD: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"child","namespace":"prod","uid":"c"},"data":{"a":"1"}}"#;

fn shadowed(cached: Option<&'static str>, notes: CallNotes) -> (Arc<ShadowedCall>, Arc<CallContext>) {
    let context = Arc::into_inner(played::call(Some(played::object("1", "{}", false))).1).expect("the only reference");
    let context = Arc::new(CallContext { overlay: Overlay::fixed(), ..context });
    (ShadowedCall::new(Arc::new(Cached(cached)), ReadingPort::new(Arc::new(Absent)), notes), context)
}

fn child() -> ObjectRef {
    ObjectRef { kind: ObjectKind::new("v1", "ConfigMap"), key: ObjectKey::namespaced("prod", "child"), uid: None }
}

fn create(data: &str) -> Operation {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child"}, "data": {"a": data}});
    Operation::Create { object: object.to_string(), options: WriteOptions::default() }
}

fn noted(operation: &Operation, written: Written) -> CallNotes {
    let mut notes = CallNotes::default();
    notes.answers.note(operation.clone().into(), Answer::Write(written));
    notes
}

type OfReads = fn(Arc<dyn Reads>, ReadingPort, CallNotes) -> Arc<ShadowedCall>;

#[test]
fn a_shadow_is_made_of_reads_alone() {
    // Before you change this line to give a shadow more, read why it gets no more (ADR 28).
    let _: OfReads = ShadowedCall::new;
}

#[tokio::test]
async fn the_same_write_gets_the_answer_of_the_current_version() {
    let (shadowed, call) = shadowed(None, noted(&create("1"), Ok(Some(CHILD.into()))));
    let written = shadowed.ports().ask(call.clone(), create("1")).await;
    assert_eq!(written, Ok(Some(CHILD.into())));
    let read = shadowed.ports().reads.get(&call, &child(), None).expect("it is watched");
    assert_eq!(read.as_deref(), Some(CHILD), "it sees what it takes for written");
    assert_eq!(shadowed.wanted().writes, [create("1")]);
}

#[tokio::test]
async fn a_differing_write_of_a_shadow_gets_its_own_simulated_result() {
    let (shadowed, call) = shadowed(None, noted(&create("1"), Ok(Some(CHILD.into()))));
    let written = shadowed.ports().ask(call.clone(), create("2")).await.expect("it would be created");
    let written: Value = serde_json::from_str(&written.expect("an object")).expect("JSON");
    assert_eq!((&written["data"]["a"], &written["metadata"]["namespace"]), (&json!("2"), &json!("prod")));
    assert!(written["metadata"]["uid"].is_string());
    let again = shadowed.ports().ask(call.clone(), create("3")).await.expect_err("it is there by now");
    assert_eq!(again.reason, ApiReason::AlreadyExists);
    let read = shadowed.ports().reads.get(&call, &child(), None).expect("it is watched").expect("it is there");
    assert!(read.contains(r#""a":"2""#), "{read}");
}

#[tokio::test]
async fn a_shadow_sees_objects_as_before_the_current_versions_writes() {
    let mut notes = CallNotes::default();
    notes.before.push((child(), Ok(None)));
    let (shadowed, call) = shadowed(Some(CHILD), notes);
    let see = || shadowed.ports().reads.get(&call, &child(), None).expect("it is watched");
    assert!(see().is_some(), "the cache has it by now");
    shadowed.rewind(&call).await;
    assert_eq!(see(), None);
}

#[tokio::test]
async fn a_rewind_looks_up_scopes_without_holding_the_cpu_permit() {
    let mut notes = CallNotes::default();
    notes.before.push((child(), Ok(None)));
    let (_, call) = shadowed(None, CallNotes::default());
    let fair = Fair::new(1, 8);
    let [share, neighbour] = [(); 2].map(|()| fair.share(NonZeroU32::MIN));
    let permit = share.acquire().await;
    let call = Arc::new(CallContext { cpu_permit: permit.cpu_permit(), ..CallContext::clone(&call) });
    let silent = port_fn(|_, _| std::future::pending().boxed());
    let shadowed = ShadowedCall::new(Arc::new(Cached(None)), ReadingPort::new(silent), notes);
    let mut rewinding = std::pin::pin!(shadowed.rewind(&call));
    assert!(rewinding.as_mut().now_or_never().is_none(), "the server does not answer");
    assert!(neighbour.acquire().now_or_never().is_some(), "no call is in progress");
}

#[tokio::test]
async fn a_shadows_request_is_answered_from_the_current_call_and_never_sent() {
    let request = |url: &str| HttpRequest {
        method: "POST".to_owned(),
        url: url.to_owned(),
        headers: vec![],
        body: None,
        timeout: None,
    };
    let response = HttpResponse {
        status: 201,
        headers: vec![],
        body: windlass_core::call::http::HttpBody::Text("paid".to_owned()),
    };
    let mut notes = CallNotes::default();
    notes.answers.note(request("https://a.example").into(), Answer::Fetch(Ok(response.clone())));
    let (shadowed, call) = shadowed(None, notes);
    let ports = shadowed.ports();
    assert_eq!(ports.ask(call.clone(), request("https://a.example")).await, Ok(response));
    assert!(ports.ask(call, request("https://b.example")).await.is_err());
    assert_eq!(shadowed.wanted().refused(), ["POST https://b.example"]);
}

#[tokio::test]
async fn each_ask_gets_the_answer_of_its_name_whatever_was_noted() {
    let (shadowed, call) = shadowed(None, CallNotes::default());
    for ask in Ask::one_of_each() {
        let name = ask.name();
        assert_eq!(shadowed.ports().outside.ask(call.clone(), ask).await.name(), name);
    }
    let wanted = shadowed.wanted();
    assert_eq!((wanted.writes.len(), wanted.others.len(), wanted.refused().len()), (2, 2, 1));
}

#[tokio::test]
async fn the_only_asks_that_leave_a_shadow_are_reads() {
    let behind = Arc::new(Mutex::new(vec![]));
    let seen = behind.clone();
    let live = port_fn(move |call, ask| {
        seen.lock().expect("no panic").push(ask.name());
        Absent.ask(call, ask)
    });
    let (_, call) = shadowed(None, CallNotes::default());
    let shadowed = ShadowedCall::new(Arc::new(Cached(None)), ReadingPort::new(live), CallNotes::default());
    for ask in Ask::one_of_each() {
        shadowed.ports().outside.ask(call.clone(), ask.clone()).await;
        ReadingPort::ask(&shadowed.live, call.clone(), ask).await;
    }
    let left = behind.lock().expect("no panic");
    assert!(left.iter().all(|name| ["Get", "List", "Log", "Served", "Kinds"].contains(name)), "{left:?}");
    assert!(left.len() >= 10, "each read is carried out: {left:?}");
}
