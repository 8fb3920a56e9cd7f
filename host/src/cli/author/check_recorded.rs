//! `--from-recording` of `windlass check`: makes scenarios from recorded objects.

use std::path::Path;

use anyhow::{anyhow, bail};
use serde_json::Value;
use windlass_check::scenario::{self, RecordedHistories, RecordedScenario};
use windlass_check::{Report, RunRule};
use windlass_record::TornRecording;

/// Creates the scenarios, and describes their sources on standard error. `load` has the definitions, and other objects
/// that must exist.
pub(crate) fn scenarios(path: &Path, plugin: &str, load: &[Value]) -> anyhow::Result<Vec<RecordedScenario>> {
    let mut recorded = RecordedHistories::of(plugin);
    for TornRecording { path, calls, torn } in windlass_record::visit(path, |call| recorded.take(&call))? {
        eprintln!("windlass: {}: read up to call {calls}: {torn}", path.display());
    }
    if recorded.is_empty() {
        bail!("{} has no recorded call", path.display());
    }
    let made = scenario::from_recorded(recorded, load)?;
    let (count, objects) = (made.scenarios.len(), made.objects);
    eprintln!("windlass: {count} of {objects} recorded objects become scenarios");
    if made.left_out > 0 {
        let left_out = made.left_out;
        eprintln!("windlass: {left_out} later calls are left out, because the earlier ones fill the limit of 64 MiB");
    }
    for RecordedScenario { scenario, redacted } in &made.scenarios {
        if !redacted.is_empty() {
            let places = redacted.join(", ");
            eprintln!("windlass: {}: markers replace the redacted values {places}", scenario.name);
        }
    }
    Ok(made.scenarios)
}

/// Fails if a scenario from a recording cannot run at all. This is not a finding, because the same steps were possible
/// in production.
pub(crate) fn usable(report: &Report, redacted: &[String]) -> anyhow::Result<()> {
    match report.findings.iter().find(|finding| finding.rule == RunRule::Steps && finding.faults.is_empty()) {
        Some(finding) => Err(refused(&finding.details.join("; "), redacted)),
        None => Ok(()),
    }
}

/// The error for a scenario that cannot be used. It names the redacted values, because their markers may be the reason.
pub(crate) fn refused(why: &str, redacted: &[String]) -> anyhow::Error {
    if redacted.is_empty() {
        return anyhow!("the recorded steps cannot be repeated: {why}");
    }
    let advice = "record without redacting values that the schema checks, or write a scenario with other values";
    let places = redacted.join(", ");
    anyhow!(
        "the recorded steps cannot be repeated: {why}; markers replace the redacted values {places}; if they are the reason, \
         {advice}"
    )
}
