//! How each language is built. The module of a language lists the needed tools and the commands, and runs nothing.
//!
//! All commands run in the author's folder.

mod c;
mod go;
mod javascript;
pub(crate) mod python;
mod rust;
mod starlark;

pub(crate) use self::go::GO;
pub(crate) use self::rust::TARGET as RUST_TARGET;
use super::WORK;
use super::facts::Facts;
use super::file::{DefinitionSource, Language, OwnBuild};
use super::plan::{BuildNeed, BuildOutput, BuildPlan, BuildStep, Program};

/// The folder for Python packages. componentize-py ignores requirements, so authors install packages here.
pub(crate) const PACKAGES: &str = "packages";

/// The build plan of a folder. A traceable build keeps the names of functions and lines for stack traces.
pub(crate) fn plan(facts: &Facts, traceable: bool) -> BuildPlan {
    if let Some(own) = &facts.file.own {
        return own_plan(own);
    }
    match facts.file.language {
        Language::Rust => rust::plan(facts, traceable),
        Language::Go => go::plan(facts, traceable),
        Language::Python => python::plan(facts),
        Language::JavaScript => javascript::plan(facts, "plugin.js", false, traceable),
        Language::TypeScript => javascript::plan(facts, "plugin.ts", true, traceable),
        Language::C => c::plan(facts, traceable),
        Language::Starlark => starlark::plan(),
        // Parsing refuses a file without a known language and without a build command.
        Language::Other => unreachable!("the build file says how it is built"),
    }
}

/// The tools and the command that print the definitions of a folder.
pub(crate) fn definitions_step(source: &DefinitionSource) -> (Vec<BuildNeed>, BuildStep) {
    match source {
        DefinitionSource::Rust => (vec![BuildNeed::Tool(&rust::CARGO)], rust::definitions_step()),
        DefinitionSource::Go { paths, version } => (vec![BuildNeed::Tool(&GO)], go::definitions_step(paths, version)),
        DefinitionSource::Command(command) => (vec![], shell_step(command)),
    }
}

fn shell_step(command: &str) -> BuildStep {
    BuildStep { program: Program::Shell, arguments: vec![command.to_owned()], environment: vec![] }
}

fn own_plan(own: &OwnBuild) -> BuildPlan {
    BuildPlan {
        needs: vec![],
        steps: vec![shell_step(&own.command)],
        output: BuildOutput::File(own.output.clone()),
        source_map: None,
    }
}

/// The path of the module that a language's compiler writes.
fn core_module() -> String {
    format!("{WORK}/core.wasm")
}

/// The path of the component that a language's own tool writes.
fn component() -> String {
    format!("{WORK}/component.wasm")
}

/// The directory of the WIT files, for tools that read them.
fn wit() -> String {
    format!("{WORK}/wit")
}

/// Requires the SDK, and `files` in the folder.
fn paths(facts: &Facts, files: &[&str]) -> Vec<BuildNeed> {
    let sdk = facts.file.sdk.clone();
    let advice = format!(
        "windlass.yaml says `sdk: {}`: the folder that `windlass new` writes, or sdk/{} of Windlass's sources",
        sdk.display(),
        facts.file.language_name
    );
    std::iter::once(BuildNeed::Path { path: sdk, advice }).chain(files.iter().map(|file| source(file))).collect()
}

/// Requires a file that each plugin of the language has.
fn source(file: &str) -> BuildNeed {
    BuildNeed::Path {
        path: file.into(),
        advice: "a plugin of this language has it; `windlass new` shows how it looks".to_owned(),
    }
}

#[cfg(test)]
mod tests;
