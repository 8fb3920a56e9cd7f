//! The contenders: how each is started and says that it is ready.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use serde::Serialize;
use tokio::process::{Child, Command};
use windlass_tests::{paths, wait};

use crate::process::Process;
use crate::server::Server;

/// How long a contender may take to start; the first time a plugin is compiled.
const PATIENCE: Duration = Duration::from_mins(3);

/// A program that reconciles `WebApp`s, as it is set up here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contender {
    /// Windlass with the plugin in Rust.
    WindlassRust,
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
}

impl Contender {
    /// The one that all are compared with.
    pub(crate) const PEER: Self = Self::ControllerRuntime;

    pub(crate) fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }

    /// Those that a quick run compares.
    pub(crate) fn first() -> Vec<Self> {
        vec![Self::WindlassRust, Self::ControllerRuntime, Self::Floor]
    }

    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// The text in its log that says it is ready.
    fn ready(self) -> &'static str {
        match self {
            Self::WindlassRust | Self::WindlassGo | Self::WindlassTs => "controller started",
            _ => "ready\n",
        }
    }

    /// The file of its plugin below the folder of built plugins.
    fn plugin(self) -> Option<&'static str> {
        match self {
            Self::WindlassRust => Some("webapp.wasm"),
            Self::WindlassGo => Some("webapp-go/webapp-go.wasm"),
            Self::WindlassTs => Some("webapp-ts/webapp-ts.wasm"),
            _ => None,
        }
    }

    /// The program of a peer and its arguments.
    fn peer(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::ControllerRuntimeApply => ("controller-runtime", &["--writes=apply"]),
            Self::KubeRs => ("kube-rs", &[]),
            Self::Floor => ("floor", &[]),
            _ => ("controller-runtime", &["--writes=update"]),
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
    logs: PathBuf,
}

impl Prepared {
    /// Finds all programs, gives each plugin a folder and the policy that `windlass grant` writes, and has every plugin compiled
    /// once: a host finds it compiled then, as after its first start.
    pub(crate) async fn all(contenders: &[Contender], logs: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(logs)?;
        let plugins = tempfile::tempdir()?;
        let mut ready = Vec::new();
        for contender in contenders {
            let (program, arguments) = match contender.plugin() {
                Some(plugin) => (paths::windlass()?, windlass(plugin, plugins.path()).await?),
                None => peer(contender.peer())?,
            };
            ready.push(Ready { contender: *contender, program, arguments, logs: logs.to_owned() });
        }
        let server = Server::start().await?;
        for contender in &ready {
            contender.start(&server, "first").await?.stop().await?;
        }
        let server_version = server.version().await?;
        server.stop().await?;
        Ok(Self { contenders: ready, server_version, _plugins: plugins })
    }
}

/// The arguments of a host with this plugin alone.
async fn windlass(plugin: &str, folders: &Path) -> anyhow::Result<Vec<String>> {
    let built = paths::plugins()?.join(plugin);
    ensure!(built.exists(), "{} is not built: run `make conformance`", built.display());
    let name = built.file_name().context("a plugin is a file")?.to_owned();
    let folder = folders.join(built.file_stem().context("a plugin has a name")?);
    std::fs::create_dir_all(&folder)?;
    let plugin = folder.join(name);
    std::fs::copy(&built, &plugin)?;
    let granted = Command::new(paths::windlass()?)
        .arg("grant")
        .arg(&plugin)
        .args(["--output", "-"])
        .env("WINDLASS_CACHE_DIR", paths::cache()?)
        .env("KUBECONFIG", "/dev/null")
        .output();
    let granted = granted.await?;
    ensure!(granted.status.success(), "windlass grant: {}", String::from_utf8_lossy(&granted.stderr));
    // Who has read it lifts the pause.
    let policy = String::from_utf8(granted.stdout)?.replace("\npaused: true", "\npaused: false");
    std::fs::write(plugin.with_extension("policy.yaml"), policy)?;
    let folder = folder.to_str().context("a path in UTF-8")?.to_owned();
    // A peer has no leader election either: there is one replica.
    Ok(vec!["run".into(), "--plugins".into(), folder, "--leases=none".into()])
}

/// The program of a peer, where `tools/build-peers` puts it.
fn peer((name, arguments): (&str, &[&str])) -> anyhow::Result<(PathBuf, Vec<String>)> {
    let folder =
        std::env::var_os("WINDLASS_PEERS_DIR").map_or_else(|| paths::root().join("target/peers"), PathBuf::from);
    let program = folder.join(name);
    ensure!(program.exists(), "{} is not built: run `tools/build-peers`", program.display());
    Ok((program, arguments.iter().map(|&it| it.to_owned()).collect()))
}

/// A contender at work. It is killed when dropped.
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
    /// From its start until it said that it is ready.
    pub(crate) start: Duration,
}

impl Ready {
    pub(crate) fn name(&self) -> String {
        self.contender.name()
    }

    /// Starts it and waits until it is ready.
    pub(crate) async fn start(&self, server: &Server, occasion: &str) -> anyhow::Result<Running> {
        let log = self.logs.join(format!("{}-{occasion}.log", self.name()));
        let file = File::create(&log)?;
        let began = Instant::now();
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .env("KUBECONFIG", server.kubeconfig()?)
            .env("WINDLASS_CACHE_DIR", paths::cache()?)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {}", self.program.display()))?;
        let mut running = Running { child, log, start: Duration::ZERO };
        while !running.text()?.contains(self.contender.ready()) {
            running.is_alive()?;
            ensure!(began.elapsed() < PATIENCE, "{} is not ready: see {}", self.name(), running.log.display());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        running.start = began.elapsed();
        Ok(running)
    }
}

impl Running {
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
        if tokio::time::timeout(wait::PATIENCE, self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }

    fn text(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(&self.log)?)
    }
}
