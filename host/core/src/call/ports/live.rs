//! Reads from the API server itself. `wit/live.wit` documents each field.

use std::sync::Arc;

use crate::object::{ObjectKind, ObjectRef};

/// Which part of an object to return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum View {
    #[default]
    Whole,
    /// Its `apiVersion`, `kind` and `metadata`.
    Metadata,
    /// The values at these JSON pointers, and the fields that identify the object.
    Fields(Vec<String>),
}

/// A read of one object or of one of its subresources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveGet {
    pub target: ObjectRef,
    /// The subresource, such as `scale`. `None` means the object itself.
    pub subresource: Option<Arc<str>>,
    /// Which part to return.
    pub view: View,
}

impl LiveGet {
    /// A read of the whole of `target`.
    #[must_use]
    pub fn whole(target: ObjectRef) -> Self {
        Self { target, subresource: None, view: View::Whole }
    }
}

/// Conditions of a list from the API server; all must hold. As `live.list-query` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveQuery {
    pub kind: ObjectKind,
    /// `None` means all namespaces.
    pub namespace: Option<Arc<str>>,
    /// In Kubernetes' syntax.
    pub label_selector: Option<String>,
    /// In Kubernetes' syntax.
    pub field_selector: Option<String>,
    /// Which part of each object to return.
    pub view: View,
    /// How many objects a page may hold, at least 1.
    pub limit: u32,
    /// Where the previous page ended.
    pub page_token: Option<String>,
}

/// A read of the log of a Pod's container. As `live.log-query` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogQuery {
    pub target: ObjectRef,
    /// `None` means the only container.
    pub container: Option<String>,
    /// Whether to read the log of the previous, terminated container.
    pub previous: bool,
    /// The maximum number of lines, counted from the end.
    pub tail_lines: Option<u32>,
    /// Only lines that are at most this many seconds old.
    pub since_seconds: Option<u32>,
    /// At most this many bytes are read.
    pub limit_bytes: u32,
}

/// How the API server serves a kind. As `live.served-kind` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKind {
    pub resource: String,
    /// Whether objects of the kind are in namespaces.
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub subresources: Vec<String>,
}

/// A kind that the API server serves. As `live.listed-kind` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKind {
    pub kind: ObjectKind,
    pub served: ServedKind,
}

impl ListedKind {
    /// The total length of the kind's texts, in bytes.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let ServedKind { resource, verbs, subresources, .. } = &self.served;
        let lists: usize = verbs.iter().chain(subresources).map(String::len).sum();
        self.kind.api_version.len() + self.kind.kind.len() + resource.len() + lists
    }
}
