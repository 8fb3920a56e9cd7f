//! A controller that is to replace the controller of another generation, on the embedded API server. Tests poll each
//! controller by hand, so nothing happens between two steps of a test.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use futures::FutureExt;
use tokio::sync::mpsc;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::queue::{ItemExponential, Queue};
use windlass_core::write::expectations::{Effect, Shown};
use windlass_core::write::gate::Gate;
use windlass_kube::{BudgetScope, Excess};

use super::*;
use crate::dispatch::route::Stores;
use crate::files::{Change, Content};
use crate::leadership::LeaseMode;
use crate::observe::status::PluginPhase;
use crate::plugins::serve::{Generation, ServingState};
use crate::policies::GrantMode;
use crate::tests::stage::{Stage, until};

/// Two generations of one controller in one term. They do nothing yet.
struct Scene {
    stage: Stage,
    _generations: [Generation; 2],
    term: PluginTerm,
    phases: Phases,
    one: Controller,
    next: Controller,
    may_begin: CancellationToken,
    changed: Arc<Notify>,
}

/// A controller that runs whenever it is polled.
type Run<'a> = Pin<Box<dyn Future<Output = ControllerEnd> + Send + 'a>>;

impl Scene {
    async fn new() -> Self {
        Self::with(GrantMode::Manifest).await
    }

    async fn with(grants: GrantMode) -> Self {
        Self::of(grants, &[]).await
    }

    /// A scene whose next generation has another guest: each text in `replaced` is replaced by one of the same length.
    async fn of(grants: GrantMode, replaced: &[(&str, &str)]) -> Self {
        Self::of_both(grants, [&[], replaced]).await
    }

    /// As [`Self::of`], with texts for both generations.
    async fn of_both(grants: GrantMode, [one, next]: [&[(&str, &str)]; 2]) -> Self {
        let stage = Stage::with(LeaseMode::None, grants).await;
        let (one, next) = (stage.load_as(1, one).await, stage.load_as(2, next).await);
        let (serving, _) = stage.serving(&one, mpsc::unbounded_channel().0, stage.phases.stop.child_token());
        stage.host.policies.register(&one, &stage.host.status.plugin("chameleon"));
        let term = PluginTerm::unshared(&serving.phases.stop);
        let (phases, mut past) = (serving.phases.of_term(term.ends.clone()), ServingState::default());
        let mut generation = |plugin| serving.generation(plugin, &mut past).expect("it can be configured");
        let generations = [one, next].map(&mut generation);
        let [one, next] = generations.each_ref().map(|generation| &generation.controllers[0]);
        let (ready, may_begin) = (watch::channel(true).1, CancellationToken::new());
        let changed = Arc::default();
        let (one, next) = (one.under(&term, ready.clone(), &changed), next.after(&term, ready, &may_begin, &changed));
        Self { stage, _generations: generations, term, phases, one, next, may_begin, changed }
    }

    /// The controller's shown status.
    fn shown(&self) -> (ControllerState, Option<String>) {
        self.one.handover().status().state()
    }

    /// Sets the plugin's policy; `None` removes it.
    fn grant(&self, rules: Option<&str>) {
        let path = self.stage.plugins.join("chameleon.policy.yaml");
        let head = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: chameleon\n";
        let content = rules.map_or(Content::Gone, |rules| {
            std::fs::write(&path, format!("{head}rules: {rules}\n")).expect("it can be written");
            Content::Is([0; 32])
        });
        self.stage.host.policies.take(&[Change { path, content }]);
    }

    /// Phases that end when the generation is stopped.
    fn generation(&self) -> Phases {
        self.phases.of_generation(self.term.ends.child_token())
    }

