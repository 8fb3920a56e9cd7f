//! The watches of a manifest. A watch says which objects and fields the cache keeps, and which primaries a change
//! concerns. Its values are parsed directly into the host's types.

mod check;
mod convert;
mod where_check;

pub(crate) use check::check_mapping;

use serde::Deserialize;
use windlass_core::cache::mapping::Mapping;
use windlass_core::cache::predicate::Predicate;
use windlass_core::cache::watch::{Index, Projection};
use windlass_core::cache::where_clause::WhereCondition;
use windlass_core::call::compose::UpdateStrategy;
use windlass_core::object::selector::{FieldSelector, ParsedSelector, Selector};

use super::{PrimaryTimer, WriteVerb};

/// A kind that is watched.
#[allow(clippy::struct_excessive_bools, reason = "each is a property of the document")]
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each answers a question of its own, in any combination")]
pub struct Watch {
    /// Unique within the controller.
    pub name: Option<String>,
    /// Such as `apps/v1`. Empty if the configuration names the kinds and they are not filled in, and for a timer.
    #[serde(default)]
    pub api_version: String,
    /// Such as `Deployment`. Empty whenever `api_version` is.
    #[serde(default)]
    pub kind: String,
    /// A JSON pointer to where the plugin's configuration names the kinds. `None` if it does not.
    pub kinds_from: Option<String>,
    /// A timer in place of a kind. Allowed only for primaries.
    pub timer: Option<PrimaryTimer>,
    /// How the plugin changes objects of the kinds that the configuration names. Allowed only with `kinds_from`.
    #[serde(default)]
    pub verbs: Vec<WriteVerb>,
    /// Empty means all namespaces, or a cluster-scoped kind.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Left out or empty means all objects.
    pub label_selector: Option<ParsedSelector<Selector>>,
    /// Left out or empty means all objects. Only the API server knows which fields of a kind can be used here.
    pub field_selector: Option<ParsedSelector<FieldSelector>>,
    /// Conditions that the host evaluates. All must hold; empty means all objects.
    #[serde(rename = "where", default)]
    pub conditions: Vec<WhereCondition>,
    /// The part of each object that the cache keeps.
    #[serde(default)]
    pub projection: Projection,
    /// Whether the cache keeps `metadata.managedFields`.
    #[serde(default)]
    pub managed_fields: bool,
    /// The indexes by which the objects can be listed.
    #[serde(default)]
    pub indexes: Vec<Index>,
    /// The changes that cause a call. Empty means all changes.
    #[serde(default)]
    pub predicates: Vec<Predicate>,
    /// Whether the plugin's own code decides as well which new objects and updates cause a call.
    #[serde(default)]
    pub code_predicate: bool,
    /// The part of an object that a call receives, beside what identifies it. `None` means all that the cache keeps.
    pub call_fields: Option<Vec<String>>,
    /// Whether the beginning of an object's deletion and its disappearance cause a call. For primaries they always do.
    #[serde(default = "yes")]
    pub deleted: bool,
    /// Whether the host skips a write that would change nothing.
    #[serde(default = "yes")]
    pub no_op_skip: bool,
    /// The primaries that an object concerns. Required for `watches`, and allowed only there.
    pub mapping: Option<Mapping>,
    /// How the host changes a composer's children. Allowed only for `owns`.
    pub update_strategy: Option<UpdateStrategy>,
}

fn yes() -> bool {
    true
}

impl Watch {
    /// A primary that is only a timer.
    pub(super) fn of_timer(timer: PrimaryTimer) -> Self {
        Self {
            name: None,
            api_version: String::new(),
            kind: String::new(),
            kinds_from: None,
            timer: Some(timer),
            verbs: Vec::new(),
            namespaces: Vec::new(),
            label_selector: None,
            field_selector: None,
            conditions: Vec::new(),
            projection: Projection::default(),
            managed_fields: false,
            indexes: Vec::new(),
            predicates: Vec::new(),
            code_predicate: false,
            call_fields: None,
            deleted: true,
            no_op_skip: true,
            mapping: None,
            update_strategy: None,
        }
    }
}
