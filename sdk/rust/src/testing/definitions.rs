//! Kinds that a test defines, and the validation of their objects.
//!
//! This module supports structural schemas as far as unit tests need them: types, fields, items, `required`, `enum`,
//! `default`, `nullable` and bounds. It does not check `pattern`, `format`, `allOf` and similar keywords, list types,
//! and rules in CEL.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::object::ObjectKind;

/// The schemas of the defined kinds, by `apiVersion` and `kind`.
#[derive(Debug, Default)]
pub(super) struct Definitions(BTreeMap<(String, String), Value>);

impl Definitions {
    /// Adds the kinds that `CustomResourceDefinitions` in YAML define.
    pub(super) fn add(&mut self, yaml: &str) {
        // Kubernetes reads YAML like this too: `n` and `on` are strings.
        let options = serde_saphyr::options! { strict_booleans: true };
        let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(yaml, options)
            .unwrap_or_else(|error| panic!("`define` needs CustomResourceDefinitions as YAML: {error}"));
        let documents = documents.iter().filter(|document| !document.is_null());
        let mut is_found = false;
        for (definition, version) in documents.flat_map(versions) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let api_version = format!("{}/{}", text(&definition["group"]), text(&version["name"]));
            let schema = version["schema"]["openAPIV3Schema"].clone();
            self.0.insert((api_version, text(&definition["names"]["kind"])), schema);
            is_found = true;
        }
        assert!(is_found, "`define` has found no CustomResourceDefinition with versions in:\n{yaml}");
    }

    /// The defined kinds.
    pub(super) fn kinds(&self) -> impl Iterator<Item = ObjectKind> {
        self.0.keys().map(|(api_version, kind)| ObjectKind::new(&**api_version, &**kind))
    }

    fn schema(&self, object: &Value) -> Option<&Value> {
        let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
        self.0.get(&(text("apiVersion"), text("kind")))
    }

    /// Fills in the defaults of the object's kind.
    pub(super) fn fill(&self, object: &mut Value) {
        if let Some(schema) = self.schema(object) {
            fill(schema, object);
        }
    }

    /// The errors of an object, as an API server reports them. For a write to the status, only the errors of the
    /// status.
    pub(super) fn misfits(&self, object: &Value, subresource: Option<&str>, refuses_unknown: bool) -> Vec<String> {
        let mut found = Misfits { refuses_unknown, texts: Vec::new() };
        if let Some(schema) = self.schema(object) {
            found.of(schema, object, "");
        }
        if subresource == Some("status") {
            found.texts.retain(|text| text.starts_with(".status"));
        }
        found.texts
    }
}

/// The versions of a definition, each with its `spec`.
fn versions(definition: &Value) -> Vec<(&Value, &Value)> {
    let spec = &definition["spec"];
    spec["versions"].as_array().into_iter().flatten().map(|version| (spec, version)).collect()
}

/// Fills in defaults. A null in a field that is not nullable counts as absent.
fn fill(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let none = Map::new();
            let properties = schema["properties"].as_object().unwrap_or(&none);
            let may_be_null = |name: &str| properties.get(name).is_none_or(|property| property["nullable"] == true);
            fields.retain(|name, field| !field.is_null() || may_be_null(name));
            for (name, property) in properties {
                if let (Some(default), false) = (property.get("default"), fields.contains_key(name)) {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, field) in fields {
                fill(properties.get(name).unwrap_or(&schema["additionalProperties"]), field);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(&schema["items"], item)),
        _ => {}
    }
}

struct Misfits {
    refuses_unknown: bool,
    texts: Vec<String>,
}

impl Misfits {
    fn of(&mut self, schema: &Value, value: &Value, path: &str) {
        if value.is_null() && schema["nullable"] == true {
            return;
        }
        let (found, wanted) = (type_of(value), wanted_type(schema));
        let fits = wanted.is_empty() || wanted.contains(&found) || (found == "integer" && wanted == ["number"]);
        if !fits {
            let wanted: Vec<&str> = wanted.into_iter().map(in_words).collect();
            return self.texts.push(format!("{path}: {} where {} is wanted", in_words(found), wanted.join(" or ")));
        }
        if let Some(allowed) = schema["enum"].as_array()
            && !allowed.contains(value)
        {
            let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
            self.texts.push(format!("{path}: {value} is not one of {}", allowed.join(", ")));
        }
        match value {
            Value::String(text) => self.size(schema, ["minLength", "maxLength"], text.chars().count(), path),
            Value::Number(number) => self.number(schema, number.as_f64().unwrap_or_default(), path),
            Value::Array(items) => {
                self.size(schema, ["minItems", "maxItems"], items.len(), path);
                for (index, item) in items.iter().enumerate() {
                    self.of(&schema["items"], item, &format!("{path}[{index}]"));
                }
            }
            Value::Object(fields) => {
                self.size(schema, ["minProperties", "maxProperties"], fields.len(), path);
                self.fields(schema, fields, path);
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn fields(&mut self, schema: &Value, fields: &Map<String, Value>, path: &str) {
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for name in required.filter(|name| !fields.contains_key(*name)) {
            self.texts.push(format!("{path}.{name}: is required"));
        }
        let is_resource = path.is_empty() || schema["x-kubernetes-embedded-resource"] == true;
        let others = &schema["additionalProperties"];
        let knows_all = *others == true || schema["x-kubernetes-preserve-unknown-fields"] == true;
        for (name, field) in fields {
            let at = format!("{path}.{name}");
            match schema["properties"].get(name) {
                _ if is_resource && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) => {}
                Some(property) => self.of(property, field, &at),
                None if others.is_object() => self.of(others, field, &at),
                None if knows_all || !self.refuses_unknown => {}
                None => self.texts.push(format!("{at}: there is no such field")),
            }
        }
    }

    fn number(&mut self, schema: &Value, number: f64, path: &str) {
        let bound = |keyword: &str| schema[keyword].as_f64();
        let excludes = |keyword: &str, bound: f64| schema[keyword] == true && number.total_cmp(&bound).is_eq();
        if let Some(least) = bound("minimum").filter(|least| number < *least || excludes("exclusiveMinimum", *least)) {
            self.texts.push(format!("{path}: {number} is too small for the minimum {least}"));
        }
        if let Some(most) = bound("maximum").filter(|most| number > *most || excludes("exclusiveMaximum", *most)) {
            self.texts.push(format!("{path}: {number} is too large for the maximum {most}"));
        }
    }

    fn size(&mut self, schema: &Value, [least, most]: [&str; 2], size: usize, path: &str) {
        let bound = |keyword: &str| schema[keyword].as_u64().and_then(|bound| usize::try_from(bound).ok());
        for (keyword, breaks) in [
            (least, bound(least).is_some_and(|least| size < least)),
            (most, bound(most).is_some_and(|most| size > most)),
        ] {
            if breaks {
                self.texts.push(format!("{path}: its size is {size}, and {keyword} is {}", schema[keyword]));
            }
        }
    }
}

/// The types that a schema allows; empty means any type.
fn wanted_type(schema: &Value) -> Vec<&str> {
    if schema["x-kubernetes-int-or-string"] == true {
        return vec!["integer", "string"];
    }
    schema["type"].as_str().into_iter().collect()
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        // JSON does not distinguish 1.0 from 1.
        Value::Number(number) if number.as_f64().is_some_and(|number| number.fract() == 0.0) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The name of a type in the SDK's errors.
fn in_words(name: &str) -> &str {
    match name {
        "boolean" => "a boolean",
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "text",
        "array" => "a list",
        "object" => "an object",
        other => other,
    }
}
