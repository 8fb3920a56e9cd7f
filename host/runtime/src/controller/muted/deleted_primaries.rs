//! The primaries that were deleted while no worker could handle it, up to a limit.
//!
//! A generation may get ready for days before its swap is due. The generation at work handles the deletions meanwhile,
//! so only the last ones matter, which it may not have seen yet.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use windlass_core::object::ObjectKey;

/// The maximum number of deleted primaries that are kept: about 5 MB.
const DELETED_PRIMARIES_MAX: usize = 16_384;

/// The last deleted primaries, with their UIDs.
#[derive(Debug, Default)]
pub(in crate::controller) struct DeletedPrimaries {
    /// Each with the number of its deletion.
    by_key: HashMap<ObjectKey, (u64, Arc<str>)>,
    by_number: BTreeMap<u64, ObjectKey>,
    next: u64,
    forgotten: u64,
}

impl DeletedPrimaries {
    /// Adds a primary. If there are too many, forgets the one that was deleted first.
    pub(super) fn add(&mut self, key: ObjectKey, uid: Arc<str>) {
        if let Some((former, _)) = self.by_key.insert(key.clone(), (self.next, uid)) {
            self.by_number.remove(&former);
        }
        self.by_number.insert(self.next, key);
        self.next += 1;
        if self.by_number.len() > DELETED_PRIMARIES_MAX
            && let Some((_, oldest)) = self.by_number.pop_first()
        {
            self.by_key.remove(&oldest);
            self.forgotten += 1;
        }
    }

    /// The number of primaries that were forgotten.
    pub(in crate::controller) fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

impl IntoIterator for DeletedPrimaries {
    type Item = (ObjectKey, Arc<str>);
    type IntoIter = Box<dyn Iterator<Item = Self::Item> + Send>;

    /// In the order of their deletions.
    fn into_iter(mut self) -> Self::IntoIter {
        let keys = self.by_number.into_values();
        Box::new(keys.filter_map(move |key| self.by_key.remove(&key).map(|(_, uid)| (key, uid))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::namespaced("prod", name)
    }

    #[test]
    fn the_primaries_that_were_deleted_first_are_forgotten_first() {
        let mut gone = DeletedPrimaries::default();
        for at in 0..DELETED_PRIMARIES_MAX {
            gone.add(key(&format!("{at:05}")), "first".into());
        }
        // One primary that comes and goes does not displace others.
        for _ in 0..10 {
            gone.add(key("00000"), "again".into());
        }
        assert_eq!(gone.forgotten(), 0);
        gone.add(key("one more"), "first".into());
        assert_eq!(gone.forgotten(), 1);
        let all: Vec<_> = gone.into_iter().collect();
        assert_eq!(all.len(), DELETED_PRIMARIES_MAX);
        assert_eq!(all[0].0, key("00002"));
        assert_eq!(all[all.len() - 2..], [(key("00000"), "again".into()), (key("one more"), "first".into())]);
    }
}
