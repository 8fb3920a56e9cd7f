//! The operators, and how each is built and started.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, ensure};
use serde_json::Value;
use tempfile::{NamedTempFile, TempDir};
use tokio::process::{Child, Command};
use windlass_tests::host::Host;
use windlass_tests::objects::documents;
use windlass_tests::paths;
use windlass_tests::process::Process;
use windlass_tests::state::{KindOf, State};

/// An operator of tests/operators-go.
pub(crate) struct Operator {
    /// The name of its folder.
    pub(crate) name: &'static str,
    /// The package of its suite.
    pub(crate) suite: &'static str,
    /// A pattern of the specs that run.
    pub(crate) focus: &'static str,
    /// How many specs run.
    pub(crate) specs: usize,
    /// The files with samples.
    pub(crate) samples: &'static [&'static str],
    /// The kinds that are compared. The first ones are those of the samples.
    pub(crate) kinds: &'static [KindOf],
    /// Whether its Events are equal in each run. Events about stale reads differ between runs.
    pub(crate) has_equal_events: bool,
    /// Whether the operator has done all that it does for the samples.
    pub(crate) settled: fn(&State) -> bool,
    /// The arguments of its own program.
    pub(crate) arguments: &'static [&'static str],
    /// The environment of its own program.
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

const DEPLOYMENT: KindOf = ("apps", "v1", "Deployment", "deployments");

pub(crate) const DEPLOY_IMAGE: Operator = Operator {
    name: "deploy-image",
    suite: "internal/controller",
    focus: "",
    specs: 2,
    samples: &["example.com_v1alpha1_memcached.yaml", "example.com_v1alpha1_busybox.yaml"],
    kinds: &[
        ("example.com.testproject.org", "v1alpha1", "Memcached", "memcacheds"),
        ("example.com.testproject.org", "v1alpha1", "Busybox", "busyboxes"),
        DEPLOYMENT,
    ],
    has_equal_events: true,
    settled: |state| {
        let available = |kind| state.of(kind).any(|object| object["status"]["conditions"][0]["status"] == "True");
        available("Memcached") && available("Busybox")
    },
    arguments: &KUBEBUILDER_ARGUMENTS,
    environment: &[("MEMCACHED_IMAGE", "memcached:1.6.26-alpine3.19"), ("BUSYBOX_IMAGE", "busybox:1.36.1")],
};

pub(crate) const CRONJOB: Operator = Operator {
    name: "cronjob",
    suite: "internal/controller",
    focus: "",
    specs: 1,
    samples: &["batch_v1_cronjob.yaml"],
    kinds: &[("batch.tutorial.kubebuilder.io", "v1", "CronJob", "cronjobs"), ("batch", "v1", "Job", "jobs")],
    has_equal_events: true,
    // The sample starts a Job in each minute. This is the state after the first one.
    settled: |state| {
        state.of("CronJob").any(|object| object["status"]["active"].as_array().is_some_and(|it| !it.is_empty()))
    },
    arguments: &KUBEBUILDER_ARGUMENTS,
    environment: &[("ENABLE_WEBHOOKS", "false")],
};

pub(crate) const RAY: Operator = Operator {
    name: "ray",
    suite: "controllers/ray",
    specs: RAY_CLUSTER_SPECS,
    focus: "Inside the default namespace (Static RayCluster|RayCluster with (overridden|invalid|autoscaling|PodTemplate))",
    samples: &["ray-cluster.sample.yaml", "ray-service.sample.yaml", "ray-job.sample.yaml"],
    kinds: &[
        ("ray.io", "v1", "RayCluster", "rayclusters"),
        ("ray.io", "v1", "RayService", "rayservices"),
        ("ray.io", "v1", "RayJob", "rayjobs"),
        ("", "v1", "Pod", "pods"),
        ("", "v1", "Service", "services"),
        ("batch", "v1", "Job", "jobs"),
        ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
        ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
    ],
    has_equal_events: false,
    // Each sample has a head and a worker.
    settled: |state| state.of("Pod").count() == 6,
    arguments: &["--config", "tests/operators-go/ray/config.yaml"],
    environment: &[("RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV", "10")],
};

