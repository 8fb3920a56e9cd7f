//! OpenAPI documents. They have the schemas that a real server publishes for built-in kinds, and the schemas of custom
//! resources. Their paths have the query parameters by which kubectl recognizes that the server validates fields.
//!
//! The documents are built at each request. Requests are rare, because clients cache the documents by hash.

mod binary;
mod paths;
mod schemas;

use serde_json::{Map, Value, json};

use crate::resources::builtin::KUBERNETES;
use crate::resources::registry::Registry;
use schemas::Edition;

/// The document at `/openapi/v3`: the paths of the documents, one per version.
pub(crate) fn index(registry: &Registry, revision: u64) -> Value {
    let mut paths = Map::new();
    for group in registry.groups() {
        for version in &group.versions {
            let path = paths::of_version(group.name, version);
            // Clients cache a document by its hash, so the hash must change with the definition. Built-in groups do not
            // change.
            let is_custom = registry.in_version(group.name, version).iter().any(|found| found.custom.is_some());
            let hash = if is_custom { revision.to_string() } else { KUBERNETES.trim().to_owned() };
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, json!({ "serverRelativeURL": url }));
        }
    }
    json!({ "paths": paths })
}

/// The document of one version.
pub(crate) fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let resources = registry.in_version(group, version);
    if resources.is_empty() {
        return None;
    }
    let paths: Map<String, Value> = resources.iter().flat_map(|resource| paths::of_resource(resource)).collect();
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": "unversioned" },
        "paths": paths,
        "components": { "schemas": schemas::of_resources(&resources, Edition::V3) },
    }))
}

/// The media type of [`v2_as_protobuf`].
pub(crate) const V2_PROTOBUF_MEDIA: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The document at `/openapi/v2`, in the encoding that client-go requests.
pub(crate) fn v2_as_protobuf(registry: &Registry) -> Vec<u8> {
    binary::document(&v2(registry))
}

/// The document at `/openapi/v2`: the schemas of all versions in the older form. Its paths only show which kinds exist.
pub(crate) fn v2(registry: &Registry) -> Value {
    let resources: Vec<_> = registry.all().collect();
    let definitions: Map<String, Value> = schemas::of_resources(&resources, Edition::V2)
        .into_iter()
        .map(|(name, mut schema)| {
            schemas::to_v2(&mut schema);
            (name, schema)
        })
        .collect();
    let paths: Map<String, Value> = resources.iter().flat_map(|resource| paths::of_kind(resource)).collect();
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": KUBERNETES.trim() },
        "paths": paths,
        "definitions": definitions,
    })
}
