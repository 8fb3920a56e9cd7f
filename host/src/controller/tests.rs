//! One controller that is to take another's place, on the embedded API server. Each is polled by hand: so nothing happens between two steps
//! of a test but what it says.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use futures::FutureExt;
use tokio::sync::mpsc;
use windlass_core::object::ObjectKind;

use super::*;
use crate::leadership::serve::{Generation, Past};
use crate::manager::stage::{Stage, until};

/// Two generations of one controller in one tenure, which do nothing yet.
struct Scene {
    _stage: Stage,
    _generations: [Generation; 2],
    tenure: Tenure,
    phases: Phases,
    one: Controller,
    next: Controller,
    turn: CancellationToken,
    changed: Arc<Notify>,
}

/// A controller that runs whenever it is polled.
type Run<'a> = Pin<Box<dyn Future<Output = End> + Send + 'a>>;

impl Scene {
    async fn new() -> Self {
        let stage = Stage::new().await;
        let (one, next) = (stage.load(1).await, stage.load(2).await);
        let (serving, _) = stage.serving(&one, mpsc::unbounded_channel().0, stage.phases.stop.child_token());
        stage.host.policies.register(&one, &stage.host.status.plugin("chameleon"));
        let tenure = Tenure::unshared(&serving.phases.stop);
        let (phases, mut past) = (serving.phases.of_tenure(tenure.ends.clone()), Past::default());
        let mut generation = |plugin| serving.generation(plugin, &mut past).expect("it can be configured");
        let generations = [one, next].map(&mut generation);
        let [one, next] = generations.each_ref().map(|generation| &generation.controllers[0]);
        let (ready, turn, changed) = (watch::channel(true).1, CancellationToken::new(), Arc::default());
        let (one, next) = (one.under(&tenure, ready.clone()), next.after(&tenure, ready, &turn, &changed));
        Self { _stage: stage, _generations: generations, tenure, phases, one, next, turn, changed }
    }

    /// Phases that end when the generation is stopped.
    fn generation(&self) -> Phases {
        self.phases.of_generation(self.tenure.ends.child_token())
    }

    /// Both, as soon as the one is at work and the next is ready.
    async fn ready<'a>(&'a self, of_one: &'a Phases, of_next: &'a Phases) -> (Run<'a>, Run<'a>) {
        let (mut one, mut next) = (self.one.run(of_one).boxed(), self.next.run(of_next).boxed());
        meanwhile(&mut one, || self.one.lasting.is_at_work()).await;
        tokio::select! {
            end = &mut one => panic!("nothing stops it: {end:?}"),
            () = meanwhile(&mut next, || self.next.is_ready()) => {}
        }
        // That it was told of is seen.
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

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), future).await.expect("it comes about")
}

#[tokio::test]
async fn one_that_has_ended_is_given_no_place_for_another_to_wait_in() {
    let scene = Scene::new().await;
    let (of_one, of_next) = (scene.generation(), scene.generation());
    let (one, next) = scene.ready(&of_one, &of_next).await;
    of_next.stop.cancel();
    assert_eq!(soon(next).await, End::Clean);
    scene.next.take_over();
    of_one.stop.cancel();
    assert_eq!(soon(one).await, End::Clean);
    let lasting = scene.one.lasting();
    assert!(!lasting.was_replaced(), "what keys were to see is the affair of whatever begins next");
}

/// Whatever ends it: here it is dropped, by a panic its round would be.
#[tokio::test]
async fn a_round_that_is_no_more_is_not_ready_and_nobody_waits_for_what_it_was_given() {
    let scene = Scene::new().await;
    let (of_one, of_next) = (scene.generation(), scene.generation());
    let (one, next) = scene.ready(&of_one, &of_next).await;
    drop(next);
    assert!(!scene.next.is_ready(), "else the one at work would be told to end for nobody");

    let mut next = scene.next.run(&of_next).boxed();
    meanwhile(&mut next, || scene.next.is_ready()).await;
    scene.changed.notified().await;
    scene.next.take_over();
    assert!(!scene.next.is_settled());
    of_one.stop.cancel();
    scene.turn.cancel();
    drop(next);
    assert!(scene.next.is_settled(), "else nothing newer would ever be due");
    assert!(scene.changed.notified().now_or_never().is_some(), "and what is newer is looked at");
    assert_eq!(soon(one).await, End::Clean);
}

