//! Restarts controllers after a panic, and records how they end.

use tokio_util::task::TaskTracker;

use super::Phases;
use crate::supervise::{Panics, supervise};

/// How a controller ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControllerEnd {
    /// No call was cut.
    Clean,
    /// Calls ran longer than the host waits.
    Cut,
    /// The controller cannot run under this host's settings, as the log explains.
    Impossible,
}

impl ControllerEnd {
    /// The combined end of a plugin's controllers.
    pub(crate) fn of_all(ends: &[Self]) -> Self {
        if ends.contains(&Self::Cut) {
            Self::Cut
        } else if !ends.is_empty() && ends.iter().all(|end| *end == Self::Impossible) {
            Self::Impossible
        } else {
            Self::Clean
        }
    }
}

/// A tracker that is closed from the start, so that it can be waited for at any time. It still accepts tasks.
pub(crate) fn tracker() -> TaskTracker {
    let tracker = TaskTracker::new();
    tracker.close();
    tracker
}

/// Runs `rounds` until it returns. After a panic, it starts again once the calls that the panicked round had begun have
/// `ended`: no two workers may have the same key.
pub(crate) async fn kept_up<E, Ended, F, Fut>(
    name: &'static str,
    panics: &Panics,
    phases: &Phases,
    ended: E,
    rounds: F,
) -> ControllerEnd
where
    E: Fn() -> Ended,
    Ended: Future<Output = ()>,
    F: Fn() -> Fut,
    Fut: Future<Output = ControllerEnd>,
{
    let attempt = || async {
        match phases.stop.run_until_cancelled(ended()).await {
            Some(()) => rounds().await,
            None => phases.until_cut(ended()).await,
        }
    };
    match supervise(name, panics, &phases.stop, attempt).await {
        Some(end) => end,
        // The controller was stopped after a panic, before it could start again.
        None => phases.until_cut(ended()).await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use tokio_util::sync::CancellationToken;

    use super::*;

    fn phases() -> Phases {
        Phases::of(CancellationToken::new())
    }

    /// A controller's panic leaves its workers running.
    #[tokio::test(start_paused = true)]
    async fn a_panicked_controller_restarts_only_after_its_former_workers_ended() {
        let (panics, workers) = (Panics::default(), tracker());
        let (working, rounds) = (Arc::new(AtomicU32::new(0)), AtomicU32::new(0));
        let end = kept_up(
            "test",
            &panics,
            &phases(),
            || workers.wait(),
            async || {
                assert_eq!(working.load(Ordering::Relaxed), 0, "a worker of the last round still has its key");
                let round = rounds.fetch_add(1, Ordering::Relaxed);
                let working = working.clone();
                workers.spawn(async move {
                    working.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_mins(1)).await;
                    working.fetch_sub(1, Ordering::Relaxed);
                });
                tokio::time::sleep(Duration::from_secs(1)).await;
                assert!(round == 2, "not yet");
                ControllerEnd::Clean
            },
        )
        .await;
        assert_eq!((end, panics.of("test")), (ControllerEnd::Clean, 2));
    }

    /// The host may stop during the pause after the panic, or later, while the controller waits for its former workers.
    #[tokio::test(start_paused = true)]
    async fn a_controller_stopped_after_a_panic_drains_calls_until_the_hosts_limit() {
        for (stop_after, call, clean, over_after) in [(50, 12, true, 12), (50, 99, false, 20), (5_000, 99, false, 25)] {
            let (panics, workers, phases) = (Panics::default(), tracker(), phases());
            let began = tokio::time::Instant::now();
            let ended = kept_up(
                "test",
                &panics,
                &phases,
                || workers.wait(),
                async || {
                    workers.spawn(tokio::time::sleep(Duration::from_secs(call)));
                    panic!("on purpose")
                },
            );
            let ended = async { usize::from(ended.await == ControllerEnd::Cut) };
            let stopping = async {
                tokio::time::sleep(Duration::from_millis(stop_after)).await;
                phases.stop.cancel();
            };
            let none: Option<std::future::Ready<bool>> = None;
            let all = tokio::join!(stopping, async {
                let mut ended = std::pin::pin!(ended);
                tokio::select! {
                    _ = &mut ended => panic!("it waits for its workers or its pause"),
                    () = phases.stop.cancelled() => {}
                }
                phases.end(ended, std::future::ready(true), none, std::future::ready(())).await
            });
            assert_eq!(all.1, clean);
            let late = began.elapsed().checked_sub(Duration::from_secs(over_after)).expect("not sooner");
            assert!(late < Duration::from_millis(100), "{late:?}");
        }
    }
}
