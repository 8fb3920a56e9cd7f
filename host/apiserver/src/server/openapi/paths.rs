//! The paths of an OpenAPI document. Only the parts that clients use are present.

use serde_json::{Map, Value, json};

use super::schemas::{self, kind_extension};
use crate::resources::resource::ResourceType;

/// The path of a version, such as `api/v1` or `apis/apps/v1`.
pub(super) fn of_version(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// The paths of a resource and of its objects.
pub(super) fn of_resource(resource: &ResourceType) -> Vec<(String, Value)> {
    let schema = schemas::name(resource);
    let collection = collection(resource);
    let mut found = vec![(collection.clone(), collection_path(resource, &schema))];
    if !resource.is_review() {
        found.push((format!("{collection}/{{name}}"), object_path(resource, &schema)));
    }
    found
}

/// The path of an object in the older form. It shows that the kind exists.
pub(super) fn of_kind(resource: &ResourceType) -> Vec<(String, Value)> {
    if resource.is_review() {
        return Vec::new();
    }
    let reference = json!({ "$ref": format!("#/definitions/{}", schemas::name(resource)) });
    let get = json!({
        "responses": { "200": { "description": "OK", "schema": reference } },
        "x-kubernetes-action": "get",
        "x-kubernetes-group-version-kind": kind_extension(resource),
    });
    // From the PATCH operation of a kind, kubectl learns whether the server validates fields.
    let parameters: Vec<Value> = PATCH_PARAMETERS
        .iter()
        .map(|name| json!({ "name": name, "in": "query", "type": "string", "uniqueItems": true }))
        .collect();
    let mut patch = get.clone();
    patch["parameters"] = json!(parameters);
    patch["x-kubernetes-action"] = json!("patch");
    vec![(format!("{}/{{name}}", collection(resource)), json!({ "get": get, "patch": patch }))]
}

fn collection(resource: &ResourceType) -> String {
    let prefix = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
    format!("/{}/{prefix}{}", of_version(&resource.id.group, &resource.version), resource.id.plural)
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
const PATCH_PARAMETERS: [&str; 4] = ["dryRun", "fieldManager", "fieldValidation", "force"];

fn collection_path(resource: &ResourceType, schema: &str) -> Value {
    let post = operation(resource, schema, "post", &["application/json", "application/yaml"], &WRITE_PARAMETERS);
    if resource.is_review() {
        return json!({ "post": post });
    }
    let list =
        operation(resource, schema, "list", &[], &["labelSelector", "fieldSelector", "limit", "continue", "watch"]);
    json!({ "get": list, "post": post })
}

fn object_path(resource: &ResourceType, schema: &str) -> Value {
    let mut patches =
        vec!["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
    if resource.custom.is_none() {
        patches.push("application/strategic-merge-patch+json");
    }
    json!({
        "get": operation(resource, schema, "get", &[], &[]),
        "put": operation(resource, schema, "put", &["application/json", "application/yaml"], &WRITE_PARAMETERS),
        "patch": operation(resource, schema, "patch", &patches, &PATCH_PARAMETERS),
        "delete": operation(resource, schema, "delete", &[], &["dryRun", "propagationPolicy"]),
    })
}
