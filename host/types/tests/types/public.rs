//! The types of definitions of public projects, in all languages. `make soak STORIES=types` fetches the definitions.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use windlass_types::{Language, generate};

use crate::kinds::{Tested, of_definitions};
use crate::languages::{check_in_python, check_in_typescript, run, through_go, write};

/// The number of definitions whose types are in one file. A compiler takes minutes for the types of all.
const DEFINITIONS_PER_FILE: usize = 20;
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
    let (mut kinds, mut refused) = (0, Vec::new());
    let cargo = tempfile::tempdir().expect("a folder");
    for some in found.chunks(DEFINITIONS_PER_FILE) {
        let (tested, errors) = of_definitions("public definitions", some);
        println!("{} types of {} kinds", tested.0.declarations.len(), tested.1.len());
        kinds += tested.1.len();
        refused.extend(errors);
        check_in_rust(cargo.path(), &tested);
        through_go(&tested, PUBLIC_OBJECTS);
        check_in_typescript(&tested, PUBLIC_OBJECTS);
        check_in_python(&tested, PUBLIC_OBJECTS);
    }
    let accepted = found.len() - refused.len();
    println!("figures: {accepted} definitions with {kinds} versions; {} refused: {refused:?}", refused.len());
    assert!(accepted >= DEFINITIONS_MIN, "{accepted} definitions of at least {DEFINITIONS_MIN}");
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
                found.insert(definition["metadata"]["name"].to_string(), definition);
            }
        }
    }
}

fn is_definition(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition" && object["spec"]["versions"].is_array()
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
