//! Describes a call in text: one line per import, with its answer.

use std::fmt::Write as _;

use serde_json::Value;
use windlass_core::object::difference::{Difference, Disclosure};

use crate::document::{RecordedCall, RecordedImport};
use crate::intent::{collection, name_of_reference, of_import};

/// The longest part of a text that is shown.
const SHOWN_TEXT_MAX: usize = 160;

/// The import and its arguments, on one line.
#[must_use]
pub fn asked(import: &RecordedImport) -> String {
    let RecordedImport { import: name, args, .. } = import;
    let about = match name.as_str() {
        "writes.batch" => {
            let each = of_import(import).into_iter().map(|it| format!("{} {}", it.verb, it.object));
            each.collect::<Vec<_>>().join(", ")
        }
        "http.fetch" => {
            format!("{} {}", args["method"].as_str().unwrap_or("?"), args["url"].as_str().unwrap_or("?"))
        }
        "events.emit" => {
            format!("{}: {}", args["reason"].as_str().unwrap_or("?"), args["note"].as_str().unwrap_or_default())
        }
        "metrics.record" => format!("{} {}", args["name"].as_str().unwrap_or("?"), args["value"]),
        _ if args["target"].is_object() => {
            let subresource = args["subresource"].as_str().or_else(|| args["options"]["subresource"].as_str());
            let subresource = subresource.map(|it| format!(" ({it})")).unwrap_or_default();
            format!("{}{subresource}", name_of_reference(&args["target"]))
        }
        _ if args["of"].is_object() => collection(args),
        _ => of_import(import).into_iter().map(|it| it.object).collect::<Vec<_>>().join(", "),
    };
    cut(&format!("{name} {about}"))
}

/// A short form of the answer.
#[must_use]
pub fn answered(import: &RecordedImport) -> String {
    let Some(answer) = &import.answer else { return "no answer".to_owned() };
    if let Some(error) = answer.get("error") {
        let error = if error.is_array() { &error[0] } else { error };
        let reason = error["reason"].as_str().unwrap_or("error");
        return cut(&format!("{reason}: {}", error["message"].as_str().unwrap_or_default()));
    }
    match &answer["ok"] {
        Value::Null if import.import == "cache.get" || import.import == "live.get" => "not there".to_owned(),
        Value::Null => "ok".to_owned(),
        Value::String(text) => version(text).unwrap_or_else(|| format!("{} bytes", text.len())),
        Value::Array(items) => format!("{} answers", items.len()),
        answer if answer["items"].is_array() => {
            let count = answer["items"].as_array().map_or(0, Vec::len);
            let more = if answer["nextToken"].is_string() { ", and there are more" } else { "" };
            format!("{count} objects{more}")
        }
        answer if answer["status"].is_number() => format!("status {}", answer["status"]),
        _ => "ok".to_owned(),
    }
}

/// The resourceVersion and the size of an object. `None` if the text is not an object.
fn version(text: &str) -> Option<String> {
    let object = crate::json::document(text)?;
    let version = object["metadata"]["resourceVersion"].as_str()?;
    Some(format!("version {version}, {} bytes", text.len()))
}

/// The result of a call, as text.
#[must_use]
pub fn ended(result: &Value) -> String {
    if let Some(again) = again(result) {
        return format!("done, and {again}");
    }
    if let Some(trapped) = result.get("trapped") {
        let text = |field: &str| trapped[field].as_str().unwrap_or_default();
        return cut(&format!("stopped ({}): {}", text("reason"), text("message")));
    }
    if let Some(failures) = result["failed"].as_array() {
        let message = |failure: &Value| {
            let text = [&failure["transient"], &failure["terminal"], &failure["api"]["message"]];
            text.into_iter().find_map(|it| it.as_str().map(str::to_owned)).unwrap_or_default()
        };
        return cut(&format!("failed: {}", failures.iter().map(message).collect::<Vec<_>>().join("; ")));
    }
    if let Some(composed) = result.get("composed") {
        let children = composed["children"].as_array().map_or(0, Vec::len);
        let status = if composed.get("status").is_some() { " and a status" } else { "" };
        let again = again(composed).map(|again| format!(", and {again}")).unwrap_or_default();
        return format!("composed {children} children{status}{again}");
    }
    if result["done"] == true { "done".to_owned() } else { cut(&result.to_string()) }
}

/// When the key runs again, as the plugin answered. `None` if it did not ask for that.
fn again(answer: &Value) -> Option<String> {
    if answer["requeueBackoff"] == true {
        return Some("again after a backoff".to_owned());
    }
    answer["requeueAfterMs"].as_u64().map(|after| format!("again after {}", time(after.saturating_mul(1_000))))
}

#[must_use]
pub fn heading(call: &RecordedCall) -> String {
    let request = &call.request;
    let whole = format!("{} of {} {}", call.export, request.kind, request.key());
    format!("{}/{}: {whole}, {}, trace {}", call.component.plugin, request.controller, call.began, request.trace_id)
}

