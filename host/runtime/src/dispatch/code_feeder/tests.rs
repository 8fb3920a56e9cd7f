//! Changes that the plugin's own code maps, and the resulting keys.

mod judged;
mod model;
mod scene;

use std::sync::{Mutex, PoisonError};

use futures::FutureExt;
use tokio::sync::{mpsc, watch};
use windlass_core::cache::code_predicate::CodePredicate;
use windlass_core::cache::mapping::{Mapping, PrimaryKind, Target};
use windlass_core::cache::predicate::Predicate;
use windlass_core::cache::watch::{Index, IndexSource, Tombstone};
use windlass_core::clock::{Clock, Moment};
use windlass_core::object::{Header, Object, ObjectKind};
use windlass_core::queue::outcome::{CallResult, Failure};
use windlass_core::queue::{ItemExponential, Queue};

use super::*;
use crate::dispatch::memory::KeyMemory;
use crate::dispatch::route::Route;
use crate::dispatch::tests::filled::Filled;

/// A clock that stands still.
struct NoTime;

impl Clock for NoTime {
    fn now(&self) -> Moment {
        Moment::default()
    }

    fn sleep_until(&self, _: Moment) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

type Answer = Result<Vec<Vec<Target>>, CallResult>;

/// The result of a call that fails with this error of the plugin.
fn failed(error: String) -> CallResult {
    CallResult::Failed(vec![Failure::Terminal(error)])
}

/// A mapper that answers as the changed objects say, once the test lets it.
#[derive(Clone)]
struct Scripted {
    asked: Arc<Mutex<Vec<usize>>>,
    /// The number of calls that it may answer.
    turns: Arc<tokio::sync::Semaphore>,
    caches_filled: watch::Sender<bool>,
}

impl MapChanges for Scripted {
    /// Lets all pods pass but those whose names begin with `no-`.
    fn matches(&self, batch: ChangeBatch) -> BoxFuture<'static, Result<Vec<bool>, CodeFailure>> {
        let of = |change: &ObjectChange| change.new.as_deref().is_some_and(|name| !name.starts_with("no-"));
        std::future::ready(Ok(batch.changes.iter().map(of).collect())).boxed()
    }

    fn filtered(&self, _: usize) {}

    fn map(&self, batch: ChangeBatch) -> BoxFuture<'static, Answer> {
        assert_eq!((&*batch.controller, &*batch.watch), ("shops", "pods"));
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(batch.changes.len());
        let turns = self.turns.clone();
        async move {
            turns.acquire().await.expect("it is never closed").forget();
            let targets = |change: &ObjectChange| targets_of(change.new.as_deref().or(change.old.as_deref()));
            batch.changes.iter().map(targets).collect::<Result<_, _>>().map_err(failed)
        }
        .boxed()
    }

    fn hides(&self, key: &ObjectKey) -> bool {
        key.namespace.as_deref() == Some("windlass")
    }

    fn may_begin(&self) -> bool {
        *self.caches_filled.borrow()
    }

    fn begins(&self) -> BoxFuture<'static, ()> {
        filled(&self.caches_filled)
    }
}

/// Completes when the caches are filled.
fn filled(caches: &watch::Sender<bool>) -> BoxFuture<'static, ()> {
    let mut caches = caches.subscribe();
    async move {
        if caches.wait_for(|filled| *filled).await.is_err() {
            pending::<()>().await;
        }
    }
    .boxed()
}

/// A pod named `x` concerns the primary `x`; some names have a special meaning.
fn targets_of(text: Option<&str>) -> Result<Vec<Target>, String> {
    let indexed = |index: &str, value: &str| Ok(vec![Target::Indexed { index: index.into(), value: value.to_owned() }]);
    match text.expect("one of the two states") {
        "bad" => Err("no idea".to_owned()),
        "all" => indexed("by-app", "web"),
        "by-nothing" => indexed("by-nothing", "x"),
        "no-labels" => indexed("by-selector", "web"),
        name => Ok(vec![Target::Primary(ObjectKey::namespaced("prod", name))]),
    }
}

/// A feeder with the primaries `x` and `y`.
struct Stage {
    feeder: CodeFeeder<mpsc::UnboundedReceiver<WatchEvent>, Scripted>,
    events: mpsc::UnboundedSender<WatchEvent>,
    mapper: Scripted,
    queue: Queue<ObjectKey>,
    _cache: Filled,
}

