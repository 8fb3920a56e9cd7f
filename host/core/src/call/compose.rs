//! Decides for composite plugins what to apply, replace and prune, from what the plugin composed and what exists (ADR
//! 9).
//!
//! Every decision is a value: [`Wanted`] is a checked answer, [`ChildStep`] the step for one child, and [`Pruning`]
//! the children to delete afterwards. The host's `composite` carries the decisions out.

mod observed;
mod prune;
mod step;
mod wanted;

use std::sync::Arc;

use serde::Deserialize;

use crate::call::ports::Event;
use crate::object::{ObjectKey, ObjectKind, ObjectRef};
use crate::queue::outcome::Requeue;

pub use observed::{ObservedChildren, UnreadableChild};
pub use prune::{Doomed, Pruning, Withheld, prune};
pub use step::{Applied, ChildChange, ChildStep, change, refused, step};
pub use wanted::{CHILDREN_MAX, Child, Flaw, Wanted};

/// The label of every object that the host created for a composite plugin, with the plugin's name. Objects without it
/// are never pruned, so adopted objects stay. Removing the label from a child keeps the child.
pub const CREATED_BY: &str = "windlass.dev/created-by";

/// A composer's answer, unchecked; as `composer.composition` in WIT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Composition {
    /// Every child that should exist, each as JSON text to apply.
    pub children: Vec<String>,
    /// The parent's new status as JSON text. `None` leaves it as it is.
    pub status: Option<String>,
    /// The Kubernetes Events to send.
    pub events: Vec<Event>,
    /// When to compose again. `None` means only after a change.
    pub requeue: Option<Requeue>,
    /// Whether an answer without any children is intended.
    pub allow_empty: bool,
    /// Whether the parent, which is being deleted, may now be removed.
    pub finalized: bool,
}

/// How children of a kind change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UpdateStrategy {
    #[default]
    InPlace,
    /// Delete the child and, once it is gone, create it again. Changes to metadata only are applied in place.
    Recreate,
    /// Never change the child. It is created again after a person or another controller has deleted it.
    OnDelete,
}

/// The parent for which children are composed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompositeParent {
    /// The plugin's name, the value of [`CREATED_BY`] on its children.
    pub plugin: Arc<str>,
    pub kind: ObjectKind,
    pub key: ObjectKey,
    pub uid: Arc<str>,
}

/// A kind of child that the manifest declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedKind {
    pub kind: ObjectKind,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// The namespaces in which children are watched. `None` means all.
    pub namespaces: Option<Vec<Arc<str>>>,
    pub strategy: UpdateStrategy,
}

impl CompositeParent {
    /// Whether this parent is the controller of `observed`.
    fn controls(&self, observed: &ObservedChildren) -> bool {
        observed.controller.as_deref() == Some(&*self.uid)
    }

    /// Whether `observed` was created for this plugin, not adopted.
    fn created(&self, observed: &ObservedChildren) -> bool {
        self.controls(observed) && observed.created_by.as_deref() == Some(&*self.plugin)
    }
}

fn reference(kind: &ObjectKind, key: &ObjectKey) -> ObjectRef {
    ObjectRef { kind: kind.clone(), key: key.clone(), uid: None }
}
