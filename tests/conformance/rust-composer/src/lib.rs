//! The composing probe of the conformance suite in Rust. It carries out the steps in its parent.

#[path = "../../rust/src/common.rs"]
mod common;

use std::time::Duration;

use serde_json::{Value, json};
use windlass_sdk::events::{Event, EventType};
use windlass_sdk::manifest::{Controller, Manifest, Mapping, UpdateStrategy, Watch};
use windlass_sdk::{Composer, Composition, CompositionRequest, Customize, Failures, RelatedRule, Request};

struct Probe;

windlass_sdk::composer!(Probe);
windlass_sdk::customize!(Probe);

impl Composer for Probe {
    fn manifest() -> Manifest {
        let compositions = Controller::new("compositions", Watch::of("conformance.windlass.dev/v1", "Composition"))
            .owns(Watch::of("v1", "ConfigMap").update_strategy(UpdateStrategy::Recreate))
            .watches(Watch::of("v1", "Secret").call_fields(["/data"]), Mapping::SameName)
            .watches(Watch::of("v1", "Service").named("customized"), Mapping::Customize);
        Manifest::new("conformance-composer", "0.1.0").controller(compositions)
    }

    fn compose(request: CompositionRequest) -> Result<Composition, Failures> {
        let parent: Value = request.parent()?;
        let mut results = Vec::new();
        for step in common::steps(&parent) {
            let call = step["call"].as_str().unwrap_or_default();
            if let Some(end) = end(call, step) {
                return end;
            }
            let answer = common::call(&request.request, call, step);
            results.push(common::shown(answer.unwrap_or_else(|| panic!("conformance: there is no call {call}"))));
        }
        let status = json!({
            "results": results,
            "children": names(request.children("v1", "ConfigMap")?),
            "related": names(request.related("v1", "Secret")?),
        });
        Ok(answered(&parent["spec"], Composition::new().status(&status)))
    }
}

impl Customize for Probe {
    fn customize(request: Request) -> Result<Vec<RelatedRule>, Failures> {
        let parent: Value = request.object()?.unwrap_or_default();
        let spec = &parent["spec"];
        if let Some(message) = spec["failRules"].as_str() {
            return Err(Failures::transient(message));
        }
        if let Some(message) = spec["raiseRules"].as_str() {
            panic!("{message}");
        }
        Ok(spec["rules"].as_array().into_iter().flatten().map(rule).collect())
    }
}

fn rule(rule: &Value) -> RelatedRule {
    let text = |name: &str| rule[name].as_str();
    let made = RelatedRule::new(text("watch").unwrap_or_default());
    let made = text("namespace").into_iter().fold(made, RelatedRule::namespace);
    let made = text("labelSelector").into_iter().fold(made, RelatedRule::labels);
    let names = rule["names"].as_array().into_iter().flatten().filter_map(Value::as_str);
    names.fold(made, RelatedRule::name)
}

/// How a step ends the call. `None` if the call continues.
///
/// # Panics
/// With the step `raise`.
fn end(call: &str, step: &Value) -> Option<Result<Composition, Failures>> {
    Some(match call {
        "requeue-after" => {
            Ok(Composition::new().requeue_after(Duration::from_millis(step["ms"].as_u64().unwrap_or_default())))
        }
        "requeue-backoff" => Ok(Composition::new().requeue_with_backoff()),
        "fail" => Err(step["failures"].as_array().into_iter().flatten().map(failure).collect()),
        "raise" => deeper(step["message"].as_str().unwrap_or_default()),
        "spin" => loop {
            std::hint::black_box(());
        },
        "grow" => {
            let mut kept = Vec::new();
            loop {
                kept.push(std::hint::black_box(vec![1_u8; 1 << 20]));
            }
        }
        "recurse" => {
            std::hint::black_box(recurse(1));
            return None;
        }
        _ => return None,
    })
}

fn failure(failure: &Value) -> Failures {
    match (failure["transient"].as_str(), failure["terminal"].as_str()) {
        (Some(message), _) => Failures::transient(message),
        (_, Some(message)) => Failures::terminal(message),
        _ => panic!("conformance: a composer has no errors of the API"),
    }
}

fn deeper(message: &str) -> Result<Composition, Failures> {
    deepest(message)
}

fn deepest(message: &str) -> ! {
    panic!("{message}")
}

#[allow(unconditional_recursion, reason = "this is what it is for")]
fn recurse(depth: u64) -> u64 {
    recurse(std::hint::black_box(depth + 1)) + 1
}

fn names(objects: Vec<Value>) -> Vec<String> {
    let name = |object: Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut names: Vec<_> = objects.into_iter().map(name).collect();
    names.sort();
    names
}

fn answered(spec: &Value, composition: Composition) -> Composition {
    let list = |name: &str| spec[name].as_array().into_iter().flatten();
    let mut composition = list("children").fold(composition, Composition::child);
    composition = list("events").map(event).fold(composition, Composition::event);
    if let Some(milliseconds) = spec["requeueAfterMs"].as_u64() {
        composition = composition.requeue_after(Duration::from_millis(milliseconds));
    }
    if spec["requeueBackoff"] == true {
        composition = composition.requeue_with_backoff();
    }
    let composition = if spec["allowEmpty"] == true { composition.allow_empty() } else { composition };
    if spec["finalized"] == true { composition.finalized() } else { composition }
}

fn event(event: &Value) -> Event {
    let text = |name: &str| event[name].as_str().unwrap_or_default();
    let made = Event::normal(text("reason"), text("action"), text("note"));
    let event_type = if event["eventType"] == "warning" { EventType::Warning } else { EventType::Normal };
    Event { event_type, ..made }
}