/// The number of specs that use no fake of a running Ray. The fakes are in the process of the suite, where a plugin
/// cannot call them.
const RAY_CLUSTER_SPECS: usize = 33;

/// These arguments disable all ports, so that several programs can run at once.
const KUBEBUILDER_ARGUMENTS: [&str; 2] = ["--metrics-bind-address=0", "--health-probe-bind-address=0"];

/// The process that reconciles.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    /// The operator's own program, with the real controller-runtime.
    Program,
    /// A host with the operator's plugin.
    Plugin,
}

/// A running operator. Dropping it ends it.
pub(crate) enum Running {
    /// The process, and the file with its log.
    Program(Child, NamedTempFile),
    /// The host, and the folder with the plugin.
    Plugin(Host, TempDir),
}

impl Running {
    /// The process.
    pub(crate) fn process(&self) -> anyhow::Result<Process> {
        let id = match self {
            Self::Program(process, _) => process.id(),
            Self::Plugin(host, _) => host.id(),
        };
        Ok(Process(id.context("the process runs")?))
    }

    /// Ends the operator, and returns the result. Adds the log to an error.
    pub(crate) async fn end<T>(self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        match self {
            Self::Program(mut process, log) => {
                process.kill().await?;
                let log = std::fs::read_to_string(log.path())?;
                result.with_context(|| format!("the program logged:\n{log}"))
            }
            Self::Plugin(host, _folder) => {
                let result = result.with_context(|| format!("the host logged:\n{}", host.log()))?;
                let status = host.terminate().await?;
                ensure!(status.success(), "the host ended with {status}");
                Ok(result)
            }
        }
    }
}

impl Operator {
    /// The folder that `tools/build-operators NAME` prints.
    pub(crate) fn folder(&self) -> anyhow::Result<PathBuf> {
        let variable = format!("WINDLASS_OPERATOR_{}", self.name.to_uppercase().replace('-', "_"));
        let folder = std::env::var(&variable);
        Ok(folder
            .with_context(|| format!("{variable} names what `tools/build-operators {}` prints", self.name))?
            .into())
    }

    /// The objects of its samples that are of the compared kinds.
    pub(crate) fn sample_objects(&self) -> anyhow::Result<Vec<Value>> {
        let folder = self.folder()?.join("pristine/config/samples");
        let files = self.samples.iter().map(|file| documents(&folder.join(file)));
        let objects = files.collect::<Result<Vec<_>, _>>()?.into_iter().flatten();
        // The other objects are data for containers, which do not run here.
        let is_compared = |object: &Value| self.kinds.iter().any(|kind| object["kind"] == kind.2);
        Ok(objects.filter(is_compared).collect())
    }

    /// Its definitions.
    pub(crate) fn definitions(&self) -> anyhow::Result<Vec<Value>> {
        let mut definitions = Vec::new();
        for file in std::fs::read_dir(self.folder()?.join("pristine/config/crd/bases"))? {
            definitions.extend(documents(&file?.path())?);
        }
        Ok(definitions)
    }

    /// Starts the operator for all namespaces.
    pub(crate) async fn start(&self, by: By, kubeconfig: &Path) -> anyhow::Result<Running> {
        match by {
            By::Program => self.start_program(kubeconfig),
            By::Plugin => self.start_plugin(kubeconfig).await,
        }
    }

    fn start_program(&self, kubeconfig: &Path) -> anyhow::Result<Running> {
        let log = NamedTempFile::new()?;
        let process = Command::new(self.folder()?.join("manager"))
            .args(self.arguments)
            .current_dir(paths::root())
            .env("KUBECONFIG", kubeconfig)
            .envs(self.environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.reopen()?)
            .kill_on_drop(true)
            .spawn();
        Ok(Running::Program(process.with_context(|| format!("start {}", self.name))?, log))
    }

