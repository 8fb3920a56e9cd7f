//! Reads OpenAPI v3 documents, as API servers publish them, into a [`Model`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use crate::docs;
use crate::model::{Body, Declaration, Field, Model, Shape, Struct};
use crate::names::{Names, singular, upper_camel};

/// The beginnings of the names of Kubernetes' own schemas. Go's zero values are the defaults there, and Go writes a
/// missing list as null.
const KUBERNETES: [&str; 4] =
    ["io.k8s.api.", "io.k8s.apimachinery.", "io.k8s.apiextensions-apiserver.", "io.k8s.kube-aggregator."];

/// A part of the pattern that controller-gen writes for quantities.
const QUANTITY_PATTERN: &str = "[KMGTPE]i";

/// The name of a schema that Kubernetes has for quantities.
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

/// The characters other than letters and digits that a key of a field may have. Go ignores a JSON tag with any other
/// character (`isValidTag` in encoding/json/encode.go). Go also accepts letters and digits outside ASCII.
const KEY_SYMBOLS: &str = "!#$%&()*+-./:;<=>?@[]^_{|}~ ";

/// The greatest depth at which references are followed. Documents nest at most 128 levels, but a chain of references
/// can be longer than the stack.
const REFERENCE_DEPTH_MAX: usize = 128;

/// A kind to generate types for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The API group. Empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// The name of the type, in upper camel case: mostly the kind.
    pub name: String,
}

/// The reason why no types can be generated.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The documents have no schema for the kind.
    #[error("no schema for {kind} of {}", display(group, version))]
    NoSchema {
        /// The API group.
        group: String,
        /// The version.
        version: String,
        /// The kind.
        kind: String,
    },
}

fn display(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The schemas of one or more OpenAPI v3 documents of the same server.
#[derive(Clone, Debug, Default)]
pub struct Schemas(Map<String, Value>);

impl Schemas {
    /// Adds the schemas of an OpenAPI v3 document.
    pub fn add(&mut self, document: &Value) {
        let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
        self.0.extend(schemas.into_iter().flatten().map(|(name, schema)| (name.clone(), schema.clone())));
    }

    /// The name and the schema of a kind.
    pub(crate) fn of_kind(&self, wanted: &Wanted) -> Result<(&str, &Value), ReadError> {
        let is_wanted = |schema: &Value| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            kinds.into_iter().flatten().any(|it| {
                it["group"] == *wanted.group && it["version"] == *wanted.version && it["kind"] == *wanted.kind
            })
        };
        let found = self.0.iter().find(|(_, schema)| is_wanted(schema));
        found.map(|(name, schema)| (name.as_str(), schema)).ok_or_else(|| ReadError::NoSchema {
            group: wanted.group.clone(),
            version: wanted.version.clone(),
            kind: wanted.kind.clone(),
        })
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Whether the schema refers to itself, directly or not.
    fn is_recursive(&self, name: &str) -> bool {
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![name.to_owned()]);
        while let Some(next) = waiting.pop() {
            let mut found = Vec::new();
            self.named(&next).into_iter().for_each(|schema| collect_references(schema, &mut found));
            for reference in found {
                if reference == name {
                    return true;
                }
                if seen.insert(reference.clone()) {
                    waiting.push(reference);
                }
            }
        }
        false
    }
}

/// Reads the types of `wanted`. `source` names the place that the schemas come from.
pub fn read(source: &str, schemas: &Schemas, wanted: &[Wanted]) -> Result<Model, ReadError> {
    let mut reader = Reader {
        schemas,
        names: Names::of_types(),
        declarations: Vec::new(),
        shared: BTreeMap::new(),
        waiting: VecDeque::new(),
    };
    let mut roots = Vec::new();
    for kind in wanted {
        let (component, schema) = schemas.of_kind(kind)?;
        let name = reader.names.unique(&upper_camel(&kind.name));
        reader.shared.insert(component.to_owned(), name.clone());
        roots.push((component, schema, name));
    }
    let kinds = roots.iter().map(|(_, _, name)| name.clone()).collect();
    for (component, schema, name) in roots {
        reader.component(component, schema, &name, true);
    }
    while let Some(component) = reader.waiting.pop_front() {
        let (Some(schema), Some(name)) = (schemas.named(&component), reader.shared.get(&component).cloned()) else {
            continue;
        };
        reader.component(&component, schema, &name, false);
    }
    Ok(Model { source: source.to_owned(), kinds, declarations: reader.declarations })
}

