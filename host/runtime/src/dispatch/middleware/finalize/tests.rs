//! A finalizer around the calls of a fake plugin.

use std::num::NonZeroU32;
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use windlass_core::budget::fair::Fair;
use windlass_core::cache::watch::Projection;
use windlass_core::call::ports::{Absent, port_fn};
use windlass_core::object::ObjectKind;
use windlass_core::queue::outcome::{self, Decision, Retry};
use windlass_core::rights::grants::{Allowance, Layer};

use crate::tests::played::{Plugin, Writer, call, object, principal, text};
use windlass_wasm::CallLimits;

use super::*;

const OURS: &str = r#"{"finalizers":["other/x","windlass.dev/a"]}"#;
const OTHERS: &str = r#"{"finalizers":["other/x"]}"#;

fn finalized(plugin: &Plugin) -> Box<Finalized> {
    let pointers = Projection::fields(["/data/a".into()]);
    let spec = WatchSpec { projection: pointers, ..WatchSpec::all(ObjectKind::new("v1", "ConfigMap")) };
    Finalized::new(plugin.boxed(), &principal(), Grants::default(), spec)
}

async fn run(plugin: &Plugin, writer: &Arc<Writer>, primary: Option<Object>) -> CallResult {
    called(plugin, writer, primary).await.result
}

async fn called(plugin: &Plugin, writer: &Arc<Writer>, primary: Option<Object>) -> Called {
    let (request, context) = call(primary);
    finalized(plugin)
        .reconcile(Call {
            request,
            ports: &writer.ports(),
            context,
            limits: CallLimits::default(),
            round: windlass_core::queue::breaker::BreakerRound::default(),
            must_be_made: true,
        })
        .await
}

fn refused(reason: ApiReason, message: &str) -> ApiError {
    ApiError::refused(reason, "patch", "configmaps", None, message)
}

fn decision(result: &CallResult) -> Decision {
    let (_, call) = call(None);
    outcome::decide(result, &call.primary_kind, &call.primary_key)
}

#[tokio::test]
async fn the_finalizer_is_on_before_the_first_call_which_sees_it() {
    let (plugin, writer) = (Plugin::answering(CallResult::Done), Writer::answering(Ok(&text("2", OURS))));
    assert_eq!(run(&plugin, &writer, Some(object("1", OTHERS, false))).await, CallResult::Done);
    let added = json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "windlass.dev/a"}]);
    assert_eq!(writer.patches(), [(added, "1".to_owned())]);
    let seen = plugin.requests().remove(0).object.expect("it exists");
    let seen: Value = serde_json::from_str(&seen).expect("JSON");
    assert_eq!(seen["metadata"]["resourceVersion"], "2");
    assert_eq!(seen["metadata"]["finalizers"][1], "windlass.dev/a");
    assert_eq!(seen["data"], json!({"a": "1"}), "only the part that the watch keeps");
}

#[tokio::test]
async fn the_finalizer_is_waited_for_without_the_cpu_permit() {
    let plugin = Plugin::answering(CallResult::Done);
    let ports = Ports { outside: port_fn(|_, _| std::future::pending().boxed()), ..Absent::ports() };
    let fair = Fair::new(1, 8);
    let [share, neighbour] = [(); 2].map(|()| fair.share(NonZeroU32::MIN));
    let permit = share.acquire().await;
    let (request, context) = call(Some(object("1", OTHERS, false)));
    let context = Arc::new(CallContext { cpu_permit: permit.cpu_permit(), ..(*context).clone() });
    let (limits, round) = (CallLimits::default(), windlass_core::queue::breaker::BreakerRound::default());
    let finalized = finalized(&plugin);
    let mut calling = finalized.reconcile(Call { request, ports: &ports, context, limits, round, must_be_made: true });
    assert!(calling.as_mut().now_or_never().is_none(), "the server does not answer");
    assert!(neighbour.acquire().now_or_never().is_some(), "no call is in progress");
}

#[tokio::test]
async fn an_object_that_is_gone_or_has_the_finalizer_takes_no_write() {
    let (plugin, writer) = (Plugin::answering(CallResult::Done), Writer::answering(Ok("{}")));
    for primary in [Some(object("1", OURS, false)), None] {
        assert_eq!(run(&plugin, &writer, primary).await, CallResult::Done);
    }
    assert_eq!((writer.patches().len(), plugin.requests().len()), (0, 2));
}

#[tokio::test]
async fn a_plugin_is_not_called_if_its_finalizer_could_not_be_added() {
    let plugin = Plugin::answering(CallResult::Done);
    for (reason, message, retry) in [
        (ApiReason::Conflict, "it was modified", Retry::Uncounted),
        (ApiReason::Forbidden, "RBAC", Retry::Counted),
        (ApiReason::Invalid, "the server rejected our request due to an error in our request", Retry::Uncounted),
        (ApiReason::Invalid, "spec.size must be an integer", Retry::Counted),
    ] {
        let writer = Writer::answering(Err(refused(reason, message)));
        let result = run(&plugin, &writer, Some(object("1", "{}", false))).await;
        assert_eq!(decision(&result), Decision::Retry { retry, at_least: None }, "{message}");
    }
    assert!(plugin.requests().is_empty());
}

