//! Finds mistakes in a value for which the set of its fields cannot be computed: values of the wrong type, undeclared
//! fields, and list items without a unique identity.
//!
//! Follows `structured-merge-diff/typed/validate.go`, with the types that `kube-openapi/pkg/schemaconv/openapi.go`
//! derives from a schema. The messages are Go's, including how it prints values.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Set, Step, step_of_item};
use crate::merge::lists::Place;
use crate::object::go_kind;
use crate::schema::typed::ValueShape;
use crate::schema::{Additional, Kind, ListKind, Mark, Node, number_text};

/// Whether an item may occur twice in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubles {
    Refused,
    Allowed,
}

impl Set {
    /// The mistakes in a value, with their places. For a built-in kind, only duplicate items are reported, because
    /// decoding has checked the types.
    pub(crate) fn mistakes(value: &Value, place: Place<'_>, doubles: Doubles) -> Vec<String> {
        let is_custom = matches!(place, Place::Custom { .. });
        let mut search = Search { found: Vec::new(), doubles, is_custom };
        search.visit(value, place, "", false);
        search.found
    }
}

struct Search {
    found: Vec<String>,
    doubles: Doubles,
    /// Whether to check types and undeclared fields.
    is_custom: bool,
}

impl Search {
    /// Checks the value at a place. `is_open` is true below a node that preserves unknown fields: all fields are
    /// allowed.
    fn visit(&mut self, value: &Value, place: Place<'_>, at: &str, is_open: bool) {
        let expected = match place {
            Place::Custom { node, .. } => Expected::of_node(node),
            Place::Builtin { shape, .. } if self.is_custom => Expected::of_shape(shape),
            Place::Builtin { .. } | Place::Unknown => Expected::Anything,
        };
        if let Some(mistake) = expected.mistake(value) {
            self.refuse(at, &mistake);
            return;
        }
        match value {
            Value::Object(fields) => self.visit_map(fields, place, at, is_open),
            Value::Array(items) => self.visit_list(items, place, at, is_open),
            _ => {}
        }
    }

    fn visit_map(&mut self, fields: &Map<String, Value>, place: Place<'_>, at: &str, is_open: bool) {
        // The metadata of an embedded resource has its own type.
        let is_open = match place {
            Place::Custom { node, .. } => is_open || node.is(Mark::PreserveUnknown),
            Place::Builtin { .. } => false,
            Place::Unknown => is_open,
        };
        for (name, field) in fields {
            let at = format!("{at}{}", Step::Field(name.clone()));
            if self.is_custom && !is_open && !may_have(place, name) {
                self.refuse(&at, "field not declared in schema");
            } else {
                self.visit(field, place.field(name), &at, is_open);
            }
        }
    }

    fn visit_list(&mut self, items: &[Value], place: Place<'_>, at: &str, is_open: bool) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            if self.is_custom
                && let Some(mistake) = item_mistake(item, place)
            {
                self.refuse(at, &format!("element {index}: {mistake}"));
                return;
            }
            let step = step_of_item(item, index, place);
            if self.doubles == Doubles::Refused && !seen.insert(step.clone()) {
                self.refuse(at, &format!("duplicate entries for key {step}"));
            }
            self.visit(item, place.item(), &format!("{at}{step}"), is_open);
        }
    }

    fn refuse(&mut self, at: &str, mistake: &str) {
        self.found.push(format!("{at}: {mistake}"));
    }
}

/// Whether a map at this place may have a field with this name. All are allowed if the schema declares no properties or
/// allows additional ones.
fn may_have(place: Place<'_>, name: &str) -> bool {
    match place {
        Place::Custom { node, .. } => {
            let is_free = node.properties.is_empty() || !matches!(node.additional, Additional::Unknown);
            is_free || place.declares(name)
        }
        Place::Builtin { shape, .. } => shape.fields().is_none() || place.declares(name),
        Place::Unknown => true,
    }
}

/// The expected type of a value.
#[derive(Clone, Copy, Debug)]
enum Expected {
    Anything,
    Map,
    List,
    Numeric,
    Boolean,
    Text,
    /// Any scalar: the schema declares a string with a format.
    AnyScalar,
}

