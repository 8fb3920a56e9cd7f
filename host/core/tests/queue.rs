//! Tests the workqueue and its workers, one scenario per test. `queue_model` compares it with a model.

mod support;
mod tokio_clock;

use std::collections::BTreeSet;
use std::task::Poll;
use std::time::Duration;

use windlass_core::queue::outcome::Retry;
use windlass_core::queue::{ItemExponential, Priority, Queue};

use support::{ManualClock, manual, poll};
use tokio_clock::TokioClock;

fn paused() -> Queue<u8> {
    Queue::new(TokioClock::new(), ItemExponential::default())
}

#[test]
fn a_key_added_twice_is_handed_out_once() {
    let (queue, _) = manual();
    queue.add(1);
    queue.add(1);
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
    assert_eq!(poll(&queue), Poll::Pending);
}

#[test]
fn a_key_added_during_its_work_is_queued_again_afterwards() {
    let (queue, _) = manual();
    queue.add(1);
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
    queue.add(1);
    assert_eq!(poll(&queue), Poll::Pending);
    queue.done(&1);
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
}

#[test]
fn the_sooner_of_two_delays_wins() {
    for delays in [[10, 20], [20, 10]] {
        let (queue, clock) = manual();
        for delay in delays {
            queue.add_after(1, Duration::from_secs(delay));
        }
        clock.advance(Duration::from_secs(10));
        assert_eq!(poll(&queue), Poll::Ready(Some(1)));
        queue.done(&1);
        clock.advance(Duration::from_secs(10));
        assert_eq!(poll(&queue), Poll::Pending, "the later of {delays:?} must be gone");
    }
}

/// Works on key 1 once its delay is over.
fn work_when_due(queue: &Queue<u8>, clock: &ManualClock) {
    let delay = queue.look(&1).and_then(|known| known.due_in).unwrap_or_default();
    clock.advance(delay);
    if poll(queue).is_ready() {
        queue.done(&1);
    }
}

/// Lets key 1 fail once its backoff is over. Returns the next backoff in milliseconds.
fn fail_when_due(queue: &Queue<u8>, clock: &ManualClock, retry: Retry) -> u128 {
    work_when_due(queue, clock);
    queue.add_rate_limited(1, retry, None).as_millis()
}

#[test]
fn failures_double_the_delay_until_they_are_forgotten() {
    let (queue, clock) = manual();
    let fail = || fail_when_due(&queue, &clock, Retry::Counted);
    assert_eq!([fail(), fail(), fail()], [5, 10, 20]);
    queue.forget(&1);
    assert_eq!(fail(), 5);
}

#[test]
fn requeues_back_off_without_being_failures() {
    let (queue, clock) = manual();
    let requeue = || {
        work_when_due(&queue, &clock);
        queue.requeue_rate_limited(1).as_millis()
    };
    assert_eq!([requeue(), requeue(), requeue()], [5, 10, 20]);
    assert!(!queue.has_failed(&1) && !queue.backs_off(&1));
    let known = queue.look(&1).expect("it waits");
    assert_eq!((known.failures, known.counted, known.due_in), (0, 0, Some(Duration::from_millis(20))));
    assert_eq!(queue.metrics().failing, 0);
    assert_eq!(queue.requeue_rate_limited(1), Duration::from_millis(20), "an event ran it early");
    queue.forget(&1);
    assert_eq!(requeue(), 5);
}

#[test]
fn failures_and_requeues_begin_each_others_backoff_anew() {
    let (queue, clock) = manual();
    let fail = || fail_when_due(&queue, &clock, Retry::Counted);
    assert_eq!([fail(), fail()], [5, 10]);
    assert_eq!((queue.requeue_rate_limited(1).as_millis(), queue.num_requeues(&1)), (5, 0));
    assert_eq!((queue.add_rate_limited(1, Retry::Counted, None).as_millis(), queue.num_requeues(&1)), (5, 1));
}

