//! The backoff of failing keys (client-go: `util/workqueue/default_rate_limiters.go`).
//!
//! The queue counts a key's failures and asks a limiter for the delay.

use std::fmt::Debug;
use std::time::Duration;

use crate::clock::Moment;

/// The delay after a key's first failure. This and the next three constants are as in client-go's
/// `DefaultTypedControllerRateLimiter`.
pub const ITEM_BACKOFF_MIN: Duration = Duration::from_millis(5);
/// The longest delay of a key.
pub const ITEM_BACKOFF_MAX: Duration = Duration::from_secs(1000);
/// Retries per second of all keys together, if a token bucket limits them.
pub const RETRIES_PER_SECOND: u32 = 10;
/// Retries that may come at once.
pub const RETRIES_BURST: u32 = 100;

/// Computes the delay of a failed key.
pub trait Limiter: Debug + Send + 'static {
    /// The delay of a key that failed `failures` times before this failure. 255 means 255 or more. `now` never goes
    /// back.
    fn delay(&mut self, failures: u32, now: Moment) -> Duration;
}

/// Doubles a key's delay with each of its failures: `base`·2ⁿ, at most `max`.
#[derive(Clone, Debug)]
pub struct ItemExponential {
    base: Duration,
    max: Duration,
}

impl ItemExponential {
    /// A limiter that begins with `base`.
    #[must_use]
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max }
    }
}

impl Default for ItemExponential {
    fn default() -> Self {
        Self::new(ITEM_BACKOFF_MIN, ITEM_BACKOFF_MAX)
    }
}

impl Limiter for ItemExponential {
    fn delay(&mut self, failures: u32, _: Moment) -> Duration {
        let factor = 2_u32.checked_pow(failures).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.max)
    }
}

/// Lets keys through at a limited rate, counted over all keys, and a burst of keys at once (golang.org/x/time/rate, as
/// client-go uses it).
#[derive(Clone, Debug)]
pub struct TokenBucket {
    per_second: u32,
    burst: u32,
    /// The virtual time up to which tokens are used. Each token moves it by the time in which one token is added.
    paid_until: Moment,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens, refilled at `per_second`. Both are at least 1.
    #[must_use]
    pub fn new(per_second: u32, burst: u32) -> Self {
        Self { per_second: per_second.max(1), burst: burst.max(1), paid_until: Moment::default() }
    }

    /// Takes a token if there is one. An error holds the time until the next token. `now` never goes back.
    pub fn try_take(&mut self, now: Moment) -> Result<(), Duration> {
        match self.wait(1, now) {
            Duration::ZERO => {
                self.take(1);
                Ok(())
            }
            wait => Err(wait),
        }
    }

    /// The time until the bucket has `tokens` tokens: [`Duration::MAX`] if that is more than the burst. `now` never
    /// goes back.
    pub fn wait(&mut self, tokens: u32, now: Moment) -> Duration {
        // The bucket has `tokens` tokens if at most `others` are missing. `others` is the remainder of the burst.
        let Some(others) = self.burst.checked_sub(tokens) else { return Duration::MAX };
        self.paid_until = self.paid_until.max(now);
        self.paid_until.0.saturating_sub(now.0).saturating_sub(self.time_of(others))
    }

    /// Takes `tokens` tokens, even if the bucket does not have them yet.
    pub fn take(&mut self, tokens: u32) {
        self.paid_until = self.paid_until + self.time_of(tokens);
    }

    /// The time in which `tokens` tokens are added.
    fn time_of(&self, tokens: u32) -> Duration {
        Duration::from_secs(tokens.into()) / self.per_second
    }
}

impl Default for TokenBucket {
    fn default() -> Self {
        Self::new(RETRIES_PER_SECOND, RETRIES_BURST)
    }
}

impl Limiter for TokenBucket {
    fn delay(&mut self, _: u32, now: Moment) -> Duration {
        let wait = self.wait(1, now);
        self.take(1);
        wait
    }
}

/// The longest delay that any of several limiters asks for.
#[derive(Debug)]
pub struct MaxOf(pub Vec<Box<dyn Limiter>>);

impl Limiter for MaxOf {
    fn delay(&mut self, failures: u32, now: Moment) -> Duration {
        self.0.iter_mut().map(|limiter| limiter.delay(failures, now)).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment(Duration::from_millis(millis))
    }

    fn millis(limiter: &mut dyn Limiter, failures: u32, now: u64) -> u128 {
        limiter.delay(failures, at(now)).as_millis()
    }

    #[test]
    fn failures_double_the_delay_up_to_its_bound() {
        let mut limiter = ItemExponential::default();
        assert_eq!([0, 1, 2, 14].map(|failures| millis(&mut limiter, failures, 0)), [5, 10, 20, 81_920]);
        assert_eq!(millis(&mut limiter, 40, 0), 1_000_000);
    }

    #[test]
    fn the_default_bucket_is_that_of_client_go() {
        let mut limiter = TokenBucket::default();
        let waits: Vec<_> = (0..102).map(|_| millis(&mut limiter, 0, 0)).collect();
        assert_eq!(waits[99..], [0, 100, 200]);
    }

    #[test]
    fn a_bucket_lets_a_burst_through_and_then_its_rate() {
        let mut limiter = TokenBucket::new(10, 3);
        assert_eq!([0; 5].map(|_| millis(&mut limiter, 0, 0)), [0, 0, 0, 100, 200]);
        // Two seconds later the bucket is full again, but no more than full.
        assert_eq!([0; 4].map(|_| millis(&mut limiter, 0, 2_500)), [0, 0, 0, 100]);
    }

    #[test]
    fn a_refused_token_is_not_charged() {
        let mut bucket = TokenBucket::new(10, 2);
        let mut take = |now| bucket.try_take(at(now)).map_err(|wait| wait.as_millis());
        assert_eq!([0, 0, 0, 40].map(&mut take), [Ok(()), Ok(()), Err(100), Err(60)]);
        assert_eq!([100, 100, 1_000, 1_000, 1_000].map(&mut take), [Ok(()), Err(100), Ok(()), Ok(()), Err(100)]);
    }

    #[test]
    fn several_tokens_wait_until_all_are_added() {
        let mut bucket = TokenBucket::new(10, 20);
        bucket.take(15);
        assert_eq!([5, 6, 20].map(|tokens| bucket.wait(tokens, at(0)).as_millis()), [0, 100, 1_500]);
        assert_eq!(bucket.wait(21, at(0)), Duration::MAX, "the bucket never has so many");
    }

    #[test]
    fn of_several_limiters_the_longest_delay_counts() {
        let mut limiter = MaxOf(vec![Box::<ItemExponential>::default(), Box::new(TokenBucket::new(1, 1))]);
        assert_eq!(millis(&mut limiter, 1, 0), 10);
        assert_eq!(millis(&mut limiter, 1, 0), 1000);
    }
}
