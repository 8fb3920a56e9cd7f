//! Stores equal parts of one informer's objects once: the Pods of a template have the same labels, the same owner and
//! the same namespace.

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use windlass_core::object::conditions::Conditions;
use windlass_core::object::labels::Labels;
use windlass_core::object::{ObjectKind, OwnerReference};

use crate::informer::conditions::ReadConditions;

/// The minimum number of entries for a sweep.
const SWEPT_NAMES_MIN: usize = 1024;

/// Shares equal values. Values that are not used any more are dropped from time to time, so that the interner is at
/// most about twice as large as the values in use.
#[derive(Default)]
pub(crate) struct Interner {
    hasher: DefaultHashBuilder,
    strings: HashTable<Arc<str>>,
    labels: HashTable<Labels>,
    owners: HashTable<Arc<[OwnerReference]>>,
    conditions: HashTable<Conditions>,
    /// The number of entries at which the next sweep is due.
    sweep_at: usize,
    /// Whether the interner is for a single object. Then nothing can be shared, so nothing is looked up or kept.
    is_for_one: bool,
}

/// An owner, borrowed from a text.
pub(crate) struct BorrowedOwner<'a> {
    pub(crate) api_version: Cow<'a, str>,
    pub(crate) kind: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) uid: Cow<'a, str>,
    pub(crate) controller: bool,
}

impl BorrowedOwner<'_> {
    fn is(&self, owner: &OwnerReference) -> bool {
        self.uid == *owner.uid
            && self.name == *owner.name
            && self.controller == owner.controller
            && self.kind == *owner.kind.kind
            && self.api_version == *owner.kind.api_version
    }
}

impl Interner {
    /// An interner for a single object, which shares nothing.
    pub(crate) fn for_one() -> Self {
        Self { is_for_one: true, ..Self::default() }
    }

    pub(crate) fn string(&mut self, text: &str) -> Arc<str> {
        if self.is_for_one {
            return text.into();
        }
        let hash = self.hasher.hash_one(text);
        if let Some(found) = self.strings.find(hash, |known| **known == *text) {
            return Arc::clone(found);
        }
        let new: Arc<str> = text.into();
        self.sweep_when_due();
        self.strings.insert_unique(hash, Arc::clone(&new), |known| self.hasher.hash_one(&**known));
        new
    }

    /// `labels` must be sorted by key and have no duplicate keys.
    pub(crate) fn labels(&mut self, labels: &[(Cow<'_, str>, Cow<'_, str>)]) -> Labels {
        if labels.is_empty() {
            return Labels::default();
        }
        if self.is_for_one {
            return self.new_labels(labels);
        }
        let hash = hash_pairs(&self.hasher, labels.iter().map(|(key, value)| (&**key, &**value)));
        let is_same = |known: &Labels| {
            let known = known.iter();
            known.len() == labels.len() && labels.iter().zip(known).all(|(pair, known)| (&*pair.0, &*pair.1) == known)
        };
        if let Some(found) = self.labels.find(hash, is_same) {
            return found.clone();
        }
        let new = self.new_labels(labels);
        self.sweep_when_due();
        self.labels.insert_unique(hash, new.clone(), |known| hash_pairs(&self.hasher, known.iter()));
        new
    }

