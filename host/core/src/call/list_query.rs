//! The question of a call for a list from the caches.

use std::sync::Arc;

use crate::object::ObjectKind;

/// Conditions of a list from the cache; all must hold. As `cache.list-query` in WIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// The kind; a declared watch must cover it.
    pub kind: ObjectKind,
    /// `None` means all namespaces of the watch.
    pub namespace: Option<Arc<str>>,
    /// In Kubernetes' syntax.
    pub label_selector: Option<String>,
    /// A declared index and the value to look up.
    pub index: Option<(String, String)>,
    /// Only objects whose controller is the primary.
    pub owned: bool,
    /// Only the values at these JSON pointers.
    pub fields: Option<Vec<String>>,
    /// How many objects a page may hold, at least 1.
    pub limit: u32,
    /// How many bytes a page may hold.
    pub max_bytes: Option<u32>,
    /// Where the previous page ended.
    pub page_token: Option<String>,
}
