//! Decides for composite plugins what is applied, replaced and pruned: from what the plugin composed, and what is there
//! (ADR 9).
//!
//! Every decision is a value: [`Wanted`] is an answer that has been checked, [`ChildStep`] what is to be done about one
//! of its children, [`Pruning`] what goes afterwards. The host's `composite` carries them out.

mod observed;
mod prune;
mod step;
mod wanted;

use std::sync::Arc;
use std::time::Duration;

use crate::call::ports::Event;
use crate::object::{ObjectKey, ObjectKind, ObjectRef};

pub use observed::{ObservedChildren, UnreadableChild};
pub use prune::{Doomed, Pruning, Withheld, prune};
pub use step::{Applied, ChildChange, ChildStep, change, refused, step};
pub use wanted::{Child, Flaw, MAX_CHILDREN, Wanted};

/// The label of every object that a composite plugin's host has created, with the plugin's name: without it nothing is
/// pruned, so an object that was adopted is not. Whoever takes it off a child keeps the child.
pub const CREATED_BY: &str = "windlass.dev/created-by";

/// A composer's answer, unchecked; as `composer.composition` in WIT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Composition {
    /// Every child that should exist, each as the JSON text of a set of fields to apply.
    pub children: Vec<String>,
    /// The parent's new status, a JSON text. None: it stays as it is.
    pub status: Option<String>,
    /// The Kubernetes Events to send.
    pub events: Vec<Event>,
    /// When to ask again.
    pub requeue_after: Option<Duration>,
    /// No children at all is meant.
    pub allow_empty: bool,
    /// The parent, which is being deleted, may go.
    pub finalized: bool,
}

/// How children of a kind change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UpdateStrategy {
    #[default]
    InPlace,
    /// By deleting them and, once they have gone, creating them anew; what is metadata only is applied.
    Recreate,
    /// Not at all: somebody else deletes them, and they are created anew.
    OnDelete,
}

/// For whom is composed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositeParent {
    /// The plugin's name, which the mark of its children holds.
    pub plugin: Arc<str>,
    pub kind: ObjectKind,
    pub key: ObjectKey,
    pub uid: Arc<str>,
}

/// A kind of children, as the manifest declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedKind {
    pub kind: ObjectKind,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Where children are watched. None: everywhere.
    pub namespaces: Option<Vec<Arc<str>>>,
    pub strategy: UpdateStrategy,
}

impl CompositeParent {
    /// Whether it controls `observed`.
    fn controls(&self, observed: &ObservedChildren) -> bool {
        observed.controller.as_deref() == Some(&*self.uid)
    }

    /// Whether `observed` was created, not adopted, in its name.
    fn created(&self, observed: &ObservedChildren) -> bool {
        self.controls(observed) && observed.created_by.as_deref() == Some(&*self.plugin)
    }
}

fn reference(kind: &ObjectKind, key: &ObjectKey) -> ObjectRef {
    ObjectRef { kind: kind.clone(), key: key.clone(), uid: None }
}