#[test]
fn an_uncounted_failure_lengthens_the_backoff_only() {
    let (queue, clock) = manual();
    fail_when_due(&queue, &clock, Retry::Uncounted);
    assert_eq!(queue.num_requeues(&1), 0);
    assert_eq!(fail_when_due(&queue, &clock, Retry::Counted), 10);
    assert_eq!(queue.num_requeues(&1), 1);
}

#[test]
fn failures_during_a_backoff_are_not_counted_and_do_not_lengthen_it() {
    let (queue, clock) = manual();
    let backoffs: Vec<_> = (0..14).map(|_| fail_when_due(&queue, &clock, Retry::Counted)).collect();
    assert_eq!(backoffs.last(), Some(&40_960));
    for second in 1..=40 {
        clock.advance(Duration::from_secs(1));
        queue.add(1);
        assert_eq!(poll(&queue), Poll::Ready(Some(1)));
        assert!(queue.backs_off(&1));
        let rest = Duration::from_millis(40_960 - 1000 * second);
        assert_eq!(queue.add_rate_limited(1, Retry::Counted, None), rest);
        queue.done(&1);
    }
    let known = queue.look(&1).expect("it waits");
    assert_eq!((known.failures, known.counted, known.due_in), (14, 14, Some(Duration::from_millis(960))));
    clock.advance(Duration::from_millis(960));
    assert_eq!(poll(&queue), Poll::Ready(Some(1)), "the retry comes when it was to come");
    assert!(!queue.backs_off(&1));
    assert_eq!(queue.add_rate_limited(1, Retry::Counted, None), Duration::from_millis(81_920));
    assert_eq!(queue.num_requeues(&1), 15);
}

#[test]
fn a_failure_in_a_long_backoff_may_be_retried_sooner_and_then_counts() {
    let (queue, clock) = manual();
    queue.add_rate_limited(1, Retry::Uncounted, Some(Duration::from_mins(10)));
    clock.advance(Duration::from_mins(1));
    assert_eq!(
        queue.add_rate_limited(1, Retry::Uncounted, None),
        Duration::from_millis(5),
        "no longer delay was requested"
    );
    clock.advance(Duration::from_millis(5));
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
    assert_eq!(queue.add_rate_limited(1, Retry::Uncounted, None), Duration::from_millis(10));
}

/// A delay that is not a backoff, such as a plugin's own requeue, may end during a backoff.
#[test]
fn a_key_that_another_delay_runs_during_its_backoff_still_runs_at_its_end() {
    let (queue, clock) = manual();
    let backoffs: Vec<_> = (0..14).map(|_| fail_when_due(&queue, &clock, Retry::Counted)).collect();
    assert_eq!(backoffs.last(), Some(&40_960));
    queue.add_after(1, Duration::from_secs(10));
    clock.advance(Duration::from_secs(10));
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
    assert_eq!(queue.add_rate_limited(1, Retry::Counted, None), Duration::from_millis(30_960));
    queue.done(&1);
    assert_eq!(queue.num_requeues(&1), 14);
    clock.advance(Duration::from_millis(30_960));
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
}

#[test]
fn the_delay_that_the_server_requests_is_a_minimum() {
    let (queue, _) = manual();
    let asked = Duration::from_secs(3);
    assert_eq!(queue.add_rate_limited(1, Retry::Uncounted, Some(asked)), asked);
}

/// The delay that the server asks for.
const REQUESTED_DELAY: Duration = Duration::from_mins(1);

/// Lets a change run key 1, whose call then fails. The server asks for a delay. Returns when the key is due.
fn fail_with_a_requested_delay(queue: &Queue<u8>) -> Option<Duration> {
    queue.add(1);
    assert_eq!(poll(queue), Poll::Ready(Some(1)));
    assert_eq!(queue.add_rate_limited(1, Retry::Uncounted, Some(REQUESTED_DELAY)), REQUESTED_DELAY);
    queue.done(&1);
    queue.look(&1).and_then(|known| known.due_in)
}

