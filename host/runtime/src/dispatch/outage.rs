//! Outages of the API server: whether it answers now, and when an outage ends.

use tokio::sync::watch;
use tokio::time::Instant;
use windlass_kube::Outage;

/// Whether the API server answers, according to [`Reachability`](windlass_kube::Reachability) or a test.
#[derive(Clone, Debug)]
pub(crate) struct Outages(watch::Receiver<Outage>);

impl Outages {
    pub(crate) fn new(server: watch::Receiver<Outage>) -> Self {
        Self(server)
    }

    /// Whether the server answers.
    pub(crate) fn server_answers(&self) -> bool {
        self.0.borrow().since.is_none()
    }

    /// Completes when the server answers. `false` if the server is no longer probed.
    pub(crate) async fn answering(&self) -> bool {
        self.0.clone().wait_for(|outage| outage.since.is_none()).await.is_ok()
    }

    /// Completes when the server does not answer.
    pub(crate) async fn begun(&self) {
        if self.0.clone().wait_for(|outage| outage.since.is_some()).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Calls `ended` for each outage that ends, with the time at which it began. Returns once the state can no longer
    /// change.
    pub(crate) async fn follow(&self, ended: impl Fn(Instant)) {
        let mut outages = self.0.clone();
        let mut last = *outages.borrow_and_update();
        while outages.changed().await.is_ok() {
            let now = *outages.borrow_and_update();
            if now.since.is_none() {
                // An outage that began and ended between two looks counts as one that began just now.
                ended(last.since.unwrap_or_else(Instant::now));
            }
            last = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;
    use crate::tests::switch::Switch;

    #[tokio::test(start_paused = true)]
    async fn each_end_of_an_outage_is_reported_with_its_beginning() {
        let (switch, outages) = Switch::new();
        let ended = RefCell::new(Vec::new());
        let mut following = Box::pin(outages.follow(|began| ended.borrow_mut().push(began)));
        let mut look = || assert!(following.as_mut().now_or_never().is_none());
        look();
        let began = Instant::now();
        switch.begin();
        look();
        assert!(ended.borrow().is_empty());
        tokio::time::advance(Duration::from_mins(1)).await;
        switch.end();
        look();
        assert_eq!(*ended.borrow(), [began]);
        // The outage is too short to be seen while it lasts.
        switch.begin();
        switch.end();
        look();
        assert_eq!(*ended.borrow(), [began, began + Duration::from_mins(1)]);
    }
}
