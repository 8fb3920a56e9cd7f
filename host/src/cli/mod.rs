//! The command line, one file a subcommand.

mod admin;
mod admin_client;
mod admin_serving;
mod apiserver;
mod build;
mod change;
mod check;
mod check_recorded;
mod check_report;
mod children;
mod completion;
mod config;
mod dev;
mod duration;
mod embedded;
mod examine;
mod features;
mod finalizers;
mod grant;
mod inspect;
mod keys;
mod leases;
mod limits;
mod log;
mod marked;
mod new;
mod own_review;
mod pod_proxy;
mod pods;
mod rbac;
mod rbac_check;
mod record;
mod replay;
mod replay_report;
mod replica_views;
mod resume;
mod rollout;
mod run;
mod running;
mod settings;
mod shutdown;
mod size;
mod status;
mod top;
mod traces;
mod version;
mod view;

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

pub(crate) use self::admin_serving::UsageError;
use self::config::HostConfig;
use self::log::LogArgs;
use self::settings::PluginArgs;

/// The first argument that makes this program the host's compiler. Users do not type it, so [`Command`] does not have it.
pub(crate) const COMPILER: &str = "compile-component";

/// The host's compiler: this program as another process.
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
    /// Run plugins against a cluster.
    ///
    /// Loads each NAME.wasm in the plugin directory, starts the watches that its manifest declares, and calls the plugin for
    /// each object that changes. Follows the directory while it runs: add, replace or delete a file, and the host loads, swaps
    /// or stops that plugin. NAME.next.wasm beside it is called as a shadow; see `windlass rollout`. Finds the cluster as kubectl does: --kubeconfig, else KUBECONFIG, else ~/.kube/config, else the
    /// service account of the Pod.
    ///
    /// A plugin may do only what its policy grants: NAME.policy.yaml beside it. Without a policy the plugin waits, and the log
    /// says what it asks for. `windlass grant` writes a policy for review. --grants=manifest grants each plugin all that it asks
    /// for, unreviewed.
    #[command(after_help = "Examples:\n  windlass run --plugins /etc/windlass/plugins --context staging\n  \
        windlass run --plugins target/plugins --namespace try-out --grants=manifest   # to try plugins out")]
    Run(run::RunArgs),
    /// Run a plugin from its sources, or a directory of plugins, against an embedded API server.
    ///
    /// In a plugin's folder, which has a windlass.yaml, `dev` builds the plugin, applies crd.yaml and sample.yaml, and shows what
    /// the plugin does. When you change a source, `dev` builds again, and the new plugin takes over. If a build fails, `dev`
    /// shows why, and the old plugin keeps running. If the folder has NAME.policy.yaml, the plugin may do only what that grants;
    /// otherwise it may do all that it asks for. With --plugins, `dev` runs the plugins of a directory and builds nothing.
    ///
    /// The API server lives in this process, on a loopback port, and keeps its state in memory. Use it with
    /// `kubectl --kubeconfig .windlass/kubeconfig`.
    #[command(after_help = "Examples:\n  windlass dev                    # in the folder of a plugin\n  \
        windlass dev --plugins target/plugins\n  \
        kubectl --kubeconfig .windlass/kubeconfig apply -f examples/webapp/crd.yaml\n  \
        kubectl --kubeconfig .windlass/kubeconfig apply -f examples/webapp/webapp.yaml")]
    Dev(dev::DevArgs),
    /// Run the embedded API server alone, for tests in any language.
    ///
    /// A Kubernetes API server in one process, on a loopback port, for kubectl and any other client. It needs no etcd and no
    /// container. Once it is ready, it prints a line `ready URL kubeconfig=FILE` to standard output. SIGTERM or Ctrl-C ends it.
    ///
    /// Workloads become ready by themselves, and garbage is collected. --controllers none makes it a bare API server, as envtest's
    /// is. With --reactors the server misbehaves as you say.
    #[command(after_help = "Examples:\n  windlass apiserver --kubeconfig-out kubeconfig --port-file port &\n  \
        KUBECONFIG=kubeconfig kubectl get namespaces\n  \
        windlass apiserver --controllers none                        # for suites written for envtest\n  \
        windlass apiserver --controllers gc,namespaces               # and no workload becomes ready by itself\n  \
        windlass apiserver --load manifests --authorization rbac     # kubectl auth can-i --as …\n  \
        windlass apiserver --state objects.state --reactors bad-day.yaml")]
    #[command(name = "apiserver")]
    ApiServer(apiserver::ApiServerArgs),
    /// Make a folder for a new plugin, ready to build and run.
    ///
    /// The folder has sources and tests, the SDK, a CRD and a sample object, a policy, and windlass.yaml, which says how to build
    /// the plugin.
    #[command(after_help = "Examples:\n  windlass new go my-shop\n  \
        windlass new go my-cron-job --kind CronJob --group batch.example.com --version v1alpha1\n  \
        windlass new python quotas --composite --dir work/quotas")]
    New(new::NewArgs),
    /// Build a plugin from the sources in a folder.
    ///
    /// The folder has a windlass.yaml, which names the plugin and its language. `build` runs that language's compiler, turns the
    /// output into a component, loads it as a host would, and writes build/NAME.wasm in one step, so a `windlass dev` that
    /// follows the file never sees half of it. If a tool is missing on this machine, `build` says how to get it.
    ///
    /// Exit codes: 0, built; 1, the sources are wrong; 2, the build could not be tried.
    #[command(after_help = "Examples:\n  windlass build                 # in the plugin's folder\n  \
        windlass build plugins/shop --out target/plugins/shop.wasm")]
    Build(build::BuildArgs),
    /// Try a plugin against faults: crashes, errors, stale caches, missed events, other people's edits.
    ///
    /// Runs the host's own engine with the plugin on an embedded API server, in one thread and on a clock that is told, so that hours
    /// pass in milliseconds and the same seed gives the same run. First without faults; then with one fault at each place: each write
    /// crashes, is lost, is refused; each watch misses events, expires, is late; and then with pairs of them, until the budget is
    /// spent. A plugin should end in the same state each time, write no more than it needs, and then be quiet.
    ///
    /// In a plugin's folder it needs nothing but crd.yaml and sample.yaml. A scenario says more: see docs/checking.md.
    ///
    /// Exit codes: 0, nothing was found; 1, something was found; 2, the check could not be made.
    #[command(
        after_help = "Examples:\n  windlass check                              # in the plugin's folder, which is built first\n  \
        windlass check shop.wasm --load crd.yaml --load sample.yaml\n  \
        windlass check --scenario scenarios/sale.yaml --budget 10m --output junit > check.xml\n  \
        windlass check --again .windlass/findings/my-shop-1-converges.json"
    )]
    Check(check::CheckArgs),
    /// Make recorded calls again, with no cluster.
    ///
    /// `windlass run --record DIR` records calls. `replay` calls the plugin with the same request, answers what it asks from the
    /// recording, and tells the first import at which it does otherwise. With another version of the plugin (--plugin), it tells
    /// what that would write otherwise, by object.
    ///
    /// Exit codes: 0, all is the same; 1, something is not; 2, nothing could be replayed.
    #[command(after_help = "Examples:\n  windlass replay recordings                       # the recorded plugins\n  \
        windlass replay recordings/shop --plugin build/shop.wasm\n  \
        windlass replay recordings --key prod/web --trace")]
    Replay(replay::ReplayArgs),
    /// Show the settings of a host and where they come from, or the schema of its configuration file.
    Config(config::ConfigArgs),
    /// List the feature gates, the stage of each, and whether it is enabled.
    ///
    /// With --feature-gates or `WINDLASS_FEATURE_GATES`, shows what they would enable, and refuses what `run` would refuse.
    #[command(after_help = "Examples:\n  windlass features\n  windlass features --feature-gates=AllAlpha=true -o json")]
    Features(features::FeaturesArgs),
    /// Find and remove the finalizers that plugins have left on objects.
    ///
    /// If a manifest says `finalizer: true`, the host puts the finalizer windlass.dev/PLUGIN on the plugin's objects, so that
    /// the plugin can clean up before they go. If you remove the plugin, or a new version drops the finalizer, nothing removes
    /// it from the objects: once deleted, they stay "Terminating" for ever. These commands find such objects and release them.
    Finalizers(finalizers::FinalizersArgs),
    /// List the children that composite plugins have created, and delete those left behind.
    ///
    /// Each child of a composite plugin has the label windlass.dev/created-by=PLUGIN. If a new version no longer owns a kind, the
    /// children of that kind stay, and no plugin watches them. The host warns about them when it starts.
    Children(children::ChildrenArgs),
    /// Compare the next version of a plugin with the current one, and promote it or give it up.
    ///
    /// Put a version beside the current one, as NAME.next.wasm: a host calls it as a shadow, on the same objects after the current
    /// one. What it wants to write is never sent, but compared with what the current version writes.
    Rollout(rollout::RolloutArgs),
    #[command(flatten)]
    Running(running::RunningCommand),
    /// Write the policy that a plugin asks for, for review.
    ///
    /// Loads NAME.wasm without running it, and writes NAME.policy.yaml. The policy grants all that the plugin asks for; each rule
    /// has the reason, and a mark if it is sensitive. Delete what you do not want to grant: the plugin may do nothing else.
    ///
    /// If there is a policy already, `grant` leaves it alone, shows what it lacks, and exits with 1 if it lacks anything.
    #[command(
        after_help = "Examples:\n  windlass grant plugins/webapp.wasm            # then read plugins/webapp.policy.yaml\n  \
        windlass grant plugins/webapp.wasm -o -       # only show it"
    )]
    Grant(grant::GrantArgs),
    /// Show what a plugin is, what it asks for, and which of that its policy grants.
    ///
    /// A right is narrowed if the policy grants it for fewer namespaces or names than the plugin asks for.
    ///
    /// Exit codes: 0, the plugin lacks nothing; 1, it lacks something, or with --require-all something was narrowed; 2, `inspect`
    /// could not find out.
    #[command(after_help = "Examples:\n  windlass inspect plugins/webapp.wasm\n  \
        windlass inspect webapp.wasm --policy-dir policies -o json | jq .asks.rules")]
    Inspect(inspect::InspectArgs),
    /// Print the roles that a host needs in the cluster to run these plugins, for `kubectl apply -f -`.
    ///
    /// The rights are the least with which the host can do all that the plugins ask for and their policies grant. Rights that a
    /// policy narrows to namespaces become Roles there. A plugin without a policy waits, so it is left out, and standard error says
    /// so. --check asks the cluster instead what the kubeconfig's user lacks of these rights, and has beyond them.
    ///
    /// Exit codes: 0, printed, or nothing is missing; 1, --check found something missing; 2, `rbac` could not find out.
    #[command(after_help = "Examples:\n  windlass rbac --plugins plugins | kubectl apply -f -\n  \
        windlass rbac --plugins plugins --policy-dir policies --namespace team-1 -o json\n  \
        windlass rbac --plugins plugins --check --as system:serviceaccount:windlass-system:windlass")]
    Rbac(rbac::RbacArgs),
    /// Show the version of this program, and what it was built from.
    Version(version::VersionArgs),
    /// Print the script that completes this program's commands in a shell.
    #[command(after_help = "Examples:\n  source <(windlass completion bash)\n  \
        windlass completion fish > ~/.config/fish/completions/windlass.fish")]
    Completion(completion::CompletionArgs),
    /// Write the manual's pages into a directory, one for each command.
    #[command(after_help = "Examples:\n  windlass man ~/.local/share/man/man1")]
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
    /// Reads the command line. kubectl runs the program `kubectl-windlass` as its own command `windlass`: help then shows that.
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

    /// Runs the subcommand to its end.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let log = self.log.start(&self.command)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("windlass")
            .worker_threads(processors() as usize)
            // Guests run here, and a turn of one that spins takes half a millisecond: look at I/O, timers and what other threads
            // have woken more often than after the usual sixty.
            .event_interval(4)
            .global_queue_interval(4)
            .build()?;
        run_to_end(runtime, async {
            match self.command {
                Command::Run(args) => args.run(self.config, log).await.map(|()| ExitCode::SUCCESS),
                Command::Dev(args) => args.run().await.map(|()| ExitCode::SUCCESS),
                Command::ApiServer(args) => args.run().await.map(|()| ExitCode::SUCCESS),
                Command::Children(args) => args.run().await.map(|()| ExitCode::SUCCESS),
                Command::Config(args) => args.run(self.config.as_ref()),
                Command::Features(args) => args.run().map(|()| ExitCode::SUCCESS),
                Command::Finalizers(args) => args.run().await.map(|()| ExitCode::SUCCESS),
                Command::New(args) => args.run(),
                Command::Build(args) => args.run().await,
                Command::Check(args) => args.run().await,
                Command::Rollout(args) => args.run().await,
                Command::Running(command) => Ok(command.run().await),
                Command::Grant(args) => args.run().await,
                Command::Replay(args) => Ok(args.run().await),
                Command::Inspect(args) => args.run().await,
                Command::Rbac(args) => Ok(args.run().await),
                Command::Version(args) => args.run().map(|()| ExitCode::SUCCESS),
                Command::Completion(args) => args.run().map(|()| ExitCode::SUCCESS),
                Command::Man(args) => args.run().map(|()| ExitCode::SUCCESS),
            }
        })
    }
}

/// Whether the program was started under the name of a kubectl plugin.
fn is_kubectls(program: Option<&OsStr>) -> bool {
    program.is_some_and(|program| Path::new(program).file_stem() == Some(OsStr::new("kubectl-windlass")))
}

/// Writes to standard output, and escapes what a stranger's plugin or object could deceive a reader with. A reader that closes
/// the pipe early, as `head` does, is not an error.
fn print(text: &str) -> std::io::Result<()> {
    print_as_is(&deceptive::escape(text))
}

/// Writes what is this program's own to standard output, as [`print()`] does, but as it is.
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

/// Runs `work`, and then waits for nothing else. Dropping a runtime would wait for its blocking threads, and a DNS look-up can
/// block one for as long as the resolver likes.
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
    fn a_thread_that_blocks_does_not_hold_up_the_end() {
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
    fn the_compiler_is_no_command_of_its_users() {
        let mut command = Cli::command();
        assert!(
            command.find_subcommand(COMPILER).is_none() && !command.render_long_help().to_string().contains(COMPILER)
        );
    }

    /// They are many, and the others say where they are listed.
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
    fn what_cannot_be_a_namespace_is_refused() {
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
