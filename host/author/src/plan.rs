//! A build as a value: the tools that it needs and the commands that it runs. [`super::language`] makes it, [`super::tools`] and
//! [`super::run`] carry it out.

use std::path::PathBuf;

/// All of a build, up to what the language's own tools leave behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BuildPlan {
    /// Tools and files that must be there, in the order of use.
    pub needs: Vec<BuildNeed>,
    pub steps: Vec<BuildStep>,
    /// Where the module or component is then.
    pub output: BuildOutput,
    /// A source map that the steps write too, below the folder.
    pub source_map: Option<PathBuf>,
}

/// Where what was built is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BuildOutput {
    /// Here, below the folder.
    File(PathBuf),
    /// Where the last step, which is cargo, says on its standard output.
    SaidByCargo,
    /// Nowhere yet: this script, below the folder, and the interpreter make it.
    Joined(PathBuf),
}

/// Something that must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BuildNeed {
    Tool(&'static Tool),
    /// The standard library of Rust for plugins, which rustc is asked for.
    RustTarget,
    /// The interpreter of Starlark, which this binary may have been built without.
    Interpreter,
    /// A file or directory below the folder.
    Path {
        path: PathBuf,
        /// Advice for when it is missing.
        advice: String,
    },
}

/// A program of somebody else's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    pub name: &'static str,
    /// Each with its first arguments; the first that is there and answers is taken.
    pub ways: &'static [&'static [&'static str]],
    /// How it is asked for its version.
    pub version: VersionQuery,
    /// Older ones are refused.
    pub least: &'static str,
    /// With which it was tried.
    pub tried: &'static str,
    /// Where one has it from: a system or package manager, and what to type there.
    pub get: &'static [(&'static str, &'static str)],
}

/// How a tool says its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionQuery {
    Argument(&'static str),
    /// Not at all. Its package's `package.json` does.
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
