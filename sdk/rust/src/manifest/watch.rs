//! Watches: the objects that a plugin sees, how much of them, and which changes run a primary.

use serde::Serialize;

use super::{Timer, Where};

/// Objects of one kind that the host keeps in its cache for the plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct Watch {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    kinds_from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timer: Option<Timer>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    verbs: Vec<WriteVerb>,
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
    code_predicate: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_fields: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_op_skip: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    update_strategy: Option<UpdateStrategy>,
}

impl From<Timer> for Watch {
    fn from(timer: Timer) -> Self {
        Self { timer: Some(timer), ..Self::of("", "") }
    }
}

impl Watch {
    /// All objects of a kind, such as `apps/v1` and `Deployment`, with all their fields.
    pub fn of(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            name: None,
            api_version: api_version.into(),
            kind: kind.into(),
            kinds_from: None,
            timer: None,
            verbs: Vec::new(),
            namespaces: Vec::new(),
            label_selector: None,
            field_selector: None,
            conditions: Vec::new(),
            projection: None,
            managed_fields: None,
            indexes: Vec::new(),
            predicates: Vec::new(),
            code_predicate: None,
            call_fields: None,
            deleted: None,
            no_op_skip: None,
            update_strategy: None,
        }
    }

    /// The metadata of all objects of the kinds that the configuration names. The configuration has a list of objects
    /// with `apiVersion` and `kind` at this JSON pointer, such as `/kinds`. For a primary and for other watches, but
    /// not for kinds that the controller owns, nor for composers.
    ///
    /// ```
    /// use windlass_sdk::manifest::{Controller, Watch, WriteVerb};
    ///
    /// let janitor = Controller::new("janitor", Watch::kinds_from("/kinds").verb(WriteVerb::Delete));
    /// ```
    pub fn kinds_from(pointer: impl Into<String>) -> Self {
        Self { kinds_from: Some(pointer.into()), projection: Some(Projection::Metadata), ..Self::of("", "") }
    }

    /// Also asks for the right to change the objects with this verb. Only for [`Self::kinds_from`]: rights to change
    /// other objects are permissions of the manifest.
    pub fn verb(mut self, verb: WriteVerb) -> Self {
        self.verbs.push(verb);
        self
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

    /// Only objects that meet this condition. A further call adds a condition, and an object must meet all of them.
    /// The host evaluates the conditions, so the server still sends all objects. An object that no longer meets the
    /// conditions counts as deleted.
    pub fn only(mut self, condition: Where) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Keeps only a part of each object.
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

    /// Runs the primary only for updates that this predicate accepts. After a further call, it is enough that one of
    /// the predicates accepts the update. Creations, deletions, and the beginning of a deletion always run the primary.
    pub fn predicate(mut self, predicate: Predicate) -> Self {
        self.predicates.push(predicate);
        self
    }

    /// Lets the plugin's own [`Mapper::matches`](crate::Mapper::matches) decide as well which new objects and updates
    /// count. Deletions always count. Only for a reconciler's watch with a name.
    pub fn code_predicate(mut self) -> Self {
        self.code_predicate = Some(true);
        self
    }

    /// Gives calls only these fields of an object, as JSON pointers, beside its identity: of the primary in a request,
    /// and of a composer's parent, children and related objects. A reconciler has this for its primary only: in each
    /// read, it names the fields that it wants.
    pub fn call_fields<I: IntoIterator<Item = S>, S: Into<String>>(mut self, pointers: I) -> Self {
        self.call_fields = Some(pointers.into_iter().map(Into::into).collect());
        self
    }

    /// Ignores deletions of objects, and the beginning of deletions. Not for a primary.
    pub fn ignore_deletions(mut self) -> Self {
        self.deleted = Some(false);
        self
    }

    /// Makes the host send even a write that would provably change nothing, for webhooks that must run at each write.
    pub fn without_no_op_skip(mut self) -> Self {
        self.no_op_skip = Some(false);
        self
    }

    /// Sets how a composer's children are updated. Only for kinds that a composer owns.
    pub fn update_strategy(mut self, strategy: UpdateStrategy) -> Self {
        self.update_strategy = Some(strategy);
        self
    }
}

/// A verb with which a plugin changes objects of kinds that the configuration names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteVerb {
    /// By `writes::create`, or by applying an object that does not exist.
    Create,
    /// By `writes::update`.
    Update,
    /// By a patch, or by applying.
    Patch,
    /// By `writes::delete`.
    Delete,
    /// By `writes::delete_collection`.
    DeleteCollection,
}

