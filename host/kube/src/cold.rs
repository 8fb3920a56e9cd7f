//! Packs what nobody reads.

use std::sync::Weak;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::informer::Shared;

/// Packs, every so often, the texts that nobody has read since the last time, and unpacks those that somebody has.
pub(crate) async fn cool(informers: Weak<Shared>, stop: CancellationToken, every: Duration) {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(every) => {}
        }
        let Some(feeds) = informers.upgrade().map(|informers| informers.feeds()) else { return };
        for feed in feeds {
            // Milliseconds of work for each hundred objects: not on a thread that serves others.
            let done = tokio::task::spawn_blocking(move || feed.cool()).await;
            if let Err(error) = done {
                tracing::error!(%error, "packing a cache failed; it stays as it is");
            }
        }
    }
}
