//! The composing probes: their requests, their answers, and that equal requests have equal answers.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::call::compose::Composition;
use windlass_core::queue::outcome::{CallResult, Requeue};
use windlass_wasm::{CompositionRequest, Plugin};

use crate::call::Call;
use crate::languages::{Language, Part, RUNTIME, selected};
use crate::verdict::{Findings, same, shown};
use crate::{lines, wire};

/// A composer's request and the expected answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    name: String,
    spec: Value,
    deleting: bool,
    children: Vec<Value>,
    related: Vec<Value>,
    config: Option<Value>,
    answer: Option<Value>,
    ended: Option<Value>,
    lines: Option<Vec<Value>>,
}

/// A composer's surroundings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Around {
    pub(crate) parent: Value,
    pub(crate) children: Vec<Value>,
    pub(crate) related: Vec<Value>,
}

/// The result of a call.
#[derive(Debug)]
pub(crate) struct Composed {
    /// The composition, or how the call ended without one.
    pub(crate) answer: Result<Value, Value>,
    pub(crate) lines: Vec<Value>,
}

impl Composed {
    fn all(&self) -> Value {
        let (Ok(answer) | Err(answer)) = &self.answer;
        json!({"answer": answer, "lines": self.lines})
    }
}

/// Calls a composer.
pub(crate) fn compose(plugin: &Arc<Plugin>, call: &Call, around: &Around) -> Composed {
    lines::listen();
    let texts = |objects: &[Value]| objects.iter().map(|object| object.to_string().into()).collect();
    let request = CompositionRequest {
        request: call.request(plugin),
        parent: around.parent.to_string().into(),
        children: texts(&around.children),
        related: texts(&around.related),
        config: call.config.as_str().into(),
    };
    let composed = RUNTIME.block_on(plugin.compose(request, call.context(plugin), call.limits()));
    let answer = composed.answer.as_ref().map(shape).map_err(|ended: &CallResult| wire::ended(ended));
    Composed { answer, lines: lines::take(&call.trace_id) }
}

fn shape(composition: &Composition) -> Value {
    let (after, backoff) = match composition.requeue {
        Some(Requeue::After(after)) => (Some(after.as_millis()), None),
        Some(Requeue::Backoff) => (None, Some(true)),
        None => (None, None),
    };
    json!({
        "children": composition.children.iter().map(|text| wire::document(text)).collect::<Value>(),
        "status": composition.status.as_deref().map(wire::document),
        "events": composition.events.iter().map(wire::event).collect::<Value>(),
        "requeueAfterMs": after, "requeueBackoff": backoff,
        "allowEmpty": composition.allow_empty,
        "finalized": composition.finalized,
    })
}

pub(crate) fn parent(spec: &Value) -> Value {
    json!({
        "apiVersion": "conformance.windlass.dev/v1", "kind": "Composition",
        "metadata": {"name": "probe", "namespace": "prod", "uid": "u-1", "generation": 1}, "spec": spec,
    })
}

/// A call about a parent that is not among the request's objects.
fn call() -> Call {
    Call { object: None, ..Call::about("") }
}

fn steps(steps: &Value) -> Around {
    Around { parent: parent(&json!({"steps": steps})), ..Around::default() }
}

impl Case {
    fn check(&self, language: &Language) -> Result<(), String> {
        let plugin = language.plugin()?;
        let config = self.config.as_ref().map_or_else(|| "{}".to_owned(), Value::to_string);
        let call = Call { deleting: self.deleting, config, ..call() };
        let (children, related) = (self.children.clone(), self.related.clone());
        let around = Around { parent: parent(&self.spec), children, related };
        let first = compose(&plugin, &call, &around);
        match (&self.answer, &self.ended, &first.answer) {
            (Some(expected), None, Ok(answer)) => same(expected, answer)?,
            (None, Some(expected), Err(ended)) => same(expected, ended)?,
            (_, _, Ok(other) | Err(other)) => return Err(format!("the call ended differently: {}", shown(other))),
        }
        if let Some(expected) = &self.lines {
            crate::case::compare_lines(expected, &first.lines)?;
        }
        for again in [call.clone(), call.again()] {
            same(&first.all(), &compose(&plugin, &again, &around).all())
                .map_err(|differs| format!("the same call had another outcome the second time\n      {differs}"))?;
        }
        Ok(())
    }
}

fn for_each(case: &str, check: impl Fn(&Arc<Plugin>, &Language) -> Result<(), String>) {
    let mut findings = Findings::default();
    for language in selected(Part::Composer) {
        findings.add(&language, case, language.plugin().and_then(|plugin| check(&plugin, &language)));
    }
    findings.end();
}

#[test]
fn compositions() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../../../../tests/conformance/cases/composer.json"))
        .expect("the cases are well-formed");
    let mut findings = Findings::default();
    for language in selected(Part::Composer) {
        for case in &cases {
            findings.add(&language, &case.name, case.check(&language));
        }
    }
    findings.end();
}

#[test]
fn a_composers_randomness_follows_from_its_parent() {
    for_each("random", |plugin, _| {
        let drawn = |uid: &str, seed| {
            let call = Call { uid: Some(uid.to_owned()), seed, ..call() };
            let around = steps(&json!([{"call": "random.bytes", "length": 32}, {"call": "language.random"}]));
            compose(plugin, &call, &around).answer.unwrap_or_default()["status"]["results"].clone()
        };
        let one = drawn("u-1", 1);
        same(&one, &drawn("u-1", 2)).map_err(|differs| format!("random data of the same parent: {differs}"))?;
        let other = drawn("u-2", 1);
        if one[0] == other[0] || one[1] == other[1] {
            return Err(format!("another parent gets the same random data: {one}"));
        }
        Ok(())
    });
}

#[test]
fn a_failed_call_does_not_affect_the_next_one() {
    for step in ["raise", "spin", "grow", "recurse"] {
        for_each(step, |plugin, _| {
            let around = steps(&json!([{"call": step, "message": "told to: größer"}]));
            let call = Call { deadline: Duration::from_secs(5), ..call() }.again();
            let seen = compose(plugin, &call, &around);
            if let Ok(answer) = &seen.answer {
                return Err(format!("it does not fail, but answers {}", shown(answer)));
            }
            if step == "raise" && !json!(seen.lines).to_string().contains("told to: größer") {
                return Err(format!("the log does not have the message, but {}", shown(&json!(seen.lines))));
            }
            let next = compose(plugin, &self::call().again(), &steps(&json!([{"call": "echo", "value": 2}])));
            let answer = next.answer.map_err(|ended| format!("the call after it failed: {}", shown(&ended)))?;
            same(&json!([{"ok": 2}]), &answer["status"]["results"])
        });
    }
}
