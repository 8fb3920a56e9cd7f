//! Parses the JSON of an `openAPIV3Schema` into [`Node`]s. JSON that is not a schema at all is refused here;
//! [`super::structural`] refuses schemas that are not structural.

use std::{fmt, sync::Arc};

use serde_json::{Map, Number, Value};

use super::format::Format;
use super::{
    Additional, Bound, Checks, Kind, ListKind, Mark, Node, Pattern, PatternBudget, Properties, Range, SchemaError,
};

/// A path in a schema, such as `properties[spec].items`.
#[derive(Clone, Debug)]
pub(super) struct Path(String);

impl Path {
    pub(super) fn root() -> Self {
        Self(String::new())
    }

    pub(super) fn child(&self, name: &str) -> Self {
        let dot = if self.0.is_empty() { "" } else { "." };
        Self(format!("{}{dot}{name}", self.0))
    }

    pub(super) fn property(&self, name: &str) -> Self {
        self.child(&format!("properties[{name}]"))
    }

    pub(super) fn refuse(&self, reason: impl Into<String>) -> SchemaError {
        SchemaError { path: self.0.clone(), reason: reason.into(), kind: None }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Parses a schema and everything below it.
pub(super) fn node(schema: &Value, at: &Path, patterns: &PatternBudget) -> Result<Node, SchemaError> {
    let Value::Object(schema) = schema else { return Err(at.refuse("Invalid value: must be an object")) };
    let read = Reader { schema, at, patterns };
    Ok(Node {
        kind: read.kind()?,
        properties: read.properties()?,
        additional: read.additional()?,
        items: read.one("items")?.map(Box::new),
        default: schema.get("default").cloned(),
        list: read.list_kind()?,
        rules: Vec::new(),
        written_rules: read
            .keyword("x-kubernetes-validations", "a list", Value::as_array)?
            .cloned()
            .unwrap_or_default(),
        has_rules: false,
        marks: read.marks()?,
        checks: read.checks()?.into(),
    })
}

/// Reads the keywords of one schema.
struct Reader<'a> {
    schema: &'a Map<String, Value>,
    at: &'a Path,
    patterns: &'a PatternBudget,
}

impl<'a> Reader<'a> {
    /// The value of a keyword, parsed by `read`. `None` if it is missing or null. If `read` cannot parse the value, the
    /// error names the type `wanted`.
    fn keyword<T>(
        &self,
        name: &str,
        wanted: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, SchemaError> {
        match self.schema.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match read(value) {
                Some(read) => Ok(Some(read)),
                None => Err(self.at.child(name).refuse(format!("Invalid value: {value}: must be {wanted}"))),
            },
        }
    }

    fn flag(&self, name: &str) -> Result<bool, SchemaError> {
        Ok(self.keyword(name, "a boolean", Value::as_bool)?.unwrap_or(false))
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, SchemaError> {
        self.keyword(name, "a string", Value::as_str)
    }

    fn count(&self, name: &str) -> Result<Option<u64>, SchemaError> {
        // A negative size is the same as 0.
        self.keyword(name, "a whole number", |value| value.as_u64().or_else(|| value.as_i64().map(|_| 0)))
    }

    fn number(&self, name: &str) -> Result<Option<Number>, SchemaError> {
        self.keyword(name, "a number", |value| value.as_number().cloned())
    }

    fn names(&self, name: &str) -> Result<Vec<String>, SchemaError> {
        let read = |value: &Value| -> Option<Vec<String>> {
            value.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
        };
        Ok(self.keyword(name, "a list of strings", read)?.unwrap_or_default())
    }

    fn one(&self, name: &str) -> Result<Option<Node>, SchemaError> {
        match self.schema.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(schema) => node(schema, &self.at.child(name), self.patterns).map(Some),
        }
    }

    fn many(&self, name: &str) -> Result<Vec<Node>, SchemaError> {
        let list = self.keyword(name, "a list of schemas", Value::as_array)?;
        list.into_iter()
            .flatten()
            .enumerate()
            .map(|(index, schema)| node(schema, &self.at.child(&format!("{name}[{index}]")), self.patterns))
            .collect()
    }

    fn kind(&self) -> Result<Option<Kind>, SchemaError> {
        let Some(name) = self.text("type")?.filter(|name| !name.is_empty()) else { return Ok(None) };
        Kind::named(name).map(Some).ok_or_else(|| self.at.child("type").refuse("Invalid value: no type"))
    }

