//! Fetches that share one pull.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};

use crate::error::FetchError;
use crate::names::StoredName;
use crate::stored::Stored;
use crate::wanted::WantedPlugin;

type Flight = BoxFuture<'static, Result<Stored, FetchError>>;
type Alone = tokio::sync::Mutex<()>;

/// The pulls in progress.
#[derive(Default)]
pub(crate) struct Flights {
    /// Fetches of the same digest with the same settings share even a failure.
    of_wanted: Mutex<Vec<(WantedPlugin, WeakShared<Flight>)>>,
    /// Other fetches of the same digest, such as those by tag, follow each other: the next one finds what the one
    /// before has stored.
    of_digest: Mutex<HashMap<StoredName, Weak<Alone>>>,
}

impl Flights {
    /// The pull of `wanted` that is in progress, or else `pull`.
    pub(crate) fn join(
        &self,
        wanted: &WantedPlugin,
        pull: impl Future<Output = Result<Stored, FetchError>> + Send + 'static,
    ) -> Shared<Flight> {
        let mut flights = self.of_wanted.lock().unwrap_or_else(PoisonError::into_inner);
        flights.retain(|(_, flight)| flight.upgrade().is_some_and(|flight| flight.peek().is_none()));
        let same = flights.iter().find(|(other, _)| other == wanted).and_then(|(_, flight)| flight.upgrade());
        same.unwrap_or_else(|| {
            let flight = pull.boxed().shared();
            flights.extend(flight.downgrade().map(|weak| (wanted.clone(), weak)));
            flight
        })
    }

    /// The lock of the pull of `name`.
    pub(crate) fn alone(&self, name: &StoredName) -> Arc<Alone> {
        let mut locks = self.of_digest.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = locks.get(name).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::new(Alone::default());
        locks.insert(name.clone(), Arc::downgrade(&lock));
        lock
    }
}
