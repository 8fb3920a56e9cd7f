//! The states of caches that answers come from. While they stay the same, a call need not be made again (ADR 46).

use windlass_core::cache::watch::{Projection, WatchSpec};
use windlass_core::call::ports::CallContext;
use windlass_core::call::read_set::ReadQuestion;
use windlass_core::object::progress::Stamp;
use windlass_core::object::{Object, ObjectKey, ObjectKind};

use super::{Readable, Reader};
use crate::informer::store::StoreScope;

/// When the only one of `watches` last changed, if the call notes its reads. `None` for several watches: which of them
/// an answer comes from depends on all of them. Called before the read, so that the read shows this state or a later
/// one.
pub(super) fn changed(call: &CallContext, watches: &[&Readable]) -> Option<Stamp> {
    match watches {
        [watch] if call.reads.is_on() => watch.store.changed(),
        _ => None,
    }
}

/// Notes the state of an answer: of the object `found`, or else the watch's at `changed`.
pub(super) fn note(call: &CallContext, found: Option<&Object>, changed: Option<Stamp>) {
    if let Some(changed) = changed {
        call.reads.answers_from(found.map_or(changed, Object::stamp));
    }
    call.reads.takes(found.map_or(0, Object::whole_footprint));
}

/// Notes what it takes to list the objects of `scope` again, after the call has looked at so many `bytes`. Without an
/// index, all objects would be looked at, so such a list is never read again.
pub(super) fn note_list(call: &CallContext, scope: &StoreScope<'_>, bytes: usize) {
    call.reads.takes(match scope {
        StoreScope::Owned(_) | StoreScope::Index(..) => bytes,
        StoreScope::All | StoreScope::Namespace(_) => usize::MAX,
    });
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
                [watch] => watch.store.changed(),
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