    fn properties(&self) -> Result<Properties<Node>, SchemaError> {
        let properties = self.keyword("properties", "an object", Value::as_object)?;
        properties
            .into_iter()
            .flatten()
            .map(|(name, schema)| Ok((name.as_str().into(), node(schema, &self.at.property(name), self.patterns)?)))
            .collect()
    }

    fn additional(&self) -> Result<Additional, SchemaError> {
        const NAME: &str = "additionalProperties";
        match self.schema.get(NAME) {
            Some(Value::Bool(true)) => Ok(Additional::Anything),
            None | Some(Value::Null | Value::Bool(false)) => Ok(Additional::Unknown),
            Some(schema) => Ok(Additional::Like(Box::new(node(schema, &self.at.child(NAME), self.patterns)?))),
        }
    }

    /// The list type. [`super::openapi`] refuses mistakes in it.
    fn list_kind(&self) -> Result<ListKind, SchemaError> {
        let keys = self.names("x-kubernetes-list-map-keys")?;
        Ok(match self.text("x-kubernetes-list-type")? {
            Some("map") => ListKind::Map(keys),
            Some("set") => ListKind::Set,
            _ => ListKind::Atomic,
        })
    }

    fn marks(&self) -> Result<Vec<Mark>, SchemaError> {
        let found = [
            (Mark::AtomicMap, self.text("x-kubernetes-map-type")? == Some("atomic")),
            (Mark::Listed, self.text("x-kubernetes-list-type")?.is_some()),
            (Mark::Mapped, self.text("x-kubernetes-map-type")?.is_some()),
            (Mark::Keyed, !self.names("x-kubernetes-list-map-keys")?.is_empty()),
            (Mark::PreserveUnknown, self.flag("x-kubernetes-preserve-unknown-fields")?),
            (Mark::EmbeddedResource, self.flag("x-kubernetes-embedded-resource")?),
            (Mark::IntOrString, self.flag("x-kubernetes-int-or-string")?),
            (Mark::Nullable, self.flag("nullable")?),
            (Mark::Titled, self.schema.contains_key("title")),
            (Mark::Described, self.schema.contains_key("description")),
            (Mark::AnyScalar, self.text("format")?.is_some_and(|format| !["", "byte"].contains(&format))),
        ];
        Ok(found.into_iter().filter(|(_, holds)| *holds).map(|(mark, _)| mark).collect())
    }

    fn checks(&self) -> Result<Checks, SchemaError> {
        let enumeration = self.keyword("enum", "a list", Value::as_array)?;
        Ok(Checks {
            required: self.names("required")?,
            one_of_values: enumeration.cloned(),
            minimum: self.bound("minimum", "exclusiveMinimum")?,
            maximum: self.bound("maximum", "exclusiveMaximum")?,
            multiple_of: self.number("multipleOf")?,
            length: Range { least: self.count("minLength")?, most: self.count("maxLength")? },
            items: Range { least: self.count("minItems")?, most: self.count("maxItems")? },
            properties: Range { least: self.count("minProperties")?, most: self.count("maxProperties")? },
            pattern: self.pattern()?,
            format: self.format()?,
            all_of: self.many("allOf")?,
            any_of: self.many("anyOf")?,
            one_of: self.many("oneOf")?,
            not: self.one("not")?.map(Box::new),
        })
    }

    /// The format, if Kubernetes checks it. An integer or text is looked up as if it had no type.
    fn format(&self) -> Result<Option<Format>, SchemaError> {
        let kind = if self.flag("x-kubernetes-int-or-string")? { None } else { self.kind()? };
        Ok(self.text("format")?.and_then(|name| Format::known(name, kind)))
    }

    fn bound(&self, name: &str, exclusive: &str) -> Result<Option<Bound>, SchemaError> {
        let exclusive = self.flag(exclusive)?;
        Ok(self.number(name)?.map(|at| Bound { at, exclusive }))
    }

    fn pattern(&self) -> Result<Option<Arc<Pattern>>, SchemaError> {
        let Some(source) = self.text("pattern")?.filter(|source| !source.is_empty()) else { return Ok(None) };
        self.patterns.pattern(source).map(Some).map_err(|why| {
            let quoted = Value::from(source);
            let reason = format!("Invalid value: {quoted}: must be a valid regular expression, but isn't: {why}");
            self.at.child("pattern").refuse(reason)
        })
    }
}
