//! The drop-in operators beside their originals: how both are started. `tests/originals/NAME.yaml` describes a drop-in
//! and its original. The comparison (`tests/originals`) and the benchmark (`tests/benches/peers`) use it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::{NamedTempFile, TempDir};
use tokio::process::{Child, Command};

use crate::host::Host;
use crate::process::Process;
use crate::{in_cluster, paths};

/// A debug build of the host compiles a component with an interpreter for longer than the default limits allow.
const COMPILE_LIMITS: [&str; 4] = ["--limit", "compile-deadline=6m", "--limit", "compile-cpu=4m"];

/// The time in which a host compiles a drop-in and starts it.
const DROPIN_START_TIMEOUT: Duration = Duration::from_mins(6);

/// A drop-in operator and its original.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subject {
    /// The name of the drop-in, of its file, and of the original's program.
    #[serde(skip)]
    pub name: String,
    /// The original's name and version, for people.
    pub original: String,
    /// The lines of the original's code, by the rule in tests/originals/README.md.
    pub lines: usize,
    /// The sources of the drop-in, as file names in its folder. A `*` stands for any text.
    pub sources: Vec<String>,
    #[serde(default)]
    pub program: Program,
    /// The configuration of the drop-in. By default, the one in its folder.
    #[serde(default)]
    pub configuration: Option<Value>,
    /// The settings for the comparison, which replace the ones above.
    #[serde(default)]
    pub comparison: Settings,
    /// The kinds that are compared.
    #[serde(default)]
    pub kinds: Vec<KindName>,
    /// The scenarios that are compared.
    #[serde(default)]
    pub runs: Vec<Run>,
    /// Values that may differ in each run.
    #[serde(default)]
    pub differences: Vec<Difference>,
    /// The change whose effect the benchmark waits for. `None` if the operator acts only at certain times.
    #[serde(default)]
    pub reaction: Option<Reaction>,
}

/// The original's program, `target/originals/NAME`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Program {
    /// `{kubeconfig}` stands for the path of a kubeconfig, and `{root}` for the root of the checkout.
    #[serde(default)]
    pub arguments: Vec<String>,
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Whether the program only runs in a Pod: it reads the token of its service account from a fixed path.
    #[serde(default)]
    pub in_cluster: bool,
}

/// Settings of a drop-in and its original.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// The additional arguments of the original's program. They follow the others, so that they count.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// The additional environment of the original's program.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The configuration of the drop-in.
    #[serde(default)]
    pub configuration: Option<Value>,
    /// A step is over if nothing changes for this time: longer than the period in which an operator polls.
    #[serde(default)]
    pub settled_seconds: Option<u64>,
}

/// A kind of objects.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KindName {
    /// Such as `apps/v1`.
    pub api_version: String,
    /// Such as `Deployment`.
    pub kind: String,
}

/// A scenario that both carry out.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Run {
    /// The scenario's file, from the root of the checkout.
    pub scenario: String,
    /// The steps, counted from 1, that happen while the operator is down.
    #[serde(default)]
    pub down: Vec<usize>,
    /// The expected differences between the two end states.
    #[serde(default)]
    pub differences: Vec<Difference>,
}

/// An expected difference.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Difference {
    /// The objects, as `KIND NAMESPACE/NAME`. A `*` stands for any text.
    pub objects: String,
    /// JSON pointers of the values. A `*` stands for any text. By default, all values.
    #[serde(default = "everything")]
    pub at: String,
    /// The reason, for people.
    pub reason: String,
    /// Whether the difference does not appear in each run, because it depends on the order of events.
    #[serde(default)]
    pub sometimes: bool,
    /// The words about it in the README of the drop-in. `None` if the value also differs between two runs of the
    /// original.
    #[serde(default)]
    pub readme: Option<String>,
}

fn everything() -> String {
    "*".to_owned()
}

/// A change and its effect. `{n}` stands for the number of the repetition.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reaction {
    /// The user in whose name the objects are applied. By default, an administrator.
    #[serde(default)]
    pub user: Option<String>,
    /// The period in which the original polls. Changes then come at random times within it.
    #[serde(default)]
    pub period_seconds: Option<u64>,
    /// Objects and files with objects, from the root of the checkout, that exist before the operators start.
    #[serde(default)]
    pub load: Vec<Value>,
    /// The object that is applied.
    pub apply: Value,
    /// The object that shows the effect.
    pub effect: Effect,
}

/// The effect of a change.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Effect {
    /// Such as `v1`.
    pub api_version: String,
    /// Such as `Secret`.
    pub kind: String,
    #[serde(default)]
    pub namespace: Option<String>,
    pub name: String,
    /// The values that the object has then, by JSON pointer.
    #[serde(default)]
    pub values: BTreeMap<String, Value>,
    /// A CEL expression that holds for the object then, for two sides that have no value in common.
    #[serde(default)]
    pub cel: Option<String>,
    /// Whether the effect is that the object is gone.
    #[serde(default)]
    pub absent: bool,
}