struct Reader<'a> {
    schemas: &'a Schemas,
    names: Names,
    declarations: Vec<Declaration>,
    /// The names of types, by schema, for schemas that other schemas refer to.
    shared: BTreeMap<String, String>,
    /// Schemas that have a name but no declaration yet.
    waiting: VecDeque<String>,
}

/// Where a schema is.
#[derive(Clone)]
struct SchemaPlace {
    /// The name of the type at the top.
    root: String,
    /// The path of the field below it, such as `spec.ports`. Empty at the top.
    path: String,
    /// The name that a type declared here would get.
    name: String,
    is_kubernetes: bool,
    /// The number of fields, items and references on the way from the schema at the top.
    depth: usize,
}

impl SchemaPlace {
    fn field(&self, key: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        let part = match upper_camel(key) {
            part if part.is_empty() => "Field".to_owned(),
            part => part,
        };
        Self { path: format!("{}{dot}{key}", self.path), name: format!("{}{part}", self.name), ..self.deeper() }
    }

    /// The place of the items of a list or the values of a map.
    fn item(&self) -> Self {
        Self { name: singular(&self.name), ..self.deeper() }
    }

    fn deeper(&self) -> Self {
        Self { depth: self.depth + 1, ..self.clone() }
    }

    fn docs(&self) -> Vec<String> {
        docs::lines(&format!("`{}` of `{}`.", self.path, self.root))
    }
}

impl Reader<'_> {
    /// Declares the type of a schema that has a name of its own.
    fn component(&mut self, component: &str, schema: &Value, name: &str, is_kind: bool) {
        let is_kubernetes = KUBERNETES.iter().any(|start| component.starts_with(start));
        let (root, path, name) = (name.to_owned(), String::new(), name.to_owned());
        let place = SchemaPlace { root, path, name: name.clone(), is_kubernetes, depth: 0 };
        let docs = docs::lines(schema["description"].as_str().unwrap_or_default());
        self.declare_struct(schema, &place, name.clone(), docs);
        if !is_kind {
            return;
        }
        let Some(declaration) = self.declarations.iter_mut().find(|declaration| declaration.name == name) else {
            return;
        };
        if let Body::Struct(it) = &mut declaration.body {
            // All objects of an API server have metadata, although no schema requires it.
            it.fields.iter_mut().filter(|field| field.key == "metadata").for_each(|field| field.is_required = true);
        }
    }

    /// Declares a struct before the types of its fields.
    fn declare_struct(&mut self, schema: &Value, place: &SchemaPlace, name: String, docs: Vec<String>) {
        let at = self.declarations.len();
        let properties = schema["properties"].as_object().into_iter().flatten();
        // The order must not depend on the features of the JSON library.
        let properties: BTreeMap<&String, &Value> = properties.collect();
        let (properties, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            properties.into_iter().partition(|(key, _)| is_expressible(key));
        // An open struct also keeps fields that it does not declare.
        let is_open = is_open(schema) || !others.is_empty();
        self.declarations.push(Declaration { name, docs, body: Body::Struct(Struct { fields: Vec::new(), is_open }) });
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let fields = properties.into_iter().map(|(key, schema)| {
            let shape = self.shape(schema, &place.field(key));
            field(key, schema, shape, required.contains(&key.as_str()), place)
        });
        let found: Vec<Field> = fields.collect();
        if let Body::Struct(it) = &mut self.declarations[at].body {
            it.fields = found;
        }
    }

    fn shape(&mut self, schema: &Value, place: &SchemaPlace) -> Shape {
        match self.non_null(schema, place) {
            Shape::Json => Shape::Json,
            shape if schema["nullable"] == true => Shape::Nullable(Box::new(shape)),
            shape => shape,
        }
    }

    /// The shape of the values other than null.
    fn non_null(&mut self, schema: &Value, place: &SchemaPlace) -> Shape {
        if let Some(name) = reference(schema) {
            return self.referred(name, place);
        }
        if schema["x-kubernetes-int-or-string"] == true || schema["format"] == "int-or-string" {
            let is_quantity = schema["pattern"].as_str().is_some_and(|pattern| pattern.contains(QUANTITY_PATTERN));
            return if is_quantity { Shape::Quantity } else { Shape::IntOrString };
        }
        match schema["type"].as_str().unwrap_or_default() {
            "boolean" => Shape::Bool,
            "integer" if schema["format"] == "int32" => Shape::Int32,
            "integer" => Shape::Int64,
            "number" => Shape::Float,
            "string" if schema["format"] == "date-time" => Shape::Time,
            "string" => self.text(schema, place),
            "array" => Shape::List(Box::new(match &schema["items"] {
                Value::Null => Shape::Json,
                items => self.shape(items, &place.item()),
            })),
            "object" => self.object(schema, place),
            _ => Shape::Json,
        }
    }

    fn text(&mut self, schema: &Value, place: &SchemaPlace) -> Shape {
        let values = schema["enum"].as_array().into_iter().flatten().filter(|value| !value.is_null());
        let values: Option<Vec<String>> = values.map(|value| value.as_str().map(str::to_owned)).collect();
        let Some(values) = values.filter(|values| !values.is_empty()) else { return Shape::Text };
        let name = self.names.unique(&place.name);
        let body = Body::Enumeration(values);
        self.declarations.push(Declaration { name: name.clone(), docs: place.docs(), body });
        Shape::Named(name)
    }

    fn object(&mut self, schema: &Value, place: &SchemaPlace) -> Shape {
        match schema["properties"].as_object().filter(|properties| !properties.is_empty()) {
            Some(_) => {
                let name = self.names.unique(&place.name);
                self.declare_struct(schema, place, name.clone(), place.docs());
                Shape::Named(name)
            }
            None if schema["additionalProperties"].is_object() => {
                Shape::Map(Box::new(self.shape(&schema["additionalProperties"], &place.item())))
            }
            _ => Shape::Map(Box::new(Shape::Json)),
        }
    }

    /// The shape of a schema with a name. A schema that refers to itself is any JSON.
    fn referred(&mut self, component: &str, place: &SchemaPlace) -> Shape {
        if component == QUANTITY {
            return Shape::Quantity;
        }
        if let Some(name) = self.shared.get(component) {
            return Shape::Named(name.clone());
        }
        let Some(schema) = self.schemas.named(component) else { return Shape::Json };
        if place.depth >= REFERENCE_DEPTH_MAX || self.schemas.is_recursive(component) {
            return Shape::Json;
        }
        if schema["properties"].as_object().is_none_or(Map::is_empty) {
            return self.shape(schema, &place.deeper());
        }
        let last = component.rsplit('.').next().unwrap_or(component);
        let name = self.names.unique(&upper_camel(last));
        self.shared.insert(component.to_owned(), name.clone());
        self.waiting.push_back(component.to_owned());
        Shape::Named(name)
    }
}