    /// Both controllers, once the first is at work and the next is ready.
    async fn ready<'a>(&'a self, of_one: &'a Phases, of_next: &'a Phases) -> (Run<'a>, Run<'a>) {
        let (mut one, mut next) = (self.one.run(of_one).boxed(), self.next.run(of_next).boxed());
        meanwhile(&mut one, || self.one.handover.is_at_work()).await;
        tokio::select! {
            end = &mut one => panic!("nothing stops it: {end:?}"),
            () = meanwhile(&mut next, || self.next.is_ready()) => {}
        }
        // The notification of the change is consumed here.
        self.changed.notified().await;
        (one, next)
    }
}

/// Polls `run` until `condition` holds.
async fn meanwhile(run: &mut Run<'_>, condition: impl Fn() -> bool) {
    tokio::select! {
        end = run => panic!("nothing stops it: {end:?}"),
        () = until(condition) => {}
    }
}

fn waits(reason: &str) -> (ControllerState, Option<String>) {
    (ControllerState::Waiting, Some(reason.to_owned()))
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), future).await.expect("it comes about")
}

/// The next generation watches one more kind, and caches less of its primaries, so it has its own gate and informers.
const OTHER_WATCHES: (&str, &str) = ("CHAMELEON-MODE=good", "CHAMELEON-MODE=slim");

/// The plugin's own code decides which primaries count. The code refuses the primaries of the tests.
const JUDGING: (&str, &str) = ("CHAMELEON-MODE=good.....", "CHAMELEON-MODE=judging-1");

/// The calls about the `ConfigMap` of this name.
fn calls(scene: &Scene, name: &str) -> usize {
    let key = scene.one.handover().status().key(&ObjectKey::namespaced("default", name));
    key.and_then(|key| key["calls"].as_array().map(Vec::len)).unwrap_or_default()
}

/// Swaps to the next generation, and polls it until `condition` holds.
async fn swap(scene: &Scene, one: Run<'_>, next: &mut Run<'_>, of_one: &Phases, condition: impl Fn() -> bool) {
    scene.next.take_over();
    of_one.stop.cancel();
    scene.may_begin.cancel();
    let ended = async { assert_eq!(one.await, ControllerEnd::Clean) };
    soon(futures::future::join(ended, meanwhile(next, condition))).await;
}

#[tokio::test]
async fn a_key_parked_before_a_swap_to_other_watches_runs_after_it() {
    let scene = Scene::of(GrantMode::Manifest, &[OTHER_WATCHES]).await;
    let (of_one, of_next) = (scene.generation(), scene.generation());
    let (mut one, mut next) = scene.ready(&of_one, &of_next).await;
    scene.stage.create_config_map("shop").await;
    let key = ObjectKey::namespaced("default", "shop");
    let active = scene.one.handover.active_round().expect("it is at work");
    let (queue, gate) = (active.keys.queue.clone(), active.gate.clone().expect("it has one"));
    meanwhile(&mut one, || queue.metrics().adds > 0 && queue.look(&key).is_none()).await;
    // The key has a write that the caches will never show.
    let interest = gate.open(&key, &ObjectKey::namespaced("default", "child"), [0]).expect("there is a cache");
    let version = "999999999".into();
    interest.ended(&Effect::Left { uid: "u".into(), version, is_new: true, shown: vec![Shown::Yes] });
    queue.add(key.clone());
    meanwhile(&mut one, || queue.metrics().parked == 1).await;
    drop((active, gate));
    let status = scene.one.handover.status();
    let runs = || {
        let gate = scene.next.handover.active_round().and_then(|active| active.gate.clone());
        gate.is_some_and(|gate| gate.is_empty()) && queue.metrics().parked == 0 && queue.look(&key).is_none()
    };
    swap(&scene, one, &mut next, &of_one, runs).await;
    assert_eq!(status.lost(), 0, "the key was not found by the audit");
}

