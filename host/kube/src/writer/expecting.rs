//! Reports to a controller's gate the effect of each write, and the caches that can show it (ADR 10). Used by `writer`.
//!
//! This module decides which caches may show an object, based on their selectors. `core::expectations` decides when a
//! cache has shown it. For deletions of collections, see `collection`.

mod collection;

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::call::ports::CallContext;
use windlass_core::object::{Object, ObjectKey, ObjectKind};
use windlass_core::write::expectations::{Cache, Effect, Shown};
use windlass_core::write::gate::{Gate, Interest};

use crate::informer::store::Store;
use crate::reader::Readable;
use crate::writer::answer::Answered;
use crate::writer::plan::{How, Plan};

pub(crate) use self::collection::CollectionInterest;

/// The caches that a controller reads, and the gate that waits for them.
#[derive(Clone)]
pub struct Expecting {
    gate: Arc<Gate>,
    /// In the gate's order.
    watches: Arc<[WatchedStore]>,
}

/// The selection of a watch.
#[derive(Debug)]
struct WatchedStore {
    spec: WatchSpec,
    store: Store,
}

impl fmt::Debug for Expecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expecting").field("watches", &self.watches).finish_non_exhaustive()
    }
}

impl Expecting {
    /// The caches of `readable`, in the form that a gate takes.
    #[must_use]
    pub fn caches(readable: &[Readable]) -> Vec<Cache> {
        let cache = |readable: &Readable| Cache {
            progress: Arc::new(readable.store.clone()),
            is_filtered: readable.spec.is_filtered(),
        };
        readable.iter().map(cache).collect()
    }

    /// Reports to `gate`, which has the caches of `readable`.
    #[must_use]
    pub fn new(gate: Arc<Gate>, readable: &[Readable]) -> Self {
        let watch = |Readable { spec, store, .. }: &Readable| WatchedStore { spec: spec.clone(), store: store.clone() };
        Self { gate, watches: readable.iter().map(watch).collect() }
    }

    /// Opens the interest in the effect of `plan`. Call this before `plan` is sent. `None` if no cache can show the
    /// effect.
    pub(crate) fn open(&self, call: &CallContext, plan: &Plan) -> Option<Interest> {
        if plan.dry_run || plan.is_unstored() {
            return None;
        }
        let watches = self.watches.iter().enumerate();
        let seeing = watches.filter(|(_, watch)| watch.may_show(&plan.resource.kind, &plan.key));
        let caches: Vec<_> = seeing.map(|(token, _)| token).collect();
        self.gate.open(&call.primary_key, &plan.key, caches)
    }

    /// The effect of `plan` according to its answer.
    pub(crate) fn effect(&self, interest: &Interest, plan: &Plan, code: u16, answered: &Answered) -> Effect {
        let kind = &plan.resource.kind;
        match answered {
            Answered::Whole(object) => {
                let shown = interest.caches().iter().map(|token| self.watches[*token].shows(kind, object));
                Effect::Left {
                    uid: object.header.uid.clone(),
                    version: object.header.version.clone(),
                    is_new: code == http::StatusCode::CREATED && plan.subresource.is_empty(),
                    shown: shown.collect(),
                }
            }
            // If the object is gone without a delete, it was terminating, and this write has removed what kept it
            // alive.
            Answered::Gone { uid, .. } => {
                Effect::Removed { uid: uid.as_deref().map(Into::into), for_good: plan.how != How::Delete }
            }
            Answered::Other(text) => self.other(interest, plan, text),
        }
    }

    /// The effect according to an answer that is not the object.
    fn other(&self, interest: &Interest, plan: &Plan, text: &str) -> Effect {
        let ObjectMeta { name, uid, resource_version } = of::<Named>(text).metadata;
        let is_named = name.as_deref() == Some(&*plan.key.name);
        let uid = uid.filter(|uid| is_named && !uid.is_empty());
        match (&*plan.subresource, uid, resource_version) {
            // A token request changes nothing in the object.
            ("token", ..) => Effect::Nothing,
            ("eviction", ..) => evicted(&plan.mutation.body),
            (_, uid, _) if plan.how == How::Delete => {
                Effect::Removed { uid: uid.as_deref().map(Into::into), for_good: false }
            }
            (_, Some(uid), Some(version)) => {
                // For a scale and the like, the object's labels are not known, so a watch with a label selector may or
                // may not show it.
                let shown = interest.caches().iter().map(|token| self.watches[*token].shows_other());
                let (uid, version) = (uid.as_str().into(), version.as_str().into());
                Effect::Left { uid, version, is_new: false, shown: shown.collect() }
            }
            _ => Effect::Unknown,
        }
    }

