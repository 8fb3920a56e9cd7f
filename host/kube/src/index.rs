//! Secondary indexes of a store: from a value in the header to the keys of the objects that hold it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use windlass_core::object::{Header, ObjectKey};

/// From the UID of a controller to the objects that it controls. No entry is empty.
#[derive(Debug, Default)]
pub(crate) struct OwnerIndex {
    keys: HashMap<Arc<str>, BTreeSet<ObjectKey>>,
}

impl OwnerIndex {
    pub(crate) fn insert(&mut self, header: &Header) {
        if let Some(owner) = header.controller() {
            self.keys.entry(Arc::clone(&owner.uid)).or_default().insert(header.key.clone());
        }
    }

    pub(crate) fn remove(&mut self, header: &Header) {
        let Some(owner) = header.controller() else { return };
        let Some(keys) = self.keys.get_mut(&owner.uid) else { return };
        keys.remove(&header.key);
        if keys.is_empty() {
            self.keys.remove(&owner.uid);
        }
    }

    /// In the order of keys.
    pub(crate) fn get(&self, uid: &str) -> Option<&BTreeSet<ObjectKey>> {
        self.keys.get(uid)
    }
}
