//! The watches of a manifest: what is kept of which objects, and whom their changes concern.
//!
//! Variants without content have braces here, too: see [`manifest`](super).

mod check;
mod convert;

use serde::Deserialize;

/// A kind that is watched.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Watch {
    /// Unique within the controller.
    pub name: Option<String>,
    /// Such as `apps/v1`.
    pub api_version: String,
    /// Such as `Deployment`.
    pub kind: String,
    /// Empty: all namespaces, or a cluster-scoped kind.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// In Kubernetes' syntax.
    pub label_selector: Option<String>,
    /// In Kubernetes' syntax.
    pub field_selector: Option<String>,
    /// The part of the objects that is kept.
    #[serde(default)]
    pub projection: Projection,
    /// By what they can be listed.
    #[serde(default)]
    pub indexes: Vec<Index>,
    /// Which changes are worth a call; empty: all.
    #[serde(default)]
    pub predicates: Vec<Predicate>,
    /// Whether an object that goes, and the beginning of its deletion, are worth a call. Of primaries they always are.
    #[serde(default = "yes")]
    pub deleted: bool,
    /// Whether a write that would change nothing is left out.
    #[serde(default = "yes")]
    pub no_op_skip: bool,
    /// Which primaries an object concerns. For `watches` only, and required there.
    pub mapping: Option<Mapping>,
    /// How a composer's children change. For `owns` only.
    pub update_strategy: Option<UpdateStrategy>,
}

fn yes() -> bool {
    true
}

/// How a composer's children of a kind change; see [`windlass_core::call::compose::UpdateStrategy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UpdateStrategy {
    InPlace,
    /// By deleting and creating them anew.
    Recreate,
    /// When somebody else deletes them.
    OnDelete,
}

/// The part of an object that the cache keeps.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
pub enum Projection {
    /// All but `managedFields`.
    Full {},
    Metadata {},
    /// The metadata and the values at JSON pointers.
    Fields {
        /// See [`windlass_core::object::pointer`].
        pointers: Vec<String>,
    },
}

impl Default for Projection {
    fn default() -> Self {
        Self::Full {}
    }
}

/// A named index of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Index {
    /// Unique within the watch.
    pub name: String,
    /// Where the value is.
    pub source: IndexSource,
}

/// The subject of an index.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
pub enum IndexSource {
    /// Each string at a JSON pointer.
    Field {
        /// See [`windlass_core::object::pointer`].
        pointer: String,
    },
    /// The value of a label.
    Label { key: String },
    /// References that say namespace and name in two fields.
    Reference {
        /// Where they are; empty: the object itself.
        #[serde(default)]
        base: String,
        /// Where each has the namespace, below the base.
        namespace: Option<String>,
        /// Where each has the name, below the base.
        name: String,
    },
    Selector {
        /// See [`windlass_core::object::pointer`].
        pointer: String,
        /// How they are written.
        #[serde(default)]
        form: SelectorForm,
    },
}

/// How an object writes a label selector; see [`windlass_core::cache::watch::SelectorForm`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SelectorForm {
    /// As a `LabelSelector`.
    #[default]
    LabelSelector,
    /// As a map of labels.
    Labels,
}

/// Which primaries a watched object concerns; see [`windlass_core::cache::mapping::Mapping`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
pub enum Mapping {
    /// The one that controls it.
    Owner {},
    /// The one that a label names.
    Label {
        key: String,
    },
    /// The one that an annotation names.
    Annotation {
        key: String,
    },
    /// Those that the strings at a JSON pointer name.
    Field {
        /// See [`windlass_core::object::pointer`].
        pointer: String,
    },
    /// Those that references with namespace and name in two fields name.
    Reference {
        /// Where they are; empty: the object itself.
        #[serde(default)]
        base: String,
        /// Where each has the namespace, below the base.
        namespace: Option<String>,
        /// Where each has the name, below the base.
        name: String,
    },
    /// All whose index of this name holds the object's name.
    ReferencedBy {
        /// An index of the primary.
        index: String,
    },
    /// All with a selector, in the index of this name, that selects the object.
    SelectedBy {
        /// An index of selectors of the primary.
        index: String,
    },
    /// The one of the same namespace and name.
    SameName {},
    All {},
    /// Those that a reconciler's own mapper names.
    Mapper {},
    /// Those to which a composer's own customize relates the object.
    Customize {},
}

/// Which changes are worth a call; see [`windlass_core::cache::predicate::Predicate`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
pub enum Predicate {
    Generation {},
    Labels {},
    /// Of an annotation.
    Annotations {},
    /// Of the value at a JSON pointer.
    Fields {
        /// See [`windlass_core::object::pointer`].
        pointers: Vec<String>,
    },
    /// Those that the inner one does not let pass.
    Not {
        predicate: Box<Predicate>,
    },
    /// Those that all inner ones let pass.
    And {
        predicates: Vec<Predicate>,
    },
}
