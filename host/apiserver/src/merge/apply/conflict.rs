//! Conflicts: fields that an apply would change, but that another manager owns. The messages are those of the
//! Kubernetes API server.
//!
//! Follows `k8s.io/apimachinery/pkg/util/managedfields/internal/conflict.go`.

use std::collections::BTreeMap;

use super::owners::{Identity, Operation};
use crate::merge::fields::Set;

/// A field that the apply would change, but that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// The other field manager.
    pub(crate) manager: String,
    /// The path of the field, such as `.spec.replicas`.
    pub(crate) field: String,
    /// The other manager as messages show it: in quotes, with its subresource and API version if they are set.
    described: String,
}

impl Conflict {
    /// The conflicts with one manager: one for each field in the set.
    pub(super) fn with(identity: &Identity, fields: &Set) -> Vec<Self> {
        let described = describe(identity);
        let conflict = |field| Self { manager: identity.manager.clone(), field, described: described.clone() };
        fields.paths().into_iter().map(conflict).collect()
    }

    /// The message of the `FieldManagerConflict` cause.
    pub(crate) fn message(&self) -> String {
        format!("conflict with {}", self.described)
    }
}

fn describe(identity: &Identity) -> String {
    let subresource = match identity.subresource.as_str() {
        "" => String::new(),
        name => format!(" with subresource {name:?}"),
    };
    let version = match identity.operation {
        Operation::Apply => String::new(),
        Operation::Update => format!(" using {}", identity.api_version),
    };
    format!("{:?}{subresource}{version}", identity.manager)
}

/// The message of the whole `Status`.
pub(crate) fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: {}: {}", only.message(), only.field);
    }
    let mut by_manager: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for conflict in conflicts {
        by_manager.entry(&conflict.described).or_default().push(&conflict.field);
    }
    let lines: Vec<String> = by_manager
        .into_iter()
        .flat_map(|(manager, fields)| {
            let fields = fields.into_iter().map(|field| format!("- {field}"));
            std::iter::once(format!("conflicts with {manager}:")).chain(fields)
        })
        .collect();
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}
