//! `windlass crd`: generates the definitions in crd.yaml from types.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use windlass_author::definitions::{self, DefinitionsError};
use windlass_core::deceptive;

/// Exit code: the sources do not make a definition, or crd.yaml does not have it.
const BROKEN: u8 = 1;
/// Exit code: the definitions could not be generated.
const FAILED: u8 = 2;

/// Generate crd.yaml from types in Rust or Go.
///
/// The field `definitions` of windlass.yaml says where the types are: `from: go` runs controller-gen on packages with
/// kubebuilder markers, `from: rust` runs the example `crd` of the plugin's crate, and `command` runs any command that
/// prints the definitions. `windlass build` fails if crd.yaml is out of date.
///
/// Exit codes: 0, crd.yaml is written or up to date; 1, the sources are wrong, or --check found a difference; 2, the
/// definitions could not be generated.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass crd                   # in the plugin's folder\n  \
    windlass crd --check           # in a pipeline")]
pub(crate) struct CrdArgs {
    /// The plugin's folder, which has a windlass.yaml.
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Write nothing, and fail if crd.yaml is out of date.
    #[arg(long)]
    check: bool,
    /// Show the command that runs.
    #[arg(long, short)]
    verbose: bool,
}

impl CrdArgs {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.generate().await {
            Ok(text) => {
                crate::cli::print(text).context("cannot write to standard output")?;
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => {
                eprintln!("windlass: {}", deceptive::escape(&error.to_string()));
                Ok(ExitCode::from(if error.is_of_the_sources() { BROKEN } else { FAILED }))
            }
        }
    }

    async fn generate(&self) -> Result<&'static str, DefinitionsError> {
        if self.check {
            definitions::check(&self.folder, self.verbose).await?;
            return Ok("crd.yaml is up to date\n");
        }
        let is_written = definitions::update(&self.folder, self.verbose).await?;
        Ok(if is_written { "wrote crd.yaml\n" } else { "crd.yaml is up to date\n" })
    }
}