/// It says each thing once: what it waits for would never be seen if it were said between the two.
#[tokio::test]
async fn what_a_controller_says_between_its_taking_over_and_its_turn_is_shown() {
    let scene = Scene::new().await;
    let shown = || scene.one.lasting().status.state();
    let waits = |reason: &str| (ControllerState::Waiting, Some(reason.to_owned()));
    scene.next.say(ControllerState::Waiting, Some("before".to_owned()));
    assert_eq!(shown(), (ControllerState::Starting, None), "it is not in the place yet");
    scene.next.take_over();
    assert_eq!(shown(), waits("before"));
    assert!(!scene.turn.is_cancelled());
    scene.next.say(ControllerState::Waiting, Some("between".to_owned()));
    assert_eq!(shown(), waits("between"));
}

/// The one at work ends, and nothing goes on in its place: what it did is not what is done.
#[tokio::test]
async fn what_a_controller_waits_for_is_shown_though_it_was_ready_for_a_while() {
    let scene = Scene::new().await;
    let (of_one, of_next) = (scene.generation(), scene.generation());
    let (one, next) = scene.ready(&of_one, &of_next).await;
    drop(next);
    scene.next.say(ControllerState::Waiting, Some("for its grants".to_owned()));
    scene.next.take_over();
    of_one.stop.cancel();
    assert_eq!(soon(one).await, End::Clean);
    let state = scene.one.lasting().status.state();
    assert_eq!(state, (ControllerState::Waiting, Some("for its grants".to_owned())));
}

#[tokio::test]
async fn a_round_that_begins_is_waited_for_by_the_next_before_it_has_a_worker() {
    let scene = Scene::new().await;
    let (of_one, of_next) = (scene.generation(), scene.generation());
    let (mut one, lasting) = (scene.one.run(&of_one).boxed(), scene.one.lasting());
    let begins = poll_fn(|context| {
        assert!(one.poll_unpin(context).is_pending() && !lasting.is_at_work(), "nothing would have waited for it");
        if lasting.calls().now_or_never().is_none() { Poll::Ready(()) } else { Poll::Pending }
    });
    soon(begins).await;
    scene.next.take_over();
    of_one.stop.cancel();
    scene.turn.cancel();
    assert_eq!(soon(one).await, End::Clean);
    assert!(!lasting.is_at_work());
    let mut next = scene.next.run(&of_next).boxed();
    meanwhile(&mut next, || lasting.is_at_work()).await;
}

#[tokio::test]
async fn a_stop_after_a_kind_has_gone_leaves_the_calls_that_run_what_they_need() {
    let scene = Scene::new().await;
    let (one, phases) = (&scene.one, scene.generation());
    let Admitted { resolved, live, terms } = soon(one.admitted()).await.expect("it may run");
    let (mut running, _) = one.start(one.subscribe(resolved, live, &terms), None, &phases);
    let needed = Arc::new(());
    let kept = needed.clone();
    running.keep(async move {
        let never = pending().await;
        drop(kept);
        never
    });
    let call = CancellationToken::new();
    one.workers.spawn(call.clone().cancelled_owned());
    let gone = Loss::NotServed(ObjectKind::new("v1", "ConfigMap"));
    let mut lost = pin!(one.lose(running, gone, &phases));
    phases.stop.cancel();
    assert!(lost.as_mut().now_or_never().is_none(), "a call runs");
    assert_eq!(Arc::strong_count(&needed), 2);
    call.cancel();
    assert_eq!(soon(lost).await, ControlFlow::Break(End::Clean));
    assert_eq!(Arc::strong_count(&needed), 1);
}
