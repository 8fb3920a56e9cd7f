//! The contenders: how each is started and says that it is ready.

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

/// How long a contender may take to start; the first time a plugin is compiled.
const CONTENDER_START_TIMEOUT: Duration = Duration::from_mins(3);

/// The plugin that has a host cache all Pods: it looks for the owners of each.
const POD_PLUGIN: &str = "replicaset.wasm";

/// The source of Kopf's controller.
const KOPF_CONTROLLER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers/kopf/webapp.py");

/// A program that reconciles `WebApp`s, as it is set up here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contender {
    /// Windlass with the plugin in Rust, which applies.
    WindlassRust,
    /// Windlass with a plugin in Rust that creates and patches.
    WindlassRustCreate,
    /// Windlass with the plugin in Go.
    WindlassGo,
    /// Windlass with the plugin in TypeScript.
    WindlassTs,
    /// controller-runtime, 8 workers, create and update.
    ControllerRuntime,
    /// controller-runtime, 8 workers, server-side apply.
    ControllerRuntimeApply,
    /// kube-rs' Controller, 8 workers, server-side apply.
    KubeRs,
    /// A bare program on kube-rs' client.
    Floor,
    /// Kopf, which creates and patches. It has a part only if it is named: it takes minutes.
    Kopf,
}

impl Contender {
    /// The controller-runtime that writes as this one does. In a case where it has no part, `ControllerRuntime` stands
    /// in.
    pub(crate) fn peer(self) -> Self {
        match self {
            Self::WindlassRustCreate | Self::ControllerRuntime | Self::Kopf => Self::ControllerRuntime,
            _ => Self::ControllerRuntimeApply,
        }
    }

    pub(crate) fn all() -> Vec<Self> {
        Self::value_variants().iter().copied().filter(|it| *it != Self::Kopf).collect()
    }

    /// Those that a quick run compares.
    pub(crate) fn first() -> Vec<Self> {
        vec![Self::WindlassRustCreate, Self::ControllerRuntime, Self::Floor]
    }

    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The text in its log that says it is ready.
    fn ready(self) -> &'static str {
        match self {
            _ if self.is_a_host() => "controller started",
            _ => "ready\n",
        }
    }

    /// The file of its plugin below the folder of built plugins.
    fn plugin(self) -> Option<&'static str> {
        match self {
            Self::WindlassRust => Some("webapp.wasm"),
            Self::WindlassRustCreate => Some("create/webapp-create.wasm"),
            Self::WindlassGo => Some("webapp-go/webapp-go.wasm"),
            Self::WindlassTs => Some("webapp-ts/webapp-ts.wasm"),
            _ => None,
        }
    }

    /// Whether it can cache Pods that are nobody's, and is not the like of one that can.
    pub(crate) fn caches_pods(self) -> bool {
        !matches!(self, Self::ControllerRuntimeApply | Self::Floor | Self::Kopf)
    }

    /// Whether it looks at what is there when it starts again.
    pub(crate) fn is_a_controller(self) -> bool {
        self != Self::Floor
    }

    /// Whether it can be many operators, each with a kind of its own.
    pub(crate) fn can_be_many(self) -> bool {
        matches!(self, Self::WindlassRust | Self::ControllerRuntime)
    }

    /// Whether all of them are one process.
    pub(crate) fn is_a_host(self) -> bool {
        self.plugin().is_some()
    }

    /// The program of a peer, its arguments, and those with which it caches all Pods.
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

/// The contenders that can run here; all rounds use them.
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
    /// Those with which it caches all Pods, too, and keeps no `managedFields`.
    with_pods: Vec<String>,
    /// The file of its plugin, where the host looks for it.
    plugin: Option<PathBuf>,
    logs: PathBuf,
}

