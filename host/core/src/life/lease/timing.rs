//! How long a lease lasts, and how often it is renewed.

use std::time::Duration;

/// How long a lease lasts: `defaultLeaseDuration` of controller-runtime's `pkg/manager/internal.go`.
const LEASE_DURATION_DEFAULT: Duration = Duration::from_secs(15);
/// As `defaultRenewDeadline` of controller-runtime.
const RENEW_DEADLINE_DEFAULT: Duration = Duration::from_secs(10);
/// As `defaultRetryPeriod` of controller-runtime.
const RETRY_PERIOD_DEFAULT: Duration = Duration::from_secs(2);
/// How much longer than the retry period the time between two attempts may be at random: client-go's
/// `leaderelection.JitterFactor`.
pub(super) const JITTER_FACTOR: f64 = 1.2;

/// The times of a lease, checked against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub(super) duration: Duration,
    pub(super) renew_deadline: Duration,
    pub(super) retry_period: Duration,
}

/// Why times do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// A Lease records its duration in whole seconds.
    #[error("the lease duration, {0:?}, must be a whole number of seconds, at least one: a Lease records seconds")]
    NotSeconds(Duration),
    /// A holder would still act after another replica has taken over.
    #[error(
        "the lease duration, {duration:?}, must be longer than the renew deadline, {renew_deadline:?}: the difference \
         is the margin for requests on their way and for clocks that run unequally"
    )]
    NoMargin { duration: Duration, renew_deadline: Duration },
    /// A single failed renewal would lose the lease.
    #[error(
        "the renew deadline, {renew_deadline:?}, must be longer than {JITTER_FACTOR} times the retry period, \
         {retry_period:?}: otherwise a single failed renewal loses the lease"
    )]
    NoRetry { renew_deadline: Duration, retry_period: Duration },
    /// There would be no pause between attempts.
    #[error("the retry period must not be zero: there would be no pause between attempts")]
    NoPause,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            duration: LEASE_DURATION_DEFAULT,
            renew_deadline: RENEW_DEADLINE_DEFAULT,
            retry_period: RETRY_PERIOD_DEFAULT,
        }
    }
}

impl Timing {
    /// A lease that lasts `duration` after each renewal, whose holder starts nothing later than `renew_deadline`
    /// after its last successful renewal, and renews every `retry_period`. The conditions are client-go's.
    pub fn new(duration: Duration, renew_deadline: Duration, retry_period: Duration) -> Result<Self, TimingError> {
        if duration.is_zero() || duration.subsec_nanos() != 0 {
            return Err(TimingError::NotSeconds(duration));
        }
        if duration <= renew_deadline {
            return Err(TimingError::NoMargin { duration, renew_deadline });
        }
        if renew_deadline <= retry_period.mul_f64(JITTER_FACTOR) {
            return Err(TimingError::NoRetry { renew_deadline, retry_period });
        }
        if retry_period.is_zero() {
            return Err(TimingError::NoPause);
        }
        Ok(Self { duration, renew_deadline, retry_period })
    }

    /// How long a lease lasts after its last renewal.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// How often the holder renews the lease.
    #[must_use]
    pub fn retry_period(&self) -> Duration {
        self.retry_period
    }

    /// How long after the last renewal the holder may start work.
    #[must_use]
    pub fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_times_are_those_of_controller_runtime() {
        let [duration, renew_deadline, retry_period] = [15, 10, 2].map(Duration::from_secs);
        assert_eq!(Timing::new(duration, renew_deadline, retry_period), Ok(Timing::default()));
        assert!((JITTER_FACTOR - 1.2).abs() < f64::EPSILON);
    }

    #[test]
    fn times_that_do_not_fit_together_are_refused_with_a_reason() {
        let new = |duration, deadline, retry| {
            let [duration, deadline, retry] = [duration, deadline, retry].map(Duration::from_millis);
            Timing::new(duration, deadline, retry).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(new(15_000, 10_000, 2_000), Ok(()));
        for (times, said) in [
            ((1_500, 1_000, 200), "whole number of seconds"),
            ((10_000, 10_000, 2_000), "longer than the renew deadline"),
            ((15_000, 2_400, 2_000), "1.2 times the retry period"),
            ((15_000, 10_000, 0), "zero"),
        ] {
            let error = new(times.0, times.1, times.2).expect_err(said);
            assert!(error.contains(said), "{error}");
        }
    }
}
