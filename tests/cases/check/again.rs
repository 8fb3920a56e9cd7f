//! Tests repeated runs from files: runs with two faults at once, and files that no check has written.

use anyhow::ensure;
use serde_json::{Value, json};
use windlass_check::{Finding, Happening, RunAgain, scenario};
use windlass_tests::{marker, paths};

use super::simulated::{self, Trial};

/// The file of a run with these faults, for a scenario of tests/scenarios.
pub(super) fn file(scenario: &str, faults: &Value) -> anyhow::Result<Value> {
    let scenario = scenario::read(&paths::root().join(format!("tests/scenarios/{scenario}.yaml")))?;
    let head = json!({"apiVersion": "windlass.dev/v1alpha1", "kind": "CheckReproduction", "digest": "", "seed": 1});
    let mut file = head;
    (file["scenario"], file["faults"]) = (serde_json::to_value(scenario)?, faults.clone());
    Ok(file)
}

fn broken(again: &RunAgain) -> Vec<String> {
    let text = |it: &Finding| format!("{}: {:?}", it.rule.name(), it.details);
    again.findings.iter().map(text).collect()
}

#[test]
fn an_outage_that_a_deed_starts_ends_before_the_run_is_judged() -> anyhow::Result<()> {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"});
    let deed = json!({
        "name": "somebody deletes it", "class": "deleted-child", "allows": 1,
        "atRest": {"afterStep": 1, "object": deployment, "deed": "delete"},
    });
    // The scenario's steps make the first two patches of the Deployment. The third one creates it again.
    let when = json!({"verbs": ["patch"], "resources": ["deployments.apps"], "calls": {"after": 2}});
    let rule = json!({"name": "outage", "when": when, "then": [{"error": {"code": 500}}]});
    let outage = json!({"name": "each patch fails", "class": "outage", "rules": [rule], "lastsSeconds": 7200});
    let file = file("webapp", &json!([deed, outage]))?;
    simulated::with(&paths::plugins()?.join("webapp.wasm"), async |plugin| {
        let again = plugin.again(&file).await?;
        ensure!(again.missed.is_empty() && again.findings.is_empty(), "{:?} {:?}", again.missed, broken(&again));
        Ok(())
    })
}

/// The plugin makes a Job each minute. The fault strikes when the wait for a quiet world has just ended.
#[test]
fn a_call_that_fails_late_in_a_step_has_time_to_succeed() -> anyhow::Result<()> {
    let when = json!({"verbs": ["create"], "resources": ["jobs.batch"], "calls": {"nth": 10}});
    let rule = json!({"name": "lost", "when": when, "then": [{"drop": {"at": "beforeCommit"}}]});
    let file = file("operators/cron", &json!([{"name": "a create is lost", "class": "lost", "rules": [rule]}]))?;
    let folder = tempfile::tempdir()?;
    let plugin = folder.path().join("cron.wasm");
    marker::write("operators", (b"OPERATOR=", 15), "cron", &plugin)?;
    simulated::with(&plugin, async |plugin| {
        let again = plugin.again(&file).await?;
        ensure!(again.missed.is_empty() && again.findings.is_empty(), "{:?} {:?}", again.missed, broken(&again));
        Ok(())
    })
}

/// A scenario may expect that an object has no annotations. The edit of another client adds one.
#[test]
fn an_expectation_does_not_see_the_edit_of_a_fault() -> anyhow::Result<()> {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "shop"});
    let deed = json!({
        "name": "another client annotates it", "class": "annotated-child",
        "atRest": {"afterStep": 5, "object": deployment, "deed": "annotate"},
    });
    let mut file = file("webapp", &json!([deed]))?;
    let expectation = json!({"has": {"object": deployment, "values": {"/metadata/annotations": null}}});
    file["scenario"]["expect"] = json!([expectation]);
    simulated::with(&paths::plugins()?.join("webapp.wasm"), async |plugin| {
        let again = plugin.again(&file).await?;
        ensure!(again.missed.is_empty() && again.findings.is_empty(), "{:?} {:?}", again.missed, broken(&again));
        Ok(())
    })
}

