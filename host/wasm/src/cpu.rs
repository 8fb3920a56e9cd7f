//! What a call costs: the processor time of the guest's thread while it worked for the call.
//!
//! A guest runs on a fibre within one poll of its call's future, and a poll stays on its thread; so the thread's time
//! before and after each poll, summed up, is the call's. What the host does for a call on its own runtime, such as sending
//! its writes, is not in it, nor is the time that a call waits.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time that a future has used, to be read when it has ended, in whatever way. Clones are the same figure.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuTime(Arc<AtomicU64>);

impl CpuTime {
    /// What was used up to now.
    pub(crate) fn used(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// Runs `future` and counts its polls.
    pub(crate) async fn metered<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            let _poll = RunningPoll { cpu: self, since: thread_time() };
            future.as_mut().poll(context)
        })
        .await
    }
}

/// Counts when it is dropped, so that a poll that panics is counted too.
struct RunningPoll<'a> {
    cpu: &'a CpuTime,
    since: Duration,
}

impl Drop for RunningPoll<'_> {
    fn drop(&mut self) {
        let used = thread_time().saturating_sub(self.since);
        self.cpu.0.fetch_add(u64::try_from(used.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// The processor time of this thread since it began.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses `time` of this thread's processor time.
    fn work(time: Duration) {
        let end = thread_time() + time;
        while thread_time() < end {
            std::hint::spin_loop();
        }
    }

    #[tokio::test]
    async fn every_poll_counts() {
        let cpu = CpuTime::default();
        let each = Duration::from_millis(2);
        cpu.metered(async {
            work(each);
            tokio::task::yield_now().await;
            work(each);
        })
        .await;
        assert!(cpu.used() >= 2 * each, "{:?}", cpu.used());
    }

    #[tokio::test]
    async fn what_others_do_between_the_polls_does_not_count() {
        let cpu = CpuTime::default();
        tokio::join!(cpu.metered(tokio::task::yield_now()), async { work(Duration::from_millis(50)) });
        assert!(cpu.used() < Duration::from_millis(50), "{:?}", cpu.used());
    }

    #[tokio::test]
    async fn a_poll_that_panics_counts() {
        let cpu = CpuTime::default();
        let ended = tokio::spawn({
            let cpu = cpu.clone();
            async move {
                cpu.metered(async {
                    work(Duration::from_millis(2));
                    panic!("on purpose");
                })
                .await;
            }
        })
        .await;
        assert!(ended.is_err_and(|error| error.is_panic()));
        assert!(cpu.used() >= Duration::from_millis(2), "{:?}", cpu.used());
    }
}
