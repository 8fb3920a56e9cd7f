//! Builds the plugin of a folder from its sources.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_componentize::InterfaceVersion;
use windlass_wasm::{LoadError, Plugin, Sandbox};

use super::definitions::{self, DefinitionsError};
use super::edits::{self, Edited};
use super::facts::Facts;
use super::file::{self, BuildFile, FileError, Language};
use super::finish::{self, FinishError, Finished};
use super::go::{self, GoBuild, GoModulesError};
use super::lock::BuildLock;
use super::plan::{BuildOutput, BuildPlan};
use super::run::{self, RunError};
use super::starlark::{self, StarlarkError};
use super::tools::{Missing, ToolPaths, Toolbox};
use super::{WORK, hints, language};

/// A folder to build, with options.
#[derive(Clone, Debug)]
pub struct BuildRequest {
    pub folder: PathBuf,
    /// The path of the built plugin. If it is `None`, the plugin is written to build/NAME.wasm in the folder.
    pub out: Option<PathBuf>,
    pub verbose: bool,
    /// Keep names of functions and line numbers for stack traces. The plugin may then be larger.
    pub traceable: bool,
    /// Build fast after an edit, even if the plugin's calls are slower. Only plugins in Python can be built faster.
    pub for_edits: bool,
}

/// The source map of a traceable build, relative to the folder. Not all languages have one.
pub const SOURCE_MAP: &str = "build/.windlass/source.map";

/// A plugin that was built.
#[derive(Debug)]
pub struct Built {
    pub plugin: Arc<Plugin>,
    pub path: PathBuf,
    /// Whether the plugin differs from the earlier file.
    pub changed: bool,
    pub took: Duration,
}

