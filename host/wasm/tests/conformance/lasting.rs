//! Instances that serve many calls: which state they keep, that they do not grow, and that each call behaves like the
//! first.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::life::instances::Instances;
use windlass_wasm::{Plugin, Sandbox};

use crate::call::Call;
use crate::case::{Case, cases};
use crate::languages::{Language, Part, limits, sandbox, selected};
use crate::ports::in_order;
use crate::verdict::{Findings, same};

/// How many calls an instance serves in the soak test. If not set, there is no soak test and an instance serves fewer
/// calls.
fn soak() -> Option<u64> {
    let asked = std::env::var("WINDLASS_CONFORMANCE_CALLS").ok();
    asked.map(|calls| calls.parse().expect("WINDLASS_CONFORMANCE_CALLS is a number"))
}

const LASTING_CALLS: u64 = 2_000;

/// How much an instance may grow after it has warmed up.
const INSTANCE_GROWTH_MAX: usize = 1 << 19;

fn for_each(case: &str, check: impl Fn(&Language) -> Result<(), String>) {
    let mut findings = Findings::default();
    for language in selected(Part::Reconciler) {
        findings.add(&language, case, check(&language));
    }
    findings.end();
}

fn counted(plugin: &Arc<Plugin>, instances: Instances) -> Value {
    let call = Call { instances, ..Call::with_steps(&json!([{"call": "state"}])) };
    call.make(plugin, in_order(&[])).first()
}

#[test]
fn an_instance_keeps_its_state_only_if_it_is_reused() {
    for_each("state", |language| {
        let sandbox = sandbox(limits());
        let plugin = language.plugin_in(&sandbox)?;
        let fresh: Vec<_> = (0..3).map(|_| counted(&plugin, Instances::Fresh)).collect();
        same(&json!([1, 1, 1]), &json!(fresh)).map_err(|differs| format!("in fresh instances: {differs}"))?;
        let again: Vec<_> = (0..3).map(|_| counted(&plugin, Instances::Reuse)).collect();
        same(&json!([1, 2, 3].map(|served| language.counts(served))), &json!(again))
            .map_err(|differs| format!("in one instance: {differs}"))
    });
}

/// Steps of all kinds. Without the soak test, only steps that pass memory in different ways.
fn busy_steps() -> (Value, Vec<Value>) {
    let target = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "prod", "name": "a"});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"a": "b"}}, "data": {"k": "v".repeat(50)}});
    let mut steps = json!([
        {"call": "state"},
        {"call": "cache.get", "target": target},
        {"call": "cache.list", "query": {"kind": {"apiVersion": "v1", "kind": "ConfigMap"}, "labelSelector": "a=b"}},
        {"call": "cache.get", "target": target},
        {"call": "writes.apply", "object": object, "options": {"owned": true, "force": true}},
        {"call": "log.log", "level": "info", "message": "applied", "fields": [["name", "a"]]},
        {"call": "random.bytes", "length": 16},
        {"call": "http.fetch", "request": {"method": "POST", "url": "https://api.example.com/", "headers": [["a", "b"]], "body": {"text": "hello"}}},
        {"call": "echo", "value": {"list": [1, 2.5, "x", null, {"a": {}}]}},
    ]);
    let others = json!([
        {"call": "writes.batch", "operations": [{"op": "apply", "object": object}]},
        {"call": "events.emit", "event": {"eventType": "normal", "reason": "Applied", "action": "Apply", "note": "a ConfigMap"}},
        {"call": "logger", "level": "info", "message": "applied", "fields": [["name", "a"]]},
        {"call": "metrics.add", "name": "counted_total", "value": 1, "labels": [["color", "red"]]},
        {"call": "config.get"}, {"call": "clock.now"}, {"call": "language.now"}, {"call": "language.random"},
        {"call": "owners.claim", "kind": {"apiVersion": "v1", "kind": "Pod"}, "labelSelector": "a=b"},
    ]);
    if let (Some(steps), Some(others), Some(_)) = (steps.as_array_mut(), others.as_array(), soak()) {
        steps.extend(others.iter().cloned());
    }
    let error = json!({"code": 404, "reason": "not-found", "statusReason": "NotFound", "message": "not there", "verb": "get", "resource": "configmaps"});
    (steps, vec![json!({"ok": object}), json!({"ok": {"items": vec![object.clone(); 3]}}), json!({"error": error})])
}

/// Bytes and empty values in both directions. A language's bindings may own the memory of these in another way than the
/// memory of ordinary texts.
fn steps_of_bytes_and_nothing() -> (Value, Vec<Value>) {
    let (headers, body) = (json!(vec![["a", ""]; 300]), json!({"bytes": vec![200; 4_000]}));
    let url = "https://api.example.com/";
    let steps = json!([
        {"call": "state"},
        {"call": "http.fetch", "request": {"method": "POST", "url": url, "headers": headers, "body": body}},
        {"call": "http.fetch", "request": {"method": "POST", "url": url, "headers": [], "body": {"bytes": []}}},
        {"call": "log.log", "level": "info", "message": "", "fields": []},
    ]);
    let answers = vec![
        json!({"ok": {"status": 200, "headers": headers, "body": body}}),
        json!({"ok": {"status": 200, "headers": [], "body": {"bytes": []}}}),
    ];
    (steps, answers)
}

/// Makes `count` calls in one instance, and returns the size of its memory afterwards.
fn serve(
    language: &Language,
    sandbox: &Sandbox,
    plugin: &Arc<Plugin>,
    (steps, answers): &(Value, Vec<Value>),
    count: u64,
    served: &mut u64,
) -> Result<usize, String> {
    let call = Call::with_steps(steps).again();
    for _ in 0..count {
        let seen = call.make(plugin, in_order(answers));
        *served += 1;
        let expected = json!({"done": true});
        same(&expected, &seen.ended).map_err(|differs| format!("call {served}: {differs}"))?;
        same(&json!(language.counts(*served)), &seen.first())
            .map_err(|differs| format!("call {served} was in another instance: {differs}"))?;
    }
    Ok(sandbox.stats().reserved_memory)
}

