//! Decides which writes need not be sent (ADR 5). A write that would change nothing is skipped only if its object is in
//! a watch. If the watch turns out to be outdated, its next event runs the same key again. `core::no_op` decides
//! whether a write would change anything. Also finds the state before a write in the controller's caches.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use windlass_core::cache::overlay::WrittenState;
use windlass_core::cache::watch::Projection;
use windlass_core::call::ports::CallContext;
use windlass_core::call::read_tracker::Spoiler;
use windlass_core::defect::Defect;
use windlass_core::object::{Object, ObjectKey, ObjectKind};
use windlass_core::write::PatchType;
use windlass_core::write::no_op::{self, Atomic, Manager, SkipView};

use crate::offload::READ_IN_PLACE_BYTES_MAX;
use crate::reader::followed::Followed;
use crate::reader::overlaid::newer;
use crate::reader::stamps::only_full;
use crate::writer::plan::{How, Plan};

/// The maximum number of kinds for which atomic fields are remembered.
const LEARNED_KINDS_MAX: usize = 256;
/// The maximum number of applies per kind that wait to be learned from. Most objects of a kind have the same fields.
const WAITING_LESSONS_PER_KIND_MAX: usize = 4;

/// The state of an object before a write of the call.
#[derive(Clone, Debug)]
pub(crate) enum StateBefore {
    /// The state is not known.
    Unknown,
    /// The object did not exist.
    Absent,
    /// The object was in this state.
    State(Object),
}

/// Whether `plan`, an apply, an update or a merge patch, would provably leave `object` unchanged. `known` lists the
/// atomic fields of its kind that are known.
pub(crate) fn changes_nothing(plan: &Plan, object: &Object, known: &Atomic) -> bool {
    let Ok(body) = std::str::from_utf8(&plan.mutation.body) else { return false };
    match plan.how {
        How::Apply if Defect::RemovedFieldIsKept.is_seeded() => no_op::merge_changes_nothing(body, object),
        How::Apply => {
            let manager = Manager { name: &plan.manager, subresource: &plan.subresource };
            no_op::apply_changes_nothing(body, manager, object, known)
        }
        How::Update => no_op::update_changes_nothing(body, object),
        How::Patch(PatchType::Merge) => no_op::merge_changes_nothing(body, object),
        How::Create | How::Delete | How::Patch(PatchType::Json | PatchType::Strategic) => false,
    }
}

/// The part of `object` from which it follows that `plan` is skipped, and which is its answer.
fn view_of(plan: &Plan, object: &Object, fields: Option<&[String]>) -> Option<SkipView> {
    let body = std::str::from_utf8(&plan.mutation.body).ok()?;
    match plan.how {
        How::Apply => {
            let manager = Manager { name: &plan.manager, subresource: &plan.subresource };
            SkipView::of_apply(body, manager, object, fields)
        }
        How::Patch(PatchType::Merge) => SkipView::of_merge(body, fields),
        // An update is compared with everything.
        _ => None,
    }
}

/// Decides which writes of one controller change nothing.
#[derive(Debug)]
pub(crate) struct Skips {
    /// The watches that keep objects whole.
    followed: Vec<Followed>,
    learned: Mutex<HashMap<ObjectKind, Arc<Learned>>>,
}

/// The known atomic fields of one kind.
#[derive(Debug, Default)]
struct Learned {
    /// Shared with concurrent decisions.
    atomic: Mutex<Arc<Atomic>>,
    /// The last applies, from which nothing has been learned yet. Learning is deferred until it is needed, because most
    /// applies create objects.
    lessons: Mutex<VecDeque<Lesson>>,
}

/// An apply of the plugin itself, and the resulting object.
#[derive(Debug)]
struct Lesson {
    manager: String,
    subresource: Arc<str>,
    body: Bytes,
    left: Object,
}

