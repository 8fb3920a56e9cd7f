//! Checks the keywords of a schema, like `ValidateCustomResourceDefinitionOpenAPISchema` of
//! `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`. [`super::structural`] checks whether the
//! schema is structural.

use serde_json::{Map, Value};

use super::format::Format;
use super::parse::Path;
use super::{Kind, SchemaError};

/// Finds all errors in a schema.
pub(super) fn check(schema: &Value) -> Findings {
    let mut search = RuleCheck { found: Findings { errors: Vec::new(), is_expressible: true } };
    search.visit(schema, &Path::root(), &Ancestry { is_root: true, ..Ancestry::default() });
    search.found
}

/// The errors in a schema.
pub(super) struct Findings {
    pub(super) errors: Vec<SchemaError>,
    /// Whether the schema can be expressed as a structural schema. If not, the structural checks are skipped.
    pub(super) is_expressible: bool,
}

/// The formats in a schema that Kubernetes does not check, in the order in which a real server finds them.
pub(crate) fn unrecognized_formats(schema: &Value) -> Vec<&str> {
    let kind = match schema["type"].as_str().unwrap_or_default() {
        "" => Some(None),
        name => Kind::named(name).map(Some),
    };
    let format = schema["format"].as_str().filter(|name| !name.is_empty());
    let is_known = |name: &&str| kind.is_some_and(|kind| Format::known(name, kind).is_some());
    let mut found: Vec<&str> = format.into_iter().filter(|name| !is_known(name)).collect();
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten();
    let properties = schema["properties"].as_object().into_iter().flat_map(Map::values);
    let below = [&schema["items"]].into_iter().chain(lists).chain([&schema["not"]]).chain(properties);
    for schema in below.chain([&schema["additionalProperties"]]).filter(|schema| schema.is_object()) {
        found.extend(unrecognized_formats(schema));
    }
    found
}

/// Properties of a schema that follow from the schemas around it.
#[derive(Clone, Copy, Default)]
struct Ancestry {
    is_root: bool,
    is_in_metadata: bool,
    /// The reason why a default is forbidden here.
    no_defaults: Option<&'static str>,
}

struct RuleCheck {
    found: Findings,
}

impl RuleCheck {
    fn refuse(&mut self, at: &Path, name: &str, reason: impl Into<String>) {
        self.found.errors.push(at.child(name).refuse(reason));
    }

    fn visit(&mut self, schema: &Value, at: &Path, around: &Ancestry) {
        let Some(fields) = schema.as_object() else { return };
        self.keywords(fields, at, around);
        self.below(schema, at, around);
        if schema["x-kubernetes-preserve-unknown-fields"] == Value::Bool(false) {
            self.refuse(at, "x-kubernetes-preserve-unknown-fields", "Invalid value: false: must be true or undefined");
            self.found.is_expressible = false;
        }
        self.map_type(schema, at);
        self.list_type(schema, at);
        self.list_keys(schema, at);
        self.nullable_items(schema, at);
    }

