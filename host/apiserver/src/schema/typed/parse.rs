//! Parses the JSON of a schema into a [`StructType`]. The files belong to this crate, so a schema that is not
//! understood is not an error: it allows any value.

use serde_json::Value;

use super::{Field, PatchStrategy, StructType, ValueShape, Zero, entry};
use crate::object::{is_go_zero, text};
use crate::schema::ListKind;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const DEFINITIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";

pub(super) fn struct_type(name: &'static str, json: &str) -> StructType {
    let schema: Value = serde_json::from_str(json).unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object);
    StructType {
        go: name.rsplit('.').next().unwrap_or(name),
        fields: properties.into_iter().flatten().map(|(name, schema)| (name.clone(), field(schema))).collect(),
        is_atomic: is_atomic(&schema) == Some(true),
    }
}

fn field(schema: &Value) -> Field {
    let shape = shape(schema);
    let (letter, go) = text(schema, "/x-go").split_once(' ').unwrap_or_default();
    Field {
        go: go.to_owned(),
        zero: match letter {
            "o" => Zero::Omitted,
            "w" => Zero::Written,
            "n" => Zero::Null,
            _ => Zero::Distinct,
        },
        list: list_kind(schema),
        is_atomic: is_atomic(schema),
        patch: patch(schema),
        default: schema.get("default").filter(|default| !is_go_zero(default)).cloned(),
        shape,
    }
}

fn is_atomic(schema: &Value) -> Option<bool> {
    match text(schema, "/x-kubernetes-map-type") {
        "" => None,
        kind => Some(kind == "atomic"),
    }
}

fn list_kind(schema: &Value) -> ListKind {
    match text(schema, "/x-kubernetes-list-type") {
        "set" => ListKind::Set,
        "map" => {
            let keys = crate::object::strings(schema, "/x-kubernetes-list-map-keys");
            ListKind::Map(keys.into_iter().map(str::to_owned).collect())
        }
        _ => ListKind::Atomic,
    }
}

fn patch(schema: &Value) -> PatchStrategy {
    // `merge,retainKeys` counts as `merge`, because the patch itself lists the keys to retain.
    if !text(schema, "/x-kubernetes-patch-strategy").contains("merge") {
        return PatchStrategy::Replace;
    }
    match text(schema, "/x-kubernetes-patch-merge-key") {
        "" => PatchStrategy::MergeScalars,
        key => PatchStrategy::MergeBy(key.to_owned()),
    }
}

fn shape(schema: &Value) -> ValueShape {
    let reference = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref")).and_then(Value::as_str);
    if let Some(name) = reference.and_then(|reference| reference.rsplit('/').next()) {
        return named(name);
    }
    match (text(schema, "/type"), text(schema, "/format")) {
        ("string", "byte") => ValueShape::Bytes,
        ("string", _) => ValueShape::Text,
        ("boolean", _) => ValueShape::Bool,
        ("integer", "int32") => ValueShape::Int32,
        ("integer", _) => ValueShape::Int64,
        ("number", _) => ValueShape::Float,
        ("array", _) => ValueShape::List(Box::new(schema.get("items").map_or(ValueShape::Any, shape))),
        ("object", _) => schema
            .get("additionalProperties")
            .map_or(ValueShape::Any, |values| ValueShape::Map(Box::new(shape(values)))),
        _ => ValueShape::Any,
    }
}

/// The shape of a type by its name. Some types have a special JSON form.
fn named(name: &str) -> ValueShape {
    match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => return ValueShape::Quantity,
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => return ValueShape::IntOrString,
        "io.k8s.apimachinery.pkg.runtime.RawExtension" => return ValueShape::Any,
        _ => {}
    }
    match (name.strip_prefix(META), name.strip_prefix(DEFINITIONS)) {
        (Some("Time"), _) => ValueShape::Time,
        (Some("MicroTime"), _) => ValueShape::MicroTime,
        (Some("FieldsV1" | "Patch"), _) | (_, Some("")) => ValueShape::Any,
        (_, Some("SchemaPropsOrArray" | "SchemaPropsOrBool" | "SchemaPropsOrStringArray")) => {
            ValueShape::OneOrMany("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
        }
        _ => entry(name).map_or(ValueShape::Any, ValueShape::Struct),
    }
}
