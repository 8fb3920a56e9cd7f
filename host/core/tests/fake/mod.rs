//! A cache that a test fills.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use windlass_core::object::compact::Version;
use windlass_core::object::labels::Labels;
use windlass_core::object::progress::{Advance, Observer, Progress, Stamp};
use windlass_core::object::{Header, Object, ObjectKey};

/// An object that has only a header.
pub(crate) fn object(name: &str, uid: &str, version: &str) -> Object {
    state(name, uid, version, &[], false)
}

/// As [`object`], terminating.
pub(crate) fn terminating(name: &str, uid: &str, version: &str) -> Object {
    state(name, uid, version, &[], true)
}

pub(crate) fn state(name: &str, uid: &str, version: &str, labels: &[(&str, &str)], deleting: bool) -> Object {
    let labels: Labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let header = Header { labels, deleting, ..Header::bare(key(name), uid, version) };
    Object::new(header, "{}")
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("prod", name)
}

/// The progress of a watch, controlled by a test.
pub(crate) struct FakeCache {
    shown: Mutex<Shown>,
    observers: Mutex<Vec<(usize, Weak<dyn Observer>)>>,
}

#[derive(Default)]
struct Shown {
    is_comparable: bool,
    version: Option<Version>,
    epoch: u64,
    listed: Option<Stamp>,
    objects: BTreeMap<ObjectKey, Object>,
}

impl FakeCache {
    /// A cache that has received an empty list at version 1.
    pub(crate) fn new(is_comparable: bool) -> Arc<Self> {
        let (version, listed) = (Some("1".into()), Some(Stamp::take()));
        let shown = Shown { is_comparable, version, listed, ..Shown::default() };
        Arc::new(Self { shown: Mutex::new(shown), observers: Mutex::default() })
    }

    fn change(&self, change: impl FnOnce(&mut Shown)) {
        change(&mut self.shown.lock().expect("not poisoned"));
    }

    fn read<R>(&self, read: impl FnOnce(&Shown) -> R) -> R {
        read(&self.shown.lock().expect("not poisoned"))
    }

    fn tell(&self, advance: Advance<'_>) {
        let observers = self.observers.lock().expect("not poisoned").clone();
        for (token, observer) in observers {
            if let Some(observer) = observer.upgrade() {
                observer.advanced(token, advance);
            }
        }
    }

    /// Applies an event of the watch.
    pub(crate) fn event(&self, object: &Object, gone: bool) {
        let header = object.header.clone();
        self.change(|shown| {
            let (key, value) = (header.key.clone(), object.clone());
            if gone {
                shown.objects.remove(&key)
            } else {
                shown.objects.insert(key, value)
            };
            shown.version = Some(header.version.clone());
        });
        self.tell(Advance::Object { object, gone });
        self.tell(Advance::Version(&object.header.version));
    }

    pub(crate) fn applied(&self, object: &Object) {
        self.event(object, false);
    }

    pub(crate) fn deleted(&self, object: &Object) {
        self.event(object, true);
    }

    pub(crate) fn bookmark(&self, version: &str) {
        self.change(|shown| shown.version = Some(version.into()));
        self.tell(Advance::Version(&version.into()));
    }

    /// Applies a list that began at `began`.
    pub(crate) fn list(&self, began: Stamp, version: &str, objects: impl IntoIterator<Item = Object>) {
        self.change(|shown| {
            shown.objects = objects.into_iter().map(|object| (object.header.key.clone(), object)).collect();
            (shown.version, shown.listed) = (Some(version.into()), Some(began));
        });
        self.tell(Advance::Listed);
    }

    /// Applies a list of a new epoch.
    pub(crate) fn list_anew(&self, began: Stamp, version: &str, objects: impl IntoIterator<Item = Object>) {
        self.change(|shown| shown.epoch += 1);
        self.list(began, version, objects);
    }

    pub(crate) fn lose(&self) {
        self.tell(Advance::Lost);
    }
}

impl Progress for FakeCache {
    fn version(&self) -> Option<Version> {
        self.read(|shown| shown.version.clone())
    }

    fn is_comparable(&self) -> bool {
        self.read(|shown| shown.is_comparable)
    }

    fn epoch(&self) -> u64 {
        self.read(|shown| shown.epoch)
    }

    fn listed(&self) -> Option<Stamp> {
        self.read(|shown| shown.listed)
    }

    fn get(&self, key: &ObjectKey) -> Option<Object> {
        self.read(|shown| shown.objects.get(key).cloned())
    }

    fn observe(&self, token: usize, observer: Weak<dyn Observer>) {
        self.observers.lock().expect("not poisoned").push((token, observer));
    }
}
