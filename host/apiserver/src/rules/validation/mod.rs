//! Validation of objects: the rules of `metadata` for every kind, and for built-ins those rules that users run
//! into most. It is not the whole of a real server's validation; README.md says so.

mod definitions;

use serde_json::{Value, json};

use crate::cause::Cause;
use crate::object::{self, names, text};
use crate::resources::resource::ResourceType;
use crate::schema::{Judgement, Schema};

/// Errors of the metadata.
pub(crate) fn metadata(resource: &ResourceType, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = object::name(object);
    if let Err(why) = check_name(resource, name) {
        causes.push(Cause::invalid("metadata.name", &json!(name), &why));
    }
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        if let Err(why) = names::check_label_key(key) {
            causes.push(Cause::invalid("metadata.labels", &json!(key), &why));
        }
        if let Err(why) = names::check_label_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid("metadata.labels", value, &why));
        }
    }
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    for key in annotations.into_iter().flatten().map(|(key, _)| key) {
        if let Err(why) = names::check_label_key(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &json!(key), &why));
        }
    }
    for (index, finalizer) in object::finalizers(object).into_iter().enumerate() {
        if let Err(why) = names::check_label_key(finalizer) {
            causes.push(Cause::invalid(format!("metadata.finalizers[{index}]"), &json!(finalizer), &why));
        }
    }
    owner_references(object, &mut causes);
    causes
}

fn check_name(resource: &ResourceType, name: &str) -> Result<(), String> {
    match (resource.id.group.as_str(), resource.kind.as_str()) {
        ("", "Namespace" | "Service") => names::check_dns_label(name),
        ("rbac.authorization.k8s.io", _) => names::check_path_segment(name),
        _ => names::check_subdomain(name),
    }
}

fn owner_references(object: &Value, causes: &mut Vec<Cause>) {
    let owners = object::items(object, "/metadata/ownerReferences");
    for (index, owner) in owners.iter().enumerate() {
        for key in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, &format!("/{key}")).is_empty() {
                causes.push(Cause::invalid(
                    format!("metadata.ownerReferences[{index}].{key}"),
                    &json!(""),
                    &format!("{key} must not be empty"),
                ));
            }
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
        causes.push(Cause::invalid("metadata.ownerReferences", &json!(owners), &why));
    }
}

/// Judges a custom resource, beside its metadata. Its rules count on the types that the schema asks for, so
/// they are left out if what is wrong may break that.
pub(crate) fn custom(schema: &Schema, object: &Value, previous: Option<&Value>) -> Judgement {
    const BLOCKING: [&str; 5] = [
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    ];
    let mut causes = schema.validate(object, previous);
    if !schema.has_rules() {
        return Judgement { causes, warnings: Vec::new() };
    }
    if causes.iter().any(|cause| BLOCKING.contains(&cause.reason)) {
        let why = "some validation rules were not checked because the object was invalid; correct the existing errors \
                   to complete validation";
        causes.push(Cause::invalid("<nil>", &Value::Null, why));
        return Judgement { causes, warnings: Vec::new() };
    }
    let found = schema.check_rules(object, previous);
    causes.extend(found.causes);
    Judgement { causes, warnings: found.warnings }
}

/// Errors of a built-in object beside its metadata.
pub(crate) fn builtin(resource: &ResourceType, object: &Value, previous: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    match (resource.id.group.as_str(), resource.kind.as_str()) {
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            workload(object, previous, &mut causes);
        }
        ("batch", "Job") => containers(&object["spec"]["template"]["spec"], "spec.template.spec", &mut causes),
        ("", "Pod") => containers(&object["spec"], "spec", &mut causes),
        ("", "Service") => service(object, previous, &mut causes),
        ("", "ConfigMap" | "Secret") => immutable_data(object, previous, &mut causes),
        ("apiextensions.k8s.io", _) => causes.extend(definitions::validate(object, previous)),
        _ => {}
    }
    causes
}