#[test]
fn a_requested_delay_postpones_the_end_of_earlier_delays() {
    let (queue, clock) = manual();
    for _ in 0..14 {
        work_when_due(&queue, &clock);
        queue.requeue_rate_limited(1);
    }
    assert_eq!(queue.look(&1).and_then(|known| known.due_in), Some(Duration::from_millis(40_960)));
    assert_eq!(fail_with_a_requested_delay(&queue), Some(REQUESTED_DELAY), "the backoff of a requeue");
    clock.advance(Duration::from_secs(30));
    assert_eq!(fail_with_a_requested_delay(&queue), Some(REQUESTED_DELAY), "the backoff of a failure");
    clock.advance(Duration::from_secs(59));
    assert!(poll(&queue).is_pending());
    clock.advance(Duration::from_secs(1));
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));

    let (queue, _) = manual();
    queue.add_after(1, Duration::from_secs(1));
    assert_eq!(fail_with_a_requested_delay(&queue), Some(REQUESTED_DELAY), "a delay that the plugin set");
    queue.add_after_at_least(1, Duration::from_secs(1), Some(2 * REQUESTED_DELAY));
    assert_eq!(queue.look(&1).and_then(|known| known.due_in), Some(2 * REQUESTED_DELAY));
    queue.add_after_at_least(1, 9 * REQUESTED_DELAY, Some(REQUESTED_DELAY));
    assert_eq!(queue.look(&1).and_then(|known| known.due_in), Some(2 * REQUESTED_DELAY), "this is late enough");
}

#[test]
fn a_requested_delay_outlasts_one_that_ended_during_the_call() {
    let (queue, clock) = manual();
    let fail = |meanwhile: &dyn Fn()| {
        queue.add_after(1, Duration::from_secs(1));
        queue.add(1);
        assert_eq!(poll(&queue), Poll::Ready(Some(1)));
        clock.advance(Duration::from_secs(2));
        assert!(poll(&queue).is_pending(), "another worker looks for keys that are due");
        meanwhile();
        queue.add_rate_limited(1, Retry::Uncounted, Some(REQUESTED_DELAY));
        queue.done(&1);
        poll(&queue)
    };
    assert_eq!(fail(&|| {}), Poll::Pending);
    queue.forget(&1);
    assert_eq!(fail(&|| queue.add(1)), Poll::Ready(Some(1)), "a change runs the key at once");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_worker_wakes_when_a_delay_ends() {
    let queue = paused();
    queue.add_after(1, Duration::from_mins(1));
    queue.add_after(2, Duration::from_secs(1));
    assert_eq!(queue.get().await, Some(2));
    assert_eq!(queue.get().await, Some(1));
}

#[tokio::test(start_paused = true)]
async fn was_due_holds_until_the_key_is_done_or_given_back() {
    let queue = paused();
    queue.add(1);
    queue.add_after(1, Duration::from_secs(1));
    assert_eq!(queue.get().await, Some(1));
    assert!(!queue.was_due(&1), "an event came first");
    queue.done(&1);
    assert_eq!(queue.get().await, Some(1));
    assert!(queue.was_due(&1));
    assert!(queue.give_back(&1));
    assert_eq!(queue.get().await, Some(1));
    assert!(queue.was_due(&1), "nothing has been done with it");
    queue.done(&1);
    queue.add(1);
    assert_eq!(queue.get().await, Some(1));
    assert!(!queue.was_due(&1));
}

#[tokio::test(start_paused = true)]
async fn a_key_has_failed_until_it_is_forgotten() {
    let queue = paused();
    assert!(!queue.has_failed(&1));
    queue.add_rate_limited(1, Retry::Uncounted, None);
    assert!(queue.has_failed(&1));
    queue.forget(&1);
    assert!(!queue.has_failed(&1));
}

#[tokio::test(start_paused = true)]
async fn an_earlier_due_key_wakes_a_worker_that_waits_for_a_later_one() {
    let queue = paused();
    queue.add_after(1, Duration::from_hours(1));
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await }
    });
    tokio::task::yield_now().await;
    queue.add_after(2, Duration::from_secs(1));
    assert_eq!(worker.await.expect("the worker ends"), Some(2));
}

