//! Measures, before a schema is used, how much work even the smallest document takes.
//!
//! A plugin's author wrote the schema, and it is first used before an operator has written a configuration. A few lines
//! in which each definition refers to the next one twice take 2ⁿ steps; six definitions that all refer to each other
//! were seen to take minutes. So no reference may return to its origin without going deeper into the document, and the
//! number of checks at one place of the document is bounded. How often a schema recurs within a deep document is not
//! known here: that document is the operator's own, and its check has a time limit.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

/// The most checks at one place of a document.
const PLACE_CHECKS_MAX: u64 = 10_000;
/// The deepest nesting of references and combinations at one place of a document.
const SCHEMA_DEPTH_MAX: usize = 128;
/// The most schemas that are referred to. In the worst case, following references puts all of them on the stack.
const REFERRED_SCHEMAS_MAX: usize = 500;

/// The keywords that refer to another schema.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// The keywords whose schemas apply to the same place of the document.
const COMBINED: [&str; 7] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else"];
/// The keywords among these that have a schema for each name.
const COMBINED_BY_NAME: [&str; 2] = ["dependentSchemas", "dependencies"];
/// The keywords that have a schema for each name, but whose schemas apply to another place of the document, or to none.
const BY_NAME: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];
/// The keywords whose members are values, not schemas.
const VALUES: [&str; 4] = ["const", "default", "enum", "examples"];
/// The keywords that check the same place a second time, because they depend on what other keywords have checked.
const AGAIN: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];

/// Why a schema is refused. `None` if it can be checked in time.
pub(super) fn problem(schema: &Value) -> Option<String> {
    let mut measured = Measured { root: schema, steps: HashMap::new(), targets: HashSet::new(), deeper: vec![schema] };
    measured.all().err()
}

struct Measured<'a> {
    root: &'a Value,
    /// The number of checks of each schema, by its address in memory. `None` while a schema is being measured, so that
    /// a cycle is noticed.
    steps: HashMap<usize, Option<u64>>,
    /// The targets of references.
    targets: HashSet<usize>,
    /// The schemas found so far that apply to other places of the document.
    deeper: Vec<&'a Value>,
}

impl<'a> Measured<'a> {
    fn all(&mut self) -> Result<(), String> {
        while let Some(schema) = self.deeper.pop() {
            if self.steps(schema, 0)? > PLACE_CHECKS_MAX {
                return Err(format!("it unfolds to more than {PLACE_CHECKS_MAX} checks at one place of a document"));
            }
        }
        Ok(())
    }

    /// The number of checks that `schema` makes at one place of a document.
    fn steps(&mut self, schema: &'a Value, depth: usize) -> Result<u64, String> {
        if depth > SCHEMA_DEPTH_MAX {
            return Err(format!("its references are nested more than {SCHEMA_DEPTH_MAX} levels deep"));
        }
        let Value::Object(fields) = schema else { return Ok(1) };
        let place = std::ptr::from_ref(schema).addr();
        match self.steps.get(&place) {
            Some(Some(known)) => return Ok(*known),
            Some(None) => return Err("a reference in it leads back to itself".to_owned()),
            None => {}
        }
        self.steps.insert(place, None);
        let mut steps = 1_u64;
        for part in self.parts(fields)? {
            steps = steps.saturating_add(self.steps(part, depth + 1)?);
        }
        if AGAIN.iter().any(|keyword| fields.contains_key(*keyword)) {
            steps = steps.saturating_mul(2);
        }
        self.steps.insert(place, Some(steps));
        Ok(steps)
    }

    /// The schemas that apply to the same place as the schema with these `fields`. All other schemas in it are stored
    /// for later.
    fn parts(&mut self, fields: &'a Map<String, Value>) -> Result<Vec<&'a Value>, String> {
        let mut parts = self.referred(fields)?;
        for (keyword, value) in fields {
            let keyword = keyword.as_str();
            if COMBINED.contains(&keyword) {
                parts.extend(schemas(value));
            } else if COMBINED_BY_NAME.contains(&keyword) {
                parts.extend(value.as_object().into_iter().flat_map(Map::values));
            } else if BY_NAME.contains(&keyword) {
                self.deeper.extend(value.as_object().into_iter().flat_map(Map::values));
            } else if !VALUES.contains(&keyword) {
                self.deeper.extend(schemas(value));
            }
        }
        Ok(parts)
    }

    /// Finds the target of the reference in `fields` within the schema. Only plain pointers are allowed, because other
    /// names could not be resolved here as the validator does.
    fn referred(&mut self, fields: &Map<String, Value>) -> Result<Vec<&'a Value>, String> {
        let is_root = self.root.as_object().is_some_and(|root| std::ptr::eq(root, fields));
        if !is_root && ["$id", "id"].iter().any(|name| fields.get(*name).is_some_and(Value::is_string)) {
            return Err(
                "a schema within it has an `$id` of its own, by which references would lead elsewhere".to_owned()
            );
        }
        let mut targets = Vec::new();
        for text in REFERENCES.into_iter().filter_map(|keyword| fields.get(keyword)?.as_str()) {
            let pointer = text.strip_prefix('#').filter(|it| !it.contains('%'));
            let target = pointer.and_then(|pointer| self.root.pointer(pointer));
            let target = target.ok_or("a reference in it is not like `#/$defs/name`, or leads nowhere")?;
            self.targets.insert(std::ptr::from_ref(target).addr());
            targets.push(target);
        }
        if self.targets.len() > REFERRED_SCHEMAS_MAX {
            return Err(format!("it refers to more than {REFERRED_SCHEMAS_MAX} schemas"));
        }
        Ok(targets)
    }
}

