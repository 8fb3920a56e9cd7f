//! Defaults and prunes objects, which the server does before it validates them.
//!
//! Follows `apiextensions-apiserver/pkg/apiserver/schema/{defaulting,pruning}`.

use serde_json::{Map, Value};

use super::{Additional, Mark, Node};

/// Drops null fields that may not be null, unless a default replaces them, like `prunenulls.go`. Null items of lists
/// stay.
pub(super) fn drop_forbidden_nulls(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|name, field| {
            let Some(below) = node.properties.get(name).or_else(|| node.additional.node()) else { return true };
            if field.is_null() {
                return below.is(Mark::Nullable) || below.default.is_some();
            }
            drop_forbidden_nulls(below, field);
            true
        }),
        Value::Array(list) => {
            let Some(items) = &node.items else { return };
            for item in list {
                drop_forbidden_nulls(items, item);
            }
        }
        _ => {}
    }
}

/// Fills in defaults from the top down: if a default is an object, its own missing fields get defaults, too
/// (`algorithm.go`). A null that the schema forbids counts as missing.
pub(super) fn fill_defaults(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, property) in node.properties.iter() {
                if let Some(default) = &property.default
                    && fields.get(name).is_none_or(|field| field.is_null() && !property.is(Mark::Nullable))
                {
                    fields.insert(name.to_owned(), default.clone());
                }
            }
            for (name, field) in fields.iter_mut() {
                match (node.properties.get(name), node.additional.node()) {
                    (Some(below), _) => fill_defaults(below, field),
                    (None, Some(below)) => fill_place(below, field),
                    (None, None) => {}
                }
            }
        }
        Value::Array(list) => {
            let Some(items) = &node.items else { return };
            for item in list {
                fill_place(items, item);
            }
        }
        _ => {}
    }
}

/// Fills in defaults in an item of a list, or in a field that the schema does not declare.
fn fill_place(node: &Node, value: &mut Value) {
    if let (Value::Null, Some(default), false) = (&*value, &node.default, node.is(Mark::Nullable)) {
        *value = default.clone();
    }
    fill_defaults(node, value);
}

/// Removes unknown fields. Returns their paths in the order of the object.
pub(super) fn prune(root: &Node, object: &mut Value) -> Vec<String> {
    let mut pruner = Pruner { removed: Vec::new(), path: String::new() };
    pruner.visit(root, object, true);
    pruner.removed
}

struct Pruner {
    removed: Vec<String>,
    /// The current path, such as `spec.list[0].name`.
    path: String,
}

impl Pruner {
    fn visit(&mut self, node: &Node, value: &mut Value, is_resource: bool) {
        match value {
            Value::Object(fields) => self.visit_object(node, fields, is_resource),
            Value::Array(list) => {
                let Some(items) = &node.items else { return };
                for (index, item) in list.iter_mut().enumerate() {
                    self.below(&format!("[{index}]"), |pruner| {
                        pruner.visit(items, item, items.is(Mark::EmbeddedResource));
                    });
                }
            }
            _ => {}
        }
    }

    fn visit_object(&mut self, node: &Node, fields: &mut Map<String, Value>, is_resource: bool) {
        let keeps_unknown = node.is(Mark::PreserveUnknown) || matches!(node.additional, Additional::Anything);
        fields.retain(|name, field| {
            if is_resource && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
                return true;
            }
            let known = node.properties.get(name).or_else(|| node.additional.node());
            let segment = if self.path.is_empty() { name.clone() } else { format!(".{name}") };
            self.below(&segment, |pruner| match known {
                Some(known) => {
                    pruner.visit(known, field, known.is(Mark::EmbeddedResource));
                    true
                }
                None if keeps_unknown => true,
                None => {
                    pruner.removed.push(pruner.path.clone());
                    false
                }
            })
        });
    }

    fn below<T>(&mut self, segment: &str, visit: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        self.path.push_str(segment);
        let answer = visit(self);
        self.path.truncate(length);
        answer
    }
}
