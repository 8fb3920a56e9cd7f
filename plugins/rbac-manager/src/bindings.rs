//! The differences between the wanted bindings and the existing ones. Pure.

use serde_json::{Value, json};
use windlass_sdk::ObjectRef;

use crate::api::{Binding, LABEL, RBAC_GROUP, RBAC_VERSION, Role, Subject};

/// A binding that must exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WantedBinding {
    /// `None` for a binding in the whole cluster.
    pub(crate) namespace: Option<String>,
    /// The name that it gets if it is new and the name is free.
    pub(crate) name: String,
    pub(crate) role: Role,
    /// In a fixed order, without repetitions.
    pub(crate) subjects: Vec<Subject>,
}

/// The writes that are missing.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct BindingChanges {
    /// New bindings.
    pub(crate) create: Vec<Value>,
    /// Bindings with other subjects: the binding, its version, and the merge patch.
    pub(crate) patch: Vec<(ObjectRef, String, Value)>,
    /// Bindings that are no longer wanted.
    pub(crate) delete: Vec<ObjectRef>,
}

impl WantedBinding {
    fn kind(&self) -> &'static str {
        kind_of(self.namespace.as_deref())
    }

    fn object(&self, name: &str) -> Value {
        let mut metadata = json!({"name": name, "labels": {LABEL.0: LABEL.1}});
        if let Some(namespace) = &self.namespace {
            metadata["namespace"] = json!(namespace);
        }
        let role = json!({"apiGroup": RBAC_GROUP, "kind": self.role.kind, "name": self.role.name});
        json!({
            "apiVersion": RBAC_VERSION, "kind": self.kind(), "metadata": metadata,
            "roleRef": role, "subjects": in_binding(&self.subjects),
        })
    }
}

fn kind_of(namespace: Option<&str>) -> &'static str {
    if namespace.is_some() { "RoleBinding" } else { "ClusterRoleBinding" }
}

fn in_binding(subjects: &[Subject]) -> Vec<Value> {
    subjects.iter().map(Subject::in_binding).collect()
}

fn target(binding: &Binding) -> ObjectRef {
    let metadata = &binding.metadata;
    let kind = kind_of(metadata.namespace.as_deref());
    let target = ObjectRef::cluster_scoped(RBAC_VERSION, kind, &metadata.name).with_uid(&metadata.uid);
    ObjectRef { namespace: metadata.namespace.clone(), ..target }
}

/// Compares the wanted bindings with those that the definition owns. They are compared by their contents, so bindings
/// that have other names, such as those of another version of the operator, stay.
pub(crate) fn differences(wanted: &[WantedBinding], owned: &[Binding]) -> BindingChanges {
    let mut changes = BindingChanges::default();
    let mut kept = vec![false; owned.len()];
    let mut missing: Vec<&WantedBinding> = Vec::new();
    for (index, binding) in wanted.iter().enumerate() {
        let is_repeated = wanted[..index].iter().any(|it| has_contents(it, binding));
        let found = owned.iter().zip(&kept).position(|(it, kept)| !kept && fits(it, binding, true));
        match found {
            _ if is_repeated => {}
            Some(place) => kept[place] = true,
            None => missing.push(binding),
        }
    }
    let mut created: Vec<(Option<&str>, String)> = Vec::new();
    for binding in missing {
        // The original names bindings otherwise, so any binding of this role in this place may get the subjects.
        let former = |it: &Binding| fits(it, binding, false) && !it.metadata.is_terminating();
        let candidates = || owned.iter().zip(&kept).enumerate().filter(|(_, (it, kept))| !**kept && former(it));
        let same_name = candidates().find(|(_, (it, _))| it.metadata.name == binding.name);
        if let Some(place) = same_name.or_else(|| candidates().next()).map(|(place, _)| place) {
            kept[place] = true;
            let version = owned[place].metadata.resource_version.clone();
            changes.patch.push((target(&owned[place]), version, json!({"subjects": in_binding(&binding.subjects)})));
            continue;
        }
        let namespace = binding.namespace.as_deref();
        let is_free = |name: &String| {
            let is_owned = |it: &Binding| it.metadata.namespace.as_deref() == namespace && it.metadata.name == *name;
            !owned.iter().any(is_owned) && !created.contains(&(namespace, name.clone()))
        };
        let numbered = (2..).map(|number| format!("{}-{number}", binding.name));
        let name = std::iter::once(binding.name.clone()).chain(numbered).find(is_free).unwrap_or_default();
        changes.create.push(binding.object(&name));
        created.push((namespace, name));
    }
    let surplus = owned.iter().zip(kept).filter(|(it, kept)| !kept && !it.metadata.is_terminating());
    changes.delete.extend(surplus.map(|(binding, _)| target(binding)));
    changes
}

fn has_contents(one: &WantedBinding, other: &WantedBinding) -> bool {
    one.namespace == other.namespace && one.role == other.role && one.subjects == other.subjects
}

/// Whether a binding grants the wanted role in the wanted place and, if asked, to the wanted subjects.
fn fits(binding: &Binding, wanted: &WantedBinding, with_subjects: bool) -> bool {
    let mut subjects = binding.subjects.clone();
    subjects.sort();
    binding.metadata.namespace == wanted.namespace
        && binding.role_ref == wanted.role
        && (!with_subjects || subjects == wanted.subjects)
}
