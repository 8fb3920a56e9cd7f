//! The mutations that a plugin may ask for; the same shapes as `wit/writes.wit`, which documents each field.

pub mod expectations;
pub mod gate;
pub mod no_op;
pub mod settle;

use std::sync::Arc;

use crate::object::{ObjectKind, ObjectRef};

/// The server's treatment of unknown and duplicate fields. `wit/writes.wit` documents each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FieldValidation {
    #[default]
    Strict,
    Warn,
    Ignore,
}

/// The format of a patch. `wit/writes.wit` documents each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    Merge,
    Json,
    Strategic,
}

/// The fate of the objects that a deleted object owns. `wit/writes.wit` documents each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// A subresource, and whose it is where the body does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// Such as `status`, `scale` or `eviction`.
    pub name: Arc<str>,
    /// None: the body names it.
    pub parent: Option<ObjectRef>,
}

/// Options of every write but delete.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// None: the object itself.
    pub subresource: Option<Subresource>,
    pub resource_version: Option<Arc<str>>,
    /// Make the primary the controller of the object.
    pub owned: bool,
    /// Apply only: take over fields that other managers own.
    pub force: bool,
    /// Have the server check everything and store nothing.
    pub dry_run: bool,
    /// How strict the server is.
    pub field_validation: FieldValidation,
    /// The end of a field manager of its own. None: the plugin's.
    pub manager_suffix: Option<Arc<str>>,
}

/// Options of a delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteOptions {
    pub resource_version: Option<Arc<str>>,
    /// The fate of owned objects.
    pub propagation: Propagation,
    /// None: the default of the kind.
    pub grace_period_seconds: Option<u32>,
    /// Have the server check everything and delete nothing.
    pub dry_run: bool,
}

/// Some objects of a kind; all conditions must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    pub kind: ObjectKind,
    /// None: the primary's, for a kind with namespaces.
    pub namespace: Option<Arc<str>>,
    /// In Kubernetes' syntax.
    pub label_selector: Option<String>,
    /// In Kubernetes' syntax.
    pub field_selector: Option<String>,
    /// All are meant, if no selector selects.
    pub all: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Create {
        /// The object's JSON text.
        object: String,
        options: WriteOptions,
    },
    Update {
        /// The object's JSON text.
        object: String,
        options: WriteOptions,
    },
    /// PATCH with a patch.
    Patch {
        /// The object to patch.
        target: ObjectRef,
        patch_type: PatchType,
        /// The patch's JSON text.
        patch: String,
        options: WriteOptions,
    },
    /// PATCH with a set of fields, server-side.
    Apply {
        /// The fields' JSON text.
        object: String,
        options: WriteOptions,
    },
    Delete {
        /// The object to delete.
        target: ObjectRef,
        options: DeleteOptions,
    },
}

impl Operation {
    /// The API verb that grants, errors and metrics name.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Update { .. } => "update",
            Self::Patch { .. } | Self::Apply { .. } => "patch",
            Self::Delete { .. } => "delete",
        }
    }

    /// The import of the guest's interface that asks for it alone.
    #[must_use]
    pub fn import(&self) -> &'static str {
        match self {
            Self::Create { .. } => "writes.create",
            Self::Update { .. } => "writes.update",
            Self::Patch { .. } => "writes.patch",
            Self::Apply { .. } => "writes.apply",
            Self::Delete { .. } => "writes.delete",
        }
    }

    /// The same as a dry run, and whether it was none before.
    #[must_use]
    pub fn into_dry_run(mut self) -> (Self, bool) {
        let dry_run = match &mut self {
            Self::Create { options, .. }
            | Self::Update { options, .. }
            | Self::Patch { options, .. }
            | Self::Apply { options, .. } => &mut options.dry_run,
            Self::Delete { options, .. } => &mut options.dry_run,
        };
        let was_none = !std::mem::replace(dry_run, true);
        (self, was_none)
    }

    /// The length of its body.
    #[must_use]
    pub fn body_bytes(&self) -> usize {
        match self {
            Self::Create { object, .. } | Self::Update { object, .. } | Self::Apply { object, .. } => object.len(),
            Self::Patch { patch, .. } => patch.len(),
            Self::Delete { .. } => 0,
        }
    }
}
