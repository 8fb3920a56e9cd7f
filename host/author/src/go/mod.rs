//! Lets a Go plugin compile smaller forms of the Kubernetes modules.
//!
//! The modules that a plugin with Kubernetes types links contain much code that a plugin cannot use: a web server's
//! transport, generated code that prints objects, every API group. So a build works with a go.mod of its own, in which
//! copies replace these modules. The copies are made from the module cache, of the versions in the author's go.mod, and
//! shared by all builds. The author's files stay as they are.
//!
//! `project` decides which copies a plugin needs, `rules` and `source` what is in them, `copy` makes them, and
//! `imports` examines what the plugin imports.

mod copy;
mod imports;
mod project;
mod rules;
mod source;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use self::copy::Copies;
pub use self::copy::CopyError;
pub use self::imports::RefusedImport;
use self::imports::{FIELDS, PackageGraph};
use self::project::{ChosenModule, ModFile, needs_copies, sums_with_sdk};
use self::rules::CLIENT_GO;
pub(crate) use self::rules::serves_client_go;
use super::WORK;
use super::plan::{BuildPlan, BuildStep, Program};
use super::run::{self, RunError};
use super::tools::Toolbox;

/// The build's own go.mod, in the working directory. The go command keeps checksums beside it, with this suffix.
const MOD_FILE: &str = "plugin.mod";
const SUM_FILE: &str = "plugin.sum";
const OVERLAY: &str = "overlay.json";
const GROUPS: &str = "groups.go";
/// The file of client-go's copy that [`GROUPS`] replaces.
const GROUPS_IN_CLIENT_GO: &str = "kubernetes/scheme/groups.go";
/// The directory of copies, in the cache directory.
const COPIES: &str = "go-modules";
/// The maximum size of a go.mod and of a go.sum.
const MOD_FILE_BYTES_MAX: u64 = 16 << 20;

/// The reason why a plugin cannot be built with copies.
#[derive(Debug, thiserror::Error)]
pub enum GoModulesError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("{} cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} cannot be written: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot understand the output of `{command}`: {source}")]
    Output { command: &'static str, source: serde_json::Error },
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error("these imports cannot work in a plugin:{0}")]
    Imports(RefusedImports),
}

/// All imports of a plugin that cannot work.
#[derive(Debug)]
pub struct RefusedImports(Vec<RefusedImport>);

impl fmt::Display for RefusedImports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|import| write!(f, "\n  {import}"))
    }
}

impl GoModulesError {
    /// Whether the sources caused the error. Otherwise, the environment did.
    pub(crate) fn is_of_the_sources(&self) -> bool {
        matches!(self, Self::Imports(_) | Self::Run(RunError::Failed { .. }))
    }
}

/// A build that may need copies.
pub(crate) struct GoBuild<'b> {
    pub(crate) tools: &'b Toolbox,
    /// The plugin's folder, which has the go.mod.
    pub(crate) folder: &'b Path,
    /// The cache directory of this user, or else the build's working directory.
    pub(crate) cache: &'b Path,
    pub(crate) verbose: bool,
}

/// A module in the module cache, as `go mod download -json` prints it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DownloadedModule {
    dir: PathBuf,
}

/// The plan with the copies that the plugin needs. A plugin without Kubernetes modules keeps its plan.
pub(crate) async fn with_copies(mut plan: BuildPlan, build: &GoBuild<'_>) -> Result<BuildPlan, GoModulesError> {
    let (Some(step), Some(text)) = (plan.steps.last_mut(), build.read_if_exists("go.mod")?) else { return Ok(plan) };
    if !["k8s.io/apimachinery", rules::CONTROLLER_RUNTIME, rules::SDK].iter().any(|path| text.contains(path)) {
        return Ok(plan);
    }
    let file = build.go(&step.program, &["mod", "edit", "-json"]).await?;
    let file: ModFile = parsed("go mod edit -json", &file)?;
    let sums = build.read_if_exists("go.sum")?.unwrap_or_default();
    let chosen = file.chosen(&sums);
    if chosen.is_empty() {
        return Ok(plan);
    }
    let arguments = ["env", "GOWORK"].map(str::to_owned).to_vec();
    let workspace = BuildStep { program: step.program.clone(), arguments, environment: vec![] };
    let workspace = build.output(&workspace).await?;
    // The go command accepts no other go.mod in a workspace.
    match String::from_utf8_lossy(&workspace).trim() {
        "" | "off" => {}
        file if needs_copies(&chosen) => {
            eprintln!(
                "the build does not use {file} (GOWORK=off): only without it can the plugin use Windlass' modules"
            );
        }
        file => {
            eprintln!(
                "{file} is used, so the plugin contains the whole Kubernetes modules: GOWORK=off makes it smaller"
            );
            return Ok(plan);
        }
    }
    build.write(MOD_FILE, &text)?;
    build.write(SUM_FILE, &sums_with_sdk(&sums))?;
    let copies = build.copies(step, &chosen).await?;
    let mod_file = format!("{WORK}/{MOD_FILE}");
    let edits = file.edits(chosen.iter().zip(&copies).map(|(chosen, folder)| (chosen, folder.display().to_string())));
    let edit = [&["mod".to_owned(), "edit".to_owned()], &edits[..], std::slice::from_ref(&mod_file)].concat();
    build.go(&step.program, &edit).await?;
    let mut flags = vec![format!("-modfile={mod_file}"), "-mod=readonly".to_owned()];
    step.environment.push(("GOWORK", "off"));
    let packages = build.packages(step, &flags).await?;
    let refused = packages.refused();
    if !refused.is_empty() {
        return Err(GoModulesError::Imports(RefusedImports(refused)));
    }
    for package in packages.with_collectors() {
        eprintln!(
            "{package} uses controller-runtime's metrics.Registry, whose collectors are not exported: declare metrics in the \
             manifest, and set them with windlass.dev/sdk/metrics"
        );
    }
    let client_go = chosen.iter().zip(&copies).find(|(chosen, _)| chosen.module.path == CLIENT_GO);
    if let (Some((_, client_go)), Some(groups)) = (client_go, packages.groups()) {
        build.write(GROUPS, &groups)?;
        let replaced = client_go.join(GROUPS_IN_CLIENT_GO).display().to_string();
        let by = build.folder.join(WORK).join(GROUPS).display().to_string();
        build.write(OVERLAY, &serde_json::json!({"Replace": {replaced: by}}).to_string())?;
        flags.push(format!("-overlay={WORK}/{OVERLAY}"));
    }
    // The flags follow the name of the subcommand.
    step.arguments.splice(1..1, flags);
    Ok(plan)
}

