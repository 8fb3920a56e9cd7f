//! The schemas of an OpenAPI document.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::object;
use crate::resources::resource::ResourceType;
use crate::schema::typed;

/// The version of OpenAPI that a document uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edition {
    V2,
    V3,
}

/// The descriptions of `apiVersion` and `kind` in `metav1.TypeMeta`. A custom resource always has these, whatever its
/// definition contains.
const TYPE_META: [(&str, &str); 2] = [
    (
        "apiVersion",
        "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized \
         schemas to the latest internal value, and may reject unrecognized values. More info: \
         https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
    ),
    (
        "kind",
        "Kind is a string value representing the REST resource this object represents. Servers may infer this from the \
         endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
         https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
    ),
];

/// The descriptions of the same fields in an embedded resource.
const EMBEDDED_TYPE_META: [(&str, &str); 2] = [
    (
        "apiVersion",
        "apiVersion defines the versioned schema of this representation of an object. More info: \
         https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
    ),
    (
        "kind",
        "kind is a string value representing the type of this object. In CamelCase. More info: \
         https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
    ),
];

const METADATA_TEXT: &str = "Standard object's metadata. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// The schemas of these resources, and all schemas to which they refer.
pub(super) fn of_resources(resources: &[&Arc<ResourceType>], edition: Edition) -> Map<String, Value> {
    let mut found = Map::new();
    let mut wanted: Vec<String> = Vec::new();
    for resource in resources {
        if let Some(custom) = &resource.custom {
            let openapi = custom.openapi(&resource.version);
            found.extend(openapi.map(|openapi| (name(resource), of_definition(resource, openapi, edition))));
            wanted.push(typed::METADATA.to_owned());
        } else {
            wanted.extend([resource.type_name.to_owned(), format!("{}List", resource.type_name)]);
            wanted.extend(resource.subresources.iter().map(|subresource| subresource.type_name.clone()));
        }
    }
    while let Some(name) = wanted.pop() {
        let Some(entry) = typed::entry(&name).filter(|_| !found.contains_key(&name)) else { continue };
        let schema = typed::openapi(entry);
        collect_references(&schema, &mut wanted);
        found.insert(name, schema);
    }
    found
}

/// The name of a kind's schema. As on a real server, it has the labels of the group in reverse order.
pub(super) fn name(resource: &ResourceType) -> String {
    if !resource.type_name.is_empty() {
        return resource.type_name.to_owned();
    }
    let reversed: Vec<&str> = resource.id.group.split('.').rev().collect();
    format!("{}.{}.{}", reversed.join("."), resource.version, resource.kind)
}

pub(super) fn kind_extension(resource: &ResourceType) -> Value {
    json!({ "group": resource.id.group, "version": resource.version, "kind": resource.kind })
}

/// The schema of a custom resource, like `buildKubeNative` in
/// `apiextensions-apiserver/pkg/controller/openapi/builder/builder.go`.
fn of_definition(resource: &ResourceType, openapi: &Value, edition: Edition) -> Value {
    let mut schema = if edition == Edition::V2 && openapi[PRESERVE] == true {
        // Only the type: with more, kubectl would report fields that the schema does not declare.
        json!({ "type": "object" })
    } else {
        let mut schema = openapi.clone();
        add_object_fields(&mut schema, &TYPE_META);
        add_to_embedded(&mut schema, edition);
        schema
    };
    schema["x-kubernetes-group-version-kind"] = json!([kind_extension(resource)]);
    schema
}

fn add_object_fields(schema: &mut Value, type_meta: &[(&str, &str)]) {
    let properties = object::map_mut(schema, "properties");
    let reference = json!([{ "$ref": format!("#/components/schemas/{}", typed::METADATA) }]);
    properties.insert("metadata".to_owned(), json!({ "allOf": reference, "description": METADATA_TEXT }));
    for (name, text) in type_meta {
        properties.insert((*name).to_owned(), json!({ "type": "string", "description": text }));
    }
}

/// Adds the fields of an object to embedded resources, like `addEmbeddedProperties` in the same file.
fn add_to_embedded(schema: &mut Value, edition: Edition) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flatten().for_each(|(_, property)| add_to_embedded(property, edition));
    for part in ["items", "additionalProperties"] {
        if let Some(part) = schema.get_mut(part).filter(|part| part.is_object()) {
            add_to_embedded(part, edition);
        }
    }
    let is_open = edition == Edition::V2 && schema[PRESERVE] == true;
    if is_open || schema["x-kubernetes-embedded-resource"] != true {
        return;
    }
    add_object_fields(schema, &EMBEDDED_TYPE_META);
    let mut required: Vec<Value> = schema["required"].as_array().cloned().unwrap_or_default();
    for name in ["kind", "apiVersion"] {
        if !required.contains(&json!(name)) {
            required.push(json!(name));
        }
    }
    schema["required"] = json!(required);
}

fn collect_references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            let reference = fields.get("$ref").and_then(Value::as_str);
            found.extend(reference.and_then(|name| name.rsplit('/').next()).map(str::to_owned));
            fields.values().for_each(|field| collect_references(field, found));
        }
        Value::Array(list) => list.iter().for_each(|item| collect_references(item, found)),
        _ => {}
    }
}

/// Rewrites a schema for OpenAPI v2: unwraps references from `allOf`, and removes alternatives and defaults.
pub(super) fn to_v2(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let wrapped = fields.get("allOf").and_then(|all| all.pointer("/0/$ref")).cloned();
            if let Some(reference) = wrapped {
                fields.remove("allOf");
                fields.insert("$ref".to_owned(), reference);
            }
            if let Some(Value::String(reference)) = fields.get_mut("$ref") {
                *reference = reference.replace("#/components/schemas/", "#/definitions/");
            }
            if fields.remove("oneOf").is_some() {
                fields.insert("type".to_owned(), json!("string"));
            }
            for keyword in ["anyOf", "not", "nullable", "default"] {
                // An object here is not the keyword, but a property with the same name.
                if fields.get(keyword).is_some_and(|value| keyword == "default" || !value.is_object()) {
                    fields.remove(keyword);
                }
            }
            fields.values_mut().for_each(to_v2);
        }
        Value::Array(list) => list.iter_mut().for_each(to_v2),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_embedded_resource_has_the_fields_of_an_object() {
        let embedded =
            json!({ "type": "object", "x-kubernetes-embedded-resource": true, "required": ["kind", "spec"] });
        let mut schema =
            json!({ "properties": { "template": embedded, "open": embedded, "plain": { "type": "object" } } });
        schema["properties"]["open"][PRESERVE] = json!(true);
        add_to_embedded(&mut schema, Edition::V2);
        let properties = &schema["properties"];
        assert_eq!(properties["template"]["required"], json!(["kind", "spec", "apiVersion"]));
        assert_eq!(properties["template"]["properties"]["metadata"]["description"], METADATA_TEXT);
        assert!(properties["plain"]["properties"].is_null());
        assert!(properties["open"]["properties"].is_null(), "kubectl would refuse its other fields");
    }
}