#[tokio::test]
async fn a_primary_that_only_the_cache_before_has_is_called_about_after_a_swap() {
    let scene = Scene::of(GrantMode::Manifest, &[OTHER_WATCHES]).await;
    let (of_one, of_next) = (scene.generation(), scene.generation());
    let (one, mut next) = scene.ready(&of_one, &of_next).await;
    let handover = scene.one.handover();
    // Simulates that the deletion of a primary reaches this cache too late. The primary is a `Namespace`, which no
    // cache of `ConfigMap`s has.
    let mut namespaces = scene.stage.host.informers.subscribe(WatchSpec::all(ObjectKind::new("v1", "Namespace")));
    let key = ObjectKey::cluster("default");
    while namespaces.store().get(&key).is_none() {
        soon(namespaces.next()).await;
    }
    let before = handover.active_round().expect("it is at work");
    assert_eq!(before.primaries_missing_from(&before.primaries), []);
    let primaries = Stores::new([namespaces.store().clone()]);
    let _active = handover.activate(&Arc::new(before.with_primaries(primaries)));
    let is_called =
        || handover.status().key(&key).is_some_and(|it| it["calls"].as_array().is_some_and(|it| !it.is_empty()));
    assert!(!is_called());
    swap(&scene, one, &mut next, &of_one, is_called).await;
}

#[tokio::test]
async fn a_successor_that_has_ended_takes_no_handover() {
    let scene = Scene::new().await;
    let (of_one, of_next) = (scene.generation(), scene.generation());
    let (one, next) = scene.ready(&of_one, &of_next).await;
    of_next.stop.cancel();
    assert_eq!(soon(next).await, ControllerEnd::Clean);
    scene.next.take_over();
    of_one.stop.cancel();
    assert_eq!(soon(one).await, ControllerEnd::Clean);
    let handover = scene.one.handover();
    assert!(!handover.was_replaced(), "what keys were to see is the affair of whatever begins next");
}

/// A round may end in any way. Here it is dropped, as by a panic.
#[tokio::test]
async fn a_dropped_round_is_not_ready_and_leaves_nothing_unsettled() {
    let scene = Scene::new().await;
    let (of_one, of_next) = (scene.generation(), scene.generation());
    let (one, next) = scene.ready(&of_one, &of_next).await;
    drop(next);
    assert!(!scene.next.is_ready(), "else the working controller would be stopped without a successor");

    let mut next = scene.next.run(&of_next).boxed();
    meanwhile(&mut next, || scene.next.is_ready()).await;
    scene.changed.notified().await;
    scene.next.take_over();
    assert!(!scene.next.is_settled());
    of_one.stop.cancel();
    scene.may_begin.cancel();
    drop(next);
    assert!(scene.next.is_settled(), "else no newer generation would ever be due");
    assert!(scene.changed.notified().now_or_never().is_some(), "so that a newer generation is considered");
    assert_eq!(soon(one).await, ControllerEnd::Clean);
}

/// Each state is reported only once, so a report between the takeover and the start must not get lost.
#[tokio::test]
async fn a_report_between_takeover_and_start_is_shown() {
    let scene = Scene::new().await;
    scene.next.report_state(ControllerState::Waiting, Some("before".to_owned()));
    assert_eq!(scene.shown(), (ControllerState::Starting, None), "it has not taken over yet");
    scene.next.take_over();
    assert_eq!(scene.shown(), waits("before"));
    assert!(!scene.may_begin.is_cancelled());
    scene.next.report_state(ControllerState::Waiting, Some("between".to_owned()));
    assert_eq!(scene.shown(), waits("between"));
}

/// The working controller ends without a successor, so its status is no longer true.
#[tokio::test]
async fn a_controller_shows_what_it_waits_for_though_it_was_ready_before() {
    let scene = Scene::new().await;
    let (of_one, of_next) = (scene.generation(), scene.generation());
    let (one, next) = scene.ready(&of_one, &of_next).await;
    drop(next);
    scene.next.report_state(ControllerState::Waiting, Some("for its grants".to_owned()));
    scene.next.take_over();
    of_one.stop.cancel();
    assert_eq!(soon(one).await, ControllerEnd::Clean);
    assert_eq!(scene.shown(), waits("for its grants"));
}

