//! Tests scenario files: all parts that the schema allows are accepted, and mistakes are reported with their place.

use std::path::Path;

use serde_json::Value;
use windlass_check::scenario::{Step, read};
use windlass_check::{FAULT_CLASSES, RunRule};

/// Reads a scenario that has this text and lies beside a file `objects.yaml`.
fn written(text: &str) -> Result<windlass_check::scenario::Scenario, String> {
    let folder = tempfile::tempdir().expect("a directory");
    let objects = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n";
    std::fs::write(folder.path().join("objects.yaml"), objects).expect("it is written");
    let path = folder.path().join("scenario.yaml");
    std::fs::write(&path, text).expect("it is written");
    read(&path).map_err(|error| error.to_string())
}

const ALL: &str = "\
apiVersion: windlass.dev/v1alpha1
kind: Scenario
name: all
load: [objects.yaml, {apiVersion: v1, kind: Namespace, metadata: {name: c}}]
standIns: deployments,replicasets,pods
startTime: 2026-01-05T18:00:00Z
rules: {history: {off: the first message counts}, not-needed: {off: it may}}
faults: {clock: {off: it acts by the time of day}}
steps:
- apply: objects.yaml
- apply: {apiVersion: v1, kind: Secret, metadata: {name: d}}
- patch: {object: {apiVersion: v1, kind: Secret, name: d}, merge: {data: null}, subresource: status}
- delete: {apiVersion: v1, kind: Secret, namespace: c, name: d}
- advance: 1h30m
- wait: {count: {apiVersion: v1, kind: Pod, namespace: c, is: 3}}
expect:
- has: {object: {apiVersion: v1, kind: Secret, name: d}, values: {/data: null}}
- holds: {object: {apiVersion: v1, kind: Secret, name: d}, cel: self.metadata.name == 'd'}
- absent: {apiVersion: v1, kind: Secret, name: e}
";

#[test]
fn every_part_of_a_scenario_is_read_and_fits_the_schema() {
    let scenario = written(ALL).expect("it is right");
    assert_eq!((scenario.load.len(), scenario.steps.len(), scenario.expect.len()), (3, 7, 3));
    assert_eq!(scenario.steps[5], Step::Advance(std::time::Duration::from_mins(90)));
    assert_eq!(scenario.steps[4].to_string(), "delete Secret c/d");
    let schema: Value = serde_json::from_str(include_str!("../../../docs/schema/scenario.schema.json")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let document: Value = serde_saphyr::from_str(ALL).expect("YAML");
    assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).next().map(|it| it.to_string()));
    let off =
        (scenario.rules.keys().map(|rule| rule.name()).collect::<Vec<_>>(), scenario.faults["clock"].off.as_str());
    assert_eq!(off, (vec!["not-needed", "history"], "it acts by the time of day"));
    let all: Vec<&str> = RunRule::ALL.iter().map(|rule| rule.name()).collect();
    assert_eq!(schema["properties"]["rules"]["propertyNames"]["enum"], serde_json::json!(all[1..]), "all but steps");
    assert_eq!(schema["properties"]["faults"]["propertyNames"]["enum"], serde_json::json!(FAULT_CLASSES));
    for wrong in
        ["name: all", "history: {", "off: it may", "clock: {", "- advance: 1h30m", "is: 3", "/data: null", "cel: self"]
    {
        let document: Value =
            serde_saphyr::from_str(&ALL.replace(wrong, &wrong.replace(':', "s: a, x:"))).unwrap_or(Value::Null);
        assert!(!validator.is_valid(&document), "{wrong}");
    }
}

#[test]
fn the_scenarios_of_the_documentation_can_be_read() {
    let page = include_str!("../../../docs/checking.md");
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let names: Vec<_> = blocks
        .map(|block| {
            let block = block.replace("../crd.yaml", "objects.yaml").replace("../sample.yaml", "objects.yaml");
            written(&block).unwrap_or_else(|error| panic!("{error}\n{block}")).name
        })
        .collect();
    assert_eq!(names, ["hello", "nightly", "copies"]);
}

#[test]
fn mistakes_in_a_scenario_are_reported_with_their_place() {
    let cases = [
        ("kind: Scenario", "kind: Scene", "it is a Scene of windlass.dev/v1alpha1"),
        ("steps:", "stpes:", "unknown field"),
        ("- advance: 1h30m", "- advance: soon", "step 5: \"soon\" is not a duration"),
        ("/data: null", "data: null", "\"data\" is not a JSON pointer"),
        ("- apply: objects.yaml", "- apply: nothing.yaml", "nothing.yaml"),
        ("standIns: deployments", "standIns: deploymnets", "standIns: "),
        ("2026-01-05T18:00:00Z", "18:00", "startTime: \"18:00\" is not a time"),
        ("{history: {", "{histroy: {", "expected one of steps, expectation, converges"),
        ("{off: the first message counts}", "off", "give the reason to switch it off, as in {off: "),
        ("{off: it may}", "{}", "give the reason"),
        ("off: it may", "off: ''", "give the reason"),
        ("{history: {", "{steps: {", "rules.steps: it cannot be switched off"),
        ("{clock: {", "{clok: {", "faults.clok: there is no such class of faults, only crash, lost"),
        ("- absent: {apiVersion: v1", "- absent: {apiVersoin: v1", "line 19"),
        ("self.metadata.name ==", "self.metadata.name =", "ERROR: <input>:1:20"),
    ];
    for (right, wrong, said) in cases {
        let error = written(&ALL.replacen(right, wrong, 1)).expect_err(wrong);
        assert!(error.contains(said), "{wrong}: {error}");
    }
    let error = read(Path::new("nowhere.yaml")).expect_err("it is not there").to_string();
    assert!(error.contains("cannot read nowhere.yaml"), "{error}");
}
