//! Measures the cost of a call: the processor time of the guest's thread while it worked for the call.
//!
//! A guest runs on a fibre within a poll of its call's future, and a poll stays on its thread. So the time of the call
//! is the sum of the thread's time over all polls. This includes the host's work on that thread, such as reading the
//! cache or finding that a write would change nothing. It does not include the host's work in separate tasks, such as
//! sending writes, nor the time that a call waits.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The processor time that a future has used, readable after it has ended in any way. Clones share the value.
#[derive(Clone, Debug, Default)]
pub struct CpuTime(Arc<Figures>);

/// In nanoseconds.
#[derive(Debug, Default)]
struct Figures {
    /// The time of the polls that have ended.
    used: AtomicU64,
    /// The thread's time when the current poll began.
    since: AtomicU64,
}

impl CpuTime {
    /// The time used by the polls that have ended.
    #[must_use]
    pub fn used(&self) -> Duration {
        Duration::from_nanos(self.0.used.load(Ordering::Relaxed))
    }

    /// The time used so far. Call it within a poll, on its thread.
    pub(crate) fn used_within_poll(&self) -> Duration {
        let since = Duration::from_nanos(self.0.since.load(Ordering::Relaxed));
        self.used() + thread_time().saturating_sub(since)
    }

    /// Runs `future` and measures its polls.
    ///
    /// The future is kept on the heap, because a call's future is large and would otherwise be copied several times on
    /// its way to the thread that runs it.
    pub fn metered<F: Future>(&self, future: F) -> impl Future<Output = F::Output> {
        let mut future = Box::pin(future);
        poll_fn(move |context| {
            let _poll = RunningPoll::of(self);
            future.as_mut().poll(context)
        })
    }
}

/// Adds the time when it is dropped, so that a poll that panics counts too.
struct RunningPoll<'a> {
    cpu: &'a CpuTime,
    since: Duration,
}

impl<'a> RunningPoll<'a> {
    fn of(cpu: &'a CpuTime) -> Self {
        let since = thread_time();
        cpu.0.since.store(nanoseconds(since), Ordering::Relaxed);
        Self { cpu, since }
    }
}

impl Drop for RunningPoll<'_> {
    fn drop(&mut self) {
        let used = thread_time().saturating_sub(self.since);
        self.cpu.0.used.fetch_add(nanoseconds(used), Ordering::Relaxed);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The processor time of this thread since its start.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses up `time` of this thread's processor time.
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
    async fn time_between_polls_does_not_count() {
        let cpu = CpuTime::default();
        tokio::join!(cpu.metered(tokio::task::yield_now()), async { work(Duration::from_millis(50)) });
        assert!(cpu.used() < Duration::from_millis(50), "{:?}", cpu.used());
    }

    #[tokio::test]
    async fn time_used_so_far_is_visible_within_a_poll() {
        let cpu = CpuTime::default();
        let each = Duration::from_millis(2);
        let seen = cpu.metered(async {
            work(each);
            tokio::task::yield_now().await;
            work(each);
            cpu.used_within_poll()
        });
        assert!(seen.await >= 2 * each);
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
