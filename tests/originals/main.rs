//! The drop-in operators beside their originals: both carry out the same scenarios on a real kube-apiserver, and must
//! leave the same objects, except for the differences that `NAME.yaml` lists with their reasons. The README has
//! details.

mod differences;
mod user;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use kube::Client;
use kube::core::ApiResource;
use windlass_check::scenario::{self, Scenario};
use windlass_tests::cluster::OwnCluster;
use windlass_tests::host::Host;
use windlass_tests::originals::{Original, Run, Subject, start_host};
use windlass_tests::process::Process;
use windlass_tests::state::State;
use windlass_tests::wait::{until, until_within};
use windlass_tests::{paths, server};

use differences::{differences, explain};
use user::{User, resource};

/// The controllers that scenarios need: namespaces and objects with owners are deleted, and namespaces get accounts.
const CLUSTER: &[&str] = &["--controllers", "garbage-collector,namespace,service-account"];

/// The time that an operator may take for its start, or for a step.
const STEP_TIMEOUT: Duration = Duration::from_mins(3);

/// A step is over if nothing changes for this time, unless the description of the drop-in has another one.
const STEP_SETTLED_TIME: Duration = Duration::from_secs(3);

/// The operator that runs.
#[derive(Clone, Copy, Debug)]
enum By {
    Original,
    DropIn,
}

/// A running operator. It is killed when this is dropped.
enum Running {
    Original(Original),
    DropIn(Host, tempfile::TempDir),
}

impl Running {
    async fn start(subject: &Subject, by: By, kubeconfig: &Path) -> anyhow::Result<Self> {
        Ok(match by {
            By::Original => Self::Original(subject.start_original(kubeconfig).await?),
            By::DropIn => {
                let plugins = tempfile::tempdir()?;
                subject.install(plugins.path())?;
                Self::DropIn(start_host(kubeconfig, plugins.path()).await?, plugins)
            }
        })
    }

    fn process(&mut self) -> anyhow::Result<Process> {
        match self {
            Self::Original(original) => original.process(),
            Self::DropIn(host, _) => Ok(Process(host.id().context("the host runs")?)),
        }
    }

    fn log(&self) -> anyhow::Result<String> {
        match self {
            Self::Original(original) => original.log(),
            Self::DropIn(host, _) => Ok(host.log()),
        }
    }

    async fn end(self) -> anyhow::Result<()> {
        match self {
            Self::Original(original) => original.end().await,
            Self::DropIn(host, _plugins) => host.kill().await,
        }
    }
}

/// A scenario that one operator carries out on a fresh server.
struct Stage<'a> {
    subject: &'a Subject,
    by: By,
    client: Client,
    kubeconfig: &'a Path,
    kinds: Vec<ApiResource>,
    running: Option<Running>,
}

impl Stage<'_> {
    /// Starts the operator, and waits until it is idle.
    async fn start(&mut self) -> anyhow::Result<()> {
        let running = self.running.insert(Running::start(self.subject, self.by, self.kubeconfig).await?);
        let process = running.process()?;
        let at_rest = process.at_rest(STEP_TIMEOUT).await;
        let log = running.log()?;
        at_rest.with_context(|| format!("it logged:\n{log}"))?;
        Ok(())
    }

    async fn stop(&mut self) -> anyhow::Result<()> {
        match self.running.take() {
            Some(running) => running.end().await,
            None => Ok(()),
        }
    }

    /// Waits until nothing changes any more, and returns the state.
    async fn settled(&mut self) -> anyhow::Result<State> {
        if let Some(running) = &mut self.running {
            running.process()?;
        }
        let settled_time = self.subject.comparison.settled_seconds.map_or(STEP_SETTLED_TIME, Duration::from_secs);
        until_within(STEP_TIMEOUT, "nothing changes", || async {
            let state = State::read_everywhere(&self.client, &self.kinds).await?;
            tokio::time::sleep(settled_time).await;
            let later = State::read_everywhere(&self.client, &self.kinds).await?;
            ensure!(state == later, "{}", later.difference(&state));
            Ok(state)
        })
        .await
    }

    async fn play(&mut self, user: &User, scenario: &Scenario, run: &Run) -> anyhow::Result<State> {
        self.start().await?;
        self.settled().await?;
        for (number, step) in (1..).zip(&scenario.steps) {
            if run.down.contains(&number) {
                self.stop().await?;
            } else if self.running.is_none() {
                self.start().await?;
            }
            user.act(step).await.with_context(|| format!("step {number}"))?;
            self.settled().await.with_context(|| format!("step {number}"))?;
        }
        if self.running.is_none() {
            self.start().await?;
        }
        self.settled().await
    }
}

