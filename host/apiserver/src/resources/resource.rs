//! One resource in one version, as the server knows it: names, scope, subresources and, for custom resources, the
//! schema. Built-in ones come from `builtin`, custom ones from `crd`; `registry` finds them.

use std::fmt;

use crate::merge::lists::Place;
use crate::resources::crd::CustomVersion;

/// The name under which objects are stored and counted: one per resource, whatever the version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupResource {
    pub(crate) group: String,
    pub(crate) plural: String,
}

impl GroupResource {
    pub(crate) fn new(group: &str, plural: &str) -> GroupResource {
        GroupResource { group: group.to_owned(), plural: plural.to_owned() }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.plural),
            group => write!(f, "{}.{group}", self.plural),
        }
    }
}

/// Where the scale subresource finds its numbers, as dotted paths without the leading dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) label_selector: Option<String>,
}

/// One resource in one version.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a resource, not states of it")]
#[derive(Debug)]
pub(crate) struct ResourceType {
    pub(crate) id: GroupResource,
    /// Where the objects are kept; differs from `id` only for `events`, which two groups serve.
    pub(crate) storage: GroupResource,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// `status` is a subresource: main writes ignore it, and writes to it ignore the rest.
    pub(crate) has_status: bool,
    pub(crate) scale: Option<ScalePaths>,
    /// Other subresources, such as `finalize` of namespaces.
    pub(crate) other_subresources: &'static [&'static str],
    /// A new object gets `metadata.generation`, and changes of its spec count it up.
    pub(crate) has_generation: bool,
    /// An update without a resource version is taken as "whatever is there".
    pub(crate) unconditional_update: bool,
    /// A PUT to a name that does not exist creates it.
    pub(crate) create_on_update: bool,
    /// Only POST is served, and nothing is stored (access reviews).
    pub(crate) create_only: bool,
    /// A DELETE answers with the object instead of a `Status`.
    pub(crate) returns_deleted: bool,
    /// Set for custom resources.
    pub(crate) custom: Option<CustomVersion>,
}

impl ResourceType {
    pub(crate) fn api_version(&self) -> String {
        group_version(&self.id.group, &self.version)
    }

    pub(crate) fn has_subresource(&self, name: &str) -> bool {
        match name {
            "status" => self.has_status,
            "scale" => self.scale.is_some(),
            other => self.other_subresources.contains(&other),
        }
    }

    /// The root of its objects, from which a walk learns how their lists and maps merge.
    pub(crate) fn root(&self) -> Place<'_> {
        self.custom.as_ref().map_or_else(Place::builtin, |custom| Place::of_schema(&custom.schema))
    }

    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        if self.create_only {
            return &["create"];
        }
        &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    }
}

/// `apps/v1`, or `v1` for the core group.
pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