impl Subject {
    /// Reads the description of a drop-in and its original.
    pub fn read(name: &str) -> anyhow::Result<Self> {
        let path = folder().join(format!("{name}.yaml"));
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let subject = serde_saphyr::from_str(&text).with_context(|| format!("parse {}", path.display()))?;
        Ok(Self { name: name.to_owned(), ..subject })
    }

    /// The same with the settings for the comparison.
    #[must_use]
    pub fn for_comparison(mut self) -> Self {
        self.program.arguments.append(&mut self.comparison.arguments);
        self.program.environment.append(&mut self.comparison.environment);
        self.configuration = self.comparison.configuration.take().or(self.configuration);
        self
    }

    /// The names of all descriptions, sorted.
    pub fn names() -> anyhow::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder())? {
            let name = entry?.file_name().into_string().ok().context("a name in UTF-8")?;
            names.extend(name.strip_suffix(".yaml").map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }

    /// The folder of the drop-in's sources.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        paths::root().join("plugins").join(&self.name)
    }

    /// The path of the original's program.
    pub fn program(&self) -> anyhow::Result<PathBuf> {
        let program = programs().join(&self.name);
        ensure!(program.is_file(), "there is no {}: tests/originals/README.md says how to add it", program.display());
        Ok(program)
    }

    /// Whether the original's program is there.
    #[must_use]
    pub fn has_program(&self) -> bool {
        programs().join(&self.name).is_file()
    }

    /// Puts the drop-in, its policy and its configuration into a directory of plugins.
    pub fn install(&self, plugins: &Path) -> anyhow::Result<()> {
        let file = |suffix: &str| format!("{}.{suffix}", self.name);
        std::fs::copy(paths::dropin(&self.name)?, plugins.join(file("wasm")))?;
        std::fs::copy(self.folder().join(file("policy.yaml")), plugins.join(file("policy.yaml")))?;
        let config = file("config.yaml");
        if let Some(configuration) = &self.configuration {
            std::fs::write(plugins.join(config), configuration.to_string())?;
        } else if self.folder().join(&config).exists() {
            std::fs::copy(self.folder().join(&config), plugins.join(config))?;
        }
        Ok(())
    }

    /// Starts the original's program.
    pub async fn start_original(&self, kubeconfig: &Path) -> anyhow::Result<Original> {
        let (log, home) = (NamedTempFile::new()?, tempfile::tempdir()?);
        let path = kubeconfig.to_str().context("a path in UTF-8")?;
        let root = paths::root().to_str().context("a path in UTF-8")?;
        let arguments = self.program.arguments.iter();
        let arguments = arguments.map(|it| it.replace("{kubeconfig}", path).replace("{root}", root));
        let (program, file) = (self.program()?, log.reopen()?);
        let mut command = if self.program.in_cluster {
            in_cluster::command(kubeconfig, home.path(), &program).await?
        } else {
            Command::new(program)
        };
        let child = command
            .args(arguments)
            .env("HOME", home.path())
            .env("KUBECONFIG", kubeconfig)
            .envs(&self.program.environment)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start the original of {}", self.name))?;
        Ok(Original { child, log, _home: home })
    }
}

/// The original's process. It is killed when this is dropped.
pub struct Original {
    child: Child,
    log: NamedTempFile,
    _home: TempDir,
}

impl Original {
    /// The process, which must still run.
    pub fn process(&mut self) -> anyhow::Result<Process> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "the original has ended with {ended:?}; it logged:\n{}", self.log()?);
        Ok(Process(self.child.id().context("the original runs")?))
    }

    /// The whole log so far.
    pub fn log(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.log.path())?)
    }

    /// Ends the process, as a node that fails does.
    pub async fn end(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }
}

/// Starts a host with a directory of plugins, and waits until the plugins work.
pub async fn start_host(kubeconfig: &Path, plugins: &Path) -> anyhow::Result<Host> {
    let [kubeconfig, plugins] = [kubeconfig, plugins].map(|path| path.to_str().context("a path in UTF-8"));
    let arguments = ["run", "--kubeconfig", kubeconfig?, "--plugins", plugins?, "--grants=policy", "--leases=none"];
    let host = Host::start(&[&arguments[..], &COMPILE_LIMITS].concat(), None)?;
    host.says_within(DROPIN_START_TIMEOUT, &["controller started"]).await?;
    Ok(host)
}

fn folder() -> PathBuf {
    paths::root().join("tests/originals")
}

/// The directory of the originals' programs: `WINDLASS_ORIGINAL_DIR`, or else `target/originals`.
fn programs() -> PathBuf {
    std::env::var_os("WINDLASS_ORIGINAL_DIR").map_or_else(|| paths::root().join("target/originals"), PathBuf::from)
}
