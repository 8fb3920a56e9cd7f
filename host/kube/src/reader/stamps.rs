//! The states of caches that answers come from. While they stay the same, a call need not be made again (ADR 46).

use windlass_core::cache::watch::{Index, Projection, WatchSpec};
use windlass_core::call::list_query::ListQuery;
use windlass_core::call::ports::CallContext;
use windlass_core::call::read_set::ReadQuestion;
use windlass_core::object::progress::Stamp;
use windlass_core::object::{Object, ObjectKey, ObjectKind};

use super::{Readable, Reader};
use crate::informer::store::StoreScope;

/// When the surroundings of `key` last changed in the only one of `watches`, if the call notes its reads. `None` for
/// several watches: which of them an answer comes from depends on all of them. Called before the read, so that the read
/// shows this state or a later one.
pub(super) fn changed_near(call: &CallContext, watches: &[&Readable], key: &ObjectKey) -> Option<Stamp> {
    match watches {
        [watch] if call.reads.is_on() => watch.store.changed_near(key),
        _ => None,
    }
}

/// Notes the state of an answer: of the object `found`, or else of its namespace at `absent_since`.
pub(super) fn note(call: &CallContext, found: Option<&Object>, absent_since: Option<Stamp>) {
    if let Some(absent_since) = absent_since {
        call.reads.answers_from(found.map_or(absent_since, Object::stamp));
    }
    call.reads.takes(found.map_or(0, Object::whole_footprint));
}

/// Notes the state of a list, and what it takes to list the objects of `scope` again, after the call has looked at so
/// many `bytes`. Without an index, all objects would be looked at, so such a list is never read again.
pub(super) fn note_list(call: &CallContext, scope: &StoreScope<'_>, state: Option<Stamp>, bytes: usize) {
    if let Some(state) = state {
        call.reads.answers_from(state);
    }
    call.reads.takes(match scope {
        StoreScope::Owned(_) | StoreScope::Index(..) => bytes,
        StoreScope::All | StoreScope::Namespace(_) => usize::MAX,
    });
}

/// The state that a list with this `query` would be answered from now, if `watch` is the only one that covers it.
fn list_state(call: &CallContext, watch: &Readable, query: &ListQuery) -> Option<Stamp> {
    if let Some((name, value)) = &query.index {
        return watch.store.changed(StoreScope::Index(Index::source(&watch.indexes, name)?, value));
    }
    if query.owned {
        let owner = call.primary.as_ref()?.header.uid.text();
        return watch.store.changed(StoreScope::Owned(&owner));
    }
    watch.store.changed(query.namespace.as_deref().map_or(StoreScope::All, StoreScope::Namespace))
}

/// The only watch of `kind` that keeps objects whole, if there is just one.
pub(crate) fn only_full<'a>(watches: impl Iterator<Item = &'a Readable>, kind: &ObjectKind) -> Option<&'a Readable> {
    let mut full = watches.filter(|watch| watch.spec.kind == *kind && watch.spec.projection == Projection::Full);
    full.next().filter(|_| full.next().is_none())
}

impl Reader {
    /// The watches that may show objects of `kind` in `namespace`; `None` means in any namespace.
    pub(super) fn covering_watches(&self, kind: &ObjectKind, namespace: Option<&str>) -> Vec<&Readable> {
        let covers = |spec: &WatchSpec| match (&spec.namespace, namespace) {
            (Some(watched), Some(asked)) => **watched == *asked,
            _ => true,
        };
        self.watches.iter().filter(|watch| watch.spec.kind == *kind && covers(&watch.spec)).collect()
    }

    /// The state that a read with this `question` would be answered from now.
    pub(super) fn stamp_of(&self, call: &CallContext, question: &ReadQuestion) -> Option<Stamp> {
        match question {
            ReadQuestion::Primary => None,
            ReadQuestion::Get { target, .. } => {
                let (watch, key) = self.only_watch_of(call, &target.kind, &target.key)?;
                watch.store.stamp_of(&key)
            }
            ReadQuestion::List(query) => match self.covering_watches(&query.kind, query.namespace.as_deref())[..] {
                [watch] => list_state(call, watch, query),
                _ => None,
            },
            ReadQuestion::SkippedWrite { kind, key, .. } => only_full(self.watches.iter(), kind)?.store.stamp_of(key),
        }
    }

    /// The cached object that a write would be skipped for, if its body allows that.
    pub(super) fn skipped_for(&self, call: &CallContext, kind: &ObjectKind, key: &ObjectKey) -> Option<Object> {
        let is_full = |spec: &WatchSpec| spec.kind == *kind && spec.projection == Projection::Full;
        let mut full = self.followed.iter().filter(|followed| is_full(&followed.readable.spec));
        let (Some(followed), None) = (full.next(), full.next()) else { return None };
        let object = followed.readable.store.find(key).ok()??;
        followed.skips(&object, &call.primary_key).then_some(object)
    }

    /// The only watch that may show the object, and the object's key with its namespace.
    fn only_watch_of(&self, call: &CallContext, kind: &ObjectKind, key: &ObjectKey) -> Option<(&Readable, ObjectKey)> {
        let resource = self.watches.iter().find(|watch| watch.spec.kind == *kind)?.store.resource()?;
        let mut key = key.clone();
        if resource.namespaced && key.namespace.is_none() {
            key.namespace = Some(call.primary_key.namespace.clone()?);
        }
        match self.covering_watches(kind, key.namespace.as_deref())[..] {
            [watch] => Some((watch, key)),
            _ => None,
        }
    }
}