fn field(key: &str, schema: &Value, shape: Shape, is_required: bool, place: &SchemaPlace) -> Field {
    let default = schema.get("default").filter(|default| !(place.is_kubernetes && is_go_zero(default)));
    let may_be_null = place.is_kubernetes && is_required;
    let shape = match shape {
        // Go writes a missing list, map or time as null.
        shape @ (Shape::List(_) | Shape::Map(_) | Shape::Time) if may_be_null => Shape::Nullable(Box::new(shape)),
        shape => shape,
    };
    Field { key: key.to_owned(), docs: docs::of_field(schema, default), is_required, default: default.cloned(), shape }
}

/// Whether all languages can have a field with this key. A cluster's schema may have any text as a key, and the
/// printers write a key into tags and comments as it is.
fn is_expressible(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|letter| letter.is_ascii_alphanumeric() || KEY_SYMBOLS.contains(letter))
}

/// Whether the server keeps fields that the schema does not declare.
fn is_open(schema: &Value) -> bool {
    let additional = &schema["additionalProperties"];
    schema["x-kubernetes-preserve-unknown-fields"] == true || additional.is_object() || *additional == true
}

fn is_go_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// The name of the schema that this schema refers to. With other keywords beside it, the reference is in `allOf`.
pub(crate) fn reference(schema: &Value) -> Option<&str> {
    let reference = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref"))?;
    reference.as_str()?.strip_prefix("#/components/schemas/")
}

fn collect_references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            found.extend(reference(schema).map(str::to_owned));
            fields.values().for_each(|field| collect_references(field, found));
        }
        Value::Array(list) => list.iter().for_each(|item| collect_references(item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
