//! Reports the failures of a list or a watch, and waits after them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::Follower;
use super::trouble::retry_after;
use crate::discovery::DiscoveryError;
use crate::informer::error::InformerError;

/// Between two attempts, however many subscribe meanwhile.
const ATTEMPT_INTERVAL_MIN: Duration = Duration::from_millis(800);
/// Over this time the informers come back to a server that answers again, which has enough to do.
const RETURN_SPREAD: Duration = Duration::from_millis(500);
/// The longest wait that a server's Retry-After is believed.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(10);

impl Follower {
    /// Tells of a failure, and waits before the next attempt: as long as the server has asked for, else for `pause` or
    /// until somebody new subscribes. While the server cannot be reached at all, until it can.
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

    /// Tells of a failure: loudly when it is a new one.
    fn report(&mut self, error: InformerError) {
        self.log.failed(&self.spec, &error);
        let malformed = u64::from(matches!(error, InformerError::Malformed { .. } | InformerError::Disordered { .. }));
        self.feed.update_status(|status| {
            status.malformed += malformed;
            status.error = Some(Arc::new(error));
        });
    }

    /// The server answers as it should.
    pub(super) fn recovered(&mut self) {
        self.log.recovered(&self.spec);
        self.feed.update_status(|status| status.error = None);
    }
}
