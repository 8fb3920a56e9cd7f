//! The schemas of an OpenAPI document.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::object;
use crate::resources::resource::ResourceType;
use crate::schema::typed;

/// The schemas of these resources and of all that they refer to.
pub(super) fn of_resources(resources: &[&Arc<ResourceType>]) -> Map<String, Value> {
    let mut found = Map::new();
    let mut wanted: Vec<String> = Vec::new();
    for resource in resources {
        if let Some(custom) = &resource.custom {
            let openapi = custom.openapi(&resource.version);
            found.extend(openapi.map(|openapi| (name(resource), of_definition(resource, openapi))));
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

/// The name of a kind's schema: groups reversed, as the real names are.
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

fn of_definition(resource: &ResourceType, openapi: &Value) -> Value {
    let mut schema = openapi.clone();
    let properties = object::map_mut(&mut schema, "properties");
    let metadata = json!({ "allOf": [{ "$ref": format!("#/components/schemas/{}", typed::METADATA) }] });
    properties.insert("metadata".to_owned(), metadata);
    for name in ["apiVersion", "kind"] {
        properties.entry(name).or_insert_with(|| json!({ "type": "string" }));
    }
    schema["x-kubernetes-group-version-kind"] = json!([kind_extension(resource)]);
    schema
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

/// Rewrites a schema in the older form: references stand alone, there are no alternatives, and zero defaults are not said.
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
                // A property may have such a name.
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
