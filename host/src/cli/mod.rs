//! The command line, one file a subcommand.

mod build;
mod change;
mod children;
mod dev;
mod examine;
mod features;
mod finalizers;
mod grant;
mod inspect;
mod leases;
mod limits;
mod marked;
mod new;
mod run;
mod settings;
mod shutdown;
mod size;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use tokio::runtime::Runtime;
use windlass_runtime::GrantMode;
use windlass_wasm::Compiler;

use self::features::FeatureGateArgs;
use self::leases::LeaseArgs;
use self::limits::LimitArgs;
use self::size::Size;
use crate::telemetry::{self, LogFormat};

/// The first argument of the host's own compiler: no command of the host's users, and hence none of [`Command`]'s.
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
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct LogArgs {
    /// How log lines look. Default: text; for `dev` in a plugin's folder, brief.
    #[arg(long, global = true, value_enum, env = "WINDLASS_LOG_FORMAT")]
    log_format: Option<LogFormat>,
    /// The log filter: a level (error, warn, info, debug, trace), or a filter such as `windlass_kube=debug,info`. Default: info; with
    /// `brief`, calls and events too.
    #[arg(long, global = true, env = "WINDLASS_LOG")]
    log_level: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run plugins against a cluster.
    ///
    /// Loads each NAME.wasm of the plugin directory, starts the watches that its manifest declares, and calls it once for
    /// each object that changes. Files that are added, replaced or deleted are followed while it runs. The cluster is found as kubectl finds it: --kubeconfig, else KUBECONFIG, else
    /// ~/.kube/config, else the service account of the Pod.
    ///
    /// A plugin may do what its policy grants, NAME.policy.yaml beside it; without one it waits, and the log says what it asks
    /// for. `windlass grant` writes one for review. --grants=manifest gives each plugin what it asks for, unreviewed.
    #[command(after_help = "Examples:\n  windlass run --plugins /etc/windlass/plugins --context staging\n  \
        windlass run --plugins target/plugins --namespace try-out --grants=manifest   # to try plugins out")]
    Run(run::RunArgs),
    /// Run a plugin from its sources, or a directory of plugins, against an embedded API server.
    ///
    /// In a plugin's folder, which has a windlass.yaml: builds the plugin, puts crd.yaml and sample.yaml into the API server, and shows what the
    /// plugin does. When a source changes, it is built again and takes over; a build that fails is shown, and what runs goes on. The plugin may do
    /// what NAME.policy.yaml in the folder grants. With --plugins, the plugins of a directory run, and nothing is built.
    ///
    /// The API server lives in this process, on a loopback port, with its state in memory. Its kubeconfig is written to
    /// .windlass/kubeconfig, so `kubectl --kubeconfig .windlass/kubeconfig` works against it.
    #[command(after_help = "Examples:\n  windlass dev                    # in the folder of a plugin\n  \
        windlass dev --plugins target/plugins\n  \
        kubectl --kubeconfig .windlass/kubeconfig apply -f examples/webapp/crd.yaml\n  \
        kubectl --kubeconfig .windlass/kubeconfig apply -f examples/webapp/webapp.yaml")]
    Dev(dev::DevArgs),
    /// Make a folder for a new plugin, which builds and runs at once.
    ///
    /// It has sources and tests, the SDK, a CRD and a sample object, a policy, and windlass.yaml, which says how it is built.
    #[command(
        after_help = "Examples:\n  windlass new go my-shop\n  windlass new python quotas --composite --dir work/quotas"
    )]
    New(new::NewArgs),
    /// Build a plugin from the sources in a folder.
    ///
    /// The folder has a windlass.yaml, which says the plugin's name and its language. The language's own compiler is run, its output is made a
    /// component, loaded as a host loads it, and put to build/NAME.wasm in one step, so that a `windlass dev` that follows it sees it
    /// whole. What is missing on this machine is told, and how to get it.
    ///
    /// The exit code is for scripts: 1 if the sources do not make a plugin, 2 if that could not be tried.
    #[command(after_help = "Examples:\n  windlass build                 # in the plugin's folder\n  \
        windlass build plugins/shop --out target/plugins/shop.wasm")]
    Build(build::BuildArgs),
    /// Show the feature gates: what can be switched on or off, how far it is, and what is enabled.
    ///
    /// With --feature-gates, or `WINDLASS_FEATURE_GATES`, shows what these would enable, and refuses what `run` would refuse.
    #[command(after_help = "Examples:\n  windlass features\n  windlass features --feature-gates=AllAlpha=true -o json")]
    Features(features::FeaturesArgs),
    /// Find and take off the finalizers that plugins have left on objects.
    ///
    /// A plugin with `finalizer: true` in its manifest has the finalizer windlass.dev/PLUGIN put on its objects, so that it can
    /// clean up before they go. When the plugin is removed, or a new version no longer wants it, nobody takes it off: an
    /// object that carries it and is deleted stays for ever, "Terminating". These commands find such objects, and let them go.
    Finalizers(finalizers::FinalizersArgs),
    /// Find what composite plugins have created, and delete what they have left behind.
    ///
    /// Every object that a composite plugin creates has the label windlass.dev/created-by=PLUGIN. When a new version no longer
    /// owns a kind, the objects of that kind stay, and nobody watches them. A host says so when it starts.
    Children(children::ChildrenArgs),
    /// Write the policy that a plugin asks for, for review.
    ///
    /// Loads NAME.wasm without running it and writes NAME.policy.yaml: everything that the plugin asks for, each rule with the
    /// reason, and a remark where it is sensitive. A policy that is there is left alone; what it lacks is shown instead, and
    /// the exit code is 1. The plugin may then do what stands in the policy and nothing else; take away what you do not want.
    #[command(
        after_help = "Examples:\n  windlass grant plugins/webapp.wasm            # then read plugins/webapp.policy.yaml\n  \
        windlass grant plugins/webapp.wasm -o -       # only show it"
    )]
    Grant(grant::GrantArgs),
    /// Show what a plugin is, what it asks for, and what of that its policy grants.
    ///
    /// The exit code is for scripts: 0 if the plugin has all that it asks for, 1 if it lacks something, 2 if that could not be
    /// found out.
    #[command(after_help = "Examples:\n  windlass inspect plugins/webapp.wasm\n  \
        windlass inspect webapp.wasm --policy-dir policies -o json | jq .asks.rules")]
    Inspect(inspect::InspectArgs),
}

