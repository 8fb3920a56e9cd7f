//! The keys of a real server's storage: its errors show them, and they count towards the size of its requests.

use crate::request::Target;
use crate::resources::resource::GroupResource;

/// The key of an object in a real server's storage.
pub(super) fn storage_key(prefix: &str, target: &Target, name: &str) -> String {
    let id = &target.resource.id;
    let group = target.resource.custom.as_ref().map(|_| format!("{}/", id.group)).unwrap_or_default();
    let namespace = target.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    format!("{prefix}/{group}{}/{namespace}{name}", storage_folder(id))
}

/// The path of a resource's objects in a real server's storage.
fn storage_folder(id: &GroupResource) -> &str {
    match (id.group.as_str(), id.plural.as_str()) {
        ("", "endpoints") => "services/endpoints",
        ("", "nodes") => "minions",
        ("", "replicationcontrollers") => "controllers",
        ("", "services") => "services/specs",
        ("networking.k8s.io", "ingresses") => "ingress",
        (_, plural) => plural,
    }
}
