//! Checks plugins in this process, each in a simulated world on the calling thread. A plugin is loaded only once,
//! however often it is checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use serde_json::Value;
use tokio::runtime::Builder;
use windlass_check::scenario::{self, Scenario};
use windlass_check::{CheckSubject, Effort, Report, Reproduction, RunAgain, SavingComparison};
use windlass_core::life::features::Features;
use windlass_tests::{busy, paths};
use windlass_wasm::{Limits, Metering, Plugin, Sandbox, SandboxOptions};

/// A plugin in its simulated world.
pub(super) struct SimulatedPlugin {
    plugin: Arc<Plugin>,
    /// The features of the host.
    features: Features,
    /// The directory of its configuration.
    configs: PathBuf,
}

/// The effort of a check, and its seed.
pub(super) struct Trial<'a> {
    pub(super) scenario: &'a str,
    /// The classes of faults to try. Empty for all.
    pub(super) classes: &'a [&'a str],
    pub(super) runs: usize,
    pub(super) seed: u64,
}

/// Loads the plugin of `file`, and passes it to `work`.
pub(super) fn with<T>(file: &Path, work: impl AsyncFnOnce(&SimulatedPlugin) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let _turn = busy::turn().await?;
        // As `windlass check` does it.
        let limits = Limits { metering: Metering::Fuel, ..Limits::default() };
        let options = SandboxOptions { limits, cache: Some(paths::cache()?), ..SandboxOptions::in_one_thread() };
        let plugin = Sandbox::new(options)?.load(file).await?;
        tokio::time::pause();
        work(&SimulatedPlugin { plugin, features: Features::default(), configs: PathBuf::new() }).await
    })
}

impl SimulatedPlugin {
    /// The same plugin in a host that saves calls which can change nothing.
    pub(super) fn saving_calls(&self) -> anyhow::Result<Self> {
        let features = Features::new(["SavedCalls=true".parse()?])?;
        Ok(Self { plugin: self.plugin.clone(), features, configs: self.configs.clone() })
    }

    /// The same plugin with its configuration in this directory.
    pub(super) fn configured(&self, configs: &Path) -> Self {
        Self { plugin: self.plugin.clone(), features: self.features.clone(), configs: configs.to_owned() }
    }

    /// Compares the runs of a scenario with and without saved calls: one without a fault, and `faults` with one.
    pub(super) async fn compare_saving(&self, scenario: &Path, faults: usize) -> anyhow::Result<SavingComparison> {
        let scenario = scenario::read(scenario)?;
        windlass_check::compare_saving(self.subject(), scenario, 1, faults).await.context("it cannot be compared")
    }

    fn subject(&self) -> CheckSubject {
        CheckSubject { plugin: self.plugin.clone(), configs: self.configs.clone(), features: self.features.clone() }
    }

    /// Checks the plugin with a scenario of tests/scenarios.
    pub(super) async fn check(&self, trial: &Trial<'_>) -> anyhow::Result<Report> {
        let file = paths::root().join(format!("tests/scenarios/{}.yaml", trial.scenario));
        self.check_scenario(scenario::read(&file)?, trial).await
    }

    /// Checks the plugin with this scenario, and not with the one that the trial names.
    pub(super) async fn check_scenario(&self, scenario: Scenario, trial: &Trial<'_>) -> anyhow::Result<Report> {
        let Trial { classes, runs, seed, .. } = *trial;
        let subject = self.subject();
        let classes = classes.iter().map(|class| (*class).to_owned()).collect();
        let effort = Effort { seed, runs, classes, spent: &|| 0.0, progress: &mut |_, _| {} };
        windlass_check::check(subject, scenario, effort).await.context("it cannot be checked")
    }

    /// Repeats the run of a file.
    pub(super) async fn again(&self, file: &Value) -> anyhow::Result<RunAgain> {
        let subject = self.subject();
        let file = Reproduction::parse(&file.to_string())?;
        windlass_check::again(subject, file).await.context("the run cannot be repeated")
    }
}

/// The findings as text, each with its first detail and its faults.
pub(super) fn findings_of(report: &Report) -> Vec<String> {
    let findings = report.findings.iter().map(|finding| {
        let faults: Vec<&str> = finding.faults.iter().map(|fault| &*fault.name).collect();
        format!("{}: {:?}, by {faults:?}", finding.rule.name(), finding.details.first())
    });
    findings.collect()
}