    async fn start_plugin(&self, kubeconfig: &Path) -> anyhow::Result<Running> {
        let plugins = tempfile::tempdir()?;
        self.build_plugin(plugins.path()).await?;
        Ok(Running::Plugin(start_host(kubeconfig, plugins.path()).await?, plugins))
    }

    /// Builds its plugin with `windlass build`, into a folder.
    pub(crate) async fn build_plugin(&self, plugins: &Path) -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let sources = folder.path().join("sources");
        let (changed, all) = self.write_sources(&sources).await?;
        println!("figures: {}: {changed} of {all} lines outside the main program are changed", self.name);
        ensure!(changed * 100 <= all * CHANGED_PERCENT_MAX, "{}: {changed} of {all} lines are changed", self.name);
        let build = Command::new(paths::windlass()?)
            .args(["build", "--out"])
            .arg(plugins.join(format!("{}.wasm", self.name)))
            .arg(&sources)
            .env("WINDLASS_CACHE_DIR", paths::cache()?)
            .output()
            .await?;
        ensure!(build.status.success(), "{}: {}", self.name, String::from_utf8_lossy(&build.stderr));
        Ok(())
    }

    /// Generates the definitions from the markers on the types, and compares them with those of the project.
    pub(crate) async fn definitions_follow_from_types(&self) -> anyhow::Result<()> {
        // The go command finds the project's module from the folder of the types.
        let (project, folder) = (self.folder()?.join("pristine"), tempfile::tempdir()?);
        let mut crd = String::new();
        for file in std::fs::read_dir(project.join("config/crd/bases"))? {
            crd += &std::fs::read_to_string(file?.path())?;
        }
        let named = crd.lines().find_map(|line| line.trim().strip_prefix("controller-gen.kubebuilder.io/version: "));
        let version = named.context("the generator names its version")?;
        let types = project.join("api/...").display().to_string();
        let file =
            format!("name: shop\nlanguage: go\ndefinitions: {{from: go, paths: [{types:?}], version: {version}}}\n");
        std::fs::write(folder.path().join("windlass.yaml"), file)?;
        std::fs::write(folder.path().join("crd.yaml"), &crd)?;
        let check = || async {
            let output = Command::new(paths::windlass()?).args(["crd", "--check"]).arg(folder.path()).output().await?;
            anyhow::Ok((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
        };
        let (code, errors) = check().await?;
        ensure!(code == Some(0), "{errors}");
        std::fs::write(folder.path().join("crd.yaml"), crd.replace("minimum: 0\n", "minimum: 1\n"))?;
        let (code, errors) = check().await?;
        ensure!(code == Some(1) && errors.contains("minimum: crd.yaml has 1, and the types give 0"), "{errors}");
        Ok(())
    }

    /// Writes the plugin's sources, and returns how many lines are changed and of how many.
    async fn write_sources(&self, to: &Path) -> anyhow::Result<(usize, usize)> {
        let tool = paths::root().join("tools/build-operators");
        let written = Command::new(tool).args(["--plugin", self.name]).arg(to).output().await?;
        ensure!(written.status.success(), "{}: {}", self.name, String::from_utf8_lossy(&written.stderr));
        let counts = String::from_utf8(written.stdout)?;
        let (changed, all) = counts.trim().split_once(" of ").context("it prints two counts")?;
        Ok((changed.parse()?, all.parse()?))
    }
}

/// Starts a host with the plugins of a folder, for all namespaces.
pub(crate) async fn start_host(kubeconfig: &Path, plugins: &Path) -> anyhow::Result<Host> {
    let [kubeconfig, plugins] = [kubeconfig, plugins].map(|path| path.to_str().context("a path in UTF-8"));
    let arguments = ["run", "--kubeconfig", kubeconfig?, "--plugins", plugins?, "--grants=manifest", "--leases=none"];
    let host = Host::start(&arguments, None)?;
    host.says("controller started").await?;
    Ok(host)
}

/// The largest share of an operator's lines that may change outside its main program.
const CHANGED_PERCENT_MAX: usize = 5;
