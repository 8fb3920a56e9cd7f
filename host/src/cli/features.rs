//! `windlass features`: lists the feature gates, and shows what `--feature-gates` would enable.

use std::fmt::Write as _;

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use windlass_core::features::{FeatureState, Features, Wishes};

use super::OutputFormat;

/// The flag that enables features, for every command that has it.
#[derive(Debug, Args)]
pub(crate) struct FeatureGateArgs {
    /// Switch features on or off, as NAME=true,NAME=false; repeatable. `windlass features` lists them.
    ///
    /// `AllAlpha` and `AllBeta` stand for all features of that stage that you do not name.
    #[arg(long, value_name = "GATES", env = "WINDLASS_FEATURE_GATES")]
    feature_gates: Vec<Wishes>,
}

impl FeatureGateArgs {
    /// The features that the flags enable.
    pub(crate) fn features(self) -> Features {
        Features::new(self.feature_gates)
    }
}

/// Arguments of `windlass features`.
#[derive(Debug, Args)]
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
        let text = match self.output {
            OutputFormat::Text => table(&features),
            OutputFormat::Json => format!("{:#}\n", features.states().iter().map(document).collect::<Value>()),
        };
        super::print(&text).context("cannot write to standard output")
    }
}

/// One line for each gate, with the long text last.
fn table(features: &Features) -> String {
    let widest = features.states().iter().map(|state| state.gate.name.len()).max().unwrap_or_default();
    let mut text = format!("{:widest$}  STAGE       SINCE  DEFAULT  ENABLED  DESCRIPTION\n", "NAME");
    for FeatureState { gate, enabled, .. } in features.states() {
        let (stage, since) = (gate.stage.as_str(), gate.since);
        let locked = gate.locked.map(|why| format!("Locked: {why}. ")).unwrap_or_default();
        let (default, description) = (gate.default, gate.description);
        // Writing into a text cannot fail.
        let _ = writeln!(
            text,
            "{:widest$}  {stage:10}  {since:5}  {default:<7}  {enabled:<7}  {locked}{description}",
            gate.name
        );
    }
    text
}

fn document(FeatureState { gate, enabled, .. }: &FeatureState) -> Value {
    json!({
        "name": gate.name, "stage": gate.stage.as_str(), "since": gate.since, "default": gate.default, "enabled": enabled,
        "locked": gate.locked, "description": gate.description,
    })
}
