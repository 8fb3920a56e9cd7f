//! Mutations of a valid manifest, one field each, as the schema of the kind suggests: a field is removed, empty,
//! negative, too long, out of range, duplicated, set beside a field that excludes it, or has invalid characters. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The schemas of an OpenAPI v3 document, by name.
pub type Schemas = BTreeMap<String, Value>;

/// The number of levels that are created below an existing level of the manifest.
const ABSENT_LEVELS: usize = 2;

/// The number of items of a list, and of values of a map, that are changed.
const CHANGED_ITEMS_MAX: usize = 2;

/// Fields that are not mutated: they contain schemas, or the kind has no rules for them.
const SKIPPED: [&str; 4] = ["/apiVersion", "/kind", "/status", "/metadata"];

/// A changed manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    /// The JSON pointer of the field, and its new value.
    pub what: String,
    /// The whole object.
    pub object: Value,
}

/// All mutations of a manifest, always in the same order.
#[must_use]
pub fn mutations(schemas: &Schemas, schema: &Value, manifest: &Value) -> Vec<Mutation> {
    let mut walk = Walk { schemas, changes: Vec::new() };
    walk.visit(schema, Some(manifest), "", 0);
    let name = "/metadata/name";
    walk.changes
        .extend(["Upper", "a.b", "1a", "a_b", "a:b", "-a", ""].map(|text| (name.to_owned(), Some(json!(text)))));
    walk.changes.push((name.to_owned(), Some(json!("a".repeat(64)))));
    let made = walk.changes.into_iter().map(|(pointer, value)| {
        let shown = value.as_ref().map_or_else(|| "removed".to_owned(), ToString::to_string);
        let what = format!("{pointer} = {}", shown.chars().take(60).collect::<String>());
        Mutation { what, object: changed(manifest, &pointer, value) }
    });
    made.filter(|mutation| mutation.object != *manifest).collect()
}

struct Walk<'a> {
    schemas: &'a Schemas,
    /// Pointer and value; `None` removes the field.
    changes: Vec<(String, Option<Value>)>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, schema: &'a Value, value: Option<&Value>, at: &str, absent: usize) {
        let schema = self.resolved(schema);
        if SKIPPED.contains(&at) || absent > ABSENT_LEVELS {
            return;
        }
        if value.is_some() && !at.is_empty() {
            self.changes.push((at.to_owned(), None));
        }
        let deeper = |value: Option<&Value>| if value.is_some() { 0 } else { absent + 1 };
        if let Some(properties) = schema["properties"].as_object() {
            if !at.is_empty() {
                self.changes.push((at.to_owned(), Some(json!({}))));
            }
            for (name, property) in properties {
                let field = value.and_then(|value| value.get(name));
                self.visit(property, field, &format!("{at}/{}", escaped(name)), deeper(field));
            }
        } else if schema["type"] == "array" {
            self.list(schema, value, at, absent);
        } else if schema["additionalProperties"].is_object() {
            self.map(schema, value, at, absent);
        } else {
            self.changes.extend(leaves(schema).into_iter().map(|leaf| (at.to_owned(), Some(leaf))));
        }
    }

    fn list(&mut self, schema: &'a Value, value: Option<&Value>, at: &str, absent: usize) {
        self.changes.push((at.to_owned(), Some(json!([]))));
        let items = value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if let Some(first) = items.first() {
            let twice: Vec<&Value> = items.iter().chain([first]).collect();
            self.changes.push((at.to_owned(), Some(json!(twice))));
        }
        for (index, item) in items.iter().enumerate().take(CHANGED_ITEMS_MAX) {
            self.visit(&schema["items"], Some(item), &format!("{at}/{index}"), 0);
        }
        if items.is_empty() {
            self.visit(&schema["items"], None, &format!("{at}/0"), absent);
        }
    }

    fn map(&mut self, schema: &'a Value, value: Option<&Value>, at: &str, absent: usize) {
        self.changes.push((at.to_owned(), Some(json!({}))));
        let values = &schema["additionalProperties"];
        let fields = value.and_then(Value::as_object);
        let sample = fields.and_then(|fields| fields.values().next()).cloned();
        let sample = sample.or_else(|| leaves(self.resolved(values)).pop()).unwrap_or_else(|| json!({}));
        for key in ["-", "A b", "", "x/y/z", "..", "pods"] {
            self.changes.push((format!("{at}/{}", escaped(key)), Some(sample.clone())));
        }
        for (key, value) in fields.into_iter().flatten().take(CHANGED_ITEMS_MAX) {
            self.visit(values, Some(value), &format!("{at}/{}", escaped(key)), 0);
        }
        if fields.is_none_or(Map::is_empty) {
            self.visit(values, None, &format!("{at}/a"), absent + 1);
        }
    }

    /// The schema that a reference names. In OpenAPI v3, a reference with a default is inside `allOf`.
    fn resolved(&self, schema: &'a Value) -> &'a Value {
        let reference = schema.get("$ref").or_else(|| schema["allOf"][0].get("$ref"));
        let name = reference.and_then(Value::as_str).and_then(|text| text.rsplit('/').next());
        name.and_then(|name| self.schemas.get(name)).unwrap_or(schema)
    }
}

