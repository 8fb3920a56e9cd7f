//! Watches: which objects a plugin sees, how much of them, and which changes count.

use serde::Serialize;

/// Objects of one kind that the host keeps in its cache for the plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct Watch {
    api_version: String,
    kind: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    namespaces: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label_selector: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_selector: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    projection: Option<Projection>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    indexes: Vec<Index>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    predicates: Vec<Predicate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    update_strategy: Option<UpdateStrategy>,
}

impl Watch {
    /// All objects of a kind, such as `apps/v1` and `Deployment`, whole.
    pub fn of(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            api_version: api_version.into(),
            kind: kind.into(),
            namespaces: Vec::new(),
            label_selector: None,
            field_selector: None,
            projection: None,
            indexes: Vec::new(),
            predicates: Vec::new(),
            update_strategy: None,
        }
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

    /// Keeps less than whole objects.
    pub fn projection(mut self, projection: Projection) -> Self {
        self.projection = Some(projection);
        self
    }

    /// Adds an index, by which `cache::list` finds objects quickly.
    pub fn index(mut self, name: impl Into<String>, source: IndexSource) -> Self {
        self.indexes.push(Index { name: name.into(), source });
        self
    }

    /// Runs the primary only if this part of the object has changed. A further call adds an alternative part. Deletions
    /// always count.
    pub fn predicate(mut self, predicate: Predicate) -> Self {
        self.predicates.push(predicate);
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
        /// Such as `/spec/image`.
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
    /// A field, or each element of a list of texts.
    Field {
        /// Such as `/spec/secretName`.
        pointer: String,
    },
    /// A label.
    Label {
        /// The label's key.
        key: String,
    },
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
        /// Such as `/spec/target`.
        pointer: String,
    },
    /// Every primary whose index holds the object's name.
    ReferencedBy {
        /// An index that the primary's watch declares.
        index: String,
    },
    /// The primary with the object's own name.
    SameName,
    /// Every primary.
    All,
}

/// Which changes of an object count.
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
        /// Such as `/data`.
        pointers: Vec<String>,
    },
}