    /// Refuses keywords that a schema may not have, like `specStandardValidatorV3`.
    fn keywords(&mut self, fields: &Map<String, Value>, at: &Path, around: &Ancestry) {
        let is_set = |name: &str| match fields.get(name) {
            None | Some(Value::Null) => false,
            Some(Value::Object(map)) if ["patternProperties", "definitions"].contains(&name) => !map.is_empty(),
            Some(Value::String(text)) if name == "id" => !text.is_empty(),
            Some(_) => true,
        };
        let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
        if !kind.is_empty() && Kind::named(kind).is_none() {
            let names: Vec<String> = Kind::ALL.iter().map(|kind| format!("{:?}", kind.name())).collect();
            self.refuse(at, "type", format!("Unsupported value: {kind:?}: supported values: {}", names.join(", ")));
        }
        if let Some(why) = around.no_defaults.filter(|_| is_set("default")) {
            self.refuse(at, "default", format!("Forbidden: must not be set {why}"));
        }
        for name in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
            if is_set(name) {
                self.refuse(at, name, format!("Forbidden: {name} is not supported"));
                self.found.is_expressible = false;
            }
        }
        if kind == "null" {
            self.refuse(at, "type", "Forbidden: type cannot be set to null, use nullable as an alternative");
        }
        if fields.get("items").is_some_and(Value::is_array) {
            self.refuse(at, "items", "Forbidden: items must be a schema object and not an array");
            self.found.is_expressible = false;
        }
        if around.is_in_metadata && fields.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
            self.refuse(at, "x-kubernetes-embedded-resource", "Forbidden: must not be used inside of resource meta");
        }
        if fields.get("uniqueItems") == Some(&Value::Bool(true)) {
            let reason = "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.refuse(at, "uniqueItems", reason);
        }
    }

    fn below(&mut self, schema: &Value, at: &Path, around: &Ancestry) {
        let inner = Ancestry { is_root: false, ..*around };
        let additional = &schema["additionalProperties"];
        let properties = schema["properties"].as_object().filter(|properties| !properties.is_empty());
        if properties.is_some() && (additional.is_object() || *additional == Value::Bool(false)) {
            let reason = "Forbidden: additionalProperties and properties are mutual exclusive";
            self.refuse(at, "additionalProperties", reason);
        }
        let why = around.is_in_metadata.then_some("inside additionalProperties applying to object metadata");
        let free = Ancestry { no_defaults: why.or(inner.no_defaults), ..inner };
        self.visit(additional, &at.child("additionalProperties"), &free);
        let is_resource = around.is_root || schema["x-kubernetes-embedded-resource"] == Value::Bool(true);
        for (name, property) in properties.into_iter().flatten() {
            let why = match name.as_str() {
                _ if !is_resource => None,
                "metadata" => Some("in top-level metadata"),
                "apiVersion" => Some("in top-level apiVersion"),
                "kind" => Some("in top-level kind"),
                _ => None,
            };
            let around = Ancestry {
                is_in_metadata: inner.is_in_metadata || why.is_some(),
                no_defaults: why.filter(|_| around.is_root).or(inner.no_defaults),
                ..inner
            };
            self.visit(property, &at.property(name), &around);
        }
        self.visit(&schema["not"], &at.child("not"), &inner);
        for key in ["allOf", "oneOf", "anyOf"] {
            for (index, nested) in schema[key].as_array().into_iter().flatten().enumerate() {
                self.visit(nested, &at.child(&format!("{key}[{index}]")), &inner);
            }
        }
        self.visit(&schema["items"], &at.child("items"), &inner);
    }

    fn map_type(&mut self, schema: &Value, at: &Path) {
        const NAME: &str = "x-kubernetes-map-type";
        let Some(found) = schema[NAME].as_str() else { return };
        self.must_have_type(schema, at, "object", NAME);
        if !["atomic", "granular"].contains(&found) {
            self.refuse(at, NAME, format!("Unsupported value: {found:?}: supported values: \"atomic\", \"granular\""));
        }
    }

    fn must_have_type(&mut self, schema: &Value, at: &Path, wanted: &str, keyword: &str) -> bool {
        let why = format!("must be {wanted} if {keyword} is specified");
        match schema["type"].as_str().unwrap_or_default() {
            found if found == wanted => return true,
            "" => self.refuse(at, "type", format!("Required value: {why}")),
            found => self.refuse(at, "type", format!("Invalid value: {found:?}: {why}")),
        }
        false
    }

    fn list_type(&mut self, schema: &Value, at: &Path) {
        const NAME: &str = "x-kubernetes-list-type";
        let Some(found) = schema[NAME].as_str() else { return };
        let items = &schema["items"];
        let at_items = at.child("items");
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let is_atomic = |value: &Value| *value == "atomic";
        match items["type"].as_str() {
            _ if !self.must_have_type(schema, at, "array", NAME) || found != "set" => {}
            Some("array") if !items[NAME].is_null() && !is_atomic(&items[NAME]) => {
                self.refuse(&at_items, NAME, format!("Invalid value: {}: {why}", items[NAME]));
            }
            // A real server shows the list type in this error, too.
            Some("object") if !is_atomic(&items["x-kubernetes-map-type"]) => {
                self.refuse(&at_items, "x-kubernetes-map-type", format!("Invalid value: {}: {why}", items[NAME]));
            }
            _ => {}
        }
        if !["atomic", "set", "map"].contains(&found) {
            let reason = format!("Unsupported value: {found:?}: supported values: \"atomic\", \"set\", \"map\"");
            self.refuse(at, NAME, reason);
        }
    }

    /// Checks the keys of a list of the type `map`: they must be declared scalars of the items, without duplicates.
    fn list_keys(&mut self, schema: &Value, at: &Path) {
        const NAME: &str = "x-kubernetes-list-map-keys";
        let kind = schema["x-kubernetes-list-type"].as_str();
        let keys: Vec<&str> = schema[NAME].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        match kind {
            Some("map") => {}
            _ if keys.is_empty() => return,
            None => return self.refuse(at, "x-kubernetes-list-type", format!("Required value: {why}")),
            Some(other) => {
                return self.refuse(at, "x-kubernetes-list-type", format!("Invalid value: {other:?}: {why}"));
            }
        }
        if keys.is_empty() {
            self.refuse(at, NAME, "Required value: must not be empty if x-kubernetes-list-type is map");
        }
        let items = &schema["items"];
        let at_items = at.child("items");
        if items.is_null() {
            self.refuse(at, "items", "Required value: must have a schema if x-kubernetes-list-type is map");
        }
        if !items.is_object() {
            return;
        }
        if items["type"] != "object" {
            let found = items["type"].as_str().unwrap_or_default();
            let why = "must be object if parent array's x-kubernetes-list-type is map";
            return self.refuse(&at_items, "type", format!("Invalid value: {found:?}: {why}"));
        }
        for (index, key) in keys.iter().enumerate() {
            match items["properties"].get(key).map(|property| property["type"].as_str().unwrap_or_default()) {
                Some("array" | "object") => {
                    let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.refuse(&at_items.property(key), "type", format!("Invalid value: \"object\": {why}"));
                }
                Some(_) => {}
                None => {
                    let why = "entries must all be names of item properties";
                    self.refuse(at, NAME, format!("Invalid value: {}: {why}", schema[NAME]));
                }
            }
            if keys[..index].contains(key) {
                self.refuse(at, NAME, format!("Invalid value: {}: must not contain duplicate entries", schema[NAME]));
            }
        }
    }

    /// Checks that items with an identity cannot be null, and that their keys cannot be missing or null, like
    /// `validateMapListKeysMapSet`.
    fn nullable_items(&mut self, schema: &Value, at: &Path) {
        let items = &schema["items"];
        let Some(kind @ ("set" | "map")) = schema["x-kubernetes-list-type"].as_str() else { return };
        if !items.is_object() {
            return;
        }
        let at_items = at.child("items");
        if items["nullable"] == Value::Bool(true) {
            let reason = format!("Forbidden: cannot be nullable when x-kubernetes-list-type is {kind}");
            self.refuse(&at_items, "nullable", reason);
        }
        if kind == "set" {
            return;
        }
        let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for (key, property) in keys.filter_map(|key| Some((key, items["properties"].get(key)?))) {
            let is_required = items["required"].as_array().is_some_and(|names| names.iter().any(|name| name == key));
            let at_key = at_items.property(key);
            if !is_required && property["default"].is_null() {
                let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                           property";
                self.refuse(&at_key, "default", format!("Required value: {why}"));
            }
            if property["nullable"] == Value::Bool(true) {
                let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                self.refuse(&at_key, "nullable", format!("Forbidden: {why}"));
            }
        }
    }
}
