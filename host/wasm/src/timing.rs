//! The wall time of a call. It is suspended while the host makes the call wait for resources that other calls use: for
//! memory, or for its CPU permit after a wait of its own.
//!
//! `meter` checks this time whenever the guest is interrupted, and `call` ends the whole call when the time is over.
//! All such waits go through this module, so that the call returns its CPU permit meanwhile.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::budget::fair::CpuPermit;

use crate::limits::{Limit, Overrun};

/// A running guest is stopped when it next checks the epoch, where its backtrace is known. Only a guest that waits is
/// stopped this much after its deadline.
const EPOCH_GRACE: Duration = Duration::from_millis(50);

/// The wall time of one call. Clones are the same clock.
#[derive(Clone, Debug)]
pub(crate) struct CallTime(Arc<CallClock>);

#[derive(Debug)]
struct CallClock {
    /// The limit and its value.
    allowed: (Limit, Duration),
    began: Instant,
    waits: Mutex<Waits>,
    cpu_permit: CpuPermit,
}

/// Waits that do not count, and waits for the call's own requests.
#[derive(Debug, Default)]
struct Waits {
    over: Duration,
    since: Option<Instant>,
    /// The part of the counted time in which the call waited for its own requests.
    asked: Duration,
}

impl CallTime {
    /// The clock of a call that begins now with this `cpu_permit`.
    pub(crate) fn of(limit: Limit, allowed: Duration, cpu_permit: CpuPermit) -> Self {
        Self(Arc::new(CallClock {
            allowed: (limit, allowed),
            began: Instant::now(),
            waits: Mutex::default(),
            cpu_permit,
        }))
    }

    /// When the call must have ended, as far as is known now.
    pub(crate) fn deadline(&self) -> Instant {
        let waits = self.waits();
        let waited = waits.over + waits.since.map_or(Duration::ZERO, |since| since.elapsed());
        self.0.began + self.0.allowed.1 + waited
    }

    /// The time until the deadline.
    pub(crate) fn left(&self) -> Duration {
        self.deadline().saturating_duration_since(Instant::now())
    }

    /// The overrun of a call that was stopped at its deadline. The call must have been dropped, because a wait counts
    /// only when it ends.
    pub(crate) fn overrun(&self) -> Overrun {
        let (limit, allowed) = self.0.allowed;
        let limit = if self.waits().asked >= allowed / 2 { Limit::Waited } else { limit };
        Overrun::time(limit, allowed)
    }

    /// Whether the call, which has used `cpu` so far, should let another call go first
    /// ([`let_others`](Self::let_others)).
    pub(crate) fn is_wanted(&self, cpu: Duration) -> bool {
        self.0.cpu_permit.is_wanted(cpu)
    }

    /// Returns the CPU permit and waits for it again, with the clock suspended.
    pub(crate) async fn let_others(self) {
        let _stopped = StoppedClock::of(&self);
        self.0.cpu_permit.let_others().await;
    }

    /// Waits for `work` that other calls delay, with the clock suspended and without the CPU permit.
    pub(crate) async fn stopped_for<F: Future>(&self, work: F) -> F::Output {
        let _stopped = StoppedClock::of(self);
        self.0.cpu_permit.without(work).await
    }

    /// Waits for `work` that the call has requested, without its CPU permit if it does not complete at once. The clock
    /// runs on, but is suspended while the call then waits for its CPU permit.
    pub(crate) async fn going_on_for<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        let mut asking = None;
        let wait = poll_fn(move |context| {
            let polled = work.as_mut().poll(context);
            // Work that completes at once is the host's own and not a wait.
            if polled.is_pending() {
                asking.get_or_insert_with(|| Asking { time: self, since: Instant::now() });
            }
            polled
        });
        self.resting_for(wait).await
    }

    /// Waits for `rest`, a sleep that the call itself has requested. As [`Self::going_on_for`], but the time does not
    /// count as waiting for an answer.
    pub(crate) async fn resting_for<F: Future>(&self, rest: F) -> F::Output {
        let (mut rest, mut has_waited) = (pin!(rest), false);
        let wait = poll_fn(move |context| {
            let polled = rest.as_mut().poll(context);
            has_waited |= polled.is_pending();
            polled.map(|output| (output, has_waited.then(|| StoppedClock::of(self))))
        });
        let (output, _stopped) = self.0.cpu_permit.without(wait).await;
        output
    }

    /// Runs `call` until it ends. `None` if it has not ended in time.
    pub(crate) async fn limited<F: Future + Unpin>(&self, mut call: F) -> Option<F::Output> {
        loop {
            let end = self.deadline() + EPOCH_GRACE;
            if let Ok(answer) = tokio::time::timeout_at(end, &mut call).await {
                return Some(answer);
            }
            // The deadline may have moved during the wait, because the clock may have been suspended.
            if Instant::now() >= self.deadline() + EPOCH_GRACE {
                return None;
            }
        }
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.0.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call's clock that is stopped. It runs on when this is dropped, and thus also when the wait is cancelled.
struct StoppedClock<'a>(&'a CallTime);

