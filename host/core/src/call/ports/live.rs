//! Reads from the API server itself; the same shapes as `wit/live.wit`.

use std::sync::Arc;

use crate::object::{ObjectKind, ObjectRef};

/// The part of an object that is returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum View {
    #[default]
    Whole,
    /// Its `apiVersion`, `kind` and `metadata`.
    Metadata,
    /// The values at these JSON pointers, beside what identifies it.
    Fields(Vec<String>),
}

/// A read of one object, or of a subresource of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveGet {
    pub target: ObjectRef,
    /// Such as `scale`. None: the object itself.
    pub subresource: Option<Arc<str>>,
    /// The part of it that is returned.
    pub view: View,
}

impl LiveGet {
    /// A read of all of `target`.
    #[must_use]
    pub fn whole(target: ObjectRef) -> Self {
        Self { target, subresource: None, view: View::Whole }
    }
}

/// Conditions of a list from the API server; all must hold. As `live.list-query` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveQuery {
    pub kind: ObjectKind,
    /// None: all namespaces.
    pub namespace: Option<Arc<str>>,
    /// In Kubernetes' syntax.
    pub label_selector: Option<String>,
    /// In Kubernetes' syntax.
    pub field_selector: Option<String>,
    /// The part of each object that is returned.
    pub view: View,
    /// How many objects a page may hold, at least 1.
    pub limit: u32,
    /// Where the page before ended.
    pub page_token: Option<String>,
}

/// A part of the log of a Pod's container. As `live.log-query` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogQuery {
    pub target: ObjectRef,
    /// None: the only one.
    pub container: Option<String>,
    /// The log of the container before, which has ended.
    pub previous: bool,
    /// Only so many of the last lines.
    pub tail_lines: Option<u32>,
    /// Only what is no older.
    pub since_seconds: Option<u32>,
    /// How many bytes are read.
    pub limit_bytes: u32,
}

/// How the API server serves a kind. As `live.served-kind` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKind {
    pub resource: String,
    /// Its objects are in namespaces.
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub subresources: Vec<String>,
}
