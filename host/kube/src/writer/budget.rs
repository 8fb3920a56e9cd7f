//! Limits the rate of a plugin's writes, over all its calls. A write beyond the limit waits, so that a flood slows down
//! only the plugin that causes it.
//!
//! Only writes that are sent are charged; a write that would change nothing is free. A write whose caller stops waiting
//! is not sent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use windlass_core::call::ports::CallContext;
use windlass_core::clock::Moment;
use windlass_core::queue::TokenBucket;
use windlass_core::repeats::Repeats;
use windlass_core::rights::principal::Role;

use crate::offload::Offload;

/// The minimum time between two log lines about waiting writes.
const WAIT_REPORT_INTERVAL: Duration = Duration::from_mins(10);

/// The rate limit of a plugin's writes, over all its calls.
///
/// The server has its own priority and fairness. This limit is meant for a runaway plugin, and is high enough not to
/// slow down a plugin's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteRate {
    /// The sustained rate. 0 for no limit.
    pub per_second: u32,
    pub burst: u32,
}

impl Default for WriteRate {
    fn default() -> Self {
        Self { per_second: 500, burst: 2_000 }
    }
}

/// The budget of one plugin. Clones share it.
#[derive(Clone, Debug)]
pub struct WriteBudget(Arc<WriteBudgetInner>);

#[derive(Debug)]
struct WriteBudgetInner {
    rate: WriteRate,
    tokens: Mutex<Tokens>,
    /// The waiter for the next token holds this lock. The other waiters queue for the lock in order.
    queue: tokio::sync::Mutex<()>,
    /// The start of the clock for the bucket.
    origin: Instant,
    waited: AtomicU64,
    reports: Mutex<Repeats>,
    /// The threads for the plugin's long writes.
    offload: OnceLock<Offload>,
}

#[derive(Debug)]
struct Tokens {
    bucket: TokenBucket,
    /// The number of waiters, which later writes must not overtake.
    waiting: usize,
}

/// A waiter, counted while it exists.
struct CountedWaiter<'a>(&'a WriteBudgetInner);

impl<'a> CountedWaiter<'a> {
    fn of(shared: &'a WriteBudgetInner) -> Self {
        shared.tokens().waiting += 1;
        Self(shared)
    }
}

impl Drop for CountedWaiter<'_> {
    fn drop(&mut self) {
        self.0.tokens().waiting -= 1;
    }
}

impl WriteBudgetInner {
    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Moment {
        Moment(self.origin.elapsed())
    }
}

/// The caller does not wait for the request any more, for example because its call has ended.
#[derive(Debug)]
pub(crate) struct Abandoned;

/// The budget for requests of `call`. `None` for requests that the host makes for the plugin.
fn of_call<'a>(budget: Option<&'a WriteBudget>, call: &CallContext) -> Option<&'a WriteBudget> {
    budget.filter(|_| call.principal.role == Role::Plugin)
}

/// Pays for one request of `call`, if that is possible now.
pub(crate) fn try_pay(budget: Option<&WriteBudget>, call: &CallContext) -> bool {
    of_call(budget, call).is_none_or(WriteBudget::try_pay)
}

/// Pays for one request of `call` as soon as possible, unless `asker` stops waiting before.
pub(crate) async fn pay<T>(
    budget: Option<&WriteBudget>,
    call: &CallContext,
    asker: &mut oneshot::Sender<T>,
) -> Result<(), Abandoned> {
    let Some(budget) = of_call(budget, call) else { return Ok(()) };
    tokio::select! {
        biased;
        () = asker.closed() => Err(Abandoned),
        () = budget.pay(&call.principal.plugin) => Ok(()),
    }
}

impl WriteBudget {
    /// The budget of a plugin that has not written yet.
    #[must_use]
    pub fn new(rate: WriteRate) -> Self {
        let bucket = TokenBucket::new(rate.per_second, rate.burst);
        let (queue, waited, offload) = Default::default();
        let reports = Mutex::new(Repeats::each(WAIT_REPORT_INTERVAL, 1));
        let tokens = Mutex::new(Tokens { bucket, waiting: 0 });
        Self(Arc::new(WriteBudgetInner { rate, tokens, queue, origin: Instant::now(), waited, reports, offload }))
    }

