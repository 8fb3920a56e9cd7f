//! Compares the definitions in `crd.yaml` with those that are generated from types. Nothing here does I/O.
//!
//! Two definitions are the same if an API server treats them the same: the order of required fields does not matter,
//! nor does a value that the server fills in.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value, json};
use windlass_core::deceptive;

/// The annotation with which controller-gen marks its output.
const TOOL_VERSION: &str = "controller-gen.kubebuilder.io/version";
/// The maximum size of a part of a definition in a message.
const SHOWN_SCHEMA_BYTES_MAX: usize = 100;
/// Lists of texts whose order does not matter.
const SETS: [&str; 5] = ["required", "enum", "shortNames", "categories", "x-kubernetes-list-map-keys"];
/// Fields that mean the same whether they are empty or missing.
const EMPTY_IS_MISSING: [&str; 6] =
    ["shortNames", "categories", "required", "additionalPrinterColumns", "selectableFields", "subresources"];
/// Keywords of schemas below which authors choose the keys.
const KEYWORDS_OF_FIELDS: [&str; 2] = ["properties", "patternProperties"];

/// A place at which the definitions differ.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DefinitionDrift {
    /// The name of the definition.
    definition: String,
    /// The path in the definition. Empty if one side lacks the whole definition.
    path: String,
    /// The value in `crd.yaml`.
    written: Option<Value>,
    generated: Option<Value>,
}

impl fmt::Display for DefinitionDrift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { definition, path, written, generated } = self;
        let shown = |value: &Value| deceptive::single_line(&value.to_string(), SHOWN_SCHEMA_BYTES_MAX);
        write!(f, "{}", deceptive::escape_line(definition))?;
        if path.is_empty() {
            return f.write_str(match written {
                Some(_) => " is only in crd.yaml",
                None => " is not in crd.yaml",
            });
        }
        write!(f, " {}: ", deceptive::escape_line(path))?;
        match (written, generated) {
            (Some(written), Some(generated)) => {
                write!(f, "crd.yaml has {}, and the types give {}", shown(written), shown(generated))
            }
            (Some(written), None) => write!(f, "only crd.yaml has {}", shown(written)),
            (None, generated) => write!(f, "crd.yaml lacks {}", shown(generated.as_ref().unwrap_or(&Value::Null))),
        }
    }
}

/// All differences between the definitions in `crd.yaml` and the generated ones.
pub(crate) fn differences(written: &[Value], generated: &[Value]) -> Vec<DefinitionDrift> {
    let name = |definition: &Value| definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let with_name = |definitions: &[Value], wanted: &str| definitions.iter().find(|it| name(it) == wanted).cloned();
    let names: BTreeSet<String> = written.iter().chain(generated).map(name).collect();
    let mut found = Vec::new();
    for definition in names {
        let mut search = DriftSearch { definition: &definition, found: &mut found };
        match (with_name(written, &definition), with_name(generated, &definition)) {
            (Some(written), Some(generated)) => search.definitions(&written, &generated),
            (written, generated) => search.add(String::new(), written, generated),
        }
    }
    found
}

struct DriftSearch<'c> {
    definition: &'c str,
    found: &'c mut Vec<DefinitionDrift>,
}

