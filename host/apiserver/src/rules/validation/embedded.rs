//! Validates the type and metadata of resources that are embedded in custom resources, even if a write does not change
//! them.

use serde_json::{Map, Value, json};

use super::metadata::{labels_and_annotations, owner_references};
use crate::cause::Cause;
use crate::object::{self, names};
use crate::schema::{Mark, Node, below, decoded_metadata};

/// Appends the errors of the resources embedded in the value at `path`.
pub(super) fn check(node: &Node, value: &Value, path: &str, found: &mut Vec<Cause>) {
    match value {
        Value::Object(fields) => {
            if node.is(Mark::EmbeddedResource) {
                resource(fields, path, found);
            }
            for (name, field) in fields {
                if let Some(property) = node.properties.get(name) {
                    check(property, field, &below(path, name), found);
                } else if let Some(below) = node.additional.node() {
                    check(below, field, &format!("{path}[{name}]"), found);
                }
            }
        }
        Value::Array(list) => {
            let Some(items) = &node.items else { return };
            for (index, item) in list.iter().enumerate() {
                check(items, item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn resource(fields: &Map<String, Value>, path: &str, found: &mut Vec<Cause>) {
    for name in ["apiVersion", "kind"] {
        let at = below(path, name);
        let Some(value) = fields.get(name) else {
            found.push(Cause::required(at, ""));
            continue;
        };
        let why = match value.as_str() {
            None => "must be a string".to_owned(),
            Some("") => "must not be empty".to_owned(),
            Some(version) if name == "apiVersion" => match version.matches('/').count() {
                0 | 1 => continue,
                _ => format!("unexpected GroupVersion string: {version}"),
            },
            Some(kind) => match names::check_dns_1035_label(&kind.to_lowercase()) {
                Ok(()) => continue,
                Err(why) => format!("may have mixed case, but should otherwise match: {why}"),
            },
        };
        found.push(Cause::invalid(at, value, &why));
    }
    if let Some(given) = fields.get("metadata") {
        metadata(given, &below(path, "metadata"), found);
    }
}

fn metadata(given: &Value, at: &str, found: &mut Vec<Cause>) {
    let metadata = match decoded_metadata(given) {
        Ok((metadata, _)) => metadata,
        Err(error) => return found.push(Cause::invalid(at, given, &error.to_string())),
    };
    let resource = json!({ "metadata": metadata });
    let (name, namespace) = (object::name(&resource), object::namespace(&resource));
    if !name.is_empty()
        && let Err(why) = names::check_path_segment(name)
    {
        found.push(Cause::invalid(format!("{at}.name"), &json!(name), &why));
    }
    if !namespace.is_empty()
        && let Err(why) = names::check_dns_label(namespace)
    {
        found.push(Cause::invalid(format!("{at}.namespace"), &json!(namespace), &why));
    }
    labels_and_annotations(&resource, at, found);
    owner_references(&resource, at, found);
}
