//! How long a call may take: its wall time, which stands still while the host has the call wait for what its neighbours
//! use: for memory, or for its CPU permit after it has waited for something of its own.
//!
//! `meter` asks it at each turn of the guest; `call` has the whole call end by it. Whoever has a call wait does so
//! here, so that the call gives its CPU permit up meanwhile.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::budget::fair::CpuPermit;

use crate::limits::{Limit, Overrun};

/// A guest that runs is stopped at an epoch, where its backtrace is known; only after that is one that waits.
const EPOCH_GRACE: Duration = Duration::from_millis(50);

/// The wall time of one call. Clones are the same clock.
#[derive(Clone, Debug)]
pub(crate) struct CallTime(Arc<CallClock>);

#[derive(Debug)]
struct CallClock {
    /// The limit's own name, and its value.
    allowed: (Limit, Duration),
    began: Instant,
    waits: Mutex<Waits>,
    cpu_permit: CpuPermit,
}

/// The waits that do not count, and those that tell of others.
#[derive(Debug, Default)]
struct Waits {
    over: Duration,
    since: Option<Instant>,
    /// Of the time that counts, what the call has waited for what it had asked for.
    asked: Duration,
}

impl CallTime {
    /// Of a call that begins now and has this `cpu_permit`.
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

    /// Until the deadline.
    pub(crate) fn left(&self) -> Duration {
        self.deadline().saturating_duration_since(Instant::now())
    }

    /// The overrun of a call that has not ended by then, and that has been dropped: a wait counts when it ends.
    pub(crate) fn overrun(&self) -> Overrun {
        let (limit, allowed) = self.0.allowed;
        let limit = if self.waits().asked >= allowed / 2 { Limit::Waited } else { limit };
        Overrun::time(limit, allowed)
    }

    /// Whether the call, which has used `cpu` up to now, should let another one go first
    /// ([`let_others`](Self::let_others)).
    pub(crate) fn is_wanted(&self, cpu: Duration) -> bool {
        self.0.cpu_permit.is_wanted(cpu)
    }

    /// Gives the CPU permit up until it is this call's again, with the clock stopped.
    pub(crate) async fn let_others(self) {
        let _stopped = StoppedClock::of(&self);
        self.0.cpu_permit.let_others().await;
    }

    /// Waits for `work`, which others keep the call from, with the clock stopped and without its CPU permit.
    pub(crate) async fn stopped_for<F: Future>(&self, work: F) -> F::Output {
        let _stopped = StoppedClock::of(self);
        self.0.cpu_permit.without(work).await
    }

    /// Waits for `work`, which the call has asked for, without its CPU permit if it is not done at once. The clock goes
    /// on, but stops while the call then waits for its CPU permit.
    pub(crate) async fn going_on_for<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        let mut asking = None;
        let wait = poll_fn(move |context| {
            let polled = work.as_mut().poll(context);
            // What is done at once is the host's work and no wait for others.
            if polled.is_pending() {
                asking.get_or_insert_with(|| Asking { time: self, since: Instant::now() });
            }
            polled
        });
        self.resting_for(wait).await
    }

    /// Waits for `rest`, which is the call's own wish to wait: the same, but it tells nothing of others.
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

    /// Runs `call` until it ends. None: it had not when its time was over.
    pub(crate) async fn limited<F: Future + Unpin>(&self, mut call: F) -> Option<F::Output> {
        loop {
            let end = self.deadline() + EPOCH_GRACE;
            if let Ok(answer) = tokio::time::timeout_at(end, &mut call).await {
                return Some(answer);
            }
            // What was true when the wait began need not be any more: the clock may have stood still.
            if Instant::now() >= self.deadline() + EPOCH_GRACE {
                return None;
            }
        }
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.0.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The clock goes on when this is dropped, so also when the wait is given up.
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

/// The call waits for what it has asked for. Counted also when the wait is given up.
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
    async fn a_deadline_that_passes_while_others_are_waited_for_says_so() {
        let time = CallTime::of(Limit::Deadline, Duration::from_mins(1), CpuPermit::default());
        time.going_on_for(tokio::time::sleep(Duration::from_millis(10))).await;
        assert_eq!(time.overrun().limit, Limit::Deadline, "less than half");
        let time = CallTime::of(Limit::Deadline, Duration::from_millis(100), CpuPermit::default());
        assert!(time.limited(std::pin::pin!(time.going_on_for(std::future::pending::<()>()))).await.is_none());
        assert_eq!(time.overrun().limit, Limit::Waited);
        assert_eq!(time.overrun().limit.reason(), windlass_core::queue::outcome::WAITED);
    }

    #[tokio::test]
    async fn work_that_is_done_at_once_is_no_wait_for_others() {
        let time = CallTime::of(Limit::Deadline, Duration::from_millis(20), CpuPermit::default());
        time.going_on_for(async { std::thread::sleep(Duration::from_millis(20)) }).await;
        assert_eq!(time.overrun().limit, Limit::Deadline);
    }

    #[tokio::test]
    async fn a_wait_for_memory_takes_nothing_of_the_time() {
        let time = CallTime::of(Limit::Deadline, Duration::from_millis(500), CpuPermit::default());
        let waits_long = async {
            // Twice as long as the call may take.
            time.stopped_for(tokio::time::sleep(Duration::from_secs(1))).await;
            "ended"
        };
        assert_eq!(time.limited(std::pin::pin!(waits_long)).await, Some("ended"));
    }

    #[tokio::test]
    async fn a_wait_for_the_turn_takes_nothing_of_the_time_either() {
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