/// Where plugins come from and how they run; the same for every command that runs them.
#[derive(Debug, Args)]
pub(crate) struct PluginArgs {
    /// The directory of plugins: each NAME.wasm in it is one. It may be empty at first.
    #[arg(long, value_name = "DIR", env = "WINDLASS_PLUGINS")]
    pub(crate) plugins: Option<PathBuf>,
    /// Where the configurations of plugins are, each as NAME.config.yaml. Default: beside the plugins.
    #[arg(long, value_name = "DIR", env = "WINDLASS_CONFIG_DIR")]
    pub(crate) config_dir: Option<PathBuf>,
    /// Watch only this namespace. Without it, plugins watch the namespaces that their manifests name, or all.
    #[arg(long, short, value_name = "NAMESPACE", value_parser = namespace)]
    pub(crate) namespace: Option<String>,
    /// The source of plugins' rights. policy: you, in NAME.policy.yaml for each NAME.wasm; without one, a plugin waits.
    /// manifest: the plugin's author, so that it may do whatever it asks for. Default: policy; for `dev`, manifest.
    #[arg(long, value_enum, value_name = "WHO", env = "WINDLASS_GRANTS")]
    pub(crate) grants: Option<GrantMode>,
    /// The directory of policies. Default: they are beside the plugins.
    #[arg(long, value_name = "DIR", env = "WINDLASS_POLICY_DIR")]
    pub(crate) policy_dir: Option<PathBuf>,
    /// A document of kind `PluginCeiling`: no plugin may do what it does not allow, whatever its policy says.
    #[arg(long, value_name = "FILE", env = "WINDLASS_CEILING")]
    pub(crate) ceiling: Option<PathBuf>,
    /// A list of SHA-256 digests, one a line, as sha256sum prints them: no other plugin is loaded. It is followed: what is taken
    /// off it stops.
    #[arg(long, value_name = "FILE", env = "WINDLASS_ALLOWED_DIGESTS")]
    pub(crate) allowed_digests: Option<PathBuf>,
    /// The namespace in which the host itself lives, which is denied to every plugin. Default: the Pod's, if this is one.
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace, env = "POD_NAMESPACE")]
    pub(crate) host_namespace: Option<String>,
    /// Change nothing in the cluster: plugins are called, and each of their writes is refused.
    #[arg(long, env = "WINDLASS_READ_ONLY")]
    pub(crate) read_only: bool,
    /// How many calls of plugins run at once, over all plugins. Default: twice the processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) concurrent_calls: Option<u16>,
    /// How much the caches of one plugin may hold together. One that needs more is suspended; the others go on.
    #[arg(long, value_name = "SIZE", default_value_t = Size(1 << 30))]
    pub(crate) plugin_cache_limit: Size,
    /// How much any one cache may hold, whoever shares it.
    #[arg(long, value_name = "SIZE", default_value_t = Size(1 << 30))]
    pub(crate) cache_limit: Size,
    /// Where compiled plugins are kept, for this user alone. Default: `XDG_CACHE_HOME`/windlass, else ~/.cache/windlass.
    #[arg(long, value_name = "DIR", env = "WINDLASS_CACHE_DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Where /healthz, /readyz, /metrics and /plugins are served, to everyone who can connect. Without it, nowhere.
    #[arg(long, value_name = "ADDRESS", env = "WINDLASS_ADMIN_ADDRESS")]
    pub(crate) admin_address: Option<SocketAddr>,
    /// Certificate authorities that HTTPS requests of plugins trust beside the system's, in PEM.
    #[arg(long, value_name = "FILE", env = "WINDLASS_HTTP_CA")]
    pub(crate) http_ca: Option<PathBuf>,
    /// How often one plugin may read the API server itself, in the long run. Reads of caches cost nothing.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) live_reads_per_second: u16,
    /// How often one plugin may read the API server itself, at once.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) live_reads_burst: u16,
    /// How often one plugin may write, in the long run. More writes wait for their turn, and hold up no other plugin's.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) writes_per_second: u16,
    /// How often one plugin may write, at once.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) writes_burst: u16,
    /// How often one plugin may write one object within a minute before that is a hot loop: then it is called rarely about the
    /// object that it did so for. 0: never.
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub(crate) hot_loop_writes: u16,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) leases: LeaseArgs,
    #[command(flatten)]
    pub(crate) feature_gates: FeatureGateArgs,
}

