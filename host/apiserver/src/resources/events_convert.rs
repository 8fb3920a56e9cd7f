//! Converts Events between `core/v1` and `events.k8s.io/v1`. Events are stored as `core/v1`, which `kubectl describe`
//! reads; controllers write `events.k8s.io/v1`. Some fields of `core/v1` are called `deprecated…` in
//! `events.k8s.io/v1`.

use serde_json::{Map, Value, json};

/// Fields with two names: in `core/v1`, and in `events.k8s.io/v1`.
const RENAMED: [(&str, &str); 6] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
];
const COUNT: (&str, &str) = ("count", "deprecatedCount");

/// Converts a stored event to `events.k8s.io/v1`.
pub(crate) fn from_core(event: &Value) -> Value {
    renamed(event, "events.k8s.io/v1", |(core, new)| (core, new))
}

/// Converts an event to `core/v1`.
pub(crate) fn to_core(event: &Value) -> Value {
    renamed(event, "v1", |(core, new)| (new, core))
}

fn renamed(
    event: &Value,
    api_version: &str,
    direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Value {
    let names: Vec<(&str, &str)> = RENAMED.into_iter().chain([COUNT]).map(direction).collect();
    let empty = Map::new();
    let fields = event.as_object().unwrap_or(&empty);
    let mut result: Map<String, Value> = fields
        .iter()
        .map(|(name, value)| {
            let name = names.iter().find(|(from, _)| from == name).map_or(name.as_str(), |(_, to)| to);
            (name.to_owned(), value.clone())
        })
        .collect();
    result.insert("apiVersion".to_owned(), json!(api_version));
    Value::Object(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_survives_conversion_and_back() {
        let new = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "regarding": { "kind": "Pod", "name": "x" },
            "note": "it happened",
            "reportingController": "windlass",
            "reportingInstance": "one",
            "action": "Reconcile",
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "series": { "count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z" },
            "deprecatedCount": 3,
        });
        let core = to_core(&new);
        assert_eq!(core["apiVersion"], "v1");
        assert_eq!(core["involvedObject"]["name"], "x");
        assert_eq!(core["message"], "it happened");
        assert_eq!(core["reportingComponent"], "windlass");
        assert_eq!(core["count"], 3);
        assert_eq!(from_core(&core), new);
    }
}