#[tokio::test]
async fn a_successor_waits_for_a_beginning_round_before_it_has_a_worker() {
    let scene = Scene::new().await;
    let (of_one, of_next) = (scene.generation(), scene.generation());
    let (mut one, handover) = (scene.one.run(&of_one).boxed(), scene.one.handover());
    let begins = poll_fn(|context| {
        assert!(one.poll_unpin(context).is_pending() && !handover.is_at_work(), "it must wait for the beginning round");
        if handover.calls().now_or_never().is_none() { Poll::Ready(()) } else { Poll::Pending }
    });
    soon(begins).await;
    scene.next.take_over();
    of_one.stop.cancel();
    scene.may_begin.cancel();
    assert_eq!(soon(one).await, ControllerEnd::Clean);
    assert!(!handover.is_at_work());
    let mut next = scene.next.run(&of_next).boxed();
    meanwhile(&mut next, || handover.is_at_work()).await;
}

/// The number of `ConfigMap`s in all caches.
fn cached(scene: &Scene) -> usize {
    let figures = scene.stage.host.informers.figures();
    figures.iter().filter(|cache| &*cache.watch.kind.kind == "ConfigMap").map(|cache| cache.objects).sum()
}

#[tokio::test]
async fn a_primary_deleted_before_a_handover_is_abandoned_is_called_about() {
    let scene = Scene::of(GrantMode::Manifest, &[OTHER_WATCHES]).await;
    let (of_one, of_next) = (scene.generation(), scene.generation());
    scene.stage.create_config_map("goes").await;
    let (mut one, mut next) = scene.ready(&of_one, &of_next).await;
    meanwhile(&mut one, || calls(&scene, "goes") > 0).await;
    // The call of an earlier generation, which the next one awaits after it was given the queue.
    let former = scene.one.handover().workers.token();
    scene.next.take_over();
    of_one.stop.cancel();
    scene.may_begin.cancel();
    scene.stage.delete_config_map("goes").await;
    tokio::select! {
        end = &mut one => panic!("it waits until it is relieved: {end:?}"),
        () = meanwhile(&mut next, || cached(&scene) == 0) => {}
    }
    let (plugin, before) = (scene.stage.host.status.plugin("chameleon"), calls(&scene, "goes"));
    plugin.suspended_by(scene.next.suspension());
    let watch = WatchSpec::all(ObjectKind::new("v1", "ConfigMap"));
    scene.next.parts.budget.exceed(Excess { watch, needed: 2, total: 2, limit: 1, scope: BudgetScope::Plugin });
    meanwhile(&mut next, || plugin.phase() == PluginPhase::Suspended).await;
    drop(former);
    assert!(plugin.retry_suspended());
    let ended = async { assert_eq!(one.await, ControllerEnd::Clean) };
    soon(futures::future::join(ended, meanwhile(&mut next, || calls(&scene, "goes") > before))).await;
}

#[tokio::test]
async fn a_deletion_before_a_generation_that_never_begins_is_left_to_the_next() {
    let scene = Scene::new().await;
    let (of_one, of_next) = (scene.generation(), scene.generation());
    let former = scene.one.handover().workers.token();
    scene.stage.create_config_map("goes").await;
    let mut one = scene.one.run(&of_one).boxed();
    meanwhile(&mut one, || cached(&scene) == 1).await;
    scene.stage.delete_config_map("goes").await;
    meanwhile(&mut one, || cached(&scene) == 0).await;
    of_one.stop.cancel();
    assert_eq!(soon(one).await, ControllerEnd::Clean);
    drop(former);
    scene.next.take_over();
    scene.may_begin.cancel();
    let mut next = scene.next.run(&of_next).boxed();
    meanwhile(&mut next, || calls(&scene, "goes") > 0).await;
}

