//! After each outage, asks the server whether it is still what it was, before anybody acts on what caches show: etcd is
//! restored while the API server is down (ADR 33).

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::client::restores::Restores;
use crate::informer::feed::Feed;
use crate::informer::informers::InformersInner;
use crate::informer::listing;
use crate::informer::status::InformerOptions;

/// How long calls wait for the server's answer. It may answer `/version` well before it can list anything; from then on,
/// lists, silent watches and renewals of Leases show a restore.
const CONFIRM_LIMIT: Duration = Duration::from_secs(10);
/// Between two attempts.
const CONFIRM_PAUSE: Duration = Duration::from_millis(500);

/// Confirms the server's history after each outage, until `stop`, or until the informers are gone.
pub(super) async fn confirm_each(informers: Weak<InformersInner>, options: InformerOptions, stop: CancellationToken) {
    let InformerOptions { reachability, restores, .. } = options;
    let mut outages = reachability.watch();
    let confirms = async {
        loop {
            let is_unconfirmed = |number| number > restores.state().confirmed;
            // The sender is in `reachability`: this cannot fail.
            let ended = outages.wait_for(|outage| outage.since.is_none() && is_unconfirmed(outage.number)).await;
            let Ok(number) = ended.map(|outage| outage.number) else { return };
            let Some(informers) = informers.upgrade() else { return };
            ask(&informers, &restores).await;
            restores.confirm(number);
        }
    };
    stop.run_until_cancelled(confirms).await;
}

/// Asks about one cache whose versions compare, whichever can be answered.
async fn ask(informers: &InformersInner, restores: &Restores) {
    let deadline = Instant::now() + CONFIRM_LIMIT;
    let mut feeds = informers.feeds();
    feeds.retain(|feed| feed.known_state().is_some());
    // The order of a map is chance.
    feeds.sort_by_cached_key(|feed| feed.spec().to_string());
    for feed in feeds.iter().cycle() {
        match timeout_at(deadline, is_answered(informers, restores, feed)).await {
            Ok(true) | Err(_) => return,
            Ok(false) => sleep(CONFIRM_PAUSE).await,
        }
        if Instant::now() >= deadline {
            return;
        }
    }
}

async fn is_answered(informers: &InformersInner, restores: &Restores, feed: &Arc<Feed>) -> bool {
    let (Some(known), Some(resource)) = (feed.known_state(), feed.store().resource()) else { return false };
    match listing::newest(informers.client(), feed.spec(), &resource).await {
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
