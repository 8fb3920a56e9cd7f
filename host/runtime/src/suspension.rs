//! A plugin whose caches outgrow their limits is suspended: its controllers stop and drop their caches, and start again
//! after a pause. They run if their caches fit by then; if not, the plugin is suspended again, for longer.
//!
//! All controllers of a generation share one suspension, as they share one budget. An operator ends it early with
//! `windlass resume`.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use windlass_core::retry::{Retries, RetryPolicy};
use windlass_kube::Budget;

use crate::supervise::jittered_policy;

/// The pauses before a suspended plugin starts again. Each attempt may read as much from the API server as the plugin's
/// limit allows.
const SUSPENSION_BACKOFF: RetryPolicy = jittered_policy(Duration::from_mins(1), Duration::from_mins(15));
/// An attempt that has lasted this long has succeeded: if the plugin is suspended again later, its pauses start from
/// the shortest.
const ATTEMPT_SUCCEEDS_AFTER: Duration = Duration::from_mins(10);

/// The suspension of one generation of a plugin.
#[derive(Debug)]
pub(crate) struct Suspension {
    budget: Arc<Budget>,
    state: watch::Sender<SuspensionState>,
}

#[derive(Debug)]
struct SuspensionState {
    /// The number of excesses of the budget up to the last attempt. The plugin is suspended if there were more since.
    acknowledged: u64,
    /// When the plugin starts again. `None` until a controller has noticed the excess.
    next: Option<Instant>,
    /// When the last attempt began. `None` if the plugin was never suspended.
    attempted: Option<Instant>,
    pauses: Retries,
}

impl SuspensionState {
    fn attempt(&mut self, excesses: u64, now: Instant) {
        (self.acknowledged, self.next, self.attempted) = (excesses, None, Some(now));
    }
}

impl Suspension {
    pub(crate) fn new(budget: &Arc<Budget>) -> Arc<Self> {
        let state =
            SuspensionState { acknowledged: 0, next: None, attempted: None, pauses: SUSPENSION_BACKOFF.begin() };
        Arc::new(Self { budget: budget.clone(), state: watch::Sender::new(state) })
    }

    /// If the plugin is suspended, the error is the time at which it starts again; the first caller decides that time.
    /// Otherwise returns the number of past excesses. If the budget later counts more, the plugin is suspended.
    pub(crate) fn check(&self, now: Instant) -> Result<u64, Instant> {
        let excesses = self.budget.excesses();
        let mut found = Ok(0);
        self.state.send_if_modified(|state| {
            if excesses <= state.acknowledged {
                found = Ok(state.acknowledged);
                return false;
            }
            if state.attempted.is_some_and(|attempted| now >= attempted + ATTEMPT_SUCCEEDS_AFTER)
                && state.next.is_none()
            {
                state.pauses.reset();
            }
            let next = *state.next.get_or_insert_with(|| now + state.pauses.pause(windlass_world::random()));
            found = Err(next);
            // Do not notify: every task that waits for the end has called this function first, to learn the time.
            false
        });
        found
    }

    /// Starts the plugin again if it is time.
    fn attempt_if_due(&self, now: Instant) {
        let excesses = self.budget.excesses();
        self.state.send_if_modified(|state| {
            let is_due = state.next.is_some_and(|next| next <= now);
            if is_due {
                state.attempt(excesses, now);
            }
            is_due
        });
    }

    /// Starts the plugin again now. `false` if it is not suspended. If it is suspended again later, its pauses start
    /// from the shortest.
    pub(crate) fn attempt_now(&self, now: Instant) -> bool {
        let excesses = self.budget.excesses();
        self.state.send_if_modified(|state| {
            let is_suspended = excesses > state.acknowledged;
            if is_suspended {
                state.pauses.reset();
                state.attempt(excesses, now);
            }
            is_suspended
        })
    }

