//! The manifest: what the plugin watches, and the rights that it asks for.

use windlass_sdk::manifest::{
    Controller, IndexSource, Manifest, Mapping, Options, Permission, Predicate, Projection, ReferencePath,
    SelectorForm, Watch,
};

use crate::api::{API_VERSION, KIND, LABEL, RBAC_GROUP, RBAC_VERSION};

/// The index of bindings and service accounts by the UIDs of their owners.
pub(crate) const OWNER_INDEX: &str = "owner";

pub(crate) fn manifest() -> Manifest {
    let controller = Controller::new("rbac-manager", definitions())
        .watches(bindings("ClusterRoleBinding"), Mapping::AnyOwner)
        .watches(bindings("RoleBinding"), Mapping::AnyOwner)
        .watches(service_accounts(), Mapping::ReferencedBy { index: "accounts".into() })
        .watches(namespaces(), Mapping::ReferencedBy { index: "namespaces".into() })
        .watches(namespaces(), Mapping::ReferencedBy { index: "account-namespaces".into() })
        .watches(namespaces(), Mapping::SelectedBy { index: "selectors".into() })
        .options(Options { status: Some(false), ..Options::default() });
    let changes = ["create", "patch", "delete"];
    Manifest::new("rbac-manager", env!("CARGO_PKG_VERSION"))
        .description("Creates the bindings and service accounts of each RBACDefinition.")
        .controller(controller)
        .permission(Permission::new(RBAC_GROUP, "clusterrolebindings", &[&["get"], &changes[..]].concat()))
        .permission(Permission::new(RBAC_GROUP, "rolebindings", &[&["get"], &changes[..]].concat()))
        // Definitions may grant rights that the host lacks.
        .permission(Permission::new(RBAC_GROUP, "clusterroles", &["bind"]))
        .permission(Permission::new(RBAC_GROUP, "roles", &["bind"]))
        .permission(Permission::new("", "serviceaccounts", &changes))
}

fn definitions() -> Watch {
    let field = |pointer: &str| IndexSource::Field { pointer: pointer.into() };
    let pointer = "/rbacBindings/*/roleBindings/*/namespaceSelector".into();
    let accounts = ReferencePath::new("/rbacBindings/*/subjects/*", "/name").namespace("/namespace");
    Watch::of(API_VERSION, KIND)
        .predicate(Predicate::Generation)
        .index("namespaces", field("/rbacBindings/*/roleBindings/*/namespace"))
        .index("account-namespaces", field("/rbacBindings/*/subjects/*/namespace"))
        .index("selectors", IndexSource::Selector { pointer, form: SelectorForm::LabelSelector })
        .index("accounts", IndexSource::Reference(accounts))
}

/// The bindings that come from definitions. The server leaves out all others.
fn bindings(kind: &str) -> Watch {
    Watch::of(RBAC_VERSION, kind).labels(format!("{}={}", LABEL.0, LABEL.1)).index(OWNER_INDEX, owners())
}

/// All service accounts, because a definition may name any, but only the fields that the plugin manages.
fn service_accounts() -> Watch {
    let settings = ["/imagePullSecrets", "/automountServiceAccountToken"];
    let watched = ["/metadata/labels", "/metadata/annotations", "/metadata/ownerReferences"];
    Watch::of("v1", "ServiceAccount")
        .projection(Projection::Fields { pointers: settings.map(Into::into).to_vec() })
        .predicate(Predicate::Fields { pointers: settings.iter().chain(&watched).map(|it| (*it).into()).collect() })
        .index(OWNER_INDEX, owners())
}

fn namespaces() -> Watch {
    Watch::of("v1", "Namespace").projection(Projection::Metadata).predicate(Predicate::Labels)
}

fn owners() -> IndexSource {
    IndexSource::Field { pointer: "/metadata/ownerReferences/*/uid".into() }
}