    pub(crate) fn owners(&mut self, owners: &[BorrowedOwner<'_>]) -> Arc<[OwnerReference]> {
        if owners.is_empty() {
            return Arc::default();
        }
        if self.is_for_one {
            return self.new_owners(owners);
        }
        let hash = hash_uids(&self.hasher, owners.iter().map(|owner| &*owner.uid));
        let same = |known: &Arc<[OwnerReference]>| {
            known.len() == owners.len() && owners.iter().zip(&**known).all(|(borrowed, owner)| borrowed.is(owner))
        };
        if let Some(found) = self.owners.find(hash, same) {
            return Arc::clone(found);
        }
        let new = self.new_owners(owners);
        self.sweep_when_due();
        self.owners.insert_unique(hash, Arc::clone(&new), |known| {
            hash_uids(&self.hasher, known.iter().map(|owner| &*owner.uid))
        });
        new
    }

    /// `read` is a result of `conditions::read`.
    pub(crate) fn conditions(&mut self, read: &ReadConditions<'_>) -> Conditions {
        if read.0.is_empty() && read.1 == 0 {
            return Conditions::default();
        }
        if self.is_for_one {
            return self.new_conditions(read);
        }
        let (conditions, left_out) = read;
        let hash = hash_pairs(&self.hasher, conditions.iter().map(|(name, status)| (&**name, status.as_str())));
        let is_same = |known: &Conditions| {
            let pairs = known.iter().map(|(name, status)| (&**name, *status));
            known.left_out() == *left_out
                && known.iter().len() == conditions.len()
                && pairs.eq(conditions.iter().map(|(name, status)| (&**name, *status)))
        };
        if let Some(found) = self.conditions.find(hash, is_same) {
            return found.clone();
        }
        let new = self.new_conditions(read);
        self.sweep_when_due();
        self.conditions.insert_unique(hash, new.clone(), |known| {
            hash_pairs(&self.hasher, known.iter().map(|(name, status)| (&**name, status.as_str())))
        });
        new
    }

    fn new_labels(&mut self, labels: &[(Cow<'_, str>, Cow<'_, str>)]) -> Labels {
        labels.iter().map(|(key, value)| (self.string(key), self.string(value))).collect()
    }

    fn new_owners(&mut self, owners: &[BorrowedOwner<'_>]) -> Arc<[OwnerReference]> {
        owners.iter().map(|owner| self.owner(owner)).collect()
    }

    fn new_conditions(&mut self, (read, left_out): &ReadConditions<'_>) -> Conditions {
        Conditions::new(read.iter().map(|(name, status)| (self.string(name), *status)).collect(), *left_out)
    }

    fn owner(&mut self, owner: &BorrowedOwner<'_>) -> OwnerReference {
        OwnerReference {
            kind: ObjectKind::new(self.string(&owner.api_version), self.string(&owner.kind)),
            name: Arc::from(&*owner.name),
            uid: Arc::from(&*owner.uid),
            controller: owner.controller,
        }
    }

    /// Drops values that only this interner holds, once there are twice as many as after the last sweep. Sets are swept
    /// before strings, because they contain strings.
    fn sweep_when_due(&mut self) {
        let size = |this: &Self| this.strings.len() + this.labels.len() + this.owners.len() + this.conditions.len();
        if size(self) < self.sweep_at.max(SWEPT_NAMES_MIN) {
            return;
        }
        self.labels.retain(|labels| !labels.is_unshared());
        self.conditions.retain(|conditions| !conditions.is_unshared());
        self.owners.retain(|owners| Arc::strong_count(owners) > 1);
        self.strings.retain(|string| Arc::strong_count(string) > 1);
        self.sweep_at = 2 * size(self);
    }
}

fn hash_pairs<'a>(hasher: &DefaultHashBuilder, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> u64 {
    pairs.fold(0, |hash, pair| hasher.hash_one((hash, pair)))
}

/// Hashes all owners, because otherwise a user who may set owners could give every object the same hash.
fn hash_uids<'a>(hasher: &DefaultHashBuilder, uids: impl Iterator<Item = &'a str>) -> u64 {
    uids.fold(0, |hash, uid| hasher.hash_one((hash, uid)))
}

#[cfg(test)]
mod tests {
    use windlass_core::object::conditions::ConditionStatus;

    use super::*;

    fn pair(key: &str, value: &str) -> (Cow<'static, str>, Cow<'static, str>) {
        (key.to_owned().into(), value.to_owned().into())
    }

    #[test]
    fn equal_values_are_one() {
        let mut interner = Interner::default();
        assert!(Arc::ptr_eq(&interner.string("prod"), &interner.string("prod")));
        let labels = interner.labels(&[pair("app", "web"), pair("tier", "front")]);
        assert_eq!(labels, interner.labels(&[pair("app", "web"), pair("tier", "front")]));
        assert!(!labels.is_unshared());
        assert_ne!(labels, interner.labels(&[pair("app", "web")]));
        let ready = |status| (vec![("Ready".into(), status)], 0);
        let conditions = interner.conditions(&ready(ConditionStatus::True));
        assert!(conditions.is_shared_with(&interner.conditions(&ready(ConditionStatus::True))));
        assert_ne!(conditions, interner.conditions(&ready(ConditionStatus::False)));
    }

    #[test]
    fn owners_with_the_same_first_uid_have_different_hashes() {
        let hasher = DefaultHashBuilder::default();
        let found: std::collections::HashSet<_> =
            ["a", "b", "c"].into_iter().map(|last| hash_uids(&hasher, ["shared", last].into_iter())).collect();
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn interned_values_are_dropped_with_their_last_holder() {
        let mut interner = Interner::default();
        let held = interner.string("held");
        for number in 0..100_000 {
            interner.labels(&[pair("number", &number.to_string())]);
            interner.string(&number.to_string());
            interner.conditions(&(vec![(number.to_string().into(), ConditionStatus::True)], 0));
        }
        assert!(interner.strings.len() + interner.labels.len() + interner.conditions.len() < 3 * SWEPT_NAMES_MIN);
        assert!(Arc::ptr_eq(&held, &interner.string("held")));
    }
}