#[test]
fn each_write_of_a_call_is_recorded_with_the_key_of_the_call() -> anyhow::Result<()> {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"});
    // The fault allows no extra write, but the plugin must create the object once more.
    let deed = json!({
        "name": "somebody deletes it", "class": "deleted-child",
        "atRest": {"afterStep": 1, "object": deployment, "deed": "delete"},
    });
    let file = file("webapp", &json!([deed]))?;
    simulated::with(&paths::plugins()?.join("webapp.wasm"), async |plugin| {
        let again = plugin.again(&file).await?;
        let story = again.findings.iter().flat_map(|finding| &finding.story);
        let writes = story.filter_map(|entry| match &entry.happened {
            Happening::Request(note) if note.line.verb == "patch" => Some(note.key.as_deref()),
            _ => None,
        });
        let keys: Vec<_> = writes.collect();
        ensure!(!keys.is_empty() && keys.iter().all(|key| *key == Some("default/shop")), "{keys:?}");
        Ok(())
    })
}

/// No check writes these faults, but a file may contain them. Each fault occurs in its run, and the run ends.
#[test]
fn faults_that_no_check_has_written_come_to_an_end() -> anyhow::Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "Service", "namespace": "default", "name": "shop"});
    let point = |write: u64| json!({"write": write, "side": "afterCommit"});
    let of_watches = |then: Value| json!({"rules": [{"name": "", "when": {"verbs": ["watch"]}, "then": [then]}]});
    // Each file, and the number of its two faults that do not occur.
    let faults = [
        (2, json!({"crash": point(0), "swap": point(u64::MAX), "allows": usize::MAX})),
        (0, json!({"crash": point(1), "failover": {"at": point(1), "late": "no such thing"}, "allows": usize::MAX})),
        (2, json!({"atRest": {"afterStep": usize::MAX, "object": object, "deed": "delete"}, "lastsSeconds": 0})),
        (0, json!({"clock": {"afterStep": 0, "by": "-8784h"}})),
        (2, of_watches(json!({"hide": {"after": usize::MAX, "events": usize::MAX}}))),
        // The second fault finds no request that it could hold.
        (1, of_watches(json!({"hold": {"for": "8784h"}}))),
        (0, of_watches(json!({"older": {"resourceVersion": u64::MAX}}))),
        (0, of_watches(json!({"jump": "-99999999h"}))),
    ];
    simulated::with(&paths::plugins()?.join("webapp.wasm"), async |plugin| {
        for (missed, mut fault) in faults {
            (fault["name"], fault["class"]) = ("a stranger's".into(), "none".into());
            let again = plugin.again(&file("webapp", &json!([fault, fault]))?).await?;
            ensure!(again.missed.len() == missed, "{fault}: {:?} {:?}", again.missed, broken(&again));
        }
        Ok(())
    })
}

/// The host reads the Secrets of a configuration every few minutes.
#[test]
fn a_step_that_changes_a_secret_of_the_configuration_waits_for_the_host() -> anyhow::Result<()> {
    let folder = paths::root().join("plugins/imagepullsecret-patcher");
    let mut scenario = scenario::read(&folder.join("scenarios/rotation.yaml"))?;
    // Without the time that passes later, the expectation holds only if the host has read the Secret after the first
    // step.
    scenario.steps.truncate(1);
    let trial = Trial { scenario: "", classes: &[], runs: 1, seed: 7 };
    simulated::with(&paths::dropin("imagepullsecret-patcher")?, async |plugin| {
        let report = plugin.configured(&folder).check_scenario(scenario, &trial).await?;
        ensure!(report.findings.is_empty(), "{:?}", simulated::findings_of(&report));
        Ok(())
    })
}

/// The drop-in looks at a Secret every ten minutes, and no watch shows its deletion.
#[test]
fn a_pull_secret_that_is_deleted_just_before_its_patch_is_there_again() -> anyhow::Result<()> {
    let folder = paths::root().join("plugins/imagepullsecret-patcher");
    let scenario = scenario::read(&folder.join("scenarios/rotation.yaml"))?;
    let trial = Trial { scenario: "", classes: &["foreign-delete"], runs: 12, seed: 13 };
    simulated::with(&paths::dropin("imagepullsecret-patcher")?, async |plugin| {
        let report = plugin.configured(&folder).check_scenario(scenario, &trial).await?;
        ensure!(report.findings.is_empty(), "{:?}", simulated::findings_of(&report));
        Ok(())
    })
}