impl DriftSearch<'_> {
    fn add(&mut self, path: String, written: Option<Value>, generated: Option<Value>) {
        let definition = self.definition.to_owned();
        self.found.push(DefinitionDrift { definition, path, written, generated });
    }

    fn definitions(&mut self, written: &Value, generated: &Value) {
        // An author may add labels and annotations that no type knows of.
        for field in ["labels", "annotations"] {
            for (key, value) in generated["metadata"][field].as_object().into_iter().flatten() {
                let there = &written["metadata"][field][key];
                if key != TOOL_VERSION && there != value {
                    let there = Some(there.clone()).filter(|it| !it.is_null());
                    self.add(format!("metadata.{field}[{key}]"), there, Some(value.clone()));
                }
            }
        }
        self.values(&SchemaPath::start("spec"), &with_defaults(&written["spec"]), &with_defaults(&generated["spec"]));
    }

    fn values(&mut self, path: &SchemaPath, written: &Value, generated: &Value) {
        match (written, generated) {
            (Value::Object(written), Value::Object(generated)) => self.objects(path, written, generated),
            (Value::Array(written), Value::Array(generated)) if path.is_set() => {
                if sorted(written) != sorted(generated) {
                    self.add(path.text.clone(), Some(json!(written)), Some(json!(generated)));
                }
            }
            (Value::Array(written), Value::Array(generated)) => self.lists(path, written, generated),
            (written, generated) if written == generated => {}
            // A server compares bounds such as `minimum` by value, and some generators write 1.0.
            (Value::Number(written), Value::Number(generated))
                if (written.is_f64() || generated.is_f64()) && written.as_f64() == generated.as_f64() => {}
            _ => self.add(path.text.clone(), Some(written.clone()), Some(generated.clone())),
        }
    }

    fn objects(&mut self, path: &SchemaPath, written: &Map<String, Value>, generated: &Map<String, Value>) {
        let keys: BTreeSet<&String> = written.keys().chain(generated.keys()).collect();
        for key in keys {
            self.elements(&path.field(key), meaning(key, written), meaning(key, generated));
        }
    }

    /// The versions of a definition have names, and their order does not matter.
    fn lists(&mut self, path: &SchemaPath, written: &[Value], generated: &[Value]) {
        if path.text == "spec.versions" {
            let of = |list: &[Value], name: &str| list.iter().find(|version| version["name"] == name).cloned();
            let names: BTreeSet<&str> =
                written.iter().chain(generated).filter_map(|version| version["name"].as_str()).collect();
            for name in names {
                let path = path.element(name);
                self.elements(&path, of(written, name).as_ref(), of(generated, name).as_ref());
            }
            return;
        }
        for index in 0..written.len().max(generated.len()) {
            self.elements(&path.element(&index.to_string()), written.get(index), generated.get(index));
        }
    }

    fn elements(&mut self, path: &SchemaPath, written: Option<&Value>, generated: Option<&Value>) {
        match (written, generated) {
            (Some(written), Some(generated)) => self.values(path, written, generated),
            (None, None) => {}
            (written, generated) => self.add(path.text.clone(), written.cloned(), generated.cloned()),
        }
    }
}

/// The value of a field, unless it means the same as a missing one.
fn meaning<'v>(key: &str, fields: &'v Map<String, Value>) -> Option<&'v Value> {
    let is_empty = |value: &Value| {
        value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty) || value.is_null()
    };
    fields.get(key).filter(|value| !(EMPTY_IS_MISSING.contains(&key) && is_empty(value)))
}

fn sorted(list: &[Value]) -> BTreeSet<String> {
    list.iter().map(Value::to_string).collect()
}

/// The `spec` of a definition with the fields that an API server fills in.
fn with_defaults(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let kind = spec["names"]["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(names) = spec["names"].as_object_mut() {
        names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
        names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    }
    spec
}

/// A path in a definition, as an API server writes it in its errors: `spec.versions[v1]…properties[size].minimum`.
struct SchemaPath {
    text: String,
    /// The last keyword. Empty if the path ends with a key that an author chose, or with an element.
    keyword: String,
}

impl SchemaPath {
    fn start(field: &str) -> Self {
        Self { text: field.to_owned(), keyword: field.to_owned() }
    }

    fn field(&self, key: &str) -> Self {
        if KEYWORDS_OF_FIELDS.contains(&&*self.keyword) {
            return self.element(key);
        }
        Self { text: format!("{}.{key}", self.text), keyword: key.to_owned() }
    }

    fn element(&self, name: &str) -> Self {
        Self { text: format!("{}[{name}]", self.text), keyword: String::new() }
    }

