//! Decides when an informer lists although its watch works.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::client::restores::Restores;
use crate::informer::feed::Feed;
use crate::informer::status::ListReason;

/// The minimum time between two lists of one cache that are made although its watch works.
const RELIST_INTERVAL_MIN: Duration = Duration::from_secs(10);

/// Completes with the reason when a list is due: a list was requested, or the server was restored. The last list was
/// applied at `listed_at`.
pub(super) async fn relist_due(feed: Arc<Feed>, restores: Restores, listed_at: Option<Instant>) -> ListReason {
    let mut states = restores.watch();
    let reason = tokio::select! {
        biased;
        // The sender is in `restores`, so this cannot fail.
        _ = states.wait_for(|state| !feed.store().follows(state.restored)) => ListReason::WentBack,
        () = feed.list_wanted() => ListReason::Asked,
    };
    if let Some(at) = listed_at.filter(|at| at.elapsed() < RELIST_INTERVAL_MIN) {
        sleep_until(at + RELIST_INTERVAL_MIN).await;
    }
    reason
}
