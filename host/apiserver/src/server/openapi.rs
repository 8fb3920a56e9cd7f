//! OpenAPI v3 documents, as far as clients act on them: the paths with the query parameters that kubectl looks for before
//! it leaves validation to the server, and the schemas of custom resources for `kubectl explain`.
//!
//! Built-ins have no field schemas here, and no strategic-merge media type in their PATCH: kubectl then computes
//! strategic merges with the types compiled into it, which know more.

use serde_json::{Map, Value, json};

use crate::resources::registry::Registry;
use crate::resources::resource::{ResourceType, group_version};

/// `/openapi/v3`: where the document of each version is.
pub(crate) fn index(registry: &Registry, revision: u64) -> Value {
    let mut paths = Map::new();
    for group in registry.groups() {
        for version in &group.versions {
            let path = version_path(group.name, version);
            // Clients cache a document under its hash, so a changed CRD must change it.
            let url = format!("/openapi/v3/{path}?hash={revision}");
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
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for resource in resources {
        let schema = schema_name(resource);
        let prefix = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
        let collection = format!("/{}/{prefix}{}", version_path(group, version), resource.id.plural);
        paths.insert(collection.clone(), collection_path(resource, &schema));
        if !resource.create_only {
            paths.insert(format!("{collection}/{{name}}"), object_path(resource, &schema));
        }
        schemas.insert(schema, object_schema(resource));
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": "Windlass embedded API server", "version": group_version(group, version) },
        "paths": paths,
        "components": { "schemas": schemas },
    }))
}

/// `/openapi/v2`, for clients that only ask whether it is there.
pub(crate) fn v2() -> Value {
    json!({
        "swagger": "2.0",
        "info": { "title": "Windlass embedded API server", "version": "v1" },
        "paths": {},
        "definitions": {},
    })
}

fn version_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Groups reversed, as the real names are: `io.k8s.apps.v1.Deployment`.
fn schema_name(resource: &ResourceType) -> String {
    let group = if resource.id.group.is_empty() { "core" } else { &resource.id.group };
    let reversed: Vec<&str> = group.split('.').rev().collect();
    format!("{}.{}.{}", reversed.join("."), resource.version, resource.kind)
}

fn kind_extension(resource: &ResourceType) -> Value {
    json!({ "group": resource.id.group, "version": resource.version, "kind": resource.kind })
}

fn query_parameter(name: &str) -> Value {
    json!({ "name": name, "in": "query", "schema": { "type": "string", "uniqueItems": true } })
}

fn content(media: &[&str], schema: &str) -> Value {
    let reference = json!({ "schema": { "$ref": format!("#/components/schemas/{schema}") } });
    media.iter().map(|&media| (media.to_owned(), reference.clone())).collect::<Map<_, _>>().into()
}

fn operation(resource: &ResourceType, schema: &str, action: &str, body: &[&str], parameters: &[&str]) -> Value {
    let mut operation = json!({
        "parameters": parameters.iter().map(|name| query_parameter(name)).collect::<Vec<_>>(),
        "responses": { "200": { "description": "OK", "content": content(&["application/json"], schema) } },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": kind_extension(resource),
    });
    if !body.is_empty() {
        operation["requestBody"] = json!({ "content": content(body, schema), "required": true });
    }
    operation
}

const WRITE_PARAMETERS: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];

fn collection_path(resource: &ResourceType, schema: &str) -> Value {
    let post = operation(resource, schema, "post", &["application/json", "application/yaml"], &WRITE_PARAMETERS);
    if resource.create_only {
        return json!({ "post": post });
    }
    let list =
        operation(resource, schema, "list", &[], &["labelSelector", "fieldSelector", "limit", "continue", "watch"]);
    json!({ "get": list, "post": post })
}

fn object_path(resource: &ResourceType, schema: &str) -> Value {
    let patches = ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
    let with_force: Vec<&str> = WRITE_PARAMETERS.into_iter().chain(["force"]).collect();
    json!({
        "get": operation(resource, schema, "get", &[], &[]),
        "put": operation(resource, schema, "put", &["application/json", "application/yaml"], &WRITE_PARAMETERS),
        "patch": operation(resource, schema, "patch", &patches, &with_force),
        "delete": operation(resource, schema, "delete", &[], &["dryRun", "propagationPolicy"]),
    })
}

fn object_schema(resource: &ResourceType) -> Value {
    let mut schema = match &resource.custom {
        Some(custom) => custom.openapi.clone(),
        None => json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
    };
    let properties = crate::object::map_mut(&mut schema, "properties");
    for (name, kind) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
        properties.entry(name).or_insert_with(|| json!({ "type": kind }));
    }
    schema["x-kubernetes-group-version-kind"] = json!([kind_extension(resource)]);
    schema
}
