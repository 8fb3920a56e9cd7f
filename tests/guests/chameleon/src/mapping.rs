//! The mapper of the mode `mapping`: the `data` of a `ConfigMap` names the Services that its changes concern, another
//! `ConfigMap` that names them (`via`), or a way to misbehave. The `payload` of a delivery to the hook `mapped` names
//! the same. The predicate of the mode `judging`: the label `counts` of an object says whether its changes count.

use serde_json::Value;
use windlass_sdk::{Change, Error, Failures, Mapper, ObjectRef, Target, cache, info, live};

use crate::watching::BY_SELECTOR;
use crate::{Chameleon, spin};

impl Mapper for Chameleon {
    fn matches(watch: &str, change: &Change) -> Result<bool, Failures> {
        let Some(object) = change.current::<Value>()? else { panic!("chameleon: deletions are not asked about") };
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (name, counts) = (text("/metadata/name"), text("/metadata/labels/counts"));
        info!("chameleon judges {name} of {watch}");
        match counts {
            "trap" => panic!("chameleon: the predicate was told to trap"),
            "fail" => Err(Failures::transient("chameleon: the predicate was told to fail")),
            counts => Ok(counts == "yes"),
        }
    }

    fn map(watch: &str, change: &Change) -> Result<Vec<Target>, Failures> {
        let mut targets = Vec::new();
        for map in change.states::<Value>()? {
            let text = |pointer: &str| map.pointer(pointer).and_then(Value::as_str);
            let data = if text("/kind") == Some("HookDelivery") { "payload" } else { "data" };
            let datum = |name: &str| map[data][name].as_str();
            info!("chameleon maps a change of {watch}", map = text("/metadata/name").unwrap_or_default());
            match datum("misbehave") {
                Some("trap") => panic!("chameleon: the mapper was told to trap"),
                Some("loop") => spin(),
                Some("fail") => return Err(Failures::transient("chameleon: the mapper was told to fail")),
                Some("live") => {
                    drop(live::get::<Value>(&ObjectRef::namespaced("v1", "ConfigMap", "default", "any")));
                }
                Some("owned") => drop(cache::list("v1", "ConfigMap").owned().page::<Value>()?),
                Some("index") => targets.push(Target::indexed("by-nothing", "x")),
                _ => {}
            }
            let namespace = datum("namespace").or_else(|| text("/metadata/namespace")).unwrap_or_default();
            targets.extend(datum("service").map(|name| Target::primary(namespace, name)));
            if let Some(name) = datum("via") {
                let via = read(namespace, name, datum("by"))?;
                let service = via.iter().find_map(|via| via["data"]["service"].as_str());
                targets.extend(service.map(|name| Target::primary(namespace, name)));
            }
            let labels = map["metadata"]["labels"].as_object().into_iter().flatten();
            let labels = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
            let labels = labels.collect::<Vec<_>>().join(",");
            targets.extend((!labels.is_empty()).then(|| Target::indexed(BY_SELECTOR, labels)));
        }
        Ok(targets)
    }
}

/// Reads the `ConfigMap` of this name from the cache, by the method `by`.
fn read(namespace: &str, name: &str, by: Option<&str>) -> Result<Option<Value>, Error> {
    if by == Some("list") {
        return cache::list("v1", "ConfigMap").in_namespace(namespace).iter().next().transpose();
    }
    cache::get(&ObjectRef::namespaced("v1", "ConfigMap", namespace, name))
}
