//! The mutations that a plugin may request, in the same shapes as `wit/writes.wit`, which documents each field.

pub mod expectations;
pub mod gate;
pub mod no_op;
pub mod settle;

use std::sync::Arc;

use crate::object::{ObjectKind, ObjectRef};

/// How the server treats unknown and duplicate fields. `wit/writes.wit` documents each case.
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

/// A subresource, and its parent if the body does not name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// The subresource's name, such as `status`, `scale` or `eviction`.
    pub name: Arc<str>,
    /// `None` if the body names the parent.
    pub parent: Option<ObjectRef>,
}

/// Options of every write except delete.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// `None` for the object itself.
    pub subresource: Option<Subresource>,
    pub resource_version: Option<Arc<str>>,
    /// Make the primary the controller of the object.
    pub owned: bool,
    /// Apply only: take over fields that other managers own.
    pub force: bool,
    /// Have the server validate the request and store nothing.
    pub dry_run: bool,
    pub field_validation: FieldValidation,
    /// The suffix of a field manager for this write. `None` to use the plugin's own manager.
    pub manager_suffix: Option<Arc<str>>,
    /// The pointers to the parts of the object that the plugin wants as the answer, in addition to the fields that
    /// identify the object. Ports answer with whole objects, and the host returns only these parts to the plugin.
    /// `None` for the whole object.
    pub fields: Option<Vec<String>>,
}

/// Options of a delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteOptions {
    pub resource_version: Option<Arc<str>>,
    pub propagation: Propagation,
    /// `None` for the kind's default.
    pub grace_period_seconds: Option<u32>,
    /// Have the server validate the request and delete nothing.
    pub dry_run: bool,
}

/// The objects of a kind that match all conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    pub kind: ObjectKind,
    /// `None` for the primary's namespace, if the kind is namespaced.
    pub namespace: Option<Arc<str>>,
    /// In Kubernetes' syntax.
    pub label_selector: Option<String>,
    /// In Kubernetes' syntax.
    pub field_selector: Option<String>,
    /// Confirms that all objects are meant. Required if there is no selector.
    pub all: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Create {
        object: String,
        options: WriteOptions,
    },
    Update {
        object: String,
        options: WriteOptions,
    },
    Patch {
        target: ObjectRef,
        patch_type: PatchType,
        patch: String,
        options: WriteOptions,
    },
    /// PATCH with a set of fields, applied on the server.
    Apply {
        object: String,
        options: WriteOptions,
    },
    Delete {
        target: ObjectRef,
        options: DeleteOptions,
    },
}

impl Operation {
    /// The API verb that grants, errors and metrics use.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Update { .. } => "update",
            Self::Patch { .. } | Self::Apply { .. } => "patch",
            Self::Delete { .. } => "delete",
        }
    }

    /// The WIT import that requests only this kind of write.
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

    /// Turns the write into a dry run. Also returns whether it was a real write before.
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

    /// The options of every write except delete.
    #[must_use]
    pub fn options(&self) -> Option<&WriteOptions> {
        match self {
            Self::Create { options, .. }
            | Self::Update { options, .. }
            | Self::Patch { options, .. }
            | Self::Apply { options, .. } => Some(options),
            Self::Delete { .. } => None,
        }
    }

    /// The same write, but its answer is the whole object.
    #[must_use]
    pub fn with_whole_answer(mut self) -> Self {
        if let Self::Create { options, .. }
        | Self::Update { options, .. }
        | Self::Patch { options, .. }
        | Self::Apply { options, .. } = &mut self
        {
            options.fields = None;
        }
        self
    }

    /// The length of the body.
    #[must_use]
    pub fn body_bytes(&self) -> usize {
        match self {
            Self::Create { object, .. } | Self::Update { object, .. } | Self::Apply { object, .. } => object.len(),
            Self::Patch { patch, .. } => patch.len(),
            Self::Delete { .. } => 0,
        }
    }
}
