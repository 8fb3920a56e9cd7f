//! Tests writes with unknown outcomes on a paused clock: how long they hold their key, and what is requested meanwhile.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use windlass_core::cache::overlay::{Overlay, WrittenState};
use windlass_core::call::ports::{CallContext, Event, EventType, Events as _};
use windlass_core::call::trace::{CallTrace, EndedSpan, SpanSink};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::{ObjectKey, ObjectKind, ObjectRef};
use windlass_core::write::settle::{self, Settled};
use windlass_core::write::{DeleteOptions, Operation, PatchType, Propagation, Subresource, WriteOptions};
use windlass_kube::{Discovery, Followed, Informers, Readable, Recorder, Runs, WriteOutcome, Writer};

use crate::script::{Reply, Script, call, key, list, pod, pods};

/// The time in which a mutation may still take effect after it was sent.
const MUTATION_LIFETIME: Duration = Duration::from_secs(20);
/// The time that a started write may take to be stored.
const STORE_TIME_MAX: Duration = Duration::from_secs(5);

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#;
const GENERATED: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"a-"}}"#;

/// A write that has failed, and a future that waits for it to settle.
struct Failed {
    script: Script,
    writer: Writer,
    error: ApiError,
    overlay: Overlay,
    settled: Settled,
    began: Instant,
}

async fn failed(script: Script, operation: Operation) -> Failed {
    failed_in(CallTrace::default(), script, operation).await
}

async fn failed_in(trace: CallTrace, script: Script, operation: Operation) -> Failed {
    let (hold, settled) = settle::hold();
    let overlay = Overlay::default();
    let call = CallContext { hold, overlay: overlay.clone(), trace, ..call() };
    let client = script.client();
    let writer = Writer::new(client.clone(), Discovery::new(client));
    let began = Instant::now();
    let error = writer.write(Arc::new(call), operation).await.expect_err("its answer is lost");
    Failed { script, writer, error, overlay, settled, began }
}

impl Failed {
    /// How long the key was held, counted from the write.
    async fn held(self) -> Duration {
        self.settled.wait().await;
        self.began.elapsed()
    }
}

/// The number of reads of single objects.
fn looks(script: &Script) -> usize {
    script.asked().iter().filter(|asked| asked.method == Method::GET && asked.path.contains("/pods/")).count()
}

fn create(object: &str) -> Operation {
    Operation::Create { object: object.to_owned(), options: WriteOptions::default() }
}

/// The Pod `prod/a`, created by `manager`.
fn by(manager: &str) -> Value {
    let mut pod = pod("a", "u", 7);
    pod["metadata"]["managedFields"] = json!([{"manager": manager, "operation": "Update", "fieldsV1": {}}]);
    pod
}

fn lost() -> Script {
    Script::default().mutations([Reply::Broken(vec!["{".into()])])
}

fn missing() -> Reply {
    Reply::Json(404, json!({"reason": "NotFound"}))
}

#[tokio::test(start_paused = true)]
async fn a_create_that_was_carried_out_is_found_and_shown_at_once() {
    let write = failed(lost().lists([Reply::Json(200, by("windlass/webapp"))]), create(POD)).await;
    assert_eq!(write.error.reason, ApiReason::UnknownOutcome);
    let (script, overlay) = (write.script.clone(), write.overlay.clone());
    let held = write.held().await;
    assert!(held < Duration::from_secs(1), "held for {held:?}");
    assert_eq!(looks(&script), 1);
    let known = overlay.get(&ObjectKind::new("v1", "Pod"), &key("a")).expect("it was written");
    assert!(matches!(known.left, Some(WrittenState::State(_, object)) if object.header.uid.is("u")));
}

/// Records the spans of a call.
#[derive(Debug, Default)]
struct KeptSpans(Mutex<Vec<EndedSpan>>);

impl SpanSink for KeptSpans {
    fn now(&self) -> u64 {
        0
    }

    fn new_id(&self) -> u64 {
        self.0.lock().expect("not poisoned").len() as u64 + 2
    }

    fn api_server(&self) -> (&str, u16) {
        ("10.0.0.1", 443)
    }

    fn take(&self, span: EndedSpan) {
        self.0.lock().expect("not poisoned").push(span);
    }

    fn left_out(&self) {}
}

