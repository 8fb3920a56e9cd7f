//! The kinds that the server serves, listed for plugins. All plugins share one answer of the server for some seconds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::{Discovery, MISSING_KIND_REFRESH_INTERVAL, Resource, SweepError};

/// The last list.
#[derive(Default)]
pub(super) struct ListedKinds {
    cached: Mutex<Option<(Instant, Kinds)>>,
    /// Held while the server is asked, so that concurrent questions share the requests.
    asking: tokio::sync::Mutex<()>,
}

type Kinds = Arc<[Arc<Resource>]>;

impl ListedKinds {
    fn cached(&self) -> MutexGuard<'_, Option<(Instant, Kinds)>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fresh(&self) -> Option<Kinds> {
        let cached = self.cached();
        let (at, kinds) = cached.as_ref()?;
        (at.elapsed() < MISSING_KIND_REFRESH_INTERVAL).then(|| kinds.clone())
    }

    /// Makes the next question ask the server.
    pub(super) fn forget(&self) {
        *self.cached() = None;
    }
}

impl Discovery {
    /// Every kind that the server serves, once, in its preferred version, ordered by group and kind. At most ten
    /// seconds old, unless [`invalidate`](Self::invalidate) was called. As in client-go's `ServerPreferredResources`,
    /// the kinds of an aggregated server that does not answer are left out.
    pub(crate) async fn kinds(&self) -> Result<Arc<[Arc<Resource>]>, SweepError> {
        let _asking = self.listed.asking.lock().await;
        if let Some(kinds) = self.listed.fresh() {
            return Ok(kinds);
        }
        let (found, failed) = self.everything().await?;
        for (group_version, error) in failed {
            tracing::debug!(group_version, %error, "its kinds are missing from the list of all kinds");
        }
        let mut by_kind = BTreeMap::new();
        for resource in found {
            by_kind.entry((resource.group().to_owned(), resource.kind.kind.clone())).or_insert(resource);
        }
        let kinds: Kinds = by_kind.into_values().collect();
        *self.listed.cached() = Some((Instant::now(), kinds.clone()));
        Ok(kinds)
    }
}
