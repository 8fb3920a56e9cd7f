//! Validates `metadata`, which has the same rules for every kind.

use serde_json::{Value, json};

use crate::cause::Cause;
use crate::object::{self, names, text};
use crate::resources::resource::ResourceType;

/// All errors in an object's metadata.
pub(crate) fn metadata(resource: &ResourceType, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let prefix = text(object, "/metadata/generateName");
    // The prefix may end with a dash, because the generated name continues after it. As in `maskTrailingDash` in
    // `apimachinery/pkg/api/validation/generic.go`.
    let before = prefix.strip_suffix('-').and_then(|before| before.get(..before.len().checked_sub(1)?));
    let likely = before.map_or_else(|| prefix.to_owned(), |before| format!("{before}a"));
    if !prefix.is_empty()
        && let Err(why) = check_name(resource, &likely)
    {
        causes.push(Cause::invalid("metadata.generateName", &json!(prefix), &why));
    }
    let name = object::name(object);
    if let Err(why) = check_name(resource, name) {
        causes.push(Cause::invalid("metadata.name", &json!(name), &why));
    }
    labels_and_annotations(object, "metadata", &mut causes);
    finalizers(resource, object, &mut causes);
    owner_references(object, "metadata", &mut causes);
    causes
}

/// Errors in the labels and annotations of an object whose metadata is at the path `at`.
pub(super) fn labels_and_annotations(object: &Value, at: &str, causes: &mut Vec<Cause>) {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        keys(&format!("{at}.labels"), key, key, causes);
        if let Err(why) = names::check_label_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid(format!("{at}.labels"), value, &why));
        }
    }
    annotations(&object["metadata"]["annotations"], &format!("{at}.annotations"), causes);
}

/// Errors in the annotations at a path, like `ValidateAnnotations` in `apimachinery/pkg/api/validation/objectmeta.go`.
pub(super) fn annotations(annotations: &Value, at: &str, causes: &mut Vec<Cause>) {
    const BYTES_MAX: usize = 256 << 10;
    let Some(annotations) = annotations.as_object() else { return };
    for key in annotations.keys() {
        keys(at, key, &key.to_lowercase(), causes);
    }
    let bytes: usize = annotations.iter().map(|(key, text)| key.len() + text.as_str().map_or(0, str::len)).sum();
    if bytes > BYTES_MAX {
        causes.push(Cause::too_long(at, BYTES_MAX));
    }
}

/// Checks a key. `checked` is the form of the key to which the rules apply.
fn keys(field: &str, key: &str, checked: &str, causes: &mut Vec<Cause>) {
    let errors = names::label_key_errors(checked);
    causes.extend(errors.iter().map(|why| Cause::invalid(field, &json!(key), why)));
}

fn finalizers(resource: &ResourceType, object: &Value, causes: &mut Vec<Cause>) {
    const EXTENSIONS: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];
    const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
    let finalizers = object::finalizers(object);
    for finalizer in &finalizers {
        keys("metadata.finalizers", finalizer, finalizer, causes);
    }
    if ["orphan", "foregroundDeletion"].iter().all(|collector| finalizers.contains(collector)) {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(Cause::invalid("metadata.finalizers", &json!(finalizers), why));
    }
    // Built-in kinds have one more rule. Custom resources, and groups such as that of definitions, do not have it.
    let is_core = resource.custom.is_none() && !EXTENSIONS.contains(&resource.id.group.as_str());
    for (index, finalizer) in finalizers.iter().enumerate() {
        if is_core && !finalizer.contains('/') && !STANDARD.contains(finalizer) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(format!("metadata.finalizers[{index}]"), &json!(finalizer), why));
        }
    }
}

fn check_name(resource: &ResourceType, name: &str) -> Result<(), String> {
    match (resource.id.group.as_str(), resource.kind.as_str()) {
        ("", "Namespace" | "Service") | ("apps", "StatefulSet") => names::check_dns_label(name),
        ("rbac.authorization.k8s.io", _) => names::check_path_segment(name),
        ("certificates.k8s.io", "CertificateSigningRequest") | ("policy", "PodDisruptionBudget") => Ok(()),
        _ => names::check_subdomain(name),
    }
}

