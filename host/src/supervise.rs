//! Tasks that outlive their panics (§3.10).

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

/// The first pause after a panic; it doubles with each that follows soon.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A task that ran so long before its panic starts again as if it were its first.
const HEALTHY: Duration = Duration::from_mins(1);

/// Runs `task` until it returns or `stop` is cancelled. When it panics, the panic is logged with its cause and the task
/// starts again after a pause.
pub(crate) async fn supervise<F, Fut>(name: &str, stop: &CancellationToken, mut task: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = ()>,
{
    let mut pause = FIRST_PAUSE;
    loop {
        let started = tokio::time::Instant::now();
        let Err(panic) = AssertUnwindSafe(task()).catch_unwind().await else { return };
        if started.elapsed() >= HEALTHY {
            pause = FIRST_PAUSE;
        }
        tracing::error!(task = name, cause = cause(&*panic), restart_in = ?pause, "a task of the host panicked");
        tokio::select! {
            // Cancellation wins over a timer that is ready too.
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(jittered(pause)) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Between once and twice `pause`, so that tasks that fell together do not rise together.
pub(crate) fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(1.0 + rand::random::<f64>())
}

/// What a panic said.
pub(crate) fn cause(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_runs_again_until_it_returns() {
        let runs = AtomicU32::new(0);
        supervise("test", &CancellationToken::new(), || async {
            assert!(runs.fetch_add(1, Ordering::Relaxed) >= 2, "not yet");
        })
        .await;
        assert_eq!(runs.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_task_does_not_run_again() {
        let stop = CancellationToken::new();
        let runs = AtomicU32::new(0);
        supervise("test", &stop, || async {
            runs.fetch_add(1, Ordering::Relaxed);
            stop.cancel();
            panic!("after the end");
        })
        .await;
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    }
}