impl Learned {
    /// All known atomic fields, including those in the lessons.
    fn atomic(&self) -> Arc<Atomic> {
        let lessons = std::mem::take(&mut *locked(&self.lessons));
        if !lessons.is_empty() {
            self.learn(lessons);
        }
        locked(&self.atomic).clone()
    }

    /// Learns before it takes the lock, because parsing `lessons` takes up to milliseconds. A concurrent decision knows
    /// less, which only costs a request.
    fn learn(&self, lessons: impl IntoIterator<Item = Lesson>) {
        let mut learned = Atomic::default();
        for lesson in lessons {
            lesson.teach(&mut learned);
        }
        Arc::make_mut(&mut locked(&self.atomic)).merge(learned);
    }

    /// Keeps `lesson` for later. If there are many lessons, it replaces the oldest.
    fn keep(&self, lesson: Lesson) {
        let mut lessons = locked(&self.lessons);
        if lessons.len() == WAITING_LESSONS_PER_KIND_MAX {
            lessons.pop_front();
        }
        lessons.push_back(lesson);
    }
}

impl Lesson {
    fn teach(self, atomic: &mut Atomic) {
        if let Ok(body) = std::str::from_utf8(&self.body) {
            let manager = Manager { name: &self.manager, subresource: &self.subresource };
            atomic.learn(body, manager, &self.left);
        }
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Skips {
    pub(crate) fn new(mut followed: Vec<Followed>) -> Self {
        followed.retain(|followed| followed.readable.spec.projection == Projection::Full);
        Self { followed, learned: Mutex::default() }
    }

    /// The object that `plan` may leave unchanged, as this call knows it.
    pub(crate) fn candidate(&self, call: &CallContext, plan: &Plan) -> Option<Object> {
        if (plan.dry_run && !plan.withheld) || !matches!(&*plan.subresource, "" | "status") {
            return None;
        }
        match plan.how {
            How::Apply | How::Update | How::Patch(PatchType::Merge) => self.present(call, plan),
            How::Create | How::Delete | How::Patch(PatchType::Json | PatchType::Strategic) => None,
        }
    }

    /// Notes that `plan` is skipped because of its candidate `object`, and answered with these fields of it. While the
    /// part of the object that this follows from stays as it is, the call need not be made again.
    pub(crate) fn note(&self, call: &CallContext, plan: &Plan, object: &Object, fields: Option<&[String]>) {
        if !call.reads.is_on() {
            return;
        }
        let kind = &plan.resource.kind;
        let is_only = only_full(self.followed.iter().map(|followed| &followed.readable), kind).is_some();
        let mut of_kind = self.followed.iter().filter(|followed| followed.readable.spec.kind == *kind);
        if is_only && of_kind.all(|followed| followed.maps_by_object) {
            call.reads.skipped(kind.clone(), plan.key.clone(), object, view_of(plan, object, fields));
        } else {
            call.reads.spoil(Spoiler::UnfollowedSkip);
        }
    }

    /// Whether `plan` would provably leave its candidate `object` unchanged.
    pub(crate) fn is_unchanged(&self, plan: &Plan, object: &Object) -> bool {
        // Only applies use them.
        let known = if plan.how == How::Apply { self.known(&plan.resource.kind) } else { Arc::default() };
        changes_nothing(plan, object, &known)
    }

    /// The known atomic fields of a kind.
    pub(crate) fn known(&self, kind: &ObjectKind) -> Arc<Atomic> {
        let learned = locked(&self.learned).get(kind).cloned();
        learned.map(|learned| learned.atomic()).unwrap_or_default()
    }

    /// The state of the object before `plan`, as this call knows it, whether or not its changes run the key.
    pub(crate) fn before(&self, call: &CallContext, plan: &Plan) -> StateBefore {
        if let Some((_, object)) = self.latest(call, plan, |_, _| true) {
            return StateBefore::State(object);
        }
        let shows_all = |followed: &Followed| {
            let spec = &followed.readable.spec;
            let is_near = spec.namespace.is_none() || spec.namespace == plan.key.namespace;
            spec.kind == plan.resource.kind && is_near && !spec.is_filtered()
        };
        let lacks = |followed: &Followed| followed.readable.store.find(&plan.key) == Ok(None);
        let is_absent = self.followed.iter().any(|followed| shows_all(followed) && lacks(followed));
        let is_unwritten = call.overlay.get(&plan.resource.kind, &plan.key).is_none();
        if is_absent && is_unwritten { StateBefore::Absent } else { StateBefore::Unknown }
    }

    /// The object in a cache at `version`, or at any version if that is `None`.
    pub(crate) fn cached(&self, kind: &ObjectKind, key: &ObjectKey, version: Option<&str>) -> Option<Object> {
        let followed = self.followed.iter().filter(|followed| followed.readable.spec.kind == *kind);
        let mut cached = followed.filter_map(|followed| followed.readable.store.get(key));
        cached.find(|cached| version.is_none_or(|version| cached.header.version.to_string() == version))
    }

    /// The object as this call knows it, if a change by another client would run the call's key again.
    fn present(&self, call: &CallContext, plan: &Plan) -> Option<Object> {
        let runs = |followed: &Followed, object: &Object| {
            followed.runs.as_ref().is_some_and(|runs| runs(object, &call.primary_key))
        };
        let (followed, object) = self.latest(call, plan, runs)?;
        followed.skips(&object, &call.primary_key).then_some(object)
    }

    /// The latest state of the object, from this call's own writes and from the caches that `admits` accepts with their
    /// state. Also returns the cache that was used.
    fn latest(
        &self,
        call: &CallContext,
        plan: &Plan,
        admits: impl Fn(&Followed, &Object) -> bool,
    ) -> Option<(&Followed, Object)> {
        let (kind, key) = (&plan.resource.kind, &plan.key);
        let followed = self.followed.iter().filter(|followed| followed.readable.spec.kind == *kind);
        let cached = followed.filter_map(|followed| {
            let cached = followed.readable.store.get(key)?;
            admits(followed, &cached).then_some((followed, cached))
        });
        let (followed, cached) = cached.reduce(|a, b| {
            let is_comparable = a.0.readable.store.is_comparable();
            if newer(a.1.clone(), b.1.clone(), is_comparable) == a.1 { a } else { b }
        })?;
        let object = match call.overlay.get(kind, key) {
            None => cached,
            Some(known) if known.in_doubt => return None,
            Some(known) => match known.left {
                Some(WrittenState::State(of, own)) if of == *kind && own.header.uid == cached.header.uid => {
                    newer(own, cached, followed.readable.store.is_comparable())
                }
                _ => return None,
            },
        };
        Some((followed, object))
    }

    /// Remembers the result of an apply. Usually the result is kept, and the host learns from it when needed. The host
    /// learns at once from a large object, on the thread that parses large answers anyway, and from an object of a kind
    /// without a watch that allows skipping.
    pub(crate) fn learn(&self, plan: &Plan, left: &Object) {
        if plan.how != How::Apply || plan.dry_run {
            return;
        }
        let kind = &plan.resource.kind;
        let learned = {
            let mut learned = locked(&self.learned);
            if learned.len() >= LEARNED_KINDS_MAX && !learned.contains_key(kind) {
                return;
            }
            learned.entry(kind.clone()).or_default().clone()
        };
        let (subresource, body) = (plan.subresource.clone(), plan.mutation.body.clone());
        let lesson = Lesson { manager: plan.manager.clone(), subresource, body, left: left.clone() };
        let is_small = lesson.body.len() + left.whole_footprint() <= READ_IN_PLACE_BYTES_MAX;
        let asks = |followed: &Followed| followed.readable.spec.kind == *kind && followed.runs.is_some();
        if is_small && self.followed.iter().any(asks) {
            learned.keep(lesson);
        } else {
            learned.learn([lesson]);
        }
    }
}
