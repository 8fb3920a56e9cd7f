//! One resource in one version: names, scope, subresources, and the schema of custom resources. `builtin` and `crd`
//! create them; `registry` finds them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::merge::lists::Place;
use crate::object;
use crate::object::json_path::JsonPath;
use crate::resources::column::Column;
use crate::resources::converter::Converter;
use crate::schema::Schema;

/// A resource without its version: its group and plural. Objects are stored and counted under this name.
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

/// The dotted paths of the scale subresource's fields, without the leading dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) label_selector: Option<String>,
}

/// The additional properties of a [`ResourceType`] that a version of a CRD defines.
#[derive(Debug)]
pub(crate) struct CustomVersion {
    pub(crate) served: bool,
    pub(crate) stored: bool,
    pub(crate) schema: Schema,
    /// The schemas of all versions by name, because objects may be stored in any of them.
    pub(crate) schemas: Arc<BTreeMap<String, Schema>>,
    /// Objects that were written after this revision already fit these schemas.
    pub(crate) defined_at: u64,
    /// The definition, shared with the store. It has the original schema.
    pub(crate) definition: Arc<Value>,
    pub(crate) columns: Vec<(Column, JsonPath)>,
    /// The dotted paths of the selectable fields.
    pub(crate) selectable_fields: Vec<String>,
    /// The warning that is sent with every answer, if this version is deprecated.
    pub(crate) deprecation_warning: Option<String>,
    /// True if the definition is being deleted, so that no new objects are accepted.
    pub(crate) terminating: bool,
    /// The conversion webhook. `None` if the definition has none.
    pub(crate) converter: Option<Arc<Converter>>,
}

impl CustomVersion {
    /// The original schema of a version, for OpenAPI.
    pub(crate) fn openapi(&self, version: &str) -> Option<&Value> {
        let mut versions = object::items(&self.definition, "/spec/versions").iter();
        versions.find(|entry| entry["name"] == version)?.pointer("/schema/openAPIV3Schema")
    }

    /// Prunes and defaults an object that a webhook has converted to this version.
    pub(crate) fn converted(&self, mut object: Value) -> Arc<Value> {
        self.schema.prune(&mut object);
        self.schema.default(&mut object);
        Arc::new(object)
    }
}

/// One resource in one version.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a resource, not states of it")]
#[derive(Debug)]
pub(crate) struct ResourceType {
    pub(crate) id: GroupResource,
    /// The resource under which objects are stored. It differs from `id` only for `events`, which two groups serve.
    pub(crate) storage: GroupResource,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// True if `status` is a subresource: writes to the object ignore the status, and writes to the status ignore the
    /// rest.
    pub(crate) has_status: bool,
    pub(crate) scale: Option<ScalePaths>,
    /// A hash by which clients notice that objects are stored in another version. Empty if objects are not stored in
    /// this version.
    pub(crate) storage_hash: String,
    /// The subresources in the order of discovery.
    pub(crate) subresources: Vec<Subresource>,
    /// True if new objects get `metadata.generation`, and changes of the spec increase it.
    pub(crate) has_generation: bool,
    /// True if an update without a resource version is allowed. It replaces any version.
    pub(crate) unconditional_update: bool,
    /// True if a PUT creates an object that does not exist.
    pub(crate) create_on_update: bool,
    /// The verbs of the resource itself.
    pub(crate) verbs: Vec<String>,
    /// True if a DELETE answers with the object instead of a `Status`.
    pub(crate) returns_deleted: bool,
    /// The name of the Go type of a built-in kind. Empty for custom resources.
    pub(crate) type_name: &'static str,
    /// Set only for custom resources.
    pub(crate) custom: Option<CustomVersion>,
}

impl ResourceType {
    pub(crate) fn api_version(&self) -> String {
        group_version(&self.id.group, &self.version)
    }

    /// Whether an object with this `apiVersion` has this version.
    pub(crate) fn has_api_version(&self, text: &str) -> bool {
        match text.split_once('/') {
            Some((group, version)) => !group.is_empty() && group == self.id.group && version == self.version,
            None => self.id.group.is_empty() && text == self.version,
        }
    }

    /// Whether requests to the subresource of this name are served.
    pub(crate) fn has_subresource(&self, name: &str) -> bool {
        match name {
            "status" => self.has_status,
            "scale" => self.scale.is_some(),
            other => SERVED_SUBRESOURCES.contains(&other) && self.lists_subresource(other),
        }
    }

    /// Whether the resource, or its subresource, has the verb in discovery.
    pub(crate) fn serves(&self, subresource: Option<&str>, verb: &str) -> bool {
        let of = |name: &str| self.subresources.iter().find(|found| found.name == name).map(|found| &found.verbs);
        let verbs = subresource.map_or(Some(&self.verbs), of);
        verbs.is_some_and(|verbs| verbs.iter().any(|served| served == verb))
    }

    fn lists_subresource(&self, name: &str) -> bool {
        self.subresources.iter().any(|subresource| subresource.name == name)
    }

    /// The webhook that converts objects of this resource between versions.
    pub(crate) fn converter(&self) -> Option<&Arc<Converter>> {
        self.custom.as_ref()?.converter.as_ref()
    }

    /// The root place of objects of this type. From there, merging finds how each list and map is merged.
    pub(crate) fn root(&self) -> Place<'_> {
        self.custom.as_ref().map_or_else(|| Place::of_type(self.type_name), |custom| Place::of_schema(&custom.schema))
    }

    /// The warning for requests to a deprecated version.
    pub(crate) fn deprecation(&self) -> Option<String> {
        let of_custom = self.custom.as_ref().and_then(|custom| custom.deprecation_warning.clone());
        let of_built_in = match (self.id.group.as_str(), self.kind.as_str()) {
            ("", "Endpoints") => Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
            ("", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
            _ => None,
        };
        of_custom.or_else(|| of_built_in.map(str::to_owned))
    }

    /// True for reviews: a POST is a question, and nothing is stored.
    pub(crate) fn is_review(&self) -> bool {
        self.verbs == ["create"]
    }
}

/// The subresources that are served in addition to `status` and `scale`. Discovery lists more, like a real server's.
const SERVED_SUBRESOURCES: [&str; 7] =
    ["approval", "binding", "ephemeralcontainers", "eviction", "finalize", "log", "token"];

/// A subresource: a part of a resource with its own path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subresource {
    pub(crate) name: String,
    /// The group and version of the subresource's kind.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    /// The name of the kind's Go type. Empty for custom resources.
    pub(crate) type_name: String,
    pub(crate) verbs: Vec<String>,
}

/// `apps/v1`, or `v1` for the core group.
pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The sort key by which Kubernetes orders versions: stable before beta before alpha, then by the number. All other
/// names come last.
pub(crate) fn version_rank(version: &str) -> (u8, u32, u32, Reverse<String>) {
    let other = || (0, 0, 0, Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else { return other() };
    let unstable = [("beta", 2), ("alpha", 1)];
    let staged =
        unstable.iter().find_map(|(word, rank)| rest.split_once(word).map(|(major, minor)| (*rank, major, minor)));
    let (rank, major, minor) = staged.unwrap_or((3, rest, "0"));
    match (major.parse(), minor.parse()) {
        (Ok(major), Ok(minor)) => (rank, major, minor, Reverse(String::new())),
        _ => other(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability_then_number() {
        let mut versions = ["v1alpha1", "foo", "v2", "v10", "v1beta2", "v1", "v1beta1"];
        versions.sort_by_key(|version| Reverse(version_rank(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]);
    }
}
