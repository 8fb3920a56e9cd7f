//! Backoff for retries, and periods for repeated work (apimachinery: `util/wait`).
//!
//! All retries of the host itself use these policies. Time and randomness are passed in. Keys of a queue back off by
//! [`crate::queue::Limiter`] instead.

use std::time::Duration;

/// Pauses between attempts. Each is longer than the one before by a factor, up to a cap. Jitter varies each pause, so
/// that attempts that failed together are not repeated together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    first: Duration,
    factor: f64,
    cap: Duration,
    jitter: (f64, f64),
    steps: Option<u32>,
}

impl RetryPolicy {
    /// Pauses that double from `first` to `cap`, without jitter, for any number of attempts.
    #[must_use]
    pub const fn doubling(first: Duration, cap: Duration) -> Self {
        Self { first, factor: 2.0, cap, jitter: (1.0, 1.0), steps: None }
    }

    /// Makes each pause `factor` times as long as the one before.
    #[must_use]
    pub const fn factor(self, factor: f64) -> Self {
        Self { factor, ..self }
    }

    /// Makes each pause between `least` and `most` times as long as planned, at random.
    #[must_use]
    pub const fn jitter(self, least: f64, most: f64) -> Self {
        Self { jitter: (least, most), ..self }
    }

    /// Allows `steps` pauses, which is one less than the number of attempts.
    #[must_use]
    pub const fn steps(self, steps: u32) -> Self {
        Self { steps: Some(steps), ..self }
    }

    /// The pause after `before` earlier pauses, without jitter.
    #[must_use]
    pub fn planned(&self, before: u32) -> Duration {
        let factor = self.factor.powi(i32::try_from(before).unwrap_or(i32::MAX));
        let seconds = self.first.as_secs_f64() * factor;
        Duration::try_from_secs_f64(seconds).unwrap_or(self.cap).min(self.cap)
    }

    /// Starts a sequence of pauses.
    #[must_use]
    pub const fn begin(self) -> Retries {
        Retries { policy: self, before: 0 }
    }

    /// Repeats `attempt` until it succeeds, until no step is left, or until it fails with an error for which `passes`
    /// is false. Cancel safe: drop the future at any time. `random` returns numbers from 0 to 1.
    pub async fn run<T, E, A, S>(
        self,
        mut random: impl FnMut() -> f64,
        sleep: impl Fn(Duration) -> S,
        passes: impl Fn(&E) -> bool,
        mut attempt: impl FnMut() -> A,
    ) -> Result<T, E>
    where
        A: Future<Output = Result<T, E>>,
        S: Future<Output = ()>,
    {
        let mut retries = self.begin();
        loop {
            match attempt().await {
                Err(error) if passes(&error) && !retries.are_over() => sleep(retries.pause(random())).await,
                result => return result,
            }
        }
    }
}

/// One sequence of attempts under a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Retries {
    policy: RetryPolicy,
    /// The number of pauses so far.
    before: u32,
}

impl Retries {
    /// The next pause. `random` is from 0 to 1. After the last step, pauses stay as long as the last one.
    pub fn pause(&mut self, random: f64) -> Duration {
        let (least, most) = self.policy.jitter;
        let planned = self.policy.planned(self.before);
        if !self.are_over() {
            self.before = self.before.saturating_add(1);
        }
        planned.mul_f64(least + (most - least) * random)
    }

    /// Whether no step is left, so that the caller should give up.
    #[must_use]
    pub fn are_over(&self) -> bool {
        self.policy.steps.is_some_and(|steps| self.before >= steps)
    }

    /// Whether the pauses have reached the cap.
    #[must_use]
    pub fn are_longest(&self) -> bool {
        self.policy.planned(self.before) >= self.policy.cap
    }

    /// Starts over with the first pause. For use when an attempt has worked for a while, or when something else is
    /// attempted.
    pub fn reset(&mut self) {
        self.before = 0;
    }
}

/// The interval of periodic work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    every: Duration,
    jitter: (f64, f64),
    sliding: bool,
}

impl Period {
    /// Counts `every` from start to start, so long work shortens the pause.
    #[must_use]
    pub const fn fixed(every: Duration) -> Self {
        Self { every, jitter: (1.0, 1.0), sliding: false }
    }

