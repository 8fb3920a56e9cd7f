//! The built-in kinds: their discovery entries, and a few more facts. `defaults`, `validation` and `table` define how
//! objects of these kinds are treated.

use crate::resources::resource::{GroupResource, ResourceType, ScalePaths, Subresource};

/// The resource under which Events are stored, whichever of their two groups is used to write them.
pub(crate) fn event_storage() -> GroupResource {
    GroupResource::new("", "events")
}

pub(crate) fn pods() -> GroupResource {
    GroupResource::new("", "pods")
}

pub(crate) fn namespaces() -> GroupResource {
    GroupResource::new("", "namespaces")
}

pub(crate) fn services() -> GroupResource {
    GroupResource::new("", "services")
}

pub(crate) fn custom_resource_definitions() -> GroupResource {
    GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions")
}

/// The Kubernetes version of the built-in kinds.
pub(crate) const KUBERNETES: &str = include_str!("../../kubernetes/version.txt");

/// The discovery entries of a real server, one resource per line. `tools/schemas/resources.go` writes them.
const DISCOVERY: &str = include_str!("../../kubernetes/resources.txt");

/// Resources in these discovery entries that this server does not serve.
const ABSENT: [(&str, &str); 1] = [("v1", "bindings")];

/// The resources whose new objects get `metadata.generation`.
const WITH_GENERATION: &[&str] = &[
    "cronjobs.batch",
    "customresourcedefinitions.apiextensions.k8s.io",
    "daemonsets.apps",
    "deployments.apps",
    "endpointslices.discovery.k8s.io",
    "flowschemas.flowcontrol.apiserver.k8s.io",
    "ingressclasses.networking.k8s.io",
    "ingresses.networking.k8s.io",
    "jobs.batch",
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "networkpolicies.networking.k8s.io",
    "poddisruptionbudgets.policy",
    "pods",
    "podtemplates",
    "priorityclasses.scheduling.k8s.io",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
    "replicasets.apps",
    "replicationcontrollers",
    "resourceslices.resource.k8s.io",
    "statefulsets.apps",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
];

/// The resources whose updates must name the resource version that they replace.
const VERSIONED_UPDATES: &[&str] = &[
    "apiservices.apiregistration.k8s.io",
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "csistoragecapacities.storage.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "leases.coordination.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "poddisruptionbudgets.policy",
    "runtimeclasses.node.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "volumeattachments.storage.k8s.io",
];

/// The resources for which a PUT creates the object if it does not exist.
const CREATED_ON_UPDATE: &[&str] = &[
    "clusterrolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "endpoints",
    "events",
    "events.events.k8s.io",
    "leases.coordination.k8s.io",
    "limitranges",
    "rolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "services",
];

/// The resources for which a DELETE answers with the object instead of a `Status`.
const RETURNED: &[&str] = &[
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "podtemplates",
    "resourcequotas",
    "serviceaccounts",
    "services",
];

/// All built-in resources, in the order of discovery.
pub(crate) fn resources() -> Vec<ResourceType> {
    let lines = DISCOVERY.lines().filter_map(resource);
    lines.filter(|resource| !ABSENT.contains(&(&resource.api_version(), &resource.id.plural))).collect()
}

fn resource(line: &'static str) -> Option<ResourceType> {
    let mut words = line.split(' ');
    let mut next = || words.next();
    let (api_version, plural, kind, type_name) = (next()?, next()?, next()?, next()?);
    let (scope, singular, verbs) = (next()?, next()?, next()?);
    let facts: Vec<(&'static str, &'static str)> = words.filter_map(|word| word.split_once(':')).collect();
    let of = |word: &str| facts.iter().filter(|(found, _)| *found == word).map(|(_, fact)| *fact).collect::<Vec<_>>();
    let owned = |facts: Vec<&str>| facts.into_iter().map(str::to_owned).collect();
    let subresources: Vec<Subresource> = of("sub").into_iter().filter_map(subresource).collect();
    let lists = |name: &str| subresources.iter().any(|subresource| subresource.name == name);

    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let id = GroupResource::new(group, plural);
    let name = id.to_string();
    let is_in = |table: &[&str]| table.contains(&name.as_str());
    Some(ResourceType {
        storage: if plural == "events" { event_storage() } else { id.clone() },
        version: version.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        singular: singular.to_owned(),
        short_names: owned(of("short")),
        categories: owned(of("category")),
        namespaced: scope == "Namespaced",
        has_status: lists("status"),
        scale: lists("scale").then(|| scale(group)),
        has_generation: is_in(WITH_GENERATION),
        unconditional_update: !is_in(VERSIONED_UPDATES),
        create_on_update: is_in(CREATED_ON_UPDATE),
        verbs: verbs.split(',').map(str::to_owned).collect(),
        returns_deleted: is_in(RETURNED),
        type_name,
        storage_hash: facts
            .iter()
            .find(|(word, _)| *word == "hash")
            .map_or_else(String::new, |(_, hash)| (*hash).to_owned()),
        custom: None,
        id,
        subresources,
    })
}

/// Parses a subresource such as `scale:autoscaling/v1:Scale:io.k8s.api.autoscaling.v1.Scale:get,patch,update`.
fn subresource(fact: &str) -> Option<Subresource> {
    let mut parts = fact.split(':');
    let (name, api_version, kind, type_name, verbs) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Some(Subresource {
        name: name.to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        type_name: type_name.to_owned(),
        verbs: verbs.split(',').map(str::to_owned).collect(),
    })
}

/// The paths of a scale subresource. In the core group, that of replication controllers, there is no path of the
/// selector, because it is a plain map.
fn scale(group: &str) -> ScalePaths {
    ScalePaths {
        spec_replicas: "spec.replicas".to_owned(),
        status_replicas: "status.replicas".to_owned(),
        label_selector: (!group.is_empty()).then(|| "spec.selector".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::typed;

    #[test]
    fn every_line_of_discovery_is_a_resource_with_a_type() {
        assert_eq!(DISCOVERY.lines().filter_map(resource).count(), DISCOVERY.lines().count());
        for resource in resources() {
            assert!(typed::entry(resource.type_name).is_some(), "{}: {:?}", resource.id, resource.type_name);
        }
    }

    #[test]
    fn the_tables_name_resources_that_exist() {
        let names: Vec<String> = resources().iter().map(|resource| resource.id.to_string()).collect();
        for name in [WITH_GENERATION, VERSIONED_UPDATES, CREATED_ON_UPDATE, RETURNED].concat() {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
    }
}
