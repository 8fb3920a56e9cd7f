//! Dispatch with a fake plugin.

mod circuit;
pub(crate) mod filled;
mod held;
mod left;
mod outcomes;
mod remembered;
mod restored;
mod retired;
mod settling;
mod shown;
mod spans;
mod timed;
mod triggered;
mod waiting;

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};
use windlass_core::budget::fair::Fair;
use windlass_core::cache::mapping::PrimaryKind;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::call::ports::{Absent, Event};
use windlass_core::clock::{Clock, Moment};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::life::probation;
use windlass_core::object::ObjectKind;
use windlass_core::queue::key_state::CallBlock;
use windlass_core::queue::outcome::{CallResult, Failure};
use windlass_core::queue::{ItemExponential, Queue};
use windlass_kube::client::{self, ConnectOptions};
use windlass_kube::{CacheTrust, Discovery, Informers, Subscription};
use windlass_wasm::{Called, Request};

use super::aftermath::{RetryPace, pace};
use super::*;
use crate::clock::SystemClock;
use crate::controller::running::Running;
use crate::dispatch::call_record::Judged;
use crate::dispatch::circuit::Circuit;
use crate::dispatch::keys::OUTAGE_WITHOUT_RETRY_MAX;
use crate::dispatch::middleware::breaker::BreakerRecord;
use crate::dispatch::ports;
use crate::dispatch::reconcile::Call;
use crate::dispatch::rescan::Rescans;
use crate::dispatch::route::Stores;
use crate::observe::metrics::HostMetrics;
use crate::observe::status::Status;
use crate::phases::{ControllerEnd, Phases, tracker};
use crate::supervise::supervise;
use crate::tests::switch::Switch;

#[test]
fn a_key_is_given_up_when_its_counted_retries_are_used_up() {
    assert_eq!(pace(Retry::Counted, 14, 15, false), RetryPace::Backoff);
    assert_eq!(pace(Retry::Counted, 15, 15, false), RetryPace::GivenUp);
}

#[test]
fn a_key_that_an_event_runs_during_its_last_backoff_is_not_given_up() {
    assert_eq!(pace(Retry::Counted, 15, 15, true), RetryPace::Backoff);
}

#[test]
fn a_key_is_never_given_up_for_uncounted_failures() {
    assert_eq!(pace(Retry::Uncounted, 99, 15, false), RetryPace::Backoff);
}

#[test]
fn a_trace_id_has_the_form_of_w3c_trace_context() {
    let id = trace_id();
    assert_eq!(id.len(), 32);
    assert!(id.bytes().all(|byte| byte.is_ascii_hexdigit()));
}

/// A call for the test to answer. If it is dropped without an answer, the call panics.
struct PlayedCall {
    request: Request,
    /// The triggers in the call's context, as text.
    triggers: String,
    /// The `traceparent` header of a request that the call would make.
    traceparent: Option<String>,
    answer: Answer,
}

/// Answers a call.
struct Answer {
    sender: oneshot::Sender<CallResult>,
    /// Stands for a write of the call: until it is dropped, the key waits.
    hold: Hold,
}

impl Answer {
    /// Ends the call and everything that it began.
    fn send(self, result: CallResult) -> Result<(), CallResult> {
        drop(self.hold);
        self.sender.send(result)
    }
}

/// A plugin that hands its calls to the test.
struct Played(mpsc::UnboundedSender<PlayedCall>);

impl Reconcile for Played {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        let Call { request, context, .. } = call;
        let (sender, answered) = oneshot::channel();
        let (triggers, answer) = (context.triggers.to_string(), Answer { sender, hold: context.hold.clone() });
        let traceparent = context.trace.traceparent(&context.trace_id, 1);
        self.0.send(PlayedCall { request, triggers, traceparent, answer }).expect("the test listens");
        async {
            let result = answered.await.expect("dropped to make the call panic");
            let made = !matches!(result, CallResult::NotCalled { .. });
            Called { made, ..Called::made(result, Duration::from_millis(1)) }
        }
        .boxed()
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("prod", name)
}

