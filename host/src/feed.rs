//! From the events of a watch to keys in a workqueue.

use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use windlass_core::object::ObjectKey;
use windlass_core::queue::Queue;
use windlass_kube::Subscription;

use crate::route::{Route, Stores, priority};

/// How many changes that concern every primary are taken for one.
const BURST: usize = 1_000;

/// Feeds `queue` from `subscription` until `stop`. The queue deduplicates, so a key that an event names twice is one.
pub(crate) async fn feed(
    mut subscription: Subscription,
    route: Route,
    primaries: Stores,
    queue: Queue<ObjectKey>,
    stop: CancellationToken,
) {
    loop {
        let event = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            event = subscription.next() => event,
        };
        let Some(event) = event else { return };
        let keys = route.keys(&event, &primaries);
        if route.concerns_all() && !keys.is_empty() {
            // What has happened by now is in the caches already, and each key that is queued now will see it.
            for _ in 0..BURST {
                if subscription.next().now_or_never().flatten().is_none() {
                    break;
                }
            }
        }
        let priority = priority(&event, &route);
        for key in keys {
            queue.add_with(key, priority);
        }
    }
}
