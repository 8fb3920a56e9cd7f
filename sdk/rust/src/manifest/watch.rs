//! Watches: which objects a plugin sees, how much of them, and which changes count.

use serde::Serialize;

use super::Where;

/// Objects of one kind that the host keeps in its cache for the plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct Watch {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    api_version: String,
    kind: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    namespaces: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label_selector: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_selector: Option<String>,
    #[serde(rename = "where", skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<Where>,
    #[serde(skip_serializing_if = "Option::is_none")]
    projection: Option<Projection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    managed_fields: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    indexes: Vec<Index>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    predicates: Vec<Predicate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_op_skip: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    update_strategy: Option<UpdateStrategy>,
}

impl Watch {
    /// All objects of a kind, such as `apps/v1` and `Deployment`, whole.
    pub fn of(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            name: None,
            api_version: api_version.into(),
            kind: kind.into(),
            namespaces: Vec::new(),
            label_selector: None,
            field_selector: None,
            conditions: Vec::new(),
            projection: None,
            managed_fields: None,
            indexes: Vec::new(),
            predicates: Vec::new(),
            deleted: None,
            no_op_skip: None,
            update_strategy: None,
        }
    }

    /// Gives the watch a name, a DNS label that no other watch of the controller has.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only objects in this namespace. A further call adds a namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespaces.push(namespace.into());
        self
    }

    /// Only objects with these labels, in Kubernetes' syntax.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.label_selector = Some(selector.into());
        self
    }

    /// Only objects with these fields, in Kubernetes' syntax, where the API supports them.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.field_selector = Some(selector.into());
        self
    }

    /// Only objects for which this condition holds. A further call adds a condition that must hold too. The host
    /// evaluates them, so the server still sends all objects. An object for which they stop holding counts as gone.
    pub fn only(mut self, condition: Where) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Keeps less than whole objects.
    pub fn projection(mut self, projection: Projection) -> Self {
        self.projection = Some(projection);
        self
    }

    /// Keeps `metadata.managedFields`, which are left out otherwise.
    pub fn managed_fields(mut self) -> Self {
        self.managed_fields = Some(true);
        self
    }

    /// Adds an index, by which `cache::list` finds objects quickly.
    pub fn index(mut self, name: impl Into<String>, source: IndexSource) -> Self {
        self.indexes.push(Index { name: name.into(), source });
        self
    }

    /// Runs the primary only for updates that this predicate lets pass. A further call adds an alternative. Objects
    /// that appear or go, and the beginning of a deletion, always count.
    pub fn predicate(mut self, predicate: Predicate) -> Self {
        self.predicates.push(predicate);
        self
    }

    /// Runs nobody when an object goes or its deletion begins. Not for a primary.
    pub fn ignore_deletions(mut self) -> Self {
        self.deleted = Some(false);
        self
    }

    /// Has the host send even a write that would provably change nothing, for webhooks that are to run at each.
    pub fn without_no_op_skip(mut self) -> Self {
        self.no_op_skip = Some(false);
        self
    }

    /// Says how a composer's children change. Only for kinds that a composer owns.
    pub fn update_strategy(mut self, strategy: UpdateStrategy) -> Self {
        self.update_strategy = Some(strategy);
        self
    }
}

/// How a composer's children of a kind change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum UpdateStrategy {
    /// By applying.
    InPlace,
    /// By deleting the child, and creating it anew when it has gone. A change of metadata alone is applied.
    Recreate,
    /// Not at all, until somebody else deletes it.
    OnDelete,
}

/// How much of an object the cache keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Projection {
    /// All but `managedFields`.
    Full,
    /// Only the object's identity and metadata.
    Metadata,
    /// The metadata, and the values at these JSON pointers.
    Fields {
        /// Such as `/spec/image`; `*` stands for each element of a list.
        pointers: Vec<String>,
    },
    /// The metadata, and in the field `digest` a digest of the values at these JSON pointers, which are not kept
    /// themselves. With the predicate `Fields` of `/digest`, only a change of the values counts.
    Digest {
        /// Such as `/data`; `*` stands for each element of a list.
        pointers: Vec<String>,
    },
}

