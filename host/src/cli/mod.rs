//! The command line: a file for each subcommand, in folders by who uses them.

mod author;
mod completion;
mod features;
mod flags;
mod registry;
mod rights;
mod run;
mod version;
mod view;
mod watching;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use serde_json::Value;
use tokio::runtime::Runtime;
use windlass_core::deceptive;
use windlass_runtime::processors;
use windlass_wasm::Compiler;

pub(crate) use self::flags::admin_serving::UsageError;
use self::flags::log::LogArgs;
use self::run::config::HostConfig;

/// The first argument that makes this program the host's compiler. It is not for users, so [`Command`] does not list
/// it.
pub(crate) const COMPILER: &str = "compile-component";

/// The host's compiler: this program in a separate process.
pub(crate) fn compiler() -> anyhow::Result<Compiler> {
    Compiler::this_program(vec![COMPILER.into()])
        .context("cannot find this program's own file, to compile plugins with")
}

/// A Kubernetes reconciler host: operators as sandboxed WebAssembly components.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    log: LogArgs,
    #[arg(skip)]
    config: Option<HostConfig>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArgs),
    Dev(author::dev::DevArgs),
    #[command(name = "apiserver")]
    ApiServer(author::apiserver::ApiServerArgs),
    New(author::new::NewArgs),
    Import(author::import::ImportArgs),
    Types(author::types::TypesArgs),
    Crd(author::crd::CrdArgs),
    Build(author::build::BuildArgs),
    Check(author::check::CheckArgs),
    Replay(author::replay::ReplayArgs),
    Config(run::config::ConfigArgs),
    Features(features::FeaturesArgs),
    Finalizers(watching::finalizers::FinalizersArgs),
    Children(watching::children::ChildrenArgs),
    Rollout(watching::rollout::RolloutArgs),
    #[command(flatten)]
    Running(watching::running::RunningCommand),
    Grant(rights::grant::GrantArgs),
    Inspect(rights::inspect::InspectArgs),
    Rbac(rights::rbac::RbacArgs),
    Push(registry::push::PushArgs),
    Pull(registry::pull::PullArgs),
    Version(version::VersionArgs),
    Completion(completion::CompletionArgs),
    Man(completion::ManArgs),
}

/// The format of what a command prints.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OutputFormat {
    Text,
    Json,
}

fn namespace(text: &str) -> Result<String, String> {
    if windlass_manifest::is_dns_label(text) {
        Ok(text.to_owned())
    } else {
        Err("a namespace has up to 63 lower-case letters, digits and dashes".to_owned())
    }
}

impl Cli {
    /// Reads the command line. kubectl runs the program `kubectl-windlass` as its command `windlass`, which help then
    /// shows.
    pub(crate) fn from_command_line() -> Self {
        let mut command = Self::command();
        if is_kubectls(std::env::args_os().next().as_deref()) {
            command = command.bin_name("kubectl windlass");
        }
        let words: Vec<_> = std::env::args_os().collect();
        let config = HostConfig::of(&command, &words).unwrap_or_else(|error| {
            clap::Error::raw(ErrorKind::ValueValidation, format!("{}\n", deceptive::escape(&error.to_string()))).exit()
        });
        let words = config.as_ref().map_or(words, HostConfig::completed);
        let read = command.try_get_matches_from(words).and_then(|matches| Self::from_arg_matches(&matches));
        let cli = read.unwrap_or_else(|error| {
            if let Some(config) = config.as_ref().filter(|_| error.use_stderr()) {
                eprintln!("{}", config.hint());
            }
            error.exit()
        });
        Self { config, ..cli }
    }

    /// Whether the subcommand is the host of a cluster.
    pub(crate) fn runs_for_long(&self) -> bool {
        matches!(self.command, Command::Run(_))
    }

    /// Runs the subcommand to its end.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let log = self.log.start(&self.command)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("windlass")
            .worker_threads(processors() as usize)
            // Guests run on these threads, and a guest that spins occupies one for half a millisecond at a time. So
            // check for I/O, timers and tasks woken by other threads more often than after the usual sixty polls.
            .event_interval(4)
            .global_queue_interval(4)
            .build()?;
        run_to_end(runtime, async {
            match self.command {
                Command::Run(args) => args.run(self.config, log).await.map(|()| ExitCode::SUCCESS),
                Command::Dev(args) => Box::pin(args.run()).await.map(|()| ExitCode::SUCCESS),
                Command::ApiServer(args) => args.run().await.map(|()| ExitCode::SUCCESS),
                Command::Children(args) => args.run().await.map(|()| ExitCode::SUCCESS),
                Command::Config(args) => args.run(self.config.as_ref()),
                Command::Features(args) => args.run().map(|()| ExitCode::SUCCESS),
                Command::Finalizers(args) => args.run().await.map(|()| ExitCode::SUCCESS),
                Command::Import(args) => args.run().await,
                Command::New(args) => args.run().await,
                Command::Types(args) => args.run().await,
                Command::Crd(args) => args.run().await,
                Command::Build(args) => args.run().await,
                Command::Check(args) => args.run().await,
                Command::Rollout(args) => args.run().await,
                Command::Running(command) => Ok(command.run().await),
                Command::Grant(args) => args.run().await,
                Command::Replay(args) => Ok(args.run().await),
                Command::Inspect(args) => Box::pin(args.run()).await,
                Command::Push(args) => Box::pin(args.run()).await,
                Command::Pull(args) => args.run().await,
                Command::Rbac(args) => Ok(args.run().await),
                Command::Version(args) => args.run().map(|()| ExitCode::SUCCESS),
                Command::Completion(args) => args.run().map(|()| ExitCode::SUCCESS),
                Command::Man(args) => args.run().map(|()| ExitCode::SUCCESS),
            }
        })
    }
}

