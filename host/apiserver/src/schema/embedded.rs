//! Checks embedded resources: `apiVersion` and `kind` must be strings, and `metadata` must have the same type as in any
//! object.
//!
//! Follows `apiextensions-apiserver/pkg/apiserver/schema/objectmeta/coerce.go`.

use serde_json::{Map, Value, json};

use super::typed::{self, TypeError};
use super::{Mark, Node, below};
use crate::cause::Cause;

/// How to treat a value of the wrong type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// The value is refused. This applies to writes.
    Refused,
    /// The value is dropped. This applies to reads, because the value may have been stored without a check.
    Dropped,
}

/// Whether a value with this schema contains an embedded resource.
pub(super) fn is_in(node: &Node) -> bool {
    let below = node.properties.values().chain(node.additional.node()).chain(node.items.as_deref());
    node.is(Mark::EmbeddedResource) || below.into_iter().any(is_in)
}

/// Normalizes embedded resources, and returns the unknown fields in their metadata.
pub(super) fn coerce(root: &Node, object: &mut Value, malformed: Malformed) -> Result<Vec<String>, Cause> {
    let mut coercion = Coercion { unknown: Vec::new(), malformed };
    coercion.visit(root, object, "")?;
    coercion.unknown.sort();
    Ok(coercion.unknown)
}

struct Coercion {
    unknown: Vec<String>,
    malformed: Malformed,
}

impl Coercion {
    fn visit(&mut self, node: &Node, value: &mut Value, path: &str) -> Result<(), Cause> {
        match value {
            Value::Object(fields) => {
                if node.is(Mark::EmbeddedResource) {
                    self.coerce_type(fields, path)?;
                    self.coerce_metadata(fields, path)?;
                }
                for (name, field) in fields.iter_mut() {
                    if let Some(property) = node.properties.get(name) {
                        self.visit(property, field, &below(path, name))?;
                    } else if let Some(below) = node.additional.node() {
                        self.visit(below, field, &format!("{path}[{name}]"))?;
                    }
                }
            }
            Value::Array(list) => {
                let Some(items) = &node.items else { return Ok(()) };
                for (index, item) in list.iter_mut().enumerate() {
                    self.visit(items, item, &format!("{path}[{index}]"))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn coerce_type(&self, resource: &mut Map<String, Value>, path: &str) -> Result<(), Cause> {
        for name in ["apiVersion", "kind"] {
            match resource.get(name) {
                None | Some(Value::String(_)) => {}
                Some(other) if self.malformed == Malformed::Refused => {
                    return Err(Cause::invalid(below(path, name), other, "must be a string"));
                }
                Some(_) => {
                    resource.remove(name);
                }
            }
        }
        Ok(())
    }

    fn coerce_metadata(&mut self, resource: &mut Map<String, Value>, path: &str) -> Result<(), Cause> {
        let Some(given) = resource.get("metadata") else { return Ok(()) };
        let path = below(path, "metadata");
        let (metadata, unknown) = match (decoded(given), self.malformed) {
            (Ok(decoded), _) => decoded,
            (Err(error), Malformed::Refused) => return Err(Cause::invalid(path, given, &error.to_string())),
            (Err(_), Malformed::Dropped) => {
                let Some(fields) = given.as_object() else { return Ok(()) };
                (well_formed(fields), Vec::new())
            }
        };
        self.unknown.extend(unknown.iter().map(|field| below(&path, field)));
        resource.insert("metadata".to_owned(), metadata);
        Ok(())
    }
}

/// Decodes metadata like its Go type. Also returns the unknown fields.
pub(crate) fn decoded(metadata: &Value) -> Result<(Value, Vec<String>), TypeError> {
    let mut decoded = if metadata.is_null() { json!({}) } else { metadata.clone() };
    let unknown = typed::decode_metadata(&mut decoded)?;
    Ok((decoded, unknown))
}

/// Only those fields that have the right type.
fn well_formed(fields: &Map<String, Value>) -> Value {
    let mut kept = Map::new();
    for (name, field) in fields {
        if let Ok((Value::Object(field), _)) = decoded(&json!({ name: field })) {
            kept.extend(field);
        }
    }
    Value::Object(kept)
}
