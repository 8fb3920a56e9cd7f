//! The types in Go, TypeScript and Python: their compilers and checkers accept them, and random objects pass through
//! them. `tools/languages` installs the compilers.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use windlass_types::{Language, generate};

use crate::dice::Dice;
use crate::kinds::{self, Tested, TestedKind};

/// The number of random objects for each kind.
const OBJECTS: u64 = 40;

/// Random objects with their kinds.
fn objects((model, kinds): &Tested, number: u64) -> Vec<(&TestedKind, Value)> {
    let objects = kinds
        .iter()
        .flat_map(|kind| (0..number).map(move |seed| (kind, Dice::new(model, seed).of_this_version().object(kind))));
    objects.collect()
}

/// The `PATH` with the tools of other languages.
fn languages() -> String {
    if let Ok(path) = std::env::var("WINDLASS_LANGUAGES") {
        return path;
    }
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/languages");
    let found = Command::new(tool).stderr(Stdio::inherit()).output().expect("tools/languages runs");
    assert!(found.status.success(), "tools/languages failed");
    String::from_utf8(found.stdout).expect("text").trim().to_owned()
}

/// Runs a program of that `PATH` in a folder, and returns its output.
pub(crate) fn run(folder: &Path, words: &[&str]) -> String {
    let path = languages();
    let mut command = Command::new("env");
    command.args(words).current_dir(folder).env("PATH", path).env("GOTOOLCHAIN", "local").env("GOFLAGS", "-mod=mod");
    let done = command.stderr(Stdio::piped()).output().expect("the program runs");
    let (output, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{words:?} failed in {}:\n{output}{errors}", folder.display());
    output.into_owned()
}

pub(crate) fn write(folder: &Path, file: &str, text: &str) {
    std::fs::write(folder.join(file), text).expect("it can be written");
}

/// Writes the objects to a file, one a line.
fn write_objects(folder: &Path, objects: &[(&TestedKind, Value)]) {
    let mut lines = String::new();
    for (kind, object) in objects {
        let _ = writeln!(lines, "{}", json!({"type": kind.type_name, "object": object}));
    }
    write(folder, "objects", &lines);
}

#[test]
fn go_accepts_the_types_and_loses_nothing() {
    for tested in [kinds::own(), kinds::built_in()] {
        through_go(&tested, OBJECTS);
    }
}

#[test]
fn typescript_accepts_the_types_and_objects_of_them() {
    for tested in [kinds::own(), kinds::built_in()] {
        check_in_typescript(&tested, OBJECTS);
    }
}

#[test]
fn python_accepts_the_types_and_objects_of_them() {
    for tested in [kinds::own(), kinds::built_in()] {
        check_in_python(&tested, OBJECTS);
    }
}

/// Checks the types in Go, and that no field of random objects gets lost in them.
pub(crate) fn through_go(tested: &Tested, number: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write(folder, "go.mod", "module types\n\ngo 1.24\n");
    write(folder, "types.go", &generate(Language::Go, &tested.0, "main"));
    let cases: Vec<String> =
        tested.1.iter().map(|it| format!("\tcase \"{0}\":\n\t\treturn new({0})\n", it.type_name)).collect();
    let program = include_str!("through.go").replace("\tcase \"\":\n\t\treturn nil\n", &cases.concat());
    write(folder, "main.go", &program);
    let objects = objects(tested, number);
    write_objects(folder, &objects);
    assert_eq!(run(folder, &["gofmt", "-d", "types.go"]), "", "gofmt changes it");
    run(folder, &["go", "vet", "./..."]);
    let output = run(folder, &["go", "run", "."]);
    assert_eq!(output.lines().count(), objects.len());
    for ((kind, object), line) in objects.iter().zip(output.lines()) {
        let read: Value = serde_json::from_str(line).expect("JSON");
        assert!(*object == read, "{}: {object:#}\nbecame {read:#}", kind.type_name);
    }
}

/// Checks the types in TypeScript, and that random objects have them.
pub(crate) fn check_in_typescript(tested: &Tested, number: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write(folder, "types.ts", &generate(Language::TypeScript, &tested.0, ""));
    let mut uses = String::from("import * as types from \"./types\";\n");
    for (at, (kind, object)) in objects(tested, number).iter().enumerate() {
        let _ = writeln!(uses, "export const object{at}: types.{} = {object};", kind.type_name);
    }
    write(folder, "uses.ts", &uses);
    let strict = ["--strict", "--noEmit", "--target", "es2022", "--module", "es2022", "--moduleResolution", "bundler"];
    run(folder, &[&["tsc", "types.ts", "uses.ts"], strict.as_slice()].concat());
}

/// Checks the types in Python, and that random objects have them.
pub(crate) fn check_in_python(tested: &Tested, number: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write(folder, "types_of_kinds.py", &generate(Language::Python, &tested.0, ""));
    write(folder, "check.py", include_str!("check.py"));
    write_objects(folder, &objects(tested, number));
    run(folder, &["python3", "-W", "error", "check.py"]);
}