/// Carries out a scenario on a fresh server, and returns the end state and the operator's last log.
async fn play(subject: &Subject, run: &Run, by: By) -> anyhow::Result<(State, String)> {
    let scenario = scenario::read(&paths::root().join(&run.scenario))?;
    let cluster = OwnCluster::start(CLUSTER).await?;
    let kubeconfig = cluster.running()?.kubeconfig();
    let (client, user) = (server::client(kubeconfig).await?, User::of(kubeconfig, scenario.user.as_deref()).await?);
    for object in &scenario.load {
        // The server needs time until it serves a definition.
        until("an object is loaded", || user.apply(object)).await?;
    }
    let mut kinds = Vec::new();
    for kind in &subject.kinds {
        kinds.push(until("the kind is served", || resource(&client, &kind.api_version, &kind.kind)).await?.0);
    }
    let mut stage = Stage { subject, by, client, kubeconfig, kinds, running: None };
    let played = stage.play(&user, &scenario, run).await;
    let log = stage.running.as_ref().map(Running::log).transpose()?.unwrap_or_default();
    stage.stop().await?;
    drop(stage);
    tokio::task::spawn_blocking(move || cluster.stop()).await??;
    match played {
        Ok(left) => Ok((left, log)),
        Err(error) => Err(error.context(format!("{by:?} of {}, {}; it logged:\n{log}", subject.name, run.scenario))),
    }
}

/// The name of a run, for people.
fn title(run: &Run) -> String {
    let scenario = Path::new(&run.scenario).file_stem().unwrap_or_default().display();
    match run.down.as_slice() {
        [] => scenario.to_string(),
        down => format!("{scenario}, steps {down:?} while it is down"),
    }
}

/// Compares the end states of all scenarios.
async fn leaves_the_same(name: &str) -> anyhow::Result<()> {
    let subject = Subject::read(name)?.for_comparison();
    subject.program()?;
    ensure!(!subject.runs.is_empty(), "{name} has no scenario");
    let mut failures = Vec::new();
    for run in &subject.runs {
        // Each has its own server.
        let both = futures::future::try_join(play(&subject, run, By::Original), play(&subject, run, By::DropIn));
        let ((original, log), (dropin, _)) = both.await?;
        let (found, scenario) = (differences(&original, &dropin), title(run));
        println!("figures: {name} beside {}, {scenario}: {} objects", subject.original, original.0.len());
        match explain(&found, &run.differences, &subject.differences) {
            Ok(counts) => {
                for (count, difference) in counts.iter().zip(&run.differences) {
                    println!("figures:   {count} values differ: {}", difference.reason);
                }
            }
            Err(error) => {
                println!("figures:   FAILED: {} values differ", found.len());
                failures.push(format!("{scenario}: {error:#}\nthe original logged:\n{log}"));
            }
        }
    }
    ensure!(failures.is_empty(), "{name}:\n{}", failures.join("\n"));
    Ok(())
}

/// Every difference is described in the README of the drop-in, below the heading "Differences".
#[test]
fn readmes_have_the_differences() -> anyhow::Result<()> {
    let names = Subject::names()?;
    ensure!(!names.is_empty(), "there are no descriptions");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for name in names {
        let subject = Subject::read(&name)?;
        let readme = std::fs::read_to_string(subject.folder().join("README.md"))?;
        let (_, section) = readme.split_once("## Differences").with_context(|| format!("{name} lists differences"))?;
        for difference in subject.runs.iter().flat_map(|run| &run.differences) {
            let quoted =
                difference.readme.as_deref().with_context(|| format!("{name}: {} in its README", difference.reason))?;
            ensure!(words(section).contains(&words(quoted)), "{name}: its README has no {quoted:?}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it needs the original's program: see tests/originals/README.md"]
async fn the_cronjob_operator_leaves_the_same() -> anyhow::Result<()> {
    leaves_the_same("cronjob").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it needs the original's program: see tests/originals/README.md"]
async fn the_csr_approver_leaves_the_same() -> anyhow::Result<()> {
    leaves_the_same("csr-approver").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it needs the original's program: see tests/originals/README.md"]
async fn the_downscaler_leaves_the_same() -> anyhow::Result<()> {
    leaves_the_same("downscaler").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it needs the original's program: see tests/originals/README.md"]
async fn the_imagepullsecret_patcher_leaves_the_same() -> anyhow::Result<()> {
    leaves_the_same("imagepullsecret-patcher").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it needs the original's program: see tests/originals/README.md"]
async fn the_janitor_leaves_the_same() -> anyhow::Result<()> {
    leaves_the_same("janitor").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it needs the original's program: see tests/originals/README.md"]
async fn the_rbac_manager_leaves_the_same() -> anyhow::Result<()> {
    leaves_the_same("rbac-manager").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it needs the original's program: see tests/originals/README.md"]
async fn the_reloader_leaves_the_same() -> anyhow::Result<()> {
    leaves_the_same("reloader").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it needs the original's program: see tests/originals/README.md"]
async fn the_replicator_leaves_the_same() -> anyhow::Result<()> {
    leaves_the_same("replicator").await
}
