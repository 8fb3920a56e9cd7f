//! The changes that a call intends, whether or not they succeed: one [`Intent`] for each object that it writes.

use serde_json::{Value, json};

use crate::document::RecordedImport;
use crate::json;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Intent {
    /// `create`, `apply`, `delete`, ….
    pub(crate) verb: String,
    /// The object, for people: `apps/v1 Deployment prod/shop`, with its subresource.
    pub(crate) object: String,
    /// The body, or other arguments that describe the wanted state.
    pub(crate) body: Value,
    /// Whether the body is a JSON patch.
    pub(crate) is_json_patch: bool,
}

/// Parses a text as JSON. Returns the text itself if it is not JSON.
fn parsed(text: &Value) -> Value {
    text.as_str().and_then(json::document).unwrap_or_else(|| text.clone())
}

/// The name of an object, from its own fields.
fn name_of_body(body: &Value) -> String {
    let metadata = &body["metadata"];
    let name = metadata["name"].as_str().map(str::to_owned);
    let name = name.or_else(|| metadata["generateName"].as_str().map(|prefix| format!("{prefix}*")));
    described(body, metadata["namespace"].as_str(), name.as_deref().unwrap_or("?"))
}

fn described(kind: &Value, namespace: Option<&str>, name: &str) -> String {
    let text = |field: &str| kind[field].as_str().unwrap_or("?").to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let version = if api_version == "v1" { String::new() } else { format!("{api_version} ") };
    namespace
        .map_or_else(|| format!("{version}{kind} {name}"), |namespace| format!("{version}{kind} {namespace}/{name}"))
}

/// A reference, for people.
pub(crate) fn name_of_reference(reference: &Value) -> String {
    described(reference, reference["namespace"].as_str(), reference["name"].as_str().unwrap_or("?"))
}

/// The intent of one write.
fn of_write(import: &str, args: &Value) -> Option<Intent> {
    let verb = import.strip_prefix("writes.")?;
    let body = match verb {
        "patch" => parsed(&args["patch"]),
        "delete" => args["options"].clone(),
        _ => parsed(&args["object"]),
    };
    let target = if args["target"].is_object() { name_of_reference(&args["target"]) } else { name_of_body(&body) };
    let subresource = args["options"]["subresource"].as_str().map(|it| format!(" ({it})")).unwrap_or_default();
    let dry = if args["options"]["dryRun"] == true { "dry-run " } else { "" };
    let is_json_patch = verb == "patch" && args["type"] == "json";
    Some(Intent { verb: format!("{dry}{verb}"), object: format!("{target}{subresource}"), body, is_json_patch })
}

/// The changes that the import intends. Empty if it only reads.
pub(crate) fn of_import(import: &RecordedImport) -> Vec<Intent> {
    let RecordedImport { import, args, .. } = import;
    let one = |verb: &str, object: String, body: Value| {
        vec![Intent { verb: verb.to_owned(), object, body, is_json_patch: false }]
    };
    match import.as_str() {
        "writes.batch" => {
            let operations = args["operations"].as_array().into_iter().flatten();
            operations.filter_map(|operation| of_write(operation["import"].as_str()?, operation)).collect()
        }
        "writes.delete-collection" => one("deletecollection", collection(args), args["options"].clone()),
        "owners.claim" => one("claim", collection(args), Value::Null),
        "events.emit" => {
            let on = args.get("regarding").map(|it| format!(" on {}", name_of_reference(it))).unwrap_or_default();
            let reason = args["reason"].as_str().unwrap_or("?");
            one("emit", format!("Event {reason}{on}"), json!({"note": args["note"], "type": args["type"]}))
        }
        "http.fetch" if args["method"] != "GET" && args["method"] != "HEAD" => {
            let method = args["method"].as_str().unwrap_or("?");
            one(method, args["url"].as_str().unwrap_or("?").to_owned(), json!({"body": body(&args["body"])}))
        }
        _ => of_write(import, args).into_iter().collect(),
    }
}

fn body(body: &Value) -> Value {
    body.get("text").map_or_else(|| body.clone(), parsed)
}

/// The collection that an import is about, for people.
pub(crate) fn collection(args: &Value) -> String {
    let kind = args["of"]["kind"].as_str().unwrap_or("?");
    let mut text = format!("all {kind}");
    for (field, word) in [("namespace", "in"), ("labelSelector", "with"), ("fieldSelector", "where")] {
        if let Some(value) = args[field].as_str().filter(|value| !value.is_empty()) {
            text = format!("{text} {word} {value}");
        }
    }
    text
}

/// The changes that a composer's answer intends.
pub(crate) fn of_composition(composed: &Value, parent: &str) -> Vec<Intent> {
    let children = composed["children"].as_array().into_iter().flatten();
    let mut intents: Vec<_> = children
        .map(|child| {
            let body = parsed(child);
            Intent { verb: "compose".to_owned(), object: name_of_body(&body), body, is_json_patch: false }
        })
        .collect();
    if let Some(status) = composed.get("status") {
        let (verb, object) = ("compose".to_owned(), format!("{parent} (status)"));
        intents.push(Intent { verb, object, body: json!({"status": parsed(status)}), is_json_patch: false });
    }
    for event in composed["events"].as_array().into_iter().flatten() {
        let import = RecordedImport { import: "events.emit".to_owned(), args: event.clone(), answer: None, cpu_us: 0 };
        intents.extend(of_import(&import));
    }
    intents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(name: &str, args: Value) -> RecordedImport {
        RecordedImport { import: name.to_owned(), args, answer: None, cpu_us: 0 }
    }

    fn intents_of(name: &str, args: Value) -> Vec<String> {
        of_import(&import(name, args)).into_iter().map(|it| format!("{} {}", it.verb, it.object)).collect()
    }

    #[test]
    fn an_intent_names_its_object() {
        let deployment =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop", "namespace": "prod"}});
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": "n1"});
        let apply = json!({"object": deployment.to_string(), "options": {"subresource": "status"}});
        assert_eq!(intents_of("writes.apply", apply.clone()), ["apply apps/v1 Deployment prod/shop (status)"]);
        let patch = json!({"target": target, "type": "merge", "patch": "{}", "options": {"dryRun": true}});
        assert_eq!(intents_of("writes.patch", patch), ["dry-run patch Node n1"]);
        let mut operation = apply;
        operation["import"] = "writes.create".into();
        let delete = json!({"import": "writes.delete", "target": target, "options": {}});
        let all = ["create apps/v1 Deployment prod/shop (status)", "delete Node n1"];
        assert_eq!(intents_of("writes.batch", json!({"operations": [operation, delete]})), all);
        assert_eq!(intents_of("events.emit", json!({"reason": "Ready", "note": "n"})), ["emit Event Ready"]);
        let collection =
            json!({"of": {"apiVersion": "v1", "kind": "Pod"}, "namespace": "prod", "labelSelector": "a=b"});
        assert_eq!(intents_of("writes.delete-collection", collection), ["deletecollection all Pod in prod with a=b"]);
    }

    #[test]
    fn reads_have_no_intent() {
        assert_eq!(intents_of("cache.get", json!({"target": {}})), [""; 0]);
        assert_eq!(intents_of("http.fetch", json!({"method": "GET", "url": "https://h"})), [""; 0]);
        assert_eq!(intents_of("http.fetch", json!({"method": "POST", "url": "https://h"})), ["POST https://h"]);
    }
}