fn unreachable_server() -> CallResult {
    CallResult::Failed(vec![Failure::Api(ApiError::refused(ApiReason::ServerError, "get", "pods", None, "no answer"))])
}

/// A dispatch with supervised workers, and its fake surroundings.
struct Stage {
    dispatch: Arc<Dispatch>,
    calls: mpsc::UnboundedReceiver<PlayedCall>,
    fair: Fair,
    /// The share of another plugin, which can take permits away.
    other: CpuShare,
    switch: Switch,
    phases: Phases,
}

impl Stage {
    fn with_clock(workers: usize, permits: u32, clock: Arc<dyn Clock>) -> Self {
        Self::with(workers, permits, clock, Stores::default())
    }

    fn with(workers: usize, permits: u32, clock: Arc<dyn Clock>, primaries: Stores) -> Self {
        Self::with_ports(workers, permits, clock, primaries, Absent::ports())
    }

    fn with_ports(workers: usize, permits: u32, clock: Arc<dyn Clock>, primaries: Stores, ports: Ports) -> Self {
        Self::with_trust(workers, permits, clock, primaries, ports, CacheTrust::always())
    }

    fn with_trust(
        workers: usize,
        permits: u32,
        clock: Arc<dyn Clock>,
        primaries: Stores,
        ports: Ports,
        trust: CacheTrust,
    ) -> Self {
        let (sender, calls) = mpsc::unbounded_channel();
        let (switch, outages) = Switch::new();
        let phases = Phases::of(CancellationToken::new());
        let circuit = Circuit::default();
        let fair = Fair::new(permits, ports::call_slots(permits));
        let [share, other] = std::array::from_fn(|_| fair.share(NonZeroU32::MIN));
        let principal = Principal::of_plugin("a", "0", "test");
        let metrics = HostMetrics::new().controller("a", "a");
        let status = Status::new(CancellationToken::new()).plugin("a").controller("a", 1, metrics);
        let played = Box::new(Played(sender));
        let queue = Queue::new(clock, ItemExponential::new(Duration::from_mins(1), Duration::from_hours(1)));
        let dispatch = Arc::new(Dispatch {
            keys: ControllerKeys {
                primary: PrimaryKind { kind: ObjectKind::new("v1", "ConfigMap"), namespaced: true },
                primaries,
                queue,
                gate: None,
                memory: Arc::default(),
                rescans: Rescans::new(false),
                status: status.clone(),
            },
            callee: ControllerCallee {
                plugin: Box::new(BreakerRecord::new(played, circuit.clone(), status.clone(), ports.events.clone())),
                controller: "a".into(),
                requested_as: "a".into(),
                principal: Arc::new(principal),
                ports,
                config: watch::channel(None).1,
                limits: CallLimits::default(),
            },
            permits: CallPermits { share, call_gate: CallGate::new(outages, trust, None, circuit), slot_worth: 0.5 },
            shutdown: Shutdown {
                stop: CancellationToken::new(),
                last_call: CancellationToken::new(),
                retired: CancellationToken::new(),
                workers: Workers::new(tracker(), tracker()),
                dropped: phases.dropping(),
                left: Arc::default(),
            },
            max_retries: 15,
            record: CallRecord::new(),
            status,
            panics: Panics::default(),
            tracer: None,
            caches_filled: CancellationToken::new(),
        });
        for _ in 0..workers {
            let dispatch = dispatch.clone();
            tokio::spawn(async move {
                supervise("worker", &dispatch.panics, &CancellationToken::new(), || dispatch.work()).await
            });
        }
        Self { dispatch, calls, fair, other, switch, phases }
    }

    fn new(workers: usize) -> Self {
        Self::with_clock(workers, 8, Arc::new(SystemClock::new()))
    }

    async fn call(&mut self) -> PlayedCall {
        self.calls.recv().await.expect("the workers go on")
    }