fn parsed<'o, T: Deserialize<'o>>(command: &'static str, output: &'o [u8]) -> Result<T, GoModulesError> {
    serde_json::from_slice(output).map_err(|source| GoModulesError::Output { command, source })
}

impl GoBuild<'_> {
    /// The text of a file in the plugin's folder. `None` if there is none.
    fn read_if_exists(&self, name: &str) -> Result<Option<String>, GoModulesError> {
        let path = self.folder.join(name);
        match windlass_files::read_text(&path, MOD_FILE_BYTES_MAX) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(GoModulesError::Read { path, source }),
        }
    }

    /// Writes a file of the working directory.
    fn write(&self, name: &str, text: &str) -> Result<(), GoModulesError> {
        let path = self.folder.join(WORK).join(name);
        std::fs::write(&path, text).map_err(|source| GoModulesError::Write { path, source })
    }

    /// Runs the go command outside of any workspace, and returns its standard output.
    async fn go<S: AsRef<str>>(&self, go: &Program, arguments: &[S]) -> Result<Vec<u8>, GoModulesError> {
        let arguments = arguments.iter().map(|argument| argument.as_ref().to_owned()).collect();
        let step = BuildStep { program: go.clone(), arguments, environment: vec![("GOWORK", "off")] };
        self.output(&step).await
    }

    async fn output(&self, step: &BuildStep) -> Result<Vec<u8>, GoModulesError> {
        Ok(run::one(step, true, self.tools, self.folder, self.verbose).await?)
    }

    /// The folders of the copies, in the order of `chosen`. Copies that do not exist are made.
    async fn copies(&self, step: &BuildStep, chosen: &[ChosenModule]) -> Result<Vec<PathBuf>, GoModulesError> {
        let directory = self.cache.join(COPIES);
        let mut folders = Vec::new();
        for ChosenModule { module, version, sum } in chosen {
            let copies = Copies { directory: &directory, write: |path, content| std::fs::write(path, content) };
            if let Some(folder) = copies.existing(module, version, sum) {
                folders.push(folder);
                continue;
            }
            let original = if module.has_original() {
                Some(self.downloaded(step, &format!("{}@{version}", module.path)).await?)
            } else {
                None
            };
            folders.push(copies.make(module, version, sum, original.as_deref())?);
        }
        Ok(folders)
    }

    /// The folder of a module in the module cache. The go command compares the module with the checksum in go.sum.
    async fn downloaded(&self, step: &BuildStep, module: &str) -> Result<PathBuf, GoModulesError> {
        let mod_file = format!("-modfile={WORK}/{MOD_FILE}");
        // Without `-json`, errors are printed as text.
        self.go(&step.program, &["mod", "download", &mod_file, module]).await?;
        let output = self.go(&step.program, &["mod", "download", "-json", &mod_file, module]).await?;
        Ok(parsed::<DownloadedModule>("go mod download -json", &output)?.dir)
    }

    /// The packages that the plugin imports.
    async fn packages(&self, step: &BuildStep, flags: &[String]) -> Result<PackageGraph, GoModulesError> {
        let list = ["list".to_owned(), "-e".to_owned(), "-deps".to_owned(), format!("-json={FIELDS}")];
        let arguments = [&list, flags, &[".".to_owned()]].concat();
        let step = BuildStep { arguments, ..step.clone() };
        let output = self.output(&step).await?;
        PackageGraph::read(&output).map_err(|source| GoModulesError::Output { command: "go list", source })
    }
}