fn stage(turns: usize) -> Stage {
    let cache = Filled::with(&["x", "y"]);
    let (events, source) = mpsc::unbounded_channel();
    let turns = Arc::new(tokio::sync::Semaphore::new(turns));
    let mapper = Scripted { asked: Arc::default(), turns, caches_filled: watch::Sender::new(true) };
    let queue = Queue::new(Arc::new(NoTime), ItemExponential::default());
    let route = Route {
        kind: ObjectKind::new("v1", "Pod"),
        watch: Some("pods".into()),
        mapping: Mapping::Mapper,
        predicates: [Predicate::Generation].into(),
        code_predicate: None,
        deletions: true,
        primary: PrimaryKind { kind: ObjectKind::new("v1", "ConfigMap"), namespaced: true },
    };
    let memory = Arc::<Mutex<KeyMemory>>::default();
    let selector = windlass_core::cache::watch::SelectorForm::Labels;
    let selector = IndexSource::Selector { pointer: "/data".into(), form: selector };
    let index = |name: &str, source| Index { name: name.into(), source };
    let indexes = [index("by-app", Filled::by_app()), index("by-selector", selector)];
    let sink = KeySink::new(route, queue.clone(), cache.primaries().found_by(indexes), memory);
    let feeder = CodeFeeder::new(source, sink, mapper.clone(), "shops".into(), None);
    Stage { feeder, events, mapper, queue, _cache: cache }
}

fn pod(namespace: &str, name: &str, generation: i64) -> Object {
    let header = Header { generation, ..Header::bare(ObjectKey::namespaced(namespace, name), name, "1") };
    Object::new(header, name)
}

fn appears(name: &str) -> WatchEvent {
    WatchEvent::Applied { old: None, new: pod("prod", name, 1), initial: false }
}

impl Stage {
    fn happens(&self, event: WatchEvent) {
        self.events.send(event).expect("it is read");
    }

    /// Polls the feeder until it waits.
    fn goes_on(&mut self) {
        assert!(self.feeder.run().now_or_never().is_none(), "it waits");
    }

    async fn goes_on_for(&mut self, time: Duration) {
        let _ = tokio::time::timeout(time, self.feeder.run()).await;
    }

    fn queued(&self) -> Vec<String> {
        let mut keys = Vec::new();
        while let Some(key) = self.queue.get().now_or_never().flatten() {
            keys.push(key.to_string());
            self.queue.done(&key);
        }
        keys.sort();
        keys
    }