    /// Completes when the plugin is not suspended, with the result of [`Suspension::check`]. Calls `show` with each
    /// time at which the plugin is to start again. Cancel-safe.
    pub(crate) async fn over(&self, mut show: impl FnMut(Instant)) -> u64 {
        let mut state = self.state.subscribe();
        loop {
            let next = match self.check(Instant::now()) {
                Ok(excesses) => return excesses,
                Err(next) => next,
            };
            show(next);
            tokio::select! {
                biased;
                // This cannot fail: `self` holds the sender.
                _ = state.changed() => {}
                () = sleep_until(next) => self.attempt_if_due(Instant::now()),
            }
        }
    }

    /// Whether the plugin is suspended now.
    pub(crate) fn is_in_force(&self) -> bool {
        self.check(Instant::now()).is_err()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt as _;
    use tokio::time::advance;
    use windlass_core::cache::watch::WatchSpec;
    use windlass_core::object::ObjectKind;
    use windlass_kube::{BudgetScope, Excess};

    use super::*;

    fn excess() -> Excess {
        let watch = WatchSpec::all(ObjectKind::new("v1", "ConfigMap"));
        Excess { watch, needed: 2, total: 2, limit: 1, scope: BudgetScope::Plugin }
    }

    fn suspended() -> (Arc<Budget>, Arc<Suspension>) {
        let budget = Budget::new(1);
        let suspension = Suspension::new(&budget);
        budget.exceed(excess());
        (budget, suspension)
    }

    /// The pause until the plugin starts again. Waits for it.
    async fn pause(suspension: &Suspension) -> Duration {
        let began = Instant::now();
        suspension.over(|_| {}).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_fits_is_not_suspended() {
        let suspension = Suspension::new(&Budget::new(1));
        assert_eq!(suspension.over(|_| panic!("it is not")).now_or_never(), Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn the_pauses_between_attempts_grow_to_their_bound() {
        let (budget, suspension) = suspended();
        for minutes in [1, 2, 4, 8, 15, 15] {
            let (pause, planned) = (pause(&suspension).await, Duration::from_mins(minutes));
            assert!(pause >= planned && pause <= 2 * planned, "{pause:?} for {planned:?}");
            budget.exceed(excess());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_lasts_makes_the_pauses_short_again() {
        let (budget, suspension) = suspended();
        for _ in 0..4 {
            pause(&suspension).await;
            budget.exceed(excess());
        }
        pause(&suspension).await;
        advance(Duration::from_mins(10)).await;
        budget.exceed(excess());
        assert!(pause(&suspension).await <= Duration::from_mins(2));
    }

    /// When the other controllers start again, one controller may just have learned of the excess, or may still be
    /// stopping its calls.
    #[tokio::test(start_paused = true)]
    async fn all_controllers_start_at_one_time_and_none_misses_an_excess() {
        let (budget, suspension) = suspended();
        let (mut one, mut other) = (pin!(suspension.over(|_| {})), pin!(suspension.over(|_| {})));
        assert!(one.as_mut().now_or_never().is_none() && other.as_mut().now_or_never().is_none());
        let began = Instant::now();
        assert_eq!((one.await, other.await), (1, 1));
        assert!(began.elapsed() <= Duration::from_mins(2));
        // A third controller comes late. The excesses that it sees belong to the earlier attempt and are over.
        assert_eq!(suspension.over(|_| panic!("an attempt has begun")).now_or_never(), Some(1));
        budget.exceed(excess());
        assert!(budget.exceeded(1).now_or_never().is_some(), "a round that began after one excess stops");
        assert!(suspension.over(|_| {}).now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_does_not_wait_for_its_time() {
        let (budget, suspension) = suspended();
        for _ in 0..4 {
            pause(&suspension).await;
            budget.exceed(excess());
        }
        let mut over = Box::pin(suspension.over(|_| {}));
        assert!(over.as_mut().now_or_never().is_none());
        assert!(suspension.attempt_now(Instant::now()));
        assert_eq!(over.now_or_never(), Some(5), "it starts at once");
        assert!(!suspension.attempt_now(Instant::now()), "it is not suspended");
        budget.exceed(excess());
        assert!(pause(&suspension).await <= Duration::from_mins(2), "the operator may have changed something");
    }
}
