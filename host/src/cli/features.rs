//! `windlass features`: lists the feature gates, and shows what `--feature-gates` would enable.

use std::fmt::Write as _;

use anyhow::Context;
use clap::Args;
use clap::error::ErrorKind;
use serde_json::{Value, json};
use windlass_core::life::features::{FeatureSpec, FeatureState, Features, Wishes};

use super::OutputFormat;

/// The flag that enables features, for every command that has it.
#[derive(Clone, Debug, Args)]
pub(crate) struct FeatureGateArgs {
    /// Switch features on or off, as NAME=true,NAME=false; repeatable. `windlass features` lists them.
    ///
    /// `AllAlpha` and `AllBeta` stand for all features of that stage that you do not name.
    #[arg(long, value_name = "NAME=BOOL", env = "WINDLASS_FEATURE_GATES")]
    feature_gates: Vec<Wishes>,
}

impl FeatureGateArgs {
    /// The features that the flags enable.
    pub(crate) fn features(self) -> Features {
        let features = Features::new(self.feature_gates);
        features.unwrap_or_else(|error| clap::Error::raw(ErrorKind::ArgumentConflict, format!("{error}\n")).exit())
    }
}

/// List the feature gates, the stage of each, and whether it is enabled.
///
/// With --feature-gates or `WINDLASS_FEATURE_GATES`, shows what they would enable, and refuses what `run` would refuse.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass features\n  windlass features --feature-gates=AllAlpha=true -o json")]
pub(super) struct FeaturesArgs {
    #[command(flatten)]
    gates: FeatureGateArgs,
    /// The output format.
    #[arg(long, short, value_enum, default_value = "text")]
    output: OutputFormat,
}

impl FeaturesArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let features = self.gates.features();
        for warning in features.states().iter().filter_map(FeatureState::warning) {
            eprintln!("windlass: {warning}");
        }
        match self.output {
            OutputFormat::Text => super::print(&table(&features)),
            OutputFormat::Json => super::print_json(&features.states().iter().map(document).collect()),
        }
        .context("cannot write to standard output")
    }
}

/// One line for each gate, with the long text last.
fn table(features: &Features) -> String {
    let widest = features.states().iter().map(|state| state.gate.name.len()).max().unwrap_or_default();
    let mut text = format!("{:widest$}  STAGE       SINCE  DEFAULT  ENABLED  DESCRIPTION\n", "NAME");
    for FeatureState { gate, enabled, .. } in features.states() {
        let FeatureSpec { stage, default, locked, .. } = gate.spec();
        let (stage, since) = (stage.as_str(), version(gate.spec()));
        let mut notes = locked.map(|why| format!("Locked: {why}. ")).unwrap_or_default();
        if !gate.needs.is_empty() {
            let _ = write!(notes, "Needs {}. ", gate.needs.join(", "));
        }
        let description = gate.description;
        // Writing into a text cannot fail.
        let _ = writeln!(
            text,
            "{:widest$}  {stage:10}  {since:5}  {default:<7}  {enabled:<7}  {notes}{description}",
            gate.name
        );
    }
    text
}

fn document(FeatureState { gate, enabled, .. }: &FeatureState) -> Value {
    let now = gate.spec();
    let history = gate.history.iter().map(|spec| {
        json!({"since": version(spec), "stage": spec.stage.as_str(), "default": spec.default, "locked": spec.locked})
    });
    json!({
        "name": gate.name, "stage": now.stage.as_str(), "since": version(now), "default": now.default,
        "enabled": enabled, "locked": now.locked, "needs": gate.needs, "history": history.collect::<Value>(),
        "description": gate.description,
    })
}

fn version(spec: &FeatureSpec) -> String {
    format!("{}.{}", spec.since.0, spec.since.1)
}
