//! From a watch's words to the types of `windlass-core`.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::cache::mapping;
use windlass_core::cache::predicate;
use windlass_core::cache::watch;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::object::ObjectKind;
use windlass_core::object::reference::ReferencePath;

use super::{IndexSource, Mapping, Predicate, Projection, SelectorForm, Watch};

impl Watch {
    /// The kind that is watched.
    #[must_use]
    pub fn object_kind(&self) -> ObjectKind {
        ObjectKind::new(&*self.api_version, &*self.kind)
    }

    /// One watch for each namespace, or one for all.
    #[must_use]
    pub fn specs(&self) -> Vec<WatchSpec> {
        let shared = |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(Arc::from);
        let spec = |namespace: Option<&String>| WatchSpec {
            kind: self.object_kind(),
            namespace: namespace.map(|namespace| Arc::from(&**namespace)),
            label_selector: shared(&self.label_selector),
            field_selector: shared(&self.field_selector),
            projection: self.core_projection(),
        };
        if self.namespaces.is_empty() {
            vec![spec(None)]
        } else {
            self.namespaces.iter().map(|namespace| spec(Some(namespace))).collect()
        }
    }

    /// The part of the objects that is kept: what the manifest says, and what the host itself reads of them for it.
    fn core_projection(&self) -> watch::Projection {
        match &self.projection {
            Projection::Full {} => watch::Projection::Full,
            Projection::Metadata {} => watch::Projection::Metadata,
            Projection::Fields { pointers } => {
                watch::Projection::fields(pointers.iter().cloned().chain(self.pointers()).map(Arc::from))
            }
        }
    }

    /// Where the host looks into the objects of this watch.
    pub(super) fn pointers(&self) -> BTreeSet<String> {
        let indexes = self.indexes.iter().flat_map(|index| index.source.to_core().pointers());
        let predicates = self.predicates.iter().flat_map(Predicate::pointers).map(str::to_owned);
        let mapping = self.mapping.iter().flat_map(|mapping| match mapping {
            Mapping::Field { pointer } => vec![pointer.clone()],
            Mapping::Reference { base, namespace, name } => path(base, namespace.as_deref(), name).pointers().collect(),
            _ => vec![],
        });
        indexes.chain(predicates).chain(mapping).collect()
    }

    /// The declared indexes by their names.
    #[must_use]
    pub fn core_indexes(&self) -> Vec<(Arc<str>, watch::IndexSource)> {
        self.indexes.iter().map(|index| (index.name.as_str().into(), index.source.to_core())).collect()
    }

    /// The mapping as `windlass-core` has it. None: there is none, or it names an index that `primary` does not declare, which a
    /// valid manifest does not.
    #[must_use]
    pub fn core_mapping(&self, primary: &Self) -> Option<mapping::Mapping> {
        self.mapping.as_ref()?.to_core(self.name.as_deref().unwrap_or_default(), primary)
    }

    /// Which changes are worth a call; empty: all.
    #[must_use]
    pub fn core_predicates(&self) -> Vec<predicate::Predicate> {
        self.predicates.iter().map(Predicate::to_core).collect()
    }
}

impl Mapping {
    /// Of the watch with this name.
    fn to_core(&self, watch: &str, primary: &Watch) -> Option<mapping::Mapping> {
        let declared = |index: &String| {
            let declared = primary.indexes.iter().find(|declared| declared.name == *index)?;
            Some(declared.source.to_core())
        };
        Some(match self {
            Self::Owner {} => mapping::Mapping::Owner,
            Self::Label { key } => mapping::Mapping::Label(key.as_str().into()),
            Self::Annotation { key } => mapping::Mapping::Annotation(key.as_str().into()),
            Self::Field { pointer } => mapping::Mapping::Field(pointer.as_str().into()),
            Self::Reference { base, namespace, name } => {
                mapping::Mapping::Reference(path(base, namespace.as_deref(), name))
            }
            Self::SameName {} => mapping::Mapping::SameName,
            Self::ReferencedBy { index } => mapping::Mapping::ReferencedBy(declared(index)?),
            Self::SelectedBy { index } => mapping::Mapping::SelectedBy(declared(index)?),
            Self::All {} => mapping::Mapping::All,
            Self::Mapper {} => mapping::Mapping::Mapper,
            Self::Customize {} => mapping::Mapping::Customize(watch.into()),
        })
    }
}

impl IndexSource {
    fn to_core(&self) -> watch::IndexSource {
        match self {
            Self::Field { pointer } => watch::IndexSource::Field(pointer.as_str().into()),
            Self::Label { key } => watch::IndexSource::Label(key.as_str().into()),
            Self::Reference { base, namespace, name } => {
                watch::IndexSource::Reference(path(base, namespace.as_deref(), name))
            }
            Self::Selector { pointer, form } => {
                let form = match form {
                    SelectorForm::LabelSelector => watch::SelectorForm::LabelSelector,
                    SelectorForm::Labels => watch::SelectorForm::Labels,
                };
                watch::IndexSource::Selector { pointer: pointer.as_str().into(), form }
            }
        }
    }
}

fn path(base: &str, namespace: Option<&str>, name: &str) -> ReferencePath {
    ReferencePath { base: base.into(), namespace: namespace.map(Into::into), name: name.into() }
}

impl Predicate {
    /// The predicate as `windlass-core` has it.
    #[must_use]
    pub fn to_core(&self) -> predicate::Predicate {
        match self {
            Self::Generation {} => predicate::Predicate::Generation,
            Self::Labels {} => predicate::Predicate::Labels,
            Self::Annotations {} => predicate::Predicate::Annotations,
            Self::Fields { pointers } => {
                predicate::Predicate::Fields(pointers.iter().map(|pointer| pointer.as_str().into()).collect())
            }
            Self::Not { predicate } => predicate::Predicate::Not(Box::new(predicate.to_core())),
            Self::And { predicates } => predicate::Predicate::And(predicates.iter().map(Self::to_core).collect()),
        }
    }

    /// The predicates that it is made of. Empty: it is made of none.
    fn inner(&self) -> &[Self] {
        match self {
            Self::Not { predicate } => std::slice::from_ref(predicate),
            Self::And { predicates } => predicates,
            Self::Generation {} | Self::Labels {} | Self::Annotations {} | Self::Fields { .. } => &[],
        }
    }

    /// Where it and what it is made of look.
    fn pointers(&self) -> Vec<&str> {
        match self {
            Self::Fields { pointers } => pointers.iter().map(String::as_str).collect(),
            _ => self.inner().iter().flat_map(Self::pointers).collect(),
        }
    }
}
