//! Finds the rules for a user in a namespace from the stored bindings.

use std::ops::ControlFlow;

use serde_json::Value;

use crate::authz::{PolicyRule, RBAC, User};
use crate::object::{self, text};
use crate::resources::resource::GroupResource;
use crate::storage::{ObjectKey, Store};

/// One of the user's bindings with the rules of its role, or with the role's name if the role does not exist.
pub(super) struct BoundRules<'a> {
    binding: &'a Value,
    subject: &'a Value,
    pub(super) rules: Result<Vec<PolicyRule>, String>,
}

impl BoundRules<'_> {
    /// Describes the binding in the words of a real server.
    pub(super) fn source(&self) -> String {
        let namespace = object::namespace(self.binding);
        let (kind, name) = match namespace {
            "" => ("ClusterRoleBinding", object::name(self.binding).to_owned()),
            _ => ("RoleBinding", format!("{}/{namespace}", object::name(self.binding))),
        };
        let (role_kind, role) = (text(self.binding, "/roleRef/kind"), text(self.binding, "/roleRef/name"));
        format!("{kind} {name:?} of {role_kind} {role:?} to {}", describe(self.subject, namespace))
    }
}

fn describe(subject: &Value, binding_namespace: &str) -> String {
    let (kind, name) = (text(subject, "/kind"), text(subject, "/name"));
    match (kind, text(subject, "/namespace")) {
        ("ServiceAccount", "") => format!("{kind} {:?}", format!("{name}/{binding_namespace}")),
        ("ServiceAccount", namespace) => format!("{kind} {:?}", format!("{name}/{namespace}")),
        _ => format!("{kind} {name:?}"),
    }
}

/// Visits the bindings of the user, ordered by name: first cluster-wide bindings, then the bindings in `namespace`
/// unless it is empty.
pub(super) fn visit<'a>(
    store: &'a Store,
    user: &User,
    namespace: &'a str,
    mut each: impl FnMut(BoundRules<'a>) -> ControlFlow<()>,
) {
    let cluster = store.list(&GroupResource::new(RBAC, "clusterrolebindings"), None);
    let local = GroupResource::new(RBAC, "rolebindings");
    let namespaced = (!namespace.is_empty()).then(|| store.list(&local, Some(namespace)));
    for binding in cluster.chain(namespaced.into_iter().flatten()) {
        let place = object::namespace(binding);
        let subjects = object::items(binding, "/subjects");
        let Some(subject) = subjects.iter().find(|subject| is_for(subject, user, place)) else { continue };
        let rules = role_rules(store, &binding["roleRef"], place);
        if each(BoundRules { binding, subject, rules }).is_break() {
            return;
        }
    }
}

/// Whether `subject`, from a binding in the namespace `place`, means the user.
fn is_for(subject: &Value, user: &User, place: &str) -> bool {
    let name = text(subject, "/name");
    match text(subject, "/kind") {
        "User" => user.name == name,
        "Group" => user.is_in(name),
        "ServiceAccount" => {
            let namespace = match text(subject, "/namespace") {
                "" => place,
                namespace => namespace,
            };
            !namespace.is_empty() && User::service_account_of(&user.name) == Some((namespace, name))
        }
        _ => false,
    }
}

/// The rules of the role that a binding in `namespace` refers to.
pub(super) fn role_rules(store: &Store, reference: &Value, namespace: &str) -> Result<Vec<PolicyRule>, String> {
    let (kind, name) = (text(reference, "/kind"), text(reference, "/name"));
    let (plural, namespace) = match kind {
        "ClusterRole" => ("clusterroles", ""),
        "Role" => ("roles", namespace),
        _ => return Err(format!("unsupported role reference kind: {kind:?}")),
    };
    let key = ObjectKey {
        resource: GroupResource::new(RBAC, plural),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let role = store.get(&key).ok_or_else(|| format!("{}.{RBAC} {name:?} not found", kind.to_lowercase()))?;
    Ok(PolicyRule::of_role(role))
}
