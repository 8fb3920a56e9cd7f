//! The contenders: how each one starts, and how it reports that it is ready.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use serde::Serialize;
use tokio::process::{Child, Command};
use windlass_tests::process::Process;
use windlass_tests::{delivery, paths, wait};

use crate::server::Server;

/// The longest start of a contender, including the compilation of a plugin.
const CONTENDER_START_TIMEOUT: Duration = Duration::from_mins(3);

/// A plugin that makes the host cache all Pods, because it looks for their owners.
const POD_PLUGIN: &str = "replicaset.wasm";

/// The source of Kopf's controller.
const KOPF_CONTROLLER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers/kopf/webapp.py");

/// A program that reconciles `WebApp`s, in a fixed configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contender {
    /// Windlass with the plugin in Rust, which uses server-side apply.
    WindlassRust,
    /// Windlass with a plugin in Rust that creates and patches.
    WindlassRustCreate,
    /// Windlass with the plugin in Go.
    WindlassGo,
    /// Windlass with the plugin in TypeScript.
    WindlassTs,
    /// Windlass with the plugin in Python.
    WindlassPython,
    /// `WindlassRust` with the feature gate `SavedCalls`, as are the next three.
    WindlassRustSaved,
    /// `WindlassGo` with it.
    WindlassGoSaved,
    /// `WindlassTs` with it.
    WindlassTsSaved,
    /// `WindlassPython` with it.
    WindlassPythonSaved,
    /// controller-runtime, 8 workers, create and update.
    ControllerRuntime,
    /// controller-runtime, 8 workers, server-side apply.
    ControllerRuntimeApply,
    /// kube-rs' Controller, 8 workers, server-side apply.
    KubeRs,
    /// A bare program on kube-rs' client.
    Floor,
    /// Kopf, which creates and patches. It takes minutes, so it runs only if it is named.
    Kopf,
}

impl Contender {
    /// The controller-runtime contender that writes in the same way; `ControllerRuntime` in cases without that
    /// contender.
    pub(crate) fn peer(self) -> Self {
        match self {
            Self::WindlassRustCreate | Self::ControllerRuntime | Self::Kopf => Self::ControllerRuntime,
            _ => Self::ControllerRuntimeApply,
        }
    }

    pub(crate) fn all() -> Vec<Self> {
        Self::value_variants().iter().copied().filter(|it| !it.runs_only_if_named()).collect()
    }

    /// Whether the contender takes minutes, or matters only in the case `noop`.
    fn runs_only_if_named(self) -> bool {
        self == Self::Kopf || self == Self::WindlassPython || self.saves_calls()
    }

    /// Whether the host saves calls that can change nothing.
    fn saves_calls(self) -> bool {
        matches!(
            self,
            Self::WindlassRustSaved | Self::WindlassGoSaved | Self::WindlassTsSaved | Self::WindlassPythonSaved
        )
    }

