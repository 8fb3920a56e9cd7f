//! The optional exports of the probes: which primaries a change concerns, and which objects are related to a parent.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::cache::mapping::Target;
use windlass_core::cache::related::RelatedRule;
use windlass_core::call::ports::{CallContext, ListPage, ListQuery, Reads};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::ObjectRef;
use windlass_wasm::{ChangeBatch, ObjectChange, Plugin};

use crate::call::Call;
use crate::languages::{Language, Part, RUNTIME, selected};
use crate::verdict::{Findings, same, shown};
use crate::{composing, lines, wire};

/// The specifications of a changed object before and after the change. Either may be missing.
type States = (Option<Value>, Option<Value>);

fn object(spec: &Value) -> Arc<str> {
    let metadata = json!({"name": "größer", "namespace": "prod", "uid": "e-1"});
    json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "spec": spec}).to_string().into()
}

/// A cache with the object `prod/naming`, in which `prod/broken` cannot be read.
struct Cached;

impl Reads for Cached {
    fn get(&self, _: &CallContext, target: &ObjectRef, _: Option<&[String]>) -> Result<Option<Arc<str>>, ApiError> {
        match target.key.to_string().as_str() {
            "prod/naming" => {
                let metadata = json!({"name": "naming", "namespace": "prod"});
                let naming = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"primary": "größer"}});
                Ok(Some(naming.to_string().into()))
            }
            "prod/broken" => {
                Err(ApiError::refused(ApiReason::NotGranted, "get", "", None, "no rule grants it: größer"))
            }
            _ => Ok(None),
        }
    }

    fn list(&self, _: &CallContext, _: &ListQuery) -> Result<ListPage, ApiError> {
        Ok(ListPage { items: vec![], next_token: None })
    }
}

fn batch(plugin: &Plugin, changes: &[States]) -> ChangeBatch {
    let change = |(old, new): &States| ObjectChange { old: old.as_ref().map(object), new: new.as_ref().map(object) };
    ChangeBatch {
        controller: plugin.manifest().controllers[0].name.as_str().into(),
        watch: "mapped".into(),
        changes: changes.iter().map(change).collect(),
    }
}

fn matched(plugin: &Arc<Plugin>, call: &Call, changes: &[States]) -> (Result<Vec<bool>, String>, Vec<Value>) {
    lines::listen();
    let batch = batch(plugin, changes);
    let matched = RUNTIME.block_on(plugin.matches(batch, Arc::new(Cached), call.context(plugin), call.limits()));
    (matched.answer.map_err(|failed| failed.failure()), lines::take(&call.trace_id))
}

fn mapped(plugin: &Arc<Plugin>, call: &Call, changes: &[States]) -> (Result<Value, String>, Vec<Value>) {
    lines::listen();
    let batch = batch(plugin, changes);
    let mapped = RUNTIME.block_on(plugin.map(batch, Arc::new(Cached), call.context(plugin), call.limits()));
    (
        mapped
            .answer
            .map_err(|failed| failed.failure())
            .map(|answer| answer.iter().map(|targets| targets.iter().map(target).collect::<Value>()).collect()),
        lines::take(&call.trace_id),
    )
}

fn target(target: &Target) -> Value {
    match target {
        Target::Primary(key) => json!({"namespace": key.namespace.as_deref(), "name": &*key.name}),
        Target::Indexed { index, value } => json!({"index": &**index, "value": value}),
    }
}

fn customized(plugin: &Arc<Plugin>, call: &Call) -> Result<Value, Value> {
    let customized = RUNTIME.block_on(plugin.customize(call.request(plugin), call.context(plugin), call.limits()));
    customized.answer.map(|rules| rules.iter().map(rule).collect()).map_err(|ended| wire::ended(&ended))
}

fn rule(rule: &RelatedRule) -> Value {
    let labels =
        [("app", "web"), ("tier", "front")].map(|(key, value)| (key.into(), value.into())).into_iter().collect();
    json!({
        "watch": &*rule.watch, "namespace": rule.namespace.as_deref(),
        "names": rule.names.iter().map(|name| &**name).collect::<Vec<_>>(),
        "selects": rule.labels.matches(&labels), "selectsAll": rule.labels == windlass_core::object::selector::Selector::default(),
    })
}

fn parent(spec: &Value) -> Call {
    Call::about(composing::parent(spec).to_string())
}

fn for_each(part: Part, case: &str, check: impl Fn(&Arc<Plugin>) -> Result<(), String>) {
    let mut findings = Findings::default();
    for language in selected(part) {
        findings.add(&language, case, Language::plugin(&language).and_then(|plugin| check(&plugin)));
    }
    findings.end();
}