/// The reason why there is no plugin.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The folder does not exist.
    #[error("no folder {}: {source}", path.display())]
    NoFolder { path: PathBuf, source: std::io::Error },
    /// The build file is missing or invalid.
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot build {name} ({language}), something is missing:{}", list(missing))]
    Missing {
        name: String,
        language: String,
        /// Each missing tool, and how to get it.
        missing: Vec<Missing>,
    },
    /// The build's working directory cannot be written.
    #[error("cannot work in {}: {source}; a build needs to write there", path.display())]
    Work { path: PathBuf, source: std::io::Error },
    #[error("{source}{}", hint.map(|hint| format!("\n  {hint}")).unwrap_or_default())]
    Run {
        source: RunError,
        /// Advice that often helps.
        hint: Option<&'static str>,
    },
    /// The copies of Go modules cannot be made, or the plugin imports packages that they lack.
    #[error(transparent)]
    GoModules(GoModulesError),
    /// Cargo created no file that could be a plugin.
    #[error("cargo built no plugin: Cargo.toml needs `[lib]` with `crate-type = [\"cdylib\"]`")]
    NoPluginOfCargo,
    /// The definitions in crd.yaml are not those that the types say.
    #[error(transparent)]
    Definitions(#[from] DefinitionsError),
    /// A script cannot be combined with the interpreter.
    #[error(transparent)]
    Starlark(#[from] StarlarkError),
    /// The built file is not a plugin, or cannot be written to its destination.
    #[error(transparent)]
    Finish(#[from] FinishError),
}

fn list(missing: &[Missing]) -> String {
    missing.iter().fold(String::new(), |list, missing| list + &format!("\n  {missing}"))
}

impl BuildError {
    /// Whether the sources caused the error. Otherwise, the environment did.
    #[must_use]
    pub fn is_of_the_sources(&self) -> bool {
        match self {
            Self::Run { source: RunError::Failed { .. }, .. } | Self::NoPluginOfCargo => true,
            Self::GoModules(error) => error.is_of_the_sources(),
            Self::Definitions(error) => error.is_of_the_sources(),
            Self::Starlark(error) => error.is_of_the_script(),
            Self::Finish(error) => !matches!(error, FinishError::Write { .. }),
            _ => false,
        }
    }
}

/// Builds the plugin. The compiler's output goes to standard error.
pub async fn build(wish: &BuildRequest, sandbox: &Sandbox) -> Result<Built, BuildError> {
    let began = Instant::now();
    let no_folder = |source| BuildError::NoFolder { path: wish.folder.clone(), source };
    let folder = wish.folder.canonicalize().map_err(no_folder)?;
    let file = file::read(&folder)?;
    let facts = Facts::of(&folder, file).map_err(|source| BuildError::Work { path: folder.clone(), source })?;
    let work = folder.join(WORK);
    let site = BuildSite { wish, facts: &facts, folder: &folder, work: &work, sandbox };
    std::fs::create_dir_all(&work).map_err(|error| site.at_work(error))?;
    let _lock = BuildLock::take(&work).await.map_err(|error| site.at_work(error))?;
    if !wish.for_edits {
        definitions::check_facts(&folder, &facts, wish.verbose).await?;
    }
    let edited = if wish.for_edits && edits::can_build(&facts) { Some(edits::build(&site).await?) } else { None };
    let finished = match edited {
        Some(Edited::Finished(finished)) => finished,
        Some(Edited::NeedsWholeBuild(reason)) => {
            tracing::info!(target: "windlass::build", "each edit needs a whole build, because {reason}");
            site.build_whole().await?
        }
        None => site.build_whole().await?,
    };
    Ok(Built { plugin: finished.plugin, path: finished.path, changed: finished.changed, took: began.elapsed() })
}

/// A folder in which a plugin is built. No other build uses it.
pub(crate) struct BuildSite<'a> {
    wish: &'a BuildRequest,
    pub facts: &'a Facts,
    folder: &'a Path,
    /// The working directory.
    pub work: &'a Path,
    sandbox: &'a Sandbox,
}

impl BuildSite<'_> {
    pub(crate) fn at_work(&self, source: std::io::Error) -> BuildError {
        BuildError::Work { path: self.work.to_owned(), source }
    }

    pub(crate) fn tool_paths(&self) -> ToolPaths {
        ToolPaths::of(self.folder, std::env::var_os("PATH").as_deref())
    }

    async fn build_whole(&self) -> Result<Finished, BuildError> {
        let plan = language::plan(self.facts, self.wish.traceable);
        let component = self.component(&plan).await?;
        let name = &self.facts.file.name;
        let explain = |error: &LoadError| match &plan.output {
            BuildOutput::Joined(script) => starlark::refusal(error, name, &self.folder.join(script)),
            BuildOutput::File(_) | BuildOutput::ReportedByCargo => finish::refusal(error, name),
        };
        let finished = self.finish(&component, explain).await?;
        if let Some(map) = &plan.source_map {
            let renamed = std::fs::rename(self.folder.join(map), self.folder.join(SOURCE_MAP));
            renamed.map_err(|error| self.at_work(error))?;
        }
        Ok(finished)
    }

    /// Carries out `plan`. The result is a component with the name of its language.
    pub(crate) async fn component(&self, plan: &BuildPlan) -> Result<Vec<u8>, BuildError> {
        let Self { folder, facts, .. } = self;
        let tools = self.gather(plan).await?;
        prepare(plan, &facts.file, folder, self.work).map_err(|error| self.at_work(error))?;
        let plan = &self.with_copies(plan, &tools).await?;
        let output = run::run(plan, &tools, folder, self.wish.verbose).await;
        let output = output.map_err(|source| failed(source, &facts.file))?;
        let component = match &plan.output {
            BuildOutput::File(path) => finish::component(&folder.join(path))?,
            BuildOutput::ReportedByCargo => {
                let built = run::made_by_cargo(&output, &folder.join("Cargo.toml"));
                finish::component(&built.ok_or(BuildError::NoPluginOfCargo)?)?
            }
            BuildOutput::Joined(script) => starlark::component(&folder.join(script), facts.kind())?,
        };
        // The script must be the last part of the file, so nothing may be added behind it.
        let is_script = matches!(plan.output, BuildOutput::Joined(_));
        Ok(match facts.file.language.title() {
            Some(title) if !is_script => windlass_componentize::labelled(component, title),
            _ => component,
        })
    }

    /// For Go, the plan with copies of the Kubernetes modules.
    async fn with_copies(&self, plan: &BuildPlan, tools: &Toolbox) -> Result<BuildPlan, BuildError> {
        let plan = plan.clone();
        if self.facts.file.language != Language::Go || self.facts.file.own.is_some() {
            return Ok(plan);
        }
        let cache = self.sandbox.cache_dir().unwrap_or(self.work);
        let build = GoBuild { tools, folder: self.folder, cache, verbose: self.wish.verbose };
        go::with_copies(plan, &build).await.map_err(|error| match error {
            GoModulesError::Run(source) => failed(source, &self.facts.file),
            other => BuildError::GoModules(other),
        })
    }

    /// Loads the plugin and moves it to its destination.
    pub(crate) async fn finish(
        &self,
        component: &[u8],
        explain: impl FnOnce(&LoadError) -> String,
    ) -> Result<Finished, FinishError> {
        let name = &self.facts.file.name;
        let out = self.wish.out.clone().unwrap_or_else(|| self.folder.join("build").join(format!("{name}.wasm")));
        finish::finish(component, name, self.work, &out, self.sandbox, explain).await
    }

    async fn gather(&self, plan: &BuildPlan) -> Result<Toolbox, BuildError> {
        let file = &self.facts.file;
        Toolbox::gather(&plan.needs, &self.tool_paths()).await.map_err(|missing| BuildError::Missing {
            name: file.name.clone(),
            language: file.language_name.clone(),
            missing,
        })
    }
}

/// Deletes the output of an earlier build, which could be mistaken for the output of this one, and writes the files
/// that the tools read.
fn prepare(plan: &BuildPlan, file: &BuildFile, folder: &Path, work: &Path) -> std::io::Result<()> {
    if let (BuildOutput::File(path), None) = (&plan.output, &file.own) {
        match std::fs::remove_file(folder.join(path)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let wit = work.join("wit");
    std::fs::create_dir_all(&wit)?;
    for (name, text) in InterfaceVersion::NEWEST.files() {
        let path = wit.join(name);
        // An unchanged file is not written again, because a new modification time would trigger tools that watch it.
        if windlass_files::read_whole(&path, text.len() as u64).is_ok_and(|there| there == text.as_bytes()) {
            continue;
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}

fn failed(source: RunError, file: &BuildFile) -> BuildError {
    let hint = match &source {
        RunError::Failed { output, .. } => hints::hint(file.language, output),
        RunError::Start { .. } => None,
    };
    BuildError::Run { source, hint }
}