#[tokio::test]
async fn a_finalizer_is_added_only_if_the_policy_in_force_grants_it() {
    let (plugin, writer) = (Plugin::answering(CallResult::Done), Writer::answering(Ok(&text("2", OURS))));
    let (_, context) = call(None);
    let asked = Allowance { finalizers: vec!["windlass.dev/a".into()], ..Allowance::default() };
    context.principal.grants.replace(Grants::asked(asked).bounded(Layer::Policy, Arc::default()));
    for deleting in [false, true] {
        let primary = object("1", if deleting { OURS } else { OTHERS }, deleting);
        let (request, of_call) = call(Some(primary));
        let of_call = Arc::new(CallContext { principal: context.principal.clone(), ..(*of_call).clone() });
        let called = finalized(&plugin)
            .reconcile(Call {
                request,
                ports: &writer.ports(),
                context: of_call,
                limits: CallLimits::default(),
                round: windlass_core::queue::breaker::BreakerRound::default(),
                must_be_made: true,
            })
            .await;
        if deleting {
            assert_eq!((called.result, writer.patches().len()), (CallResult::Done, 1), "it may be taken off");
            continue;
        }
        let CallResult::Failed(failures) = called.result else { panic!("{:?}", called.result) };
        let Failure::Api(error) = &failures[0] else { panic!("{failures:?}") };
        assert_eq!(error.reason, ApiReason::NotGranted);
        assert!(error.message.contains(r#"finalizers: ["windlass.dev/a"]"#), "{error}");
        assert!(plugin.requests().is_empty() && writer.patches().is_empty());
    }
}

#[tokio::test]
async fn a_host_that_may_only_read_calls_without_a_finalizer() {
    let plugin = Plugin::answering(CallResult::Done);
    let writer = Writer::answering(Err(refused(ApiReason::ReadOnly, "the host is read-only")));
    assert_eq!(run(&plugin, &writer, Some(object("1", "{}", false))).await, CallResult::Done);
    assert_eq!(plugin.requests().len(), 1);
}

#[tokio::test]
async fn only_a_finished_clean_up_removes_the_finalizer() {
    let deleting = object("7", OURS, true);
    for unfinished in [
        CallResult::RequeueAfter(Duration::from_secs(1)),
        CallResult::RequeueBackoff,
        CallResult::Failed(vec![Failure::Terminal("no".into())]),
        CallResult::Trapped { reason: "trap", message: "unreachable".into() },
    ] {
        let (plugin, writer) = (Plugin::answering(unfinished.clone()), Writer::answering(Ok("{}")));
        assert_eq!(run(&plugin, &writer, Some(deleting.clone())).await, unfinished);
        assert!(plugin.requests()[0].deleting && writer.patches().is_empty());
    }
    let (plugin, writer) = (Plugin::answering(CallResult::Done), Writer::answering(Ok("{}")));
    assert_eq!(run(&plugin, &writer, Some(deleting)).await, CallResult::Done);
    let removed = json!([
        {"op": "test", "path": "/metadata/finalizers/1", "value": "windlass.dev/a"},
        {"op": "remove", "path": "/metadata/finalizers/1"},
    ]);
    assert_eq!(writer.patches(), [(removed, "7".to_owned())]);
}

#[tokio::test]
async fn the_finalizer_is_removed_from_the_state_that_the_clean_up_wrote() {
    let own =
        Plugin::answering(CallResult::Done).leaving(Some(object("8", r#"{"finalizers":["windlass.dev/a"]}"#, true)));
    let writer = Writer::answering(Ok("{}"));
    assert_eq!(run(&own, &writer, Some(object("7", OURS, true))).await, CallResult::Done);
    let (patch, version) = writer.patches().remove(0);
    assert_eq!((&patch[0]["path"], &*version), (&json!("/metadata/finalizers/0"), "8"));
    let gone = Plugin::answering(CallResult::Done).leaving(None);
    let writer = Writer::answering(Ok("{}"));
    assert_eq!(run(&gone, &writer, Some(object("7", OURS, true))).await, CallResult::Done);
    assert!(writer.patches().is_empty());
}

#[tokio::test]
async fn a_deleted_object_without_the_finalizer_is_left_alone() {
    let (plugin, writer) = (Plugin::answering(CallResult::Done), Writer::answering(Ok("{}")));
    let called = called(&plugin, &writer, Some(object("1", OTHERS, true))).await;
    assert_eq!((called.result, called.made), (CallResult::Done, false));
    assert!(plugin.requests().is_empty() && writer.patches().is_empty());
}

#[tokio::test]
async fn a_conflict_over_removing_the_finalizer_reruns_the_clean_up_uncounted() {
    let plugin = Plugin::answering(CallResult::Done);
    let writer = Writer::answering(Err(refused(ApiReason::Conflict, "it was modified")));
    let result = run(&plugin, &writer, Some(object("7", OURS, true))).await;
    assert_eq!(decision(&result), Decision::Retry { retry: Retry::Uncounted, at_least: None });
}