/// The whole call as text: its triggers, its imports with their cost, and its result.
#[must_use]
pub fn text_of_call(call: &RecordedCall, imports: &[RecordedImport], result: Option<&Value>, cpu_us: u64) -> String {
    let request = &call.request;
    let mut text = String::new();
    let why = |it: &crate::document::RecordedTrigger| {
        let object =
            if it.object.is_object() { format!(" ({})", name_of_reference(&it.object)) } else { String::new() };
        format!("{}{object}", it.reason)
    };
    let why: Vec<_> = request.triggers.iter().map(why).collect();
    let state = match (&request.object, request.deleting) {
        (None, _) => "the object is gone".to_owned(),
        (Some(object), true) => format!("being deleted, {}", version(object).unwrap_or_default()),
        (Some(object), false) => version(object).unwrap_or_else(|| format!("{} bytes", object.len())),
    };
    let why = if why.is_empty() { "not known".to_owned() } else { why.join(", ") };
    let _ = writeln!(text, "    why: {why}; attempt {}; {state}", request.attempt);
    let mut before = 0;
    for (place, import) in imports.iter().enumerate() {
        let cpu = time(import.cpu_us.saturating_sub(before));
        before = import.cpu_us.max(before);
        let _ = writeln!(text, "    {:>3}. [{cpu:>8}] {} → {}", place + 1, asked(import), answered(import));
    }
    let cpu = time(cpu_us.saturating_sub(before));
    let ending = result.map_or_else(|| "it did not end".to_owned(), ended);
    let _ = writeln!(text, "    end. [{cpu:>8}] {ending}");
    text
}

/// Parses texts in a value that are JSON objects or lists.
fn opened(value: &Value) -> Value {
    match value {
        Value::String(text) if text.starts_with(['{', '[']) => {
            crate::json::document(text).unwrap_or_else(|| value.clone())
        }
        Value::Array(items) => items.iter().map(opened).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), opened(value))).collect(),
        _ => value.clone(),
    }
}

/// The fields in which the arguments of two imports differ.
#[must_use]
pub fn different_fields(recorded: &Value, replayed: &Value) -> Vec<String> {
    Difference::between(&opened(recorded), &opened(replayed), Disclosure::Values).fields().to_vec()
}

/// Microseconds, for people.
pub(crate) fn time(microseconds: u64) -> String {
    match microseconds {
        0..1_000 => format!("{microseconds}µs"),
        1_000..1_000_000 => format!("{}.{}ms", microseconds / 1_000, microseconds % 1_000 / 100),
        _ => format!("{}.{}s", microseconds / 1_000_000, microseconds % 1_000_000 / 100_000),
    }
}

fn cut(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.len() <= SHOWN_TEXT_MAX {
        return text;
    }
    format!("{}…", &text[..text.floor_char_boundary(SHOWN_TEXT_MAX)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn import(name: &str, args: Value, answer: Value) -> RecordedImport {
        RecordedImport { import: name.to_owned(), args, answer: Some(answer), cpu_us: 0 }
    }

    #[test]
    fn an_import_is_described_on_one_line() {
        let target = json!({"apiVersion": "v1", "kind": "Pod", "namespace": "prod", "name": "p"});
        let pod = json!({"metadata": {"resourceVersion": "7"}}).to_string();
        let refused = json!({"error": {"reason": "Conflict", "message": "the object has\nbeen modified"}});
        for (import, expected) in [
            (
                import("cache.get", json!({"target": target}), json!({"ok": pod})),
                "cache.get Pod prod/p → version 7, 36 bytes",
            ),
            (import("live.get", json!({"target": target}), json!({"ok": null})), "live.get Pod prod/p → not there"),
            (
                import("writes.delete", json!({"target": target, "options": {}}), refused),
                "writes.delete Pod prod/p → Conflict: the object has been modified",
            ),
            (
                import(
                    "cache.list",
                    json!({"of": {"kind": "Pod"}, "namespace": "prod"}),
                    json!({"ok": {"items": ["{}"], "nextToken": "t"}}),
                ),
                "cache.list all Pod in prod → 1 objects, and there are more",
            ),
            (
                import("http.fetch", json!({"method": "GET", "url": "https://h"}), json!({"ok": {"status": 204}})),
                "http.fetch GET https://h → status 204",
            ),
        ] {
            assert_eq!(format!("{} → {}", asked(&import), answered(&import)), expected);
        }
    }

    #[test]
    fn results_are_described_as_text() {
        for (result, expected) in [
            (json!({"done": true}), "done"),
            (json!({"requeueAfterMs": 1500}), "done, and again after 1.5s"),
            (json!({"requeueBackoff": true}), "done, and again after a backoff"),
            (json!({"failed": [{"transient": "a"}, {"api": {"message": "b"}}]}), "failed: a; b"),
            (json!({"trapped": {"reason": "memory", "message": "too much"}}), "stopped (memory): too much"),
            (json!({"composed": {"children": ["{}", "{}"], "status": "{}"}}), "composed 2 children and a status"),
            (
                json!({"composed": {"children": [], "requeueAfterMs": 1500, "requeueBackoff": null}}),
                "composed 0 children, and again after 1.5s",
            ),
            (
                json!({"composed": {"children": ["{}"], "requeueAfterMs": null, "requeueBackoff": true}}),
                "composed 1 children, and again after a backoff",
            ),
        ] {
            assert_eq!(ended(&result), expected);
        }
    }
}