impl Prepared {
    /// Finds all programs, gives each plugin a folder and the policy that `windlass grant` writes, and has every plugin
    /// compiled once: a host finds it compiled then, as after its first start.
    pub(crate) async fn all(contenders: &[Contender], logs: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(logs)?;
        let plugins = tempfile::tempdir()?;
        let mut ready = Vec::new();
        for contender in contenders {
            let name = contender.name();
            let ((program, arguments, with_pods), plugin) = match contender.plugin() {
                Some(plugin) => {
                    let folder = plugins.path().join(&name);
                    let arguments = windlass(&[plugin], &folder).await?;
                    let with_pods = windlass(&[plugin, POD_PLUGIN], &plugins.path().join(name + "-pods")).await?;
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

/// The arguments of a host with these plugins alone, in a folder of their own.
async fn windlass(plugins: &[&str], folder: &Path) -> anyhow::Result<Vec<String>> {
    std::fs::create_dir_all(folder)?;
    for plugin in plugins {
        let built = paths::plugins()?.join(plugin);
        ensure!(built.exists(), "{} is not built: run `make conformance`", built.display());
        let plugin = folder.join(built.file_name().context("a plugin is a file")?);
        std::fs::copy(&built, &plugin)?;
        grant(&plugin).await?;
    }
    let folder = folder.to_str().context("a path in UTF-8")?.to_owned();
    // A peer has no leader election either: there is one replica.
    Ok(vec!["run".into(), "--plugins".into(), folder, "--leases=none".into()])
}

/// Writes the policy that a plugin asks for beside it.
async fn grant(plugin: &Path) -> anyhow::Result<()> {
    let granted = Command::new(paths::windlass()?)
        .arg("grant")
        .arg(plugin)
        .args(["--output", "-"])
        .env("WINDLASS_CACHE_DIR", paths::cache()?)
        .env("KUBECONFIG", "/dev/null")
        .output();
    let granted = granted.await?;
    ensure!(granted.status.success(), "windlass grant: {}", String::from_utf8_lossy(&granted.stderr));
    // Who has read it lifts the pause.
    let policy = String::from_utf8(granted.stdout)?.replace("\npaused: true", "\npaused: false");
    std::fs::write(plugin.with_extension("policy.yaml"), policy)?;
    Ok(())
}

/// The program of a peer, where `tools/build-peers` puts it, and its arguments without and with Pods.
fn peer(contender: Contender) -> anyhow::Result<(PathBuf, Vec<String>, Vec<String>)> {
    let (name, arguments, with_pods) = contender.program();
    let folder =
        std::env::var_os("WINDLASS_PEERS_DIR").map_or_else(|| paths::root().join("target/peers"), PathBuf::from);
    let program = folder.join(name);
    ensure!(program.exists(), "{} is not built: run `tools/build-peers`", program.display());
    let owned = |arguments: &[&str]| arguments.iter().map(|&it| it.to_owned()).collect();
    Ok((program, owned(arguments), owned(with_pods)))
}

/// A contender at work. It is killed when dropped.
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
    pub(crate) began: Instant,
    /// From its start until it said that it is ready.
    pub(crate) start: Duration,
}

impl Ready {
    pub(crate) fn name(&self) -> String {
        self.contender.name()
    }

    /// Starts it and waits until it is ready.
    pub(crate) async fn start(&self, server: &Server, occasion: &str) -> anyhow::Result<Running> {
        self.start_with(&self.arguments, 1, server, occasion).await
    }

    /// The same, with all Pods in its caches.
    pub(crate) async fn start_with_pods(&self, server: &Server, occasion: &str) -> anyhow::Result<Running> {
        self.start_with(&self.with_pods, 1, server, occasion).await
    }

    /// Starts its program with other `arguments`, and waits until so many `controllers` of it are ready.
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
    /// Puts a new version in the place of the one that runs. A plugin's file is overwritten. Of a peer, the old process
    /// is told to end, and the new one starts when it has, as with a leader that releases its lease.
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

/// A section that nobody reads: what it is added to does the same, and is another file. No file had it before, so that
/// it is compiled anew.
fn new_section() -> Vec<u8> {
    let mut section = vec![0, 17, 8];
    section.extend_from_slice(b"revision");
    section.extend_from_slice(&rand::random::<[u8; 8]>());
    section
}

impl Running {
    /// Whether a new version of its plugin has taken over since it started. True of a peer, of which no old process is
    /// left.
    pub(crate) fn is_replaced(&self) -> anyhow::Result<bool> {
        let text = self.text()?;
        Ok(!text.contains("controller started") || text.contains("a new generation has taken over"))
    }

    /// Its process.
    pub(crate) fn process(&self) -> anyhow::Result<Process> {
        Ok(Process(self.child.id().context("the contender still runs")?))
    }

    /// An error if it has ended.
    pub(crate) fn is_alive(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the contender has ended, {status}: see {}", self.log.display());
        }
        Ok(())
    }

    /// Ends it by SIGTERM, and by SIGKILL if that takes long.
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