/// This happens when a lease is won again while a long call of the earlier term still runs. Changes must not pile up
/// meanwhile.
#[tokio::test]
async fn changes_while_former_calls_run_are_neither_buffered_nor_lost() {
    let scene = Scene::new().await;
    let (of_one, handover) = (scene.generation(), scene.one.handover());
    let former = handover.workers.token();
    let mut one = scene.one.run(&of_one).boxed();
    let is_waiting = || scene.shown() == waits("for running calls of an earlier term or generation");
    meanwhile(&mut one, is_waiting).await;
    let cached = || scene.stage.host.informers.figures().iter().map(|cache| cache.objects).sum::<usize>();
    for name in ["stays", "goes"] {
        scene.stage.create_config_map(name).await;
    }
    meanwhile(&mut one, || cached() == 2).await;
    scene.stage.delete_config_map("goes").await;
    meanwhile(&mut one, || cached() == 1).await;
    drop(former);
    meanwhile(&mut one, || handover.is_at_work()).await;
    let queue = handover.active_round().expect("it is at work").keys.queue.clone();
    // One key for the existing object, and one for the deleted object. An event that was not consumed yet may add one
    // of these keys again.
    meanwhile(&mut one, || queue.metrics().adds >= 2).await;
    of_one.stop.cancel();
    assert_eq!(soon(one).await, ControllerEnd::Clean);
}

#[tokio::test]
async fn a_child_deleted_while_former_calls_run_runs_its_refused_parent() {
    let scene = Scene::of_both(GrantMode::Manifest, [&[JUDGING], &[]]).await;
    let (of_one, handover) = (scene.generation(), scene.one.handover());
    let former = handover.workers.token();
    let secrets = "/api/v1/namespaces/default/secrets";
    for name in ["deleted", "kept"] {
        scene.stage.create_config_map(name).await;
        let secret = format!(r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"{name}"}}}}"#);
        let answer = scene.stage.send("POST", secrets, secret).await;
        assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    }
    let mut one = scene.one.run(&of_one).boxed();
    let cached = || scene.stage.host.informers.figures().iter().map(|cache| cache.objects).sum::<usize>();
    meanwhile(&mut one, || cached() == 4).await;
    scene.stage.send("DELETE", &format!("{secrets}/deleted"), "{}".to_owned()).await;
    meanwhile(&mut one, || cached() == 3).await;
    drop(former);
    meanwhile(&mut one, || calls(&scene, "deleted") > 0).await;
    assert_eq!(calls(&scene, "kept"), 0, "the code refuses it");
    of_one.stop.cancel();
    assert_eq!(soon(one).await, ControllerEnd::Clean);
}

#[tokio::test]
async fn a_refused_primary_that_waits_to_run_is_not_lost_with_its_round() {
    let scene = Scene::of_both(GrantMode::Manifest, [&[JUDGING], &[]]).await;
    let (of_one, handover, host) = (scene.generation(), scene.one.handover(), scene.stage.host.clone());
    for name in ["waits", "refused"] {
        scene.stage.create_config_map(name).await;
    }
    let plugin = host.status.plugin("chameleon");
    plugin.suspended_by(scene.one.suspension());
    let mut one = scene.one.run(&of_one).boxed();
    meanwhile(&mut one, || handover.is_at_work()).await;
    let queue = handover.active_round().expect("it is at work").keys.queue.clone();
    queue.add_after(ObjectKey::namespaced("default", "waits"), Duration::from_hours(1));
    let watch = WatchSpec::all(ObjectKind::new("v1", "ConfigMap"));
    scene.one.parts.budget.exceed(Excess { watch, needed: 2, total: 2, limit: 1, scope: BudgetScope::Plugin });
    meanwhile(&mut one, || plugin.phase() == PluginPhase::Suspended && !handover.is_at_work()).await;
    assert!(plugin.retry_suspended());
    meanwhile(&mut one, || calls(&scene, "waits") > 0).await;
    assert_eq!(calls(&scene, "refused"), 0);
    of_one.stop.cancel();
    assert_eq!(soon(one).await, ControllerEnd::Clean);
}