    /// Counts `every` from the end of one run to the start of the next, so the pause does not depend on the work.
    #[must_use]
    pub const fn sliding(every: Duration) -> Self {
        Self { every, jitter: (1.0, 1.0), sliding: true }
    }

    /// Makes each interval between `least` and `most` times as long, at random.
    #[must_use]
    pub const fn jitter(self, least: f64, most: f64) -> Self {
        Self { jitter: (least, most), ..self }
    }

    /// The pause after work that `took` this long. `random` is from 0 to 1.
    #[must_use]
    pub fn pause(&self, took: Duration, random: f64) -> Duration {
        let (least, most) = self.jitter;
        let period = self.every.mul_f64(least + (most - least) * random);
        if self.sliding { period } else { period.saturating_sub(took) }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use futures::FutureExt as _;
    use proptest::prelude::*;

    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn pauses_grow_by_the_factor_to_the_cap() {
        let mut doubling = RetryPolicy::doubling(millis(800), millis(30_000)).begin();
        let pauses = [(); 8].map(|()| u64::try_from(doubling.pause(0.5).as_millis()).expect("short"));
        assert_eq!(pauses, [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
        assert!(doubling.are_longest() && !doubling.are_over());
        doubling.reset();
        assert_eq!(doubling.pause(0.5), millis(800));
        let even = RetryPolicy::doubling(millis(10), millis(30_000)).factor(1.0);
        assert_eq!([even.planned(0), even.planned(9)], [millis(10); 2]);
        assert_eq!(RetryPolicy::doubling(millis(1), Duration::MAX).planned(u32::MAX), Duration::MAX);
    }

    #[test]
    fn retries_are_over_after_the_last_step() {
        let mut retries = RetryPolicy::doubling(millis(10), millis(1_000)).steps(2).begin();
        assert_eq!([retries.pause(0.0), retries.pause(0.0)], [millis(10), millis(20)]);
        assert!(retries.are_over());
        assert_eq!(retries.pause(0.0), millis(40), "no longer than that, however often it is asked");
        assert_eq!(retries.pause(0.0), millis(40));
    }

    #[test]
    fn passing_errors_are_retried_until_no_step_is_left() {
        let policy = RetryPolicy::doubling(millis(10), millis(1_000)).jitter(0.5, 1.0).steps(3);
        let run = |fails: u32, passes: bool| {
            let (slept, tried) = (RefCell::new(Vec::new()), RefCell::new(0));
            let sleep = |pause| {
                slept.borrow_mut().push(pause);
                std::future::ready(())
            };
            let attempt = || {
                *tried.borrow_mut() += 1;
                std::future::ready(if *tried.borrow() > fails { Ok(*tried.borrow()) } else { Err("failed") })
            };
            let result = policy.run(|| 0.0, sleep, |_| passes, attempt).now_or_never().expect("nothing waits");
            (result, slept.into_inner())
        };
        assert_eq!(run(0, true), (Ok(1), vec![]));
        assert_eq!(run(2, true), (Ok(3), vec![millis(5), millis(10)]));
        assert_eq!(run(9, true), (Err("failed"), vec![millis(5), millis(10), millis(20)]));
        assert_eq!(run(1, false), (Err("failed"), vec![]));
    }

    #[test]
    fn only_a_sliding_period_does_not_count_the_work() {
        let (fixed, sliding) = (Period::fixed(millis(100)), Period::sliding(millis(100)));
        assert_eq!([0, 30, 130].map(|took| fixed.pause(millis(took), 0.5)), [millis(100), millis(70), millis(0)]);
        assert_eq!([0, 30, 130].map(|took| sliding.pause(millis(took), 0.5)), [millis(100); 3]);
        assert_eq!(sliding.jitter(1.0, 2.0).pause(millis(0), 0.5), millis(150));
    }

    proptest! {
        #[test]
        fn pauses_stay_within_their_jitter_and_do_not_shrink(
            first in 1_u64..10_000, cap in 1_u64..1_000_000, before in 0_u32..64, random in 0.0..1.0,
        ) {
            let policy = RetryPolicy::doubling(millis(first), millis(cap)).jitter(0.5, 1.5);
            let (planned, next) = (policy.planned(before), policy.planned(before + 1));
            prop_assert!(planned <= next && next <= millis(cap));
            let pause = Retries { policy, before }.pause(random);
            prop_assert!(pause >= planned.mul_f64(0.5) && pause <= planned.mul_f64(1.5));
        }
    }
}