/// The values for a field that has no inner fields.
fn leaves(schema: &Value) -> Vec<Value> {
    let long = "a".repeat(300);
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("boolean"), _) => vec![json!(true), json!(false)],
        (Some("integer"), Some("int64")) => [0, -1, 1, 70_000, 3_000_000_000_i64].map(Value::from).into(),
        (Some("integer"), _) => [0, -1, 1, 101, 70_000, 2_147_483_647].map(Value::from).into(),
        (Some("number"), _) => vec![json!(0), json!(-1)],
        (Some("string"), Some("date-time")) => {
            vec![json!("2020-01-01T00:00:00Z"), json!("2020-01-01T00:00:00.000000Z")]
        }
        (Some("string"), Some("byte")) => vec![json!(""), json!("eA==")],
        // The fields that a special Go type parses, such as IntOrString and Quantity.
        (None | Some("string"), format) if schema["oneOf"].is_array() || format == Some("int-or-string") => {
            let texts = ["", "x", "50%", "150%", "0", "-1", "1500m", "1.5"];
            texts.map(Value::from).into_iter().chain([0, -1, 1, 70_000].map(Value::from)).collect()
        }
        _ => {
            ["", "x", "Odd_Value!", "-x", "a.b", "a/b", "/a", "../x", "a:b", "10.0.0.1", &long].map(Value::from).into()
        }
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The manifest with a new value at the pointer, whose missing parents are created. `None` removes the field.
fn changed(manifest: &Value, pointer: &str, value: Option<Value>) -> Value {
    let mut object = manifest.clone();
    let mut place = &mut object;
    let names: Vec<String> =
        pointer.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~")).collect();
    let Some((last, parents)) = names.split_last() else { return object };
    for (index, name) in parents.iter().enumerate() {
        let is_index = |name: &String| name.parse::<usize>().is_ok();
        let empty = if names.get(index + 1).is_some_and(is_index) { json!([]) } else { json!({}) };
        place = entry(place, name, empty);
    }
    match (value, place) {
        (Some(value), place) => *entry(place, last, Value::Null) = value,
        (None, Value::Object(fields)) => drop(fields.remove(last)),
        (None, Value::Array(items)) => {
            if let Some(index) = last.parse().ok().filter(|index| *index < items.len()) {
                items.remove(index);
            }
        }
        (None, _) => {}
    }
    object
}

/// The field or item of this name, which is created if it is missing.
fn entry<'a>(place: &'a mut Value, name: &str, empty: Value) -> &'a mut Value {
    if let (Value::Array(_), Ok(index)) = (&*place, name.parse::<usize>()) {
        let Value::Array(items) = place else { unreachable!("the line above says so") };
        while items.len() <= index {
            items.push(empty.clone());
        }
        return &mut items[index];
    }
    if !place.is_object() {
        *place = json!({});
    }
    let Value::Object(fields) = place else { unreachable!("the lines above made it a map") };
    fields.entry(name).or_insert(empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(schema: &Value, manifest: &Value) -> Vec<String> {
        let all = mutations(&Schemas::new(), schema, manifest);
        all.into_iter().filter(|it| !it.what.starts_with("/metadata")).map(|it| it.object.to_string()).collect()
    }

    #[test]
    fn a_flag_is_removed_and_inverted() {
        let schema = json!({ "properties": { "a": { "type": "boolean" } } });
        assert_eq!(made(&schema, &json!({ "a": true })), ["{}", r#"{"a":false}"#]);
    }

    #[test]
    fn a_missing_member_is_created() {
        let flag = json!({ "properties": { "b": { "type": "boolean" } } });
        let schema = json!({ "properties": { "a": { "type": "array", "items": flag } } });
        let expected = [r#"{"a":[]}"#, r#"{"a":[{}]}"#, r#"{"a":[{"b":true}]}"#, r#"{"a":[{"b":false}]}"#];
        assert_eq!(made(&schema, &json!({})), expected);
    }

    #[test]
    fn the_first_item_is_duplicated() {
        let schema = json!({ "properties": { "a": { "type": "array", "items": { "type": "boolean" } } } });
        assert!(made(&schema, &json!({ "a": [true] })).contains(&r#"{"a":[true,true]}"#.to_owned()));
    }
}
