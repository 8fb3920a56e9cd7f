//! Plugins whose host tasks panic, on the embedded API server.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::with_default;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use windlass_core::rights::fence::Fenced;

use super::*;
use crate::controller::Ready;
use crate::files::Files;
use crate::leadership::LeaseMode;
use crate::observe::status::LeaseView as _;
use crate::observe::status::PluginPhase;
use crate::plugins::directory::is_plugin;
use crate::plugins::supplies::Supplies;
use crate::policies::GrantMode;
use crate::tests::stage::{Stage, until};

/// Polls `reload` until `condition` holds.
async fn meanwhile(reload: &mut Reload, condition: impl Fn() -> bool) {
    tokio::select! {
        () = reload.run() => panic!("the host does not stop"),
        () = until(condition) => {}
    }
}

/// The digests of the generations that have begun, or were about to begin.
static BEGUN: Mutex<Vec<Arc<str>>> = Mutex::new(Vec::new());

/// Panics when a generation begins for the first time.
#[allow(clippy::unnecessary_wraps, reason = "the other that there is may have nothing to install")]
fn panics_at_first(
    _: &Arc<Host>,
    _: &Arc<Supplies>,
    plugin: &Plugin,
    _: Fenced,
    _: &CancellationToken,
) -> Option<Ready> {
    let is_first = {
        let mut begun = BEGUN.lock().expect("no panic");
        begun.push(plugin.digest().clone());
        begun.iter().filter(|digest| *digest == plugin.digest()).count() == 1
    };
    assert!(!is_first, "on purpose");
    Some(tokio::sync::watch::channel(true).1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_panics_resumes_its_version_and_then_the_pending_one() {
    let stage = Stage::new().await;
    let (one, other) = (stage.load(1).await, stage.load(2).await);
    let (reports, _reported) = mpsc::unbounded_channel();
    let stop = stage.phases.stop.child_token();
    let (mut serving, newest) = stage.serving(&one, reports, stop.clone());
    serving.install = panics_at_first;
    let status = stage.host.status.plugin("chameleon");
    stage.host.policies.register(&one, &status);
    let served = tokio::spawn(serving.run());
    until(|| stage.works() && stage.panics() == 1).await;
    newest.send_replace(other.clone());
    let runs = || status.generation().is_some_and(|now| now.digest() == other.digest());
    until(|| runs() && stage.works() && stage.panics() == 2).await;
    let begun: Vec<_> = BEGUN.lock().expect("no panic").clone();
    let [one, other] = [&one, &other].map(|plugin| plugin.digest().clone());
    assert_eq!(begun, [one.clone(), one.clone(), other.clone(), one, other], "a panic promotes no generation");
    stop.cancel();
    assert_eq!(served.await.expect("no panic"), ControllerEnd::Clean);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_without_a_running_task_says_so_and_is_started_again() {
    let (stage, name) = (Stage::new().await, Arc::from("chameleon"));
    stage.put(1);
    let first = Files::follow(vec![stage.plugins.clone()], u64::MAX, is_plugin).changes().await;
    let mut reload = stage.reload();
    reload.take(DirectoryNews::Files(first));
    let status = stage.host.status.plugin(&name);
    meanwhile(&mut reload, || stage.works()).await;
    // This simulates a panic in a place that does not restart the service.
    reload.servings.abort_all();
    while reload.servings.join_next().await.is_some() {}
    reload.ended(&name, None);
    reload.act();
    let says_so =
        || status.reason().is_some_and(|why| why.contains("this plugin panicked") && why.contains("started again"));
    assert!(status.phase() == PluginPhase::NotLoaded && says_so(), "{:?}", status.reason());
    assert!(status.controllers().is_empty() && status.generation().is_none());
    let ready = stage.host.status.ready();
    assert!(ready.is_ok_and(|warnings| warnings.len() == 1), "others run, and this one by itself soon");
    reload.take(DirectoryNews::Again { plugin: name.clone() });
    meanwhile(&mut reload, || stage.works()).await;
    assert_eq!((status.phase(), reload.catalog.running()), (PluginPhase::Started, 1));
    stage.phases.stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_whose_start_panics_the_starting_task_is_started_again() {
    let (stage, name) = (Stage::new().await, Arc::from("chameleon"));
    stage.put(1);
    let first = Files::follow(vec![stage.plugins.clone()], u64::MAX, is_plugin).changes().await;
    let mut reload = stage.reload();
    reload.take(DirectoryNews::Files(first));
    reload.act();
    let loaded = reload.news.recv().await.expect("it sends to itself");
    reload.take(loaded);
    // Such a panic loses the step in which it happens.
    assert!(matches!(&*reload.catalog.next(), [DirectoryStep::Start { .. }]));
    let status = stage.host.status.plugin(&name);
    meanwhile(&mut reload, || status.phase() == PluginPhase::NotLoaded).await;
    assert!(status.reason().is_some_and(|why| why.contains("started again")), "{:?}", status.reason());
    reload.take(DirectoryNews::Again { plugin: name });
    meanwhile(&mut reload, || stage.works()).await;
    stage.phases.stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_replica_can_take_the_lease_of_a_plugin_that_stopped_running() {
    let (stage, name) = (Stage::with(LeaseMode::Single, GrantMode::Manifest).await, Arc::from("chameleon"));
    stage.put(1);
    let first = Files::follow(vec![stage.plugins.clone()], u64::MAX, is_plugin).changes().await;
    let mut reload = stage.reload();
    reload.take(DirectoryNews::Files(first));
    meanwhile(&mut reload, || stage.works()).await;
    let other = stage.another("other").await;
    let lease = other.take(&name, &stage.phases.stop, &stage.host.panics);
    until(|| lease.holder().is_some_and(|holder| *holder == *stage.host.replica)).await;
    reload.servings.abort_all();
    while reload.servings.join_next().await.is_some() {}
    reload.ended(&name, None);
    let term = tokio::time::timeout(Duration::from_mins(1), lease.term());
    assert!(term.await.is_ok(), "it is released while this replica waits to start the plugin again");
    stage.phases.stop.cancel();
}

#[tokio::test]
async fn a_late_pending_report_is_not_shown_once_the_version_has_taken_over() {
    let stage = Stage::new().await;
    let (one, other) = (stage.load(1).await, stage.load(2).await);
    let (mut reload, status) = (stage.reload(), stage.host.status.plugin("chameleon"));
    // Nothing is awaited from here on, so that no other task can run.
    reload.start(&one);
    reload.deliver(&other);
    status.is_now(other.clone());
    let pending = || stage.host.status.to_json()["plugins"][0]["pending"].clone();
    let waits = Swapped::Pending { digest: other.digest().clone(), reason: "for its kinds".to_owned() };
    reload.swapped(other.name(), waits);
    reload.swapped(other.name(), Swapped::Runs(other.clone()));
    assert_eq!(pending(), serde_json::Value::Null);
    stage.phases.stop.cancel();
}

/// The field `running` of each log event.
#[derive(Clone, Default)]
struct LoggedRunning(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for LoggedRunning {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut self.clone());
    }
}

impl Visit for LoggedRunning {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "running" {
            self.0.lock().expect("no panic").push(format!("{value:?}"));
        }
    }
}

#[tokio::test]
async fn refusing_a_rolled_back_file_logs_the_version_that_returns() {
    let stage = Stage::new().await;
    let (one, other) = (stage.load(1).await, stage.load(2).await);
    let (mut reload, status) = (stage.reload(), stage.host.status.plugin("chameleon"));
    reload.start(&one);
    reload.deliver(&other);
    status.is_now(other.clone());
    reload.swapped(other.name(), Swapped::Runs(other.clone()));
    let rejected = other.digest().clone();
    let rolled_back = Swapped::RolledBack { rejected, to: one.clone(), because: "it traps".into() };
    reload.swapped(other.name(), rolled_back);
    assert!(status.generation().is_some_and(|now| now.digest() == other.digest()), "it is about to end");
    let (logged, message) = (LoggedRunning::default(), "it was rolled back".to_owned());
    with_default(tracing_subscriber::registry().with(logged.clone()), || {
        let refusal = FileRefusal::NotLoaded { reason: "rejected", message };
        reload.carry_out(DirectoryStep::Refuse { plugin: other.name().clone(), digest: None, refusal, runs: true });
    });
    assert_eq!(*logged.0.lock().expect("no panic"), [format!("{:?}", one.short_digest())]);
    stage.phases.stop.cancel();
}

/// A log subscriber that panics at each event.
struct Unwilling;

impl Subscriber for Unwilling {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        panic!("on purpose")
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_plugins_lease_is_released_even_if_reporting_the_end_panics() {
    let (stage, name) = (Stage::with(LeaseMode::Single, GrantMode::Manifest).await, Arc::from("chameleon"));
    let file = stage.put(1);
    let mut files = Files::follow(vec![stage.plugins.clone()], u64::MAX, is_plugin);
    let mut reload = stage.reload();
    reload.take(DirectoryNews::Files(files.changes().await));
    meanwhile(&mut reload, || stage.works()).await;
    let other = stage.another("other").await;
    let lease = other.take(&name, &stage.phases.stop, &stage.host.panics);
    until(|| lease.holder().is_some_and(|holder| *holder == *stage.host.replica)).await;
    std::fs::remove_file(file).expect("it is there");
    reload.take(DirectoryNews::Files(files.changes().await));
    reload.act();
    let (_, end) = reload.servings.join_next().await.expect("it runs").expect("it is not aborted");
    let ended = AssertUnwindSafe(|| with_default(Unwilling, || reload.ended(&name, end)));
    assert!(catch_unwind(ended).is_err(), "it reports the end");
    let term = tokio::time::timeout(Duration::from_mins(1), lease.term());
    assert!(term.await.is_ok(), "this replica no longer runs the lease's plugin");
    stage.phases.stop.cancel();
}
