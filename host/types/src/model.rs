//! The types of some kinds, without any language's syntax.

use serde_json::Value;

/// All types of a generated file.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The place that the schemas come from, for the header of the file.
    pub source: String,
    /// The names of the types of the wanted kinds, in the order in which they were wanted.
    pub kinds: Vec<String>,
    /// The types of the wanted kinds come first, and shared types such as `ObjectMeta` last.
    pub declarations: Vec<Declaration>,
}

impl Model {
    /// The declaration with this name.
    #[must_use]
    pub fn declaration(&self, name: &str) -> Option<&Declaration> {
        self.declarations.iter().find(|declaration| declaration.name == name)
    }

    /// The shapes of all fields, with all shapes inside them.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.structs().flat_map(|it| &it.fields).flat_map(|field| field.shape.within())
    }

    /// The struct with this name.
    pub(crate) fn structure(&self, name: &str) -> Option<&Struct> {
        match &self.declaration(name)?.body {
            Body::Struct(it) => Some(it),
            Body::Enumeration(_) => None,
        }
    }

    pub(crate) fn structs(&self) -> impl Iterator<Item = &Struct> {
        self.declarations.iter().filter_map(|declaration| match &declaration.body {
            Body::Struct(it) => Some(it),
            Body::Enumeration(_) => None,
        })
    }
}

/// A named type.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    /// The name in upper camel case. It is unique and valid in all languages.
    pub name: String,
    /// The lines of the documentation.
    pub docs: Vec<String>,
    /// The definition of the type.
    pub body: Body,
}

/// The definition of a type.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A JSON object with known fields.
    Struct(Struct),
    /// A string with these known values. A later version of the definition may add values.
    Enumeration(Vec<String>),
}

/// A JSON object with known fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Struct {
    /// The fields, sorted by key.
    pub fields: Vec<Field>,
    /// Whether an object may have other fields, which the type must keep: fields that the schema does not declare, if
    /// the server keeps them, and fields whose keys a language cannot express.
    pub is_open: bool,
}

/// A field of a JSON object.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The key in JSON.
    pub key: String,
    /// The lines of the documentation.
    pub docs: Vec<String>,
    /// Whether each valid object has the field.
    pub is_required: bool,
    /// The value that the server fills in if the field is missing.
    pub default: Option<Value>,
    /// The value's form.
    pub shape: Shape,
}

/// The form of a JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `true` or `false`.
    Bool,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A number.
    Float,
    /// A string.
    Text,
    /// A string with a date and a time, as in RFC 3339.
    Time,
    /// A whole number or a string.
    IntOrString,
    /// A Kubernetes quantity such as `500m`: a string or a whole number.
    Quantity,
    /// Any JSON, even null.
    Json,
    /// A list of values.
    List(Box<Shape>),
    /// An object with any keys.
    Map(Box<Shape>),
    /// The value, or null.
    Nullable(Box<Shape>),
    /// A declared type.
    Named(String),
}

impl Shape {
    /// This shape, and all shapes inside it.
    pub(crate) fn within(&self) -> Vec<&Shape> {
        let mut found = vec![self];
        if let Shape::List(inner) | Shape::Map(inner) | Shape::Nullable(inner) = self {
            found.extend(inner.within());
        }
        found
    }
}