/// Makes `all` calls in one instance, and checks that it grows by at most [`INSTANCE_GROWTH_MAX`] after it has warmed
/// up.
fn does_not_grow(language: &Language, calls: &(Value, Vec<Value>), all: u64) -> Result<(), String> {
    let sandbox = sandbox(limits());
    let plugin = language.plugin_in(&sandbox)?;
    let mut served = 0;
    // The heap of the probe in Go has its final size only after up to 800 calls.
    let warm = serve(language, &sandbox, &plugin, calls, all / 2, &mut served)?;
    let end = serve(language, &sandbox, &plugin, calls, all - all / 2, &mut served)?;
    println!("figures: {language}: {served} calls in one instance, {warm} bytes after half of them, {end} at the end");
    if end > warm + INSTANCE_GROWTH_MAX {
        return Err(format!("the instance had {warm} bytes after {} calls, and {end} after {all}", all / 2));
    }
    Ok(())
}

#[test]
fn an_instance_does_not_grow_with_its_calls() {
    for_each("many calls in one instance", |language| {
        does_not_grow(language, &busy_steps(), soak().unwrap_or(LASTING_CALLS))
    });
}

/// 200 leaked copies of one of these values are more than an instance may grow.
const CALLS_OF_BYTES: u64 = 200;

#[test]
fn an_instance_leaks_neither_bytes_nor_empty_values() {
    for_each("bytes and nothing", |language| does_not_grow(language, &steps_of_bytes_and_nothing(), CALLS_OF_BYTES));
}

fn every_case() -> Vec<Case> {
    let files = [
        include_str!("../../../../tests/conformance/cases/reads.json"),
        include_str!("../../../../tests/conformance/cases/writes.json"),
        include_str!("../../../../tests/conformance/cases/outside.json"),
        include_str!("../../../../tests/conformance/cases/language.json"),
        include_str!("../../../../tests/conformance/cases/endings.json"),
    ];
    files.into_iter().flat_map(cases).filter(|case| !case.keeps).collect()
}

/// The case with a step that counts the instance's calls before its own steps.
fn counting(case: &Case) -> Call {
    let mut steps = vec![json!({"call": "state"})];
    steps.extend(case.steps.as_array().into_iter().flatten().cloned());
    Case { steps: steps.into(), ..case.clone() }.call()
}

/// Makes the call, and returns its count separately from the rest of its outcome.
fn count_and_rest(case: &Case, call: &Call, plugin: &Arc<Plugin>, instances: Instances) -> (Value, Value) {
    let mut seen = Call { instances, ..call.clone() }.make(plugin, in_order(&case.answers));
    let results = seen.report.as_mut().and_then(|report| report["object"]["results"].as_array_mut());
    let count = results.map_or(Value::Null, |results| results.remove(0)["ok"].take());
    (count, seen.all())
}

/// Makes each case's call in a new instance, and all of them in one reused instance. A call that fails reports no
/// count, but its instance has counted it: the next call shows whether it was in the same instance.
fn compare_cases(language: &Language, findings: &mut Findings) -> Result<(), String> {
    // A call in a new instance would replace a used one between two calls, so each kind has a sandbox of its own.
    let (fresh_plugin, sandbox) = (language.plugin()?, sandbox(limits()));
    let plugin = language.plugin_in(&sandbox)?;
    let (mut served, mut config) = (0_u64, None);
    for case in every_case() {
        if config.replace(case.config.clone()).is_some_and(|before| before != case.config) {
            // An instance serves calls with only one configuration, so another instance begins here.
            served = 0;
        }
        let call = counting(&case);
        let (_, fresh) = count_and_rest(&case, &call, &fresh_plugin, Instances::Fresh);
        let (count, used) = count_and_rest(&case, &call, &plugin, Instances::Reuse);
        served += u64::from(call.object.is_some());
        let is_reused = match count.as_u64() {
            Some(count) if count != language.counts(served) => {
                Err(format!("call {served} of an instance was the one with the count {count}"))
            }
            _ => Ok(()),
        };
        served = count.as_u64().filter(|count| *count != language.counts(served)).unwrap_or(served);
        let may_differ = case.calls().any(|call| language.draws_otherwise_when_used(call));
        let compared = if may_differ { Ok(()) } else { same(&fresh, &used) };
        findings.add(language, &case.name, compared.and(is_reused));
    }
    same(&json!(language.counts(served + 1)), &counted(&plugin, Instances::Reuse))
        .map_err(|differs| format!("after the last case it was another instance: {differs}"))
}

#[test]
fn a_call_in_a_used_instance_is_as_in_a_fresh_one() {
    let mut findings = Findings::default();
    for language in selected(Part::Reconciler) {
        let found = compare_cases(&language, &mut findings);
        findings.add(&language, "every case", found);
    }
    findings.end();
}

#[test]
fn random_values_depend_only_on_the_hosts_seed() {
    for_each("language.random", |language| {
        let plugin = language.plugin()?;
        let drawn = |seed| {
            let steps = json!([{"call": "language.random"}, {"call": "random.bytes", "length": 32}]);
            Call { seed, ..Call::with_steps(&steps) }.make(&plugin, in_order(&[])).results()
        };
        let (one, other) = (drawn(1), drawn(2));
        if one[0] == other[0] || one[1] == other[1] {
            return Err(format!("another seed of the host gives the same random data: {one}"));
        }
        same(&one, &drawn(1))
    });
}
