//! `windlass import`: makes a plugin's folder for a kubebuilder project.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;

use crate::cli::author::dev::shortened;
use windlass_author::import::{self, ImportError, ImportRequest, ImportWriteError, Imported};

/// Exit code: the project does not make a plugin.
const BROKEN: u8 = 1;
/// Exit code: the import could not be tried, or not be written.
const FAILED: u8 = 2;
/// The largest file that --dry-run prints. Larger ones are definitions and checksums.
const PRINTED_BYTES_MAX: usize = 64 << 10;

/// Make a plugin of a kubebuilder project.
///
/// Reads the project in DIR (go.mod, PROJECT, the Go sources, and of config/ the definitions, the
/// role, the samples and the environment), and writes the folder DIR/windlass:
///
/// - `main.go` sets up the reconcilers of the old main.go;
/// - `windlass_plugin.go` has the rights of the markers `+kubebuilder:rbac`;
/// - `windlass.yaml` and `go.mod` are for `windlass build`;
/// - `crd.yaml`, `sample.yaml` and a scenario are for `windlass dev` and `windlass check`;
/// - `NAME.policy.yaml` grants what the plugin asks for;
/// - `IMPORT.md` has all that a plugin cannot do or does differently, with file and line.
///
/// No file of the project changes, and it builds as before: the folder is a Go module of its own.
/// The reconcilers run unchanged, on a library that stands in for controller-runtime. Go 1.26 is
/// needed, as for `windlass build`. Nothing of the project is built or run.
///
/// Exit codes: 0, written; 1, the project does not make a plugin; 2, the import could not be tried.
#[derive(Debug, Args)]
#[command(disable_version_flag = true, verbatim_doc_comment)]
#[command(
    after_help = "Examples:\n  windlass import .                    # in a project; then read windlass/IMPORT.md\n  \
    windlass import ../memcached-operator --dry-run\n  \
    windlass import . --force            # again, after the project has changed"
)]
pub(crate) struct ImportArgs {
    /// The project's folder, which has a go.mod.
    #[arg(value_name = "DIR", default_value = ".")]
    project: PathBuf,
    /// The plugin's name. Default: `projectName` in PROJECT, or else the last part of the module's path.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The name of the plugin's folder inside DIR.
    #[arg(long, value_name = "NAME", default_value = import::FOLDER)]
    folder: String,
    /// Replace the files of an earlier import, and keep those that differ in `.before-import-N`. Other files stay.
    #[arg(long)]
    force: bool,
    /// Print the report and the files, and write nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error(transparent)]
    Import(#[from] ImportError),
    #[error(transparent)]
    Write(#[from] ImportWriteError),
}

impl ImportArgs {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.import().await {
            Ok(text) => {
                crate::cli::print(&text).context("cannot write to standard output")?;
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => {
                eprintln!("windlass: {}", windlass_core::deceptive::escape(&error.to_string()));
                let is_broken = matches!(&error, CommandError::Import(error) if error.is_of_the_project());
                Ok(ExitCode::from(if is_broken { BROKEN } else { FAILED }))
            }
        }
    }

    async fn import(self) -> Result<String, CommandError> {
        let request = ImportRequest { project: self.project.clone(), name: self.name, folder: self.folder.clone() };
        let imported = import::import(&request).await?;
        let folder = shortened(&self.project.join(&self.folder));
        let (name, module) = (&imported.name, &imported.module);
        let made = if self.dry_run { "would make" } else { "made" };
        let mut text = format!("{made} {}: the plugin {name}, from {module}\n{}", folder.display(), imported.summary);
        if self.dry_run {
            print_files(&mut text, &imported);
            return Ok(text);
        }
        if let Some(replaced) = import::write(&imported.folder, &imported.files, self.force)? {
            let paths: Vec<_> = replaced.paths.iter().map(|it| it.display().to_string()).collect();
            let (paths, kept) = (paths.join(", "), shortened(&replaced.kept));
            // Writing into a text cannot fail.
            let _ = writeln!(text, "replaced: {paths}. The earlier files are in {}", kept.display());
        }
        text.push_str("next:\n");
        for step in import::next_steps(&imported, &folder) {
            // Writing into a text cannot fail.
            let _ = writeln!(text, "  {step}");
        }
        Ok(text)
    }
}

fn print_files(text: &mut String, imported: &Imported) {
    for file in &imported.files {
        let (path, bytes) = (file.path.display(), file.content.len());
        if bytes > PRINTED_BYTES_MAX || file.path.ends_with("go.sum") {
            let _ = writeln!(text, "==> {path} ({bytes} bytes)");
        } else {
            let _ = writeln!(text, "==> {path}\n{}", String::from_utf8_lossy(&file.content));
        }
    }
}