    /// The number of changes in each call.
    fn asked(&self) -> Vec<usize> {
        self.mapper.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[tokio::test(start_paused = true)]
async fn the_mapper_queues_each_existing_primary_that_it_names() {
    let mut stage = stage(1);
    stage.happens(appears("x"));
    stage.happens(WatchEvent::Deleted(Tombstone { last: pod("prod", "y", 1), final_state_unknown: false }));
    stage.happens(appears("z"));
    stage.goes_on();
    assert_eq!((stage.asked(), stage.queued()), (vec![3], vec!["prod/x".to_owned(), "prod/y".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_value_of_an_index_stands_for_all_that_have_it() {
    let mut stage = stage(1);
    stage.happens(appears("all"));
    stage.goes_on();
    assert_eq!(stage.queued(), ["prod/x", "prod/y"]);
}

#[tokio::test(start_paused = true)]
async fn filtered_changes_and_foreign_objects_are_not_sent_to_the_mapper() {
    let mut stage = stage(1);
    let changed = |generation| WatchEvent::Applied {
        old: Some(pod("prod", "x", 1)),
        new: pod("prod", "x", generation),
        initial: false,
    };
    stage.happens(changed(1));
    stage.happens(WatchEvent::Applied { old: None, new: pod("prod", "y", 1), initial: true });
    stage.happens(WatchEvent::Applied { old: None, new: pod("windlass", "y", 1), initial: false });
    stage.goes_on();
    assert_eq!((stage.asked(), stage.queued()), (vec![], vec![]));
    stage.happens(changed(2));
    stage.goes_on();
    assert_eq!((stage.asked(), stage.queued()), (vec![1], vec!["prod/x".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn changes_before_the_caches_are_filled_are_not_sent_to_the_mapper() {
    let mut stage = stage(1);
    stage.mapper.caches_filled.send_replace(false);
    stage.happens(appears("x"));
    stage.goes_on();
    stage.mapper.caches_filled.send_replace(true);
    stage.goes_on();
    assert_eq!((stage.asked(), stage.queued()), (vec![], vec![]));
    stage.happens(appears("y"));
    stage.goes_on();
    assert_eq!((stage.asked(), stage.queued()), (vec![1], vec!["prod/y".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn an_unmappable_change_is_isolated_and_the_others_are_still_mapped() {
    let mut stage = stage(100);
    for name in ["x", "bad", "z", "z"] {
        stage.happens(appears(name));
    }
    stage.goes_on_for(Duration::from_millis(1)).await;
    assert_eq!(stage.asked(), [4, 2, 1, 2, 1], "then every primary runs, which makes up for the others");
    assert_eq!(stage.queued(), ["prod/x", "prod/y"]);
    // Changes that can be mapped are mapped soon. For the change that cannot be mapped, every primary runs only later.
    for name in ["bad", "x"] {
        stage.happens(appears(name));
        stage.goes_on_for(Duration::from_millis(1)).await;
    }
    assert_eq!(stage.queued(), ["prod/x"]);
    stage.goes_on_for(Duration::from_secs(1)).await;
    assert_eq!(stage.queued(), ["prod/x", "prod/y"]);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_answer_makes_every_primary_run() {
    for name in ["by-nothing", "no-labels"] {
        let mut stage = stage(1);
        stage.happens(appears(name));
        stage.goes_on_for(Duration::from_millis(1)).await;
        assert_eq!(stage.queued(), ["prod/x", "prod/y"], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_aborted_call_makes_every_primary_run() {
    let mut stage = stage(0);
    stage.happens(appears("x"));
    stage.goes_on();
    assert_eq!((stage.asked(), stage.queued()), (vec![1], vec![]));
    // This also happens after a panic.
    stage.goes_on();
    assert_eq!(stage.queued(), ["prod/x", "prod/y"]);
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_not_buffered_and_makes_every_primary_run() {
    let mut stage = stage(0);
    stage.happens(appears("x"));
    stage.goes_on();
    for _ in 0..=WAITING_EVENTS_MAX {
        stage.feeder.hold(appears("z"));
    }
    assert!(stage.feeder.waiting.is_empty());
    stage.goes_on();
    assert_eq!((stage.asked(), stage.queued()), (vec![1], vec!["prod/x".to_owned(), "prod/y".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_retiring_generation_runs_every_primary_only_for_unmapped_changes() {
    let mut stage = stage(0);
    stage.feeder.finish();
    assert!(stage.queued().is_empty(), "there was nothing");
    stage.happens(appears("x"));
    stage.feeder.finish();
    assert_eq!((stage.asked(), stage.queued()), (vec![], vec!["prod/x".to_owned(), "prod/y".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn changes_before_the_end_of_the_source_are_not_lost() {
    let mut stage = stage(100);
    for name in ["x", "bad"] {
        stage.happens(appears(name));
        stage.goes_on_for(Duration::from_millis(1)).await;
    }
    assert_eq!(stage.queued(), ["prod/x", "prod/y"]);
    stage.happens(appears("bad"));
    stage.happens(appears("y"));
    let (closed, _) = mpsc::unbounded_channel();
    stage.events = closed;
    tokio::time::timeout(Duration::from_mins(2), stage.feeder.run()).await.expect("it ends with its source");
    assert_eq!(stage.queued(), ["prod/x", "prod/y"]);
}

#[tokio::test(start_paused = true)]
async fn only_changes_that_the_predicate_lets_pass_are_mapped() {
    let mut stage = stage(1);
    let code = CodePredicate { finalizer: "windlass.dev/a".into(), is_primary: false, deletions: true };
    stage.feeder.sink.route.code_predicate = Some(code);
    for name in ["no-labels", "x", "no-such-pod"] {
        stage.happens(appears(name));
    }
    stage.goes_on();
    assert_eq!((stage.asked(), stage.queued()), (vec![1], vec!["prod/x".to_owned()]));
    stage.happens(appears("no-such-pod"));
    stage.goes_on();
    assert_eq!(stage.asked(), [1], "nothing is left to map");
}

#[tokio::test(start_paused = true)]
async fn calls_are_about_so_much_at_most() {
    let mut stage = stage(2);
    for _ in 0..CODE_CALL_CHANGES_MAX + 3 {
        stage.happens(appears("z"));
    }
    stage.goes_on_for(Duration::from_millis(1)).await;
    assert_eq!(stage.asked(), [CODE_CALL_CHANGES_MAX, 3]);
}
