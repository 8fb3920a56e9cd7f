//! A small object of a kind, for an author to begin with.

use serde_json::{Map, Value, json};

use crate::model::{Body, Field, Model, Shape};

/// An object with the type `name`: its `spec`, and its required fields. It has the right shape, but may break rules
/// that a type does not show, such as patterns.
#[must_use]
pub fn sample(model: &Model, name: &str) -> Value {
    let mut object = of_type(model, name);
    let spec = model.structure(name).and_then(|it| it.fields.iter().find(|field| field.key == "spec"));
    if let Some(spec) = spec {
        // Few definitions require `spec`, but an object without it specifies nothing.
        object["spec"] = of_field(model, spec);
    }
    object
}

fn of_type(model: &Model, name: &str) -> Value {
    match model.declaration(name).map(|declaration| &declaration.body) {
        Some(Body::Struct(it)) => {
            let required = it.fields.iter().filter(|field| field.is_required);
            Value::Object(required.map(|field| (field.key.clone(), of_field(model, field))).collect())
        }
        Some(Body::Enumeration(values)) => json!(values.first()),
        None => Value::Null,
    }
}

fn of_field(model: &Model, field: &Field) -> Value {
    field.default.clone().unwrap_or_else(|| of_shape(model, &field.shape))
}

fn of_shape(model: &Model, shape: &Shape) -> Value {
    match shape {
        Shape::Bool => json!(false),
        Shape::Int32 | Shape::Int64 | Shape::Float | Shape::IntOrString => json!(1),
        Shape::Text => json!("example"),
        Shape::Time => json!("2026-01-01T00:00:00Z"),
        Shape::Quantity => json!("1Gi"),
        Shape::List(_) => json!([]),
        Shape::Json | Shape::Map(_) => Value::Object(Map::new()),
        Shape::Nullable(inner) => of_shape(model, inner),
        Shape::Named(name) => of_type(model, name),
    }
}
