//! Converts a declared watch into the requests to the API server that it needs.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::cache::mapping::Mapping;
use windlass_core::cache::predicate::Predicate;
use windlass_core::cache::watch::{Projection, WatchSpec};
use windlass_core::cache::where_clause::WhereClause;
use windlass_core::call::compose::UpdateStrategy;
use windlass_core::object::ObjectKind;
use windlass_core::object::pointer_tree::PointerTree;

use super::Watch;

impl Watch {
    /// The kind of the objects, or of the object that a timer's calls are about.
    #[must_use]
    pub fn object_kind(&self) -> ObjectKind {
        if self.timer.is_some() { Self::timer_kind() } else { ObjectKind::new(&*self.api_version, &*self.kind) }
    }

    /// One specification for each namespace, or one for all namespaces. A timer has none.
    #[must_use]
    pub fn specs(&self) -> Vec<WatchSpec> {
        if self.timer.is_some() {
            return Vec::new();
        }
        let spec = |namespace: Option<&String>| WatchSpec {
            kind: self.object_kind(),
            namespace: namespace.map(|namespace| Arc::from(&**namespace)),
            label_selector: self.label_selector.clone().filter(|it| !it.text().is_empty()),
            field_selector: self.field_selector.clone().filter(|it| !it.text().is_empty()),
            where_clause: WhereClause::new(&self.conditions),
            projection: self.kept(),
            managed_fields: self.managed_fields,
        };
        if self.namespaces.is_empty() {
            vec![spec(None)]
        } else {
            self.namespaces.iter().map(|namespace| spec(Some(namespace))).collect()
        }
    }

    /// The part of the objects that the cache keeps: the fields that the manifest names and those that the host reads
    /// itself for this watch.
    fn kept(&self) -> Projection {
        match &self.projection {
            Projection::Fields(pointers) => {
                Projection::fields(pointers.iter().cloned().chain(self.pointers().into_iter().map(Arc::from)))
            }
            whole => whole.clone(),
        }
    }

    /// The pointers at which the host reads objects of this watch, for itself or for calls.
    pub(super) fn pointers(&self) -> BTreeSet<String> {
        let indexes = self.indexes.iter().flat_map(|index| index.source.pointers());
        let predicates = self.predicates.iter().flat_map(Predicate::pointers).map(ToString::to_string);
        let mapping = self.mapping.iter().flat_map(Mapping::pointers);
        let call_fields = self.call_fields.iter().flatten().cloned();
        indexes.chain(predicates).chain(mapping).chain(call_fields).collect()
    }

    /// The part of an object that a call receives. `None` for all that the cache keeps.
    ///
    /// # Panics
    ///
    /// If a pointer of the watch is malformed. A valid manifest has no such pointer.
    #[must_use]
    pub fn call_part(&self) -> Option<PointerTree> {
        let pointers = self.call_fields.as_deref()?;
        Some(PointerTree::of_read(pointers).expect("the pointers of a valid manifest are pointers"))
    }

    /// How the host changes children of this kind.
    #[must_use]
    pub fn strategy(&self) -> UpdateStrategy {
        self.update_strategy.unwrap_or_default()
    }
}
