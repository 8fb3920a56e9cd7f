//! Reports failures of a list or a watch, and waits before the next attempt.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::Follower;
use super::trouble::retry_after;
use crate::discovery::DiscoveryError;
use crate::informer::error::InformerError;

/// The minimum time between two attempts, however many clients subscribe.
const ATTEMPT_INTERVAL_MIN: Duration = Duration::from_millis(800);
/// The time over which informers spread their requests when the server answers again, because the server is busy then.
const RETURN_SPREAD: Duration = Duration::from_millis(500);
/// The longest Retry-After of a server that is respected.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(10);

impl Follower {
    /// Reports a failure, and waits before the next attempt: as long as the server requested, or else for `pause` or
    /// until there is a new subscriber. If the server cannot be reached at all, waits until it can.
    pub(super) async fn report_and_wait(&mut self, error: InformerError, pause: Duration) {
        if matches!(error, InformerError::Discovery(DiscoveryError::NotServed { .. })) {
            self.feed.vanish();
        }
        let asked = retry_after(&error).min(RETRY_AFTER_MAX);
        let mut restores = self.restores.watch();
        restores.borrow_and_update();
        self.report(error);
        sleep(asked).await;
        if !self.reachability.is_reachable() {
            self.reachability.reachable().await;
            return sleep(RETURN_SPREAD.mul_f64(windlass_world::random())).await;
        }
        tokio::select! {
            biased;
            () = sleep(pause.saturating_sub(asked)) => {}
            () = async { sleep(ATTEMPT_INTERVAL_MIN).await; self.feed.hurried().await } => {}
            _ = async { sleep(ATTEMPT_INTERVAL_MIN).await; restores.changed().await } => {}
        }
    }

    /// Reports a failure. A new kind of failure is logged as a warning.
    fn report(&mut self, error: InformerError) {
        self.log.failed(&self.spec, &error);
        let malformed = u64::from(matches!(error, InformerError::Malformed { .. } | InformerError::Disordered { .. }));
        self.feed.update_status(|status| {
            status.malformed += malformed;
            status.error = Some(Arc::new(error));
        });
    }

    /// Records that the server answers normally.
    pub(super) fn recovered(&mut self) {
        self.log.recovered(&self.spec);
        self.feed.update_status(|status| status.error = None);
    }
}