#[test]
fn each_change_has_the_targets_that_its_states_name() {
    let spec = |targets: Value| json!({"targets": targets});
    let changes = [
        (None, Some(spec(json!([{"namespace": "prod", "name": "a"}, {"name": "b"}])))),
        (Some(spec(json!([{"index": "by-selector", "value": "app=web,tier=größer"}]))), None),
        (Some(spec(json!([{"name": "old"}]))), Some(json!({"targets": [{"name": "new"}], "tellWatch": true}))),
        (None, Some(json!({}))),
    ];
    let expected = json!([
        [{"namespace": "prod", "name": "a"}, {"namespace": null, "name": "b"}],
        [{"index": "by-selector", "value": "app=web,tier=größer"}],
        [{"namespace": null, "name": "old"}, {"namespace": null, "name": "new"}, {"index": "watch", "value": "mapped"}],
        [],
    ]);
    for_each(Part::Reconciler, "map", |plugin| {
        for call in [Call::about(""), Call::about("").again()] {
            let (answer, _) = mapped(plugin, &call, &changes);
            same(&expected, &answer.map_err(|error| format!("the call failed: {error}"))?)?;
        }
        Ok(())
    });
}

#[test]
fn a_mapper_reads_the_cache() {
    let reading = |name: &str| {
        let target = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "prod", "name": name});
        (None, Some(json!({"target": target})))
    };
    for_each(Part::Reconciler, "map that reads", |plugin| {
        let (answer, _) = mapped(plugin, &Call::about(""), &[reading("naming"), reading("missing")]);
        let expected = json!([[{"namespace": "prod", "name": "größer"}], []]);
        same(&expected, &answer.map_err(|error| format!("the call failed: {error}"))?)?;
        match mapped(plugin, &Call::about(""), &[reading("broken")]) {
            (Err(error), logged) if format!("{error} {}", json!(logged)).contains("no rule grants it: größer") => {
                Ok(())
            }
            other => Err(format!("the error of the read is not reported: {other:?}")),
        }
    });
}

#[test]
fn an_error_of_a_mapper_carries_its_message() {
    for_each(Part::Reconciler, "map that fails", |plugin| {
        let (answer, _) = mapped(plugin, &Call::about(""), &[(None, Some(json!({"fail": "no idea: größer"})))]);
        match answer {
            Err(error) if error.contains("no idea: größer") => Ok(()),
            other => Err(format!("expected its own error, got {other:?}")),
        }
    });
    for_each(Part::Reconciler, "map that raises", |plugin| {
        let (answer, logged) = mapped(plugin, &Call::about(""), &[(None, Some(json!({"raise": "told to"})))]);
        match answer {
            Err(error) if error.contains("told to") || json!(logged).to_string().contains("told to") => Ok(()),
            other => Err(format!("neither the error nor the log says so: {other:?}, {}", shown(&json!(logged)))),
        }
    });
}

#[test]
fn a_predicate_says_of_each_change_whether_it_counts() {
    let matches = |watch: &str| Some(json!({"matches": watch}));
    let changes = [
        (None, matches("mapped")),
        (None, matches("other")),
        (matches("other"), matches("mapped")),
        (matches("mapped"), matches("other")),
        (None, Some(json!({}))),
    ];
    for_each(Part::Reconciler, "matches", |plugin| {
        for call in [Call::about(""), Call::about("").again()] {
            let (answer, _) = matched(plugin, &call, &changes);
            let answer = answer.map_err(|error| format!("the call failed: {error}"))?;
            same(&json!([true, false, true, false, true]), &json!(answer))?;
        }
        Ok(())
    });
}

#[test]
fn an_error_of_a_predicate_carries_its_message() {
    for (field, case) in [("failMatches", "matches that fails"), ("raiseMatches", "matches that raises")] {
        for_each(Part::Reconciler, case, |plugin| {
            let change = (None, Some(json!({field: "told to"})));
            let (answer, logged) = matched(plugin, &Call::about(""), &[change]);
            match answer {
                Err(error) if error.contains("told to") || json!(logged).to_string().contains("told to") => Ok(()),
                other => Err(format!("neither the error nor the log says so: {other:?}, {}", shown(&json!(logged)))),
            }
        });
    }
}

#[test]
fn rules_of_related_objects_arrive_complete() {
    let rules = json!([
        {"watch": "customized"},
        {"watch": "customized", "namespace": "test", "names": ["a", "b"], "labelSelector": "app=web,tier in (front,back)"},
    ]);
    let expected = json!([
        {"watch": "customized", "namespace": null, "names": [], "selects": true, "selectsAll": true},
        {"watch": "customized", "namespace": "test", "names": ["a", "b"], "selects": true, "selectsAll": false},
    ]);
    for_each(Part::Composer, "customize", |plugin| {
        let call = parent(&json!({"rules": rules}));
        for call in [call.clone(), call.again()] {
            let answer = customized(plugin, &call);
            same(&expected, &answer.map_err(|ended| format!("the call failed: {}", shown(&ended)))?)?;
        }
        Ok(())
    });
}

#[test]
fn an_error_of_customize_carries_its_message() {
    for_each(Part::Composer, "customize that fails", |plugin| {
        let ended = customized(plugin, &parent(&json!({"failRules": "no idea: größer"})));
        match ended {
            Err(ended) if ended.to_string().contains("no idea: größer") => Ok(()),
            other => Err(format!("expected its own error, got {other:?}")),
        }
    });
    for_each(Part::Composer, "customize that raises", |plugin| {
        let ended = customized(plugin, &parent(&json!({"raiseRules": "told to"})));
        if ended.is_err() { Ok(()) } else { Err(format!("it does not fail, but answers {ended:?}")) }
    });
}
