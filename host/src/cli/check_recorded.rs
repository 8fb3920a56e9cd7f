//! `--from-recording` of `windlass check`: its scenarios start from what production has shown.

use std::path::Path;

use anyhow::{anyhow, bail};
use serde_json::Value;
use windlass_check::scenario::{self, RecordedScenario};
use windlass_check::{Report, Rule};
use windlass_record::{RecordedCall, Recording};

/// Makes the scenarios, and says on standard error what they are of. `load` are the definitions, and what else is to be there.
pub(super) fn scenarios(path: &Path, plugin: &str, load: &[Value]) -> anyhow::Result<Vec<RecordedScenario>> {
    let mut calls: Vec<RecordedCall> = Vec::new();
    for Recording { path, calls: read, torn, .. } in windlass_record::read(path)? {
        if let Some(torn) = torn {
            eprintln!("windlass: {}: read up to call {}: {torn}", path.display(), read.len());
        }
        calls.extend(read);
    }
    if calls.is_empty() {
        bail!("{} has no call", path.display());
    }
    // Several hosts may have recorded at the same time.
    calls.sort_by(|a, b| a.began.cmp(&b.began));
    let made = scenario::from_recorded(plugin, load, &calls)?;
    let (count, objects) = (made.scenarios.len(), made.objects);
    eprintln!("windlass: {count} of {objects} recorded objects become scenarios");
    for RecordedScenario { scenario, redacted } in &made.scenarios {
        if !redacted.is_empty() {
            let places = redacted.join(", ");
            eprintln!("windlass: {}: markers stand for what the recording does not tell: {places}", scenario.name);
        }
    }
    Ok(made.scenarios)
}

/// Whether the scenario can be done at all. If not, and the recording does not tell some values, those are named: a marker may be
/// what is refused.
pub(super) fn usable(report: &Report, redacted: &[String]) -> anyhow::Result<()> {
    match report.findings.iter().find(|finding| finding.rule == Rule::Steps && finding.faults.is_empty()) {
        Some(finding) if !redacted.is_empty() => Err(refused(&finding.details.join("; "), redacted)),
        _ => Ok(()),
    }
}

/// Why a scenario of a recording cannot be used.
pub(super) fn refused(why: &str, redacted: &[String]) -> anyhow::Error {
    let advice = "record without redacting what the schema checks, or write a scenario with other values";
    let places = redacted.join(", ");
    anyhow!("{why}; markers stand for what the recording does not tell: {places}; if they are why, {advice}")
}
