//! Keys whose writes may still be carried out after their calls have ended.

use super::*;

/// The longest time after which a sent write may still be carried out.
const MUTATION_LIFETIME: Duration = Duration::from_secs(20);

impl PlayedCall {
    /// Ends the call with a write of unknown outcome. Returns the hold that the write has on the key.
    fn leave_unknown(self) -> Hold {
        let unknown =
            ApiError::refused(ApiReason::UnknownOutcome, "patch", "pods", None, "etcdserver: request timed out");
        let failed = CallResult::Failed(vec![Failure::Api(unknown)]);
        let Answer { sender, hold } = self.answer;
        sender.send(failed).expect("the worker waits");
        hold
    }
}

fn settling(stage: &Stage) -> usize {
    stage.dispatch.status.settling.count()
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_until_its_write_has_settled_and_its_worker_does_not() {
    let mut stage = Stage::new(1);
    let mut unknown = Vec::new();
    for name in ["a", "b", "c"] {
        stage.dispatch.keys.queue.add(key(name));
        unknown.push(stage.call().await.leave_unknown());
    }
    assert!(stage.is_quiet().await);
    assert_eq!(settling(&stage), 3);
    stage.dispatch.keys.queue.add(key("a"));
    assert!(stage.is_quiet().await, "it may not run twice at a time");
    stage.dispatch.keys.queue.add(key("d"));
    stage.answer("d", CallResult::Done).await;
    unknown.remove(0);
    stage.answer("a", CallResult::Done).await;
    assert!(stage.is_quiet().await);
    assert_eq!(settling(&stage), 2);
}

#[tokio::test(start_paused = true)]
async fn a_key_waiting_for_its_write_is_shown_and_reported_now_and_then() {
    let mut stage = Stage::new(1);
    stage.dispatch.keys.queue.add(key("a"));
    let unknown = stage.call().await.leave_unknown();
    assert!(stage.is_quiet().await);
    let status = &stage.dispatch.status;
    let shown = status.settling.to_json();
    assert_eq!(shown[0]["key"], "prod/a");
    assert_eq!(status.settling.count_to_log(), None, "the first key was reported just now");
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(status.settling.count_to_log(), Some(1));
    drop(unknown);
    assert!(stage.is_quiet().await);
    assert!(stage.dispatch.status.settling.to_json().is_empty());
}

#[tokio::test(start_paused = true)]
async fn when_too_many_keys_wait_their_workers_wait_with_them() {
    let mut stage = Stage::new(1);
    let status = stage.dispatch.status.clone();
    let others: Vec<_> = (0..).map_while(|index| status.settling.begin(key(&format!("other-{index}")))).collect();
    stage.dispatch.keys.queue.add(key("a"));
    let unknown = stage.call().await.leave_unknown();
    stage.dispatch.keys.queue.add(key("b"));
    assert!(stage.is_quiet().await);
    drop((others, unknown));
    stage.answer("b", CallResult::Done).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_until_a_write_has_settled() {
    let mut stage = Stage::with_clock(0, 1, Arc::new(SystemClock::new()));
    let phases = stage.phases.clone();
    let running = Running::new(stage.dispatch.clone(), &phases);
    running.work();
    stage.dispatch.keys.queue.add(key("a"));
    let unknown = stage.call().await.leave_unknown();
    assert!(stage.is_quiet().await);
    tokio::spawn(async move {
        tokio::time::sleep(MUTATION_LIFETIME).await;
        drop(unknown);
    });
    let began = Instant::now();
    assert_eq!(stop(running, &phases).await, ControllerEnd::Clean);
    assert!(began.elapsed() < MUTATION_LIFETIME + Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_successor_does_not_get_a_key_before_its_write_has_settled() {
    let clock = Arc::new(SystemClock::new());
    let mut stage = Stage::with_clock(1, 1, clock.clone());
    stage.dispatch.keys.queue.add(key("a"));
    let unknown = stage.call().await.leave_unknown();
    assert!(stage.is_quiet().await);
    stage.dispatch.shutdown.retired.cancel();
    let mut next = Stage::with_clock(0, 1, clock);
    Arc::get_mut(&mut next.dispatch).expect("no worker has it yet").keys.queue = stage.dispatch.keys.queue.clone();
    let running = Running::new(next.dispatch.clone(), &next.phases.clone());
    running.work();
    next.dispatch.keys.queue.add(key("a"));
    assert!(next.is_quiet().await);
    drop(unknown);
    next.answer("a", CallResult::Done).await;
}
