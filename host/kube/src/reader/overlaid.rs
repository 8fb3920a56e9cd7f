//! The caches as a call sees them: overlaid with the objects that its own writes returned. Used by `reader`.
//!
//! A watch that has caught up with a write shows the object itself. Until then, the object appears as the watch would
//! show it, with its projection and selectors applied. If that cannot be determined, the object appears as if no watch
//! showed it, and never in its stale state. This is the case if the object was written in another version of its kind,
//! if it was too large to keep, or if only the server can evaluate the watch's field selector.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use windlass_core::cache::overlay::{Known, WrittenState};
use windlass_core::cache::watch::WatchSpec;
use windlass_core::call::ports::CallContext;
use windlass_core::object::compact::Version;
use windlass_core::object::{Object, ObjectKey, ObjectKind};

use crate::informer::projector::Projector;
use crate::informer::store::NotSynced;
use crate::reader::Readable;

/// Objects that the call has written, as `watches` together show them. `None` for an object that they do not show.
pub(crate) type Own = BTreeMap<ObjectKey, Option<Object>>;

/// The object `key` as `watches` together show it.
pub(crate) fn get(
    watches: &[&Readable],
    call: &CallContext,
    kind: &ObjectKind,
    key: &ObjectKey,
) -> Result<Option<Object>, NotSynced> {
    shown(watches, key, call.overlay.get(kind, key).as_ref())
}

/// All objects of `kind` that the call has written.
pub(crate) fn own(watches: &[&Readable], call: &CallContext, kind: &ObjectKind) -> Result<Own, NotSynced> {
    let written = call.overlay.of_kind(kind).into_iter();
    let with_state = written.filter(|(_, known)| known.left.is_some());
    with_state.map(|(key, known)| Ok((key.clone(), shown(watches, &key, Some(&known))?))).collect()
}

/// The later of two states of an object that several watches show; `a` if versions cannot be compared.
pub(crate) fn newer(a: Object, b: Object, is_comparable: bool) -> Object {
    match a.header.version.compare(&b.header.version) {
        Some(Ordering::Less) if is_comparable => b,
        _ => a,
    }
}

fn shown(watches: &[&Readable], key: &ObjectKey, known: Option<&Known>) -> Result<Option<Object>, NotSynced> {
    let shown: Result<Vec<_>, _> = watches.iter().map(|watch| shown_by(watch, key, known)).collect();
    let is_comparable = watches.iter().all(|watch| watch.store.is_comparable());
    Ok(shown?.into_iter().flatten().reduce(|a, b| newer(a, b, is_comparable)))
}

fn shown_by(watch: &Readable, key: &ObjectKey, known: Option<&Known>) -> Result<Option<Object>, NotSynced> {
    let is_dry_run = known.is_some_and(|known| known.is_dry_run);
    if let Some(Known { left: Some(left), is_fixed: true, .. }) = known {
        let shows = |kind: &ObjectKind| *kind == watch.spec.kind;
        return Ok(match left {
            WrittenState::State(kind, object) if shows(kind) => would_show(&watch.spec, object),
            WrittenState::State(..) | WrittenState::Unkept(_) | WrittenState::Nothing(_) => None,
        });
    }
    Ok(match known.and_then(|known| known.left.as_ref()) {
        None => watch.store.find(key)?,
        // UIDs do not show which of two objects of one name is the later one.
        Some(WrittenState::Nothing(_)) => None,
        Some(WrittenState::Unkept(version)) => match cached(watch, key, version, is_dry_run)? {
            Cached::New(cached) => cached,
            Cached::Stale => None,
        },
        Some(WrittenState::State(kind, object)) => match cached(watch, key, &object.header.version, is_dry_run)? {
            Cached::New(cached) => cached,
            Cached::Stale if *kind == watch.spec.kind => would_show(&watch.spec, object),
            Cached::Stale => None,
        },
    })
}

/// A store's state of an object that the call has written.
enum Cached {
    /// The store has caught up with the write. `None` if it has no such object now.
    New(Option<Object>),
    /// The store has a state from before the write, or does not have the object.
    Stale,
}

/// Compares the store's state of the object with `version`, the version after a write. A dry run
/// answers with the version on which it was based, so the store is past it only if its own version is later.
fn cached(watch: &Readable, key: &ObjectKey, version: &Version, is_dry_run: bool) -> Result<Cached, NotSynced> {
    // If versions cannot be ordered, only an exact match is known to be this write.
    let order = |other: &Version| other.compare(version).filter(|_| watch.store.is_comparable());
    let reaches = |other: &Version| {
        if is_dry_run {
            order(other).is_some_and(Ordering::is_gt)
        } else {
            order(other).map_or(other == version, Ordering::is_ge)
        }
    };
    // Checked before the object is read. In the other order, both reads might miss a change in between.
    let is_past = !is_dry_run && watch.store.version().is_some_and(|applied| reaches(&applied));
    let object = watch.store.find(key)?;
    Ok(if is_past || object.as_ref().is_some_and(|object| reaches(&object.header.version)) {
        Cached::New(object)
    } else {
        Cached::Stale
    })
}

/// The part of `object` that a watch of `spec` keeps. `None` if the watch does not show the object, or if only the
/// server knows whether it does.
fn would_show(spec: &WatchSpec, object: &Object) -> Option<Object> {
    let header = &object.header;
    let is_near = spec.namespace.is_none() || spec.namespace == header.key.namespace;
    let is_selected = is_near
        && spec.label_selector.as_ref().is_none_or(|selector| selector.matches(&header.labels))
        && spec.field_selector.as_ref().is_none_or(|selector| selector.admits(object) == Some(true))
        && spec.where_clause.as_ref().is_none_or(|clause| clause.admits_object(object));
    if !is_selected {
        return None;
    }
    let Some(projector) = Projector::of(&spec.projection).ok()? else { return Some(object.clone()) };
    let text = projector.project(&object.glance()).ok()?;
    Some(Object::new(header.clone(), text))
}

#[cfg(test)]
mod tests;