    /// The number of writes that had to wait.
    #[must_use]
    pub fn waited(&self) -> u64 {
        self.0.waited.load(Ordering::Relaxed)
    }

    /// Pays for one write, if that is possible now and no other write waits.
    fn try_pay(&self) -> bool {
        if self.0.rate.per_second == 0 {
            return true;
        }
        let now = self.0.now();
        let mut tokens = self.0.tokens();
        tokens.waiting == 0 && tokens.bucket.try_take(now).is_ok()
    }

    /// The threads for the plugin's long writes, created by `new` if necessary.
    pub(crate) fn offload(&self, new: impl FnOnce() -> Offload) -> Offload {
        self.0.offload.get_or_init(new).clone()
    }

    /// Waits until a write can be paid for, and pays. Cancelling the wait pays nothing.
    async fn pay(&self, plugin: &str) {
        let _waiting = CountedWaiter::of(&self.0);
        self.0.waited.fetch_add(1, Ordering::Relaxed);
        self.log_wait(plugin);
        let _first = self.0.queue.lock().await;
        while let Err(wait) = self.take() {
            sleep(wait).await;
        }
    }

    fn take(&self) -> Result<(), Duration> {
        let now = self.0.now();
        self.0.tokens().bucket.try_take(now)
    }

    fn log_wait(&self, plugin: &str) {
        let mut reports = self.0.reports.lock().unwrap_or_else(PoisonError::into_inner);
        if reports.line(self.0.now()).is_some() {
            let WriteRate { per_second, burst } = self.0.rate;
            tracing::warn!(
                plugin,
                per_second,
                burst,
                "the plugin writes more often than it may, so its writes wait: check what it writes, or raise --writes-per-second \
                 and --writes-burst"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn budget() -> WriteBudget {
        WriteBudget::new(WriteRate { per_second: 10, burst: 2 })
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_paid_at_once_and_the_rest_in_order_at_the_rate() {
        let (budget, began) = (budget(), Instant::now());
        assert!(budget.try_pay() && budget.try_pay() && !budget.try_pay());
        let paid = (0..5).map(async |number| {
            budget.pay("a").await;
            (number, began.elapsed().as_millis())
        });
        let paid = futures::future::join_all(paid).await;
        assert_eq!(paid, [(0, 100), (1, 200), (2, 300), (3, 400), (4, 500)]);
        assert_eq!(budget.waited(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_payer_does_not_overtake_those_who_wait() {
        let budget = budget();
        assert!(budget.try_pay() && budget.try_pay());
        let mut first = Box::pin(budget.pay("a"));
        assert!(first.as_mut().now_or_never().is_none());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!budget.try_pay(), "there are tokens, and one waits for them");
        first.await;
        assert!(budget.try_pay());
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_payer_pays_nothing_and_delays_no_other() {
        let (budget, began) = (budget(), Instant::now());
        assert!(budget.try_pay() && budget.try_pay());
        assert!(budget.pay("a").now_or_never().is_none());
        budget.pay("a").await;
        assert_eq!(began.elapsed(), Duration::from_millis(100));
    }

    #[test]
    fn a_rate_of_zero_is_no_limit() {
        let budget = WriteBudget::new(WriteRate { per_second: 0, burst: 1 });
        assert!((0..100_000).all(|_| budget.try_pay()));
        assert_eq!(budget.waited(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_of_a_thousand_objects_with_two_writes_each_does_not_wait() {
        let budget = WriteBudget::new(WriteRate::default());
        assert!((0..2_000).all(|_| budget.try_pay()), "at once");
        let began = Instant::now();
        for _ in 0..1_000 {
            budget.pay("a").await;
        }
        assert_eq!(began.elapsed(), Duration::from_secs(2), "and 500 a second after that");
    }

    #[test]
    fn concurrent_payers_are_not_refused_while_tokens_are_left() {
        let budget = WriteBudget::new(WriteRate { per_second: 10, burst: 40_000 });
        let refused: usize = std::thread::scope(|scope| {
            let looking = [(); 4].map(|()| scope.spawn(|| (0..10_000).filter(|_| !budget.try_pay()).count()));
            looking.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(refused, 0);
    }
}