/// How a composer's children of a kind change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum UpdateStrategy {
    /// By applying.
    InPlace,
    /// By deleting the child, and creating it again once it is gone. A change of metadata alone is applied.
    Recreate,
    /// Not at all, until a person or another controller deletes the child.
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
        /// The pointers, such as `/spec/image`; `*` stands for each element of a list.
        pointers: Vec<String>,
    },
    /// The metadata, and in the field `digest` a digest of the values at these JSON pointers, which are not kept
    /// themselves. With the predicate `Fields` of `/digest`, only a change of these values runs primaries.
    Digest {
        /// The pointers, such as `/data`; `*` stands for each element of a list.
        pointers: Vec<String>,
    },
}

/// A way to find objects by a value in them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Index {
    name: String,
    source: IndexSource,
}

/// The value that an index contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum IndexSource {
    /// A text, or each element of a list of texts.
    Field {
        /// The pointer, such as `/spec/secretName`, or `/spec/sources/*/name` for each element of a list.
        pointer: String,
    },
    /// A label.
    Label {
        /// The label's key.
        key: String,
    },
    /// An annotation.
    Annotation {
        /// The annotation's key.
        key: String,
        /// The separator of an annotation that is a list, such as the comma in `a, b`: each part, without the space
        /// around it, is a value. None: the whole text is one value.
        #[serde(skip_serializing_if = "Option::is_none")]
        split: Option<char>,
    },
    /// References with the namespace and the name in two fields, each as `namespace/name`.
    Reference(ReferencePath),
    /// Label selectors, for [`Mapping::SelectedBy`]. `cache::list` finds an object by labels that its selector matches,
    /// such as `app=web,tier=front`.
    Selector {
        /// The pointer, such as `/spec/selector`.
        pointer: String,
        /// The form of the selectors.
        form: SelectorForm,
    },
}

/// Where to find references with the namespace and the name in two fields.
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
    /// References at `base`, such as `/spec/refs/*` for a list of them. If `base` is empty, the object itself has the
    /// two fields. `name` is the pointer of the name below `base`, such as `/name`.
    pub fn new(base: impl Into<String>, name: impl Into<String>) -> Self {
        Self { base: base.into(), namespace: None, name: name.into() }
    }

    /// Sets the pointer of the namespace below the base, such as `/namespace`. Without this call, or if the field is
    /// missing, the reference is to the object's own namespace.
    pub fn namespace(mut self, pointer: impl Into<String>) -> Self {
        self.namespace = Some(pointer.into());
        self
    }
}

/// The form of a label selector in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SelectorForm {
    /// An object with `matchLabels` and `matchExpressions`. An empty selector selects everything.
    LabelSelector,
    /// A map of labels, as in a Service. An empty map selects nothing.
    Labels,
    /// A text, such as `app in (web,api)`. An empty text selects everything.
    Text,
}

/// How a changed object maps to the primaries that run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Mapping {
    /// The primary that controls the object.
    Owner,
    /// Each primary that owns the object, whether it is its controller or not.
    AnyOwner,
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
        /// The pointer, such as `/spec/target`, or `/spec/targets/*` for each element of a list.
        pointer: String,
    },
    /// The primaries that references name, with the namespace and the name in two fields.
    Reference(ReferencePath),
    /// Every primary whose index contains the object's name, or its namespace and name.
    ReferencedBy {
        /// An index that the primary's watch declares.
        index: String,
    },
    /// Every primary whose selector matches the object's labels.
    SelectedBy {
        /// An index of selectors that the primary's watch declares.
        index: String,
    },
    /// The primary with the object's own name.
    SameName,
    /// No primary: the plugin only reads the objects.
    None,
    /// Every primary.
    All,
    /// The primaries that the plugin's own [`Mapper`](crate::Mapper) names. Only for a watch with a name.
    Mapper,
    /// The parents to which the plugin's own [`Customize`](crate::Customize) relates the object. Only for a watch with
    /// a name.
    Customize,
}

/// Selects the updates of an object that run primaries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Predicate {
    /// A change of the desired state, if the kind has a generation.
    Generation,
    /// The labels.
    Labels,
    /// The annotations.
    Annotations,
    /// A change of the values at these JSON pointers.
    Fields {
        /// The pointers, such as `/data`; `*` stands for each element of a list.
        pointers: Vec<String>,
    },
    /// Updates that the inner predicate rejects.
    Not {
        /// The inner predicate.
        predicate: Box<Predicate>,
    },
    /// Updates that all inner predicates accept.
    And {
        /// The inner predicates, at least one.
        predicates: Vec<Predicate>,
    },
}

impl Predicate {
    /// Accepts the updates that this predicate rejects: `not` in the manifest.
    #[must_use]
    pub fn negated(self) -> Self {
        Self::Not { predicate: Box::new(self) }
    }

    /// Accepts the updates that all of these predicates accept.
    #[must_use]
    pub fn and(predicates: impl IntoIterator<Item = Self>) -> Self {
        Self::And { predicates: predicates.into_iter().collect() }
    }
}
