//! Carries out steps with a fake server.

use std::num::NonZeroU32;

use futures::FutureExt;
use windlass_core::budget::fair::Fair;
use windlass_core::call::compose::{Composition, OwnedKind, UpdateStrategy, Wanted};
use windlass_core::call::ports::{Absent, Answer, port_fn};
use windlass_core::object::{Header, ObjectKey};
use windlass_core::rights::principal::Principal;

use super::*;

/// Answers each write by its script, and records it.
struct Server<F> {
    answer: F,
    written: Mutex<Vec<String>>,
    /// The number of writes in progress, and its maximum so far.
    under_way: Mutex<(usize, usize)>,
}

fn server<F: Fn(&str) -> Written + Send + Sync + 'static>(answer: F) -> (Arc<Server<F>>, Ports) {
    let server = Arc::new(Server { answer, written: Mutex::default(), under_way: Mutex::default() });
    let played = server.clone();
    let outside = port_fn(move |_, ask| {
        let server = played.clone();
        async move {
            let [operation] = ask.operations() else { unreachable!("one at a time is written: {ask:?}") };
            let write = describe(operation);
            server.written.lock().expect("not poisoned").push(write.clone());
            {
                let mut under_way = server.under_way.lock().expect("not poisoned");
                under_way.0 += 1;
                under_way.1 = under_way.1.max(under_way.0);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            server.under_way.lock().expect("not poisoned").0 -= 1;
            Answer::Write((server.answer)(&write))
        }
        .boxed()
    });
    (server, Ports { outside, ..Absent::ports() })
}

/// A short text such as `dry apply a`, `force apply status` or `delete a`.
fn describe(operation: &Operation) -> String {
    let name = |object: &str| {
        let object: Value = serde_json::from_str(object).expect("JSON");
        object["metadata"]["name"].as_str().expect("a name").to_owned()
    };
    let how = |options: &WriteOptions| {
        let words = [(options.dry_run, "dry "), (options.force, "force "), (options.subresource.is_some(), "status ")];
        words.into_iter().filter_map(|(is_set, word)| is_set.then_some(word)).collect::<String>()
    };
    match operation {
        Operation::Create { object, options } => format!("{}create {}", how(options), name(object)),
        Operation::Apply { object, options } => format!("{}apply {}", how(options), name(object)),
        Operation::Delete { target, options } => {
            assert!(
                target.uid.is_some() && options.resource_version.is_some(),
                "only the observed version may be deleted"
            );
            format!("delete {}", target.key.name)
        }
        Operation::Update { .. } | Operation::Patch { .. } => unreachable!("children are applied"),
    }
}

fn error(reason: ApiReason) -> ApiError {
    ApiError::refused(reason, "patch", "configmaps", None, "as scripted")
}

/// As [`error`], about an object.
fn error_about(reason: ApiReason) -> ApiError {
    let object = ObjectRef { kind: kind(), key: ObjectKey::namespaced("prod", "a"), uid: None };
    ApiError { object: Some(object), ..error(reason) }
}

fn kind() -> ObjectKind {
    ObjectKind::new("example.com/v1", "CompositeParent")
}

fn primary(status: &Value) -> Object {
    Object::new(
        Header::bare(ObjectKey::namespaced("prod", "shop"), "u-1", "1"),
        json!({"metadata": {"name": "shop"}, "status": status}).to_string(),
    )
}

fn call() -> Arc<CallContext> {
    let primary = primary(&json!({}));
    let key = primary.header.key.clone();
    Arc::new(CallContext {
        primary: Some(primary),
        trace_id: "0".into(),
        ..CallContext::detached(Principal::of_plugin("a", "0", "test"), "a", kind(), key)
    })
}

fn parent() -> CompositeParent {
    CompositeParent { plugin: "a".into(), kind: kind(), key: ObjectKey::namespaced("prod", "shop"), uid: "u-1".into() }
}

fn children(names: &[&str]) -> Wanted {
    let text = |name: &&str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string();
    let answer = Composition { children: names.iter().map(text).collect(), ..Composition::default() };
    let strategy = UpdateStrategy::InPlace;
    let owned = OwnedKind { kind: ObjectKind::new("v1", "ConfigMap"), namespaced: true, namespaces: None, strategy };
    Wanted::read(&answer, &parent(), &[owned]).expect("valid")
}

fn observed() -> ObservedChildren {
    let text = json!({"metadata": {"name": "c0", "uid": "c-1", "resourceVersion": "7"}, "data": "old"});
    ObservedChildren::read(&ObjectKind::new("v1", "ConfigMap"), text.to_string().into()).expect("an object")
}

const NAMES: [&str; 12] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "c11"];

/// The time of a call, for tests that do not depend on it.
const CALL_TIME: Duration = Duration::from_mins(1);

