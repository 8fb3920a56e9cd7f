//! Tasks that restart after a panic.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use windlass_core::panics::cause;
use windlass_core::retry::RetryPolicy;

/// The pauses after panics in quick succession.
const PANIC_BACKOFF: RetryPolicy = jittered_policy(PANIC_BACKOFF_MIN, Duration::from_secs(30));
/// The first pause. It is long enough that a task that panics each time costs little.
const PANIC_BACKOFF_MIN: Duration = Duration::from_millis(100);
/// If a task has run this long, its next panic counts as its first.
const PANIC_BACKOFF_RESET: Duration = Duration::from_mins(1);

/// Counts the panics of each of the host's tasks. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Panics(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Panics {
    /// Counts a panic of `task`, and logs it with its cause and with `then`, the consequence.
    pub(crate) fn report(&self, task: &'static str, panic: &(dyn Any + Send), then: &str) {
        let times = {
            let mut panics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let times = panics.entry(task).or_default();
            *times += 1;
            *times
        };
        tracing::error!(task, times, cause = cause(panic), "a task of the host panicked; {then}");
    }

    /// The number of panics of each task that has panicked.
    pub(crate) fn snapshot(&self) -> Vec<(&'static str, u64)> {
        let panics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        panics.iter().map(|(task, times)| (*task, *times)).collect()
    }
}

/// Runs `task` until it returns, and returns its result, or `None` if `stop` is cancelled first. After a panic, `task`
/// starts again after a pause.
pub(crate) async fn supervise<F, Fut, T>(
    name: &'static str,
    panics: &Panics,
    stop: &CancellationToken,
    mut task: F,
) -> Option<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = T>,
{
    let mut retries = PANIC_BACKOFF.begin();
    loop {
        let started = tokio::time::Instant::now();
        // Calling `task` may panic, not only running the future that it returns.
        let run = AssertUnwindSafe(async { task().await }).catch_unwind();
        let panic = match run.await {
            Ok(result) => return Some(result),
            Err(panic) => panic,
        };
        if started.elapsed() >= PANIC_BACKOFF_RESET {
            retries.reset();
        }
        let chosen = retries.pause(windlass_world::random());
        panics.report(name, &*panic, &format!("it starts again in {chosen:?}"));
        tokio::select! {
            // A cancelled `stop` wins over an elapsed pause.
            biased;
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(chosen) => {}
        }
    }
}

/// Runs `task` once. `None` if it panicked.
pub(crate) async fn caught<T>(name: &'static str, panics: &Panics, task: impl Future<Output = T>) -> Option<T> {
    let run = AssertUnwindSafe(task).catch_unwind().await;
    run.inspect_err(|panic| panics.report(name, &**panic, "it is left out")).ok()
}

/// Pauses that double from `first` to `cap`, each with the jitter of [`jittered`].
pub(crate) const fn jittered_policy(first: Duration, cap: Duration) -> RetryPolicy {
    RetryPolicy::doubling(first, cap).jitter(1.0, 2.0)
}

/// A random time from one to two `pause`s, so that tasks that failed together do not restart together.
pub(crate) fn jittered(pause: Duration) -> Duration {
    jittered_policy(pause, pause).begin().pause(windlass_world::random())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    impl Panics {
        /// The number of panics of `task`.
        pub(crate) fn of(&self, task: &str) -> u64 {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get(task).copied().unwrap_or_default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_runs_again_until_it_returns() {
        let (runs, panics) = (AtomicU32::new(0), Panics::default());
        let result = supervise("test", &panics, &CancellationToken::new(), || async {
            let before = runs.fetch_add(1, Ordering::Relaxed);
            assert!(before >= 2, "not yet");
            before
        })
        .await;
        assert_eq!((result, panics.of("test")), (Some(2), 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_before_it_begins_runs_again() {
        let (runs, panics) = (AtomicU32::new(0), Panics::default());
        let begin = || {
            assert!(runs.fetch_add(1, Ordering::Relaxed) > 0, "not yet");
            std::future::ready(())
        };
        assert_eq!(supervise("test", &panics, &CancellationToken::new(), begin).await, Some(()));
        assert_eq!(panics.of("test"), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_task_does_not_run_again() {
        let stop = CancellationToken::new();
        let runs = AtomicU32::new(0);
        let result: Option<()> = supervise("test", &Panics::default(), &stop, || async {
            runs.fetch_add(1, Ordering::Relaxed);
            stop.cancel();
            panic!("after the end");
        })
        .await;
        assert_eq!((result, runs.load(Ordering::Relaxed)), (None, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_pauses_grow_and_shrink_again_after_a_healthy_time() {
        let (runs, panics) = (AtomicU32::new(0), Panics::default());
        let start = tokio::time::Instant::now();
        let stop = CancellationToken::new();
        supervise("test", &panics, &stop, || async {
            match runs.fetch_add(1, Ordering::Relaxed) {
                0..10 => panic!("soon"),
                10 => {
                    let paused = start.elapsed();
                    assert!(paused >= Duration::from_millis(100) * ((1 << 9) - 1), "ten pauses in {paused:?}");
                    tokio::time::sleep(Duration::from_mins(1)).await;
                    panic!("late");
                }
                _ => {}
            }
        })
        .await;
        assert!(
            start.elapsed()
                < Duration::from_millis(100) * 2 * (1 << 10) + Duration::from_mins(1) + 2 * Duration::from_millis(100)
        );
    }

    #[tokio::test]
    async fn a_panic_in_a_one_shot_task_is_caught_and_counted() {
        let panics = Panics::default();
        assert_eq!(caught("flush", &panics, async { true }).await, Some(true));
        assert_eq!(caught::<bool>("flush", &panics, async { panic!("on purpose") }).await, None);
        assert_eq!(panics.of("flush"), 1);
    }
}