    /// Expects the next call to be about `name`, and answers it.
    async fn answer(&mut self, name: &str, result: CallResult) {
        let call = self.call().await;
        assert_eq!(call.request.key, key(name));
        call.answer.send(result).expect("the worker waits");
    }

    /// Whether no call is made once everything has come to rest.
    async fn is_quiet(&mut self) -> bool {
        // Paused time advances only when nothing else can run.
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.calls.try_recv().is_err()
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_for_a_permit_and_another_plugin_may_have_it_first() {
    let mut stage = Stage::with_clock(1, 1, Arc::new(SystemClock::new()));
    let permit = stage.other.acquire().await;
    stage.dispatch.keys.queue.add(key("a"));
    assert!(stage.is_quiet().await);
    permit.finish(Duration::ZERO);
    stage.answer("a", CallResult::Done).await;
}

#[tokio::test(start_paused = true)]
async fn no_call_begins_while_the_api_server_is_unreachable() {
    let mut stage = Stage::new(2);
    assert!(stage.is_quiet().await, "both workers wait for a key");
    stage.switch.begin();
    stage.dispatch.keys.queue.add(key("a"));
    assert!(stage.is_quiet().await);
    assert_eq!(stage.dispatch.keys.queue.len(), 1, "no worker takes the key");
    stage.switch.end();
    stage.answer("a", CallResult::Done).await;
}

#[tokio::test(start_paused = true)]
async fn a_generation_that_cannot_be_called_does_not_prove_itself_by_time() {
    let mut stage = Stage::new(1);
    let record = stage.dispatch.record.clone();
    record.begin_probation(probation::CallCounts { calls: 100, failures: 0 });
    stage.dispatch.keys.queue.add(key("a"));
    stage.answer("a", CallResult::Done).await;
    assert!(stage.is_quiet().await);
    stage.switch.begin();
    assert!(stage.is_quiet().await);
    tokio::time::advance(Duration::from_hours(1)).await;
    assert_eq!(record.judged().now_or_never(), None);
    stage.switch.end();
    stage.dispatch.keys.queue.add(key("b"));
    stage.answer("b", CallResult::Done).await;
    let began = Instant::now();
    assert_eq!(record.judged().await, Judged::Passed);
    assert!(began.elapsed() > Duration::from_secs(59), "its minute begins with this call");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_not_made_does_not_count_as_a_success() {
    let mut stage = Stage::new(1);
    let record = stage.dispatch.record.clone();
    stage.dispatch.keys.queue.add(key("a"));
    stage.answer("a", CallResult::Failed(vec![Failure::Transient("not yet".to_owned())])).await;
    assert!(stage.is_quiet().await);
    for again in [None, Some(Duration::from_secs(10))] {
        stage.dispatch.keys.queue.add(key("a"));
        stage.answer("a", CallResult::NotCalled { again }).await;
        assert!(stage.is_quiet().await);
    }
    assert_eq!(stage.dispatch.keys.queue.num_requeues(&key("a")), 1, "its failure is not forgotten");
    assert_eq!(record.record(), probation::CallCounts { calls: 1, failures: 1 });
    let metrics = &stage.dispatch.status.metrics;
    assert_eq!((metrics.success.get(), metrics.requeue_after.get()), (0, 0));
    let began = Instant::now();
    let call = stage.call().await;
    assert!(began.elapsed().abs_diff(Duration::from_secs(10)) < Duration::from_secs(1), "at the requested time");
    call.answer.send(CallResult::Done).expect("the worker waits");
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_begins_while_a_key_waits_for_its_permit_pauses_it_too() {
    let mut stage = Stage::with_clock(1, 1, Arc::new(SystemClock::new()));
    let permit = stage.other.acquire().await;
    stage.dispatch.keys.queue.add(key("a"));
    assert!(stage.is_quiet().await);
    stage.switch.begin();
    permit.finish(Duration::ZERO);
    assert!(stage.is_quiet().await);
    assert!(stage.other.acquire().now_or_never().is_some(), "it must not hold a permit meanwhile");
    stage.switch.end();
    stage.answer("a", CallResult::Done).await;
}

/// A worker that has a key and waits for the only permit, which another plugin holds.
async fn waiting_for_a_permit() -> (Stage, Running, Phases, CallPermit) {
    let mut stage = Stage::with_clock(0, 1, Arc::new(SystemClock::new()));
    let phases = stage.phases.clone();
    let running = Running::new(stage.dispatch.clone(), &phases);
    running.work();
    let permit = stage.other.acquire().await;
    stage.dispatch.keys.queue.add(key("a"));
    assert!(stage.is_quiet().await);
    (stage, running, phases, permit)
}

/// Stops the host. Returns how its only controller ended.
async fn stop(running: Running, phases: &Phases) -> ControllerEnd {
    let controller = tokio::spawn(running.end());
    let mut end = None;
    let ended = async { usize::from(*end.insert(controller.await.expect("no panic")) == ControllerEnd::Cut) };
    let nothing: Option<std::future::Ready<bool>> = None;
    phases.end(ended, std::future::ready(true), nothing, std::future::ready(())).await;
    end.expect("it ended")
}

/// A lost lease leaves no time to drain.
#[tokio::test(start_paused = true)]
async fn workers_without_a_key_end_at_once_when_no_further_call_may_begin() {
    let stage = Stage::with_clock(0, 1, Arc::new(SystemClock::new()));
    let phases = stage.phases.clone();
    let running = Running::new(stage.dispatch.clone(), &phases);
    running.work();
    tokio::time::sleep(Duration::from_millis(1)).await;
    phases.stop.cancel();
    phases.last_call.cancel();
    let end = tokio::time::timeout(Duration::from_secs(1), running.end()).await;
    assert_eq!(end.ok(), Some(ControllerEnd::Clean));
}

#[tokio::test(start_paused = true)]
async fn a_key_waiting_for_its_permit_is_not_called_after_its_kind_is_removed() {
    let (mut stage, running, _, permit) = waiting_for_a_permit().await;
    let abandoned = tokio::time::timeout(Duration::from_mins(1), running.abandon()).await;
    assert!(abandoned.is_ok(), "it waits for no other plugin's calls");
    permit.finish(Duration::ZERO);
    assert!(stage.is_quiet().await);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_waits_for_its_permit_when_a_stop_has_drained_is_dropped() {
    let (mut stage, running, phases, permit) = waiting_for_a_permit().await;
    let began = Instant::now();
    assert_eq!(stop(running, &phases).await, ControllerEnd::Clean, "no call runs that could be cut");
    assert!(began.elapsed() < Duration::from_secs(6), "only the drain waits: {:?}", began.elapsed());
    assert_eq!(phases.all_dropped(), 1);
    permit.finish(Duration::ZERO);
    assert!(stage.is_quiet().await);
}

/// A key that the gate holds, and a worker that waits for another key.
async fn holding() -> (Stage, Running, Phases) {
    let stage = Stage::with_clock(0, 1, Arc::new(SystemClock::new()));
    let phases = stage.phases.clone();
    let running = Running::new(stage.dispatch.clone(), &phases);
    stage.dispatch.keys.queue.add(key("a"));
    let held = stage.dispatch.keys.queue.get().await.expect("it is ready");
    stage.dispatch.keys.queue.park(&held);
    running.work();
    (stage, running, phases)
}

#[tokio::test(start_paused = true)]
async fn a_held_key_that_wakes_while_the_queues_drain_is_called() {
    let (mut stage, running, phases) = holding().await;
    let (began, queue) = (Instant::now(), stage.dispatch.keys.queue.clone());
    let waking = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        queue.wake(&key("a"));
        stage.answer("a", CallResult::Done).await;
    };
    let (end, ()) = tokio::join!(stop(running, &phases), waking);
    assert_eq!(end, ControllerEnd::Clean);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_held_key_that_does_not_wake_is_dropped_when_the_drain_is_over() {
    let (mut stage, running, phases) = holding().await;
    let began = Instant::now();
    assert_eq!(stop(running, &phases).await, ControllerEnd::Clean);
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(6), "{took:?}");
    stage.dispatch.keys.queue.wake(&key("a"));
    assert!(stage.is_quiet().await);
}

/// This happens when another generation starts afresh with its own queue.
#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_for_calls_of_a_dropped_queue() {
    let (mut stage, running, phases) = holding().await;
    stage.dispatch.keys.queue.wake(&key("a"));
    let call = stage.call().await;
    let abandoned = tokio::spawn(running.abandon());
    assert!(stage.is_quiet().await);
    let (began, last_call) = (Instant::now(), phases.last_call.clone());
    let stopping = tokio::spawn(async move {
        let ended = async { usize::from(abandoned.await.is_err()) };
        let nothing: Option<std::future::Ready<bool>> = None;
        phases.end(ended, std::future::ready(true), nothing, std::future::ready(())).await
    });
    last_call.cancelled().await;
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    assert!(stage.is_quiet().await && !stopping.is_finished(), "the call is waited for");
    call.answer.send(CallResult::Done).expect("the worker waits");
    assert!(stopping.await.expect("no panic"));
}

#[tokio::test(start_paused = true)]
async fn the_keys_of_a_queue_that_is_not_drained_are_counted_as_dropped() {
    let (_stage, running, phases) = holding().await;
    running.abandon().await;
    assert_eq!(phases.all_dropped(), 1);
    let (_stage, running, phases) = holding().await;
    // This also happens after a panic.
    drop(running);
    assert_eq!(phases.all_dropped(), 1);
}

/// A round with a running call, a key that waits for its permit, and a key that waits for a worker. The host goes on.
async fn all_at_work() -> (Stage, Running, Phases, PlayedCall) {
    let mut stage = Stage::with_clock(0, 1, Arc::new(SystemClock::new()));
    let host = Phases::of(CancellationToken::new());
    let phases = host.of_plugin(CancellationToken::new());
    Arc::get_mut(&mut stage.dispatch).expect("no worker has it yet").shutdown.dropped = phases.dropping();
    let running = Running::new(stage.dispatch.clone(), &phases);
    running.work();
    running.work();
    for name in ["a", "b", "c"] {
        stage.dispatch.keys.queue.add(key(name));
    }
    let call = stage.call().await;
    assert!(stage.is_quiet().await);
    assert_eq!((stage.dispatch.keys.queue.processing().len(), stage.dispatch.keys.queue.len()), (2, 1));
    (stage, running, host, call)
}

#[tokio::test(start_paused = true)]
async fn all_keys_count_as_dropped_if_the_host_stops_during_an_abandoned_round() {
    for (stops_meanwhile, dropped) in [(true, 2), (false, 0)] {
        let (mut stage, running, host, call) = all_at_work().await;
        let abandoned = tokio::spawn(running.abandon());
        assert!(stage.is_quiet().await && !abandoned.is_finished(), "a call runs");
        let answer = || call.answer.send(CallResult::Done).expect("the worker waits");
        if stops_meanwhile {
            let nothing: Option<std::future::Ready<bool>> = None;
            let stopping = host.end(abandoned.map(|_| 0), std::future::ready(true), nothing, std::future::ready(()));
            let answer = host.last_call.cancelled().map(|()| {
                assert_eq!(host.all_dropped(), dropped, "as counted for the drain");
                answer();
            });
            assert!(tokio::join!(stopping, answer).0);
        } else {
            answer();
            abandoned.await.expect("no panic");
            assert!(stage.is_quiet().await);
            drop(stage);
            host.stop.cancel();
        }
        assert_eq!(host.all_dropped(), dropped);
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_that_calls_need_run_until_an_abandoned_rounds_last_call_ends() {
    let (mut stage, mut running, _host, call) = all_at_work().await;
    let (needed, kept) = (Arc::new(AtomicUsize::new(0)), Arc::new(()));
    running.keep(ticking(&needed, &kept));
    let abandoned = tokio::spawn(running.abandon());
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(Arc::strong_count(&kept), 2, "a call runs");
    assert!(needed.load(Ordering::Relaxed) >= 10, "{needed:?}");
    call.answer.send(CallResult::Done).expect("the worker waits");
    abandoned.await.expect("no panic");
    assert_eq!(Arc::strong_count(&kept), 1);
    assert!(stage.is_quiet().await);
}

/// Counts the seconds, and keeps `kept` alive.
fn ticking(seconds: &Arc<AtomicUsize>, kept: &Arc<()>) -> impl Future<Output = Infallible> + use<> {
    let (seconds, kept) = (seconds.clone(), kept.clone());
    async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(Arc::strong_count(&kept) > 1, "kept by the round and by the test");
            seconds.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_that_calls_need_run_until_the_last_call_of_a_stop_ends() {
    let (mut stage, mut running, phases) = holding().await;
    let (needed, kept) = (Arc::new(AtomicUsize::new(0)), Arc::new(()));
    running.keep(ticking(&needed, &kept));
    stage.dispatch.keys.queue.wake(&key("a"));
    let stopping = tokio::spawn(async move { stop(running, &phases).await });
    let call = stage.call().await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(Arc::strong_count(&kept), 2, "a call runs");
    call.answer.send(CallResult::Done).expect("the worker waits");
    assert_eq!(stopping.await.expect("no panic"), ControllerEnd::Clean);
    assert!(needed.load(Ordering::Relaxed) >= 10, "{needed:?}");
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_cut_after_the_drain_and_the_time_for_calls() {
    let (mut stage, running, phases) = holding().await;
    let began = Instant::now();
    stage.dispatch.keys.queue.wake(&key("a"));
    let _hangs = stage.call().await;
    assert_eq!(stage.dispatch.keys.queue.processing(), [key("a")]);
    assert_eq!(stop(running, &phases).await, ControllerEnd::Cut);
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(25) && took < Duration::from_secs(26), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_during_an_outage_drops_queued_keys_without_waiting() {
    let (mut stage, running, phases) = holding().await;
    stage.switch.begin();
    stage.dispatch.keys.queue.wake(&key("a"));
    let began = Instant::now();
    assert_eq!(stop(running, &phases).await, ControllerEnd::Clean);
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    stage.switch.end();
    assert!(stage.is_quiet().await);
}

/// The caches of a server that never answers, so that no first list comes.
async fn unfilled() -> (Informers, Subscription) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("kubeconfig");
    let text = r#"{"clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": ""}}], "current-context": "a"}"#;
    std::fs::write(&path, text).expect("written");
    let options = ConnectOptions { kubeconfig: Some(path), ..ConnectOptions::default() };
    let client = client::connect(&options).await.expect("nothing is sent yet").client;
    let informers = Informers::new(client.clone(), Discovery::new(client));
    let subscription = informers.subscribe(WatchSpec::all(ObjectKind::new("v1", "ConfigMap")));
    (informers, subscription)
}

#[tokio::test(start_paused = true)]
async fn an_emptied_cache_does_not_report_a_primary_as_deleted() {
    let (_informers, subscription) = unfilled().await;
    let primaries = Stores::new([subscription.store().clone()]);
    let mut stage = Stage::with(1, 1, Arc::new(SystemClock::new()), primaries);
    stage.dispatch.keys.queue.add(key("a"));
    assert!(stage.is_quiet().await);
    assert!(stage.dispatch.keys.queue.is_empty(), "a worker took it");
    let queued = stage.dispatch.keys.queue.look(&key("a")).expect("the next round would get it");
    assert_eq!(queued.due_in.map(|due| due.as_millis().div_ceil(1_000)), Some(1));
    assert!(stage.other.acquire().now_or_never().is_some(), "the permit is free again");
}

#[tokio::test(start_paused = true)]
async fn keys_deferred_by_an_outage_run_once_when_it_ends() {
    let mut stage = Stage::new(1);
    let before = Instant::now();
    for name in ["a", "b"] {
        stage.dispatch.keys.queue.add(key(name));
        stage.answer(name, unreachable_server()).await;
    }
    stage.dispatch.keys.queue.add(key("mine"));
    stage.answer("mine", CallResult::Failed(vec![Failure::Transient("my own fault".into())])).await;
    assert!(stage.is_quiet().await, "all wait for their backoff");
    stage.switch.begin();
    let began = Instant::now();
    tokio::time::sleep(OUTAGE_WITHOUT_RETRY_MAX).await;
    stage.switch.end();
    stage.dispatch.recover(began);
    let mut called = Vec::new();
    for _ in 0..2 {
        let call = stage.call().await;
        called.push(call.request.key.to_string());
        call.answer.send(CallResult::Done).expect("the worker waits");
    }
    called.sort();
    assert_eq!(called, ["prod/a", "prod/b"]);
    assert!(stage.is_quiet().await, "once each, and the plugin's own failure keeps its backoff");
    assert!(before.elapsed() < Duration::from_secs(2), "not after their backoff of a minute");
}

#[tokio::test(start_paused = true)]
async fn calls_that_break_a_server_back_off_even_if_it_recovers_in_between() {
    let mut stage = Stage::new(1);
    stage.dispatch.keys.queue.add(key("a"));
    for failures in 0..5 {
        let began = Instant::now();
        stage.answer("a", unreachable_server()).await;
        assert!(began.elapsed() >= Duration::from_secs(30) * failures, "its backoff, which grows");
        assert!(stage.is_quiet().await, "its worker has noted the failure");
        stage.switch.begin();
        stage.dispatch.recover(Instant::now());
        stage.switch.end();
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_stops_during_an_outage_does_not_wait_for_its_end() {
    let stage = Stage::new(0);
    stage.switch.begin();
    stage.dispatch.keys.queue.add(key("a"));
    stage.dispatch.shutdown.stop.cancel();
    stage.dispatch.keys.queue.shut_down();
    stage.dispatch.work().await;
    assert!(stage.dispatch.keys.queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_call_in_which_the_host_panics_fails_its_key_alone() {
    let mut stage = Stage::new(1);
    stage.dispatch.keys.queue.add(key("a"));
    drop(stage.call().await.answer);
    stage.dispatch.keys.queue.add(key("b"));
    stage.answer("b", CallResult::Done).await;
    let again = stage.call().await;
    assert_eq!((again.request.key, again.request.attempt), (key("a"), 1));
    assert_eq!(stage.dispatch.panics.of("call"), 1);
}

/// A clock that panics at each time in its list, and works otherwise.
struct Clumsy {
    clock: SystemClock,
    reads: AtomicUsize,
    panics_at: &'static [usize],
}

impl Clock for Clumsy {
    fn now(&self) -> Moment {
        let read = self.reads.fetch_add(1, Ordering::Relaxed);
        assert!(!self.panics_at.contains(&read), "the clock panics");
        self.clock.now()
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        self.clock.sleep_until(moment)
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_panics_over_the_queue_continues() {
    let clock = Clumsy { clock: SystemClock::new(), reads: AtomicUsize::new(0), panics_at: &[0, 1] };
    let mut stage = Stage::with_clock(1, 8, Arc::new(clock));
    // The worker reads the clock for the queue, which panics twice. Then it waits, and is woken.
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(stage.dispatch.panics.of("worker"), 2);
    stage.dispatch.keys.queue.add(key("a"));
    stage.answer("a", CallResult::Done).await;
    stage.dispatch.keys.queue.add(key("a"));
    stage.answer("a", CallResult::Done).await;
}

#[test]
fn a_waiting_call_is_charged_for_its_call_slot() {
    let (a_millisecond, a_second) = (Duration::from_millis(1), Duration::from_secs(1));
    assert_eq!(charge(a_millisecond, a_second, 0.5), Duration::from_millis(500));
    assert_eq!(charge(a_second, a_second, 0.5), a_second, "a computing call is charged its CPU time");
}