fn workload(object: &Value, previous: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    let replicas = &spec["replicas"];
    if !replicas.is_null() && replicas.as_i64().is_none_or(|replicas| replicas < 0) {
        causes.push(Cause::invalid("spec.replicas", replicas, "must be greater than or equal to 0"));
    }
    let selector = &spec["selector"];
    let match_labels = selector.get("matchLabels").and_then(Value::as_object);
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let labels = &spec["template"]["metadata"]["labels"];
    if selector.is_null() {
        causes.push(Cause::required("spec.selector", ""));
        // No selector selects nothing, so it does not match the template either.
        let why = "`selector` does not match template `labels`";
        causes.push(Cause::invalid("spec.template.metadata.labels", labels, why));
    } else if match_labels.is_none_or(serde_json::Map::is_empty) && expressions.is_none_or(Vec::is_empty) {
        causes.push(Cause::invalid("spec.selector", selector, "empty selector is invalid for deployment"));
    } else if !match_labels.into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value)) {
        let why = "`selector` does not match template `labels`";
        causes.push(Cause::invalid("spec.template.metadata.labels", labels, why));
    }
    if let Some(previous) = previous
        && previous["spec"]["selector"] != *selector
    {
        causes.push(Cause::invalid("spec.selector", selector, "field is immutable"));
    }
    containers(&spec["template"]["spec"], "spec.template.spec", causes);
}

fn containers(pod: &Value, field: &str, causes: &mut Vec<Cause>) {
    let containers = object::items(pod, "/containers");
    let field = format!("{field}.containers");
    if containers.is_empty() {
        causes.push(Cause::required(field, ""));
        return;
    }
    for (index, container) in containers.iter().enumerate() {
        let name = &container["name"];
        match name.as_str() {
            None | Some("") => causes.push(Cause::required(format!("{field}[{index}].name"), "")),
            Some(text) => {
                if let Err(why) = names::check_dns_label(text) {
                    causes.push(Cause::invalid(format!("{field}[{index}].name"), name, &why));
                }
            }
        }
        if containers[..index].iter().any(|earlier| earlier["name"] == *name) {
            causes.push(Cause {
                reason: "FieldValueDuplicate",
                message: format!("Duplicate value: {name}"),
                field: format!("{field}[{index}].name"),
            });
        }
        if text(container, "/image").is_empty() {
            causes.push(Cause::required(format!("{field}[{index}].image"), ""));
        }
        for (position, port) in object::items(container, "/ports").iter().enumerate() {
            let place = format!("{field}[{index}].ports[{position}]");
            port_number(&port["containerPort"], &format!("{place}.containerPort"), causes);
        }
    }
}

fn port_number(port: &Value, field: &str, causes: &mut Vec<Cause>) {
    if port.as_i64().is_none_or(|port| !(1..=65_535).contains(&port)) {
        let shown = if port.is_null() { &json!(0) } else { port };
        causes.push(Cause::invalid(field, shown, "must be between 1 and 65535, inclusive"));
    }
}

fn service(object: &Value, previous: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    let kind = &spec["type"];
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !kinds.contains(&kind.as_str().unwrap_or_default()) {
        causes.push(Cause::not_supported("spec.type", kind, &kinds));
    }
    let ports = object::items(spec, "/ports");
    let headless = spec["clusterIP"] == json!("None");
    if ports.is_empty() && !headless && kind != "ExternalName" {
        causes.push(Cause::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        let place = format!("spec.ports[{index}]");
        if ports.len() > 1 && text(port, "/name").is_empty() {
            causes.push(Cause::required(format!("{place}.name"), ""));
        }
        port_number(&port["port"], &format!("{place}.port"), causes);
        let protocols = ["SCTP", "TCP", "UDP"];
        if !protocols.contains(&text(port, "/protocol")) {
            causes.push(Cause::not_supported(format!("{place}.protocol"), &port["protocol"], &protocols));
        }
        if port["targetPort"].is_number() {
            port_number(&port["targetPort"], &format!("{place}.targetPort"), causes);
        }
    }
    let Some(previous) = previous else { return };
    let before = text(previous, "/spec/clusterIP");
    let keeps_address = previous["spec"]["type"] != "ExternalName" && kind != "ExternalName";
    if keeps_address && !before.is_empty() && before != text(object, "/spec/clusterIP") {
        causes.push(Cause::invalid("spec.clusterIPs[0]", &spec["clusterIPs"], "may not change once set"));
    }
}

fn immutable_data(object: &Value, previous: Option<&Value>, causes: &mut Vec<Cause>) {
    let Some(previous) = previous.filter(|previous| previous["immutable"] == json!(true)) else { return };
    for key in ["data", "binaryData"] {
        if previous.get(key) != object.get(key) {
            causes.push(Cause::forbidden(key, "field is immutable when `immutable` is set"));
        }
    }
    if object["immutable"] != json!(true) {
        causes.push(Cause::forbidden("immutable", "field is immutable when `immutable` is set"));
    }
}
