//! `windlass completion` and `windlass man`: the command line for shells and for `man`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Cli;

const NAME: &str = "windlass";

/// Print the script that completes this program's commands in a shell.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  source <(windlass completion bash)\n  \
    windlass completion fish > ~/.config/fish/completions/windlass.fish")]
pub(super) struct CompletionArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Write the manual's pages into a directory, one for each command.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass man ~/.local/share/man/man1")]
pub(super) struct ManArgs {
    /// The directory, which is made if it is missing.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl CompletionArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        super::print_as_is(&script(self.shell)).context("cannot write to standard output")
    }
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

impl ManArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let directory = &self.directory;
        let unwritten = || format!("cannot write the pages of the manual to {}", directory.display());
        std::fs::create_dir_all(directory).with_context(unwritten)?;
        clap_mangen::generate_to(Cli::command(), directory).with_context(unwritten)
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;
    use crate::cli::COMPILER;

    #[test]
    fn every_shell_completes_the_commands_of_users_and_no_other() {
        for shell in Shell::value_variants() {
            let script = script(*shell);
            assert!(script.contains("rbac") && !script.contains(COMPILER), "{shell}");
        }
    }

    #[test]
    fn each_command_has_a_page() {
        let directory = tempfile::tempdir().expect("a directory");
        let pages = directory.path().join("man1");
        ManArgs { directory: pages.clone() }.run().expect("it can be written");
        for page in ["windlass.1", "windlass-rbac.1", "windlass-rollout-diff.1"] {
            assert!(pages.join(page).exists(), "{page}");
        }
        assert!(!pages.join(format!("windlass-{COMPILER}.1")).exists());
    }
}