/// Errors in the owner references of an object whose metadata is at the path `at`.
pub(super) fn owner_references(object: &Value, at: &str, causes: &mut Vec<Cause>) {
    let field = format!("{at}.ownerReferences");
    let owners = object::items(object, "/metadata/ownerReferences");
    for owner in owners {
        let version = text(owner, "/apiVersion");
        if version.is_empty() || version.matches('/').count() > 1 {
            let why = "version must not be empty";
            causes.push(Cause::invalid(format!("{field}.apiVersion"), &json!(version), why));
        }
        for key in ["kind", "name", "uid"] {
            if text(owner, &format!("/{key}")).is_empty() {
                causes.push(Cause::invalid(format!("{field}.{key}"), &json!(""), "must not be empty"));
            }
        }
        if version == "v1" && text(owner, "/kind") == "Event" {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(Cause::invalid_shown(&field, &owner_text(owner), why));
        }
    }
    let controllers: Vec<&Value> = owners.iter().filter(|owner| owner["controller"] == json!(true)).collect();
    if let [first, second, ..] = controllers.as_slice() {
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {}/{} and {}/{}",
            text(first, "/kind"),
            text(first, "/name"),
            text(second, "/kind"),
            text(second, "/name")
        );
        let all: Vec<String> = owners.iter().map(owner_text).collect();
        causes.push(Cause::invalid_shown(&field, &format!("[{}]", all.join(",")), &why));
    }
}

/// An owner reference as text, with its fields in the order of the Go struct.
fn owner_text(owner: &Value) -> String {
    let members = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let there = members.iter().filter_map(|key| Some(format!("{key:?}:{}", owner.get(*key)?)));
    format!("{{{}}}", there.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::builtin;

    fn errors(metadata: &Value) -> Vec<String> {
        let resource =
            builtin::resources().into_iter().find(|resource| resource.kind == "ConfigMap").expect("config maps");
        let mut object = json!({ "metadata": metadata });
        object["metadata"]["name"] = json!("a");
        super::metadata(&resource, &object).iter().map(Cause::to_string).collect()
    }

    #[test]
    fn a_finalizer_has_a_domain_or_is_a_known_one() {
        assert_eq!(errors(&json!({ "finalizers": ["a/b", "orphan", "kubernetes"] })), Vec::<String>::new());
        let why = "name is neither a standard finalizer name nor is it fully qualified";
        let expected = format!("metadata.finalizers[0]: Invalid value: \"a\": {why}");
        assert_eq!(errors(&json!({ "finalizers": ["a"] })), [expected]);
        let both = errors(&json!({ "finalizers": ["orphan", "foregroundDeletion"] }));
        assert!(both[0].ends_with("finalizer orphan and foregroundDeletion cannot be both set"), "{both:?}");
    }

    #[test]
    fn annotations_are_limited_to_256_kib_in_total() {
        let texts = |length: usize| json!({ "annotations": { "a": "x".repeat(1 << 17), "b": "x".repeat(length) } });
        assert_eq!(errors(&texts((1 << 17) - 2)), Vec::<String>::new());
        assert_eq!(
            errors(&texts((1 << 17) - 1)),
            ["metadata.annotations: Too long: may not be more than 262144 bytes"]
        );
    }

    #[test]
    fn a_prefix_of_names_must_begin_one() {
        assert_eq!(errors(&json!({ "generateName": "a-" })), Vec::<String>::new());
        let found = errors(&json!({ "generateName": "-" }));
        assert!(found[0].starts_with("metadata.generateName: Invalid value: \"-\""), "{found:?}");
    }

    #[test]
    fn owner_references_are_validated() {
        let owner = |version: &str, kind: &str| {
            errors(&json!({ "ownerReferences": [{ "apiVersion": version, "kind": kind, "name": "o", "uid": "1" }] }))
        };
        assert_eq!(owner("a/b", "Event"), Vec::<String>::new());
        let expected = "metadata.ownerReferences.apiVersion: Invalid value: \"a/b/c\": version must not be empty";
        assert_eq!(owner("a/b/c", "X"), [expected]);
        let shown = r#"{"apiVersion":"v1","kind":"Event","name":"o","uid":"1"}"#;
        let why = "/v1, Kind=Event is disallowed from being an owner";
        assert_eq!(owner("v1", "Event"), [format!("metadata.ownerReferences: Invalid value: {shown}: {why}")]);
    }
}