    /// The contenders of a quick run.
    pub(crate) fn first() -> Vec<Self> {
        vec![Self::WindlassRustCreate, Self::ControllerRuntime, Self::Floor]
    }

    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The text in the log that means that the contender is ready.
    fn ready(self) -> &'static str {
        match self {
            _ if self.is_a_host() => "controller started",
            _ => "ready\n",
        }
    }

    /// The file of the plugin, below the directory of built plugins.
    fn plugin(self) -> Option<&'static str> {
        match self {
            Self::WindlassRust | Self::WindlassRustSaved => Some("webapp.wasm"),
            Self::WindlassRustCreate => Some("create/webapp-create.wasm"),
            Self::WindlassGo | Self::WindlassGoSaved => Some("webapp-go/webapp-go.wasm"),
            Self::WindlassTs | Self::WindlassTsSaved => Some("webapp-ts/webapp-ts.wasm"),
            Self::WindlassPython | Self::WindlassPythonSaved => Some("webapp-python/webapp-python.wasm"),
            _ => None,
        }
    }

    /// Whether the contender can cache Pods without an owner, and does not resemble another contender that can.
    pub(crate) fn caches_pods(self) -> bool {
        !matches!(self, Self::ControllerRuntimeApply | Self::Floor | Self::Kopf)
    }

    /// Whether the contender checks existing objects when it starts again.
    pub(crate) fn is_a_controller(self) -> bool {
        self != Self::Floor
    }

    /// Whether the contender can be many operators, each with its own kind.
    pub(crate) fn can_be_many(self) -> bool {
        matches!(self, Self::WindlassRust | Self::ControllerRuntime)
    }

    /// Whether one process runs all operators.
    pub(crate) fn is_a_host(self) -> bool {
        self.plugin().is_some()
    }

    /// The program of a peer, its arguments, and the additional arguments for caching all Pods.
    fn program(self) -> (&'static str, &'static [&'static str], &'static [&'static str]) {
        match self {
            Self::ControllerRuntimeApply => ("controller-runtime", &["--writes=apply"], &[]),
            Self::KubeRs => ("kube-rs", &[], &["--pods"]),
            Self::Floor => ("floor", &[], &[]),
            Self::Kopf => ("kopf/bin/kopf", &["run", "--quiet", "--all-namespaces", KOPF_CONTROLLER], &[]),
            _ => ("controller-runtime", &["--writes=update"], &["--writes=update", "--pods", "--strip"]),
        }
    }
}

/// The contenders that can run here, for all rounds.
pub(crate) struct Prepared {
    pub(crate) contenders: Vec<Ready>,
    pub(crate) server_version: String,
    _plugins: tempfile::TempDir,
}

/// A contender that can be started.
pub(crate) struct Ready {
    pub(crate) contender: Contender,
    program: PathBuf,
    arguments: Vec<String>,
    /// The arguments for also caching all Pods, without `managedFields`.
    with_pods: Vec<String>,
    /// The file of the plugin in the directory of the host.
    plugin: Option<PathBuf>,
    logs: PathBuf,
}

impl Prepared {
    /// Finds all programs, gives each plugin a directory and the policy that `windlass grant` writes, and makes a host
    /// compile each plugin once. So a plugin is already compiled when a measured host starts.
    pub(crate) async fn all(contenders: &[Contender], logs: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(logs)?;
        let plugins = tempfile::tempdir()?;
        let mut ready = Vec::new();
        for contender in contenders {
            let name = contender.name();
            let ((program, arguments, with_pods), plugin) = match contender.plugin() {
                Some(plugin) => {
                    let folder = plugins.path().join(&name);
                    let saves_calls = contender.saves_calls();
                    let arguments = windlass(&[plugin], &folder, saves_calls).await?;
                    let folder_with_pods = plugins.path().join(name + "-pods");
                    let with_pods = windlass(&[plugin, POD_PLUGIN], &folder_with_pods, saves_calls).await?;
                    let plugin = Path::new(plugin).file_name().context("a plugin is a file")?;
                    ((paths::windlass()?, arguments, with_pods), Some(folder.join(plugin)))
                }
                None => (peer(*contender)?, None),
            };
            ready.push(Ready { contender: *contender, program, arguments, with_pods, plugin, logs: logs.to_owned() });
        }
        let server = Server::start().await?;
        for contender in &ready {
            contender.start(&server, "first").await?.stop().await?;
            if contender.contender.caches_pods() {
                contender.start_with_pods(&server, "first-with-pods").await?.stop().await?;
            }
        }
        let server_version = server.version().await?;
        server.stop().await?;
        Ok(Self { contenders: ready, server_version, _plugins: plugins })
    }
}

/// The arguments of a host with only these plugins, in a separate directory. It may save calls.
async fn windlass(plugins: &[&str], folder: &Path, saves_calls: bool) -> anyhow::Result<Vec<String>> {
    std::fs::create_dir_all(folder)?;
    for plugin in plugins {
        let built = paths::plugins()?.join(plugin);
        ensure!(built.exists(), "{} is not built: run `make conformance`", built.display());
        let plugin = folder.join(built.file_name().context("a plugin is a file")?);
        std::fs::copy(&built, &plugin)?;
        grant(&plugin, saves_calls).await?;
    }
    let folder = folder.to_str().context("a path in UTF-8")?.to_owned();
    // The peers have no leader election either, because there is one replica.
    let mut arguments = vec!["run".into(), "--plugins".into(), folder, "--leases=none".into()];
    if saves_calls {
        arguments.push("--feature-gates=SavedCalls=true".into());
    }
    Ok(arguments)
}

/// Writes the policy of a plugin, beside its file. Only calls of fresh instances can be saved.
async fn grant(plugin: &Path, saves_calls: bool) -> anyhow::Result<()> {
    let granted = Command::new(paths::windlass()?)
        .arg("grant")
        .arg(plugin)
        .args(["--output", "-"])
        .env("WINDLASS_CACHE_DIR", paths::cache()?)
        .env("KUBECONFIG", "/dev/null")
        .output();
    let granted = granted.await?;
    ensure!(granted.status.success(), "windlass grant: {}", String::from_utf8_lossy(&granted.stderr));
    // A person would read the policy and then remove the pause.
    let mut policy = String::from_utf8(granted.stdout)?.replace("\npaused: true", "\npaused: false");
    if saves_calls {
        policy = policy.replace("\ninstances: reuse", "\ninstances: fresh");
    }
    std::fs::write(plugin.with_extension("policy.yaml"), policy)?;
    Ok(())
}

/// The path of a peer's program, where `tools/build-peers` puts it, and its arguments without and with Pods.
fn peer(contender: Contender) -> anyhow::Result<(PathBuf, Vec<String>, Vec<String>)> {
    let (name, arguments, with_pods) = contender.program();
    let folder =
        std::env::var_os("WINDLASS_PEERS_DIR").map_or_else(|| paths::root().join("target/peers"), PathBuf::from);
    let program = folder.join(name);
    ensure!(program.exists(), "{} is not built: run `tools/build-peers`", program.display());
    let owned = |arguments: &[&str]| arguments.iter().map(|&it| it.to_owned()).collect();
    Ok((program, owned(arguments), owned(with_pods)))
}

/// A running contender. It is killed when this is dropped.
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
    pub(crate) began: Instant,
    /// The time from its start until it was ready.
    pub(crate) start: Duration,
}

