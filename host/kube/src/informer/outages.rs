//! After each outage, checks whether the server still has its history before the caches are trusted, because etcd may
//! have been restored while the API server was down (ADR 33).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use kube::Client;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use windlass_core::panics::cause;

use crate::client::restores::Restores;
use crate::informer::feed::Feed;
use crate::informer::listing;
use crate::informer::status::InformerOptions;

/// The time that calls wait for the check. The server may answer `/version` long before it can list anything. After
/// this time, lists, silent watches and renewals of Leases reveal a restore.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout for the check with one cache.
const CONFIRM_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause between two attempts.
const CONFIRM_INTERVAL: Duration = Duration::from_millis(500);

/// Checks the server's history after each outage, until `stop`. `feeds` returns the feeds of the running informers, or
/// `None` once there are no informers any more.
pub(super) async fn confirm_each(
    client: Client,
    feeds: impl Fn() -> Option<Vec<Arc<Feed>>>,
    options: InformerOptions,
    stop: CancellationToken,
) {
    let InformerOptions { reachability, restores, .. } = options;
    let mut outages = reachability.watch();
    let confirms = async {
        loop {
            let is_unconfirmed = |number| number > restores.state().confirmed;
            // The sender is in `reachability`, so this cannot fail.
            let ended = outages.wait_for(|outage| outage.since.is_none() && is_unconfirmed(outage.number)).await;
            let Ok(number) = ended.map(|outage| outage.number) else { return };
            let Some(feeds) = feeds() else { return };
            // Even if the check panics, calls must not wait forever.
            if let Err(panic) = AssertUnwindSafe(ask(&client, &restores, feeds)).catch_unwind().await {
                tracing::error!(
                    cause = cause(&*panic),
                    "the check whether the server was restored panicked; calls continue"
                );
            }
            restores.confirm(number);
        }
    };
    stop.run_until_cancelled(confirms).await;
}

/// Checks with the first cache that has comparable versions and gets an answer.
async fn ask(client: &Client, restores: &Restores, mut feeds: Vec<Arc<Feed>>) {
    let deadline = Instant::now() + CONFIRM_TIMEOUT;
    feeds.retain(|feed| feed.known_state().is_some());
    // Sorted, because the feeds come from a map, whose order is random.
    feeds.sort_by_cached_key(|feed| feed.spec().to_string());
    for feed in feeds.iter().cycle() {
        // A single kind may hang, for example if its conversion webhook is not running yet. Then the next cache is
        // tried.
        match timeout(CONFIRM_ATTEMPT_TIMEOUT, is_answered(client, restores, feed)).await {
            Ok(true) => return,
            Ok(false) => sleep(CONFIRM_INTERVAL).await,
            Err(_) => {}
        }
        if Instant::now() >= deadline {
            return;
        }
    }
}

async fn is_answered(client: &Client, restores: &Restores, feed: &Feed) -> bool {
    let (Some(known), Some(resource)) = (feed.known_state(), feed.store().resource()) else { return false };
    match listing::newest(client, feed.spec(), &resource).await {
        Ok(answered) => {
            feed.compare_history(restores, &known, &answered);
            true
        }
        Err(error) => {
            tracing::debug!(watch = %feed.spec(), %error, "the server cannot be asked yet whether it was restored");
            false
        }
    }
}