async fn create(ports: &Ports, left: Duration, shows_all: bool) -> Vec<Applied> {
    let wanted = children(&NAMES);
    let steps: Vec<_> = wanted.children.iter().map(|child| (child, ChildStep::Create)).collect();
    ChildWriter::new(ports, call(), left).apply(&parent(), &steps, &|_| shows_all).await
}

#[tokio::test(start_paused = true)]
async fn applying_children_starts_with_one_and_doubles_up_to_eight_at_once() {
    let (server, ports) = server(|_| Ok(None));
    let began = Instant::now();
    assert_eq!(create(&ports, CALL_TIME, true).await, vec![Applied::Done; NAMES.len()]);
    assert_eq!(server.under_way.lock().expect("not poisoned").1, 5, "1, 2, 4, and the rest");
    assert_eq!(began.elapsed(), Duration::from_millis(40));
}

#[tokio::test(start_paused = true)]
async fn after_a_server_error_no_further_child_is_applied() {
    let (server, ports) =
        server(|write| if write == "apply c2" { Err(error(ApiReason::ServerError)) } else { Ok(None) });
    let applied = create(&ports, CALL_TIME, true).await;
    assert_eq!(server.written.lock().expect("not poisoned").len(), 3);
    assert_eq!(applied[0], Applied::Done);
    assert!(matches!(applied[2], Applied::Failed(_)) && applied[3..].iter().all(|it| *it == Applied::NotTried));
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_one_child_does_not_stop_the_others() {
    let (_, ports) = server(|write| if write == "apply c0" { Err(error(ApiReason::Invalid)) } else { Ok(None) });
    let applied = create(&ports, CALL_TIME, true).await;
    assert!(matches!(applied[0], Applied::Failed(_)) && applied[1..].iter().all(|it| *it == Applied::Done));
}

#[tokio::test(start_paused = true)]
async fn when_its_time_is_up_it_says_how_much_is_left() {
    let (_, ports) = server(|_| Ok(None));
    let applied = create(&ports, Duration::from_millis(15), true).await;
    let Applied::Failed(Failure::Transient(write)) = &applied[3] else { panic!("{applied:?}") };
    assert!(write.starts_with("9 children") && write.contains("deadlineMs"), "{write}");
}

#[tokio::test(start_paused = true)]
async fn time_for_which_neighbours_keep_its_turn_does_not_count() {
    let (_, ports) = server(|_| Ok(None));
    let fair = Fair::new(1, 8);
    let [share, neighbour] = [(); 2].map(|()| fair.share(NonZeroU32::MIN));
    let permit = share.acquire().await;
    let call = Arc::new(CallContext { cpu_permit: permit.cpu_permit(), ..CallContext::clone(&call()) });
    let wanted = children(&NAMES);
    let steps: Vec<_> = wanted.children.iter().map(|child| (child, ChildStep::Create)).collect();
    // Its four rounds of writes take 40 ms in total.
    let hand = ChildWriter::new(&ports, call, Duration::from_millis(50));
    let busy = async {
        loop {
            let permit = neighbour.acquire().await;
            tokio::time::sleep(CALL_TIME).await;
            permit.finish(CALL_TIME);
        }
    };
    let (parent, shows_all, began) = (parent(), |_: &ObjectKind| true, Instant::now());
    let applied = tokio::select! {
        applied = hand.apply(&parent, &steps, &shows_all) => applied,
        () = busy => unreachable!("for ever"),
    };
    assert!(began.elapsed() > CALL_TIME, "the neighbour was there");
    assert_eq!(applied, vec![Applied::Done; NAMES.len()]);
    drop(permit);
}

#[tokio::test(start_paused = true)]
async fn a_child_missing_from_a_narrow_cache_is_not_assumed_new() {
    let taken = |write: &str| if write == "dry create c1" { Err(error(ApiReason::AlreadyExists)) } else { Ok(None) };
    let (server, ports) = server(taken);
    let applied = create(&ports, CALL_TIME, false).await;
    assert_eq!(applied[0], Applied::Done);
    assert!(matches!(&applied[1], Applied::Failed(Failure::Transient(write)) if write.contains("does not show it")));
    let written = server.written.lock().expect("not poisoned");
    assert!(written.contains(&"apply c0".to_owned()) && !written.contains(&"apply c1".to_owned()), "{written:?}");
}

/// How a replacement ends with these answers, and what was written.
async fn replace<F: Fn(&str) -> Written + Send + Sync + 'static>(answer: F) -> (Applied, Vec<String>) {
    let (server, ports) = server(answer);
    let (wanted, observed) = (children(&["c0"]), observed());
    let steps = [(&wanted.children[0], ChildStep::Replace { observed: &observed, marked: true })];
    let applied = ChildWriter::new(&ports, call(), CALL_TIME).apply(&parent(), &steps, &|_| true).await;
    (applied[0].clone(), server.written.lock().expect("not poisoned").clone())
}