    /// The effect of a write whose answer was lost, but whose object was found in the resulting state.
    pub(crate) fn found(&self, interest: &Interest, plan: &Plan, object: &Object) -> Effect {
        let code = if plan.creates() { http::StatusCode::CREATED } else { http::StatusCode::OK };
        self.effect(interest, plan, code.as_u16(), &Answered::Whole(object.clone()))
    }
}

impl WatchedStore {
    /// Whether the watch may show an object of this name. The version of its kind does not matter, because it is the
    /// same object.
    fn may_show(&self, kind: &ObjectKind, key: &ObjectKey) -> bool {
        let name = self.spec.field_selector.as_ref().and_then(|selector| selector.only_name());
        self.may_show_in(kind, key.namespace.as_ref()) && name.is_none_or(|name| *name == *key.name)
    }

    /// Whether the watch may show any object of this kind and namespace.
    fn may_show_in(&self, kind: &ObjectKind, namespace: Option<&Arc<str>>) -> bool {
        let is_of_kind = self.spec.kind.kind == kind.kind && self.spec.kind.group() == kind.group();
        is_of_kind && (self.spec.namespace.is_none() || self.spec.namespace.as_ref() == namespace)
    }

    /// Whether the watch shows `object`, which was returned as `kind`.
    fn shows(&self, kind: &ObjectKind, object: &Object) -> Shown {
        if self.spec.label_selector.as_ref().is_some_and(|labels| !labels.matches(&object.header.labels)) {
            return Shown::No;
        }
        let selected = self.spec.field_selector.as_ref().map_or(Some(true), |selector| selector.admits(object));
        let admitted = self.spec.where_clause.as_ref().is_none_or(|clause| clause.admits_object(object));
        let fields_are_known = *kind == self.spec.kind;
        match (selected, admitted) {
            (Some(true), true) if fields_are_known || !self.reads_fields() => Shown::Yes,
            (Some(false), _) | (_, false) if fields_are_known => Shown::No,
            (_, false) if !self.reads_fields() => Shown::No,
            _ => Shown::Perhaps,
        }
    }

    /// Whether the watch selects by fields. In another API version, a field may be at another place.
    fn reads_fields(&self) -> bool {
        let clause = self.spec.where_clause.as_ref();
        self.spec.field_selector.is_some() || clause.is_some_and(|clause| !clause.reads_metadata_only())
    }

    /// Whether the watch shows an object of which only the UID and the version are known.
    fn shows_other(&self) -> Shown {
        if self.spec.is_filtered() { Shown::No } else { Shown::Yes }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    metadata: ObjectMeta,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ObjectMeta {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

/// The UID precondition of an eviction, and whether it is a dry run.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Eviction {
    delete_options: DeleteOptions,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct DeleteOptions {
    preconditions: Preconditions,
    dry_run: Option<Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Preconditions {
    uid: Option<String>,
}

/// The effect of a committed eviction. Its answer does not say which Pod was evicted.
fn evicted(body: &[u8]) -> Effect {
    let DeleteOptions { preconditions, dry_run } =
        std::str::from_utf8(body).map(of::<Eviction>).unwrap_or_default().delete_options;
    if dry_run.is_some_and(|dry_run| !dry_run.is_empty()) {
        return Effect::Nothing;
    }
    let uid = preconditions.uid.filter(|uid| !uid.is_empty());
    Effect::Removed { uid: uid.as_deref().map(Into::into), for_good: false }
}

/// Parses as much of `text` as possible. The rest counts as unknown, for which the key waits longest.
fn of<'a, T: Deserialize<'a> + Default>(text: &'a str) -> T {
    serde_json::from_str(text).unwrap_or_default()
}
