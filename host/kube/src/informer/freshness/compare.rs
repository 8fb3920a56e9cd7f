//! Compares a cache with a list of metadata, for cases in which a probe cannot decide.

use std::collections::HashMap;
use std::ops::ControlFlow;

use windlass_core::cache::freshness::{Evidence, Unproven};
use windlass_core::object::ObjectKey;
use windlass_core::object::compact::{Uid, Version};

use super::{Prover, Trouble};
use crate::discovery::Resource;
use crate::informer::listing;
use crate::informer::store::{Store, StoreScope};

type ListedVersions = HashMap<ObjectKey, (Uid, Version)>;

impl Prover<'_> {
    /// Proves freshness with a list, which the cache must equal at once or soon. Only one comparison runs at a time,
    /// because it is the most expensive step for host and server.
    pub(super) async fn compare(&self, resource: &Resource) -> Result<Evidence, Trouble> {
        let _permit = self.informers.proofs().comparisons.acquire().await;
        let mut listed = ListedVersions::new();
        let list = listing::metadata(self.client(), self.feed.spec(), resource, |object| {
            let header = &object.header;
            listed.insert(header.key.clone(), (header.uid.clone(), header.version.clone()));
        });
        list.await.map_err(Trouble::Failed)?;
        let store = self.feed.store();
        if self.catch_up(|| equals(store, &listed)).await {
            return Ok(Evidence::Compared);
        }
        Err(Trouble::Found(Unproven::Behind))
    }
}

/// Whether the cache contains exactly the listed states of the listed objects at one moment.
fn equals(store: &Store, listed: &ListedVersions) -> bool {
    let mut seen = Some(0);
    store.scan(StoreScope::All, None, |object| {
        let header = &object.header;
        let known = listed.get(&header.key);
        let is_same = known.is_some_and(|(uid, version)| (uid, version) == (&header.uid, &header.version));
        seen = seen.filter(|_| is_same).map(|seen| seen + 1);
        if is_same { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    seen == Some(listed.len())
}
