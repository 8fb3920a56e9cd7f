//! Tests that a check finds failures of a plugin's `map` and `matches`. The host makes up for each of these failures,
//! so the end state does not show them.

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use windlass_check::{Finding, RunRule, scenario};
use windlass_tests::chameleon;

use super::simulated::{self, Trial, findings_of};

/// A mode of the chameleon, a change of the `ConfigMap` `odd` about which its code fails, the broken rules, and a part
/// of the reason. Without a reason, the code does not fail.
type Case = (&'static str, Value, &'static [RunRule], &'static str);

/// The object of the changes about which the code is asked.
fn map(name: &str, labels: &Value, data: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": "default", "labels": labels});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

/// A scenario of three steps. Only the last one applies the object `odd`.
fn scenario_with(odd: &Value) -> anyhow::Result<scenario::Scenario> {
    let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80}]});
    let metadata = json!({"name": "web", "namespace": "default", "labels": {"chameleon": "true"}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
    let plain = map("plain", &json!({"chameleon": "true", "counts": "yes"}), &json!({}));
    let steps = [&service, &plain, odd].map(|object| json!({"apply": object}));
    let scenario = json!({"name": "asked", "load": [], "standIns": "default", "steps": steps, "expect": []});
    Ok(serde_json::from_value(scenario)?)
}

/// Checks the chameleon in this mode, with at most this many runs. Returns the findings.
fn findings(mode: &str, odd: &Value, runs: usize) -> anyhow::Result<Vec<Finding>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("chameleon.wasm");
    chameleon::write(mode, &file)?;
    simulated::with(&file, async |plugin| {
        // The plugin makes no children, so there is no fault of this class, and all further runs are for shortening.
        let trial = Trial { scenario: "", classes: &["deleted-child"], runs, seed: 1 };
        let report = plugin.check_scenario(scenario_with(odd)?, &trial).await?;
        println!("figures: {mode}: {} runs, {:?}", report.runs, findings_of(&report));
        ensure!(report.incomplete.is_none(), "{:?}", report.incomplete);
        Ok(report.findings)
    })
}

/// Checks that exactly these rules are broken, by the call about `odd` in its step.
fn ensure_found(findings: &[Finding], rules: &[RunRule], about: &str, reason: &str) -> anyhow::Result<()> {
    let broken: Vec<_> = findings.iter().map(|finding| finding.rule).collect();
    ensure!(broken == rules, "{broken:?} and not {rules:?} for {about}: {findings:#?}");
    for Finding { rule, step, details, .. } in findings {
        let [detail] = &details[..] else { anyhow::bail!("{rule:?}: not one detail: {details:?}") };
        ensure!(detail.starts_with(&format!("{about}: ")) && detail.contains(reason), "{rule:?}: {detail}");
        ensure!(step.is_some(), "{rule:?} names no step");
    }
    Ok(())
}

const OF_MAPPER: &str = "map of the watch maps about ConfigMap default/odd";
const OF_PREDICATE: &str = "matches of the watch judged about ConfigMap default/odd";

#[test]
fn a_failure_of_a_mapper_or_a_predicate_is_found_with_its_object() -> anyhow::Result<()> {
    let misbehaving = |how: &str| map("odd", &json!({}), &json!({"misbehave": how}));
    let judged = |counts: &str| map("odd", &json!({"chameleon": "true", "counts": counts}), &json!({}));
    // A trap and a limit break `traps`. They also break `fails`, because no later call about the object succeeds. An
    // error that the plugin returns, and an answer that the host refuses, break only `fails`.
    let traps: &[RunRule] = &[RunRule::Traps, RunRule::Fails];
    let fails: &[RunRule] = &[RunRule::Fails];
    let cases: [Case; 8] = [
        ("mapping", misbehaving("trap"), traps, "reason: \"trap\""),
        ("mapping", misbehaving("loop"), traps, "reason: \"cpu\""),
        ("mapping", misbehaving("fail"), fails, "chameleon: the mapper was told to fail"),
        ("mapping", misbehaving("index"), fails, "the index `by-nothing`"),
        ("mapping", misbehaving("nothing"), &[], ""),
        ("judging-1", judged("trap"), traps, "reason: \"trap\""),
        ("judging-1", judged("fail"), fails, "chameleon: the predicate was told to fail"),
        ("judging-1", judged("yes"), &[], ""),
    ];
    for (mode, odd, rules, reason) in cases {
        let about = if mode == "mapping" { OF_MAPPER } else { OF_PREDICATE };
        ensure_found(&findings(mode, &odd, 1)?, rules, about, reason)?;
    }
    Ok(())
}

#[test]
fn the_scenario_of_a_mapper_that_traps_is_shortened_to_the_change() -> anyhow::Result<()> {
    let odd = map("odd", &json!({}), &json!({"misbehave": "trap"}));
    let found = findings("mapping", &odd, 40)?;
    ensure_found(&found, &[RunRule::Traps, RunRule::Fails], OF_MAPPER, "reason: \"trap\"")?;
    for finding in found {
        let steps = finding.steps.context("it is not shortened")?;
        let [step] = &steps[..] else { anyhow::bail!("{:?}: more than one step: {steps:#?}", finding.rule) };
        ensure!(step.to_string() == "apply ConfigMap default/odd", "{step}");
    }
    Ok(())
}
