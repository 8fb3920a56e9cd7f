//! One subscriber's side of a feed.

use std::sync::Arc;
use std::vec;

use tokio::sync::{mpsc, watch};
use windlass_core::cache::watch::WatchEvent;
use windlass_core::object::Object;

use super::Feed;
use crate::informer::error::InformerError;
use crate::informer::status::InformerStatus;
use crate::informer::store::Store;

/// One subscriber's view of an informer.
pub struct Subscription {
    pub(super) feed: Arc<Feed>,
    pub(super) id: u64,
    pub(super) snapshot: vec::IntoIter<Object>,
    pub(super) events: mpsc::UnboundedReceiver<WatchEvent>,
}

impl Subscription {
    /// The informer's store. A clone of it does not keep the informer running; this subscription does.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.feed.store
    }

    pub(crate) fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    /// Waits for the first complete list, whose events are then all in this subscription. Returns false if the
    /// informers stopped before.
    pub async fn synced(&self) -> bool {
        let mut status = self.feed.status.subscribe();
        match status.wait_for(|status| status.synced || status.stopped).await {
            Ok(status) => status.synced,
            Err(_) => false,
        }
    }

    /// The next event: first the objects that the store held at the beginning, as initial events, then every later
    /// change once. `None` if the informers have stopped, or the cache has grown beyond this subscriber's
    /// [`Budget`](crate::Budget). Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        match self.snapshot.next() {
            Some(new) => Some(WatchEvent::Applied { old: None, new, initial: true }),
            None => self.events.recv().await,
        }
    }

    /// Completes when the kind is no longer served, for example because its `CustomResourceDefinition` was deleted. Its
    /// objects are gone with it. Cancel-safe.
    pub async fn gone(&self) {
        let mut status = self.feed.status.subscribe();
        // An error would mean that the sender, which is in the feed, was dropped.
        let _ = status.wait_for(|status| status.gone).await;
    }

    /// Completes when `is` holds for the informer's status. Does not keep the subscription alive.
    pub fn when(
        &self,
        mut is: impl FnMut(&InformerStatus) -> bool + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let mut status = self.feed.status.subscribe();
        async move {
            if status.wait_for(|status| is(status)).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    #[must_use]
    pub fn status(&self) -> InformerStatus {
        self.feed.status.borrow().clone()
    }

    /// The informer's status and its changes. Does not keep the subscription alive.
    #[must_use]
    pub fn statuses(&self) -> watch::Receiver<InformerStatus> {
        self.feed.status.subscribe()
    }

    /// The error that currently prevents the informer from listing or watching.
    #[must_use]
    pub fn error(&self) -> Option<Arc<InformerError>> {
        self.feed.status.borrow().error.clone()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.feed.unsubscribe(self.id);
    }
}