impl<'a> StoppedClock<'a> {
    fn of(time: &'a CallTime) -> Self {
        time.waits().since = Some(Instant::now());
        Self(time)
    }
}

impl Drop for StoppedClock<'_> {
    fn drop(&mut self) {
        let mut waits = self.0.waits();
        let waited = waits.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        waits.over += waited;
    }
}

/// A wait of the call for its own request. It counts even if it is cancelled.
struct Asking<'a> {
    time: &'a CallTime,
    since: Instant,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.time.waits().asked += self.since.elapsed();
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use windlass_core::budget::fair::Fair;

    use super::*;

    #[tokio::test]
    async fn a_call_that_does_not_end_is_given_up() {
        let time = CallTime::of(Limit::Deadline, Duration::from_millis(1), CpuPermit::default());
        assert_eq!(time.limited(std::future::pending::<()>()).await, None);
        assert_eq!(time.left(), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_deadline_that_passes_during_a_request_says_so() {
        let time = CallTime::of(Limit::Deadline, Duration::from_mins(1), CpuPermit::default());
        time.going_on_for(tokio::time::sleep(Duration::from_millis(10))).await;
        assert_eq!(time.overrun().limit, Limit::Deadline, "less than half");
        let time = CallTime::of(Limit::Deadline, Duration::from_millis(100), CpuPermit::default());
        assert!(time.limited(std::pin::pin!(time.going_on_for(std::future::pending::<()>()))).await.is_none());
        assert_eq!(time.overrun().limit, Limit::Waited);
        assert_eq!(time.overrun().limit.reason(), windlass_core::queue::outcome::WAITED);
    }

    #[tokio::test]
    async fn work_that_completes_at_once_is_not_a_wait() {
        let time = CallTime::of(Limit::Deadline, Duration::from_millis(20), CpuPermit::default());
        time.going_on_for(async { std::thread::sleep(Duration::from_millis(20)) }).await;
        assert_eq!(time.overrun().limit, Limit::Deadline);
    }

    #[tokio::test]
    async fn a_wait_for_memory_suspends_the_clock() {
        let time = CallTime::of(Limit::Deadline, Duration::from_millis(500), CpuPermit::default());
        let waits_long = async {
            // Twice as long as the call may take.
            time.stopped_for(tokio::time::sleep(Duration::from_secs(1))).await;
            "ended"
        };
        assert_eq!(time.limited(std::pin::pin!(waits_long)).await, Some("ended"));
    }

    #[tokio::test]
    async fn a_wait_for_the_cpu_permit_suspends_the_clock() {
        let fair = Fair::new(1, 8);
        let [share, neighbour] = [(); 2].map(|()| fair.share(NonZeroU32::MIN));
        let call = share.acquire().await;
        let time = CallTime::of(Limit::Deadline, Duration::from_secs(1), call.cpu_permit());
        let takes_the_turn = async {
            let busy = neighbour.acquire().await;
            // Twice as long as the call may take.
            tokio::time::sleep(Duration::from_secs(2)).await;
            busy.finish(Duration::ZERO);
        };
        let waits = std::pin::pin!(time.going_on_for(tokio::time::sleep(Duration::from_millis(1))));
        let waits = time.limited(waits);
        let (ended, ()) = tokio::join!(waits, takes_the_turn);
        assert!(ended.is_some() && !time.left().is_zero());
    }
}
