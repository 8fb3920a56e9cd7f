//! Discovery documents, which list groups, versions and resources. There are unaggregated documents, one per version,
//! and aggregated ones. They are built from the registry at each request, so the resource of a new CRD appears at once.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::request::media::DiscoveryVersion;
use crate::resources::registry::{Group, Registry};
use crate::resources::resource::{ResourceType, Subresource, group_version};

/// The version of Kubernetes whose API and behaviour this server has.
pub(crate) const KUBERNETES_MINOR: &str = "36";

pub(crate) fn version() -> Value {
    json!({
        "major": "1",
        "minor": KUBERNETES_MINOR,
        "gitVersion": format!("v1.{KUBERNETES_MINOR}.0+windlass"),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// The document at `/api`.
pub(crate) fn core_versions(address: SocketAddr) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": address.to_string() }],
    })
}

/// The document at `/apis`.
pub(crate) fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> =
        registry.groups().iter().filter(|group| !group.name.is_empty()).map(group_document).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// The document at `/apis/<group>`.
pub(crate) fn group(registry: &Registry, name: &str) -> Option<Value> {
    let groups = registry.groups();
    let found = groups.iter().find(|group| group.name == name && !name.is_empty())?;
    let mut document = group_document(found);
    document["kind"] = json!("APIGroup");
    document["apiVersion"] = json!("v1");
    Some(document)
}

fn group_document(group: &Group) -> Value {
    let version = |version: &&str| json!({ "groupVersion": group_version(group.name, version), "version": version });
    let versions: Vec<Value> = group.versions.iter().map(version).collect();
    json!({ "name": group.name, "versions": versions, "preferredVersion": versions.first() })
}

/// The document at `/api/v1` or `/apis/<group>/<version>`.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let found = registry.in_version(group, version);
    if found.is_empty() {
        return None;
    }
    let resources: Vec<Value> = found.into_iter().flat_map(resource_documents).collect();
    let mut document = json!({
        "kind": "APIResourceList",
        "groupVersion": group_version(group, version),
        "resources": resources,
    });
    // Unlike the document of the core group, those of other groups have an `apiVersion`.
    if !group.is_empty() {
        document["apiVersion"] = json!("v1");
    }
    Some(document)
}

fn resource_documents(resource: &Arc<ResourceType>) -> Vec<Value> {
    let mut main = json!({
        "name": resource.id.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        main["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        main["categories"] = json!(resource.categories);
    }
    if !resource.storage_hash.is_empty() {
        main["storageVersionHash"] = json!(resource.storage_hash);
    }
    let mut documents = vec![main];
    for subresource in &resource.subresources {
        let mut document = json!({
            "name": format!("{}/{}", resource.id.plural, subresource.name),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": subresource.kind,
            "verbs": subresource.verbs,
        });
        if (&subresource.group, &subresource.version) != (&resource.id.group, &resource.version) {
            document["group"] = json!(subresource.group);
            document["version"] = json!(subresource.version);
        }
        documents.push(document);
    }
    documents
}

/// The aggregated document of the core group (`/api`) or of all other groups (`/apis`).
pub(crate) fn aggregated(registry: &Registry, core: bool, version: DiscoveryVersion) -> Value {
    let items: Vec<Value> = registry
        .groups()
        .iter()
        .filter(|group| group.name.is_empty() == core)
        .map(|group| aggregated_group(registry, group))
        .collect();
    let api_version = match version {
        DiscoveryVersion::V2 => "apidiscovery.k8s.io/v2",
        DiscoveryVersion::V2Beta1 => "apidiscovery.k8s.io/v2beta1",
    };
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {}, "items": items })
}

fn aggregated_group(registry: &Registry, group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> =
                registry.in_version(group.name, version).into_iter().map(|found| aggregated_resource(found)).collect();
            json!({ "version": version, "freshness": "Current", "resources": resources })
        })
        .collect();
    let metadata = if group.name.is_empty() { json!({}) } else { json!({ "name": group.name }) };
    json!({ "metadata": metadata, "versions": versions })
}

fn aggregated_resource(resource: &ResourceType) -> Value {
    let own_kind = |kind: &str| json!({ "group": resource.id.group, "version": resource.version, "kind": kind });
    let subresources: Vec<Value> = resource
        .subresources
        .iter()
        .map(|Subresource { name, group, version, kind, verbs, .. }| {
            let kind = json!({ "group": group, "version": version, "kind": kind });
            json!({ "subresource": name, "responseKind": kind, "verbs": verbs })
        })
        .collect();
    let mut document = json!({
        "resource": resource.id.plural,
        "responseKind": own_kind(&resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        document["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        document["categories"] = json!(resource.categories);
    }
    if !subresources.is_empty() {
        document["subresources"] = json!(subresources);
    }
    document
}