#[tokio::test]
async fn a_stop_after_a_kind_was_removed_leaves_running_calls_their_tasks() {
    let scene = Scene::new().await;
    let (one, phases) = (&scene.one, scene.generation());
    let Admitted { resolved, live, terms } = soon(one.admitted()).await.expect("it may run");
    let (mut running, _) = one.start(one.subscribe(resolved, live, &terms), vec![], None, &phases);
    let needed = Arc::new(());
    let kept = needed.clone();
    running.keep(async move {
        let never = pending().await;
        drop(kept);
        never
    });
    let call = CancellationToken::new();
    one.workers.spawn(call.clone().cancelled_owned());
    let gone = KindLoss::NotServed(ObjectKind::new("v1", "ConfigMap"));
    let mut lost = pin!(one.lose(running, gone, &phases));
    phases.stop.cancel();
    assert!(lost.as_mut().now_or_never().is_none(), "a call runs");
    assert_eq!(Arc::strong_count(&needed), 2);
    call.cancel();
    assert_eq!(soon(lost).await, RoundEnd::Ended(ControllerEnd::Clean));
    assert_eq!(Arc::strong_count(&needed), 1);
}

/// A controller that has not noticed its end yet still reports that it stops, why, and that its plugin is suspended.
#[tokio::test]
async fn a_report_after_another_generation_took_over_is_not_shown() {
    let scene = Scene::new().await;
    scene.next.report_state(ControllerState::Waiting, Some("for a policy".to_owned()));
    scene.next.take_over();
    let plugin = scene.stage.host.status.plugin("chameleon");
    let before = plugin.phase();
    let watch = WatchSpec::all(ObjectKind::new("v1", "ConfigMap"));
    let excess = Excess { watch, needed: 2, total: 2, limit: 1, scope: BudgetScope::Plugin };
    // One cache of each generation is too large.
    for controller in [&scene.one, &scene.next] {
        controller.parts.budget.exceed(excess.clone());
    }
    for loss in
        [KindLoss::NotServed(ObjectKind::new("v1", "ConfigMap")), KindLoss::OverBudget(Arc::new(excess.clone()))]
    {
        scene.one.log_loss(&loss);
        assert_eq!((scene.shown(), plugin.phase()), (waits("for a policy"), before));
    }
    scene.next.log_loss(&KindLoss::OverBudget(Arc::new(excess)));
    assert_eq!((scene.shown().0, plugin.phase()), (ControllerState::Waiting, PluginPhase::Suspended));
}

#[tokio::test]
async fn a_suspended_plugin_that_is_tried_again_runs_if_its_caches_fit() {
    let scene = Scene::new().await;
    let (of_one, host) = (scene.generation(), scene.stage.host.clone());
    let (one, plugin) = (&scene.one, host.status.plugin("chameleon"));
    plugin.suspended_by(one.suspension());
    let mut run = one.run(&of_one).boxed();
    meanwhile(&mut run, || one.handover.is_at_work()).await;
    let watch = WatchSpec::all(ObjectKind::new("v1", "ConfigMap"));
    let excess = Excess { watch, needed: 2, total: 2, limit: 1, scope: BudgetScope::Plugin };
    one.parts.budget.exceed(excess);
    meanwhile(&mut run, || plugin.phase() == PluginPhase::Suspended && !one.handover.is_at_work()).await;
    let why = plugin.reason().expect("a reason");
    assert!(why.starts_with("it is tried again at 2") && why.contains("v1 ConfigMap"), "{why}");
    assert_eq!(scene.shown(), waits(&why));
    assert_eq!(one.parts.budget.used(), 0, "its caches have no reader");

    assert!(plugin.retry_suspended());
    meanwhile(&mut run, || one.handover.is_at_work() && plugin.phase() == PluginPhase::Started).await;
    assert_eq!((scene.shown().0, plugin.reason()), (ControllerState::Running, None));
    of_one.stop.cancel();
    assert_eq!(soon(run).await, ControllerEnd::Clean);
}

