//! Texts in the cells of several kinds.

use serde_json::Value;

use crate::object::{self, text};

/// The most items of a list that a cell shows.
const SHOWN_ITEMS_MAX: usize = 3;

pub(super) fn or_none(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}

/// The first items of a list, and how many more there are.
pub(super) fn first_of(all: &[String], none: &str) -> String {
    match all.len() {
        0 => none.to_owned(),
        count if count > SHOWN_ITEMS_MAX => {
            format!("{} + {} more...", all[..SHOWN_ITEMS_MAX].join(","), count - SHOWN_ITEMS_MAX)
        }
        _ => all.join(","),
    }
}

/// A map of strings as `key=value,key=value`.
pub(super) fn all_labels(labels: Option<&Value>) -> String {
    let mut parts: Vec<String> = labels
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    parts.sort_unstable();
    or_none(parts.join(","))
}

/// The name. It is marked if an annotation makes the object the default of its kind.
pub(super) fn name_or_default(object: &Value, annotations: &[&str]) -> String {
    let set = |key: &&str| object.pointer("/metadata/annotations").is_some_and(|all| all[*key] == "true");
    let mark = if annotations.iter().any(set) { " (default)" } else { "" };
    format!("{}{mark}", object::name(object))
}

/// The kind and name of a binding's role.
pub(super) fn role(object: &Value) -> String {
    format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name"))
}

/// The names of a binding's subjects.
pub(super) fn users(object: &Value) -> String {
    subjects(object, "User")
}

pub(super) fn groups(object: &Value) -> String {
    subjects(object, "Group")
}

pub(super) fn accounts(object: &Value) -> String {
    subjects(object, "ServiceAccount")
}

fn subjects(object: &Value, kind: &str) -> String {
    let names = object::items(object, "/subjects").iter().filter(|subject| subject["kind"] == kind).map(|subject| {
        let name = text(subject, "/name");
        if kind == "ServiceAccount" { format!("{}/{name}", text(subject, "/namespace")) } else { name.to_owned() }
    });
    names.collect::<Vec<_>>().join(", ")
}

/// The kind of the parameters of an admission policy.
pub(super) fn param_kind(object: &Value) -> String {
    match object.pointer("/spec/paramKind") {
        Some(kind) if kind.is_object() => format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind")),
        _ => "<unset>".to_owned(),
    }
}

/// The parameters that a policy's binding names.
pub(super) fn param_reference(object: &Value) -> String {
    let reference = object.pointer("/spec/paramRef").unwrap_or(&Value::Null);
    match (text(reference, "/namespace"), text(reference, "/name")) {
        (_, "") => "<unset>".to_owned(),
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// The status of a condition. If the object has no condition of this type, `other`.
pub(super) fn condition<'a>(object: &'a Value, kind: &str, other: &'a str) -> &'a str {
    let conditions = object::items(object, "/status/conditions");
    conditions.iter().find(|found| found["type"] == kind).map_or(other, |found| text(found, "/status"))
}

pub(super) fn missing_level(object: &Value) -> String {
    condition(object, "Dangling", "?").to_owned()
}

/// Whether the API of a group is available, and the reason if not.
pub(super) fn availability(object: &Value) -> String {
    let found = object::items(object, "/status/conditions").iter().find(|found| found["type"] == "Available");
    let Some(found) = found else { return "Unknown".to_owned() };
    match (text(found, "/status"), text(found, "/reason")) {
        (status, reason) if status != "True" && !reason.is_empty() => format!("{status} ({reason})"),
        (status, _) => status.to_owned(),
    }
}

/// The service that serves the API of a group.
pub(super) fn api_server(object: &Value) -> String {
    match object.pointer("/spec/service") {
        Some(service) if service.is_object() => format!("{}/{}", text(service, "/namespace"), text(service, "/name")),
        _ => "Local".to_owned(),
    }
}

/// Whether a component is healthy.
pub(super) fn health(object: &Value) -> String {
    match text(object, "/conditions/0/status") {
        "True" => "Healthy",
        "" => "Unknown",
        _ => "Unhealthy",
    }
    .to_owned()
}

/// The outcome of a certificate request.
pub(super) fn request_state(object: &Value) -> String {
    let has = |kind: &str| object::items(object, "/status/conditions").iter().any(|found| found["type"] == kind);
    let mut state = match () {
        () if has("Denied") => "Denied",
        () if has("Approved") => "Approved",
        () => "Pending",
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !text(object, "/status/certificate").is_empty() {
        state.push_str(",Issued");
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_shows_only_its_first_entries() {
        let all: Vec<String> = (1..=5).map(|number| number.to_string()).collect();
        assert_eq!(first_of(&all, "<none>"), "1,2,3 + 2 more...");
        assert_eq!(first_of(&all[..3], "<none>"), "1,2,3");
        assert_eq!(first_of(&[], "<unset>"), "<unset>");
    }
}
