//! Converts autoscalers between `autoscaling/v2`, which is stored, and `v1`, which only knows CPU use.

use serde_json::{Map, Value, json};

use crate::object::{self, items};

const USAGE: &str = "targetCPUUtilizationPercentage";
const CURRENT: &str = "currentCPUUtilizationPercentage";
/// An annotation for `v1` clients with all values that `v1` cannot express, so that they are not lost when such a
/// client writes the object. A real server uses three annotations in an older form.
const REST: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// Converts a stored autoscaler to `v1`.
pub(crate) fn to_v1(stored: &Value) -> Value {
    let mut object = stored.clone();
    object["apiVersion"] = json!("autoscaling/v1");
    let spec = object::map_mut(&mut object, "spec");
    let metrics = spec.remove("metrics").unwrap_or_default();
    let behavior = spec.remove("behavior");
    let (cpu, rest): (Vec<&Value>, Vec<&Value>) = metrics.as_array().into_iter().flatten().partition(|it| is_cpu(it));
    if let Some(usage) = cpu.first().and_then(|metric| metric.pointer("/resource/target/averageUtilization")) {
        spec.insert(USAGE.to_owned(), usage.clone());
    }
    let current = items(stored, "/status/currentMetrics").iter().find(|metric| metric["resource"]["name"] == "cpu");
    let current = current.and_then(|metric| metric.pointer("/resource/current/averageUtilization")).cloned();
    let status = object::map_mut(&mut object, "status");
    status.retain(|name, _| !["conditions", "currentMetrics"].contains(&name.as_str()));
    status.extend(current.map(|current| (CURRENT.to_owned(), current)));
    if !rest.is_empty() {
        annotate(&mut object, REST, &json!(rest));
    }
    if let Some(behavior) = behavior {
        annotate(&mut object, BEHAVIOR, &behavior);
    }
    object
}

/// Converts an autoscaler that was written through `v1` to the stored version.
pub(crate) fn from_v1(written: &Value) -> Value {
    let mut object = written.clone();
    object["apiVersion"] = json!("autoscaling/v2");
    let rest = taken(&mut object, REST);
    let behavior = taken(&mut object, BEHAVIOR);
    let spec = object::map_mut(&mut object, "spec");
    let usage = spec.remove(USAGE).filter(|usage| !usage.is_null());
    let cpu = usage.map(|usage| {
        let target = json!({ "type": "Utilization", "averageUtilization": usage });
        json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
    });
    let rest = rest.and_then(|rest| rest.as_array().cloned()).unwrap_or_default();
    let metrics: Vec<Value> = rest.into_iter().chain(cpu).collect();
    if !metrics.is_empty() {
        spec.insert("metrics".to_owned(), json!(metrics));
    }
    spec.extend(behavior.map(|behavior| ("behavior".to_owned(), behavior)));
    let status = object::map_mut(&mut object, "status");
    let current = status.remove(CURRENT).filter(|current| !current.is_null());
    status.entry("currentMetrics").or_insert_with(|| {
        current.map_or(Value::Null, |current| {
            let current = json!({ "averageUtilization": current, "averageValue": "0" });
            json!([{ "type": "Resource", "resource": { "name": "cpu", "current": current } }])
        })
    });
    object
}

fn is_cpu(metric: &Value) -> bool {
    metric["resource"]["name"] == "cpu" && metric.pointer("/resource/target/averageUtilization").is_some()
}

fn annotate(object: &mut Value, key: &str, value: &Value) {
    let annotations = object::map_mut(object::map_mut_value(object, "metadata"), "annotations");
    annotations.insert(key.to_owned(), json!(value.to_string()));
}

fn taken(object: &mut Value, key: &str) -> Option<Value> {
    let metadata = object::metadata_mut(object);
    let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut)?;
    let text = annotations.remove(key)?;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    serde_json::from_str(text.as_str()?).ok()
}

/// Sets the defaults of a spec. An autoscaler without metrics gets a CPU metric.
pub(crate) fn default_spec(version: &str, spec: &mut Map<String, Value>) {
    const CPU_UTILIZATION_DEFAULT: u32 = 80;
    spec.entry("minReplicas").or_insert_with(|| json!(1));
    let has_metrics = spec.get("metrics").and_then(Value::as_array).is_some_and(|metrics| !metrics.is_empty());
    if version == "v2" && !has_metrics {
        let target = json!({ "type": "Utilization", "averageUtilization": CPU_UTILIZATION_DEFAULT });
        let cpu = json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } });
        spec.insert("metrics".to_owned(), json!([cpu]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_autoscaler_survives_conversion_and_back() {
        let cpu = json!({ "type": "Resource", "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 } } });
        let pods = json!({ "type": "Pods", "pods": { "metric": { "name": "x" } } });
        let stored = json!({
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": { "name": "h" },
            "spec": { "maxReplicas": 3, "metrics": [pods, cpu], "behavior": { "scaleUp": {} } },
            "status": { "desiredReplicas": 1, "currentMetrics": null },
        });
        let old = to_v1(&stored);
        assert_eq!((&old["apiVersion"], &old["spec"][USAGE]), (&json!("autoscaling/v1"), &json!(50)));
        assert_eq!(from_v1(&old), stored);
    }
}
