//! The watches of a manifest: what is kept of which objects, and whom their changes concern.
//! Both are read into the types that the host goes by.

mod check;
mod convert;

use serde::Deserialize;
use windlass_core::cache::mapping::Mapping;
use windlass_core::cache::predicate::Predicate;
use windlass_core::cache::watch::{Index, Projection};
use windlass_core::call::compose::UpdateStrategy;
use windlass_core::object::selector::{FieldSelector, ParsedSelector, Selector};

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
    /// Left out or empty: all objects.
    pub label_selector: Option<ParsedSelector<Selector>>,
    /// Left out or empty: all objects. Which fields a kind has only the server knows.
    pub field_selector: Option<ParsedSelector<FieldSelector>>,
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