#[tokio::test(start_paused = true)]
async fn settling_a_write_is_a_span_of_the_call_with_its_reads_inside() {
    let kept = Arc::new(KeptSpans::default());
    let root = CallTrace::root(kept.clone(), "4bf92f3577b34da6a3ce929d0e0e4736".into(), "reconcile", 0);
    let script = lost().lists([Reply::Json(200, by("windlass/webapp"))]);
    let write = failed_in(root.trace().clone(), script, create(POD)).await;
    write.held().await;
    let spans = kept.0.lock().expect("not poisoned");
    let settle = spans.iter().find(|span| span.name == "settle").expect("a span");
    assert_eq!((settle.parent, settle.error.as_deref()), (root.trace().parent(), None));
    for (name, value) in [("windlass.object.name", "a"), ("windlass.settlement", "committed")] {
        assert!(settle.attributes.contains(&(name, value.into())), "{name}: {settle:?}");
    }
    let parents: Vec<_> = spans.iter().map(|span| (&*span.name, span.parent == Some(settle.id))).collect();
    assert_eq!(parents, [("create pods", false), ("get pods", true), ("settle", false)]);
}

#[tokio::test(start_paused = true)]
async fn an_object_under_a_name_chosen_by_the_host_settles_its_create() {
    let write = failed(lost().lists([Reply::Json(200, by("somebody"))]), create(GENERATED)).await;
    let name = write.error.object.clone().expect("the name that was tried").key.name;
    assert!(name.starts_with("a-"), "{name}");
    assert!(write.held().await < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn an_unseen_create_is_looked_for_until_it_can_no_longer_arrive() {
    for first in [missing(), Reply::Json(200, by("somebody"))] {
        let write = failed(lost().lists([first, missing()]), create(POD)).await;
        let (script, overlay) = (write.script.clone(), write.overlay.clone());
        let held = write.held().await;
        assert!(held >= MUTATION_LIFETIME && held < MUTATION_LIFETIME + Duration::from_secs(1), "held for {held:?}");
        let looks = looks(&script);
        assert!((5..=8).contains(&looks), "more and more seldom: {looks}");
        assert!(overlay.get(&ObjectKind::new("v1", "Pod"), &key("a")).is_some_and(|known| known.left.is_none()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_that_comes_late_is_found_soon_after() {
    let write = failed(lost().lists([missing(), Reply::Json(200, by("windlass/webapp"))]), create(POD)).await;
    let overlay = write.overlay.clone();
    let held = write.held().await;
    assert!(held < Duration::from_secs(1), "held for {held:?}");
    assert!(overlay.get(&ObjectKind::new("v1", "Pod"), &key("a")).is_some_and(|known| known.left.is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_create_waits_for_a_server_that_does_not_answer_however_long() {
    let unavailable = Reply::Json(503, json!({"reason": "ServiceUnavailable"}));
    let script = lost().lists(vec![unavailable; 40]).lists([Reply::Never, Reply::Json(200, by("windlass/webapp"))]);
    let write = failed(script, create(POD)).await;
    let held = write.held().await;
    assert!(held > 5 * MUTATION_LIFETIME, "held for {held:?}");
}

#[tokio::test(start_paused = true)]
async fn a_create_that_may_not_be_read_back_is_held_for_its_full_lifetime() {
    let write = failed(lost().lists([Reply::Json(403, json!({"reason": "Forbidden"}))]), create(POD)).await;
    let held = write.held().await;
    assert!(held >= MUTATION_LIFETIME && held < MUTATION_LIFETIME + Duration::from_secs(1), "held for {held:?}");
}

fn apply() -> Operation {
    Operation::Apply { object: POD.to_owned(), options: WriteOptions::default() }
}

/// The Pod `prod/a` as the plugin's apply leaves it.
fn applied() -> Value {
    let mut pod = pod("a", "u", 8);
    let own = json!({
        "manager": "windlass/webapp", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {},
    });
    pod["metadata"]["managedFields"] = json!([own]);
    pod
}

/// The server's own report that it has failed.
fn failure() -> Reply {
    Reply::Json(500, json!({"kind": "Status", "status": "Failure", "reason": "InternalError", "message": "no leader"}))
}

#[tokio::test(start_paused = true)]
async fn a_write_that_does_not_show_is_held_until_it_can_no_longer_arrive() {
    let foreign = Reply::Text(500, "no healthy upstream".into());
    let gateway = Reply::Json(503, json!({"status": "Failure", "reason": "ServiceUnavailable"}));
    for reply in [Reply::Broken(vec!["{".into()]), foreign, gateway] {
        let write = failed(Script::default().mutations([reply]).lists([missing(), missing()]), apply()).await;
        assert_eq!(write.error.reason, ApiReason::UnknownOutcome);
        assert_eq!(write.writer.count(WriteOutcome::Unknown), 1);
        let held = write.held().await;
        assert!(held >= MUTATION_LIFETIME && held < MUTATION_LIFETIME + Duration::from_secs(1), "held for {held:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_matched_before_does_not_settle_an_apply() {
    let write = failed(lost().lists([Reply::Json(200, applied()), Reply::Json(200, applied())]), apply()).await;
    assert!(write.held().await >= MUTATION_LIFETIME, "it may be of an earlier one");
}

/// The Pod `prod/a` with a label that the plugin has applied.
fn labelled() -> Value {
    let mut pod = applied();
    pod["metadata"]["labels"] = json!({"app": "x"});
    pod["metadata"]["managedFields"][0]["fieldsV1"] = json!({"f:metadata": {"f:labels": {"f:app": {}}}});
    pod
}

/// How long the key is held after an apply of that label whose answer is lost. `None` if nothing was sent. The plugin
/// watches Pods, of which `listed` exist, and the server returns the applied Pod when asked. For `runs`, see
/// [`Followed`].
async fn held_beside(listed: &[Value], runs: Option<Runs>) -> Option<Duration> {
    let script = lost().lists([list(7, listed)]).lists(vec![Reply::Json(200, labelled()); 2]);
    let client = script.client();
    let informers = Informers::new(client.clone(), Discovery::new(client.clone()));
    let subscription = informers.subscribe(pods());
    subscription.when(|status| status.synced).await;
    let readable = Readable { spec: pods(), store: subscription.store().clone(), indexes: vec![] };
    let writer = Writer::new(client.clone(), Discovery::new(client)).of_controller(vec![Followed {
        readable,
        runs,
        maps_by_object: true,
    }]);
    let (hold, settled) = settle::hold();
    let began = Instant::now();
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"app":"x"}}}"#;
    let apply = Operation::Apply { object: pod.to_owned(), options: WriteOptions::default() };
    let written = writer.write(Arc::new(CallContext { hold, ..call() }), apply).await;
    if script.mutations_asked().is_empty() {
        written.expect("nothing is to be changed");
        return None;
    }
    assert_eq!(written.expect_err("its answer is lost").reason, ApiReason::UnknownOutcome);
    settled.wait().await;
    Some(began.elapsed())
}

fn always() -> Runs {
    Arc::new(|_, _| true)
}

#[tokio::test(start_paused = true)]
async fn an_apply_is_settled_if_the_object_differed_before_and_matches_now() {
    for listed in [vec![], vec![pod("a", "u", 6)], vec![pod("b", "v", 6)]] {
        for runs in [None, Some(always())] {
            let may_miss_changes = runs.is_none();
            let held = held_beside(&listed, runs).await.expect("sent");
            assert!(held < Duration::from_secs(1), "{held:?} beside {listed:?}, with predicates: {may_miss_changes}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_apply_is_sent_and_held_beside_a_watch_with_predicates() {
    assert_eq!(held_beside(&[labelled()], Some(always())).await, None, "it would change nothing, so nothing is sent");
    let held = held_beside(&[labelled()], None).await.expect("sent");
    assert!(
        held >= MUTATION_LIFETIME,
        "the object was so before, so nothing shows that this apply was carried out: {held:?}"
    );
}

/// The writes to the Pod `prod/a` that are locked to UID `u` and version 7, by kind, and whether each could create it.
fn locked() -> Vec<(&'static str, Operation, bool)> {
    let target = || ObjectRef { kind: ObjectKind::new("v1", "Pod"), key: key("a"), uid: Some("u".into()) };
    let options = || WriteOptions { resource_version: Some("7".into()), ..WriteOptions::default() };
    let labelled = |metadata: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n"}}).to_string()
    };
    let object = || labelled(json!({"name": "a", "uid": "u"}));
    let unnamed = || labelled(json!({"name": "a"}));
    let patch = |patch_type, patch: &str| Operation::Patch {
        target: target(),
        patch_type,
        patch: patch.to_owned(),
        options: options(),
    };
    let delete = DeleteOptions { resource_version: Some("7".into()), ..deletion() };
    vec![
        ("update", Operation::Update { object: object(), options: options() }, false),
        ("update by version alone", Operation::Update { object: unnamed(), options: options() }, true),
        ("apply", Operation::Apply { object: object(), options: options() }, false),
        ("apply by version alone", Operation::Apply { object: unnamed(), options: options() }, true),
        ("merge patch", patch(PatchType::Merge, r#"{"spec":{"nodeName":"n"}}"#), false),
        ("strategic patch", patch(PatchType::Strategic, r#"{"spec":{"nodeName":"n"}}"#), false),
        ("JSON patch", patch(PatchType::Json, r#"[{"op":"add","path":"/spec/nodeName","value":"n"}]"#), false),
        ("delete", Operation::Delete { target: target(), options: delete }, false),
    ]
}

fn deletion() -> DeleteOptions {
    DeleteOptions {
        resource_version: None,
        propagation: Propagation::Background,
        grace_period_seconds: None,
        dry_run: false,
    }
}

/// The server's own report that there is no Pod `a`.
fn gone() -> Reply {
    Reply::Json(404, json!({"status": "Failure", "reason": "NotFound", "details": {"name": "a", "kind": "pods"}}))
}

#[tokio::test(start_paused = true)]
async fn a_locked_write_is_over_once_the_object_has_another_version() {
    for (form, operation, _) in locked() {
        let write = failed(lost().lists([Reply::Json(200, pod("a", "u", 8))]), operation).await;
        let overlay = write.overlay.clone();
        let held = write.held().await;
        assert!(held < Duration::from_secs(1), "{form}: held for {held:?}");
        let known = overlay.get(&ObjectKind::new("v1", "Pod"), &key("a")).expect("it was written");
        let is_latest =
            matches!(&known.left, Some(WrittenState::State(_, it)) if it.header.version.number() == Some(8));
        assert!(is_latest, "{form}: later reads show what the server has: {known:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_locked_write_whose_version_is_still_there_may_come_and_is_looked_for() {
    for (form, operation, _) in locked() {
        let (still, later) = (Reply::Json(200, pod("a", "u", 7)), Reply::Json(200, pod("a", "u", 8)));
        let write = failed(lost().lists([still.clone(), still.clone(), still.clone(), later]), operation.clone()).await;
        let held = write.held().await;
        assert!(held > Duration::from_secs(1) && held < Duration::from_secs(6), "{form}: held for {held:?}");
        let held = failed(lost().lists([still]), operation).await.held().await;
        assert!(held >= MUTATION_LIFETIME, "{form}: held for {held:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_locked_write_is_settled_by_a_deleted_object_unless_it_may_create() {
    for (form, operation, may_create) in locked() {
        let held = failed(lost().lists([gone()]), operation.clone()).await.held().await;
        assert_eq!(held >= MUTATION_LIFETIME, may_create, "{form}: held for {held:?}");
        let unserved = Reply::Json(404, json!({"status": "Failure", "reason": "NotFound"}));
        let held = failed(lost().lists([unserved]), operation).await.held().await;
        assert!(
            held >= MUTATION_LIFETIME,
            "{form}: that the resource is not served says nothing of the object: held for {held:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_locked_no_op_on_the_current_version_is_not_waited_for() {
    let target = ObjectRef { kind: ObjectKind::new("v1", "Pod"), key: key("a"), uid: None };
    let options = WriteOptions { resource_version: Some("8".into()), ..WriteOptions::default() };
    let patch = r#"{"metadata":{"labels":{"app":"x"}}}"#.to_owned();
    let patch = |options| Operation::Patch {
        target: target.clone(),
        patch_type: PatchType::Merge,
        patch: patch.clone(),
        options,
    };
    let script = || lost().lists([Reply::Json(200, labelled())]);
    assert!(failed(script(), patch(options)).await.held().await < Duration::from_secs(1));
    assert!(
        failed(script(), patch(WriteOptions::default())).await.held().await >= MUTATION_LIFETIME,
        "it may come upon any other"
    );
}

/// A deletion and an eviction of the Pod `prod/a`, with this UID.
fn deletions(uid: Option<&str>) -> [(&'static str, Operation); 2] {
    let target = ObjectRef { kind: ObjectKind::new("v1", "Pod"), key: key("a"), uid: uid.map(Into::into) };
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"},
        "deleteOptions": {"preconditions": {"uid": uid}},
    });
    let parent = ObjectRef { uid: None, ..target.clone() };
    let subresource = Subresource { name: "eviction".into(), parent: Some(parent) };
    let options = WriteOptions { subresource: Some(subresource), ..WriteOptions::default() };
    [
        ("delete", Operation::Delete { target, options: deletion() }),
        ("eviction", Operation::Create { object: eviction.to_string(), options }),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_delete_by_uid_is_settled_once_the_object_is_gone_or_terminating() {
    let mut terminating = pod("a", "u", 8);
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    terminating["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    let (another, same) = (Reply::Json(200, pod("a", "v", 9)), Reply::Json(200, pod("a", "u", 8)));
    for (reply, is_over) in
        [(gone(), true), (another, true), (Reply::Json(200, terminating), true), (same, false), (missing(), false)]
    {
        for (form, deletion) in deletions(Some("u")) {
            let held = failed(lost().lists([reply.clone()]), deletion).await.held().await;
            assert_eq!(held < Duration::from_secs(1), is_over, "{form}: held for {held:?} after {reply:?}");
        }
        for (form, deletion) in deletions(None) {
            let held = failed(lost().lists([reply.clone()]), deletion).await.held().await;
            assert!(held >= MUTATION_LIFETIME, "{form} of whatever has the name: held for {held:?} after {reply:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_patch_by_uid_alone_is_held_whatever_has_the_name() {
    let parent = ObjectRef { kind: ObjectKind::new("apps/v1", "Deployment"), key: key("a"), uid: Some("u".into()) };
    let status = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "status": {}});
    let subresource = Some(Subresource { name: "status".into(), parent: Some(parent) });
    let options = WriteOptions { subresource, ..WriteOptions::default() };
    let mut another = pod("a", "v", 9);
    (another["apiVersion"], another["kind"]) = (json!("apps/v1"), json!("Deployment"));
    let at = |version: Option<&str>| WriteOptions { resource_version: version.map(Into::into), ..options.clone() };
    for (version, is_over) in [(None, false), (Some("7"), true)] {
        let apply = Operation::Apply { object: status.to_string(), options: at(version) };
        let held = failed(lost().lists([Reply::Json(200, another.clone())]), apply).await.held().await;
        assert_eq!(held < Duration::from_secs(1), is_over, "{version:?}: held for {held:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_servers_own_failure_ends_the_wait_for_a_write_with_a_known_name() {
    let timeout = Reply::Json(504, json!({"status": "Failure", "reason": "Timeout"}));
    for (reply, looks) in [
        (failure(), [Reply::Json(200, applied()), missing()]),
        (failure(), [missing(), missing()]),
        (timeout, [missing(), missing()]),
    ] {
        for operation in [apply(), create(POD)] {
            let write = failed(Script::default().mutations([reply.clone()]).lists(looks.clone()), operation).await;
            assert_eq!(write.error.reason, ApiReason::UnknownOutcome);
            let held = write.held().await;
            assert!(held < Duration::from_secs(1), "held for {held:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_with_a_generated_name_is_held_while_it_may_still_be_stored() {
    let write = failed(Script::default().mutations([failure()]).lists([missing(), missing()]), create(GENERATED)).await;
    let held = write.held().await;
    assert!(held >= STORE_TIME_MAX && held < STORE_TIME_MAX + Duration::from_secs(1), "held for {held:?}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_does_not_extend_the_wait_for_a_repeatable_write() {
    let unavailable = Reply::Json(503, json!({"reason": "ServiceUnavailable"}));
    let write = failed(lost().lists(vec![unavailable; 100]), apply()).await;
    let held = write.held().await;
    assert!(held >= MUTATION_LIFETIME && held < MUTATION_LIFETIME + Duration::from_secs(1), "held for {held:?}");
}

#[tokio::test(start_paused = true)]
async fn an_empty_patch_is_not_looked_for() {
    let target = ObjectRef { kind: ObjectKind::new("v1", "Pod"), key: key("a"), uid: None };
    let patch = Operation::Patch {
        target,
        patch_type: PatchType::Json,
        patch: "[]".to_owned(),
        options: WriteOptions::default(),
    };
    let write = failed(lost(), patch).await;
    let script = write.script.clone();
    assert!(write.held().await >= MUTATION_LIFETIME);
    assert_eq!(looks(&script), 0);
}

#[tokio::test(start_paused = true)]
async fn the_time_that_the_answer_took_counts() {
    let write = failed(Script::default().mutations([Reply::Never]).lists([missing()]), apply()).await;
    assert_eq!(write.began.elapsed().as_secs(), MUTATION_LIFETIME.as_secs(), "as long as the server may work on it");
    assert!(write.held().await < MUTATION_LIFETIME + Duration::from_secs(1), "and no longer");
}

#[tokio::test(start_paused = true)]
async fn a_refused_or_dry_run_write_holds_nothing() {
    let dry = WriteOptions { dry_run: true, ..WriteOptions::default() };
    let dry = Operation::Create { object: POD.to_owned(), options: dry };
    let refused = Reply::Json(422, json!({"reason": "Invalid"}));
    for (reply, operation) in [(refused, create(POD)), (Reply::Broken(vec!["{".into()]), dry)] {
        let write = failed(Script::default().mutations([reply]), operation).await;
        assert_ne!(write.error.reason, ApiReason::UnknownOutcome);
        assert!(write.held().await < Duration::from_secs(1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_cancelled_during_its_write_is_held_until_the_write_settles() {
    let script = Script::default().mutations([Reply::Never]).lists([Reply::Json(200, by("windlass/webapp"))]);
    let (hold, settled) = settle::hold();
    let client = script.client();
    let writer = Writer::new(client.clone(), Discovery::new(client));
    let began = Instant::now();
    let write = writer.write(Arc::new(CallContext { hold, ..call() }), create(POD));
    timeout(Duration::from_secs(1), write).await.expect_err("cancelled");
    assert_eq!(script.mutations_asked().len(), 1, "it was sent");
    settled.wait().await;
    assert!(began.elapsed() >= MUTATION_LIFETIME, "held for {:?}", began.elapsed());
    assert_eq!(looks(&script), 1);
}

#[tokio::test(start_paused = true)]
async fn a_read_only_host_sends_no_events() {
    let script = Script::default();
    let recorder = Recorder::new(script.client()).read_only(true);
    let event = Event {
        regarding: None,
        related: None,
        event_type: EventType::Normal,
        reason: "Created".into(),
        action: "Create".into(),
        note: "a".into(),
    };
    recorder.emit(&call(), event);
    assert!(recorder.flush(Duration::from_secs(10)).await);
    assert!(script.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_or_subresource_answer_is_not_taken_as_the_new_state() {
    let overlay = Overlay::default();
    let write = async |reply: Value, operation: Operation| {
        let script = Script::default().mutations([Reply::Json(200, reply)]);
        let writer = Writer::new(script.client(), Discovery::new(script.client()));
        let call = CallContext { overlay: overlay.clone(), ..call() };
        writer.write(Arc::new(call), operation).await.expect("carried out")
    };
    let known = |name: &str| overlay.get(&ObjectKind::new("v1", "Pod"), &ObjectKey::namespaced("prod", name));
    let apply = || Operation::Apply { object: POD.to_owned(), options: WriteOptions::default() };
    write(pod("a", "u", 7), apply()).await;
    assert!(matches!(known("a").expect("written").left, Some(WrittenState::State(..))));
    let mut last = pod("a", "u", 8);
    last["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    last["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    assert!(write(last, apply()).await.is_some(), "the plugin gets what the server answered");
    assert_eq!(known("a").expect("written").left, Some(WrittenState::Nothing(Some("u".into()))));
    let eviction = r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"b"}}"#;
    let parent = windlass_core::object::ObjectRef { kind: ObjectKind::new("v1", "Pod"), key: key("b"), uid: None };
    let subresource = windlass_core::write::Subresource { name: "eviction".into(), parent: Some(parent) };
    let options = WriteOptions { subresource: Some(subresource), ..WriteOptions::default() };
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Success"});
    write(status, Operation::Create { object: eviction.to_owned(), options }).await;
    let evicted = known("b").expect("written");
    assert!(evicted.left.is_none() && evicted.in_doubt);
}