    fn is_set(&self) -> bool {
        SETS.contains(&&*self.keyword)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> Value {
        let size = json!({"type": "integer", "minimum": 1, "enum": [1, 2]});
        // The name of a field may be a keyword.
        let properties = json!({"type": "object", "properties": {"properties": {"type": "string"}}});
        let spec = json!({
            "type": "object", "required": ["size", "properties"], "properties": {"size": size, "properties": properties},
        });
        let version = |name: &str, spec: &Value| {
            json!({
                "name": name, "served": true, "storage": name == "v1",
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            })
        };
        json!({
            "metadata": {"name": "shops.example.com", "annotations": {TOOL_VERSION: "v0.19.0", "a": "b"}},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"kind": "Shop", "plural": "shops"},
                "versions": [version("v1", &spec), version("v2", &spec)],
            },
        })
    }

    fn texts(written: &Value, generated: &Value) -> Vec<String> {
        let found = differences(std::slice::from_ref(written), std::slice::from_ref(generated));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn definitions_that_a_server_treats_the_same_do_not_differ() {
        let (generated, mut written) = (definition(), definition());
        written["metadata"]["annotations"] = json!({TOOL_VERSION: "v0.16.1", "a": "b", "mine": "1"});
        written["spec"]["names"]["listKind"] = json!("ShopList");
        written["spec"]["names"]["shortNames"] = json!([]);
        written["spec"]["conversion"] = json!({"strategy": "None"});
        written["spec"]["versions"].as_array_mut().expect("a list").reverse();
        let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
        *written.pointer_mut(&format!("{schema}/required")).expect("it is there") = json!(["properties", "size"]);
        *written.pointer_mut(&format!("{schema}/properties/size/enum")).expect("it is there") = json!([2, 1]);
        *written.pointer_mut(&format!("{schema}/properties/size/minimum")).expect("it is there") = json!(1.0);
        assert_eq!(texts(&written, &generated), [""; 0]);
    }

    #[test]
    fn a_difference_has_its_path_and_both_values() {
        let (generated, schema) = (definition(), "/spec/versions/0/schema/openAPIV3Schema/properties/spec");
        let changed = |pointer: &str, value: Value| {
            let mut written = definition();
            *written.pointer_mut(pointer).expect("it is there") = value;
            texts(&written, &generated)
        };
        let path = "shops.example.com spec.versions[v1].schema.openAPIV3Schema.properties[spec]";
        for (pointer, value, expected) in [
            (
                format!("{schema}/properties/size/minimum"),
                json!(2),
                format!("{path}.properties[size].minimum: crd.yaml has 2, and the types give 1"),
            ),
            (
                format!("{schema}/properties/properties/properties/properties"),
                json!({"type": "string", "format": "uri"}),
                format!("{path}.properties[properties].properties[properties].format: only crd.yaml has \"uri\""),
            ),
            (
                format!("{schema}/required"),
                json!(["size"]),
                format!("{path}.required: crd.yaml has [\"size\"], and the types give [\"size\",\"properties\"]"),
            ),
            (
                "/metadata/annotations".to_owned(),
                json!({}),
                "shops.example.com metadata.annotations[a]: crd.yaml lacks \"b\"".to_owned(),
            ),
            (
                "/spec/scope".to_owned(),
                json!("Cluster\u{202e}"),
                "shops.example.com spec.scope: crd.yaml has \"Cluster\\u{202e}\", and the types give \"Namespaced\""
                    .to_owned(),
            ),
        ] {
            assert_eq!(changed(&pointer, value), [expected], "{pointer}");
        }
        let mut removed = definition();
        removed["spec"]["versions"].as_array_mut().expect("a list").pop();
        let text = texts(&removed, &generated).join("\n");
        assert!(text.starts_with("shops.example.com spec.versions[v2]: crd.yaml lacks {\"name\":\"v2\""), "{text}");
    }

    #[test]
    fn a_definition_on_one_side_only_is_one_difference() {
        let (one, none) = ([definition()], [Value::Null; 0]);
        let texts = |written: &[Value], generated: &[Value]| differences(written, generated)[0].to_string();
        assert_eq!(texts(&one, &none), "shops.example.com is only in crd.yaml");
        assert_eq!(texts(&none, &one), "shops.example.com is not in crd.yaml");
    }
}
