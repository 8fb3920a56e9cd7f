//! Converts a declared watch into the requests to the API server that it needs.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::cache::mapping::Mapping;
use windlass_core::cache::predicate::Predicate;
use windlass_core::cache::watch::{Projection, WatchSpec};
use windlass_core::cache::where_clause::WhereClause;
use windlass_core::call::compose::UpdateStrategy;
use windlass_core::object::ObjectKind;

use super::Watch;

impl Watch {
    #[must_use]
    pub fn object_kind(&self) -> ObjectKind {
        ObjectKind::new(&*self.api_version, &*self.kind)
    }

    /// One specification for each namespace, or one for all namespaces.
    #[must_use]
    pub fn specs(&self) -> Vec<WatchSpec> {
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

    /// Pointers to the fields that the host itself reads in objects of this watch.
    pub(super) fn pointers(&self) -> BTreeSet<String> {
        let indexes = self.indexes.iter().flat_map(|index| index.source.pointers());
        let predicates = self.predicates.iter().flat_map(Predicate::pointers).map(ToString::to_string);
        let mapping = self.mapping.iter().flat_map(Mapping::pointers);
        indexes.chain(predicates).chain(mapping).collect()
    }

    /// How the host changes children of this kind.
    #[must_use]
    pub fn strategy(&self) -> UpdateStrategy {
        self.update_strategy.unwrap_or_default()
    }
}
