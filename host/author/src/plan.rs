//! A build as a value: the tools that it needs and the commands that it runs. [`super::language`] creates it;
//! [`super::tools`] and [`super::run`] carry it out.

use std::path::PathBuf;

/// A whole build, up to the output of the language's own tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BuildPlan {
    /// Tools and files that must exist, in the order of use.
    pub needs: Vec<BuildNeed>,
    pub steps: Vec<BuildStep>,
    /// Where the steps put the module or component.
    pub output: BuildOutput,
    /// A source map that the steps also write, relative to the folder.
    pub source_map: Option<PathBuf>,
}

/// The place of the build's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BuildOutput {
    /// This path, relative to the folder.
    File(PathBuf),
    /// The path that cargo, as the last step, prints to standard output.
    ReportedByCargo,
    /// No file yet: the component is made from this script, relative to the folder, and the interpreter.
    Joined(PathBuf),
}

/// Something that a build needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BuildNeed {
    Tool(&'static Tool),
    /// Rust's standard library for plugins. Only rustc knows whether it is installed.
    RustTarget,
    /// The Starlark interpreter, which this binary may lack.
    Interpreter,
    /// A file or directory, relative to the folder.
    Path {
        path: PathBuf,
        /// Advice if it is missing.
        advice: String,
    },
}

/// An external program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    pub name: &'static str,
    /// The commands under which the tool may exist, each with its first arguments. The first that exists and answers is
    /// used.
    pub ways: &'static [&'static [&'static str]],
    /// How to ask for its version.
    pub version: VersionQuery,
    /// The minimum version.
    pub least: &'static str,
    /// The version that Windlass was tested with.
    pub tried: &'static str,
    /// Ways to get the tool: a system or package manager, and the command to type.
    pub get: &'static [(&'static str, &'static str)],
}

/// How to determine the version of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionQuery {
    Argument(&'static str),
    /// The tool does not print its version. The `package.json` of its package has it.
    NpmPackage(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BuildStep {
    pub program: Program,
    pub arguments: Vec<String>,
    pub environment: Vec<(&'static str, &'static str)>,
}

/// A command to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Tool(&'static Tool),
    /// The author's own command.
    Shell,
}

impl BuildStep {
    pub(crate) fn of<I: IntoIterator<Item = S>, S: Into<String>>(tool: &'static Tool, arguments: I) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { program: Program::Tool(tool), arguments, environment: vec![] }
    }
}