/// A configuration that no longer names a kind stops its controller, while the term goes on.
#[tokio::test]
async fn a_controller_that_stops_within_its_term_keeps_only_unseen_keys() {
    let scene = Scene::new().await;
    let of_one = scene.generation();
    let mut one = scene.one.run(&of_one).boxed();
    meanwhile(&mut one, || scene.one.handover.is_at_work()).await;
    let gate = scene.one.handover.active_round().and_then(|active| active.gate.clone()).expect("it has one");
    let (key, child) = (ObjectKey::namespaced("default", "shop"), ObjectKey::namespaced("default", "child"));
    let interest = gate.open(&key, &child, [0]).expect("there is a cache");
    let version = "999999999".into();
    interest.ended(&Effect::Left { uid: "u".into(), version, is_new: true, shown: vec![Shown::Yes] });
    let remaining = Arc::downgrade(&gate);
    drop(gate);
    of_one.stop.cancel();
    assert_eq!(soon(one).await, ControllerEnd::Clean);
    // A gate keeps its caches in memory.
    until(|| remaining.strong_count() == 0).await;

    let (handover, limiter) = (scene.one.handover(), ItemExponential::default());
    let next = Gate::new(vec![], Queue::new(handover.clock.clone(), limiter), handover.clock.clone());
    assert_eq!(handover.prior.follow(next).len(), 1, "the next round still has to see its write");
}

/// The sender of `ready` is dropped when another generation is about to replace this one.
#[tokio::test]
async fn a_controller_without_an_installer_of_its_definitions_waits_for_stop() {
    let scene = Scene::new().await;
    let (phases, ready) = (scene.generation(), watch::channel(false).1);
    let one = scene.one.under(&scene.term, ready, &scene.changed);
    let mut run = one.run(&phases).boxed();
    assert!(run.as_mut().now_or_never().is_none(), "else its plugin would end silently with it");
    phases.stop.cancel();
    assert_eq!(soon(run).await, ControllerEnd::Clean);
}

#[tokio::test]
async fn a_ready_controller_does_not_show_what_it_waited_for_earlier() {
    let scene = Scene::new().await;
    scene.next.report_state(ControllerState::Waiting, Some("its kind is not served".to_owned()));
    let (of_one, of_next) = (scene.generation(), scene.generation());
    let (_one, _next) = scene.ready(&of_one, &of_next).await;
    assert_eq!(scene.next.report.last(), (ControllerState::Starting, None));
}

#[tokio::test]
async fn a_ready_successor_is_notified_when_its_predecessor_has_ended() {
    let scene = Scene::new().await;
    let phases = scene.generation();
    let mut one = scene.one.run(&phases).boxed();
    meanwhile(&mut one, || scene.one.handover.is_at_work()).await;
    assert!(scene.changed.notified().now_or_never().is_none());
    phases.stop.cancel();
    assert_eq!(soon(one).await, ControllerEnd::Clean);
    assert!(scene.changed.notified().now_or_never().is_some());
}

#[tokio::test]
async fn a_recurring_reason_to_wait_is_shown_again() {
    let scene = Scene::with(GrantMode::Policy).await;
    let (one, other) = (&scene.one, "[{apiGroups: [\"\"], resources: [secrets], verbs: [get, list, watch]}]");
    let mut admitted = one.admitted().map(|_| ControllerEnd::Clean).boxed();
    let for_a_policy = || scene.shown() == waits("for a policy");
    meanwhile(&mut admitted, for_a_policy).await;
    for _ in 0..2 {
        scene.grant(Some(other));
        meanwhile(&mut admitted, || scene.shown().0 == ControllerState::Waiting && !for_a_policy()).await;
        assert!(scene.shown().1.is_some_and(|why| why.contains("configmaps")), "{:?}", scene.shown());
        scene.grant(None);
        meanwhile(&mut admitted, for_a_policy).await;
    }
}