fn namespace(text: &str) -> Result<String, String> {
    if windlass_wasm::manifest::is_dns_label(text) {
        Ok(text.to_owned())
    } else {
        Err("a namespace has up to 63 lower-case letters, digits and dashes".to_owned())
    }
}

impl Command {
    /// How its log lines look unless somebody says otherwise.
    fn log_format(&self) -> LogFormat {
        match self {
            Self::Dev(args) if args.is_in_folder() => LogFormat::Brief,
            _ => LogFormat::Text,
        }
    }
}

impl Cli {
    /// Runs the subcommand to its end.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let format = self.log.log_format.unwrap_or_else(|| self.command.log_format());
        let filter = self.log.log_level.as_deref().unwrap_or(match format {
            LogFormat::Brief => telemetry::brief::FILTER,
            LogFormat::Text | LogFormat::Json => "info",
        });
        telemetry::start(format, filter)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("windlass").build()?;
        run_to_end(runtime, async {
            match self.command {
                Command::Run(args) => args.run().await.map(|()| ExitCode::SUCCESS),
                Command::Dev(args) => args.run().await.map(|()| ExitCode::SUCCESS),
                Command::Children(args) => args.run().await.map(|()| ExitCode::SUCCESS),
                Command::Features(args) => args.run().map(|()| ExitCode::SUCCESS),
                Command::Finalizers(args) => args.run().await.map(|()| ExitCode::SUCCESS),
                Command::New(args) => args.run(),
                Command::Build(args) => args.run().await,
                Command::Grant(args) => args.run().await,
                Command::Inspect(args) => args.run().await,
            }
        })
    }
}

/// Writes to standard output. That its reader has had enough, as `head` has, is no error.
fn print(text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Runs `work`, and then waits for nothing else. Dropping a runtime waits for its blocking threads, and a look-up of a name
/// may take as long as the resolver likes.
fn run_to_end<T>(runtime: Runtime, work: impl Future<Output = T>) -> T {
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

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
    fn the_compiler_is_no_command_of_its_users() {
        let mut command = Cli::command();
        assert!(
            command.find_subcommand(COMPILER).is_none() && !command.render_long_help().to_string().contains(COMPILER)
        );
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