/// Whether the program was started as a kubectl plugin.
fn is_kubectls(program: Option<&OsStr>) -> bool {
    program.is_some_and(|program| Path::new(program).file_stem() == Some(OsStr::new("kubectl-windlass")))
}

/// Writes to standard output, and escapes characters in untrusted text that could deceive a reader. If the reader
/// closes the pipe early, as `head` does, that is not an error.
fn print(text: &str) -> std::io::Result<()> {
    print_as_is(&deceptive::escape(text))
}

/// Writes this program's own text to standard output, as [`print()`] does but unescaped.
fn print_as_is(text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes `document` to standard output, for programs.
fn print_json(document: &Value) -> std::io::Result<()> {
    print(&deceptive::escape_json(&format!("{document:#}\n")))
}

/// Runs `work`, and waits for nothing else. Dropping a runtime would wait for its blocking threads, and a DNS lookup
/// may block one for as long as the resolver takes.
fn run_to_end<T>(runtime: Runtime, work: impl Future<Output = T>) -> T {
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::LogFormat;

    #[test]
    fn a_blocked_thread_does_not_delay_the_end() {
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let (ended, end) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
            run_to_end(runtime, async { drop(tokio::task::spawn_blocking(move || blocked.recv())) });
            ended.send(()).expect("the test waits");
        });
        end.recv_timeout(std::time::Duration::from_secs(30)).expect("it ends while the other thread blocks");
        drop(release);
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_name_of_a_kubectl_plugin_shows_in_its_help() {
        for (program, expected) in [
            ("/usr/bin/kubectl-windlass", true),
            ("kubectl-windlass.exe", true),
            ("windlass", false),
            ("kubectl", false),
        ] {
            assert_eq!(is_kubectls(Some(OsStr::new(program))), expected, "{program}");
        }
        let mut command = Cli::command().bin_name("kubectl windlass");
        command.build();
        let help = command.find_subcommand_mut("rbac").expect("it is a command").render_help().to_string();
        assert!(help.contains("Usage: kubectl windlass rbac"), "{help}");
    }

    #[test]
    fn the_compiler_is_not_listed_as_a_command() {
        let mut command = Cli::command();
        assert!(
            command.find_subcommand(COMPILER).is_none() && !command.render_long_help().to_string().contains(COMPILER)
        );
    }

    /// There are many limits, so only the help of one command lists them, and other commands refer to it.
    #[test]
    fn the_limits_of_plugins_are_listed_in_the_help_of_one_command() {
        let mut command = Cli::command();
        let lists = |name: &str| {
            let command = command.find_subcommand_mut(name).expect("it is a command");
            command.render_long_help().to_string().contains("- compile-cpu=")
        };
        assert_eq!(["run", "dev", "build", "grant", "inspect"].map(lists), [true, false, false, false, false]);
    }

    #[test]
    fn an_invalid_namespace_is_refused() {
        for bad in ["", "Prod", "a/b", "..", "a,b"] {
            assert!(Cli::try_parse_from(["windlass", "run", "--plugins", "p", "-n", bad]).is_err(), "{bad:?}");
        }
        assert!(Cli::try_parse_from(["windlass", "run", "--plugins", "p", "-n", "team-1"]).is_ok());
    }

    #[test]
    fn feature_gates_are_read_strictly_and_by_every_command_that_runs_plugins() {
        let parsed = |command, gates| {
            let line = ["windlass", command, "--plugins", "p", "--feature-gates", gates];
            Cli::try_parse_from(line).map(drop).map_err(|error| error.to_string())
        };
        for command in ["run", "dev"] {
            assert_eq!(parsed(command, "WatchList=true,AllBeta=false"), Ok(()));
            let error = parsed(command, "WatchLists=true").expect_err("no such gate");
            assert!(error.contains("--feature-gates") && error.contains("AllAlpha, AllBeta, "), "{error}");
        }
    }

    #[test]
    fn dev_runs_in_a_folder_or_on_a_directory_of_plugins_and_not_on_both() {
        let parsed = |words: &[&str]| Cli::try_parse_from([&["windlass", "dev"], words].concat());
        let format = |words: &[&str]| parsed(words).expect("it is right").command.log_format();
        assert_eq!(format(&[]), LogFormat::Brief);
        assert_eq!(format(&["shop"]), LogFormat::Brief);
        assert_eq!(format(&["--plugins", "p"]), LogFormat::Text);
        assert!(parsed(&["shop", "--plugins", "p"]).is_err());
    }

    #[test]
    fn run_needs_a_plugin_directory_and_says_so() {
        let error = Cli::try_parse_from(["windlass", "run"]).expect_err("a flag is missing").to_string();
        assert!(error.contains("--plugins <DIR>"), "{error}");
    }
}