/// A way to find objects by a value in them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Index {
    name: String,
    source: IndexSource,
}

/// Which value an index holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum IndexSource {
    /// A text, or each element of a list of texts.
    Field {
        /// Such as `/spec/secretName`, or `/spec/sources/*/name` for each element of a list.
        pointer: String,
    },
    /// A label.
    Label {
        /// The label's key.
        key: String,
    },
    /// References that say namespace and name in two fields: each as `namespace/name`.
    Reference(ReferencePath),
    /// Label selectors, for [`Mapping::SelectedBy`]. `cache::list` finds an object by labels that it selects, such as
    /// `app=web,tier=front`.
    Selector {
        /// Such as `/spec/selector`.
        pointer: String,
        /// How they are written.
        form: SelectorForm,
    },
}

/// Where references are that say namespace and name in two fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[must_use]
pub struct ReferencePath {
    #[serde(skip_serializing_if = "String::is_empty")]
    base: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
}

impl ReferencePath {
    /// The references at `base`, such as `/spec/refs/*` for a list of them, or the empty text for the object itself.
    /// Each has the name at `name` below, such as `/name`.
    pub fn new(base: impl Into<String>, name: impl Into<String>) -> Self {
        Self { base: base.into(), namespace: None, name: name.into() }
    }

    /// Each has its namespace at this pointer below the base, such as `/namespace`. Where there is none, and without
    /// this call, it means the object's own.
    pub fn namespace(mut self, pointer: impl Into<String>) -> Self {
        self.namespace = Some(pointer.into());
        self
    }
}

/// How an object writes a label selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SelectorForm {
    /// With `matchLabels` and `matchExpressions`. An empty one selects everything.
    LabelSelector,
    /// As a map of labels, as a Service has it. An empty one selects nothing.
    Labels,
}

/// How a changed object leads to the primaries that run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Mapping {
    /// The primary that controls the object.
    Owner,
    /// The primary that a label names.
    Label {
        /// The label's key.
        key: String,
    },
    /// The primary that an annotation names.
    Annotation {
        /// The annotation's key.
        key: String,
    },
    /// The primary that a field names.
    Field {
        /// Such as `/spec/target`, or `/spec/targets/*` for each element of a list.
        pointer: String,
    },
    /// The primaries that references name, each of which says namespace and name in two fields.
    Reference(ReferencePath),
    /// Every primary whose index holds the object's name, or its namespace and name.
    ReferencedBy {
        /// An index that the primary's watch declares.
        index: String,
    },
    /// Every primary with a selector that selects the object's labels.
    SelectedBy {
        /// An index of selectors that the primary's watch declares.
        index: String,
    },
    /// The primary with the object's own name.
    SameName,
    /// Every primary.
    All,
    /// The primaries that the plugin's own [`Mapper`](crate::Mapper) names. Only for a watch with a name.
    Mapper,
    /// The parents to which the plugin's own [`Customize`](crate::Customize) relates the object. Only for a watch with
    /// a name.
    Customize,
}

/// Which updates of an object count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Predicate {
    /// The desired state, where the kind counts generations.
    Generation,
    /// The labels.
    Labels,
    /// The annotations.
    Annotations,
    /// The values at these JSON pointers.
    Fields {
        /// Such as `/data`; `*` stands for each element of a list.
        pointers: Vec<String>,
    },
    /// Those that the inner one does not count.
    Not {
        /// The inner one.
        predicate: Box<Predicate>,
    },
    /// Those that all inner ones count.
    And {
        /// At least one.
        predicates: Vec<Predicate>,
    },
}

impl Predicate {
    /// Counts the updates that this one does not: `not` in the manifest.
    #[must_use]
    pub fn negated(self) -> Self {
        Self::Not { predicate: Box::new(self) }
    }

    /// Counts the updates that all of these do.
    #[must_use]
    pub fn and(predicates: impl IntoIterator<Item = Self>) -> Self {
        Self::And { predicates: predicates.into_iter().collect() }
    }
}
