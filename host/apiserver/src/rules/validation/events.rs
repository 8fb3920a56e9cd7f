//! Validates Events, like `kubernetes/pkg/apis/core/validation/events.go`. Errors use the field names of the core
//! group, even for requests to `events.k8s.io`.

use serde_json::{Value, json};

use super::report::Report;
use crate::object::{self, names, text};

/// The longest note in bytes. The limit for other texts is [`TEXT_BYTES_MAX`].
const NOTE_BYTES_MAX: usize = 1024;
const TEXT_BYTES_MAX: usize = 128;

/// Immutable fields of an Event in `events.k8s.io`, with their names in the internal type.
const FIXED_FIELDS: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("reason", "reason"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

/// Validates an Event. The rules for the core group are less strict than those for `events.k8s.io`.
pub(super) fn event(group: &str, object: &Value, previous: Option<&Value>, report: &mut Report) {
    let is_core = group.is_empty();
    place(is_core, object, report);
    if !object["eventTime"].is_null() {
        texts(is_core, object, report);
    }
    match previous {
        _ if is_core => {}
        None => new_form(object, report),
        Some(previous) => update(object, previous, report),
    }
}

/// Validates an update in `events.k8s.io`. Only the series may change.
fn update(object: &Value, previous: &Value, report: &mut Report) {
    if object["series"] != previous["series"] {
        series(&object["series"], report);
    }
    for (name, shown) in FIXED_FIELDS {
        if object[*name] != previous[*name] {
            report.invalid(*shown, &object[*name], "field is immutable");
        }
    }
}

/// Checks that an Event is in the namespace of its object, or in `default` if the object is cluster-scoped. With an
/// `eventTime`, an Event about a namespaced object may be in any namespace, and an Event about a cluster-scoped object
/// also in `kube-system`.
fn place(is_core: bool, object: &Value, report: &mut Report) {
    let about = if is_core { "involvedObject" } else { "regarding" };
    let (namespace, of_object) = (object::namespace(object), text(&object[about], "/namespace"));
    let is_new = !object["eventTime"].is_null();
    let is_there = match (of_object.is_empty(), is_new) {
        (true, false) => namespace == "default",
        (true, true) => ["default", "kube-system"].contains(&namespace),
        (false, false) => of_object == namespace,
        (false, true) => true,
    };
    if !is_there {
        report.invalid("involvedObject.namespace", &json!(of_object), "does not match event.namespace");
    }
}

fn texts(is_core: bool, object: &Value, report: &mut Report) {
    let controller_field = if is_core { "reportingComponent" } else { "reportingController" };
    let controller = text(&object[controller_field], "");
    if controller.is_empty() {
        report.required(controller_field);
    }
    for why in names::label_key_errors(controller) {
        report.invalid(controller_field, &json!(controller), &why);
    }
    for field in ["reportingInstance", "action", "reason"] {
        let found = text(&object[field], "");
        if found.is_empty() {
            report.required(field);
        }
        limit(field, found, TEXT_BYTES_MAX, report);
    }
    limit("message", text(object, if is_core { "/message" } else { "/note" }), NOTE_BYTES_MAX, report);
}

fn limit(field: &str, found: &str, most: usize, report: &mut Report) {
    if found.len() > most {
        report.invalid(field, &json!(""), &format!("can have at most {most} characters"));
    }
}

/// Validates a series, like `validateV1EventSeries`.
fn series(series: &Value, report: &mut Report) {
    if !series.is_object() {
        return;
    }
    if series["count"].as_i64().unwrap_or(0) < 2 {
        report.invalid("series.count", &json!(""), "should be at least 2");
    }
    if series["lastObservedTime"].is_null() {
        report.required("series.lastObservedTime");
    }
}

/// Checks that a new Event in `events.k8s.io` has all fields of that API, and no deprecated fields.
fn new_form(object: &Value, report: &mut Report) {
    series(&object["series"], report);
    if object["eventTime"].is_null() {
        report.required("eventTime");
    }
    let kind = text(object, "/type");
    if !["Normal", "Warning"].contains(&kind) {
        report.invalid("type", &json!(""), &format!("has invalid value: {kind}"));
    }
    let is_unset = |field: &str| match &object[field] {
        Value::Null => true,
        Value::Number(count) => count.as_i64() == Some(0),
        Value::Object(source) => source.values().all(|part| *part == json!("")),
        _ => false,
    };
    for (field, name) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ] {
        if !is_unset(field) {
            report.invalid(name, &json!(""), "needs to be unset");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(group: &str, object: &Value) -> Vec<String> {
        let mut report = Report::default();
        event(group, object, None, &mut report);
        report.0.iter().map(ToString::to_string).collect()
    }

    fn complete(field: &str, value: &Value) -> Value {
        let mut object = json!({
            "metadata": { "namespace": "a" }, "regarding": { "namespace": "a" }, "eventTime": "2026-01-01T00:00:00.000000Z",
            "type": "Normal", "reportingController": "a/b", "reportingInstance": "i", "action": "a", "reason": "r",
        });
        object[field] = value.clone();
        object
    }

    #[test]
    fn an_event_of_the_new_form_has_limits() {
        const GROUP: &str = "events.k8s.io";
        assert_eq!(errors(GROUP, &complete("note", &json!("x".repeat(1024)))), Vec::<String>::new());
        for (field, length, expected) in [
            ("note", 1025, "message: Invalid value: \"\": can have at most 1024 characters"),
            ("reason", 129, "reason: Invalid value: \"\": can have at most 128 characters"),
            ("action", 129, "action: Invalid value: \"\": can have at most 128 characters"),
            ("reportingInstance", 129, "reportingInstance: Invalid value: \"\": can have at most 128 characters"),
        ] {
            assert_eq!(errors(GROUP, &complete(field, &json!("x".repeat(length)))), [expected]);
        }
        let series = json!({ "count": 1, "lastObservedTime": null });
        assert_eq!(
            errors(GROUP, &complete("series", &series)),
            ["series.count: Invalid value: \"\": should be at least 2", "series.lastObservedTime: Required value"]
        );
        assert_eq!(
            errors(GROUP, &complete("deprecatedCount", &json!(1))),
            ["count: Invalid value: \"\": needs to be unset"]
        );
    }

    #[test]
    fn an_old_event_of_core_may_have_any_text() {
        let old = json!({
            "metadata": { "namespace": "a" }, "involvedObject": { "namespace": "a" }, "reason": "x".repeat(500),
            "message": "x".repeat(5000),
        });
        assert_eq!(errors("", &old), Vec::<String>::new());
        let elsewhere = json!({ "metadata": { "namespace": "a" }, "involvedObject": {} });
        assert_eq!(
            errors("", &elsewhere),
            ["involvedObject.namespace: Invalid value: \"\": does not match event.namespace"]
        );
    }
}
