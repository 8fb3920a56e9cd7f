//! Determines what a key must see after it has deleted a collection.
//!
//! The answer lists the objects too late, because their events may have come before. So the objects that the caches
//! show are followed from before the request. For objects that the caches did not show, or that the server does not
//! list, the caches need a proof.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use windlass_core::call::ports::CallContext;
use windlass_core::object::selector::Selector;
use windlass_core::object::{Object, ObjectKey, ObjectKind};
use windlass_core::write::expectations::{Effect, Shown};
use windlass_core::write::gate::Interest;

use super::{Expecting, WatchedStore};
use crate::informer::store::StoreScope;

/// With more objects than this, no object is followed individually, because a proof costs less.
const FOLLOWED_OBJECTS_MAX: usize = 1_000;

/// The deletion of a collection that is in progress.
pub(crate) struct CollectionInterest {
    expecting: Expecting,
    kind: ObjectKind,
    /// The objects that the caches showed when this interest was opened.
    followed: BTreeMap<ObjectKey, Interest>,
    rest: Interest,
}

impl Expecting {
    /// Call this before the objects of `kind` in `namespace` with these `labels` are deleted. `None` if no cache can
    /// show such objects.
    pub(crate) fn open_collection(
        &self,
        call: &CallContext,
        kind: &ObjectKind,
        namespace: Option<&Arc<str>>,
        labels: &Selector,
    ) -> Option<CollectionInterest> {
        let seeing = self.caches_of(|watch| watch.may_show_in(kind, namespace));
        let everything = ObjectKey { namespace: namespace.cloned(), name: Arc::default() };
        let rest = self.gate.open(&call.primary_key, &everything, seeing.clone())?;
        let mut keys = BTreeSet::new();
        for token in seeing {
            shown_by(&self.watches[token], namespace, labels, &mut keys);
        }
        if keys.len() > FOLLOWED_OBJECTS_MAX {
            keys.clear();
        }
        let follow = |key: ObjectKey| {
            let caches = self.caches_of(|watch| watch.may_show(kind, &key));
            let interest = self.gate.open(&call.primary_key, &key, caches)?;
            Some((key, interest))
        };
        let followed = keys.into_iter().filter_map(follow).collect();
        Some(CollectionInterest { expecting: self.clone(), kind: kind.clone(), followed, rest })
    }

    fn caches_of(&self, may_show: impl Fn(&WatchedStore) -> bool) -> Vec<usize> {
        let watches = self.watches.iter().enumerate();
        watches.filter(|(_, watch)| may_show(watch)).map(|(token, _)| token).collect()
    }
}

/// Adds the objects of the collection that a watch shows to `keys`, but not many more than can be followed.
fn shown_by(watch: &WatchedStore, namespace: Option<&Arc<str>>, labels: &Selector, keys: &mut BTreeSet<ObjectKey>) {
    let scope = namespace.map_or(StoreScope::All, |namespace| StoreScope::Namespace(namespace));
    watch.store.scan(scope, None, |object| {
        if labels.matches(&object.header.labels) {
            keys.insert(object.header.key.clone());
        }
        if keys.len() > FOLLOWED_OBJECTS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
}

impl CollectionInterest {
    /// Call this if the server has deleted `objects`, which are given in their state before the deletion.
    pub(crate) fn deleted(mut self, objects: &[Object]) {
        let mut is_doubtful = false;
        for object in objects {
            match self.followed.remove(&object.header.key) {
                Some(interest) => {
                    interest.ended(&Effect::Removed { uid: Some(object.header.uid.clone()), for_good: false });
                }
                None => is_doubtful |= self.may_be_shown(object),
            }
        }
        self.end(is_doubtful);
    }

    /// Call this if nothing was deleted, and nothing will be.
    pub(crate) fn nothing(self) {
        self.end(false);
    }

    /// Call this if the server deletes nothing more, and does not say which objects it has deleted.
    pub(crate) fn unknown(self) {
        self.end(true);
    }

    fn end(self, is_doubtful: bool) {
        for interest in self.followed.into_values() {
            interest.ended(&Effect::Nothing);
        }
        self.rest.ended(if is_doubtful { &Effect::Unknown } else { &Effect::Nothing });
    }

    /// Whether a cache may show `object`, which no cache showed before the deletion.
    fn may_be_shown(&self, object: &Object) -> bool {
        let shows = |token: &usize| self.expecting.watches[*token].shows(&self.kind, object) != Shown::No;
        self.rest.caches().iter().any(shows)
    }
}