/// The schema of a keyword, or its list of schemas.
fn schemas(value: &Value) -> impl Iterator<Item = &Value> {
    let (one, all) = match value {
        Value::Array(items) => (None, items.as_slice()),
        other => (Some(other), &[][..]),
    };
    one.into_iter().chain(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Definitions `depth` deep, each of which refers to the next one `times` times.
    fn chained(depth: u32, times: usize) -> Value {
        let name = |at: u32| format!("#/$defs/d{at}");
        let of = |at: u32| json!({"allOf": vec![json!({"$ref": name(at)}); times]});
        let mut definitions: Map<String, Value> = (0..depth).map(|at| (format!("d{at}"), of(at + 1))).collect();
        definitions.insert(format!("d{depth}"), json!({"type": "object"}));
        json!({"$ref": name(0), "$defs": definitions})
    }

    #[test]
    fn a_schema_that_unfolds_beyond_the_limit_is_refused() {
        assert!(problem(&chained(40, 2)).expect("2⁴⁰ steps").contains("unfolds"));
        assert!(problem(&chained(10_000, 1)).expect("a long chain").contains("deep"));
        let beside = json!({"properties": {"a": chained(40, 2)["$ref"]}, "$defs": chained(40, 2)["$defs"]});
        assert!(problem(&beside).is_some(), "even if nothing refers to it yet");
        assert_eq!(problem(&chained(40, 1)), None, "a chain that people might write");
        assert_eq!(problem(&chained(4, 3)), None);
    }

    #[test]
    fn a_schema_that_refers_to_itself_in_place_is_refused_but_a_tree_is_not() {
        let all = |me: usize| (0..6).filter(move |at| *at != me).map(|at| json!({"$ref": format!("#/$defs/d{at}")}));
        let complete: Map<String, Value> =
            (0..6).map(|at| (format!("d{at}"), json!({"anyOf": all(at).collect::<Vec<_>>()}))).collect();
        for schema in
            [json!({"$ref": "#"}), json!({"not": {"$ref": "#"}}), json!({"$ref": "#/$defs/d0", "$defs": complete})]
        {
            assert!(problem(&schema).expect("it comes around").contains("leads back"), "{schema}");
        }
        let tree = json!({
            "$ref": "#/$defs/node",
            "$defs": {"node": {"type": "object", "properties": {
                "left": {"$ref": "#/$defs/node"}, "more": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            }}},
        });
        assert_eq!(problem(&tree), None);
    }

    #[test]
    fn a_chain_of_references_into_the_depth_has_an_end() {
        let of = |at: u32| json!({"properties": {"a": {"$ref": format!("#/$defs/d{at}")}}});
        let mut definitions: Map<String, Value> = (0..1000).map(|at| (format!("d{at}"), of(at + 1))).collect();
        definitions.insert("d1000".to_owned(), json!({}));
        let schema = json!({"$ref": "#/$defs/d0", "$defs": definitions});
        assert!(problem(&schema).expect("too long").contains("more than 500 schemas"));
    }

    #[test]
    fn a_reference_that_cannot_be_followed_is_refused() {
        for schema in [
            json!({"$ref": "other.json"}),
            json!({"$dynamicRef": "#anchor"}),
            json!({"$ref": "#/$defs/%61", "$defs": {"%61": {}, "a": {}}}),
            json!({"allOf": [{"$id": "urn:a", "$ref": "#/$defs/b"}], "$defs": {"b": {}}}),
        ] {
            assert!(problem(&schema).is_some(), "{schema}");
        }
        let named = json!({"$id": "urn:a", "properties": {"$id": {"type": "string"}, "$ref": {"type": "string"}}});
        assert_eq!(problem(&named), None);
        assert_eq!(problem(&json!({"default": {"id": "a", "$ref": "b"}})), None);
    }
}
