use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;
use windlass_core::call::ports::Absent;
use windlass_core::object::{Object, ObjectKind};
use windlass_kube::WriteRate;

use super::*;
use crate::dispatch::guards::GuardSettings;
use crate::observe::metrics::HostMetrics;
use crate::observe::status::Status;
use crate::tests::played::{call, object};
use crate::tests::played_events::PlayedEvents;
use windlass_wasm::CallLimits;

const RETRIES_MAX: u64 = 4;

/// Writes one object in each call, and reports it as the writer would.
struct Writing {
    committed: Committed,
    object: ObjectRef,
    calls: AtomicU64,
    /// The state of the primary after the plugin's writes. `None` if the plugin writes another object.
    leaves: Option<Object>,
}

impl Reconcile for Arc<Writing> {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        let Call { context: call, .. } = call;
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        (self.committed)(&call, &self.object, Some(&Version::from(&*number.to_string())));
        if let Some(left) = &self.leaves {
            call.overlay.record(call.primary_kind.clone(), call.primary_key.clone(), Some(left.clone()));
        }
        ready(Called::made(CallResult::Done, Duration::ZERO)).boxed()
    }
}

struct Stage {
    writing: Arc<Writing>,
    slowed: Slowed,
    events: Arc<PlayedEvents>,
    metrics: HostMetrics,
    status: Status,
}

fn stage(leaves: Option<Object>) -> Stage {
    let guards = Guards::new(GuardSettings {
        writes: WriteRate::default(),
        hot_loop_writes: u32::try_from(RETRIES_MAX).expect("few"),
    });
    let (events, metrics) = (Arc::new(PlayedEvents::default()), HostMetrics::new());
    let lane = SlowLaneKeys::new(guards.clone(), events.clone());
    let status = Status::new(CancellationToken::new());
    let controller = status.plugin("a").controller("a", 1, metrics.controller("a", "a"));
    controller.guarded_by(Arc::new(crate::dispatch::shown::ControllerGuards {
        circuit: crate::dispatch::circuit::Circuit::default(),
        lane: lane.clone(),
        saved: None,
    }));
    let object = ObjectRef {
        kind: ObjectKind::new("apps/v1", "Deployment"),
        key: ObjectKey::namespaced("prod", "web"),
        uid: None,
    };
    guards.wrote(&"rival".into(), &object, None);
    let committed = lane.listener(controller);
    let writing = Arc::new(Writing { committed, object, calls: AtomicU64::new(0), leaves });
    let slowed = Slowed::new(Box::new(writing.clone()), lane);
    Stage { writing, slowed, events, metrics, status }
}

impl Stage {
    /// Calls about `primary`. Returns the result and the number of calls.
    async fn call(&self, primary: Option<Object>) -> (CallResult, u64) {
        let (request, context) = call(primary);
        let called = self
            .slowed
            .reconcile(Call {
                request,
                ports: &Absent::ports(),
                context,
                limits: CallLimits::default(),
                round: windlass_core::queue::breaker::BreakerRound::default(),
                must_be_made: true,
            })
            .await;
        (called.result, self.writing.calls.load(Ordering::Relaxed))
    }

    async fn loops(&self, primary: &Object) {
        for number in 1..=RETRIES_MAX {
            assert_eq!(self.call(Some(primary.clone())).await, (CallResult::Done, number));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_looping_key_is_called_again_on_a_change_or_after_a_minute() {
    let stage = stage(None);
    let primary = object("1", "{}", false);
    stage.loops(&primary).await;
    let same = object("2", "{}", false); // For example, only its status was written, so its desired state is the same.
    assert_eq!(
        stage.call(Some(same.clone())).await,
        (CallResult::NotCalled { again: Some(Duration::from_mins(1)) }, RETRIES_MAX)
    );
    let going = object("3", "{}", true);
    assert_eq!(stage.call(Some(going)).await, (CallResult::Done, RETRIES_MAX + 1));
    tokio::time::advance(Duration::from_hours(1)).await;
    let stage = self::stage(None);
    stage.loops(&primary).await;
    tokio::time::advance(Duration::from_mins(1)).await;
    assert_eq!(stage.call(Some(same)).await, (CallResult::Done, RETRIES_MAX + 1));
}

#[tokio::test(start_paused = true)]
async fn the_plugins_own_changes_of_its_primary_do_not_end_a_hot_loop() {
    let header = |generation| {
        let object = object("9", "{}", false);
        let text = object.text().to_string();
        Object::new(windlass_core::object::Header { generation, ..object.header.clone() }, text)
    };
    let stage = stage(Some(header(7)));
    stage.loops(&object("1", "{}", false)).await;
    assert_eq!(
        stage.call(Some(header(7))).await,
        (CallResult::NotCalled { again: Some(Duration::from_mins(1)) }, RETRIES_MAX)
    );
    assert_eq!(stage.call(Some(header(8))).await, (CallResult::Done, RETRIES_MAX + 1));
}

#[tokio::test(start_paused = true)]
async fn a_hot_loop_is_reported_once_with_the_object_and_its_other_writer() {
    let stage = stage(None);
    stage.loops(&object("1", "{}", false)).await;
    let events = stage.events.all();
    let [(reason, note)] = &*events else { panic!("{events:?}") };
    assert_eq!(reason, "HotLoop");
    assert!(note.contains("Deployment prod/web") && note.contains("4 times") && note.contains("by rival"), "{note}");
    let text = stage.metrics.text();
    assert!(text.contains(r#"windlass_hot_loops_total{controller="a",plugin="a"} 1"#), "{text}");
    let shown = stage.status.to_json();
    assert_eq!(
        shown["plugins"][0]["controllers"][0]["slowLane"],
        json!([{"key": "prod/a", "object": "Deployment prod/web", "secondsLeft": 60}])
    );
}