impl Expected {
    fn of_node(node: &Node) -> Self {
        match node.kind {
            _ if node.is(Mark::IntOrString) => Self::Anything,
            None => Self::Anything,
            Some(Kind::Object) => Self::Map,
            Some(Kind::Array) => Self::List,
            Some(Kind::Integer | Kind::Number) => Self::Numeric,
            Some(Kind::Boolean) => Self::Boolean,
            Some(Kind::String) if node.is(Mark::AnyScalar) => Self::AnyScalar,
            Some(Kind::String) => Self::Text,
        }
    }

    fn of_shape(shape: &ValueShape) -> Self {
        match shape {
            ValueShape::Struct(_) | ValueShape::Map(_) => Self::Map,
            ValueShape::List(_) => Self::List,
            ValueShape::Text | ValueShape::Bytes => Self::Text,
            ValueShape::Bool => Self::Boolean,
            ValueShape::Int32 | ValueShape::Int64 | ValueShape::Float => Self::Numeric,
            ValueShape::Time | ValueShape::MicroTime => Self::AnyScalar,
            ValueShape::IntOrString | ValueShape::Quantity | ValueShape::OneOrMany(_) | ValueShape::Any => {
                Self::Anything
            }
        }
    }

    /// The error if the value has another type. Null is allowed for every type.
    fn mistake(self, value: &Value) -> Option<String> {
        Some(match (self, value) {
            (Self::Anything, _)
            | (_, Value::Null)
            | (Self::Map, Value::Object(_))
            | (Self::List, Value::Array(_))
            | (Self::Numeric, Value::Number(_))
            | (Self::Boolean, Value::Bool(_))
            | (Self::Text, Value::String(_))
            | (Self::AnyScalar, Value::String(_) | Value::Number(_) | Value::Bool(_)) => return None,
            (Self::Map, _) => format!("expected map, got {}", pointer(value)),
            (Self::List, _) => format!("expected list, got {}", pointer(value)),
            (Self::Numeric, _) => format!("expected numeric (int or float), got {}", type_name(value)),
            (Self::Boolean, _) => format!("expected boolean, got {}", pointer(value)),
            (Self::Text, _) => format!("expected string, got &value.valueUnstructured{{Value:{}}}", syntax(value)),
            (Self::AnyScalar, _) => format!("expected any scalar, got {}", pointer(value)),
        })
    }
}

/// The error if an item has no identity in its list.
fn item_mistake(item: &Value, list: Place<'_>) -> Option<String> {
    match (list.list(), item) {
        (ListKind::Map(_), Value::Null) => Some("associative list with keys may not have a null element".to_owned()),
        (ListKind::Map(keys), Value::Object(fields)) => {
            let has_none = keys.iter().all(|key| !fields.contains_key(key) && list.key_default(key).is_none());
            let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            has_none.then(|| {
                format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                     values for any key fields)",
                    keys.join(" ")
                )
            })
        }
        (ListKind::Map(_), _) => Some("associative list with keys may not have non-map elements".to_owned()),
        (ListKind::Set, Value::Object(_)) => {
            Some("associative list without keys has an element that's a map type".to_owned())
        }
        (ListKind::Set, Value::Array(_)) => Some("not supported: associative list with lists as elements".to_owned()),
        (ListKind::Set, Value::Null) => {
            Some("associative list without keys has an element that's an explicit null".to_owned())
        }
        _ => None,
    }
}

/// A value behind a pointer, as Go's `%v` prints it.
fn pointer(value: &Value) -> String {
    format!("&{{{}}}", go_text(value))
}

/// A value as Go's `%v` prints it.
pub(crate) fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number_text(number),
        Value::String(text) => text.clone(),
        Value::Array(list) => format!("[{}]", list.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields: Vec<String> = fields.iter().map(|(name, field)| format!("{name}:{}", go_text(field))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

const GO_MAP: &str = "map[string]interface {}";
const GO_LIST: &str = "[]interface {}";

/// A value, as Go's `%#v` prints it.
fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(_) | Value::Number(_) => go_text(value),
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => {
            format!("{GO_LIST}{{{}}}", items.iter().map(syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, field)| format!("{name:?}:{}", syntax(field))).collect();
            format!("{GO_MAP}{{{}}}", fields.join(", "))
        }
    }
}

/// The type of a value, as Go's `%T` prints it.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => GO_LIST,
        Value::Object(_) => GO_MAP,
        other => go_kind(other),
    }
}
