//! Whether the API server answers, as the requests of this process have found.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

/// Whether the API server is unreachable, and how often it has been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outage {
    /// How many outages have begun.
    pub number: u64,
    /// When the present one began. None: the server answers.
    pub since: Option<Instant>,
}

/// Whether the API server is reachable. Clones tell the same.
#[derive(Clone, Debug)]
pub struct Reachability(Arc<watch::Sender<Outage>>);

impl Reachability {
    /// For tests: a server that always answers, until [`Reachability::begin_outage`].
    #[must_use]
    pub fn always() -> Self {
        Self(Arc::default())
    }

    /// Whether the server answers.
    #[must_use]
    pub fn is_reachable(&self) -> bool {
        self.0.borrow().since.is_none()
    }

    /// Completes when the server answers, at once if it does.
    pub async fn reachable(&self) {
        // The sender is in `self`.
        let _ = self.watch().wait_for(|outage| outage.since.is_none()).await;
    }

    /// Changes when an outage begins and when it ends.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Outage> {
        self.0.subscribe()
    }

    /// For tests.
    pub fn begin_outage(&self) {
        self.0.send_modify(|outage| *outage = Outage { number: outage.number + 1, since: Some(Instant::now()) });
    }

    /// For tests.
    pub fn end_outage(&self) {
        self.0.send_modify(|outage| outage.since = None);
    }
}