#[tokio::test(start_paused = true)]
async fn keys_due_together_wake_one_worker_each() {
    let queue = paused();
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await })
        })
        .collect();
    tokio::task::yield_now().await;
    for key in 0..3 {
        queue.add_after(key, Duration::from_secs(1));
    }
    let mut got = BTreeSet::new();
    for worker in workers {
        got.insert(worker.await.expect("the worker ends"));
    }
    assert_eq!(got, (0..3).map(Some).collect());
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_watches_delays_while_another_works() {
    let queue = paused();
    let worker = || {
        let queue = queue.clone();
        tokio::spawn(async move { queue.get().await })
    };
    let (first, second) = (worker(), worker());
    tokio::task::yield_now().await;
    queue.add_after(1, Duration::from_secs(1));
    queue.add_after(2, Duration::from_secs(2));
    // Neither key is finished, so each worker gets one.
    let both = async { [first.await.expect("no panic"), second.await.expect("no panic")] };
    let mut keys = tokio::time::timeout(Duration::from_secs(3), both).await.expect("both keys are due");
    keys.sort_unstable();
    assert_eq!(keys, [Some(1), Some(2)]);
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_workers_and_then_ends_them() {
    let queue = paused();
    queue.add(1);
    queue.add_after(2, Duration::from_secs(1));
    let key = queue.get().await.expect("queued");
    let drained = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain().await }
    });
    tokio::task::yield_now().await;
    assert!(!drained.is_finished(), "a worker still has a key");
    queue.add(3);
    queue.done(&key);
    drained.await.expect("the drain ends");
    assert_eq!(queue.get().await, None, "delayed and late keys are dropped");
}

#[test]
fn a_parked_key_is_not_handed_out_and_keeps_its_age() {
    let (queue, clock) = manual();
    queue.add(1);
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
    queue.park(&1);
    clock.advance(Duration::from_secs(1));
    queue.add(2);
    queue.add(1);
    assert_eq!(queue.metrics().parked, 1);
    queue.wake(&1);
    assert_eq!(poll(&queue), Poll::Ready(Some(1)), "it has waited longer");
    assert_eq!(poll(&queue), Poll::Ready(Some(2)));
}

#[test]
fn a_key_woken_before_it_is_parked_is_ready_at_once() {
    let (queue, _) = manual();
    queue.add(1);
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
    queue.wake(&1);
    queue.park(&1);
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
}

#[test]
fn parking_counts_no_retry() {
    let (queue, _) = manual();
    queue.add(1);
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
    queue.park(&1);
    assert_eq!(queue.num_requeues(&1), 0);
    assert_eq!(queue.metrics().retries, 0);
}

#[test]
fn a_key_that_is_given_back_is_unchanged() {
    let (queue, clock) = manual();
    queue.add_rate_limited(1, Retry::Counted, None);
    clock.advance(Duration::from_millis(5));
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
    queue.add_with(1, Priority::BACKGROUND);
    clock.advance(Duration::from_secs(1));
    queue.add(2);
    assert!(queue.give_back(&1));
    assert_eq!((queue.len(), queue.num_requeues(&1)), (2, 1));
    assert_eq!(poll(&queue), Poll::Ready(Some(1)), "it is the older one still");
    queue.done(&1);
    assert_eq!(poll(&queue), Poll::Ready(Some(2)), "and was queued once");
    queue.done(&2);
    assert_eq!(poll(&queue), Poll::Pending);
}

#[test]
fn a_queue_that_is_shut_down_drops_a_key_that_is_given_back() {
    let (queue, _) = manual();
    queue.add(1);
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
    queue.shut_down();
    assert!(!queue.give_back(&1));
    assert_eq!(poll(&queue), Poll::Ready(None));
}

#[test]
fn a_new_limiter_applies_from_the_next_failure_and_counts_earlier_ones() {
    let (queue, clock) = manual();
    assert_eq!(fail_when_due(&queue, &clock, Retry::Counted), 5);
    queue.limit_by(ItemExponential::new(Duration::from_secs(1), Duration::from_mins(1)));
    assert_eq!(fail_when_due(&queue, &clock, Retry::Counted), 2_000);
}