fn after(data: &str, label: &str) -> Arc<str> {
    let text = json!({"metadata": {"name": "c0", "uid": "c-1", "resourceVersion": "8", "labels": label}, "data": data});
    text.to_string().into()
}

#[tokio::test(start_paused = true)]
async fn a_child_is_replaced_only_for_its_content_and_if_recreating_would_work() {
    let probes = ["dry force apply c0", "dry create c0"];
    let same = observed().text;
    let (applied, written) = replace(move |_| Ok(Some(same.clone()))).await;
    assert_eq!((applied, written), (Applied::Done, vec![probes[0].to_owned()]));

    let (applied, written) = replace(|_| Ok(Some(after("old", "new")))).await;
    assert_eq!((applied, &*written[1]), (Applied::Done, "force apply c0"));

    let changes = |write: &str| match write {
        "dry create c0" => Err(error(ApiReason::AlreadyExists)),
        _ => Ok(Some(after("new", "new"))),
    };
    let (applied, written) = replace(changes).await;
    assert_eq!((applied, written), (Applied::Pending, vec![probes[0].into(), probes[1].into(), "delete c0".into()]));

    let refuses = |write: &str| match write {
        "delete c0" => Ok(None),
        "dry create c0" => Err(error(ApiReason::AlreadyExists)),
        _ => Err(error(ApiReason::Invalid)),
    };
    assert_eq!(replace(refuses).await.0, Applied::Pending);

    let (applied, written) = replace(|_| Err(error(ApiReason::Invalid))).await;
    assert!(matches!(applied, Applied::Failed(_)), "{applied:?}");
    assert_eq!(written, probes, "a child that the server would not accept again is not deleted");
}

#[tokio::test(start_paused = true)]
async fn deleted_children_are_pruned_and_failed_deletions_are_reported() {
    let answer = |write: &str| match write {
        "delete c0" => Err(error_about(ApiReason::NotFound)),
        "delete c1" => Err(error(ApiReason::Conflict)),
        // The kind is not served, which says nothing about the object.
        "delete c2" => Err(error(ApiReason::NotFound)),
        _ => Ok(None),
    };
    let (server, ports) = server(answer);
    let doomed = |name: &str| Doomed {
        target: ObjectRef {
            kind: ObjectKind::new("v1", "ConfigMap"),
            key: ObjectKey::namespaced("prod", name),
            uid: Some("c".into()),
        },
        version: "7".into(),
    };
    let failures =
        ChildWriter::new(&ports, call(), CALL_TIME).prune(NAMES.iter().map(|name| doomed(name)).collect()).await;
    assert_eq!(failures, [ApiReason::Conflict, ApiReason::NotFound].map(|reason| Failure::Api(error(reason))));
    assert_eq!(
        server.written.lock().expect("not poisoned").len(),
        CONCURRENT_CHILDREN_MAX,
        "after a failure no more are deleted"
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_only_if_it_changed() {
    let (server, ports) = server(|_| Ok(None));
    let call = call();
    let hand = ChildWriter::new(&ports, call, CALL_TIME);
    let before = primary(&json!({"n": 1}));
    assert_eq!(hand.status(&before, None).await, None);
    assert_eq!(hand.status(&before, Some(&json!({"n": 1}))).await, None);
    assert!(server.written.lock().expect("not poisoned").is_empty());
    assert_eq!(hand.status(&before, Some(&json!({"n": 2}))).await, None);
    assert_eq!(*server.written.lock().expect("not poisoned"), ["force status apply shop"]);
}

#[tokio::test]
async fn a_status_is_waited_for_without_the_cpu_permit() {
    let ports = Ports { outside: port_fn(|_, _| std::future::pending().boxed()), ..Absent::ports() };
    let fair = Fair::new(1, 8);
    let [share, neighbour] = [(); 2].map(|()| fair.share(NonZeroU32::MIN));
    let permit = share.acquire().await;
    let call = Arc::new(CallContext { cpu_permit: permit.cpu_permit(), ..CallContext::clone(&call()) });
    let (hand, primary, status) = (ChildWriter::new(&ports, call, CALL_TIME), primary(&json!({})), json!({"n": 1}));
    let mut writing = std::pin::pin!(hand.status(&primary, Some(&status)));
    assert!(writing.as_mut().now_or_never().is_none(), "the server does not answer");
    assert!(neighbour.acquire().now_or_never().is_some(), "no call is in progress");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_not_served_fails_as_the_server_says() {
    let (_, ports) = server(|_| Err(error(ApiReason::NotFound)));
    let failed = ChildWriter::new(&ports, call(), CALL_TIME).status(&primary(&json!({})), Some(&json!({"n": 2}))).await;
    assert_eq!(
        failed,
        Some(Failure::Api(error(ApiReason::NotFound))),
        "it is retried, until the definition has a status"
    );
}
