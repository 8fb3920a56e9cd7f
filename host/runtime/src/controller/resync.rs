//! Queues every primary from time to time without a reason, in case something outside of Kubernetes has changed, or the
//! plugin does not watch everything that it depends on.

use std::time::Duration;

use windlass_core::retry::Period;

/// How far a pause may deviate from its period, so that controllers that started together do not resync together: a
/// tenth, as in controller-runtime (`pkg/cache/internal/informers.go`, `resyncPeriod`).
const RESYNC_JITTER: f64 = 0.1;

/// Calls `queue_all` about every `period` until this future is dropped. `queue_all` queues all primaries and returns
/// their number.
pub(crate) async fn resync(period: Duration, queue_all: impl Fn() -> usize) {
    let period = Period::fixed(period).jitter(1.0 - RESYNC_JITTER, 1.0 + RESYNC_JITTER);
    let mut took = Duration::ZERO;
    loop {
        tokio::time::sleep(period.pause(took, windlass_world::random())).await;
        let began = tokio::time::Instant::now();
        let keys = queue_all();
        tracing::debug!(keys, "resync");
        took = began.elapsed();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::Instant;
    use windlass_core::object::ObjectKey;
    use windlass_core::queue::{ItemExponential, Priority, Queue};

    use super::*;
    use crate::clock::SystemClock;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("prod", name)
    }

    fn queued(queue: &Queue<ObjectKey>, names: &[&str]) -> usize {
        for name in names {
            queue.add_with(key(name), Priority::BACKGROUND);
        }
        names.len()
    }

    #[tokio::test(start_paused = true)]
    async fn every_primary_runs_again_about_once_a_period() {
        let queue = Queue::new(Arc::new(SystemClock::new()), ItemExponential::default());
        let period = Duration::from_hours(10);
        let looping = resync(period, || queued(&queue, &["a", "b"]));
        let work = async {
            for _ in 0..3 {
                let before = Instant::now();
                for expected in ["a", "b"] {
                    let got = queue.get().await.expect("the queue goes on");
                    assert_eq!(got, key(expected));
                    queue.done(&got);
                }
                let waited = before.elapsed();
                assert!(waited.abs_diff(period) <= period / 10, "{waited:?}");
            }
        };
        tokio::select! {
            () = looping => {}
            () = work => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_key_runs_before_a_resynced_one() {
        let queue = Queue::new(Arc::new(SystemClock::new()), ItemExponential::default());
        let adding = async {
            // Later than the resync, but by less than a background key may wait.
            tokio::time::sleep(Duration::from_secs(23)).await;
            queue.add(key("changed"));
            queue.get().await
        };
        tokio::select! {
            () = resync(Duration::from_secs(20), || queued(&queue, &["a"])) => {}
            first = adding => assert_eq!(first, Some(key("changed"))),
        }
    }
}