#[test]
fn additions_only_raise_the_priority_of_a_queued_key() {
    let (queue, _) = manual();
    queue.add_with(1, Priority::BACKGROUND);
    queue.add_with(2, Priority::BACKGROUND);
    queue.add(2);
    queue.add_with(2, Priority::BACKGROUND);
    assert_eq!(queue.len(), 2);
    assert_eq!([poll(&queue), poll(&queue)], [2, 1].map(|key| Poll::Ready(Some(key))));
    assert_eq!(poll(&queue), Poll::Pending, "a raised key is handed out once");
}

#[test]
fn a_retried_key_keeps_its_priority_until_a_change_raises_it() {
    let (queue, clock) = manual();
    for key in [1, 2] {
        queue.add_with(key, Priority::BACKGROUND);
        assert_eq!(poll(&queue), Poll::Ready(Some(key)));
    }
    queue.add_rate_limited(1, Retry::Counted, None);
    queue.add_after(2, Duration::from_millis(5));
    queue.done(&1);
    queue.done(&2);
    clock.advance(Duration::from_secs(1));
    queue.add(3);
    assert_eq!(poll(&queue), Poll::Ready(Some(3)), "a user's change goes before what failed in the background");
    assert_eq!([poll(&queue), poll(&queue)], [1, 2].map(|key| Poll::Ready(Some(key))));
    queue.add_rate_limited(1, Retry::Counted, None);
    queue.add(1);
    queue.done(&1);
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
    queue.add_rate_limited(1, Retry::Counted, None);
    queue.done(&1);
    queue.add_with(1, Priority::BACKGROUND);
    queue.add(4);
    assert_eq!(poll(&queue), Poll::Ready(Some(1)), "a change that has failed stays urgent, also if all run again");
}

#[test]
fn a_raised_priority_holds_for_a_parked_key() {
    let (queue, _) = manual();
    queue.add_with(1, Priority::BACKGROUND);
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
    queue.park(&1);
    queue.add(1);
    queue.add_with(2, Priority(-1));
    queue.wake(&1);
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_parked_keys_and_their_workers() {
    let queue = paused();
    queue.add(1);
    let key = queue.get().await.expect("queued");
    queue.park(&key);
    let drained = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain().await }
    });
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let mut got = Vec::new();
            while let Some(key) = queue.get().await {
                got.push(key);
                queue.done(&key);
            }
            got
        }
    });
    tokio::task::yield_now().await;
    assert!(!drained.is_finished() && !worker.is_finished(), "the parked key can still wake");
    queue.wake(&1);
    drained.await.expect("no panic");
    assert_eq!(worker.await.expect("no panic"), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_when_the_remaining_keys_are_dropped() {
    let queue = paused();
    queue.add(1);
    let key = queue.get().await.expect("queued");
    queue.park(&key);
    let drained = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain().await }
    });
    tokio::task::yield_now().await;
    assert_eq!(queue.drop_ready(), 1);
    drained.await.expect("no panic");
    assert_eq!(queue.get().await, None);
}

#[test]
fn the_metrics_reflect_the_operations() {
    let (queue, clock) = manual();
    queue.add(1);
    queue.add(1);
    queue.add(2);
    clock.advance(Duration::from_secs(2));
    assert_eq!(poll(&queue), Poll::Ready(Some(1)));
    clock.advance(Duration::from_secs(3));
    let metrics = queue.metrics();
    assert_eq!((metrics.depth, metrics.adds), (1, 2));
    assert_eq!((metrics.queue_duration.count, metrics.queue_duration.sum), (1, 2_000_000_000));
    assert_eq!((metrics.unfinished_work, metrics.longest_running), (Duration::from_secs(3), Duration::from_secs(3)));
    queue.done(&1);
    let metrics = queue.metrics();
    assert_eq!((metrics.work_duration.count, metrics.work_duration.sum), (1, 3_000_000_000));
    assert_eq!(metrics.unfinished_work, Duration::ZERO);
}
