//! The probe's own mapper: each state of a changed object lists the primaries that the change concerns.

use serde_json::Value;
use windlass_sdk::{Change, Failures, Mapper, Target, cache};

use crate::{Probe, arguments};

impl Mapper for Probe {
    fn matches(watch: &str, change: &Change) -> Result<bool, Failures> {
        let mut counts = true;
        for state in change.states::<Value>()? {
            let spec = &state["spec"];
            if let Some(message) = spec["failMatches"].as_str() {
                return Err(Failures::transient(message));
            }
            if let Some(message) = spec["raiseMatches"].as_str() {
                panic!("{message}");
            }
            counts = spec["matches"].as_str().is_none_or(|name| name == watch);
        }
        Ok(counts)
    }

    fn map(watch: &str, change: &Change) -> Result<Vec<Target>, Failures> {
        let mut targets = Vec::new();
        for state in change.states::<Value>()? {
            let spec = &state["spec"];
            if let Some(message) = spec["fail"].as_str() {
                return Err(Failures::transient(message));
            }
            if let Some(message) = spec["raise"].as_str() {
                panic!("{message}");
            }
            targets.extend(spec["targets"].as_array().into_iter().flatten().map(target));
            if spec["target"].is_object() {
                let read: Option<Value> = cache::get(&arguments::target(spec))?;
                let name = read.as_ref().and_then(|read| read["data"]["primary"].as_str());
                targets.extend(name.map(|name| Target::primary("prod", name)));
            }
            if spec["tellWatch"] == true {
                targets.push(Target::indexed("watch", watch));
            }
        }
        Ok(targets)
    }
}

fn target(target: &Value) -> Target {
    let text = |name: &str| target[name].as_str().unwrap_or_default();
    match (target["index"].as_str(), target["namespace"].as_str()) {
        (Some(index), _) => Target::indexed(index, text("value")),
        (None, Some(namespace)) => Target::primary(namespace, text("name")),
        (None, None) => Target::cluster_scoped(text("name")),
    }
}