impl Ready {
    pub(crate) fn name(&self) -> String {
        self.contender.name()
    }

    /// Starts the contender, and waits until it is ready.
    pub(crate) async fn start(&self, server: &Server, occasion: &str) -> anyhow::Result<Running> {
        self.start_with(&self.arguments, 1, server, occasion).await
    }

    /// Starts the contender with all Pods in its caches, and waits until it is ready.
    pub(crate) async fn start_with_pods(&self, server: &Server, occasion: &str) -> anyhow::Result<Running> {
        self.start_with(&self.with_pods, 1, server, occasion).await
    }

    /// Starts the program with `arguments`, and waits until this number of `controllers` is ready.
    pub(crate) async fn start_with(
        &self,
        arguments: &[String],
        controllers: usize,
        server: &Server,
        occasion: &str,
    ) -> anyhow::Result<Running> {
        let log = self.logs.join(format!("{}-{occasion}.log", self.name()));
        let file = File::create(&log)?;
        let began = Instant::now();
        let child = Command::new(&self.program)
            .args(arguments)
            .env("KUBECONFIG", server.kubeconfig()?)
            .env("WINDLASS_CACHE_DIR", paths::cache()?)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {}", self.program.display()))?;
        let mut running = Running { child, log, began, start: Duration::ZERO };
        while running.text()?.matches(self.contender.ready()).count() < controllers {
            running.is_alive()?;
            ensure!(
                began.elapsed() < CONTENDER_START_TIMEOUT,
                "{} is not ready: see {}",
                self.name(),
                running.log.display()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        running.start = began.elapsed();
        Ok(running)
    }
}

impl Ready {
    /// Replaces the running version with a new one. The file of a plugin is overwritten. A peer's old process is asked
    /// to end, and the new process starts after that, like after a leader that releases its lease.
    pub(crate) async fn replace(&self, running: Running, server: &Server, occasion: &str) -> anyhow::Result<Running> {
        let Some(plugin) = &self.plugin else {
            running.stop().await?;
            return self.start(server, occasion).await;
        };
        let mut bytes = std::fs::read(plugin)?;
        bytes.extend_from_slice(&new_section());
        delivery::replace(plugin, |next| Ok(std::fs::write(next, bytes)?))?;
        Ok(running)
    }
}

/// A custom section without an effect: a component with it does the same, but is a different file. Its content is new
/// each time, so that the component is compiled again.
fn new_section() -> Vec<u8> {
    let mut section = vec![0, 17, 8];
    section.extend_from_slice(b"revision");
    section.extend_from_slice(&rand::random::<[u8; 8]>());
    section
}

impl Running {
    /// Whether a new version of the plugin has taken over since the start. Always true for a peer, because its old
    /// process has ended.
    pub(crate) fn is_replaced(&self) -> anyhow::Result<bool> {
        let text = self.text()?;
        Ok(!text.contains("controller started") || text.contains("a new generation has taken over"))
    }

    /// Its process.
    pub(crate) fn process(&self) -> anyhow::Result<Process> {
        Ok(Process(self.child.id().context("the contender still runs")?))
    }

    /// Returns an error if the contender has ended.
    pub(crate) fn is_alive(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the contender has ended with {status}: see {}", self.log.display());
        }
        Ok(())
    }

    /// Ends the contender with SIGTERM, and with SIGKILL if that takes too long.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        let id = self.child.id().context("the contender still runs")?;
        Command::new("kill").arg(id.to_string()).status().await?;
        if tokio::time::timeout(wait::CONDITION_TIMEOUT, self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }

    fn text(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(&self.log)?)
    }
}
