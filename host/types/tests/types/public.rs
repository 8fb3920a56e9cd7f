//! The types of definitions of public projects, in all languages. `make soak STORIES=types` fetches the definitions.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use windlass_types::{Language, generate};

use crate::kinds::{Tested, of_definitions};
use crate::languages::{check_in_python, check_in_typescript, run, through_go, write};

/// The size of the definitions, in bytes of JSON, whose types are in one file. A larger definition has a file of its
/// own. The Rust compiler needs about 1 MiB of memory for each type.
const FILE_DEFINITION_BYTES_MAX: usize = 1 << 20;
/// The least number of definitions.
const DEFINITIONS_MIN: usize = 200;
/// The number of random objects for each kind.
const PUBLIC_OBJECTS: u64 = 5;

#[test]
#[ignore = "tools/soak types fetches the definitions"]
fn types_of_public_definitions_are_valid() {
    let folders = std::env::var("WINDLASS_DEFINITIONS").expect("WINDLASS_DEFINITIONS names folders");
    let mut definitions = BTreeMap::new();
    std::env::split_paths(&folders).for_each(|folder| collect(&folder, &mut definitions));
    let found: Vec<Value> = definitions.into_values().collect();
    let number = found.len();
    let (mut kinds, mut refused) = (0, Vec::new());
    let cargo = tempfile::tempdir().expect("a folder");
    for some in batches(found) {
        let (tested, errors) = of_definitions("public definitions", &some);
        println!("{} types of {} kinds", tested.0.declarations.len(), tested.1.len());
        kinds += tested.1.len();
        refused.extend(errors);
        check_in_rust(cargo.path(), &tested);
        through_go(&tested, PUBLIC_OBJECTS);
        check_in_typescript(&tested, PUBLIC_OBJECTS);
        check_in_python(&tested, PUBLIC_OBJECTS);
    }
    let accepted = number - refused.len();
    println!("figures: {accepted} definitions with {kinds} versions; {} refused: {refused:?}", refused.len());
    assert!(accepted >= DEFINITIONS_MIN, "{accepted} definitions of at least {DEFINITIONS_MIN}");
}

fn batches(definitions: Vec<Value>) -> Vec<Vec<Value>> {
    let (mut batches, mut bytes) = (vec![vec![]], 0);
    for definition in definitions {
        bytes += definition.to_string().len();
        let is_full = bytes > FILE_DEFINITION_BYTES_MAX;
        match batches.last_mut() {
            Some(last) if last.is_empty() || !is_full => last.push(definition),
            _ => {
                bytes = definition.to_string().len();
                batches.push(vec![definition]);
            }
        }
    }
    batches
}

/// Collects the definitions in the YAML files below a folder, by name.
fn collect(folder: &Path, found: &mut BTreeMap<String, Value>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            // Templates are not YAML.
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let documents = if text.contains("kind: CustomResourceDefinition") {
                serde_saphyr::from_multiple::<Value>(&text).unwrap_or_default()
            } else {
                vec![]
            };
            for definition in documents.into_iter().filter(is_definition) {
                found.insert(definition["metadata"]["name"].to_string(), without_other_annotations(definition));
            }
        }
    }
}

fn is_definition(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition" && object["apiVersion"] == "apiextensions.k8s.io/v1"
}

/// Keeps only the annotation that a protected group needs. Some files are inputs of generators, whose other annotations
/// are invalid.
fn without_other_annotations(mut definition: Value) -> Value {
    const APPROVAL: &str = "api-approved.kubernetes.io";
    let approval = definition["metadata"]["annotations"][APPROVAL].take();
    definition["metadata"]["annotations"] = if approval.is_null() { json!({}) } else { json!({ APPROVAL: approval }) };
    definition
}

/// Compiles the types in Rust, in the crate in `folder`, which keeps its compiled dependencies.
fn check_in_rust(folder: &Path, tested: &Tested) {
    const MANIFEST: &str = "[package]\nname = \"types\"\nedition = \"2024\"\n[dependencies]\nserde_json = \"1\"\n\
        serde = { version = \"1\", features = [\"derive\"] }\n[lib]\npath = \"lib.rs\"\n[workspace]\n";
    write(folder, "Cargo.toml", MANIFEST);
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::copy(workspace.join("Cargo.lock"), folder.join("Cargo.lock")).expect("it can be copied");
    write(folder, "lib.rs", "mod types;\n");
    write(folder, "types.rs", &generate(Language::Rust, &tested.0, ""));
    run(folder, &["CARGO_TARGET_DIR=target", "cargo", "check", "--offline", "--quiet"]);
}
